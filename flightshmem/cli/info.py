# SPDX-License-Identifier: Apache-2.0
"""``flightshmem info``: what is installed, what can run here."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform

from flightshmem.runtime import launch, memory, openshmem
from flightshmem.runtime.memory import format_bytes

SUMMARY = "show versions, transports, memory"

_PACKAGES = (
    "flightshmem",
    "pyarrow",
    "numpy",
    "pandas",
    "xgboost",
    "xgboost-cpu",
    "scikit-learn",
    "shmem4py",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: ``info`` has no options."""


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    rows = [*_versions(), *_transports(), *_memory(), *_job()]
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")
    return 0


def _versions() -> list[tuple[str, str]]:
    rows = [("Python", platform.python_version())]
    for package in _PACKAGES:
        try:
            rows.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return rows


def _transports() -> list[tuple[str, str]]:
    missing = openshmem.why_missing()
    found = f"available, {openshmem.library_version()}" if not missing else f"not available: {missing}"
    try:
        chosen = launch.choose_transport(None)
    except ValueError as error:
        chosen = str(error)
    return [
        ("transport posix_shm", "available"),
        ("transport openshmem", found),
        ("transport here", chosen),
    ]


def _memory() -> list[tuple[str, str]]:
    available = memory.available_bytes()
    shares = ", ".join(f"{format_bytes(memory.default_heap_bytes(n))} at -n {n}" for n in (1, 4))
    return [
        ("memory available", format_bytes(available)),
        ("all heaps together", f"at most {format_bytes(available * memory.MAX_SHARE)}"),
        ("default heap per PE", os.environ.get(launch.HEAP) or shares),
        ("processors", str(len(os.sched_getaffinity(0)))),
    ]


def _job() -> list[tuple[str, str]]:
    seat = launch.take_seat()
    if seat is not None:
        return [("this process", f"PE {seat.pe} of {seat.n_pes}, started by flightshmem run")]
    if launch.foreign_pes() > 0:
        return [("this process", f"one of {launch.foreign_pes()} PEs, started by another launcher")]
    return [("this process", "alone: start PEs with `flightshmem run -n N script.py`")]
