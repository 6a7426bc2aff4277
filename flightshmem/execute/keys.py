# SPDX-License-Identifier: Apache-2.0
"""Keys: which rows count as equal when grouping, joining and partitioning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightshmem.plan.casting import cast as convert
from flightshmem.plan.expr import decode
from flightshmem.plan.types import is_float


def canonical(values: Any) -> Any:
    """Give equal keys equal bytes: dictionaries decoded, NaN as null, -0.0 as 0.0."""
    values = decode(values)
    if not is_float(values.type):
        return values
    return pc.add(without_nan(values), pa.scalar(0.0, values.type))


def without_nan(values: Any) -> Any:
    """Turn NaN into null, so that aggregates skip it."""
    if not is_float(values.type):
        return values
    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        return values
    return pc.if_else(is_nan, pa.scalar(None, values.type), values)


def key_table(
    table: pa.Table, columns: Sequence[str], types: Sequence[pa.DataType] | None = None
) -> pa.Table:
    """Return canonical key columns k0, k1, ..., cast to ``types`` if given."""
    arrays = [canonical(table.column(name)) for name in columns]
    if types is not None:
        arrays = [convert(array, dtype) for array, dtype in zip(arrays, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=[f"k{i}" for i in range(len(arrays))])


def group_numbers(keys: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Number the distinct rows of a table of canonical keys: equal rows get equal numbers, from 0."""
    numbers = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        words = pc.unique(column)
        codes = np.asarray(pc.index_in(column, value_set=words)).astype(np.int64)
        # Numbered afresh after each column, so the product of cardinalities cannot overflow.
        _, numbers = np.unique(numbers * max(len(words), 1) + codes, return_inverse=True)
    return numbers
