# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks._harness import Row, interleaved_medians, main, process_tree, run_measured

MIB = 2**20


def test_ratio_above_one_means_ours_is_better() -> None:
    assert Row.compare("t", 2.0, ("p", 6.0), "s", "lower").ratio == 3.0
    assert Row.compare("t", 6.0, ("p", 2.0), "GB/s", "higher").ratio == 3.0
    assert Row.compare("t", 0.0, ("p", 2.0), "bytes", "lower").ratio == float("inf")


def test_candidates_take_turns_and_the_median_counts() -> None:
    order: list[str] = []
    values = {"a": iter([1.0, 100.0, 2.0]), "b": iter([5.0, 4.0, 6.0])}

    def candidate(name: str) -> float:
        order.append(name)
        return next(values[name])

    medians = interleaved_medians({"a": lambda: candidate("a"), "b": lambda: candidate("b")}, repeats=3)
    assert medians == {"a": 2.0, "b": 5.0}
    assert order == ["a", "b"] * 3


def test_peak_memory_counts_grandchildren() -> None:
    hold = "import time; block = b'x' * (96 << 20); time.sleep(0.5)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}], check=True)"
    finished = run_measured([sys.executable, "-c", parent], timeout_s=60)
    assert 96 * MIB < finished.peak_bytes < 200 * MIB


def test_a_failing_command_shows_its_output() -> None:
    with pytest.raises(RuntimeError, match="no luck"):
        run_measured([sys.executable, "-c", "raise SystemExit('no luck')"], timeout_s=60)


def test_the_tree_of_an_ended_process_is_just_its_number() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert process_tree(ended.pid) == [ended.pid]


def test_json_has_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["x", "--quick", "--json", str(target)])
    assert main("x", lambda quick: [Row.compare("r", 1.0, ("p", 2.0), "s" if quick else "h", "lower")]) == 0
    content = json.loads(target.read_text())
    assert content["rows"][0] | {"note": ""} == {
        "name": "r",
        "ours": 1.0,
        "peer": 2.0,
        "peer_name": "p",
        "unit": "s",
        "ratio": 2.0,
        "note": "",
    }
    assert content["about"]["commit"]
    assert "2.00" in capsys.readouterr().out
