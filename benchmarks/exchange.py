# SPDX-License-Identifier: Apache-2.0
"""The exchange, joins, group-bys and sorts on 2 PEs of one thread, beside the peers.

``python -m benchmarks.exchange [--quick] [--json FILE]``. 10 M rows: k int64 uniform over 1 M, g int64 in
0..99, s one of 100 strings, v and w float64; a dimension table of 1 M unique k and x. Every measurement runs
in fresh processes, ours and the peers in turn, three rounds; the medians are compared. Every engine's
result is checked against ours: its rows, and the sums of its columns.

``*_vs_memcpy``: both PEs copy the same bytes to the heap at once. ``*_vs_best``: the fastest of Polars
(both engines), DuckDB and DataFusion with two threads, each of which is a row of its own, too. Ours spreads
results over both PEs' heaps; theirs end in their own memory.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from shutil import which
from statistics import median
from typing import Any

from benchmarks._exchange_tables import OPERATIONS
from benchmarks._harness import Row, main
from flightshmem.runtime.memory import available_bytes
from flightshmem.runtime.openshmem import launcher_path

ROUNDS = 3
TIMEOUT_S = 600
ENGINES = {
    "polars_streaming": "polars",
    "polars_in_memory": "polars",
    "duckdb": "duckdb",
    "datafusion": "datafusion",
}
BARS_US = {"barrier": 1.0, "allreduce_8b": 1.5}
HUNDRED_MILLION = 100_000_000
HUNDRED_MILLION_BYTES = 12 << 30

Results = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Measurement:
    """A command that prints results as JSON on its last line."""

    command: tuple[str, ...]
    environment: Mapping[str, str] | None = None

    def run(self) -> Results:
        """Run it to its end."""
        environment = {**os.environ, **(self.environment or {})}
        done = subprocess.run(
            self.command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(self.command)} ended with {done.returncode}:\n{done.stderr}")
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        results: Results = json.loads(lines[-1])
        return results


def job(what: str, rows: int, repeats: int, *options: str, **environment: str) -> Measurement:
    """Describe one of our measurements, in a job of its own."""
    heap = f"{min(max(rows // 5000, 256), 2048)}M"
    launch = (sys.executable, "-m", "flightshmem", "run", "--heap", heap, *(options or ("-n", "2")))
    target = ("-m", "benchmarks._exchange_job", what, str(rows), str(repeats))
    return Measurement((*launch, *target), environment)


def measurements(rows: int, repeats: int) -> dict[str, Measurement]:
    """Give everything that can be measured here, by name."""
    ours = {what: job(what, rows, repeats) for what in ("exchanges", "cold", "frames", "latencies")}
    ours["two_pes"] = job("scaling", rows, repeats)
    ours["one_pe"] = job("scaling", rows, repeats, "-n", "1")
    if launcher_path() is not None:
        openshmem = ("-n", "2", "--transport", "openshmem")
        ours["latencies_openshmem"] = job("latencies", rows, repeats, *openshmem)
        if find_spec("shmem4py"):
            ours["offnode"] = job("offnode", rows // 3, repeats, *openshmem, UCX_TLS="tcp,self")
    peers = {}
    arguments = (str(rows), str(repeats))
    for engine, package in {**ENGINES, "dask": "distributed"}.items():
        if find_spec(package):
            program = (sys.executable, "-m", "benchmarks._exchange_engines", engine)
            peers[engine] = Measurement((*program, *arguments))
    if find_spec("mpi4py") and which("mpirun"):
        launch = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
        peers["mpi4py"] = Measurement((*launch, sys.executable, "-m", "benchmarks._exchange_mpi", *arguments))
    report_missing({**ours, **peers})
    return {**ours, **peers}


def report_missing(planned: Mapping[str, Measurement]) -> None:
    """Say which rows cannot be measured here; none is made up."""
    for name in ("latencies_openshmem", "offnode", *ENGINES, "dask", "mpi4py"):
        if name not in planned:
            print(f"not installed here, rows left out: {name}")


def seconds_in(rounds: Sequence[Results]) -> dict[str, float]:
    """Give the median over the rounds of every result."""
    return {name: median(results[name]["seconds"] for results in rounds) for name in rounds[0]}


def compare_checks(found: Mapping[str, Sequence[Results]]) -> None:
    """Raise RuntimeError unless all engines got the same results."""
    wanted: dict[str, tuple[str, list[float]]] = {}
    for measurement, rounds in found.items():
        for results in rounds:
            for name, result in results.items():
                operation = "exchange" if name.startswith("exchange") else name
                numbers = result.get("check")
                if numbers is None or operation == "offnode":
                    continue
                first, expected = wanted.setdefault(operation, (measurement, numbers))
                same = [math.isclose(a, b, rel_tol=1e-9) for a, b in zip(numbers, expected, strict=True)]
                if not all(same):
                    raise RuntimeError(f"{name}: {measurement} got {numbers}, {first} got {expected}")


def rows(quick: bool) -> list[Row]:
    """Measure everything in turn and compare."""
    n_rows, repeats, n_rounds = (100_000, 1, 1) if quick else (10_000_000, 5, ROUNDS)
    planned = measurements(n_rows, repeats)
    found: dict[str, list[Results]] = {name: [] for name in planned}
    for _ in range(n_rounds):
        for name, measurement in planned.items():
            found[name].append(measurement.run())
    compare_checks(found)
    times = {name: seconds_in(rounds) for name, rounds in found.items()}
    compared = [*exchange_rows(times, found), *engine_rows(times), *latency_rows(times)]
    compared.append(weak_scaling(times, n_rows))
    if not quick and available_bytes() > HUNDRED_MILLION_BYTES:
        compared.append(hundred_million(times))
    return compared


def exchange_rows(times: Mapping[str, Mapping[str, float]], found: Mapping[str, Any]) -> list[Row]:
    """Compare exchanges with copies of the same bytes and with other shuffles."""
    ours, cold = times["exchanges"], times["cold"]
    pairs = [
        ("exchange_numeric_vs_memcpy", ours, "exchange_numeric", "exchange_numeric_memcpy"),
        ("exchange_numeric_cold_vs_memcpy", cold, "exchange_numeric_cold", "exchange_numeric_cold_memcpy"),
        ("exchange_string_vs_memcpy", ours, "exchange_string", "exchange_string_memcpy"),
    ]
    compared = []
    for name, results, mine, copy in pairs:
        measurement = "cold" if results is cold else "exchanges"
        n_bytes = found[measurement][0][copy]["bytes"]
        row = faster(name, results[mine], ("memcpy of the same bytes", results[copy]))
        rates = [n_bytes / seconds / 1e9 for seconds in (results[mine], results[copy])]
        note = f"{n_bytes / 1e6:,.0f} MB of each PE: {rates[0]:.1f} GB/s, memcpy {rates[1]:.1f} GB/s"
        compared.append(replace(row, note=note))
    mine = ours["exchange_string"]
    peers = [
        ("exchange_vs_dask", "dask", "exchange_string", "Dask p2p, 2 processes"),
        ("exchange_vs_mpi4py", "mpi4py", "exchange_fresh", "Arrow IPC over MPI_Alltoallv, fresh buffers"),
        ("exchange_vs_mpi4py_warm", "mpi4py", "exchange_warm", "Arrow IPC over MPI_Alltoallv, warm buffers"),
    ]
    compared += [
        faster(name, mine, (what, times[peer][result])) for name, peer, result, what in peers if peer in times
    ]
    if "offnode" in times:
        away = times["offnode"]
        row = faster("offnode_vs_putmem", away["offnode"], ("shmem_putmem", away["offnode_putmem"]))
        compared.append(replace(row, note="no shared memory (UCX_TLS=tcp,self): half of the rows leave a PE"))
    return compared


def engine_rows(times: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Compare frame operations with every engine, and with the best one."""
    compared = []
    for operation in OPERATIONS:
        mine = times["frames"][operation]
        theirs = {engine: times[engine][operation] for engine in ENGINES if engine in times}
        if not theirs:
            continue
        best = min(theirs, key=lambda engine: theirs[engine])
        compared.append(faster(f"{operation}_vs_best", mine, (f"{best}, 2 threads", theirs[best])))
        compared += [
            faster(f"{operation}_vs_{engine}", mine, (f"{engine}, 2 threads", seconds))
            for engine, seconds in theirs.items()
        ]
    return compared


