# SPDX-License-Identifier: Apache-2.0
"""What every benchmark shares: rows, interleaved medians, peak memory of a process tree, the command line.

A benchmark module defines ``rows(quick: bool) -> list[Row]`` and ends with::

    if __name__ == "__main__":
        raise SystemExit(main("name", rows))

A ratio above 1 always means that ours is better, whatever the unit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from rich.console import Console
from rich.table import Table

PACKAGES = (
    "flightshmem",
    "pyarrow",
    "numpy",
    "pandas",
    "xgboost-cpu",
    "polars",
    "duckdb",
    "datafusion",
    "dask",
    "mpi4py",
)


@dataclass(frozen=True)
class Row:
    """One comparison; ``note`` says exactly what was measured."""

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    note: str = ""

    @classmethod
    def compare(
        cls, name: str, ours: float, peer: tuple[str, float], unit: str, better: Literal["lower", "higher"]
    ) -> Row:
        """Build a row, with the ratio the right way round for ``better``."""
        peer_name, theirs = peer
        over, under = (theirs, ours) if better == "lower" else (ours, theirs)
        return cls(name, ours, theirs, peer_name, unit, over / under if under else float("inf"))


def interleaved_medians(candidates: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Run the candidates in turn, ``repeats`` times over, and take the median of what each returns.

    Turn about, so that a slow minute of the machine falls on all of them alike.
    """
    results: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, measure in candidates.items():
            results[name].append(measure())
    return {name: statistics.median(values) for name, values in results.items()}


def process_tree(pid: int) -> list[int]:
    """Give ``pid`` and all its descendants that are alive now."""
    tree = [pid]
    for parent in tree:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                tree += [int(child) for child in (task / "children").read_text().split()]
        except OSError:  # it ended while we looked
            continue
    return tree


def pss_bytes(pids: Sequence[int]) -> int:
    """Sum the proportional set size: a page shared by n processes counts 1/n in each, so once in all."""
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024


class PeakPss:
    """Sample the PSS of a process tree from a thread; ``peak_bytes`` is the highest sum seen."""

    def __init__(self, pid: int, interval_s: float = 0.02) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, pss_bytes(process_tree(self._pid)))
            if self._stop.wait(self._interval_s):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()


@dataclass(frozen=True)
class Finished:
    """How a measured command ended."""

    stdout: str
    peak_bytes: int


def run_measured(command: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None) -> Finished:
    """Run a command to its end while sampling the PSS of it and all its children."""
    full_env = {**os.environ, **(env or {})}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=full_env
    )
    with process, PeakPss(process.pid) as peak:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            raise
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{out}\n{err}")
    return Finished(out, peak.peak_bytes)


def machine() -> dict[str, str]:
    """Describe where and with what the figures were taken."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    model = cpus[0].split(":", 1)[1].strip() if cpus else platform.machine()
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": f"{len(os.sched_getaffinity(0))} cores, {model}, {memory_gib:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "commit": commit(),
    } | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source" if package == "flightshmem" else "not installed"


def commit() -> str:
    """Name the commit that is measured; "+" when the working copy differs from it."""
    here = Path(__file__).parent
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _print(rows: Sequence[Row], about: Mapping[str, str], console: Console) -> None:
    console.print("  ".join(f"{key} {value}" for key, value in about.items()), highlight=False, style="dim")
    table = Table("row", "ours", "peer", "unit", "ratio (above 1: ours is better)", "peer is")
    for row in rows:
        cells = (f"{row.ours:,.4g}", f"{row.peer:,.4g}", row.unit, f"{row.ratio:.2f}", row.peer_name)
        table.add_row(row.name, *cells)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"{row.name}: {row.note}", highlight=False)


def main(
    name: str, rows: Callable[[bool], list[Row]], parents: Sequence[argparse.ArgumentParser] = ()
) -> int:
    """Run a benchmark from the command line: print its rows and, if asked, write them as JSON.

    ``parents``: parsers of options that the benchmark looks at itself.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", parents=parents)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, not how fast")
    arguments = parser.parse_args()
    about = machine()
    measured = rows(arguments.quick)
    _print(measured, about, Console(width=None if sys.stdout.isatty() else 160))
    if arguments.json:
        content = {"benchmark": name, "about": about, "rows": [asdict(row) for row in measured]}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0
