# SPDX-License-Identifier: Apache-2.0
"""Sizes: how users write them, what the machine has, what a heap may take."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

from flightshmem.errors import InvalidArgument, TransportUnavailable

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)

DEFAULT_HEAP_BYTES = 1 << 30
"""The heap of each PE where nobody says otherwise and memory allows."""

MAX_SHARE = 0.8
"""What part of the available memory all heaps together may take."""

OPENSHMEM_FILE_BYTES = 8 << 20
"""What the message buffers of Open MPI's OpenSHMEM take in /dev/shm, per PE (seen: 4.1 MiB)."""


def parse_bytes(size: str | int) -> int:
    """Turn ``"2G"``, ``"512M"``, ``"1.5 GiB"`` or a number into bytes; K, M, G, T are powers of 1024."""
    match = _SIZE.fullmatch(str(size).strip())
    if match is None:
        raise InvalidArgument(f"[parse_bytes] not a size, got {size!r}: write it as 2G, 512M or bytes")
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match[2] or "." in match[1] else int(match[1])


def format_bytes(size: float) -> str:
    """Write bytes for people: ``1.5 GiB``."""
    if size < 1024:
        return f"{size:.0f} bytes"
    exponent = min(int(math.log(size, 1024)), 4)
    return f"{size / 1024**exponent:.1f}".removesuffix(".0") + f" {' KMGT'[exponent]}iB"


def available_bytes() -> int:
    """Return the memory that can be used without swapping: the machine's or the container's, if less."""
    fields = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    machine = int(fields["MemAvailable"].split()[0]) * 1024
    return min([machine, *_cgroup_room()])


def _cgroup_room() -> list[int]:
    """Return limit minus use of every limited control group (v2) that this process is in."""
    room = []
    root = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        hierarchy, _, path = line.split(":", 2)
        if hierarchy != "0":
            continue
        group = root / path.lstrip("/")
        for level in (group, *group.parents):
            if level != root and root not in level.parents:
                break
            try:
                limit = (level / "memory.max").read_text().strip()
                used = int((level / "memory.current").read_text())
            except (OSError, ValueError):
                continue
            if limit != "max":
                room.append(max(int(limit) - used, 0))
    return room


def default_heap_bytes(n_pes: int) -> int:
    """Return the heap per PE when none is asked for: 1 GiB, or less so that all take half the memory."""
    share = available_bytes() // (2 * n_pes)
    return max(min(DEFAULT_HEAP_BYTES, share >> 20 << 20), 16 << 20)


def check_heaps_fit(heap_bytes: int, n_pes: int) -> None:
    """Raise InvalidArgument, before anything starts, when the heaps cannot fit into memory."""
    available = available_bytes()
    if heap_bytes * n_pes <= MAX_SHARE * available:
        return
    most = int(MAX_SHARE * available / n_pes) >> 20
    raise InvalidArgument(
        f"[run] {n_pes} PEs x {format_bytes(heap_bytes)} of heap = {format_bytes(heap_bytes * n_pes)}, "
        f"but {format_bytes(available)} of memory are available, of which heaps may take "
        f"{MAX_SHARE:.0%}: use --heap {most}M or less, or fewer PEs"
    )


def check_shared_files_fit(n_pes: int) -> None:
    """Raise TransportUnavailable, before anything starts, when /dev/shm is too small for OpenSHMEM."""
    free, needed = shutil.disk_usage("/dev/shm").free, OPENSHMEM_FILE_BYTES * n_pes
    if free < needed:
        raise TransportUnavailable(
            f"[run] /dev/shm has {format_bytes(free)} free, but OpenSHMEM may take {format_bytes(needed)} "
            f"there for {n_pes} PEs: make it larger (mount -o remount,size=256M /dev/shm, or --shm-size for "
            "a container), or use --transport posix_shm, which needs none"
        )
