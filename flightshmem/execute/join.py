# SPDX-License-Identifier: Apache-2.0
"""The local part of a join: which rows pair up, and gathering their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flightshmem.execute.keys import group_numbers, key_table
from flightshmem.execute.rows import contiguous, take
from flightshmem.plan.nodes import Join

Probe = Callable[[pa.Table, str], tuple[Any, Any]]
"""Left keys and "inner" or "left" -> row numbers, ordered by (left row, right row).

None for the left ones: every row once, in order.
"""


class Joiner:
    """The right side of a join on this PE: made ready once, then probed by batches of the left side."""

    def __init__(self, right: pa.Table, node: Join, table: Callable[[pa.Table], Probe]) -> None:
        self._node = node
        self._probe = table(key_table(right, node.right_on, node.key_types))
        self._from_right = contiguous(right.select([name for name, _ in node.right_columns]))

    def join(self, left: pa.Table) -> pa.Table:
        """Return the pairs; left columns are not copied if every left row comes out once."""
        node = self._node
        left_rows, right_rows = self._probe(key_table(left, node.left_on, node.key_types), node.how)
        from_left = left.select([name for name, _ in node.left_columns])
        if from_left.num_columns and not _is_identity(left_rows, left.num_rows):
            from_left = take(from_left, left_rows)
        arrays = list(from_left.columns)
        if self._from_right.num_columns:
            arrays += take(self._from_right, right_rows).columns
        return pa.Table.from_arrays(arrays, schema=node.schema)


def _is_identity(rows: Any, count: int) -> bool:
    if rows is None:
        return True
    return len(rows) == count and bool(np.array_equal(np.asarray(rows), np.arange(count, dtype=np.uint32)))


def match_rows(left: pa.Table, right: pa.Table, how: str) -> tuple[pa.Array, pa.Array]:
    """Find pairs of equal keys by sorting: the plain NumPy oracle of the C++ join."""
    numbers = group_numbers(pa.concat_tables([left, right]))
    wanted, offered = numbers[: left.num_rows], numbers[left.num_rows :]
    order = np.argsort(offered, kind="stable")
    first = np.searchsorted(offered[order], wanted, side="left")
    counts = np.searchsorted(offered[order], wanted, side="right") - first
    kept = np.maximum(counts, 1) if how == "left" else counts
    left_rows = np.repeat(np.arange(left.num_rows), kept)
    starts = np.cumsum(kept) - kept
    within = np.arange(len(left_rows)) - np.repeat(starts, kept)
    unmatched = np.repeat(counts == 0, kept)
    position = np.where(unmatched, 0, np.repeat(first, kept) + within)
    right_rows = order[position] if len(order) else np.zeros(len(position), dtype=np.int64)
    return pa.array(left_rows), pa.array(right_rows, mask=unmatched)
