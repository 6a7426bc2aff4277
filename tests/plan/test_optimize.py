# SPDX-License-Identifier: Apache-2.0
"""Rewrites: what plans look like afterwards, and that they mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import flightshmem as fs
from flightshmem.execute import LocalExecutor
from flightshmem.io.memory import TableSource
from flightshmem.plan.explain import explain
from flightshmem.plan.nodes import Scan, walk
from flightshmem.plan.optimize import optimize


def sized(name: str, table: pa.Table, rows: int) -> fs.DataFrame:
    """Return a frame that claims to have ``rows`` rows."""
    source = TableSource(table, name, rows, 0, False)
    return fs.DataFrame(Scan(source, tuple(table.schema.names)))


FLIGHTS = pa.table(
    {
        "tailnum": pa.array(["N1", None, "N2"]),
        "origin": pa.array(["JFK", "LGA", "EWR"]),
        "delay": pa.array([1.0, None, 30.0]),
        "distance": pa.array([100, 200, 300], pa.int32()),
        "year": pa.array([2013, 2013, 2013], pa.int16()),
    }
)
PLANES = pa.table({"tailnum": ["N1", "N2"], "year": pa.array([1999, 2004], pa.int16()), "seats": [100, 50]})


def test_pipeline_plan() -> None:
    flights, planes = sized("flights", FLIGHTS, 336_776), sized("planes", PLANES, 3_322)
    joined = flights.merge(planes, on="tailnum", how="left")
    joined = joined[joined["delay"].notna() & (joined["seats"] > 10)]
    joined = joined.assign(late=joined["delay"] > 15, age=joined["year_x"] - joined["year_y"])
    plan = joined.groupby("origin").agg(share=("late", "mean"), n=("late", "size"))._plan
    assert explain(optimize(plan, 4)) == (
        "Aggregate by origin [share=mean(late), n=size()] (partial on each PE, then by range of key, sorted)"
        "  ~336,776 rows, ~12.8 MiB\n"
        "  Project [origin, late=(delay > 15.0)]  ~336,776 rows, ~7.7 MiB\n"
        "    Filter (seats > 10)  ~336,776 rows, ~12.8 MiB\n"
        "      Join left on tailnum (broadcast: the right side goes to every PE)  ~336,776 rows, ~12.8 MiB\n"
        "        Filter not(is_missing(delay))  ~336,776 rows, ~18.0 MiB\n"
        "          Scan flights [tailnum, origin, delay]  ~336,776 rows, ~18.0 MiB\n"
        "        Scan planes [tailnum, seats]  ~3,322 rows, ~103.8 KiB"
    )


def test_strategies_by_size() -> None:
    big, small = sized("big", FLIGHTS, 10_000_000), sized("small", PLANES, 1000)
    cases = [
        (big.merge(small, on="tailnum"), "broadcast: the right side"),
        (small.merge(big, on="tailnum"), "broadcast: the left side"),
        (small.merge(big, on="tailnum", how="left"), "shuffle: both"),
        (big.merge(sized("big2", PLANES, 10_000_000), on="tailnum"), "shuffle: both"),
        (big.merge(small, on="tailnum", strategy="shuffle"), "shuffle: both"),
        (big.merge(big.assign(x=1), on="tailnum", strategy="broadcast"), "broadcast: the right side"),
        (big.groupby("origin").size(), "by range of key"),
        (big.groupby("origin", sort=False).size(), "by hash of key"),
    ]
    for frame, text in cases:
        assert text in explain(optimize(frame._plan, 4)), explain(optimize(frame._plan, 4))
    assert "nothing moves" in explain(optimize(cases[0][0]._plan, 1))


def test_rows_that_lie_by_key_do_not_move() -> None:
    big = sized("big", FLIGHTS, 10_000_000)
    by_plane = big.groupby("tailnum", sort=False).agg(delay=("delay", "mean"))
    joined = by_plane.merge(big.groupby("tailnum", sort=False).size(), on="tailnum")
    renamed = joined.rename(columns={"tailnum": "plane"})[["plane", "delay"]]
    text = explain(optimize(renamed.groupby(["plane", "delay"], sort=False).size()._plan, 4))
    assert "co-partitioned" in text
    assert "Aggregate by plane, delay [size=size()] (nothing moves)" in text
    changed = joined.assign(tailnum=joined["tailnum"].str.lower())
    assert "by hash of key" in explain(optimize(changed.groupby("tailnum", sort=False).size()._plan, 4))


def test_a_shared_step_keeps_what_every_reader_needs() -> None:
    base = sized("flights", FLIGHTS, 1000)
    base = base[base["delay"] > 0]
    plan = optimize(base[["origin"]].merge(base[["origin", "distance"]], on="origin")._plan, 2)
    scans = [node for node in walk(plan) if isinstance(node, Scan)]
    assert len(scans) == 1
    assert set(scans[0].columns) == {"origin", "distance", "delay"}
    assert "(shared #1, computed once)" in explain(plan)


NUMBERS = st.lists(st.none() | st.integers(0, 5), min_size=0, max_size=12)


@st.composite
def frames(draw: st.DrawFn, depth: int = 4) -> fs.DataFrame:
    """Give random pipelines over columns a (key), b and c."""
    rows = draw(NUMBERS)
    table = pa.table(
        {
            "a": pa.array(rows, pa.int64()),
            "b": pa.array(rows[::-1], pa.float64()),
            "c": pa.array(rows, pa.int32()),
        }
    )
    frame = fs.from_arrow(table)
    for _ in range(draw(st.integers(0, depth))):
        frame = _step(draw, frame, depth)
    return frame


def _step(draw: st.DrawFn, frame: fs.DataFrame, depth: int) -> fs.DataFrame:
    limit = draw(st.integers(0, 5))
    steps: list[Any] = [
        lambda: frame[frame["a"] > limit],
        lambda: frame[(frame["b"] != limit) & (frame["a"] < 4)],
        lambda: frame[frame["c"].isna() | (frame["b"] >= limit)],
        lambda: frame.assign(b=frame["b"] * 2 + frame["c"], a=frame["a"]),
        lambda: frame.rename(columns={"b": "c", "c": "b"})[["a", "b", "c"]],
        lambda: frame.sort_values(["b", "a"], ascending=[False, True]),
        lambda: frame.head(limit),
        lambda: frame.groupby("a", dropna=False).agg(b=("b", "sum"), c=("c", "max")),
        lambda: frame.merge(frame.groupby("a").agg(d=("b", "max")), on="a", how="left").rename(
            columns={"c": "x", "d": "c"}
        )[["a", "b", "c"]],
    ]
    if depth > 1:
        other = draw(frames(depth=depth - 2))
        how = draw(st.sampled_from(["inner", "left"]))
        steps.append(
            lambda: frame.merge(other, on="a", how=how, suffixes=("", "_r"))[["a", "b", "c_r"]].rename(
                columns={"c_r": "c"}
            )
        )
    return draw(st.sampled_from(steps))()


@settings(max_examples=150, deadline=None)
@given(frame=frames(), n_pes=st.integers(1, 4), columns=st.sets(st.sampled_from("abc"), min_size=1))
def test_rewrites_keep_the_meaning(frame: fs.DataFrame, n_pes: int, columns: set[str]) -> None:
    plan = frame[sorted(columns)]._plan
    expected = LocalExecutor().execute(plan)
    rewritten = optimize(plan, n_pes)
    assert rewritten.schema.equals(expected.schema)
    np.testing.assert_equal(LocalExecutor().execute(rewritten).to_pydict(), expected.to_pydict())
