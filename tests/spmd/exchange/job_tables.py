# SPDX-License-Identifier: Apache-2.0
"""Tables for all PEs of a job, and what to compare exchanges of them with."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st
from strategies import FLAT, arrays

from flightshmem.runtime import current

MOVABLE = [*FLAT, pa.binary(0), pa.binary(16), pa.month_day_nano_interval()]
# Types whose values the shared strategies cannot make.
_CONSTANTS = {pa.binary(0): b"", pa.month_day_nano_interval(): pa.MonthDayNano([1, 2, 3])}


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Give columns in up to three chunks, mostly slices of longer arrays."""
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=2)))
    chunks = []
    for begin, end in zip([0, *cuts], [*cuts, rows], strict=True):
        if kind in _CONSTANTS:
            chunks.append(pa.array([_CONSTANTS[kind], None] * (end - begin), kind)[: end - begin])
        else:
            chunk = draw(arrays(kind, end - begin))
            chunks.append(chunk)
    return pa.chunked_array(chunks, kind)


@st.composite
def tables(draw: st.DrawFn, kinds: Sequence[pa.DataType]) -> pa.Table:
    rows = draw(st.sampled_from([0, 1, 2, 7, 8, 9, 20]))
    names = [f"c{i}" for i in range(len(kinds))]
    return pa.table([draw(columns(kind, rows)) for kind in kinds], names)


@st.composite
def jobs(draw: st.DrawFn, kinds: Sequence[pa.DataType] = ()) -> list[pa.Table]:
    """Give one table for every PE, of one schema: of the kinds given or any."""
    chosen = kinds or draw(st.lists(st.sampled_from(MOVABLE), min_size=1, max_size=4))
    return [draw(tables(chosen)) for _ in range(current().n_pes)]


@st.composite
def destinations(draw: st.DrawFn, job: list[pa.Table]) -> list[list[int]]:
    """Give a PE number for every row of every PE."""
    pe = st.integers(0, len(job) - 1)
    return [draw(st.lists(pe, min_size=t.num_rows, max_size=t.num_rows)) for t in job]


def decoded(table: pa.Table) -> pa.Table:
    """Return the table with dictionary columns as plain ones."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            kind = field.type.value_type
            table = table.set_column(at, field.with_type(kind), table.column(at).cast(kind))
    return table


def expected(job: list[pa.Table], pes: list[list[int]], pe: int) -> pa.Table:
    """Return the rows that one PE should get: by source PE, then in the source's order."""
    parts = []
    for table, numbers in zip(job, pes, strict=True):
        rows = [i for i, number in enumerate(numbers) if number == pe]
        parts.append(decoded(table).take(pa.array(rows, pa.int64())))
    return pa.concat_tables(parts)


def gathered(table: pa.Table) -> list[pa.Table]:
    """Return every PE's table. Collective."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return [pa.ipc.open_stream(p).read_all() for p in current().allgather(sink.getvalue().to_pybytes())]
