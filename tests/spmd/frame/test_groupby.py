# SPDX-License-Identifier: Apache-2.0
"""groupby and reductions against pandas."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.frames import tables
from spmd.oracle import assert_same, is_equal

import flightshmem as fs
from flightshmem.errors import InvalidArgument, Overflow, SchemaError
from flightshmem.execute import gather
from flightshmem.runtime import Runtime
from flightshmem.testing import agreed

NUMBERS = ["sum", "mean", "count", "min", "max", "std", "var", "nunique"]


@settings(max_examples=40)
@given(
    table=tables("ki", "kf", "ks", "i", "f", "b"),
    keys=st.lists(st.sampled_from(["ki", "kf", "ks"]), min_size=1, max_size=3, unique=True),
    dropna=st.booleans(),
    is_sorted=st.booleans(),
)
@agreed
def test_groupby_is_pandas(table: pa.Table, keys: list[str], dropna: bool, is_sorted: bool) -> None:
    theirs = table.to_pandas().astype({"ki": "Int64", "b": "boolean"})
    named = {f"{column}_{function}": (column, function) for column in "if" for function in NUMBERS}
    named |= {"any": ("b", "any"), "all": ("b", "all"), "trues": ("b", "sum")}
    expected = theirs.groupby(keys, dropna=dropna, as_index=False).agg(**named)
    ours = fs.from_arrow(table).groupby(keys, dropna=dropna, sort=is_sorted).agg(**named)
    # Keys of a group can only be -0.0 or 0.0, which are equal; missing keys come last when sorted.
    assert_same(ours, expected, ordered=is_sorted)


@settings(max_examples=20)
@given(table=tables("ks", "s", "t", "d", "n", "c", "f"))
@agreed
def test_min_max_count_nunique_of_other_types(table: pa.Table) -> None:
    theirs = table.to_pandas()
    theirs["c"] = theirs["c"].astype("str")
    functions = {"min": min, "max": max, "nunique": lambda v: len(set(v)), "count": len}
    rows = []
    for key, group in theirs.groupby("ks"):
        row: dict[str, Any] = {"ks": key}
        for column in "stdnc":
            present = group[column].dropna().tolist()
            for name, function in functions.items():
                row[f"{column}_{name}"] = (
                    function(present) if present or name in ("nunique", "count") else None
                )
        rows.append(row)
    ours = fs.from_arrow(table).groupby("ks")[list("stdnc")].agg(list(functions))
    names = ["ks", *(f"{c}_{f}" for c in "stdnc" for f in functions)]
    assert_same(ours, pd.DataFrame(rows, columns=names))


@settings(max_examples=25)
@given(table=tables("i", "f", "b", "s", "t"))
@agreed
def test_reductions_are_pandas(table: pa.Table) -> None:
    mine, theirs = fs.from_arrow(table), table.to_pandas().astype({"i": "Int64", "b": "boolean"})
    for column in "if":
        for function in NUMBERS:
            ours, wanted = getattr(mine[column], function)(), getattr(theirs[column], function)()
            assert is_equal(_plain(ours), _plain(wanted)), (column, function, ours, wanted)
    assert mine["b"].any() == bool(theirs["b"].any())
    assert mine["b"].all() == bool(theirs["b"].all())
    assert mine["b"].sum() == theirs["b"].sum()
    assert mine["s"].nunique() == theirs["s"].nunique()
    assert mine["s"].count() == theirs["s"].count()
    assert _plain(mine["t"].max()) == _plain(theirs["t"].max())
    assert len(mine) == len(theirs)
    assert mine.shape == theirs.shape


def _plain(value: Any) -> Any:
    if value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, (str, pd.Timestamp, bool)) else float(value)


def test_nan_keys_case_15() -> None:
    frame = fs.from_arrow(pa.table({"k": [1.0, 1.0, 2.0, float("nan"), None, -0.0, 0.0]}))
    assert frame.groupby("k").size().to_arrow().to_pylist() == [
        {"k": 0.0, "size": 2},
        {"k": 1.0, "size": 2},
        {"k": 2.0, "size": 1},
    ]
    last = frame.groupby("k", dropna=False).size().to_arrow().to_pylist()[-1]
    assert last == {"k": None, "size": 2}


def test_two_keys_with_missing_values_case_16() -> None:
    frame = fs.from_arrow(pa.table({"a": [1, 2, None, None], "b": [1, None, None, 3], "c": [4, 5, 6, 7]}))
    assert frame.groupby(["a", "b"], dropna=False)["c"].sum().to_arrow().to_pylist() == [
        {"a": 1, "b": 1, "c": 4},
        {"a": 2, "b": None, "c": 5},
        {"a": None, "b": 3, "c": 7},
        {"a": None, "b": None, "c": 6},
    ]


def test_sorted_with_empty_shards_case_17() -> None:
    table = pa.table({"a": list("abcdefg"), "e": list("gfedcba"), "x": range(7)})
    frame = fs.from_arrow(table)
    ours = frame[~frame["a"].isin(["a", "e"])].groupby(["a", "e"]).sum()
    theirs = table.to_pandas().query("a not in ('a', 'e')").groupby(["a", "e"], as_index=False).sum()
    assert_same(ours, theirs, ordered=True)


@pytest.mark.parametrize("rows", [10, 3000])
def test_all_missing_group_case_24(rows: int) -> None:
    frame = fs.from_arrow(pa.table({"k": [1] * rows, "v": pa.nulls(rows, pa.float64())}))
    ours = frame.groupby("k")["v"].agg(["mean", "sum", "count", "min", "std"])
    assert ours.to_arrow().to_pylist() == [
        {"k": 1, "mean": None, "sum": 0.0, "count": 0, "min": None, "std": None}
    ]
    assert frame["v"].sum() == 0.0
    assert math.isnan(frame["v"].mean())


def test_decimals_case_32() -> None:
    money = pa.array([Decimal("999.99"), Decimal("999.99"), None], pa.decimal128(5, 2))
    frame = fs.from_arrow(pa.table({"k": [1, 1, 2], "v": money}))
    ours = frame.groupby("k")["v"].sum().to_arrow()
    assert ours.column("v").to_pylist() == [Decimal("1999.98"), Decimal("0.00")]
    assert ours.schema.field("v").type == pa.decimal128(38, 2)
    assert frame["v"].mean() == pytest.approx(999.99)


def test_nunique_over_shards_case_34() -> None:
    frame = fs.from_arrow(pa.table({"g": [0, 0, 0, 0], "a": [1, 2, 2, None]}))
    assert frame.groupby("g")["a"].nunique().to_arrow().to_pylist() == [{"g": 0, "a": 2}]
    assert frame["a"].nunique() == 2


def test_category_keys() -> None:
    words = ["z", None, "a"] if fs.pe() == 0 else ["m", "a"]
    frame = fs.from_arrow(
        pa.table({"c": pa.array(words).dictionary_encode(), "x": range(len(words))}), distributed=True
    )
    for is_sorted in (True, False):
        ours = frame.groupby("c", sort=is_sorted).agg(n=("x", "count"), low=("c", "min")).to_arrow()
        assert pa.types.is_dictionary(ours.schema.field("c").type)
        others = fs.n_pes() - 1
        wanted = {"a": 1 + others, "z": 1} | ({"m": others} if others else {})
        assert dict(zip(ours.column("c").to_pylist(), ours.column("n").to_pylist(), strict=True)) == wanted
        assert ours.column("low").to_pylist() == ours.column("c").to_pylist()
        assert not is_sorted or ours.column("c").to_pylist() == sorted(wanted)


def test_forms_of_agg() -> None:
    table = pa.table({"k": ["b", "a", "b"], "x": [1, 2, 3], "y": [1.0, None, 3.0], "s": ["u", "v", "w"]})
    mine, theirs = fs.from_arrow(table).groupby("k"), table.to_pandas().groupby("k", as_index=False)
    assert_same(mine[["x", "y"]].agg("sum"), theirs[["x", "y"]].agg("sum"), ordered=True)
    assert_same(mine.agg({"x": "sum", "y": "max"}), theirs.agg({"x": "sum", "y": "max"}), ordered=True)
    assert_same(mine["x"].sum(), theirs["x"].sum(), ordered=True)
    assert_same(mine.x.agg(total="sum"), theirs.agg(total=("x", "sum")), ordered=True)
    assert_same(mine.size(), theirs.size(), ordered=True)
    assert_same(mine.count(), theirs.count(), ordered=True)
    assert_same(mine.mean(numeric_only=True), theirs.mean(numeric_only=True), ordered=True)
    assert mine.agg({"x": ["min", "max"], "y": "mean"}).columns == ["k", "x_min", "x_max", "y"]
    assert mine[["x"]].agg(["min", "max"]).columns == ["k", "x_min", "x_max"]
    assert mine["x"].agg(["min", "max"]).columns == ["k", "min", "max"]
    with pytest.raises(SchemaError, match="column 's'"):
        mine.sum()
    with pytest.raises(KeyError, match="'nope'"):
        mine.agg(n=("nope", "sum"))
    with pytest.raises(InvalidArgument, match="'median'"):
        mine.agg("median")
    with pytest.raises(InvalidArgument, match="name="):
        mine.agg(n="sum")
    with pytest.raises(InvalidArgument, match="index"):
        fs.from_arrow(table).groupby("k", as_index=True)
    with pytest.raises(KeyError):
        fs.from_arrow(table).groupby("kk")


def test_many_groups_and_skew() -> None:
    rng = np.random.default_rng(1)
    rows = 30_000
    keys = np.where(rng.random(rows) < 0.9, 7, rng.integers(0, 10_000, rows))
    table = pa.table({"k": keys, "x": rng.normal(5.0, 2.0, rows), "i": rng.integers(-(2**40), 2**40, rows)})
    functions = {"m": ("x", "mean"), "sd": ("x", "std"), "t": ("i", "sum"), "u": ("i", "nunique")}
    theirs = table.to_pandas().groupby("k", as_index=False).agg(**functions)
    for is_sorted in (True, False):
        ours = fs.from_arrow(table).groupby("k", sort=is_sorted).agg(**functions).to_pandas()
        ours = ours.sort_values("k", ignore_index=True)
        np.testing.assert_array_equal(ours[["k", "t", "u"]], theirs[["k", "t", "u"]])
        np.testing.assert_allclose(ours["m"], theirs["m"], rtol=1e-12)
        np.testing.assert_allclose(ours["sd"], theirs["sd"], rtol=1e-12, atol=1e-12)


def test_spread_is_stable_far_from_zero() -> None:
    # Squares of the values would leave no digit right; the values' own rounding allows 1e-9.
    values = 1e9 + np.arange(1000) % 7
    frame = fs.from_arrow(pa.table({"k": [1] * 1000, "x": values}))
    exact = float(np.std(np.arange(1000) % 7, ddof=1))
    assert frame["x"].std() == pytest.approx(exact, rel=1e-9)
    assert frame.groupby("k")["x"].std().to_arrow().column("x")[0].as_py() == pytest.approx(exact, rel=1e-9)


def test_sums_that_leave_64_bits() -> None:
    frame = fs.from_arrow(pa.table({"k": [1] * 6, "x": pa.array([2**62] * 6, pa.int64())}))
    with pytest.raises(OverflowError, match="'x'"):
        frame["x"].sum()
    with pytest.raises(Overflow):
        frame.groupby("k")["x"].sum().to_arrow()
    assert frame["x"].astype("float64").sum() == 6 * 2.0**62
    fits = fs.from_arrow(pa.table({"x": pa.array([2**62, -(2**62)] * 3 + [2**62], pa.int64())}))
    assert fits["x"].sum() == 2**62


@settings(max_examples=15)
@given(table=tables("s", "ki"))
@agreed
def test_value_counts(table: pa.Table) -> None:
    for column in ("s", "ki"):
        series = table.to_pandas()[column]
        for dropna in (True, False):
            expected = series.value_counts(dropna=dropna).reset_index()
            ours = fs.from_arrow(table)[column].value_counts(dropna=dropna)
            assert_same(ours, expected)
            counts = ours["count"].to_pandas().tolist()
            assert counts == sorted(counts, reverse=True)
        expected = series.value_counts(normalize=True).reset_index()
        assert_same(fs.from_arrow(table)[column].value_counts(normalize=True), expected)


def test_value_counts_breaks_ties_by_value() -> None:
    frame = fs.from_arrow(pa.table({"s": ["c", "a", "b", "b", "c", "a", "d"]}))
    assert frame["s"].value_counts()["s"].to_arrow().to_pylist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("sort", [False, True])
def test_groups_of_hardly_more_than_a_row(runtime: Runtime, sort: bool) -> None:
    """Rows are moved to where their groups are: as many groups as rows, nearly."""
    rng = np.random.default_rng(runtime.pe)
    keys = rng.integers(0, 60_000 * runtime.n_pes, 30_000)
    mine = pa.table({"k": pa.array(keys, mask=keys % 1000 == 0), "v": rng.random(30_000), "w": keys % 7})
    frame = fs.from_arrow(mine, distributed=True)
    grouped = frame.groupby("k", as_index=False, sort=sort, dropna=False)
    found = grouped.agg(v=("v", "sum"), m=("v", "mean"), n=("w", "nunique")).to_pandas()
    whole = pa.concat_tables(gather.small(runtime, mine)).to_pandas()
    wanted = whole.groupby("k", as_index=False, dropna=False).agg(
        v=("v", "sum"), m=("v", "mean"), n=("w", "nunique")
    )
    if sort:
        assert found["k"].is_monotonic_increasing or found["k"].isna().iloc[-1]
    found = found.sort_values("k", ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
