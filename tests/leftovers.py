# SPDX-License-Identifier: Apache-2.0
"""For tests of jobs that fail: the transports there are, and what must not stay behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightshmem.runtime import openshmem


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "transport" in metafunc.fixturenames:
        missing = openshmem.why_missing()
        marks = [pytest.mark.skip(reason=missing)] if missing else []
        metafunc.parametrize("transport", ["posix_shm", pytest.param("openshmem", marks=marks)])


def shared_memory() -> set[str]:
    """What lies in /dev/shm and in System V segments."""
    files = {path.name for path in Path("/dev/shm").iterdir()}
    segments = subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
    return files | {line.split()[1] for line in segments.splitlines() if line.startswith("0x")}


@pytest.fixture
def nothing_left_behind() -> Iterator[None]:
    """Nothing new in shared memory after the test, from jobs of this test."""
    before = shared_memory()
    yield
    # Jobs of others come and go meanwhile: what stays is what counts.
    for _ in range(600):
        if not shared_memory() - before:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    assert not shared_memory() - before
