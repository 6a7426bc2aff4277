# SPDX-License-Identifier: Apache-2.0
"""The matrix block against pandas and NumPy: values, layout, lifetime."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flightshmem as fs
from flightshmem import heap
from flightshmem.errors import ColumnNotFound, HeapExhausted, InvalidArgument, SchemaError
from flightshmem.runtime import Runtime
from flightshmem.testing import agreed

NUMBERS = [
    pa.int8(),
    pa.uint16(),
    pa.int32(),
    pa.uint64(),
    pa.int64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
]


def part(table: pa.Table) -> fs.DataFrame:
    return fs.from_arrow(table, distributed=True)


def expected(table: pa.Table, dtype: str = "float32") -> np.ndarray:
    columns = []
    for column in table.columns:
        values = column.to_pandas()
        if isinstance(values.dtype, pd.CategoricalDtype):
            codes = values.cat.reorder_categories(sorted(values.cat.categories)).cat.codes
            values = codes.where(values.notna())
        columns.append(values.astype("object").where(values.notna(), np.nan).astype(dtype))
    return np.column_stack(columns)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns of every type a matrix takes, with nulls, in several chunks, sliced anywhere."""
    rows = draw(st.integers(0, 40))
    columns = []
    for type_ in draw(st.lists(st.sampled_from([*NUMBERS, pa.bool_()]), min_size=1, max_size=4)):
        element = st.booleans() if pa.types.is_boolean(type_) else st.integers(0, 100)
        values = draw(st.lists(element | st.none(), min_size=rows, max_size=rows))
        whole = [float(v) if v is not None and pa.types.is_floating(type_) else v for v in values]
        whole = [np.float16(v) if v is not None and type_ == pa.float16() else v for v in whole]
        columns.append(pa.array(whole, type_))
    words = draw(st.lists(st.sampled_from(["x", "é", "a"]) | st.none(), min_size=rows, max_size=rows))
    columns.append(pa.array(words, pa.string()).dictionary_encode())
    table = pa.table(columns, names=[f"c{index}" for index in range(len(columns))])
    cut = draw(st.integers(0, rows))
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    first = draw(st.integers(0, rows))
    return table.slice(first, draw(st.integers(0, rows)))


@given(tables(), st.sampled_from(["columns", "rows"]), st.sampled_from(["float32", "float64"]))
@agreed
def test_values_are_those_of_pandas(table: pa.Table, layout: str, dtype: str) -> None:
    matrix = part(table).to_matrix(dtype=dtype, layout=layout)
    decoded = {"c" + str(table.num_columns - 1)}
    numbers = [index for index, name in enumerate(table.column_names) if name not in decoded]
    got = matrix.numpy()
    assert got.shape == (table.num_rows, table.num_columns)
    assert got.dtype == dtype
    assert got.flags.c_contiguous if layout == "rows" else got.flags.f_contiguous
    np.testing.assert_array_equal(got[:, numbers], expected(table.select(numbers), dtype))
    words = matrix.categories[f"c{table.num_columns - 1}"]
    assert list(words) == sorted(words)
    codes = got[:, -1]
    back = [None if np.isnan(code) else words[int(code)] for code in codes]
    assert back == table.columns[-1].to_pylist()


def test_views_are_read_only_and_free(runtime: Runtime) -> None:
    matrix = part(pa.table({"a": [1, 2, None], "b": [0.5, None, 2.5]})).to_matrix()
    address = matrix.block.ctypes.data
    assert address % 64 == 0
    array, frame = matrix.numpy(), matrix.pandas()
    for index, name in enumerate(["a", "b"]):
        assert frame[name].to_numpy().ctypes.data == address + index * 12
    assert array.ctypes.data == np.asarray(matrix).ctypes.data == address
    assert np.from_dlpack(matrix).ctypes.data == address
    assert array.strides == (4, 12)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 7
    with pytest.raises(ValueError, match="read-only"):
        frame.to_numpy()[0, 0] = 7
    assert np.array(matrix, copy=True).ctypes.data != address
    assert repr(matrix) == "Matrix(3 rows x 2 columns of float32 on this PE, 24 bytes)"


