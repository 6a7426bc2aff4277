# SPDX-License-Identifier: Apache-2.0
"""What expressions can call: pandas' meaning on Arrow's kernels.

Every function takes ChunkedArrays, Arrays or Scalars (dictionaries decoded, unless listed in
``KEEPS_DICTIONARY``) and returns one of them. The rules that differ from Arrow's:

* comparisons never give null: a missing value (null, or NaN in a float column) equals nothing, so
  ``==  <  >`` are False and ``!=`` is True, as in pandas' default types;
* integers wrap as in NumPy, ``/`` is true division, ``//`` and ``%`` follow Python for negatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightshmem.plan.casting import cast
from flightshmem.plan.strings import STRING_FUNCTIONS
from flightshmem.plan.temporal import TEMPORAL_FUNCTIONS
from flightshmem.plan.types import is_float

Values = Any  # pa.ChunkedArray | pa.Array | pa.Scalar: pyarrow ships no types


def compare(
    kernel: Callable[[Values, Values], Values], if_missing: bool
) -> Callable[[Values, Values], Values]:
    """Make a comparison that is never null."""

    def apply(left: Values, right: Values) -> Values:
        result = kernel(left, right)
        return pc.fill_null(result, if_missing) if _has_nulls(result) else result

    return apply


def _has_nulls(values: Values) -> bool:
    return not values.is_valid if isinstance(values, pa.Scalar) else values.null_count > 0


def by_numpy(function: Callable[..., Any], *args: Values) -> Values:
    """Apply a NumPy function where it is the reference for the last bit; null in, null out."""
    length = next((len(arg) for arg in args if not isinstance(arg, pa.Scalar)), None)
    if length is None:
        arrays = [pa.array([arg.as_py()], arg.type) for arg in args]
        return by_numpy(function, *arrays)[0]
    mask = np.zeros(length, dtype=bool)
    operands = []
    for arg in args:
        if isinstance(arg, pa.Scalar):
            if not arg.is_valid:
                mask[:] = True
            operands.append(np.asarray(arg.as_py() if arg.is_valid else 0, dtype=arg.type.to_pandas_dtype()))
            continue
        if arg.null_count:
            mask |= (
                pc.is_null(arg).to_numpy(zero_copy_only=False)
                if isinstance(arg, pa.Array)
                else np.asarray(pc.is_null(arg))
            )
            arg = pc.fill_null(arg, pa.scalar(0).cast(arg.type))
        operands.append(np.asarray(arg))
    with np.errstate(all="ignore"):
        result = function(*operands)
    return pa.array(result, mask=mask if mask.any() else None)


def is_missing(values: Values) -> Values:
    """Null, or NaN in a float column."""
    return pc.is_null(values, nan_is_null=is_float(values.type))


def fill_missing(values: Values, replacement: Values) -> Values:
    """Put the replacement where values are missing."""
    if is_float(values.type):
        return pc.if_else(is_missing(values), replacement, values)
    return pc.coalesce(values, replacement)


def is_in(values: Values, value_set: pa.Array, with_missing: bool) -> Values:
    """Membership; never null. ``with_missing``: a missing value is a member."""
    if len(value_set):
        result = pc.is_in(values, value_set=value_set, skip_nulls=True)
    else:
        result = pc.and_(is_missing(values), False)
    return pc.or_(result, is_missing(values)) if with_missing else result


def if_else(condition: Values, chosen: Values, other: Values) -> Values:
    """Choose per row; a missing condition counts as False."""
    return pc.if_else(pc.fill_null(condition, False), chosen, other)


def clip_lower(values: Values, bound: Values) -> Values:
    """Raise smaller values to the bound; missing stays missing."""
    return pc.if_else(compare(pc.less, False)(values, bound), bound, values)


def clip_upper(values: Values, bound: Values) -> Values:
    """Lower greater values to the bound; missing stays missing."""
    return pc.if_else(compare(pc.greater, False)(values, bound), bound, values)


def round_half_even(values: Values, decimals: int) -> Values:
    """Round as NumPy does."""
    if is_float(values.type):
        return by_numpy(lambda x: np.round(x, decimals), values)
    return pc.round(values, ndigits=decimals, round_mode="half_to_even")


FUNCTIONS: dict[str, Callable[..., Values]] = {
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
    "divide": pc.divide,
    "floor_divide": lambda a, b: by_numpy(np.floor_divide, a, b),
    "modulo": lambda a, b: by_numpy(np.mod, a, b),
    "power": lambda a, b: by_numpy(np.power, a, b),
    "negate": pc.negate,
    "abs": pc.abs,
    "round": round_half_even,
    "eq": compare(pc.equal, False),
    "ne": compare(pc.not_equal, True),
    "lt": compare(pc.less, False),
    "le": compare(pc.less_equal, False),
    "gt": compare(pc.greater, False),
    "ge": compare(pc.greater_equal, False),
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "xor": pc.xor,
    "not": pc.invert,
    "bit_and": pc.bit_wise_and,
    "bit_or": pc.bit_wise_or,
    "bit_xor": pc.bit_wise_xor,
    "bit_not": pc.bit_wise_not,
    "is_missing": is_missing,
    "fill_missing": fill_missing,
    "is_in": is_in,
    "if_else": if_else,
    "clip_lower": clip_lower,
    "clip_upper": clip_upper,
    "cast": cast,
    "concat": lambda a, b: pc.binary_join_element_wise(a, b, pa.scalar("", a.type)),
    **STRING_FUNCTIONS,
    **TEMPORAL_FUNCTIONS,
}

KEEPS_DICTIONARY = frozenset({"cast", "is_missing"})
