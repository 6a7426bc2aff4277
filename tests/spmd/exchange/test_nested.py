# SPDX-License-Identifier: Apache-2.0
"""Lists, structs, maps and what else is nested goes where flat columns of the same table go."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.exchange.job_tables import MOVABLE, decoded, destinations, expected, jobs
from strategies import NESTED as NESTED_AND_RUNS
from strategies import same

import flightshmem as fs
from flightshmem import exchange
from flightshmem.errors import SchemaError, UnsupportedError
from flightshmem.runtime import Runtime, current
from flightshmem.testing import agreed

NESTED = [kind for kind in NESTED_AND_RUNS if not pa.types.is_run_end_encoded(kind)]


def check_scatter(job: list[pa.Table], pes: list[list[int]]) -> None:
    runtime = current()
    result = exchange.scatter(job[runtime.pe], pa.array(pes[runtime.pe], pa.uint16()))
    result.validate(full=True)
    assert same(decoded(result), expected(job, pes, runtime.pe))


@pytest.mark.parametrize("kind", NESTED, ids=str)
@settings(max_examples=8)
@given(data=st.data())
@agreed
def test_every_type_alone(kind: pa.DataType, data: st.DataObject) -> None:
    job = data.draw(jobs([kind]))
    check_scatter(job, data.draw(destinations(job)))


@settings(max_examples=25)
@given(data=st.data())
@agreed
def test_among_flat_columns(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*NESTED, *MOVABLE]), min_size=2, max_size=5))
    job = data.draw(jobs(kinds))
    check_scatter(job, data.draw(destinations(job)))


@settings(max_examples=25)
@given(data=st.data())
@agreed
def test_replicate(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*NESTED, pa.int64()]), min_size=1, max_size=3))
    job = data.draw(jobs(kinds))
    result = exchange.replicate(job[current().pe])
    result.validate(full=True)
    assert same(result, pa.concat_tables(job))


def test_no_rows_and_no_chunks_anywhere(runtime: Runtime) -> None:
    schema = pa.schema([pa.field("l", pa.list_(pa.int8()), metadata={"unit": "m"}), ("k", pa.int32())])
    empty = pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)
    for result in (exchange.shuffle(empty, ["k"]), exchange.replicate(empty)):
        assert result.num_rows == 0
        assert result.schema.equals(schema)
        assert result.schema.field("l").metadata == {b"unit": b"m"}


def test_nested_columns_that_differ_are_an_error_on_all(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("needs two PEs")
    odd = [[1]] if runtime.pe == 1 else [1]
    with pytest.raises(SchemaError, match=r"got 'v' list<.*> on PE 1/\d and none on PE 0"):
        exchange.shuffle(pa.table({"k": [1], "v": odd}), ["k"])
    odd = [[1]] if runtime.pe == 1 else [["a"]]
    with pytest.raises(SchemaError, match=r"list<.*int64> on PE 1/\d and 'v' list<.*string> on PE 0"):
        exchange.replicate(pa.table({"k": [1], "v": odd}))


def test_received_values_lie_in_the_heap(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("rows stay where they are")
    table = pa.table({"k": list(range(1000)), "v": [[float(i)] * 20 for i in range(1000)]})
    before = fs.heap.stats().used_bytes
    result = exchange.shuffle(table, ["k"])
    assert fs.heap.stats().used_bytes - before > 160 * result.num_rows
    del result
    assert fs.heap.stats().used_bytes == before


def people(runtime: Runtime) -> pa.Table:
    """Give 40 rows on each PE with nested columns and a unique id."""
    ids = [runtime.pe * 40 + i for i in range(40)]
    return pa.table(
        {
            "k": pa.array([(7 * i) % 10 for i in ids]),
            "id": pa.array(ids),
            "tags": pa.array([None if i % 9 == 0 else ["t" * (i % 4)] * (i % 3) for i in ids]),
            "at": pa.array([{"x": i, "deep": [{"y": i % 5}]} for i in ids]),
        }
    )


@pytest.mark.parametrize("operation", ["sort", "merge", "merge_big"])
def test_frames_carry_them(runtime: Runtime, operation: str) -> None:
    table = people(runtime)
    everybody = exchange.replicate(table).to_pylist()
    frame = fs.from_arrow(table, distributed=True)
    if operation == "sort":
        got = frame.sort_values("id", ascending=False).to_arrow().to_pylist()
        assert got == sorted(everybody, key=lambda row: -row["id"])
    elif operation == "merge":
        names = fs.from_arrow(pa.table({"k": list(range(10)), "name": [str(k) for k in range(10)]}))
        got = frame.merge(names, on="k").to_arrow().to_pylist()
        wanted = [{**row, "name": str(row["k"])} for row in everybody]
        assert sorted(got, key=lambda row: row["id"]) == wanted
    else:
        got = frame[["id", "tags"]].merge(frame[["id", "at"]], on="id").to_arrow().to_pylist()
        wanted = [{key: row[key] for key in ("id", "tags", "at")} for row in everybody]
        assert sorted(got, key=lambda row: row["id"]) == wanted


def test_run_ends_name_their_column(runtime: Runtime) -> None:
    """Arrow cannot take rows of them."""
    if runtime.n_pes == 1:
        pytest.skip("rows stay where they are")
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([7]))
    structs = pa.StructArray.from_arrays([runs], ["r"])
    for column in (runs, structs):
        with pytest.raises(UnsupportedError, match="'runs'"):
            exchange.shuffle(pa.table({"k": [1, 2], "runs": column}), ["k"])
