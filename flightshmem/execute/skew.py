# SPDX-License-Identifier: Apache-2.0
"""Frequent keys in a join: found in samples before rows move, and not sent to one PE.

Where one key holds a large part of the rows, the side with more rows of it keeps these where they are,
and the other side's rows of it go to all PEs. Keys are told apart by 16 bits of their hash: the few
others that share the bits of a frequent one travel with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flightshmem import _core, exchange
from flightshmem.execute.keys import key_table
from flightshmem.execute.rows import arrow_errors, concat
from flightshmem.runtime import Runtime

_BUCKETS = 1 << 16
# Per PE and side: a key that matters has some hundred rows among so many.
_SAMPLE_ROWS = 1 << 14
# Below, no PE can be overloaded.
_FEW_ROWS = 1024
# A key is frequent when it holds this part of the rows of an average PE.
_FREQUENT = 0.25

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Side:
    """One side of a join, and the types its keys are hashed in (None: their own)."""

    table: pa.Table
    on: Sequence[str]
    types: Sequence[pa.DataType] | None


@dataclass(frozen=True)
class Split:
    """For each bucket whether it is the left or the right side whose rows stay where they are."""

    left_stays: Mask
    right_stays: Mask


def find_split(runtime: Runtime, left: Side, right: Side, how: str) -> Split | None:
    """Find the frequent keys; None without any. Collective, with the same answer on all PEs."""
    with runtime.converge("shuffle"), arrow_errors("shuffle"):
        mine = np.concatenate([_frequent(at, side, runtime.n_pes) for at, side in enumerate((left, right))])
    rows = np.zeros((2, _BUCKETS + 1), dtype=np.int64)
    for payload in runtime.allgather(mine.tobytes()):
        side, bucket, count = np.frombuffer(payload, np.int64).reshape(-1, 3).T
        np.add.at(rows, (side, bucket), count)
    total = int(rows[:, _BUCKETS].sum())
    if total < _FEW_ROWS:
        return None
    lefts, rights = rows[:, :_BUCKETS]
    limit = total * _FREQUENT / runtime.n_pes
    left_stays = (lefts > limit) & (lefts > rights)
    # Rows of the left side that went to all PEs would find no partner on several: none but inner.
    right_stays = (rights > limit) & (rights >= lefts) & (how == "inner")
    return Split(left_stays, right_stays) if (left_stays | right_stays).any() else None


def spread(runtime: Runtime, side: Side, stays: Mask, copied: Mask) -> pa.Table:
    """Send rows to the PE of their key, but rows of some buckets nowhere or to all PEs. Collective.

    Equal keys keep their order: by source PE, then as they were there. Rows that went to all come last.
    """
    with runtime.converge("shuffle"), arrow_errors("shuffle"):
        keys = key_table(side.table, side.on, side.types)
        buckets = _hashed(keys, _BUCKETS)
        pes = _hashed(keys, runtime.n_pes)
        if stays.any():
            np.putmask(pes, stays[buckets], np.uint16(runtime.pe))
        others = copies = side.table
        if copied.any():
            is_copied = copied[buckets]
            copies = side.table.filter(pa.array(is_copied))
            others = side.table.filter(pa.array(~is_copied))
            pes = pes[~is_copied]
    moved = exchange.scatter(others, pa.array(pes, pa.uint16()), keep_types=True)
    if not copied.any():
        return moved
    return concat([moved, exchange.replicate(copies, keep_types=True)], moved.schema)


def _frequent(at: int, side: Side, n_pes: int) -> Numbers:
    """Estimate this PE's rows in its frequent buckets: (side, bucket, rows); the last counts them all."""
    rows = side.table.num_rows
    step = max(1, rows // _SAMPLE_ROWS)
    chosen = side.table.select(side.on).take(pa.array(np.arange(0, rows, step)))
    counts = np.bincount(_hashed(key_table(chosen, side.on, side.types), _BUCKETS), minlength=_BUCKETS)
    found = np.flatnonzero(counts > chosen.num_rows * _FREQUENT / n_pes / 4)
    buckets, estimates = np.append(found, _BUCKETS), np.append(counts[found] * step, rows)
    return np.column_stack([np.full(len(buckets), at), buckets, estimates]).astype(np.int64)


def _hashed(keys: pa.Table, n: int) -> npt.NDArray[Any]:
    parts = [np.asarray(_core.hash_partition(batch, n)) for batch in keys.to_batches()]
    return np.concatenate([np.zeros(0, np.uint16), *parts])
