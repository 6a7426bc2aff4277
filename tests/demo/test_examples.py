# SPDX-License-Identifier: Apache-2.0
"""Every example runs as its first lines say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, n_pes: int) -> str:
    command = [sys.executable, "-m", "flightshmem", "run", "-n", str(n_pes), "--heap", "128M"]
    run = subprocess.run([*command, EXAMPLES / name], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_all_examples_are_tested_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"flights.py", "quickstart.py"}


@pytest.mark.parametrize("n_pes", [1, 2])
def test_quickstart(n_pes: int) -> None:
    output = run_example("quickstart.py", n_pes)
    assert output.count("mean_price") == 1
    assert re.search(r"prediction\n0 ", output)
    assert len((EXAMPLES / "quickstart.py").read_text().splitlines()) <= 25


def test_quickstart_needs_no_launcher() -> None:
    command = [sys.executable, EXAMPLES / "quickstart.py"]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}  # also from a source checkout
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "prediction" in run.stdout


def test_flights() -> None:
    output = run_example("flights.py", 2)
    assert re.search(r"F9 +21\.92\d* +681", output)
    assert "0 bytes copied" in output
    assert "82609 predictions read over Flight" in output
    score = re.search(r"^AUC (0\.\d{4})", output, re.M)
    assert score is not None
    assert float(score[1]) == pytest.approx(0.6916, abs=0.005)