def latency_rows(times: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Compare the smallest collectives with what they may take, on each transport."""
    compared = []
    for transport, measurement in (("posix_shm", "latencies"), ("openshmem", "latencies_openshmem")):
        suffix = "_us" if transport == "posix_shm" else "_us_openshmem"
        for name, bar in BARS_US.items():
            if measurement in times:
                row = Row.compare(
                    name + suffix, times[measurement][name] * 1e6, ("the bar", bar), "us", "lower"
                )
                compared.append(replace(row, note=f"{transport}, called from Python in a loop"))
    return compared


def weak_scaling(times: Mapping[str, Mapping[str, float]], n_rows: int) -> Row:
    """Compare the rows per second of a PE that has a partner with those of a PE alone."""
    both, alone = (n_rows / 2 / times[name]["scatter"] / 1e6 for name in ("two_pes", "one_pe"))
    row = Row.compare("weak_scaling_2pe", both, ("1 PE", alone), "M rows/s per PE", "higher")
    copies = times["one_pe"]["copy"] / times["two_pes"]["copy"]
    note = (
        f"partition by k and scatter {n_rows // 2:,} rows per PE; alone, all rows go to the PE itself. "
        f"The PEs share the memory: copying the same bytes scales by {copies:.2f}"
    )
    return replace(row, note=note)


def hundred_million(times: Mapping[str, Mapping[str, float]]) -> Row:
    """Compare the cost of a row when there are ten times as many."""
    found = job("hundred_million", HUNDRED_MILLION, 2).run()
    large = found["exchange_numeric"]["seconds"] / HUNDRED_MILLION * 1e9
    small = times["exchanges"]["exchange_numeric"] / 10_000_000 * 1e9
    return Row.compare("exchange_numeric_100m_vs_10m", large, ("10 M rows", small), "ns per row", "lower")


def faster(name: str, ours: float, peer: tuple[str, float]) -> Row:
    """Build a row of milliseconds."""
    what, seconds = peer
    return Row.compare(name, ours * 1e3, (what, seconds * 1e3), "ms", "lower")


if __name__ == "__main__":
    raise SystemExit(main("exchange", rows))
