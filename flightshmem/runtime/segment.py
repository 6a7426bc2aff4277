# SPDX-License-Identifier: Apache-2.0
"""How large a segment is, and where the heap lies in it."""

from __future__ import annotations

import os

from flightshmem import _core
from flightshmem.runtime import launch, memory

HEAP_BEGIN: int = _core.HEAP_BEGIN
"""Behind the transport's own bytes and the catalog's directory."""

_PAGE = 4096


def segment_bytes(heap_bytes: int) -> int:
    """Return the size of a segment that has a heap of at least this size."""
    return HEAP_BEGIN + (max(heap_bytes, 1) + _PAGE - 1) // _PAGE * _PAGE


def heap_from_environment() -> int | None:
    """Return the heap that FLIGHTSHMEM_HEAP asks for, if any."""
    text = os.environ.get(launch.HEAP)
    return memory.parse_bytes(text) if text else None
