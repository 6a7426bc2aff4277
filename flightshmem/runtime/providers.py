# SPDX-License-Identifier: Apache-2.0
"""From a transport's name to a transport."""

from __future__ import annotations

import os

from flightshmem import _core
from flightshmem.errors import InvalidArgument, TransportError
from flightshmem.runtime import launch, memory, openshmem
from flightshmem.runtime.segment import HEAP_BEGIN, heap_from_environment, segment_bytes


def open_transport(name: str, heap_bytes: int | None) -> _core.Transport:
    """Start the transport of that name; ``heap_bytes`` None leaves the size to environment and memory.

    Collective.
    """
    if name == "openshmem":
        return openshmem.open_transport(heap_bytes)
    seat = launch.take_seat()
    if seat is None:
        heap = heap_bytes or heap_from_environment() or memory.default_heap_bytes(1)
        memory.check_heaps_fit(heap, 1)
        return _core.open_posix_shm_alone(segment_bytes(heap), launch.timeout_s())
    return _open_seat(seat, heap_bytes)


def _open_seat(seat: launch.Seat, heap_bytes: int | None) -> _core.Transport:
    if seat.pid != os.getpid():
        raise TransportError(
            f"[init] this process was forked from PE {seat.pe}/{seat.n_pes} and is no PE itself: "
            "call flightshmem.init() in the process that `flightshmem run` started"
        )
    try:
        size = os.fstat(seat.segment_fd).st_size // seat.n_pes
    except OSError as error:
        raise TransportError(
            f"[init] the memory file of the launcher is gone, got {error}, PE {seat.pe}/{seat.n_pes}: "
            "start the PEs with `flightshmem run`"
        ) from None
    # The launcher has checked the memory for this size: a larger heap must go through it.
    if heap_bytes is not None and segment_bytes(heap_bytes) > size:
        raise InvalidArgument(
            f"[init] the launcher gave each PE a heap of {memory.format_bytes(size - HEAP_BEGIN)}, got "
            f"{memory.format_bytes(heap_bytes)}, PE {seat.pe}/{seat.n_pes}: "
            f"use `flightshmem run --heap {heap_bytes}`"
        )
    return _core.open_posix_shm(size, launch.timeout_s(), seat.pe, seat.n_pes, seat.segment_fd)
