# SPDX-License-Identifier: Apache-2.0
"""All that we know about OpenSHMEM libraries: settings they need, and where their heap size is said."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from flightshmem import _core
from flightshmem.errors import TransportUnavailable
from flightshmem.runtime import launch, memory

SLACK_BYTES = 64 << 20
"""What stays free in the library's heap, for shmem4py users and the library's own objects."""

_HEAP_VARIABLES = ("SHMEM_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_HEAP_SIZE")
"""The standard's name, and Open MPI 4's."""


def module_path() -> Path | None:
    """Return the provider module, if it was built."""
    path = Path(_core.__file__).with_name("_openshmem.so")
    return path if path.exists() else None


def open_transport(heap_bytes: int | None) -> _core.Transport:
    """Join the OpenSHMEM job that this process belongs to. Collective."""
    raise TransportUnavailable("[init] not yet")
