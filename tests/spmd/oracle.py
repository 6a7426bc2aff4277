# SPDX-License-Identifier: Apache-2.0
"""pandas as the oracle: the same rows, whatever their order; floats to 1e-12 relative."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import flightshmem as fs

RELATIVE = 1e-12


def assert_same(ours: Any, expected: pd.DataFrame, *, ordered: bool = False) -> None:
    """Compare a frame (or table) with pandas' answer: column names in order, then rows."""
    table = ours if isinstance(ours, pa.Table) else ours.to_arrow()
    assert table.schema.names == list(expected.columns)
    mine, theirs = rows_of(table.to_pandas(use_threads=False)), rows_of(expected)
    assert len(mine) == len(theirs), f"{len(mine)} rows instead of {len(theirs)}:\n{mine}\n{theirs}"
    if not ordered:
        mine, theirs = sorted(mine, key=_sort_key), sorted(theirs, key=_sort_key)
    for row, wanted in zip(mine, theirs, strict=True):
        wrong = [n for n, a, b in zip(expected.columns, row, wanted, strict=True) if not is_equal(a, b)]
        assert not wrong, f"column {wrong}: {row} instead of {wanted}\nours:\n{mine}\npandas:\n{theirs}"


def assert_same_series(ours: fs.Series, expected: pd.Series[Any]) -> None:
    """Compare a Series with pandas' answer row by row."""
    assert_same(ours.to_frame("x"), expected.to_frame("x"), ordered=True)


def rows_of(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return rows as tuples of plain Python values; anything missing is None."""
    columns = [[_plain(value) for value in frame.iloc[:, i].tolist()] for i in range(frame.shape[1])]
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: Any) -> Any:
    if isinstance(value, (list, np.ndarray)):
        return [_plain(item) for item in value]
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, float, np.number)):
        return float(value) if float(value) == value else int(value)
    if isinstance(value, pd.Timestamp):
        return (
            value.tz_convert("UTC").tz_localize(None).as_unit("ns").value
            if value.tz
            else value.as_unit("ns").value
        )
    if isinstance(value, (pd.Timedelta, datetime.timedelta)):
        return pd.Timedelta(value).as_unit("ns").value
    return value


def is_equal(left: Any, right: Any) -> bool:
    """Compare two plain values."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or math.isclose(left, right, rel_tol=RELATIVE, abs_tol=1e-300)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return (left is None) == (right is None) and (left is None or Decimal(left) == Decimal(right))
    return bool(left == right)


def _sort_key(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    # Floats that differ in the last bits must sort alike.
    return [
        (value is None, type(value).__name__, f"{value:.9g}" if isinstance(value, float) else str(value))
        for value in row
    ]
