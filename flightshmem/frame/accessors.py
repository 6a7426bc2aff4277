# SPDX-License-Identifier: Apache-2.0
"""``.str`` and ``.dt``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.types as pt

from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.plan.types import is_text

if TYPE_CHECKING:
    from flightshmem.frame.series import Series


class StringAccessor:
    """String functions of a column; missing stays missing, tests give False for it."""

    def __init__(self, series: Series) -> None:
        if not is_text(series.dtype):
            raise SchemaError(
                f"[str] strings are needed, got {series.dtype} in column {series.name!r}: "
                "use astype('str') first"
            )
        self._series = series

    def lower(self) -> Series:
        """Convert to lower case."""
        return self._series._apply("str_lower")

    def upper(self) -> Series:
        """Convert to upper case."""
        return self._series._apply("str_upper")

    def title(self) -> Series:
        """Capitalise every word."""
        return self._series._apply("str_title")

    def capitalize(self) -> Series:
        """Capitalise the first letter."""
        return self._series._apply("str_capitalize")

    def strip(self, to_strip: str | None = None) -> Series:
        """Trim whitespace, or the given characters, on both ends."""
        return self._series._apply("str_strip", side="both", characters=to_strip)

    def lstrip(self, to_strip: str | None = None) -> Series:
        """Trim on the left."""
        return self._series._apply("str_strip", side="left", characters=to_strip)

    def rstrip(self, to_strip: str | None = None) -> Series:
        """Trim on the right."""
        return self._series._apply("str_strip", side="right", characters=to_strip)

    def len(self) -> Series:
        """Count code points."""
        return self._series._apply("str_len")

    def contains(self, pat: str, case: bool = True, regex: bool = True) -> Series:
        """Test for a pattern (RE2 syntax) or, with ``regex=False``, for a text."""
        return self._series._apply("str_contains", pattern=pat, ignore_case=not case, is_regex=regex)

    def startswith(self, pat: str) -> Series:
        """Test the beginning."""
        return self._series._apply("str_startswith", pattern=pat)

    def endswith(self, pat: str) -> Series:
        """Test the end."""
        return self._series._apply("str_endswith", pattern=pat)

    def replace(self, pat: str, repl: str, n: int = -1, regex: bool = False) -> Series:
        r"""Replace a text, or with ``regex=True`` a pattern (RE2 syntax, ``\1`` for groups)."""
        count = None if n < 0 else n
        return self._series._apply("str_replace", pattern=pat, replacement=repl, count=count, is_regex=regex)

    def slice(self, start: int | None = None, stop: int | None = None, step: int | None = None) -> Series:
        """Cut out code points as Python's slices do."""
        if step == 0:
            raise InvalidArgument("[str.slice] step must not be 0")
        return self._series._apply("str_slice", start=start, stop=stop, step=step)

    def __getitem__(self, key: Any) -> Series:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        if isinstance(key, int):
            one = self.slice(key, key + 1 if key != -1 else None)
            return one.where(one.str.len() > 0)
        raise InvalidArgument(f"[str] an index or a slice is needed, got {key!r}")


class DatetimeAccessor:
    """Fields of dates and timestamps, in the column's own time zone; int32 as in pandas."""

    def __init__(self, series: Series) -> None:
        if not pt.is_temporal(series.dtype):
            raise SchemaError(
                f"[dt] dates or times are needed, got {series.dtype} in column {series.name!r}: "
                "use astype('datetime64[us]') first"
            )
        self._series = series

    @property
    def year(self) -> Series:
        """The year."""
        return self._series._apply("dt_year")

    @property
    def month(self) -> Series:
        """The month, 1 to 12."""
        return self._series._apply("dt_month")

    @property
    def day(self) -> Series:
        """The day of the month."""
        return self._series._apply("dt_day")

    @property
    def hour(self) -> Series:
        """The hour."""
        return self._series._apply("dt_hour")

    @property
    def minute(self) -> Series:
        """The minute."""
        return self._series._apply("dt_minute")

    @property
    def second(self) -> Series:
        """The second."""
        return self._series._apply("dt_second")

    @property
    def microsecond(self) -> Series:
        """The microseconds within the second."""
        return self._series._apply("dt_microsecond")

    @property
    def dayofweek(self) -> Series:
        """The day of the week, Monday is 0."""
        return self._series._apply("dt_dayofweek")

    day_of_week = weekday = dayofweek

    @property
    def quarter(self) -> Series:
        """The quarter, 1 to 4."""
        return self._series._apply("dt_quarter")

    @property
    def dayofyear(self) -> Series:
        """The day of the year, from 1."""
        return self._series._apply("dt_dayofyear")

    day_of_year = dayofyear

    @property
    def date(self) -> Series:
        """The calendar day, as date32."""
        return self._series._apply("dt_date")

    def total_seconds(self) -> Series:
        """The length of a duration in seconds."""
        return self._series._apply("dt_total_seconds")


class Accessors:
    """The accessors of a Series; apart from it because a member named ``str`` hides the type."""

    @property
    def str(self) -> StringAccessor:
        """String functions."""
        return StringAccessor(self)  # type: ignore[arg-type]

    @property
    def dt(self) -> DatetimeAccessor:
        """Fields of dates and times."""
        return DatetimeAccessor(self)  # type: ignore[arg-type]