def test_a_view_keeps_its_block_alive(runtime: Runtime) -> None:
    used = heap.stats().used_bytes
    view = part(pa.table({"a": np.arange(50_000.0)})).to_matrix().numpy()[10:20]
    gc.collect()
    assert heap.stats().used_bytes >= used + 200_000
    others = [heap.empty(50_000, "float32") for _ in range(4)]
    for other in others:
        other[:] = -1
    np.testing.assert_array_equal(view[:, 0], np.arange(10, 20))
    del view, others, other
    gc.collect()
    assert heap.stats().used_bytes <= used


def test_columns_are_chosen_by_name_and_order(runtime: Runtime) -> None:
    frame = part(pa.table({"a": [1], "b": ["text"], "c": [3]}))
    matrix = frame.to_matrix(["c", "a"])
    assert matrix.columns == ("c", "a")
    np.testing.assert_array_equal(matrix.numpy(), [[3, 1]])
    with pytest.raises(ColumnNotFound, match="'d'"):
        frame.to_matrix(["c", "d"])


def test_integers(runtime: Runtime) -> None:
    table = pa.table({"i": [1, -2], "flag": [True, False], "word": pa.array(["b", "a"]).dictionary_encode()})
    matrix = part(table).to_matrix(dtype="int16")
    np.testing.assert_array_equal(matrix.numpy(), [[1, 1, 1], [-2, 0, 0]])
    for values, problem in (([1, None], "has nulls"), ([1, 40_000], "does not fit int16, got 1 to 40000")):
        with pytest.raises(InvalidArgument, match=problem):
            part(pa.table({"i": values})).to_matrix(dtype="int16")
    with pytest.raises(SchemaError, match="'x' cannot be int16 values, got double"):
        part(pa.table({"x": [1.5, 2.0]})).to_matrix(dtype="int16")
    big = part(pa.table({"u": pa.array([2**63], pa.uint64())}))
    with pytest.raises(InvalidArgument, match="does not fit int64"):
        big.to_matrix(dtype="int64")


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (pa.array(["x"]), "category"),
        (pa.array([0], pa.timestamp("s")), "dt.hour"),
        (pa.array([1], pa.decimal128(5, 2)), "float64"),
        (pa.array([b"x"]), "leave it out"),
    ],
)
def test_what_is_not_a_number_is_refused(runtime: Runtime, values: pa.Array, remedy: str) -> None:
    with pytest.raises(SchemaError, match=f"'odd' cannot be float32 values.*{remedy}"):
        part(pa.table({"a": [1], "odd": values})).to_matrix()


@pytest.mark.parametrize("request_", [{"dtype": "complex64"}, {"dtype": ">f4"}, {"layout": "tiles"}])
def test_what_is_not_offered(runtime: Runtime, request_: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="must be"):
        part(pa.table({"a": [1]})).to_matrix(**request_)


def test_one_full_heap_is_an_error_on_all_pes(runtime: Runtime) -> None:
    rows = heap.stats().capacity_bytes // 8 if runtime.pe == runtime.n_pes - 1 else 3
    used = heap.stats().used_bytes
    table = pa.table({name: pa.nulls(rows, pa.int8()) for name in "abc"})
    with pytest.raises(HeapExhausted):
        part(table).to_matrix()
    assert heap.stats().used_bytes == used


def test_a_persisted_frame_hands_over_what_it_holds(runtime: Runtime) -> None:
    frame = part(pa.table({"a": np.arange(1000.0), "b": pa.array([None, 1] * 500, pa.int32())})).persist()
    matrix = frame.to_matrix()
    np.testing.assert_array_equal(matrix.numpy(), expected(frame.local()))
