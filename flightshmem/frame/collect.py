# SPDX-License-Identifier: Apache-2.0
"""Run a frame's plan on all PEs, and give what comes out its place: heap, catalog, files."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

import numpy as np
import pyarrow as pa

from flightshmem import catalog, exchange, heap, runtime
from flightshmem.errors import SchemaError
from flightshmem.execute import SpmdExecutor
from flightshmem.io.memory import TableSource, column_shares
from flightshmem.io.published import partitioning_text
from flightshmem.io.write import write_parts
from flightshmem.plan.aggregates import Aggregation
from flightshmem.plan.nodes import Aggregate, Node, Scan


def optimized(plan: Node) -> Node:
    """Return the plan as it would run."""
    return SpmdExecutor().optimized(plan)


def local_part(plan: Node, each: Callable[[pa.Table], pa.Table] | None = None) -> pa.Table:
    """Compute a plan and return this PE's rows, ``each`` applied to every batch of them. Collective."""
    return SpmdExecutor().execute(plan, each)


def whole(plan: Node) -> pa.Table:
    """Compute a plan and return all rows on every PE, in PE order. Collective."""
    return SpmdExecutor().gather(plan)


def count_rows(plan: Node) -> int:
    """Return the number of rows on all PEs. Collective, except where the source knows it."""
    if isinstance(plan, Scan) and plan.source.rows is not None:
        return plan.source.rows
    size = Aggregation("size", None, "size", pa.int64())
    return int(whole(Aggregate(plan, (), (size,))).column(0)[0].as_py())


def table_source(
    table: pa.Table, name: str, is_part: bool, partitioned_by: tuple[str, ...] | None = None
) -> TableSource:
    """Make a source of a table in memory. Collective if it is a part: sizes are added up."""
    shares = column_shares(table)
    if not is_part:
        return TableSource(table, name, table.num_rows, table.nbytes, False, None, shares)
    sizes = runtime.current().allgather(f"{table.num_rows},{table.nbytes},{table.schema}".encode())
    parts = [size.decode().split(",", 2) for size in sizes]
    for pe, (_, _, schema) in enumerate(parts):
        if schema != parts[0][2]:
            raise SchemaError(
                f"[{name}] all PEs must pass the same columns, got on PE 0: {parts[0][2]}; "
                f"on PE {pe}: {schema}"
            )
    rows, size_bytes = (sum(int(part[i]) for part in parts) for i in (0, 1))
    # Shares of bytes differ between PEs; plans must not.
    return TableSource(table, name, rows, size_bytes, True, partitioned_by)


def persisted(plan: Node) -> Node:
    """Compute a plan into the heap and return a scan of the result. Collective."""
    table, partitioned_by = SpmdExecutor().persistable(plan)
    table = _into_heap(table)
    source = table_source(table, "persisted", is_part=True, partitioned_by=partitioned_by)
    return Scan(source, tuple(plan.schema.names), origin=ref(plan))


def _into_heap(table: pa.Table) -> pa.Table:
    """Copy this PE's rows into its heap, as one piece. Collective."""
    job = runtime.current()
    is_whole = all(column.num_chunks == 1 for column in table.columns)
    is_nested = any(pa.types.is_nested(field.type) for field in table.schema)
    if is_nested or job.reduce(np.array([is_whole]), "min")[0]:
        with job.converge("persist"):
            return heap.persist(table)
    # An exchange of every row with its own PE writes all pieces straight into their final columns;
    # joining the pieces first would take the table's memory once more.
    to_itself = pa.repeat(pa.scalar(job.pe, pa.uint16()), table.num_rows)
    return exchange.scatter(table, to_itself, keep_types=True)


def published(plan: Node, name: str, mode: catalog.Mode) -> None:
    """Compute a plan and publish the result. Collective."""
    table, partitioned_by = SpmdExecutor().persistable(plan)
    # Rows appended to others: how those lie is not known here.
    spread = None if mode == "append" else partitioned_by
    catalog.publish(name, table, mode=mode, partitioning=partitioning_text(spread))


def written(plan: Node, path: str, compression: str) -> None:
    """Compute a plan and write one Parquet file per PE. Collective."""
    write_parts(SpmdExecutor().execute(plan), path, compression)
