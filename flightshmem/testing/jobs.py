# SPDX-License-Identifier: Apache-2.0
"""Run a program on N PEs from a test, and look at what became of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_pes(
    program: str,
    n_pes: int = 2,
    transport: str = "posix_shm",
    *,
    arguments: Sequence[str] = (),
    options: Sequence[str] = ("--heap", "64M"),
    environment_changes: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run Python source text with ``flightshmem run`` and return exit code and output.

    ``options`` are further ones of ``flightshmem run``. Raises subprocess.TimeoutExpired, with all
    PEs ended, when the job takes longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(textwrap.dedent(program))
        launcher = [sys.executable, "-m", "flightshmem", "run", "-n", str(n_pes), "--transport", transport]
        return subprocess.run(
            [*launcher, *options, str(script), *arguments],
            env={**os.environ, **(environment_changes or {})},
            timeout=timeout_s,
            capture_output=True,
            text=True,
            check=False,
        )
