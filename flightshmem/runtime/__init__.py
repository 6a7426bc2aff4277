# SPDX-License-Identifier: Apache-2.0
"""The runtime: how a process becomes a PE, and what PEs can do together."""

from __future__ import annotations

from flightshmem.runtime.launch import child_environment
from flightshmem.runtime.memory import format_bytes, parse_bytes
from flightshmem.runtime.session import (
    Runtime,
    barrier,
    current,
    finalize,
    init,
    is_initialized,
    n_pes,
    pe,
)

__all__ = [
    "Runtime",
    "barrier",
    "child_environment",
    "current",
    "finalize",
    "format_bytes",
    "init",
    "is_initialized",
    "n_pes",
    "parse_bytes",
    "pe",
]
