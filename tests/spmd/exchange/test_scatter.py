# SPDX-License-Identifier: Apache-2.0
"""Every row arrives once, at the right PE, in order, whatever its type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.exchange.job_tables import MOVABLE, decoded, destinations, expected, gathered, jobs
from strategies import same

from flightshmem import exchange
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
