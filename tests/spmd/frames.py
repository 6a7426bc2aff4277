# SPDX-License-Identifier: Apache-2.0
"""Random tables for frame tests: few distinct keys, missing values, NaN, -0.0, empty and skewed shards."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

EPOCH = datetime.datetime(2013, 1, 1)

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-1000, 1000)),
    "small": (pa.int8(), st.integers(-128, 127)),
    "f": (
        pa.float64(),
        st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e10, float("nan")]) | st.integers(-9, 9).map(float),
    ),
    "s": (pa.string(), st.sampled_from(["", "a", "b", "ab", "B", "é", "z🙂"])),
    "b": (pa.bool_(), st.booleans()),
    "t": (pa.timestamp("us"), st.integers(0, 400_000).map(lambda m: EPOCH + datetime.timedelta(minutes=m))),
    "d": (pa.date32(), st.integers(0, 300).map(lambda n: (EPOCH + datetime.timedelta(days=n)).date())),
    "n": (pa.decimal128(9, 2), st.integers(-99999, 99999).map(lambda c: Decimal(c) / 100)),
    "c": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y", "z"])),
    "ki": (pa.int64(), st.integers(0, 4)),
    "kn": (pa.int32(), st.integers(0, 4)),
    "kf": (pa.float64(), st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan")])),
    "ks": (pa.string(), st.sampled_from(["", "a", "b"])),
}


@st.composite
def tables(draw: st.DrawFn, *names: str, max_rows: int = 30, nulls: bool = True) -> pa.Table:
    """Give tables with the named columns of VALUES."""
    rows = draw(st.integers(0, max_rows))
    columns = {}
    for name in names:
        dtype, values = VALUES[name]
        choice = (st.none() | values) if nulls else values
        columns[name] = pa.array(draw(st.lists(choice, min_size=rows, max_size=rows)), dtype)
    return pa.table(columns)
