# SPDX-License-Identifier: Apache-2.0
"""How large a segment is, and where the heap lies in it."""

from __future__ import annotations

import os

from flightshmem import _core
from flightshmem.runtime import launch, memory

HEAP_BEGIN: int = _core.HEAP_BEGIN
"""Behind the transport's own bytes and the catalog's directory."""

_PAGE = 4096
_MOST_WARM = 512 << 20
_LEAST_STAGING = 1 << 16
DEFAULT_STAGING_BYTES = 64 << 20


def segment_bytes(heap_bytes: int) -> int:
    """Return the size of a segment that has a heap of at least this size."""
    return HEAP_BEGIN + (max(heap_bytes, 1) + _PAGE - 1) // _PAGE * _PAGE


def heap_from_environment() -> int | None:
    """Return the heap that FLIGHTSHMEM_HEAP asks for, if any."""
    text = os.environ.get(launch.HEAP)
    return memory.parse_bytes(text) if text else None


def warm_bytes(heap_bytes: int, n_pes: int) -> int:
    """Return how much of a heap to touch ahead of use: FLIGHTSHMEM_WARM, 0 for none.

    The system hands out memory page by page when it is first touched, which takes longer than an
    exchange; a thread does it in the background from the start on, lowest addresses first, which are
    used first. Default: an eighth of the heap, 512 MiB at most; none with one PE.
    """
    text = os.environ.get(launch.WARM)
    if text:
        return memory.parse_bytes(text)
    return min(heap_bytes // 8, _MOST_WARM) if n_pes > 1 else 0


def staging_bytes() -> int:
    """Return what rows on their way to other machines may take here: FLIGHTSHMEM_STAGING, else 64 MiB."""
    text = os.environ.get(launch.STAGING)
    return max(memory.parse_bytes(text), _LEAST_STAGING) if text else DEFAULT_STAGING_BYTES
