# SPDX-License-Identifier: Apache-2.0
"""Whether states of groups are worth making before an exchange: only where there are fewer than rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from flightshmem import _core

SAMPLE_ROWS = 1 << 16
_WORTH = 0.5
"""Rows that share groups so little that more states than this part of the rows remain are sent as rows."""


def peek(tables: Iterator[pa.Table]) -> tuple[pa.Table | None, Iterator[pa.Table]]:
    """Return the first table, if any, and the stream that still has it."""
    first = next(tables, None)
    return first, tables if first is None else chain([first], tables)


def count_groups(keys: pa.Table) -> tuple[int, int]:
    """Return how many rows were looked at and how many groups they form."""
    sample = keys.slice(0, SAMPLE_ROWS)
    return sample.num_rows, len(_core.group_rows(sample)[1])


def barely_shrinks(counts: list[tuple[int, int]], rows: float) -> bool:
    """Tell from the samples of all PEs whether ``rows`` rows on each would leave nearly as many states.

    If all groups were equally frequent, m rows would hit the same one m * m / (2 * groups) times. Skewed
    groups meet more often, so there the number of groups is guessed too low, and rows are grouped first.
    """
    looked_at, found = (sum(values) for values in zip(*counts, strict=True))
    if not looked_at:
        return False
    met = looked_at - found
    # The PEs' samples are apart: each has met only itself.
    pairs = sum(count * count for count, _ in counts) / 2
    groups = pairs / met if met else float("inf")
    return min(groups, rows) > _WORTH * rows
