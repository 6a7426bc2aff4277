# SPDX-License-Identifier: Apache-2.0
"""Rows by number against pyarrow's take."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightshmem import _core
from flightshmem.errors import InvalidArgument, SchemaError, UnsupportedError

DAY = dt.datetime(2013, 1, 1)
WORDS = ["", "a", None, "x" * 15, "y" * 16, "é" * 40, "z" * 100]

COLUMNS: dict[str, pa.Array] = {
    "null": pa.nulls(7),
    "bool": pa.array([True, None, False, True, True, False, None]),
    "int8": pa.array([1, None, -3, 4, 5, 6, 7], pa.int8()),
    "float16": pa.array(np.arange(7, dtype=np.float16)),
    "int32": pa.array([1, 2, 3, 4, 5, 6, 7], pa.int32()),
    "float64": pa.array([0.5, -0.0, None, float("nan"), 1e300, -1.0, 2.0]),
    "time": pa.array([DAY, None, DAY + dt.timedelta(1), DAY, DAY, DAY, DAY], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal(f"{i}.25") for i in range(7)], pa.decimal128(9, 2)),
    "wide": pa.array([Decimal(i) for i in range(7)], pa.decimal256(40, 0)),
    "fixed": pa.array([b"abc", None, b"def", b"ghi", b"xyz", b"123", b"   "], pa.binary(3)),
    "string": pa.array(WORDS),
    "large": pa.array(WORDS, pa.large_string()),
    "binary": pa.array([None if w is None else w.encode() for w in WORDS], pa.binary()),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(WORDS)),
}


@given(
    rows=st.lists(st.none() | st.integers(0, 4), max_size=80),
    dtype=st.sampled_from([pa.uint32(), pa.int64()]),
    begin=st.integers(0, 2),
)
def test_gather_is_take(rows: list[int | None], dtype: pa.DataType, begin: int) -> None:
    batch = pa.record_batch(list(COLUMNS.values()), names=list(COLUMNS)).slice(begin, 5)
    assert all(_core.gatherable(batch.schema))
    numbers = pa.array([None, *rows], dtype).slice(1)
    ours, theirs = _core.gather(batch, numbers), batch.take(numbers)
    ours.validate(full=True)
    assert ours.schema == theirs.schema
    for name in COLUMNS:
        assert repr(ours.column(name).to_pylist()) == repr(theirs.column(name).to_pylist())


def test_many_rows() -> None:
    rng = np.random.default_rng(3)
    texts = pa.array(["t" * n for n in rng.integers(0, 70, 5000)])
    batch = pa.record_batch([texts, pa.array(rng.random(5000))], names=["s", "f"])
    numbers = pa.array(rng.permutation(5000))
    assert _core.gather(batch, numbers).equals(batch.take(numbers))


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_nothing_to_take_from(column: pa.Array) -> None:
    batch = pa.record_batch([column.slice(0, 0)], names=["x"])
    assert _core.gather(batch, pa.array([], pa.int64())).num_rows == 0
    assert _core.gather(batch, pa.nulls(3, pa.int64())).column(0).null_count == 3


@pytest.mark.parametrize("rows", [[7], [0, -1], [2**32]])
def test_rows_beyond_the_table(rows: list[Any]) -> None:
    batch = pa.record_batch([COLUMNS["int32"]], names=["x"])
    with pytest.raises(InvalidArgument, match=r"\[gather\] a row number is not in \[0, 7\)"):
        _core.gather(batch, pa.array(rows, pa.int64()))


def test_types_that_cannot_be_gathered() -> None:
    batch = pa.record_batch([pa.array([[1]]), pa.array([1])], names=["l", "i"])
    assert _core.gatherable(batch.schema) == [False, True]
    with pytest.raises(UnsupportedError, match="column 'l'"):
        _core.gather(batch, pa.array([0]))
    with pytest.raises(SchemaError, match="uint32 or int64"):
        _core.gather(batch.select(["i"]), pa.array([0], pa.int8()))
