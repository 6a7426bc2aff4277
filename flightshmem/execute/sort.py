# SPDX-License-Identifier: Apache-2.0
"""Sorting: keys as order-preserving integers for NumPy, and splitters that give PEs ranges of keys.

Arrow's own sort_indices takes several times as long, and cannot place nulls per call of several keys
as pandas does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flightshmem.execute.keys import canonical
from flightshmem.execute.rows import take
from flightshmem.plan.nodes import SortOrder
from flightshmem.plan.types import is_float

Codes = np.ndarray[Any, Any]
Splitter = dict[str, pa.Scalar]
"""A key tuple between two PEs' ranges."""


def sort_table(table: pa.Table, order: SortOrder) -> pa.Table:
    """Sort rows, stably."""
    if table.num_rows < 2:
        return table
    return take(table, pa.array(sort_order(table, order)))


def sort_order(table: pa.Table, order: SortOrder) -> Codes:
    """Return the row numbers in sorted order."""
    if not table.num_rows:
        return np.arange(0)
    columns = []
    for key in order.keys:
        columns += _codes(table.column(key.column), key.is_ascending, order.missing_last)
    packed = _packed(columns, table.num_rows)
    if packed is not None:
        return packed
    if len(columns) == 1:
        by_one: Codes = np.argsort(columns[0], kind="stable")
        return by_one
    return np.lexsort(columns[::-1])


def _codes(column: Any, is_ascending: bool, missing_last: bool) -> list[Codes]:
    """Return arrays that sort (first one first) as the column should."""
    values = canonical(column)
    missing = np.asarray(pc.is_null(values)) if values.null_count else None
    codes = _values(values)
    if not is_ascending:
        codes = -codes if codes.dtype.kind == "f" else ~codes
    if missing is None:
        return [codes]
    # One of the present values, so that missing ones do not widen the range of the codes.
    codes = np.where(missing, codes[np.argmin(missing)], codes)
    return [missing if missing_last else ~missing, codes]


def _values(values: Any) -> Codes:
    """Return a NumPy array with the order of the values; what stands for null is arbitrary."""
    dtype = values.type
    if is_float(dtype):
        return np.asarray(pc.fill_null(values, 0.0))
    if pt.is_boolean(dtype):
        return np.asarray(pc.fill_null(values, False)).astype(np.uint8)
    if pt.is_integer(dtype):
        return np.asarray(pc.fill_null(values, pa.scalar(0, dtype)))
    if pt.is_temporal(dtype):
        width = pa.int32() if dtype.bit_width == 32 else pa.int64()
        return np.asarray(pc.fill_null(values.cast(width), pa.scalar(0, width)))
    words = pc.unique(values).drop_null()
    order = pc.array_sort_indices(words)
    ranks = np.empty(len(words) + 1, dtype=np.int32)
    ranks[np.asarray(order)] = np.arange(len(words), dtype=np.int32)
    codes = pc.fill_null(pc.index_in(values, value_set=words), len(words))
    ranks[len(words)] = 0
    ordered: Codes = ranks[np.asarray(codes)]
    return ordered


def _packed(columns: list[Codes], rows: int) -> Codes | None:
    """Sort integers by one pass of NumPy's vectorised sort: keys and row number in one int64.

    The row number makes every value different, so the fast unstable sort is stable here. None if the
    keys' ranges do not leave enough bits.
    """
    if any(codes.dtype.kind == "f" for codes in columns):
        return None
    bits = max(rows - 1, 1).bit_length()
    shift, packed = bits, np.arange(rows, dtype=np.int64)
    for codes in reversed(columns):
        low, high = int(codes.min()), int(codes.max())
        width = (high - low).bit_length()
        if shift + width > 63:
            return None
        offsets = codes.astype(np.uint64) - np.uint64(low % 2**64)
        packed |= offsets.astype(np.int64) << shift
        shift += width
    packed.sort()
    rows_in_order: Codes = packed & ((1 << bits) - 1)
    return rows_in_order


def sample(table: pa.Table, order: SortOrder, rows: int) -> pa.Table:
    """Return up to ``rows`` evenly spaced rows of the key columns, decoded."""
    names = [key.column for key in order.keys]
    chosen = np.unique(np.linspace(0, table.num_rows - 1, min(rows, table.num_rows)).astype(np.int64))
    arrays = [canonical(table.column(name)) for name in names]
    return pa.Table.from_arrays(arrays, names=names).take(pa.array(chosen))


def splitters(
    samples: Sequence[pa.Table], weights: Sequence[int], order: SortOrder, n_pes: int
) -> list[Splitter]:
    """Choose n_pes - 1 key tuples that cut the rows into even ranges.

    ``weights``: how many rows the PE of each sample has.
    """
    together = pa.concat_tables(samples)
    share = [
        np.full(part.num_rows, rows / max(part.num_rows, 1))
        for part, rows in zip(samples, weights, strict=True)
    ]
    if not together.num_rows:
        return []
    rows_in_order = sort_order(together, order)
    reached = np.cumsum(np.concatenate(share)[rows_in_order])
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, n_pes) / n_pes)
    chosen = rows_in_order[np.minimum(cuts, len(rows_in_order) - 1)]
    return [{name: together.column(name)[int(row)] for name in together.schema.names} for row in chosen]


def range_pes(table: pa.Table, cuts: Sequence[Splitter], order: SortOrder) -> pa.Array:
    """Return each row's PE: the number of splitters that sort before the row. Equal keys stay together."""
    pes = np.zeros(table.num_rows, dtype=np.uint32)
    columns = [canonical(table.column(key.column)) for key in order.keys]
    for cut in cuts:
        after = np.zeros(table.num_rows, dtype=bool)
        tied = np.ones(table.num_rows, dtype=bool)
        for key, column in zip(order.keys, columns, strict=True):
            beyond, equal = _against(column, cut[key.column], key.is_ascending, order.missing_last)
            after |= tied & beyond
            tied &= equal
        pes += after
    return pa.array(pes)


def _against(column: Any, cut: pa.Scalar, is_ascending: bool, missing_last: bool) -> tuple[Codes, Codes]:
    """Compare a column with one splitter: which rows sort after it, which are equal to it."""
    missing = np.asarray(pc.is_null(column))
    if not cut.is_valid:
        return (np.zeros_like(missing) if missing_last else ~missing), missing
    beyond = pc.greater(column, cut) if is_ascending else pc.less(column, cut)
    after = np.asarray(pc.fill_null(beyond, missing_last))
    return after, np.asarray(pc.fill_null(pc.equal(column, cut), False))
