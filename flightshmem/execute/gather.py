# SPDX-License-Identifier: Apache-2.0
"""Bring all PEs' rows to every PE."""

from __future__ import annotations

import pyarrow as pa

from flightshmem import exchange
from flightshmem.runtime import Runtime

# Below this, one message per PE is cheaper than an exchange through the heap.
_SMALL_BYTES = 1 << 20


def whole(runtime: Runtime, table: pa.Table) -> pa.Table:
    """Return the rows of all PEs, in PE order. Collective; large tables land in the heap."""
    if runtime.n_pes == 1:
        return table
    sizes = [int(size) for size in runtime.allgather(str(table.nbytes).encode())]
    if sum(sizes) <= _SMALL_BYTES:
        return pa.concat_tables(small(runtime, table))
    return exchange.replicate(table, keep_types=True)


def small(runtime: Runtime, table: pa.Table) -> list[pa.Table]:
    """Return every PE's table, in PE order. Collective; as IPC messages, not through the heap."""
    if runtime.n_pes == 1:
        return [table]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    payloads = runtime.allgather(sink.getvalue().to_pybytes())
    return [pa.ipc.open_stream(payload).read_all() for payload in payloads]
