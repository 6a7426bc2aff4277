# SPDX-License-Identifier: Apache-2.0
"""Cut CSV files at record borders so that every PE parses its own part.

A newline ends a record only outside quotes, and whether a position is inside quotes depends on every
quote before it. So: (1) files are cut into blocks of bytes, spread over PEs; each PE counts the quotes
of its blocks; (2) with all counts known, each block knows whether it starts inside quotes, finds its
first record border, and checks that every quote is where a quoted field may open or close. A file with
a stray quote (``5" pipe``) is not cut at all, nor is a compressed one: one PE parses it whole.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flightshmem.io.split import even_range
from flightshmem.runtime import Runtime

_QUOTE, _NEWLINE, _RETURN = b'"'[0], b"\n"[0], b"\r"[0]
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")
# Bytes of one block, which is also what a PE parses at a time.
BLOCK_BYTES = 32 << 20

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Piece:
    """Whole records of a file: bytes [start, stop) without the header, or the whole file if stop is None."""

    file: int
    start: int
    stop: int | None


@dataclass(frozen=True)
class _Block:
    file: int
    start: int
    stop: int


def is_compressed(path: Path) -> bool:
    """Tell whether a file has to be unpacked from its beginning."""
    return path.suffix.lower() in _COMPRESSED


def split_files(
    job: Runtime,
    files: Sequence[Path],
    headers: Sequence[int],
    separator: bytes,
    block_bytes: int = BLOCK_BYTES,
) -> list[Piece]:
    """Return this PE's pieces. Collective. ``headers``: where the records of each file begin."""
    with job.converge("read_csv"):
        blocks = _blocks(files, headers, job.n_pes, block_bytes)
        first, last = even_range(len(blocks), job.pe, job.n_pes)
        counts = [_count_quotes(files[block.file], block) for block in blocks[first:last]]
    quotes = [count for part in job.allgather(json.dumps(counts).encode()) for count in json.loads(part)]
    with job.converge("read_csv"):
        inside = _parities(blocks, quotes)
        found = [
            _first_record(files[block.file], block, inside[first + i], separator)
            for i, block in enumerate(blocks[first:last])
        ]
    starts = [start for part in job.allgather(json.dumps(found).encode()) for start in json.loads(part)]
    pieces = _pieces(blocks, starts, [file.stat().st_size for file in files])
    return [piece for number, piece in pieces if first <= number < last]


_STRAY = -2
_NONE = -1


def _blocks(files: Sequence[Path], headers: Sequence[int], n_pes: int, block_bytes: int) -> list[_Block]:
    sizes = [file.stat().st_size for file in files]
    step = max(1, min(block_bytes, -(-sum(sizes) // n_pes)))
    blocks = []
    for number, (file, size, header) in enumerate(zip(files, sizes, headers, strict=True)):
        if is_compressed(file):
            blocks.append(_Block(number, 0, 0))
            continue
        borders = [*range(header, size, step), size]
        blocks += [_Block(number, a, b) for a, b in itertools.pairwise(borders)]
    return blocks


def _bytes(path: Path, start: int, stop: int) -> Bytes:
    with path.open("rb") as file:
        file.seek(start)
        return np.frombuffer(file.read(stop - start), dtype=np.uint8)


def _count_quotes(path: Path, block: _Block) -> int:
    return int(np.count_nonzero(_bytes(path, block.start, block.stop) == _QUOTE))


def _parities(blocks: Sequence[_Block], quotes: Sequence[int]) -> list[bool]:
    """Tell for each block whether it starts inside quotes."""
    inside, result, file = False, [], -1
    for block, count in zip(blocks, quotes, strict=True):
        inside = inside and block.file == file
        file = block.file
        result.append(inside)
        inside ^= count % 2 == 1
    return result


def _first_record(path: Path, block: _Block, is_inside: bool, separator: bytes) -> int:
    """Return where the first record that starts in the block begins, _NONE or _STRAY."""
    if is_compressed(path):
        return 0
    # One byte more on both sides: what stands before and after a quote decides.
    before = max(block.start - 1, 0)
    raw = _bytes(path, before, block.stop + 1)
    offset = block.start - before
    body = raw[offset : offset + block.stop - block.start]
    is_quote = body == _QUOTE
    if not _quotes_fit(raw, offset, np.flatnonzero(is_quote), is_inside, separator):
        return _STRAY
    if block.start == 0 or (raw[0] == _NEWLINE and not is_inside):
        return block.start
    outside = (np.cumsum(is_quote) + is_inside) % 2 == 0
    ends = np.flatnonzero((body == _NEWLINE) & outside)
    if not len(ends) or ends[0] + 1 >= len(body):
        return _NONE
    return block.start + int(ends[0]) + 1


def _quotes_fit(raw: Bytes, offset: int, quotes: Any, is_inside: bool, separator: bytes) -> bool:
    """Check that each quote opens after, or closes before, a border of fields, or is doubled."""
    if not len(quotes):
        return True
    padded = np.concatenate([[_NEWLINE], raw, [_NEWLINE]]).astype(np.uint8)
    at = quotes + offset + 1
    borders = np.array([_NEWLINE, _RETURN, separator[0], _QUOTE], dtype=np.uint8)
    opens = (np.arange(len(quotes)) + is_inside) % 2 == 0
    beside = np.where(opens, padded[at - 1], padded[at + 1])
    return bool(np.isin(beside, borders).all())


def _pieces(blocks: Sequence[_Block], starts: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, Piece]]:
    """Return (block number, piece) for every block in which a record starts."""
    stray = {block.file for block, start in zip(blocks, starts, strict=True) if start == _STRAY}
    pieces: list[tuple[int, Piece]] = []
    ends = dict(enumerate(sizes))
    for number in reversed(range(len(blocks))):
        block, start = blocks[number], starts[number]
        if block.file in stray or block.stop == 0:
            if number == 0 or blocks[number - 1].file != block.file:
                pieces.append((number, Piece(block.file, 0, None)))
        elif start != _NONE:
            pieces.append((number, Piece(block.file, start, ends[block.file])))
            ends[block.file] = start
    return pieces[::-1]
