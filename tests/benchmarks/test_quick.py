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

PROMISED = {
    "exchange": {
        "exchange_numeric_vs_memcpy",
        "exchange_numeric_cold_vs_memcpy",
        "exchange_string_vs_memcpy",
        "exchange_vs_dask",
        "exchange_vs_mpi4py",
        "exchange_vs_mpi4py_warm",
        "join_vs_best",
        "groupby_1m_vs_best",
        "groupby_100_vs_best",
        "filter_assign_vs_best",
        "sort_vs_best",
        "offnode_vs_putmem",
        "weak_scaling_2pe",
        "allreduce_8b_us",
        "barrier_us",
    },
    "flight": {"doget_vs_python_server", "doget_vs_raw_tcp"},
    "ml": {"handoff_bytes", "demo_memory_vs_pandas"},
    "scaling": {"scaling_model_1pe", "scaling_model_2pe", "scaling_model_2pe_tcp"},
}


@pytest.mark.parametrize("name", MODULES)
def test_runs_and_writes_rows(tmp_path: Path, name: str) -> None:
    target = tmp_path / "rows.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", str(target)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(target.read_text())["rows"]
    assert PROMISED.get(name, set()) <= {row["name"] for row in rows}
    for row in rows:
        assert row["ours"] > 0
        assert row["peer"] > 0
        assert row["ratio"] > 0
        assert row["unit"]
        assert row["name"] in run.stdout
