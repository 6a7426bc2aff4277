# SPDX-License-Identifier: Apache-2.0
"""Peak memory of the hand-over, each time in a fresh process."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Prints by how much the peak grows while XGBoost makes its bins, in units of the matrix.
MEASURE = """
import sys
import numpy as np, pandas as pd, xgboost
import flightshmem as fs
import flightshmem.ml.xgboost as fxgb

def resident(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024

way, n_missing = sys.argv[1], int(sys.argv[2])
fs.init(heap="128M")
values = np.random.default_rng(1).normal(size=(1_000_000, 12)).astype(np.float32)
values[:n_missing, 0] = np.nan
frame = pd.DataFrame(values, columns=[f"f{i}" for i in range(12)])
label = values[:, 1] > 0
matrix = fs.from_pandas(frame).to_matrix()
del frame, values
handed = {"heap": matrix.pandas, "copy": lambda: matrix.numpy().copy()}[way]
xgboost.QuantileDMatrix(np.zeros((100, 2)), label=np.zeros(100), nthread=1)
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark starts from here
before = resident("VmHWM")
xgboost.QuantileDMatrix(handed(), label=label, nthread=1)
print((resident("VmHWM") - before) / matrix.nbytes)
"""


def growth(way: str, n_missing: int) -> float:
    command = [sys.executable, "-c", MEASURE, way, str(n_missing)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


@pytest.mark.parametrize("n_missing", [0, 1])
def test_the_handoff_adds_nothing_to_xgboosts_own_need(n_missing: int) -> None:
    """dmlc/xgboost#10255, #9692: a NaN anywhere enlarges XGBoost's index; no copy of ours comes on top."""
    heap, copy = growth("heap", n_missing), growth("copy", n_missing)
    assert heap < copy - 0.9
