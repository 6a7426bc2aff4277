# SPDX-License-Identifier: Apache-2.0
"""The functions behind ``.dt``: fields of dates and timestamps, in the column's own time zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Values = Any


def _field(kernel: Callable[[Values], Values]) -> Callable[[Values], Values]:
    # int32 as pandas gives
    return lambda values: kernel(values).cast(pa.int32())


def day_of_week(values: Values) -> Values:
    """Monday is 0."""
    return pc.day_of_week(values, count_from_zero=True, week_start=1)


def date(values: Values) -> Values:
    """The calendar day, in the column's time zone."""
    if getattr(values.type, "tz", None) is not None:
        values = pc.local_timestamp(values)
    return values.cast(pa.date32())


def total_seconds(values: Values) -> Values:
    """The length of a duration in seconds."""
    units = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
    return pc.divide(values.cast(pa.int64()).cast(pa.float64(), safe=False), units[values.type.unit])


TEMPORAL_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "dt_year": _field(pc.year),
    "dt_month": _field(pc.month),
    "dt_day": _field(pc.day),
    "dt_hour": _field(pc.hour),
    "dt_minute": _field(pc.minute),
    "dt_second": _field(pc.second),
    "dt_microsecond": _field(lambda v: pc.add(pc.multiply(pc.millisecond(v), 1000), pc.microsecond(v))),
    "dt_dayofweek": _field(day_of_week),
    "dt_quarter": _field(pc.quarter),
    "dt_dayofyear": _field(pc.day_of_year),
    "dt_date": date,
    "dt_total_seconds": total_seconds,
}
