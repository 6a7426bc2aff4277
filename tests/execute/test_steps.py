# SPDX-License-Identifier: Apache-2.0
"""Local steps on one process: sorting, matching, merging of states."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.frames import tables

import flightshmem as fs
from flightshmem import _core
from flightshmem.errors import DataError, SchemaError, UnsupportedError
from flightshmem.execute.aggregate import Grouping
from flightshmem.execute.join import match_rows
from flightshmem.execute.keys import key_table
from flightshmem.execute.rows import arrow_errors, rechunk
from flightshmem.execute.sort import choose_cuts, range_pes, sample, sort_order
from flightshmem.plan.nodes import Aggregate, SortKey, SortOrder

KEYS = ["ki", "kf", "ks", "b", "t", "d", "n", "c", "small", "i"]
ORDERS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=3, unique_by=lambda key: key[0]
)


def order_of(keys: list[tuple[str, bool]], missing_last: bool) -> SortOrder:
    return SortOrder(tuple(SortKey(name, ascending) for name, ascending in keys), missing_last)


@settings(deadline=None)
@given(table=tables(*KEYS), keys=ORDERS, missing_last=st.booleans())
def test_sort_order_is_pandas(table: pa.Table, keys: list[tuple[str, bool]], missing_last: bool) -> None:
    frame = table.to_pandas()
    frame["c"] = frame["c"].astype("str")
    for name, ascending in reversed(keys):
        position = "last" if missing_last else "first"
        frame = frame.sort_values(name, ascending=ascending, kind="stable", na_position=position)  # type: ignore[call-overload]
    assert sort_order(table, order_of(keys, missing_last)).to_pylist() == frame.index.tolist()


@settings(deadline=None)
@given(table=tables(*KEYS), keys=ORDERS, missing_last=st.booleans(), n_pes=st.integers(1, 5))
def test_ranges_follow_the_order(
    table: pa.Table, keys: list[tuple[str, bool]], missing_last: bool, n_pes: int
) -> None:
    order = order_of(keys, missing_last)
    half = table.num_rows // 2
    parts = [table.slice(0, half), table.slice(half)]
    samples = [sample(part, order, 4) for part in parts]
    cuts = choose_cuts(samples, [part.num_rows for part in parts], order, n_pes)
    rows_in_order = np.asarray(sort_order(table, order))
    together = np.asarray(range_pes(table, cuts, order))
    divided = [range_pes(part, cuts, order, pe) for pe, part in enumerate(parts)]
    for pes in (together, np.concatenate([np.asarray(part) for part in divided])):
        assert (pes < n_pes).all()
        assert (np.diff(pes[rows_in_order].astype(int)) >= 0).all()
    keys_of = table.select([name for name, _ in keys]).take(pa.array(rows_in_order)).to_pylist()
    for (a, b), (pe_a, pe_b) in zip(pairwise(keys_of), pairwise(together[rows_in_order]), strict=True):
        assert pe_a == pe_b or repr(a) != repr(b)


def test_one_key_is_spread_over_pes_in_stable_order() -> None:
    parts = [
        pa.table({"k": [7] * 1000}),
        pa.table({"k": [7] * 200}),
        pa.table({"k": pa.array([], pa.int64())}),
    ]
    order = order_of([("k", True)], True)
    cuts = choose_cuts([sample(part, order, 64) for part in parts], [1000, 200, 0], order, 3)
    pes = np.concatenate([np.asarray(range_pes(part, cuts, order, pe)) for pe, part in enumerate(parts)])
    assert (np.diff(pes.astype(int)) >= 0).all()
    assert np.abs(np.bincount(pes, minlength=3) - 400).max() <= 32


@settings(deadline=None)
@given(
    left=tables("ki", "kf", "ks"),
    right=tables("ki", "kf", "ks"),
    how=st.sampled_from(["inner", "left"]),
    n=st.integers(1, 3),
)
def test_the_joins_oracle_is_the_join(left: pa.Table, right: pa.Table, how: str, n: int) -> None:
    keys = [key_table(side, ["ki", "kf", "ks"][:n]) for side in (left, right)]
    left_rows, right_rows = _core.join_table(keys[1]).probe(keys[0], how)
    theirs = [rows.to_pylist() for rows in match_rows(*keys, how)]
    assert [list(range(left.num_rows)) if left_rows is None else left_rows.to_pylist()] == theirs[:1]
    assert right_rows.to_pylist() == theirs[1]


FUNCTIONS = ["sum", "mean", "count", "min", "max", "std", "var", "nunique"]


@settings(deadline=None)
@given(table=tables("ks", "ki", "i", "f"), cuts=st.lists(st.integers(0, 30), max_size=4))
def test_states_merge_in_any_parts(table: pa.Table, cuts: list[int]) -> None:
    grouped = fs.from_arrow(table).groupby(["ks", "ki"], dropna=False)[["i", "f"]].agg(FUNCTIONS)
    node = grouped._plan
    assert isinstance(node, Aggregate)
    grouping = Grouping(node)
    whole = grouping.results(grouping.counted(grouping.partial(table))).to_pandas()
    borders = [0, *sorted(min(cut, table.num_rows) for cut in cuts), table.num_rows]
    parts = [table.slice(a, b - a) for a, b in pairwise(borders)]
    states = grouping.merge([grouping.accumulate(parts[:2]), grouping.accumulate(parts[2:])])
    merged = grouping.results(grouping.counted(states)).to_pandas()
    by = ["ks", "ki"]
    pd.testing.assert_frame_equal(
        merged.sort_values(by, ignore_index=True), whole.sort_values(by, ignore_index=True), rtol=1e-12
    )


def test_piled_states_are_merged_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flightshmem.execute.aggregate._PILE_ROWS", 10)
    table = pa.table({"k": [i % 7 for i in range(1000)], "x": np.arange(1000.0)})
    node = fs.from_arrow(table).groupby("k").agg(t=("x", "sum"), sd=("x", "std"), n=("x", "nunique"))._plan
    assert isinstance(node, Aggregate)
    grouping = Grouping(node)
    parts = grouping.accumulate(table.slice(i, 3) for i in range(0, 1000, 3))
    ours = grouping.results(grouping.counted(parts)).to_pandas().sort_values("k", ignore_index=True)
    theirs = (
        table.to_pandas()
        .groupby("k", as_index=False)
        .agg(t=("x", "sum"), sd=("x", "std"), n=("x", "nunique"))
    )
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-12)


def test_rechunk() -> None:
    tables_in = [pa.table({"i": pa.array(range(n), pa.int64())}) for n in (3, 0, 4, 10, 1)]
    assert [table.num_rows for table in rechunk(tables_in, 6)] == [7, 10, 1]
    assert list(rechunk([], 6)) == []


def test_arrow_errors_become_ours() -> None:
    for error, ours in [
        (pa.ArrowInvalid("x"), DataError),
        (pa.ArrowTypeError("x"), SchemaError),
        (pa.ArrowNotImplementedError("x"), UnsupportedError),
    ]:
        with pytest.raises(ours, match=r"\[step\] x"), arrow_errors("step"):
            raise error
