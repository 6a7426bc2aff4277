# SPDX-License-Identifier: Apache-2.0
""".str and .dt against pandas."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from spmd.oracle import assert_same, assert_same_series

import flightshmem as fs
from flightshmem.errors import InvalidArgument, SchemaError

WORDS = ["  Abc ", "", None, "a.b", "straße", "Ünï cödé", "xyz", "aXa", "z🙂z", "x\ny", "a", "ABC abc"]
TEXT: dict[str, Callable[[Any], Any]] = {
    "lower": lambda s: s.lower(),
    "title": lambda s: s.title(),
    "capitalize": lambda s: s.capitalize(),
    "strip": lambda s: s.strip(),
    "strip characters": lambda s: s.strip("a "),
    "lstrip": lambda s: s.lstrip(),
    "rstrip": lambda s: s.rstrip("z"),
    "len": lambda s: s.len(),
    "contains": lambda s: s.contains("a."),
    "contains text": lambda s: s.contains("a.", regex=False),
    "contains any case": lambda s: s.contains("ABC", case=False),
    "startswith": lambda s: s.startswith("a"),
    "endswith": lambda s: s.endswith("z"),
    "replace": lambda s: s.replace("a", "_"),
    "replace once": lambda s: s.replace("a", "_", n=1),
    "replace regex": lambda s: s.replace("[ab]", "", regex=True),
    "slice": lambda s: s.slice(1, 3),
    "slice negative": lambda s: s.slice(-2),
    "brackets": lambda s: s[1:],
    "stop": lambda s: s[:2],
    "step": lambda s: s[::2],
    "index": lambda s: s[0],
    "last": lambda s: s[-1],
}
MOMENTS = [
    datetime.datetime(2013, 1, 1, 5, 17, 3),
    None,
    datetime.datetime(2012, 2, 29, 23, 59, 59, 999_999),
    datetime.datetime(1969, 12, 31, 0, 0, 0, 1),
    datetime.datetime(2024, 12, 30),
    datetime.datetime(4998, 1, 1, 12),
]
FIELDS = [
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "microsecond",
    "day_of_week",
    "quarter",
    "day_of_year",
]


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize(
    "dtype", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_text_is_pandas(name: str, dtype: pa.DataType) -> None:
    mine = fs.from_arrow(pa.table({"s": pa.array(WORDS).cast(dtype)}))["s"]
    theirs = pd.Series(WORDS, dtype="str")
    assert_same_series(TEXT[name](mine.str), TEXT[name](theirs.str))


def test_upper() -> None:
    mine = fs.from_arrow(pa.table({"s": ["abc", None, "Ünï"]}))["s"]
    assert mine.str.upper().to_arrow().to_pylist() == ["ABC", None, "ÜNÏ"]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_timestamps(field: str, unit: str) -> None:
    column = pa.array(MOMENTS, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
    mine = fs.from_arrow(pa.table({"t": column}))["t"]
    theirs = column.to_pandas()
    assert_same_series(getattr(mine.dt, field), getattr(pd.Series(theirs).dt, field))
    assert getattr(mine.dt, field).dtype == pa.int32()


def test_fields_in_the_columns_zone_case_31() -> None:
    midnight = datetime.datetime(2020, 5, 26, 22, tzinfo=datetime.UTC)
    table = pa.table({"t": pa.array([midnight], pa.timestamp("us", "Europe/Berlin"))})
    mine, theirs = fs.from_arrow(table)["t"], table.to_pandas()["t"]
    for field in ("day", "hour", "day_of_week"):
        assert_same_series(getattr(mine.dt, field), getattr(theirs.dt, field))
    assert mine.dt.date.to_arrow().to_pylist() == [datetime.date(2020, 5, 27)]
    assert fs.from_arrow(table).to_arrow().schema.field("t").type == pa.timestamp("us", "Europe/Berlin")


def test_dates_and_spans() -> None:
    table = pa.table(
        {"a": pa.array(MOMENTS[:5], pa.timestamp("us")), "b": pa.array(MOMENTS[4::-1], pa.timestamp("us"))}
    )
    mine, theirs = fs.from_arrow(table), table.to_pandas()
    assert_same(mine.assign(d=mine.a - mine.b), theirs.assign(d=theirs.a - theirs.b), ordered=True)
    assert_same_series((mine.a - mine.b).dt.total_seconds(), (theirs.a - theirs.b).dt.total_seconds())
    assert_same_series(mine.a + pd.Timedelta(days=1), theirs.a + pd.Timedelta(days=1))
    assert_same_series(mine.a < "2013-01-01 05:17:03", theirs.a < "2013-01-01 05:17:03")
    assert_same_series(mine.a.isin([MOMENTS[0]]), theirs.a.isin([MOMENTS[0]]))
    days = fs.from_arrow(pa.table({"d": pa.array([0, 1, None], pa.date32())}))["d"]
    assert days.dt.day.to_arrow().to_pylist() == [1, 2, None]
    assert (days >= "1970-01-02").to_arrow().to_pylist() == [False, True, False]


def test_accessors_refuse_other_types() -> None:
    frame = fs.from_arrow(pa.table({"i": [1], "s": ["a"]}))
    with pytest.raises(SchemaError, match="strings are needed"):
        _ = frame["i"].str
    with pytest.raises(SchemaError, match="datetime64"):
        _ = frame["s"].dt
    with pytest.raises(InvalidArgument):
        frame["s"].str.contains("(")
    with pytest.raises(InvalidArgument, match="2013"):
        _ = fs.from_arrow(pa.table({"t": pa.array([0], pa.timestamp("s"))}))["t"] > "yesterday or so"
