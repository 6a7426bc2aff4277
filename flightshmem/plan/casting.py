# SPDX-License-Identifier: Apache-2.0
"""Conversion between column types with the meaning of pandas' ``astype``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flightshmem.plan.types import is_float, is_text

Values = Any


def cast(values: Values, dtype: pa.DataType) -> Values:
    """Convert; missing stays missing, a value that does not fit is an error naming it.

    Floats lose their fraction on the way to integers, numbers and booleans become text as Python
    writes them (``1.0``, ``True``), and category codes follow the sorted values.
    """
    if pt.is_dictionary(dtype):
        return to_dictionary(values, dtype)
    if pt.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if is_float(values.type) and (pt.is_integer(dtype) or pt.is_boolean(dtype)):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        return pc.trunc(values).cast(dtype) if pt.is_integer(dtype) else pc.not_equal(values, 0)
    if is_text(dtype):
        return to_text(values, dtype)
    # Large integers round to the nearest float, and finer times to coarser ones, as in NumPy and pandas.
    rounds = pt.is_timestamp(dtype) and pt.is_timestamp(values.type)
    rounds = rounds or (is_float(dtype) and pt.is_integer(values.type))
    return values.cast(dtype, safe=not rounds)


def to_text(values: Values, dtype: pa.DataType) -> Values:
    """Write values as Python's ``str`` would."""
    if is_float(values.type):
        return _float_text(values).cast(dtype)
    if pt.is_boolean(values.type):
        return pc.if_else(values, "True", "False").cast(dtype)
    if pt.is_timestamp(values.type):
        # Arrow writes the fraction in full; str(Timestamp) only where there is one.
        return pc.replace_substring_regex(values.cast(pa.string()), r"\.0+($|[Z+-])", r"\1").cast(dtype)
    return values.cast(dtype)


def _float_text(values: Values) -> Values:
    if isinstance(values, pa.Scalar):
        return pa.scalar(str(values.as_py()) if values.is_valid else None, pa.string())
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    numbers = np.asarray(pc.fill_null(values, 0.0))
    return pa.array(numbers.astype(str), pa.string(), mask=missing)


def to_dictionary(values: Values, dtype: pa.DataType) -> Values:
    """Encode with the sorted distinct values as dictionary, so codes do not depend on row order."""
    if pt.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if isinstance(values, pa.Scalar):
        return pa.DictionaryArray.from_arrays([0], pa.array([values.as_py()], dtype.value_type))[0]
    plain = cast(values, dtype.value_type)
    plain = plain.combine_chunks() if isinstance(plain, pa.ChunkedArray) else plain
    words = pc.unique(plain).drop_null()
    words = words.take(pc.array_sort_indices(words))
    codes = pc.index_in(plain, value_set=words).cast(dtype.index_type)
    return pa.DictionaryArray.from_arrays(codes, words, ordered=dtype.ordered)
