# SPDX-License-Identifier: Apache-2.0
"""A machine whose /dev/shm has no room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small /dev/shm")

PROGRAM = "import flightshmem as fs; fs.barrier(); print('PE', fs.pe(), 'came through')"


def run_without_room(transport: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "program.py"
    script.write_text(PROGRAM)
    job = [sys.executable, "-m", "flightshmem", "run", "-n", "2", "--heap", "64M", "--transport", transport]
    mount = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", *job, script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_one_transport_needs_none_and_the_other_says_so(transport: str, tmp_path: Path) -> None:
    run = run_without_room(transport, tmp_path)
    if transport == "posix_shm":
        assert run.returncode == 0, run.stderr
        assert run.stdout.count("came through") == 2
    else:
        assert run.returncode != 0
        assert "/dev/shm has 64 KiB free" in run.stderr
        assert "--transport posix_shm" in run.stderr
