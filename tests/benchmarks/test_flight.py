# SPDX-License-Identifier: Apache-2.0
"""The Flight benchmark runs, and compares what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_quick_run(tmp_path: Path) -> None:
    out = tmp_path / "flight.json"
    command = [sys.executable, "-m", "benchmarks.flight", "--quick", "--json", str(out)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) >= {"doget_vs_python_server", "doget_vs_raw_tcp"}
    for row in rows.values():
        assert row["ours"] > 0
        assert row["peer"] > 0
        assert row["unit"] == "GB/s"
