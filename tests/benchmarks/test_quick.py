# SPDX-License-Identifier: Apache-2.0
"""Every benchmark runs with ``--quick``, so that none can rot; what it measures is not judged here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("_"))


@pytest.mark.parametrize("name", MODULES)
def test_runs_and_writes_rows(tmp_path: Path, name: str) -> None:
    target = tmp_path / "rows.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", str(target)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(target.read_text())["rows"]
    assert rows
    for row in rows:
        assert row["ours"] > 0
        assert row["peer"] > 0
        assert row["ratio"] > 0
        assert row["unit"]
        assert row["name"] in run.stdout


def test_the_ml_rows_are_there(tmp_path: Path) -> None:
    from benchmarks import ml

    assert "ml" in MODULES
    names = {row.name for row in ml.handoff(quick=True)}
    assert "handoff_bytes" in names
