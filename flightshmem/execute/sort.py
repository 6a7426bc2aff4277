# SPDX-License-Identifier: Apache-2.0
"""Sorting: row numbers in order on one PE, and cuts that give PEs ranges of rows.

The kernels (``sort_rows``, ``find_ranges``) order numbers; text and decimals are ranked by Arrow first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flightshmem import _core
from flightshmem.execute.keys import canonical
from flightshmem.execute.rows import take
from flightshmem.plan.expr import decode
from flightshmem.plan.nodes import SortOrder
from flightshmem.plan.types import is_float

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Cut:
    """The last row of a PE's range: its key, by column, and where it lies."""

    key: dict[str, pa.Scalar]
    pe: int
    row: int

    def first_after(self, pe: int, rows: int) -> int:
        """Return from which row on those of PE ``pe`` that have the cut's key lie after the cut."""
        if pe == self.pe:
            return self.row + 1
        return 0 if pe > self.pe else rows


def sort_table(table: pa.Table, order: SortOrder) -> pa.Table:
    """Sort rows, stably."""
    if table.num_rows < 2:
        return table
    return take(table, sort_order(table, order))


def sort_order(table: pa.Table, order: SortOrder) -> pa.UInt32Array:
    """Return the row numbers in sorted order."""
    columns = [_sortable(table.column(key.column)) for key in order.keys]
    keys = pa.Table.from_arrays(columns, names=[key.column for key in order.keys])
    return _core.sort_rows(keys, [key.is_ascending for key in order.keys], order.missing_last)


def _has_words(dtype: pa.DataType) -> bool:
    """Tell whether the kernels order values of this type as they are."""
    return bool(pt.is_boolean(dtype) or pt.is_integer(dtype) or is_float(dtype) or _is_time(dtype))


def _is_time(dtype: pa.DataType) -> bool:
    return bool(pt.is_temporal(dtype) and not pt.is_interval(dtype))


def _sortable(column: pa.ChunkedArray) -> Any:
    """Return numbers with the order of the values."""
    if pt.is_dictionary(column.type):
        column = column.unify_dictionaries()
        if column.num_chunks and not column.chunk(0).dictionary.null_count:
            ranks = _ranks(column.chunk(0).dictionary)
            return pa.chunked_array([ranks.take(chunk.indices) for chunk in column.chunks])
        column = decode(column)
    if _has_words(column.type):
        return column
    if pt.is_null(column.type):
        return pa.nulls(len(column), pa.int8())
    words = pc.unique(column).drop_null()
    return pc.take(_ranks(words), pc.index_in(column, value_set=words))


def _ranks(words: pa.Array) -> pa.Array:
    """Return each word's place among the sorted words; equal words have one place."""
    return pc.rank(words, tiebreaker="dense")


def sample(table: pa.Table, order: SortOrder, rows: int) -> pa.Table:
    """Return up to ``rows`` evenly spaced rows of the key columns, decoded."""
    names = [key.column for key in order.keys]
    chosen = pa.array(_sampled(table.num_rows, rows))
    # Chosen first: decoding and cleaning whole columns would cost more than the rest.
    return pa.Table.from_arrays([canonical(table.column(name).take(chosen)) for name in names], names=names)


def _sampled(rows: int, at_most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.unique(np.linspace(0, rows - 1, min(rows, at_most)).astype(np.int64))


def choose_cuts(
    samples: Sequence[pa.Table], weights: Sequence[int], order: SortOrder, n_pes: int
) -> list[Cut]:
    """Choose n_pes - 1 cuts that divide the rows into even ranges.

    ``weights``: how many rows the PE of each sample has.
    """
    together = pa.concat_tables(samples)
    if not together.num_rows:
        return []
    sizes = [part.num_rows for part in samples]
    share = np.repeat(np.divide(weights, np.maximum(sizes, 1)), sizes)
    rows_in_order = np.asarray(sort_order(together, order))
    reached = np.cumsum(share[rows_in_order])
    reaching = np.searchsorted(reached, reached[-1] * np.arange(1, n_pes) / n_pes)
    chosen = rows_in_order[np.minimum(reaching, len(rows_in_order) - 1)].tolist()
    pes = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.concatenate([_sampled(*counts) for counts in zip(weights, sizes, strict=True)])
    return [
        Cut({name: together.column(name)[i] for name in together.schema.names}, int(pes[i]), int(rows[i]))
        for i in chosen
    ]


def range_pes(
    table: pa.Table, cuts: Sequence[Cut], order: SortOrder, pe: int | None = None
) -> pa.UInt16Array:
    """Return each row's PE: the number of cuts before the row.

    With ``pe``, the number of the PE that has the rows, rows of one key are divided too, in their stable
    order: by PE, then by row. Without, equal keys stay together.
    """
    ties = [table.num_rows if pe is None else cut.first_after(pe, table.num_rows) for cut in cuts]
    columns = [decode(table.column(key.column)) for key in order.keys]
    if len(columns) == 1 and _has_words(columns[0].type):
        key = order.keys[0]
        at = pa.array([cut.key[key.column] for cut in cuts], columns[0].type)
        by_one = pa.Table.from_arrays(columns, names=[key.column])
        return _core.find_ranges(by_one, at, ties, key.is_ascending, order.missing_last)
    columns = [canonical(column) for column in columns]
    pes = np.zeros(table.num_rows, dtype=np.uint16)
    for cut, tie in zip(cuts, ties, strict=True):
        after = np.zeros(table.num_rows, dtype=bool)
        tied = np.ones(table.num_rows, dtype=bool)
        for key, column in zip(order.keys, columns, strict=True):
            beyond, equal = _against(column, cut.key[key.column], key.is_ascending, order.missing_last)
            after |= tied & beyond
            tied &= equal
        after[tie:] |= tied[tie:]
        pes += after
    return pa.array(pes)


def _against(column: Any, cut: pa.Scalar, is_ascending: bool, missing_last: bool) -> tuple[Mask, Mask]:
    """Compare a column with one cut: which rows sort after it, which are equal to it."""
    missing = np.asarray(pc.is_null(column))
    if not cut.is_valid:
        return (np.zeros_like(missing) if missing_last else ~missing), missing
    beyond = pc.greater(column, cut) if is_ascending else pc.less(column, cut)
    after = np.asarray(pc.fill_null(beyond, missing_last))
    return after, np.asarray(pc.fill_null(pc.equal(column, cut), False))
