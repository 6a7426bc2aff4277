# SPDX-License-Identifier: Apache-2.0
"""Our side of the exchange benchmark, to be run in a job; PE 0 prints JSON.

``flightshmem run -n 2 -m benchmarks._exchange_job WHAT ROWS REPEATS``; WHAT is a name in ``MEASURES``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import flightshmem as fs
from benchmarks._exchange_tables import NUMERIC, Check, check, dim_part, fact_part
from flightshmem import _core, exchange, heap
from flightshmem.runtime import Runtime, current

Results = dict[str, dict[str, Any]]


def timed(run: Callable[[], Any], repeats: int, warmups: int = 1) -> tuple[float, Any]:
    """Give the median of the slowest PE's seconds, from one barrier to the next, and the last result."""
    runtime, times, result = current(), [], None
    for _ in range(warmups + repeats):
        result = None
        runtime.barrier()
        start = time.perf_counter()
        result = run()
        runtime.barrier()
        times.append(time.perf_counter() - start)
    return median(times[warmups:]), result


def over_pes(numbers: Check) -> Check:
    """Add up every PE's part."""
    return [float(value) for value in current().reduce(np.array(numbers))]


def exchanges(rows: int, repeats: int) -> Results:
    """Shuffle by k, with and without the string column, and copy the same bytes."""
    table = fact_part(current().pe, rows)
    time.sleep(1)  # warm is when the heap has been touched; see cold() for the other
    results: Results = {}
    for name, part in (("exchange_numeric", table.select(NUMERIC)), ("exchange_string", table)):
        seconds, moved = timed(lambda part=part: exchange.shuffle(part, ["k"]), repeats, warmups=3)
        results[name] = {"seconds": seconds, "check": over_pes(check("exchange", moved))}
        del moved
        results[f"{name}_memcpy"] = {"seconds": copy_seconds(part, repeats), "bytes": part.nbytes}
    return results


def copy_seconds(table: pa.Table, repeats: int) -> float:
    """Copy a table's buffers to the heap, all PEs at once."""
    sources = [
        np.frombuffer(buffer, np.uint8)
        for column in table.columns
        for buffer in column.chunk(0).buffers()
        if buffer is not None
    ]
    target = heap.empty(sum(len(source) for source in sources), np.uint8)
    target[:] = 0

    def copy() -> None:
        begin = 0
        for source in sources:
            np.copyto(target[begin : begin + len(source)], source)
            begin += len(source)

    return timed(copy, repeats)[0]


def cold(rows: int, _: int) -> Results:
    """Shuffle once, in a job that has exchanged nothing yet."""
    table = fact_part(current().pe, rows).select(NUMERIC)
    seconds, moved = timed(lambda: exchange.shuffle(table, ["k"]), 1, warmups=0)
    numbers = over_pes(check("exchange", moved))
    del moved
    return {
        "exchange_numeric_cold": {"seconds": seconds, "check": numbers},
        "exchange_numeric_cold_memcpy": {"seconds": copy_seconds(table, 3), "bytes": table.nbytes},
    }


def frames(rows: int, repeats: int) -> Results:
    """Run the frame operations; results end in the heap."""
    pe = current().pe
    fact = fs.from_arrow(fact_part(pe, rows), distributed=True)
    dim = fs.from_arrow(dim_part(pe, rows), distributed=True)
    means = {"v": ("v", "sum"), "w": ("w", "mean")}
    kept = fact[fact["v"] > 0.5]
    plans = {
        "join": fact.merge(dim, on="k"),
        "groupby_1m": fact.groupby("k", as_index=False, sort=False).agg(**means),
        "groupby_100": fact.groupby("s", as_index=False, sort=False).agg(**means),
        "filter_assign": kept.assign(z=kept["v"] * kept["w"] + 1),
        "sort": fact.sort_values("k"),
    }
    results: Results = {}
    for name, plan in plans.items():
        seconds, done = timed(lambda plan=plan: plan.persist(), repeats)
        results[name] = {"seconds": seconds, "check": over_pes(check(name, done.local()))}
        del done
    return results


def hundred_million(rows: int, repeats: int) -> Results:
    """Shuffle the numeric columns only."""
    table = fact_part(current().pe, rows).select(NUMERIC)
    return {"exchange_numeric": {"seconds": timed(lambda: exchange.shuffle(table, ["k"]), repeats)[0]}}


def scaling(rows: int, repeats: int) -> Results:
    """Partition and scatter rows // 2 per PE; with one PE all rows go to itself."""
    runtime = current()
    table = fact_part(runtime.pe, rows).select(NUMERIC)

    def run() -> Any:
        (batch,) = table.to_batches()
        pes = _core.hash_partition(batch.select(["k"]), runtime.n_pes)
        return _core.scatter(runtime.heap, table.schema, [batch], [pes])

    time.sleep(1)
    seconds = timed(run, repeats, warmups=3)[0]
    return {"scatter": {"seconds": seconds}, "copy": {"seconds": copy_seconds(table, repeats)}}


def latencies(_: int, repeats: int) -> Results:
    """Time the smallest collectives."""
    runtime, one = current(), np.ones(1)
    time.sleep(1)  # the thread that touches the heap has a core to itself meanwhile
    calls = {
        "barrier": runtime.transport.barrier,
        "allreduce_8b": lambda: runtime.transport.reduce(one, "min"),
        "allreduce_8b_python": lambda: runtime.reduce(one),
    }
    return {name: {"seconds": seconds_per_call(runtime, call, repeats)} for name, call in calls.items()}


def seconds_per_call(runtime: Runtime, call: Callable[[], Any], repeats: int) -> float:
    count, times = 2000, []
    for _ in range(repeats + 1):
        runtime.barrier()
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    return median(times[1:])


def offnode(rows: int, repeats: int) -> Results:
    """Shuffle between PEs that have no memory in common, and put the bytes that leave a PE."""
    from shmem4py import shmem

    runtime = current()
    assert not runtime.transport.has_peer(1 - runtime.pe), "run this with UCX_TLS=tcp,self"
    table = fact_part(runtime.pe, rows).select(NUMERIC)
    seconds, moved = timed(lambda: exchange.shuffle(table, ["k"]), repeats)
    numbers = over_pes(check("exchange", moved))
    del moved
    source = np.ones(table.nbytes // 2, np.uint8)
    target = heap.symmetric_empty(source.shape, np.uint8)

    def put() -> None:
        shmem.put(target, source, 1 - runtime.pe)
        shmem.quiet()

    return {
        "offnode": {"seconds": seconds, "check": numbers},
        "offnode_putmem": {"seconds": timed(put, repeats)[0], "bytes": source.nbytes},
    }


MEASURES = {m.__name__: m for m in (exchanges, cold, frames, hundred_million, scaling, latencies, offnode)}


def main() -> None:
    what, rows, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    results = MEASURES[what](rows, repeats)
    if current().pe == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
