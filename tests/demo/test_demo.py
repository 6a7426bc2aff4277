# SPDX-License-Identifier: Apache-2.0
"""``flightshmem demo`` as a user sees it, against the oracle's row counts."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from flightshmem.demo import flight_files
from flightshmem.demo.pipeline import auc
from flightshmem.errors import InvalidArgument
from flightshmem.runtime import openshmem

TRANSPORTS = [
    "posix_shm",
    pytest.param(
        "openshmem",
        marks=pytest.mark.skipif(bool(openshmem.why_missing()), reason=openshmem.why_missing() or "there"),
    ),
]


class Tags(HTMLParser):
    """Collects what a page consists of, and what it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name == "src"]
        if tag in ("link", "script"):
            self.loads.append(tag)


def run_demo(folder: Path, *options: str) -> str:
    report = folder / "report.html"
    command = [sys.executable, "-m", "flightshmem", "demo", "--report", str(report), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def rows_of(output: str) -> dict[str, int]:
    """Read the step table: name -> rows."""
    found = re.findall(r"^([a-zA-Z][a-zA-Z ]+?)\s{2,}([\d,]+)\s+\d+\.\d\d", output, re.M)
    return {name: int(rows.replace(",", "")) for name, rows in found}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_whole_promise(tmp_path: Path, transport: str) -> None:
    output = run_demo(tmp_path, "-n", "2", "--transport", transport, "--heap", "128M")
    assert rows_of(output) == {
        "open files": 336_776,
        "filter": 327_346,
        "join planes": 327_346,
        "join weather": 327_346,
        "join airports": 327_346,
        "worst carriers": 16,
        "matrix": 244_737,
        "train": 244_737,
        "predict": 82_609,
        "publish": 327_346,
        "read over Flight": 82_609,
    }
    for found in ("273,853 found on tailnum", "325,802 found on origin", "319,809 found on dest"):
        assert found in output
    scores = re.search(r"^AUC (0\.\d{4}) \(single process (0\.\d{4})\)$", output, re.M)
    assert scores is not None
    ours, single = float(scores[1]), float(scores[2])
    assert 0.65 < single < 0.75
    assert ours == pytest.approx(single, abs=0.005)
    assert "bytes copied at the handoff: 0 of 16,642,116" in output
    assert re.search(r"F9\W+Frontier.*\W681\W+21\.9207", output)
    assert re.search(r"EV\W+ExpressJet.*\W51108\W+15\.7964", output)
    assert "another process, bare pyarrow.flight" in output
    check_report(tmp_path / "report.html", ours)


def check_report(path: Path, score: float) -> None:
    page = path.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert tags.loads == []
    assert "svg" in tags.tags
    assert f"{score:.4f}" in page
    for word in ("dep_hour", "precip", "Frontier Airlines", "xgboost-cpu", "join weather"):
        assert word in page


def test_scale_repeats_every_count(tmp_path: Path) -> None:
    rows = rows_of(run_demo(tmp_path, "-n", "1", "--scale", "2"))
    assert rows["filter"] == rows["join weather"] == 2 * 327_346
    assert rows["matrix"] == 2 * 244_737
    assert rows["read over Flight"] == 2 * 82_609


def test_copies_of_the_files_are_weeks_apart(tmp_path: Path) -> None:
    folder = flight_files(tmp_path, scale=2)
    first, second = (
        pq.read_table(folder / f"flights-00{copy}-0.parquet").select(["year", "month", "date", "time_hour"])
        for copy in (0, 1)
    )
    days = (second["date"].to_numpy() - first["date"].to_numpy()).astype("timedelta64[D]")
    assert set(days.astype(int)) == {364}
    assert second["month"].equals(first["month"])
    for name in ("flights", "weather"):
        keys = [pq.read_table(p)["time_hour"].to_numpy() for p in sorted(folder.glob(f"{name}-001*"))]
        assert (np.concatenate(keys).min() - np.datetime64("2013-12-31T05")).astype(int) >= 0
    with pytest.raises(InvalidArgument, match="scale must be 1 or more"):
        flight_files(tmp_path, scale=0)


def test_auc_is_exact_with_ties() -> None:
    random = np.random.default_rng(0)
    scores = np.round(random.random(5000), 2).astype("float32")
    is_late = random.random(5000) < scores
    assert auc(is_late, scores) == pytest.approx(roc_auc_score(is_late, scores), abs=1e-12)


def test_failure_of_the_job_is_an_error_of_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flightshmem", "demo", "--report", str(tmp_path / "r.html")]
    run = subprocess.run([*command, "--heap", "1M"], capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert "HeapExhausted" in run.stderr or "heap" in run.stderr
    assert not (tmp_path / "r.html").exists()
