# SPDX-License-Identifier: Apache-2.0
"""Expressions, masks and row-wise changes against pandas."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from spmd.frames import tables
from spmd.oracle import assert_same, assert_same_series

import flightshmem as fs
from flightshmem.errors import ColumnNotFound, DataError, InvalidArgument, SchemaError
from flightshmem.testing import agreed

Apply = Callable[[Any], Any]

NUMERIC: dict[str, Apply] = {
    "add": lambda d: d["i"] + d["f"],
    "add constant": lambda d: d["i"] + 3,
    "radd": lambda d: 3 + d["i"],
    "sub": lambda d: d["f"] - d["i"],
    "rsub": lambda d: 1.5 - d["f"],
    "mul": lambda d: d["i"] * d["i"],
    "div": lambda d: d["i"] / 7,
    "div zero": lambda d: d["f"] / 0,
    "rdiv": lambda d: 1 / d["f"],
    "floordiv": lambda d: d["i"] // 7,
    "floordiv negative": lambda d: d["i"] // -7,
    "floordiv float": lambda d: d["f"] // 0.1,
    "floordiv columns": lambda d: d["i"] // d["f"],
    "mod": lambda d: d["i"] % 7,
    "mod negative": lambda d: d["i"] % -7,
    "mod zero": lambda d: d["i"] % 0,
    "mod float": lambda d: d["f"] % 0.7,
    "pow": lambda d: d["i"] ** 2,
    "pow float": lambda d: d["f"] ** 0.5,
    "neg": lambda d: -d["i"],
    "abs": lambda d: abs(d["f"]),
    "abs int": lambda d: d["i"].abs(),
    "round": lambda d: (d["f"] / 3).round(2),
    "clip": lambda d: d["f"].clip(-1, 2),
    "clip lower": lambda d: d["i"].clip(lower=0),
    "isna": lambda d: d["f"].isna(),
    "notna": lambda d: d["s"].notna(),
    "fillna": lambda d: d["f"].fillna(-1),
    "fillna column": lambda d: d["f"].fillna(d["i"]),
    "fillna text": lambda d: d["s"].fillna("none"),
    "where": lambda d: d["f"].where(d["f"] > 0, 0.0),
    "mask": lambda d: d["f"].mask(d["f"] > 0),
    "astype float": lambda d: d["i"].astype("float64"),
    "concat": lambda d: d["s"] + "_" + d["s"],
    "bool add": lambda d: (d["i"] > 0) + (d["f"] > 0),
    "float32": lambda d: d["f"].astype("float32") * 0.5 + d["small"],
}
TESTS: dict[str, Apply] = {
    "eq": lambda d: d["f"] == 0,
    "ne": lambda d: d["f"] != 1.5,
    "ne text": lambda d: d["s"] != "a",
    "eq text": lambda d: d["s"] == "a",
    "lt": lambda d: d["i"] < 2.5,
    "le column": lambda d: d["i"] <= d["f"],
    "gt": lambda d: d["f"] > -1,
    "ge": lambda d: d["i"] >= 0,
    "not": lambda d: ~(d["f"] > 0),
    "and or": lambda d: ((d["i"] > 0) & (d["f"] < 5)) | (d["s"] == "b"),
    "xor": lambda d: (d["i"] > 0) ^ (d["f"] > 0),
    "isin": lambda d: d["i"].isin([1, 2, 3, 500]),
    "isin text": lambda d: d["s"].isin(["a", "é", 3]),
    "isin missing": lambda d: d["f"].isin([1.5, np.nan]),
    "isin none": lambda d: d["i"].isin([]),
    "between": lambda d: d["f"].between(-1, 2),
    "between open": lambda d: d["f"].between(-1, 2, inclusive="neither"),
    "time": lambda d: d["t"] >= "2013-03-01",
    "time ne": lambda d: d["t"] != pd.Timestamp("2013-03-01"),
}


@settings(max_examples=30)
@given(table=tables("i", "small", "f", "s", "t"))
@agreed
def test_expressions_give_pandas_answers(table: pa.Table) -> None:
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    theirs["small"] = theirs["small"].astype("Int8")  # what our int8 column is: integers with missing
    with np.errstate(all="ignore"):
        exprs = NUMERIC | TESTS
        wanted = pd.DataFrame({name: expr(theirs) for name, expr in exprs.items()})
    assert_same(
        mine.assign(**{n: expr(mine) for n, expr in exprs.items()})[list(exprs)], wanted, ordered=True
    )


@settings(max_examples=20)
@given(table=tables("i", "f", "s", "t"))
@agreed
def test_masks_keep_pandas_rows(table: pa.Table) -> None:
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    for test in TESTS.values():
        assert_same(mine[test(mine)], theirs[test(theirs)], ordered=True)


def test_mask_with_missing_values_case_39() -> None:
    numbers = fs.from_arrow(pa.table({"x": [1, 2, 3], "m": [True, False, None], "f": [1.0, None, 2.0]}))
    assert numbers[numbers["m"]]["x"].to_pandas().tolist() == [1]
    assert numbers[numbers["f"] != 1].to_pandas()["x"].tolist() == [2, 3]
    nan = fs.from_arrow(pa.table({"f": [1.0, float("nan"), 2.0]}))
    assert len(nan[nan["f"] != 1]) == 2
    assert len(nan[~(nan["f"] == 1)]) == 2


def test_integers_stay_integers_with_missing_values() -> None:
    frame = fs.from_arrow(pa.table({"i": pa.array([1, None, 3], pa.int16())}))
    assert (frame["i"] + 1).dtype == pa.int16()
    assert (frame["i"] // 2).dtype == pa.int16()
    assert frame["i"].fillna(0).dtype == pa.int16()
    assert (frame["i"] + frame["i"].astype("int64")).dtype == pa.int64()
    assert (frame["i"] / 2).dtype == pa.float64()
    assert (frame["i"] + 1).to_arrow().to_pylist() == [2, None, 4]


def test_integers_wrap_as_in_numpy() -> None:
    frame = fs.from_arrow(pa.table({"i": pa.array([127, -128], pa.int8())}))
    assert_same_series(frame["i"] + 1, pd.Series([127, -128], dtype="int8") + 1)


@pytest.mark.parametrize("operation", [operator.floordiv, operator.mod, operator.truediv])
def test_division_by_zero_is_pandas(operation: Callable[[Any, Any], Any]) -> None:
    table = pa.table({"a": [5, -5, 0, 7, -7], "b": [0, 0, 0, 2, 2]})
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    assert_same_series(operation(mine["a"], mine["b"]), operation(theirs["a"], theirs["b"]))
    assert_same_series(operation(mine["a"], 0), operation(theirs["a"], 0))
    assert_same_series(operation(mine["a"], 3), operation(theirs["a"], 3))


def test_columns_of_earlier_frames_of_the_same_rows() -> None:
    table = pa.table({"x": [1, 5, 3, 8], "s": ["a", "b", None, "d"]})
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    late = mine["x"] > 2
    wide = mine.assign(y=mine["x"] * 2)
    wide["z"] = wide["y"] - mine["x"]
    theirs = theirs.assign(y=theirs["x"] * 2, z=lambda d: d["y"] - d["x"])
    assert_same(wide[late], theirs[theirs["x"] > 2], ordered=True)
    assert_same(mine.assign(w=wide["z"]), theirs[["x", "s"]].assign(w=theirs["z"]), ordered=True)
    kept = mine.persist()
    assert_same(kept[late], theirs[["x", "s"]][theirs["x"] > 2], ordered=True)
    other = fs.from_arrow(table)
    with pytest.raises(InvalidArgument, match="different rows"):
        mine._filter(other["x"] > 2)


def test_assign_sees_earlier_columns() -> None:
    table = pa.table({"x": [1.0, None, 3.0]})
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    assert_same(
        mine.assign(a=mine.x + 1, b=lambda d: d.a * 2, c=mine.x, d="k", e=lambda d: d.b + d.c),
        theirs.assign(a=theirs.x + 1, b=lambda d: d.a * 2, c=theirs.x, d="k", e=lambda d: d.b + d.c),
        ordered=True,
    )


@settings(max_examples=20)
@given(table=tables("i", "f", "s"))
@agreed
def test_changing_columns_and_rows(table: pa.Table) -> None:
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    assert_same(mine[["s", "i"]], theirs[["s", "i"]], ordered=True)
    assert_same(mine.rename(columns={"i": "j", "no": "x"}), theirs.rename(columns={"i": "j"}), ordered=True)
    assert_same(mine.rename(columns=str.upper), theirs.rename(columns=str.upper), ordered=True)
    assert_same(mine.drop(columns=["f"]), theirs.drop(columns=["f"]), ordered=True)
    assert_same(mine.dropna(), theirs.dropna(), ordered=True)
    assert_same(
        mine.dropna(subset=["f", "s"], how="all"), theirs.dropna(subset=["f", "s"], how="all"), ordered=True
    )
    assert_same(mine.dropna(subset="i"), theirs.dropna(subset="i"), ordered=True)
    assert_same(mine.fillna({"i": 0, "s": "-"}), theirs.fillna({"i": 0, "s": "-"}), ordered=True)
    assert_same(mine[["i", "f"]].fillna(0), theirs[["i", "f"]].fillna(0), ordered=True)
    assert_same(mine.isna(), theirs.isna(), ordered=True)
    assert_same(mine.notna(), theirs.notna(), ordered=True)
    assert_same(mine.dropna().astype({"i": "int32"}), theirs.dropna().astype({"i": "int32"}), ordered=True)


def test_errors_are_raised_when_a_plan_is_built() -> None:
    frame = fs.from_arrow(pa.table({"delay": [1, 2], "name": ["a", "b"]}))
    with pytest.raises(ColumnNotFound, match=r"'dealy'.*did you mean 'delay'"):
        frame["dealy"]
    with pytest.raises(KeyError):
        frame[["delay", "nope"]]
    with pytest.raises(AttributeError):
        _ = frame.nope
    with pytest.raises(SchemaError, match="cast one of them"):
        frame["delay"] + frame["name"]
    with pytest.raises(SchemaError):
        frame["delay"].__eq__("a")
    with pytest.raises(SchemaError, match="parentheses"):
        frame["name"] & frame["delay"]
    with pytest.raises(SchemaError, match="mask must be boolean"):
        frame[frame["delay"]]
    with pytest.raises(InvalidArgument, match="truth value"):
        bool(frame["delay"] > 1)
    with pytest.raises(InvalidArgument):
        frame["delay"].__gt__([1, 2])
    with pytest.raises(InvalidArgument, match="list-like"):
        frame["name"].isin("a")
    with pytest.raises(SchemaError, match="fillna"):
        frame.fillna(0)
    with pytest.raises(InvalidArgument, match=r"unique.*'name'"):
        frame.rename(columns={"delay": "name"})


def test_a_value_that_cannot_be_converted_fails_on_all_pes() -> None:
    words = fs.from_arrow(pa.table({"s": ["1", "2", "3", "4", "5", "x"]}))
    with pytest.raises(DataError, match=r"\[astype\].*'x'.*cast\(s, dtype=int64\)"):
        words["s"].astype("int64").to_arrow()
    assert words[words["s"] != "x"]["s"].astype("int64").sum() == 15


def test_astype() -> None:
    table = pa.table({"f": [1.0, 2.5, None, 1e16], "b": [True, False, None, True], "i": [1, None, 3, 4]})
    frame, theirs = fs.from_arrow(table), table.to_pandas()
    assert frame["f"].astype("int64").to_arrow().to_pylist() == [1, 2, None, 10**16]
    assert frame["f"].astype(str).to_arrow().to_pylist() == ["1.0", "2.5", None, "1e+16"]
    assert frame["b"].astype("str").to_arrow().to_pylist() == ["True", "False", None, "True"]
    assert frame["b"].astype("int64").to_arrow().to_pylist() == [1, 0, None, 1]
    assert frame["i"].astype(np.float32).dtype == pa.float32()
    assert frame["f"].astype(pd.Float32Dtype()).dtype == pa.float32()
    assert_same_series(frame["f"].astype("float32"), theirs["f"].astype("float32"))
    times = fs.from_arrow(pa.table({"t": ["2013-01-01 05:00:00", None, "2013-06-30"]}))["t"]
    assert times.astype("datetime64[us]").dt.month.to_arrow().to_pylist() == [1, None, 6]


def test_categories_do_not_depend_on_row_order_or_pes() -> None:
    words = ["LGA", "EWR", None, "JFK", "EWR", "LGA", "JFK"]
    for order in (words, words[::-1]):
        frame = fs.from_arrow(pa.table({"o": order})).assign(c=lambda d: d["o"].astype("category"))
        part = frame.local().column("c").combine_chunks()
        assert part.dictionary.to_pylist() == ["EWR", "JFK", "LGA"]
        assert frame.to_arrow().column("c").to_pylist() == order
