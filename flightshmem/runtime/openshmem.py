# SPDX-License-Identifier: Apache-2.0
"""All that we know about OpenSHMEM libraries: the settings they need, and where to find them."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from flightshmem import _core
from flightshmem.errors import TransportUnavailable
from flightshmem.runtime import launch, memory
from flightshmem.runtime.segment import heap_from_environment, segment_bytes

SLACK_BYTES = 64 << 20
"""What stays free in the library's heap, for shmem4py users and the library's own objects."""

_HEAP_VARIABLES = ("SHMEM_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_HEAP_SIZE")
"""The standard's name; Open MPI 4's, which ignores the standard's."""
_OLD_HEAP_VARIABLE = "SMA_SYMMETRIC_SIZE"
"""Refused by Open MPI 4 when it differs from its own name."""

_SETTINGS = {
    # Open MPI with UCX: another one-sided component crashes when the library ends.
    "OMPI_MCA_osc": "ucx",
    # openib is obsolete and prints warnings; ofi sleeps a second when it closes; vader leaves files
    # in /dev/shm when a PE is killed. What PEs tell each other goes through UCX in any case.
    "OMPI_MCA_btl": "^openib,ofi,vader",
    # More PEs than cores: a PE that waits lets others run.
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # Otherwise a heap larger than memory falls back to files in /dev/shm, and fills the machine.
    # mmap is for nodes without shared memory transports.
    "UCX_ALLOC_PRIO": "md:sysv,mmap",
    # Our own output says what went wrong; this is about missing network cards.
    "UCX_LOG_LEVEL": "error",
    # Containers run as root.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}

LAUNCHER_FLAGS = ("--oversubscribe", "--bind-to", "none")
"""More PEs than cores are fine with us, and PEs use threads."""

_STARTED_FLAGS = {
    "liboshmem.so": "oshmem_shmem_initialized",  # Open MPI
    "libsma.so": "shmem_internal_initialized",  # Sandia
}
"""Library file -> the variable it exports that says whether it has been started."""


def why_missing() -> str:
    """Say why the provider cannot be used here; empty when it can."""
    if not _module_path().exists():
        return (
            "its module was not built: install an OpenSHMEM library (Debian: openmpi-bin "
            "libopenmpi-dev) and reinstall flightshmem"
        )
    if launcher_path() is None:
        return "there is no oshrun on the PATH: install openmpi-bin"
    return ""


def launcher_path() -> str | None:
    """Return the path of oshrun, if there is one."""
    return shutil.which("oshrun")


def in_our_words(line: bytes) -> bytes:
    """Say PE where oshrun says rank."""
    return re.sub(rb"process rank (\d+) with PID \d+ on", rb"PE \1 on", line)


def library_version() -> str:
    """Return what oshrun says it is."""
    answer = subprocess.run([str(launcher_path()), "--version"], capture_output=True, text=True, check=False)
    return next(iter(answer.stdout.splitlines()), "version unknown").strip()


def settings(heap_bytes: int | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the library needs; what the user has set in it is kept.

    ``heap_bytes`` None: whatever heap the environment gives, or our default.
    """
    result = {**_SETTINGS, **environment}
    result.pop(_OLD_HEAP_VARIABLE, None)
    asked = [environment[name] for name in (*_HEAP_VARIABLES, _OLD_HEAP_VARIABLE) if environment.get(name)]
    size = max((memory.parse_bytes(text) for text in asked), default=0)
    if heap_bytes is not None or not asked:
        size = max(size, segment_bytes(heap_bytes or default_heap_bytes()) + SLACK_BYTES)
    result.update(dict.fromkeys(_HEAP_VARIABLES, str(size)))
    return result


def default_heap_bytes() -> int:
    """Return the heap per PE when nobody asks for one."""
    return memory.default_heap_bytes(_pes_on_node())


def open_transport(heap_bytes: int | None) -> _core.Transport:
    """Join the OpenSHMEM job that this process belongs to. Collective."""
    if not _module_path().exists():
        raise TransportUnavailable(f"[init] the openshmem transport is not available: {why_missing()}")
    wish = heap_bytes or heap_from_environment()
    is_started = _is_started()
    if not is_started:
        if wish is not None:
            memory.check_heaps_fit(wish, _pes_on_node())
        prepared = settings(wish, os.environ)
        os.environ.pop(_OLD_HEAP_VARIABLE, None)
        os.environ.update(prepared)
        # The library is ours to start and to end: shmem4py, if imported later, shall use it as it is.
        os.environ["SHMEM4PY_RC_INITIALIZE"] = "0"
    return _core.open_openshmem(
        segment_bytes(wish or default_heap_bytes()),
        launch.timeout_s(),
        str(_module_path()),
        is_started=is_started,
        may_shrink=wish is None,
        slack_bytes=SLACK_BYTES,
    )


def _is_started() -> bool:
    """Whether somebody in this process (shmem4py, usually) has started an OpenSHMEM library."""
    loaded = {
        line.split(None, 5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line
    }
    for path in loaded:
        flag = next((flag for stem, flag in _STARTED_FLAGS.items() if stem in path), None)
        if flag is not None:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            return bool(ctypes.c_bool.in_dll(library, flag))
    shmem4py = sys.modules.get("shmem4py")
    return "shmem4py.shmem" in sys.modules and bool(shmem4py.rc.initialize)  # type: ignore[union-attr]


def _pes_on_node() -> int:
    return max(int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "0")), 1)


def _module_path() -> Path:
    return Path(_core.__file__).with_name("_openshmem.so")
