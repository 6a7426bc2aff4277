# SPDX-License-Identifier: Apache-2.0
"""Arrow types as the plan sees them: families, NumPy's promotion, names a pandas user would write."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import InvalidArgument, SchemaError

_ALIASES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "str": pa.string(),
    "string": pa.string(),
    "object": pa.string(),
    "category": pa.dictionary(pa.int32(), pa.string()),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "datetime64": pa.timestamp("us"),
    "timedelta64": pa.duration("us"),
}
_PYTHON_TYPES: dict[type, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    bytes: "bytes",
    object: "object",
    datetime.date: "date",
    datetime.datetime: "datetime64",
    datetime.timedelta: "timedelta64",
}


def value_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type of the values: a dictionary's value type, else the type itself."""
    return dtype.value_type if pt.is_dictionary(dtype) else dtype


def is_text(dtype: pa.DataType) -> bool:
    """Tell whether values are strings (also inside a dictionary)."""
    dtype = value_type(dtype)
    return bool(pt.is_string(dtype) or pt.is_large_string(dtype))


def is_float(dtype: pa.DataType) -> bool:
    """Tell whether the type can hold NaN."""
    return bool(pt.is_floating(dtype))


def is_plain_number(dtype: pa.DataType) -> bool:
    """Tell whether NumPy has this type as a number (bool included, decimal not)."""
    return bool(pt.is_integer(dtype) or pt.is_floating(dtype) or pt.is_boolean(dtype))


def is_number(dtype: pa.DataType) -> bool:
    """Tell whether arithmetic on the type makes sense: integers, floats, bool, decimals."""
    return is_plain_number(dtype) or bool(pt.is_decimal(dtype))


def numpy_result(*args: pa.DataType | int | float | bool) -> pa.DataType:
    """Promote as NumPy does; Python numbers adapt to the columns' type where their value fits.

    A Python integer that does not fit the column's type widens it to int64 instead of raising.
    """
    operands = [arg.to_pandas_dtype() if isinstance(arg, pa.DataType) else arg for arg in args]
    result = np.result_type(*operands)
    for value in operands:
        if isinstance(value, int) and result.kind in "iu" and not _fits(value, result):
            result = np.result_type(result, np.int64 if _fits(value, np.dtype(np.int64)) else np.uint64)
    return pa.from_numpy_dtype(result)


def _fits(value: int, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of both can be compared for equality, or None.

    Numbers promote as in NumPy, dictionaries count as their values, text widths mix, timestamps meet
    in the finer unit (and in UTC when their zones differ). bool only meets bool, a naive timestamp
    never meets one with a zone.
    """
    left, right = value_type(left), value_type(right)
    if left.equals(right) or pt.is_null(right):
        return left
    if pt.is_null(left):
        return right
    if pt.is_boolean(left) or pt.is_boolean(right):
        return None
    if is_plain_number(left) and is_plain_number(right):
        return _common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.large_string()
    if pt.is_timestamp(left) and pt.is_timestamp(right):
        return _common_timestamp(left, right)
    if is_number(left) and is_number(right):
        return _common_decimal(left, right)
    return None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    # NumPy sends int64 with uint64 to float64, which would make unequal keys equal.
    if {left, right} == {pa.int64(), pa.uint64()}:
        return pa.decimal128(20, 0)
    return numpy_result(left, right)


def _common_timestamp(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if (left.tz is None) != (right.tz is None):
        return None
    units = ["s", "ms", "us", "ns"]
    unit = units[max(units.index(left.unit), units.index(right.unit))]
    return pa.timestamp(unit, left.tz if left.tz == right.tz else "UTC")


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_float(left) or is_float(right):
        return pa.float64()
    left, right = (d if pt.is_decimal(d) else pa.decimal128(20, 0) for d in (left, right))
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(min(digits, 76), scale)


def parse_dtype(dtype: Any) -> pa.DataType:
    """Turn what a pandas user passes to ``astype`` into an Arrow type."""
    if isinstance(dtype, pa.DataType):
        return without_views(dtype)
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return _ALIASES[_PYTHON_TYPES[dtype]]
    if isinstance(dtype, str):
        return _parse_name(dtype)
    if hasattr(dtype, "pyarrow_dtype"):
        return without_views(dtype.pyarrow_dtype)
    if hasattr(dtype, "tz") and hasattr(dtype, "unit"):
        return pa.timestamp(dtype.unit, str(dtype.tz))
    try:
        return pa.from_numpy_dtype(np.dtype(dtype))
    except (TypeError, pa.ArrowNotImplementedError):
        return _parse_name(str(dtype))


def _parse_name(name: str) -> pa.DataType:
    key = name.strip().lower()
    if key in _ALIASES:
        return _ALIASES[key]
    if key.startswith("datetime64[") and key.endswith("]"):
        unit, _, zone = name.strip()[len("datetime64[") : -1].partition(",")
        return pa.timestamp(unit.strip(), zone.strip() or None)
    try:
        return without_views(pa.type_for_alias(key))
    except ValueError:
        pass
    try:
        return pa.from_numpy_dtype(np.dtype(key))
    except (TypeError, pa.ArrowNotImplementedError):
        raise InvalidArgument(
            f"[astype] no such type, got {name!r}: use e.g. 'int64', 'float32', 'string', 'category', "
            "'datetime64[us]', 'bool' or a pyarrow type"
        ) from None


def without_views(dtype: pa.DataType) -> pa.DataType:
    """Replace string_view and binary_view, which Arrow's kernels refuse, by string and binary."""
    if pt.is_string_view(dtype):
        return pa.string()
    if pt.is_binary_view(dtype):
        return pa.binary()
    if pt.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, without_views(dtype.value_type), dtype.ordered)
    return dtype


def check_names(names: list[Any], operation: str) -> None:
    """Refuse column names that are not strings, and names that occur twice."""
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(
                f"[{operation}] column names must be strings, got {name!r}: rename it, "
                "e.g. df.columns = df.columns.map(str)"
            )
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise InvalidArgument(
            f"[{operation}] column names must be unique, got {', '.join(map(repr, doubles))} more than once: "
            "rename or drop one of them"
        )


def width_bytes(dtype: pa.DataType) -> float:
    """Estimate the bytes one value takes in memory."""
    if pt.is_boolean(dtype):
        return 0.125
    if pt.is_dictionary(dtype):
        return width_bytes(dtype.index_type)
    if pt.is_null(dtype):
        return 0.0
    try:
        return float(dtype.bit_width) / 8
    except ValueError:
        return 24.0
