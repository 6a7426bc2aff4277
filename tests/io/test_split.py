# SPDX-License-Identifier: Apache-2.0
"""Shares of PEs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flightshmem.io.split import even_range, split_pieces

PIECES = st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 100)), max_size=20)


@given(pieces=PIECES, parts=st.integers(1, 7))
def test_shares_are_the_whole_in_order(pieces: list[tuple[int, int]], parts: int) -> None:
    rows = [n for n, _ in pieces]
    weights = [float(w) for _, w in pieces]
    shares = [split_pieces(rows, weights, part, parts) for part in range(parts)]
    seen = [(s.piece, row) for share in shares for s in share for row in range(s.start, s.stop)]
    assert seen == [(piece, row) for piece, n in enumerate(rows) for row in range(n)]


@given(pieces=PIECES, parts=st.integers(1, 7))
def test_shares_are_even(pieces: list[tuple[int, int]], parts: int) -> None:
    rows = [n for n, _ in pieces]
    weights = [float(n) for n in rows]
    sizes = [sum(s.stop - s.start for s in split_pieces(rows, weights, part, parts)) for part in range(parts)]
    fair = sum(rows) / parts
    assert all(abs(size - fair) <= 0.1 * fair + 2 for size in sizes)


@given(total=st.integers(0, 10_000), parts=st.integers(1, 9))
def test_even_ranges(total: int, parts: int) -> None:
    ranges = [even_range(total, part, parts) for part in range(parts)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == total
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    assert max(b - a for a, b in ranges) - min(b - a for a, b in ranges) <= 1
