# SPDX-License-Identifier: Apache-2.0
"""A model of how the exchange scales, beside what is measured; docs/scaling.md is made from it.

``python -m benchmarks.scaling [--quick] [--json FILE] [--found FILE] [--plot FILE.svg] [--table]``. Small
jobs give the constants; exchanges of other sizes on 1 to 4 PEs are compared with the model, with shared
memory and without (UCX_TLS=tcp,self). ``ours`` is the model, ``peer`` the measurement: at a ratio of 1 the
model is true.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks._harness import Row, machine, main
from benchmarks._scaling_model import Constants, Job
from benchmarks.exchange import Measurement
from flightshmem.runtime.openshmem import launcher_path

TCP = {"UCX_TLS": "tcp,self"}
EXTRAPOLATED = [2**k for k in range(1, 11)]
PLOTTED_ROWS = 5_000_000
LAYOUTS = {"one node": 1024, "nodes of 32 PEs": 32, "nodes of 2 PEs": 2}

Found = dict[str, Any]


def measure(n: int, rows: int, repeats: int, *, away: bool = False) -> dict[str, float]:
    """Run one job of benchmarks._scaling_job; ``away``: PEs have no memory in common."""
    launch = [sys.executable, "-m", "flightshmem", "run", "-n", str(n), "--heap", "256M"]
    transport = ["--transport", "openshmem"] if away else []
    target = ["-m", "benchmarks._scaling_job", str(rows), str(repeats)]
    found = Measurement((*launch, *transport, *target), TCP if away else None).run()
    figures: dict[str, float] = dict(found)  # type: ignore[arg-type]
    wanted = Job(n, n, rows).collectives
    if not away and figures["barriers"] != wanted:
        raise RuntimeError(f"the model has {wanted} collectives per exchange, got {figures['barriers']}")
    return figures


def measure_all(quick: bool) -> Found:
    """Measure the constants, and other exchanges to compare the model with."""
    rows, repeats = (20_000, 1) if quick else (1_000_000, 7)
    sizes = (1, 2, 3) if quick else (1, 2, 4, 8, 16, 32)
    compared = (1, 2) if quick else (1, 2, 3, 4)
    compared_rows = rows * 5 // 2
    found: Found = {"about": machine(), "rows": rows, "compared_rows": compared_rows}
    found["cores"] = len(os.sched_getaffinity(0))
    found["on_node"] = {n: measure(n, rows, repeats if n <= 8 else 2) for n in sizes}
    found["compared"] = {n: measure(n, compared_rows, 2 * repeats) for n in compared}
    if launcher_path() is None or not find_spec("shmem4py"):
        print("not installed here, rows left out: those without shared memory")
        return found
    found["network"] = measure(2, rows, repeats, away=True)
    found["compared_away"] = {n: measure(n, compared_rows, 3, away=True) for n in compared if n > 1}
    return found


def constants_of(found: Found) -> Constants:
    on_node = {int(n): dict(figures) for n, figures in found["on_node"].items()}
    for n, figures in found["compared"].items():  # PEs that happen to share a core are slow in one job
        if int(n) in on_node:
            on_node[int(n)]["barrier"] = min(on_node[int(n)]["barrier"], figures["barrier"])
    return Constants.of(on_node, found.get("network"), found["rows"])


def compare(found: Found) -> list[Row]:
    """Set the model beside every exchange that was measured to check it."""
    constants, compared = constants_of(found), []
    for where, suffix in (("compared", ""), ("compared_away", "_tcp")):
        for key, figures in found.get(where, {}).items():
            n = int(key)
            per_core = max(n / found["cores"], 1)
            near = n if where == "compared" else 1
            for what, rows in (("full", found["compared_rows"]), ("empty", 0)):
                job = Job(n, near, rows, per_core=per_core)
                name = f"scaling_model_{n}pe{suffix}" + ("" if rows else "_no_rows")
                times = constants.seconds(job) * 1e3, ("measured", figures[what] * 1e3)
                row = Row.compare(name, *times, "ms", "lower")
                note = f"{rows:,} rows of 4 columns per PE; the model is {row.ours / row.peer - 1:+.0%} off"
                if near == n:
                    note += processor_note(constants, job, figures[f"{what}_processor"])
                compared.append(replace(row, note=note))
    return compared


def processor_note(constants: Constants, job: Job, measured: float) -> str:
    """Compare what other programs on the machine disturb least; with PEs that wait by sleeping only."""
    parts = constants.parts(replace(job, per_core=1))
    model = parts["write"] + parts["plan"]
    times = f"{model * 1e3:.3g} ms, measured {measured * 1e3:.3g} ms"
    return f"; processor time {times}, {model / measured - 1:+.0%}"


def extrapolated(n: int, near: int) -> Job:
    return Job(n, min(n, near), PLOTTED_ROWS)


def print_table(found: Found) -> None:
    """Print the constants and the extrapolation as Markdown."""
    constants = constants_of(found)
    print(f"\nabout: {found['about']}\n\n| PEs | ns per row |\n|---:|---:|")
    for n, seconds in zip(constants.sizes, constants.row, strict=True):
        print(f"| {n} | {seconds * 1e9:.1f} |")
    a, b, c = (term * 1e6 for term in constants.plan)
    print(f"\nplan, us: {a:.4g} + {b:.4g} n + {c:.4g} n^2 columns")
    print(f"barrier of 2 PEs, us: {constants.barrier * 1e6:.2f}")
    for name, value in (constants.network or {}).items():
        print(f"network {name}: {value * 1e9:.3g} ns")
    for title, near in LAYOUTS.items():
        columns = ("write", "plan", "collectives", "counts", "puts")
        print(
            f"\n{title}:\n\n| PEs | {' | '.join(columns)} | sum, ms | puts per PE | MB leaving | MB counts |"
        )
        print("|---:" * (len(columns) + 5) + "|")
        for n in EXTRAPOLATED:
            job = extrapolated(n, near)
            parts = constants.parts(job)
            cells = [f"{parts.get(name, 0) * 1e3:,.1f}" for name in columns]
            cells += [f"{constants.seconds(job) * 1e3:,.1f}", f"{job.puts:,}"]
            cells += [f"{job.bytes_leaving / 1e6:,.1f}", f"{job.n * job.counts_bytes / 1e6:,.3f}"]
            print(f"| {n:,} | {' | '.join(cells)} |")


def plot(found: Found, target: Path) -> None:
    """Draw time and bytes of a PE against the number of PEs."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "scaling", "font.size": 9}
    from matplotlib import pyplot

    constants = constants_of(found)
    figure, (times, parts, sizes) = pyplot.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for title, near in LAYOUTS.items():
        jobs = [extrapolated(n, near) for n in EXTRAPOLATED]
        times.plot(EXTRAPOLATED, [constants.seconds(job) for job in jobs], label=title)
    times.set(title="Model: an exchange of 5 M rows per PE", ylabel="seconds")
    jobs = [extrapolated(n, 32) for n in EXTRAPOLATED if n > 32]
    for name in constants.parts(jobs[-1]):
        parts.plot([job.n for job in jobs], [constants.parts(job)[name] for job in jobs], label=name)
    parts.set(title="Model: its parts, nodes of 32 PEs", ylabel="seconds")
    jobs = [extrapolated(n, 2) for n in EXTRAPOLATED]
    sizes.plot(EXTRAPOLATED, [job.n * job.counts_bytes for job in jobs], label="counts received")
    sizes.plot(EXTRAPOLATED[1:], [job.bytes_leaving for job in jobs[1:]], label="rows put, nodes of 2 PEs")
    sizes.set(title="Bytes of a PE", ylabel="bytes")
    for axes in (times, parts, sizes):
        axes.set(xscale="log", yscale="log", xlabel="PEs")
        axes.set_xticks(EXTRAPOLATED[1::2], [f"{n}" for n in EXTRAPOLATED[1::2]], minor=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(target, metadata={"Date": None})


def rows(options: argparse.Namespace, quick: bool) -> list[Row]:
    """Measure, or take what an earlier run has found."""
    if options.found and options.found.exists():
        found = json.loads(options.found.read_text())
    else:
        found = measure_all(quick)
        if options.found:
            options.found.write_text(json.dumps(found, indent=1) + "\n")
    if options.table:
        print_table(found)
    if options.plot:
        plot(found, options.plot)
    return compare(found)


def options_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--found", type=Path, metavar="FILE", help="measurements: read if it exists, else written"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the model up to 1,024 PEs")
    parser.add_argument("--table", action="store_true", help="print constants and model as Markdown")
    return parser


def run() -> int:
    own = options_parser()
    options, _ = own.parse_known_args()
    return main("scaling", partial(rows, options), parents=[own])


if __name__ == "__main__":
    raise SystemExit(run())
