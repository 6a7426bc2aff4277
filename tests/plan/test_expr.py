# SPDX-License-Identifier: Apache-2.0
"""Expressions: types known at once, literals, conversion for Parquet."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import flightshmem as fs
from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.plan.expr import columns_of, literal, split_and
from flightshmem.plan.pushdown import arrow_predicate
from flightshmem.plan.types import common_type, parse_dtype

FRAME = fs.from_arrow(
    pa.table(
        {
            "i8": pa.array([1], pa.int8()),
            "i": [1],
            "f4": pa.array([1], pa.float32()),
            "f": [1.0],
            "s": ["a"],
            "b": [True],
            "t": pa.array([0], pa.timestamp("us")),
            "n": pa.array([Decimal("1.00")], pa.decimal128(9, 2)),
        }
    )
)
D = {name: FRAME[name] for name in FRAME.columns}


@pytest.mark.parametrize(
    ("series", "dtype"),
    [
        (D["i8"] + 1, pa.int8()),
        (D["i8"] + 300, pa.int64()),
        (D["i8"] + D["i"], pa.int64()),
        (D["i8"] / 2, pa.float64()),
        (D["i"] + 1.5, pa.float64()),
        (D["f4"] * 2, pa.float32()),
        (D["f4"] * 2.5, pa.float32()),
        (D["f4"] * D["f"], pa.float64()),
        (D["f4"] + D["i"], pa.float64()),
        (D["f4"] * np.float64(2.5), pa.float64()),
        (D["i8"] // 2, pa.int8()),
        (D["i"] // D["i8"], pa.float64()),
        (D["b"] + D["b"], pa.bool_()),
        (D["b"] + 1, pa.int64()),
        (D["b"] * 1.0, pa.float64()),
        (D["i"] & 3, pa.int64()),
        (D["t"] - D["t"], pa.duration("us")),
        (D["s"] + "x", pa.string()),
        (D["n"] + D["n"], pa.decimal128(10, 2)),
        (D["i"] > 1, pa.bool_()),
        (D["i"].isin([1.5]), pa.bool_()),
        (np.float64(2) * D["f"], pa.float64()),
        (5 - D["i"], pa.int64()),
        (True & D["b"], pa.bool_()),
    ],
    ids=lambda x: str(getattr(x, "_expr", x)),
)
def test_types(series: fs.Series, dtype: pa.DataType) -> None:
    assert series.dtype == dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, pa.int64()),
        (np.int16(3), pa.int16()),
        (np.float32(0.5), pa.float32()),
        (np.bool_(True), pa.bool_()),
        ("x", pa.string()),
        (None, pa.null()),
        (pd.NA, pa.null()),
        (pd.NaT, pa.null()),
        (datetime.date(2013, 1, 1), pa.date32()),
        (datetime.datetime(2013, 1, 1), pa.timestamp("us")),
        (pd.Timestamp("2013-01-01", tz="UTC"), pa.timestamp("us", "UTC")),
        (np.datetime64("2013-01-01T00:00", "s"), pa.timestamp("s")),
        (np.timedelta64(3, "ms"), pa.duration("ms")),
        (Decimal("1.50"), pa.decimal128(3, 2)),
        (pa.scalar(3, pa.uint8()), pa.uint8()),
    ],
    ids=str,
)
def test_literals(value: Any, dtype: pa.DataType) -> None:
    assert literal(value).type == dtype


def test_literals_refuse_objects() -> None:
    for value in (object(), [1, 2], {"a": 1}, np.array([1, 2])):
        with pytest.raises(InvalidArgument, match="Series of the same frame"):
            literal(value)


def test_split_and_columns() -> None:
    expr = ((D["i"] > 1) & (D["s"] == "a") & D["b"])._expr
    assert [str(part) for part in split_and(expr)] == ["(i > 1)", "(s == 'a')", "b"]
    assert columns_of(expr) == {"i", "s", "b"}


@pytest.mark.parametrize(
    ("series", "text"),
    [
        (D["i"] > 1, "(i > 1)"),
        (D["i8"] > 1000, "(i8 > 1000)"),
        ((D["i"] > 1) & (D["s"].str.len() > 2), "(i > 1)"),
        ((D["i"] > 1) | (D["s"].str.len() > 2), None),
        (D["i"] != 1, None),
        (~(D["i"] == 1), None),
        (D["i"].notna(), "is_valid(i)"),
        (D["f"].notna(), None),
        (D["i"].isin([1, None]), None),
        (D["i"] > 1.5, None),
    ],
    ids=lambda x: str(getattr(x, "_expr", x)),
)
def test_what_statistics_can_refute(series: fs.Series, text: str | None) -> None:
    predicate = arrow_predicate([series._expr])
    assert (None if predicate is None else str(predicate)) == text


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (int, pa.int64()),
        ("float32", pa.float32()),
        ("Int64", pa.int64()),
        (str, pa.string()),
        ("category", pa.dictionary(pa.int32(), pa.string())),
        ("datetime64[ns]", pa.timestamp("ns")),
        ("datetime64[us, Europe/Berlin]", pa.timestamp("us", "Europe/Berlin")),
        (np.dtype("uint8"), pa.uint8()),
        (np.float32, pa.float32()),
        (pd.Int16Dtype(), pa.int16()),
        (pd.StringDtype(), pa.string()),
        (pd.ArrowDtype(pa.date32()), pa.date32()),
        (pd.DatetimeTZDtype("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.string_view(), pa.string()),
        (bool, pa.bool_()),
    ],
    ids=str,
)
def test_type_names(name: Any, dtype: pa.DataType) -> None:
    assert parse_dtype(name) == dtype


def test_unknown_type_name() -> None:
    with pytest.raises(InvalidArgument, match="'integre'"):
        parse_dtype("integre")


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.uint64(), pa.decimal128(20, 0)),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), None),
        (pa.int64(), pa.string(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.null(), pa.string(), pa.string()),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), pa.decimal128(9, 4)),
        (pa.decimal128(5, 2), pa.float64(), pa.float64()),
        (pa.date32(), pa.timestamp("us"), None),
    ],
    ids=str,
)
def test_common_types(left: pa.DataType, right: pa.DataType, common: pa.DataType | None) -> None:
    assert common_type(left, right) == common
    assert common_type(right, left) == common


def test_errors_name_both_sides() -> None:
    with pytest.raises(SchemaError, match=r"\[\+\].*int64 \+ string.*\(i \+ s\)"):
        D["i"] + D["s"]
    with pytest.raises(InvalidArgument, match="negative"):
        D["i"] ** -1
