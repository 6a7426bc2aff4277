# SPDX-License-Identifier: Apache-2.0
"""When rows are moved instead of states."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flightshmem.execute.sampling import SAMPLE_ROWS, barely_shrinks, count_groups, peek


def counts_of(groups: int, pes: int, skew: float = 0.0) -> list[tuple[int, int]]:
    """Sample PEs whose rows fall on so many groups; a part ``skew`` of them on one."""
    counts = []
    for pe in range(pes):
        rng = np.random.default_rng(pe)
        keys = np.where(rng.random(2 * SAMPLE_ROWS) < skew, 0, rng.integers(0, groups, 2 * SAMPLE_ROWS))
        counts.append(count_groups(pa.table({"k": keys})))
    return counts


@pytest.mark.parametrize("pes", [1, 3])
@pytest.mark.parametrize(
    ("groups", "skew", "moves_rows"),
    [(100, 0.0, False), (1_000_000, 0.0, False), (9_000_000, 0.0, True), (9_000_000, 0.5, False)],
)
def test_rows_move_when_groups_are_many(groups: int, skew: float, moves_rows: bool, pes: int) -> None:
    assert barely_shrinks(counts_of(groups, pes, skew), 5_000_000) == moves_rows


def test_all_rows_different() -> None:
    assert barely_shrinks([(100, 100), (0, 0)], 100)
    assert not barely_shrinks([(0, 0), (0, 0)], 100)


def test_peeking_takes_nothing() -> None:
    tables = [pa.table({"a": [i]}) for i in range(3)]
    first, rest = peek(iter(tables))
    assert first is tables[0]
    assert list(rest) == tables
    assert peek(iter([]))[0] is None
