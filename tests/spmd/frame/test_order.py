# SPDX-License-Identifier: Apache-2.0
"""sort_values and head over PEs against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.frames import tables
from spmd.oracle import assert_same

import flightshmem as fs
from flightshmem.errors import ColumnNotFound, InvalidArgument, SchemaError
from flightshmem.testing import agreed

KEYS = ["ki", "kf", "ks", "b", "t", "n", "small"]


@settings(max_examples=40)
@given(
    table=tables(*KEYS),
    by=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True),
    ascending=st.lists(st.booleans(), min_size=3, max_size=3),
    na_position=st.sampled_from(["first", "last"]),
)
@agreed
def test_sort_is_pandas_and_stable(
    table: pa.Table, by: list[str], ascending: list[bool], na_position: str
) -> None:
    table = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    orders = ascending[: len(by)]
    expected = _pandas_sort(table.to_pandas(), by, orders, na_position)
    ours = fs.from_arrow(table).sort_values(by, ascending=orders, na_position=na_position)
    assert_same(ours, expected, ordered=True)


def _pandas_sort(frame: pd.DataFrame, by: list[str], orders: list[bool], na_position: str) -> pd.DataFrame:
    # Key by key from the last, each stable: pandas promises stability for one key only.
    for name, order in reversed(list(zip(by, orders, strict=True))):
        frame = frame.sort_values(name, ascending=order, kind="stable", na_position=na_position)  # type: ignore[call-overload]
    return frame


def test_sort_keeps_missing_rows_case_12() -> None:
    values = [*range(200), *[None] * 100]
    rng = np.random.default_rng(12)
    shuffled = [values[i] for i in rng.permutation(300)]
    ours = fs.from_arrow(pa.table({"a": shuffled})).sort_values("a").to_arrow().column("a").to_pylist()
    assert ours == values


def test_two_keys_with_missing_values_case_13() -> None:
    table = pa.table({"a": [*range(15), *[None] * 5], "b": range(19, -1, -1)})
    rows = fs.from_arrow(table).sort_values(["a", "b"]).to_arrow().to_pylist()
    assert [row["a"] for row in rows] == [*range(15), *[None] * 5]
    assert [row["b"] for row in rows[15:]] == [0, 1, 2, 3, 4]


def test_large_sort_is_even_over_pes() -> None:
    rng = np.random.default_rng(5)
    table = pa.table({"k": rng.normal(size=40_000), "s": rng.choice(["x", "yy", "zzz"], 40_000)})
    ours = fs.from_arrow(table).sort_values("k")
    assert abs(ours.local().num_rows - 40_000 / fs.n_pes()) < 2000
    assert_same(ours, table.to_pandas().sort_values("k"), ordered=True)
    by_text = fs.from_arrow(table).sort_values(["s", "k"], ascending=[False, True])
    assert_same(by_text, table.to_pandas().sort_values(["s", "k"], ascending=[False, True]), ordered=True)


def test_frequent_keys_are_spread_over_pes_stably() -> None:
    rng = np.random.default_rng(6)
    k = np.where(rng.random(30_000) < 0.9, 5, rng.integers(0, 10, 30_000))
    table = pa.table({"k": k, "row": np.arange(30_000), "s": pa.array(k.astype(str))})
    for by, ascending in ((["k"], True), (["k"], False), (["s"], True), (["k", "s"], True)):
        ours = fs.from_arrow(table).sort_values(by, ascending=ascending)
        assert abs(ours.local().num_rows - 30_000 / fs.n_pes()) < 1500
        expected = table.to_pandas().sort_values("k", ascending=ascending, kind="stable")
        assert_same(ours, expected, ordered=True)
    grouped = fs.from_arrow(table).groupby("k").agg(rows=("row", "count"))
    assert_same(grouped, pd.Series(k).value_counts().sort_index().rename_axis("k").reset_index(name="rows"))


def test_all_rows_on_one_pe() -> None:
    rows = 3000 if fs.pe() == fs.n_pes() - 1 else 0
    rng = np.random.default_rng(8)
    words = pa.array([None, *(f"w{i}".encode() for i in range(50))], pa.binary())
    mine = pa.table({"b": words.take(pa.array(rng.integers(0, 51, rows))), "row": np.arange(rows)})
    ours = fs.from_arrow(mine, distributed=True).sort_values("b", ascending=False, na_position="first")
    got = ours.to_arrow().to_pylist()
    assert len(got) == 3000
    # Missing first, the others descending, ties in the order of rows.
    assert got == sorted(
        sorted(got, key=lambda row: row["row"]),
        key=lambda row: (row["b"] is None, row["b"] or b""),
        reverse=True,
    )


def test_sort_of_one_value_and_of_nothing() -> None:
    same = fs.from_arrow(pa.table({"k": [3] * 50, "i": range(50)})).sort_values("k", ascending=False)
    assert same["i"].to_arrow().to_pylist() == list(range(50))
    none = fs.from_arrow(pa.table({"k": pa.array([], pa.string())})).sort_values("k")
    assert len(none) == 0
    missing = fs.from_arrow(pa.table({"k": pa.nulls(7, pa.string()), "i": range(7)})).sort_values("k")
    assert missing["i"].to_arrow().to_pylist() == list(range(7))


def test_extreme_integers_sort() -> None:
    values = [2**63 - 1, -(2**63), 0, -1, 1, 2**62]
    table = pa.table(
        {"k": pa.array(values, pa.int64()), "u": pa.array([v % 2**64 for v in values], pa.uint64())}
    )
    frame = fs.from_arrow(table)
    assert frame.sort_values("k")["k"].to_arrow().to_pylist() == sorted(values)
    assert frame.sort_values("u", ascending=False)["u"].to_arrow().to_pylist() == sorted(
        (v % 2**64 for v in values), reverse=True
    )


def test_categories_sort_by_value() -> None:
    table = pa.table({"c": pa.array(["z", "a", None, "m", "a"]).dictionary_encode()})
    ours = fs.from_arrow(table).sort_values("c").to_arrow().column("c").to_pylist()
    assert ours == ["a", "a", "m", "z", None]


@settings(max_examples=20)
@given(table=tables("i", "s"), n=st.integers(0, 40))
@agreed
def test_head_is_pandas(table: pa.Table, n: int) -> None:
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    assert_same(mine.head(n), theirs.head(n), ordered=True)
    assert_same(mine[mine["i"] > 0].head(n), theirs[theirs["i"] > 0].head(n), ordered=True)
    assert len(mine.head(n)) == len(theirs.head(n))
    assert_same(mine["i"].head(n), theirs[["i"]].head(n), ordered=True)


def test_wrong_arguments() -> None:
    frame = fs.from_arrow(pa.table({"a": [1], "l": [[1]]}))
    with pytest.raises(ColumnNotFound, match="'b'"):
        frame.sort_values("b")
    with pytest.raises(InvalidArgument, match="one direction per key"):
        frame.sort_values(["a"], ascending=[True, False])
    with pytest.raises(InvalidArgument, match="na_position"):
        frame.sort_values("a", na_position="middle")
    with pytest.raises(SchemaError, match="'l'"):
        frame.sort_values("l")
    with pytest.raises(InvalidArgument):
        frame.head(-1)
