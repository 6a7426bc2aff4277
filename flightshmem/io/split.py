# SPDX-License-Identifier: Apache-2.0
"""Who reads what: contiguous shares, so that the global row order is the order of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Cutting inside a piece makes two PEs decode it; a share may be this much off instead.
_TOLERANCE = 0.05


def even_range(total: int, part: int, parts: int) -> tuple[int, int]:
    """Return where the part of an even split begins and ends."""
    return total * part // parts, total * (part + 1) // parts


@dataclass(frozen=True)
class Slice:
    """Rows [start, stop) of piece number ``piece``."""

    piece: int
    start: int
    stop: int


def split_pieces(rows: Sequence[int], weights: Sequence[float], part: int, parts: int) -> list[Slice]:
    """Share pieces (row groups of given rows and weight) evenly by weight, in order.

    A share ends at a piece's border if one is near, else inside the piece.
    """
    begins = _cut(rows, weights, part, parts)
    ends = _cut(rows, weights, part + 1, parts)
    slices = []
    for piece in range(begins[0], min(ends[0] + 1, len(rows))):
        start = begins[1] if piece == begins[0] else 0
        stop = ends[1] if piece == ends[0] else rows[piece]
        if stop > start:
            slices.append(Slice(piece, start, stop))
    return slices


def _cut(rows: Sequence[int], weights: Sequence[float], part: int, parts: int) -> tuple[int, int]:
    """Return (piece, row in it) where share ``part`` begins."""
    total = float(sum(weights))
    if part == 0:
        return 0, 0
    if part >= parts or not total:
        return len(rows), 0
    target, tolerance = total * part / parts, total / parts * _TOLERANCE
    reached = 0.0
    for piece, weight in enumerate(weights):
        if reached + weight > target:
            if target - reached <= tolerance:
                return piece, 0
            if reached + weight - target <= tolerance:
                return piece + 1, 0
            return piece, int(rows[piece] * (target - reached) / weight)
        reached += weight
    return len(rows), 0
