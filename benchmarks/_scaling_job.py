# SPDX-License-Identifier: Apache-2.0
"""The constants of the scaling model, measured in a job; PE 0 prints JSON.

``flightshmem run -n N -m benchmarks._scaling_job ROWS_PER_PE REPEATS``. Wall seconds are the slowest PE's,
processor seconds the mean over the PEs; of the repeats the least counts, since other programs only add.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._exchange_tables import NUMERIC, PARTS, fact_part
from benchmarks._scaling_model import GATHER_BYTES, WIDE_COLUMNS
from flightshmem import _core, heap
from flightshmem.runtime import current

Figures = dict[str, float]


def timed(run: Callable[[], Any], repeats: int, calls: int = 1) -> tuple[float, float]:
    """Give wall and processor seconds of a call; the first run, which warms up, does not count."""
    runtime, walls, processors = current(), [], []
    for _ in range(repeats + 1):
        runtime.barrier()
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(calls):
            run()
        processors.append(time.process_time() - processor)
        runtime.barrier()
        walls.append(time.perf_counter() - wall)
    own = np.array([min(processors[1:]) / calls])
    return min(walls[1:]) / calls, float(runtime.reduce(own)[0]) / runtime.n_pes


def exchange_of(table: pa.Table) -> Callable[[], Any]:
    """Partition and scatter; the result is dropped."""
    runtime, (batch,) = current(), table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]

    def run() -> None:
        pes = _core.hash_partition(batch.select(["k"]), runtime.n_pes)
        _core.scatter(runtime.heap, table.schema, [batch], [pes], staging_bytes=runtime.staging_bytes)

    return run


def barriers_in(run: Callable[[], Any]) -> int:
    """Count a PE's barriers; the counter lies at byte 64 of its segment, see reserved_area.h."""
    runtime = current()

    def count() -> int:
        return int.from_bytes(runtime.transport.get(runtime.pe, 64, 8), "little")

    before = count()
    run()
    return count() - before


def put_seconds(repeats: int) -> Figures:
    """Put to the next PE: many bytes at once, and many times 8 bytes."""
    from shmem4py import shmem

    runtime, n_bytes, n_puts = current(), 16 << 20, 1000
    target, source = heap.symmetric_empty((n_bytes,), np.uint8), np.ones(n_bytes, np.uint8)
    to = (runtime.pe + 1) % runtime.n_pes

    def large() -> None:
        shmem.put(target, source, to)
        shmem.quiet()

    def small() -> None:
        for _ in range(n_puts):
            shmem.put_nbi(target[:8], source[:8], to)
        shmem.quiet()

    return {
        "put_byte": timed(large, repeats)[0] / n_bytes,
        "put": timed(small, repeats)[0] / n_puts,
    }


def main() -> None:
    rows, repeats = int(sys.argv[1]), int(sys.argv[2])
    runtime, one = current(), np.ones(1)
    time.sleep(1)  # the thread that touches the heap has a core to itself meanwhile
    table = fact_part(runtime.pe, rows * PARTS).select(NUMERIC)
    payload = bytes(GATHER_BYTES)
    calls, often = 20, (40 if runtime.n_pes <= 2 else 2) * repeats
    empty = exchange_of(table.slice(0, 0))
    figures: Figures = {}
    figures["empty"], figures["empty_processor"] = timed(empty, 2 * repeats, calls)
    wide = pa.table({f"c{i}": pa.array([], pa.float64()) for i in range(WIDE_COLUMNS)})
    wide_empty = exchange_of(wide.rename_columns(["k", *wide.column_names[1:]]))
    figures["wide_processor"] = timed(wide_empty, repeats)[1]
    figures["full"], figures["full_processor"] = timed(exchange_of(table), repeats)
    figures["barrier"] = timed(runtime.transport.barrier, often, calls)[0]
    figures["reduce"] = timed(lambda: runtime.transport.reduce(one, "min"), often, calls)[0]
    figures["gather"] = timed(lambda: runtime.transport.allgather(payload), repeats)[0]
    figures["barriers"] = barriers_in(empty)
    is_away = runtime.n_pes > 1 and not runtime.transport.has_peer(1 - min(runtime.pe, 1))
    if is_away and find_spec("shmem4py"):
        figures |= put_seconds(repeats)
    if runtime.pe == 0:
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
