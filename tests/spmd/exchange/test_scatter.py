# SPDX-License-Identifier: Apache-2.0
"""Every row arrives once, at the right PE, in order, whatever its type."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.exchange.job_tables import MOVABLE, decoded, destinations, expected, gathered, jobs
from strategies import same

from flightshmem import _core, exchange
from flightshmem.errors import DataError
from flightshmem.runtime import Runtime, current
from flightshmem.testing import agreed


def check_scatter(job: list[pa.Table], pes: list[list[int]]) -> None:
    runtime = current()
    result = exchange.scatter(job[runtime.pe], pa.array(pes[runtime.pe], pa.uint32()))
    result.validate(full=True)
    assert same(decoded(result), expected(job, pes, runtime.pe))
    for before, after in zip(job[0].schema, result.schema, strict=True):
        assert before.equals(after) or pa.types.is_dictionary(before.type)


@settings(max_examples=40)
@given(job=jobs(), data=st.data())
@agreed
def test_any_tables_go_where_their_numbers_say(job: list[pa.Table], data: st.DataObject) -> None:
    check_scatter(job, data.draw(destinations(job)))


@pytest.mark.parametrize("kind", MOVABLE, ids=str)
@settings(max_examples=5)
@given(data=st.data())
@agreed
def test_every_type_alone(kind: pa.DataType, data: st.DataObject) -> None:
    job = data.draw(jobs([kind]))
    check_scatter(job, data.draw(destinations(job)))


@settings(max_examples=20)
@given(job=jobs())
@agreed
def test_any_tables_replicate_in_pe_order(job: list[pa.Table]) -> None:
    result = exchange.replicate(job[current().pe])
    result.validate(full=True)
    assert same(decoded(result), pa.concat_tables([decoded(table) for table in job]))


def test_skew_and_many_batches(runtime: Runtime) -> None:
    """Nearly all rows go to one PE, out of many small batches; enough for several morsels."""
    rng = np.random.default_rng(runtime.pe)
    rows = 20_000
    ids = pa.array(np.arange(rows) + runtime.pe * rows)
    text = pa.array([None if i % 11 == 0 else "t" * (i % 40) for i in range(rows)])
    whole = pa.table({"id": ids, "text": text, "even": pa.array(np.arange(rows) % 2 == 0)})
    table = pa.concat_tables([whole.slice(at, 999) for at in range(0, rows, 999)])
    pes = np.where(rng.random(rows) < 0.97, 0, rng.integers(0, runtime.n_pes, rows)).astype(np.uint32)
    job = gathered(table)
    numbers = [t.column("pe").to_pylist() for t in gathered(pa.table({"pe": pes}))]
    result = exchange.scatter(table, pa.chunked_array([pa.array(pes)]))
    assert result.combine_chunks().equals(expected(job, numbers, runtime.pe).combine_chunks())


def many_rows(seed: int, rows: int) -> pa.Table:
    """Columns of every width, with and without nulls."""
    rng = np.random.default_rng(seed)
    few = np.array(["", "x", "flight", "a text longer than one vector register", "é" * 40])
    columns = {
        "i8": rng.integers(-100, 100, rows).astype(np.int8),
        "i16": rng.integers(-100, 100, rows).astype(np.int16),
        "f32": rng.random(rows, np.float32),
        "i64": rng.integers(0, 1 << 60, rows),
        "flag": rng.random(rows) < 0.5,
        "text": few[rng.integers(0, len(few), rows)],
    }
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    for name, values in columns.items():
        table = table.append_column(f"{name} or null", pa.array(values, mask=rng.random(rows) < 0.2))
    price = table.column("i64 or null").cast(pa.decimal128(20, 0))
    wide = {"price": price, "huge": price.cast(pa.decimal256(40, 0))}
    wide["code"] = pa.array([b"abc", b"xyz", None] * rows)[:rows].cast(pa.binary(3))
    for name, column in wide.items():
        table = table.append_column(name, column)
    return table


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("staging_bytes", [100_000, 64 << 20])
def test_rows_beyond_one_run(runtime: Runtime, portable: bool, staging_bytes: int) -> None:
    """Enough rows for several runs, and bytes enough to be streamed past the caches."""
    rows = 150_000
    job = [many_rows(pe, rows - 777 * pe) for pe in range(runtime.n_pes)]
    rng = np.random.default_rng(99)
    pes = [rng.integers(0, runtime.n_pes, table.num_rows).astype(np.uint16) for table in job]
    mine = job[runtime.pe]
    pieces = [mine.slice(0, 100_001).combine_chunks(), mine.slice(100_001)]
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    cuts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    numbers = [pa.array(pes[runtime.pe][a:b]) for a, b in itertools.pairwise(cuts)]
    _, result = _core.scatter(
        runtime.heap, mine.schema, batches, numbers, staging_bytes=staging_bytes, is_portable=portable
    )
    wanted = pa.concat_tables(t.filter(pa.array(p == runtime.pe)) for t, p in zip(job, pes, strict=True))
    result.validate(full=True)
    assert pa.table(result).equals(wanted.combine_chunks())


def test_text_beyond_short_offsets_becomes_large(runtime: Runtime) -> None:
    table = pa.table({"s": ["some text"] * 50, "b": [b"12"] * 50, "d": pa.array(["x"] * 50)})
    _, result = _core.replicate(runtime.heap, table.schema, table.to_batches(), max_short_text=449)
    assert result.schema.types[0] == pa.large_string()
    assert result.column(0).to_pylist() == ["some text"] * 50 * runtime.n_pes
    longest = 100 * runtime.n_pes
    assert result.schema.types[1] == (pa.large_binary() if longest > 449 else pa.binary())


@pytest.mark.parametrize("max_bytes", [40, 41, 1000])
def test_large_text_is_shown_as_chunks_of_its_old_type(max_bytes: int) -> None:
    words = [None if i % 7 == 0 else "w" * (i % 41) for i in range(100)]
    schema = pa.schema([("s", pa.string(), False), ("b", pa.binary()), ("n", pa.int64())])
    table = pa.table({"s": words, "b": [w and w.encode() for w in words], "n": range(100)})
    wide = table.cast(pa.schema([("s", pa.large_string()), ("b", pa.large_binary()), ("n", pa.int64())]))
    for rows in (wide, wide.slice(13, 50), wide.slice(0, 0)):
        shown = exchange._short_text(rows, schema, max_bytes)
        shown.validate(full=True)
        assert shown.schema == schema
        assert shown.to_pylist() == rows.to_pylist()
        assert all(c.nbytes <= max_bytes + 4 * len(c) + 20 for c in shown.column("b").chunks)


def test_a_value_longer_than_offsets_reach_is_named() -> None:
    table = pa.table({"s": pa.array(["short", "much too long"], pa.large_string())})
    with pytest.raises(DataError, match="got 13 bytes"):
        exchange._short_text(table, pa.schema([("s", pa.string())]), 10)


SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("d", pa.dictionary(pa.int8(), pa.string()))])


@pytest.mark.parametrize("chunks", [0, 1])
def test_no_rows_anywhere(runtime: Runtime, chunks: int) -> None:
    columns = [pa.chunked_array([pa.array([], f.type)] * chunks, f.type) for f in SCHEMA]
    table = pa.table(columns, schema=SCHEMA)
    for result in (
        exchange.scatter(table, pa.array([], pa.uint32())),
        exchange.shuffle(table, ["s"]),
        exchange.replicate(table),
    ):
        assert result.num_rows == 0
        assert result.schema.types == [pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.string())]


def test_no_columns(runtime: Runtime) -> None:
    assert exchange.replicate(pa.table({})).num_columns == 0


def test_views_arrive_as_plain_columns(runtime: Runtime) -> None:
    views = {"v": pa.array(["a", None], pa.string_view()), "b": pa.array([b"a", b"b"], pa.binary_view())}
    result = exchange.replicate(pa.table(views))
    assert result.schema.types == [pa.string(), pa.binary()]
    assert result.column("v").to_pylist() == ["a", None] * runtime.n_pes


def test_names_and_metadata_stay(runtime: Runtime) -> None:
    field = pa.field("région 名🙂", pa.int64(), metadata={"unit": "m"})
    schema = pa.schema([field], metadata={"made": "here"})
    result = exchange.replicate(pa.table([[1, 2]], schema=schema))
    assert result.schema.equals(schema, check_metadata=True)


def test_extension_columns_move_as_what_they_are(runtime: Runtime) -> None:
    storage = pa.array([bytes([i]) * 16 for i in range(4)], pa.binary(16))
    table = pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), storage)})
    result = exchange.replicate(table)
    assert result.schema.field("u").type == pa.uuid()
    assert result.column("u").to_pylist() == table.column("u").to_pylist() * runtime.n_pes
