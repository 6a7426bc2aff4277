# SPDX-License-Identifier: Apache-2.0
"""Seeded damage to valid IPC streams, and streams that are valid but hostile."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

Messages = list[tuple[bytes, bytes]]
_EXTREMES = (0, 1, -1, 127, 255, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63))


def _flip(rng: random.Random, content: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _overwrite(rng: random.Random, content: bytearray) -> None:
    size, format_ = rng.choice(((4, "<i"), (8, "<q")))
    if len(content) >= size:
        value = rng.choice(_EXTREMES)
        at = rng.randrange(len(content) - size + 1) // 4 * 4
        content[at : at + size] = struct.pack(format_, value % 2**31 if size == 4 else max(value, -(2**63)))


def _truncate(rng: random.Random, content: bytearray) -> None:
    del content[rng.randrange(len(content)) :]


def _repeat(rng: random.Random, content: bytearray) -> None:
    at = rng.randrange(len(content))
    content[at:at] = content[at : at + rng.randrange(1, 64)]


_DAMAGE = (_flip, _flip, _overwrite, _overwrite, _overwrite, _truncate, _repeat)


def mutants(messages: Messages, count: int, seed: int) -> Iterator[Messages]:
    """Give ``count`` damaged copies: flipped bits, extreme integers, cuts, repeats, lost messages."""
    rng = random.Random(seed)
    for _ in range(count):
        damaged = list(messages)
        if rng.random() < 0.05:
            del damaged[rng.randrange(len(damaged))]
        else:
            # The schema seldom: most of it is refused before anything interesting happens.
            index = rng.randrange(len(damaged)) if rng.random() < 0.15 else rng.randrange(1, len(damaged))
            parts = [bytearray(part) for part in damaged[index]]
            candidates = [part for part in parts if part]
            rng.choice(_DAMAGE)(rng, rng.choice(candidates))
            damaged[index] = (bytes(parts[0]), bytes(parts[1]))
        yield damaged


def zstd_bomb(n_bytes: int) -> pa.Table:
    """Zeros: with zstd a few thousand bytes."""
    return pa.table({"zeros": np.zeros(n_bytes // 8, np.int64)})


def null_bomb(rows: int) -> pa.Table:
    """Rows without any bytes."""
    return pa.table({"n": pa.nulls(rows)})


def rows_of_nothing(rows: int) -> list[pa.Table]:
    """Give other types whose rows take no byte."""
    empty = pa.Array.from_buffers(pa.binary(0), rows, [None, pa.py_buffer(b"")])
    structs = pa.Array.from_buffers(pa.struct([]), rows, [None])
    lists = pa.Array.from_buffers(pa.list_(pa.int8(), 0), rows, [None], children=[pa.array([], pa.int8())])
    return [pa.table({"x": column}) for column in (empty, structs, lists)] + [null_bomb(rows).select([])]


def run_end_bomb(rows: int) -> pa.Table:
    """One run of a long string."""
    runs = pa.array([rows], pa.int32())
    return pa.table({"r": pa.RunEndEncodedArray.from_arrays(runs, pa.array(["x" * 50]))})


def view_bomb(rows: int, n_bytes: int) -> pa.Table:
    """Many views of the same long string."""
    view = struct.pack("<i4sii", n_bytes, b"xxxx", 0, 0)
    buffers = [None, pa.py_buffer(view * rows), pa.py_buffer(b"x" * n_bytes)]
    return pa.table({"v": pa.Array.from_buffers(pa.string_view(), rows, buffers)})
