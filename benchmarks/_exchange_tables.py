# SPDX-License-Identifier: Apache-2.0
"""The tables that ours and the peers compute on, and how results are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PARTS = 2
NUMERIC = ["k", "g", "v", "w"]
OPERATIONS = ("join", "groupby_1m", "groupby_100", "filter_assign", "sort")

Check = list[float]
"""Rows of the result and the sums of some of its columns; every engine must get the same."""


def fact_part(part: int, rows: int) -> pa.Table:
    """Give one of the two halves of the fact table; ``rows``: of the whole, a tenth as many keys."""
    random, count = np.random.default_rng(part), rows // PARTS
    names = pa.array([f"name{i:02d}" for i in range(100)])
    columns = {
        "k": random.integers(0, rows // 10, count),
        "g": random.integers(0, 100, count),
        "s": names.take(pa.array(random.integers(0, 100, count))),
        "v": random.random(count),
        "w": random.random(count),
    }
    return pa.table(columns)


def dim_part(part: int, rows: int) -> pa.Table:
    """Give one half of the dimension table: every key once, in no order."""
    random = np.random.default_rng(99)
    keys, values = random.permutation(rows // 10), random.random(rows // 10)
    return pa.table({"k": keys[part::PARTS], "x": values[part::PARTS]})


def whole(part_of: Callable[[int, int], pa.Table], rows: int) -> pa.Table:
    """Put the halves together, in one piece."""
    return pa.concat_tables(part_of(part, rows) for part in range(PARTS)).combine_chunks()


def check(operation: str, table: pa.Table) -> Check:
    """Boil a result, or a PE's part of it, down to numbers that add up over parts."""
    summed = {
        "join": ["k", "x", "v"],
        "groupby_1m": ["k", "v", "w"],
        "groupby_100": ["v", "w"],
        "filter_assign": ["k", "z"],
        "sort": ["k", "v"],
        "exchange": ["k", "v", "w"],
    }[operation]
    if operation == "sort" and table.num_rows > 1:
        keys = np.asarray(table.column("k"))
        if (keys[1:] < keys[:-1]).any():
            raise RuntimeError("the result is not sorted")
    return [float(table.num_rows), *(float(pc.sum(table.column(c)).as_py() or 0) for c in summed)]


def seconds_of(run: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    """Time some runs; the first, which warms up, is not counted. The last result is kept."""
    times, result = [], run()
    for _ in range(repeats):
        result = None  # its memory is free for the next
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return times, result
