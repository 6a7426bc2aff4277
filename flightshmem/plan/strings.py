# SPDX-License-Identifier: Apache-2.0
"""The functions behind ``.str``. Tests (contains, startswith, ...) give False for a missing value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Values = Any


def _test(matched: Values) -> Values:
    return pc.fill_null(matched, False)


def _try(kernel: Callable[..., Values], **options: Any) -> None:
    """Refuse a malformed pattern also where there are no rows, as when a plan is built."""
    kernel(pa.array([""]), **options)


def contains(values: Values, pattern: str, ignore_case: bool, is_regex: bool) -> Values:
    """Test whether the pattern occurs."""
    kernel = partial(pc.match_substring_regex if is_regex else pc.match_substring, ignore_case=ignore_case)
    _try(kernel, pattern=pattern)
    return _test(kernel(values, pattern=pattern))


def replace(values: Values, pattern: str, replacement: str, count: int | None, is_regex: bool) -> Values:
    """Replace the first ``count`` occurrences (all if None)."""
    kernel = pc.replace_substring_regex if is_regex else pc.replace_substring
    _try(kernel, pattern=pattern, replacement=replacement)
    return kernel(values, pattern=pattern, replacement=replacement, max_replacements=count)


def strip(values: Values, side: str, characters: str | None) -> Values:
    """Trim whitespace or the given characters from ``both``, ``left`` or ``right``."""
    prefix = {"both": "utf8_trim", "left": "utf8_ltrim", "right": "utf8_rtrim"}[side]
    if characters is None:
        return getattr(pc, prefix + "_whitespace")(values)
    return getattr(pc, prefix)(values, characters=characters)


def cut(values: Values, start: int | None, stop: int | None, step: int | None) -> Values:
    """Slice every string as Python does."""
    step = 1 if step is None else step
    if start is None:
        start = 0 if step > 0 else -1
    return pc.utf8_slice_codeunits(values, start=start, stop=stop, step=step)


STRING_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "str_lower": pc.utf8_lower,
    "str_upper": pc.utf8_upper,
    "str_title": pc.utf8_title,
    "str_capitalize": pc.utf8_capitalize,
    "str_strip": strip,
    "str_len": lambda values: pc.utf8_length(values).cast(pa.int64()),
    "str_contains": contains,
    "str_startswith": lambda values, pattern: _test(pc.starts_with(values, pattern)),
    "str_endswith": lambda values, pattern: _test(pc.ends_with(values, pattern)),
    "str_replace": replace,
    "str_slice": cut,
}
