# SPDX-License-Identifier: Apache-2.0
"""Heap pages are touched ahead of use, as many as wanted, and their contents are not changed."""

from __future__ import annotations

import pytest

from flightshmem.errors import InvalidArgument
from flightshmem.runtime import openshmem
from flightshmem.runtime.segment import DEFAULT_STAGING_BYTES, staging_bytes, warm_bytes
from flightshmem.testing import run_pes

MIB = 1 << 20

NEEDS_OPENSHMEM = pytest.mark.skipif(bool(openshmem.why_missing()), reason=openshmem.why_missing() or "-")

PROGRAM = """
import time
from pathlib import Path
import numpy as np
import flightshmem as fs

def shared_mib():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if "RssShmem" in line)
    return int(line.split()[1]) / 1024

runtime = fs.init()
array = fs.heap.empty(1000)
array[:] = fs.pe()
until = time.monotonic() + 30
while shared_mib() < {wanted} and time.monotonic() < until:
    time.sleep(0.01)
fs.barrier()
print(fs.pe(), shared_mib() >= {wanted}, (array == fs.pe()).all(), flush=True)
"""


@pytest.mark.parametrize("transport", ["posix_shm", pytest.param("openshmem", marks=NEEDS_OPENSHMEM)])
def test_own_and_peers_pages_are_touched(transport: str) -> None:
    """A PE has its own first megabytes and its view of its peer's in memory, before it writes there."""
    job = run_pes(
        PROGRAM.format(wanted=2 * 24),
        2,
        transport,
        options=["--heap", "64M"],
        environment_changes={"FLIGHTSHMEM_WARM": "24M"},
    )
    assert job.returncode == 0, job.stderr
    assert sorted(job.stdout.splitlines()) == ["0 True True", "1 True True"]


def test_nothing_is_touched_when_not_wanted() -> None:
    program = PROGRAM.replace("+ 30", "+ 1").format(wanted=24)
    job = run_pes(
        program, 2, "posix_shm", options=["--heap", "64M"], environment_changes={"FLIGHTSHMEM_WARM": "0"}
    )
    assert job.returncode == 0, job.stderr
    assert sorted(job.stdout.splitlines()) == ["0 False True", "1 False True"]


def test_sizes_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert warm_bytes(64 * MIB, 2) == 8 * MIB
    assert warm_bytes(64 << 30, 2) == 512 * MIB
    assert warm_bytes(64 * MIB, 1) == 0
    assert staging_bytes() == DEFAULT_STAGING_BYTES
    monkeypatch.setenv("FLIGHTSHMEM_WARM", "3M")
    monkeypatch.setenv("FLIGHTSHMEM_STAGING", "1M")
    assert (warm_bytes(64 * MIB, 1), staging_bytes()) == (3 * MIB, MIB)
    monkeypatch.setenv("FLIGHTSHMEM_STAGING", "1")
    assert staging_bytes() > 1
    monkeypatch.setenv("FLIGHTSHMEM_WARM", "much")
    with pytest.raises(InvalidArgument, match="got 'much'"):
        warm_bytes(1, 2)
