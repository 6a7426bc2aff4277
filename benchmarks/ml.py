# SPDX-License-Identifier: Apache-2.0
"""The hand-over to XGBoost, and the memory of the whole demo pipeline, beside plain pandas.

``handoff_bytes``: features are final (4 M rows x 28 float32 in an Arrow table); from there to XGBoost's
training matrix. Ours: ``to_matrix`` into the heap, read in place. Peer: ``to_pandas``, ``to_numpy``,
``DMatrix``. Measured in a fresh process each time: growth of the resident peak, and processor seconds
(a busy machine disturbs them less than the clock). Both write every value once on the way
(``to_matrix``, ``to_pandas``); the note counts the copies after that, at the handoff itself. A frame
whose columns are not all float32 would cost pandas one more, in ``to_numpy``.

``demo_memory_vs_pandas``: peak PSS, sampled over the whole process tree (launcher and PEs), of the demo's
job on 2 PEs against flightshmem/demo/single_process.py, which is the same pipeline as a careful pandas
user writes it. Ours also publishes three tables, serves them, and starts the reading client.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from statistics import median

from benchmarks._harness import Row, main, run_measured
from flightshmem.demo import flight_files, single_process

REPEATS = 3
TIMEOUT_S = 900
MIB = 2**20

# One hand-over; prints peak growth, bytes copied before quantisation, and processor seconds as JSON.
HANDOFF = """
import json, sys, time
import numpy as np, pandas as pd, pyarrow as pa, xgboost
import flightshmem as fs
import flightshmem.ml.xgboost as fxgb

way, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def high_water():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

fs.init(heap=rows * columns * 4 + (64 << 20))
random = np.random.default_rng(0)
table = pa.table({f"f{i}": random.random(rows, np.float32) for i in range(columns)})
label = random.random(rows, np.float32) > 0.5
threads = {"nthread": 2}
xgboost.QuantileDMatrix(np.zeros((64, 2)), label=np.zeros(64), **threads)
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark starts from here
before, start = high_water(), time.process_time()

if way == "ours":
    matrix = fs.from_arrow(table, distributed=True).to_matrix()
    data = fxgb.Dataset(matrix)
    copied = data.copied_bytes()
    made = xgboost.QuantileDMatrix(data.features(), label=label, **threads)
else:
    frame = table.to_pandas()
    values = frame.to_numpy()
    copied = 0 if np.shares_memory(values, frame.iloc[:, 0].to_numpy()) else values.nbytes
    kind = xgboost.DMatrix if way == "dmatrix" else xgboost.QuantileDMatrix
    made = kind(values, label=label, **threads)
    # DMatrix keeps its own copy of every value beside its column number.
    copied += values.nbytes if way == "dmatrix" else 0
if way == "dmatrix":
    xgboost.train({"max_depth": 1, **threads}, made, 1)  # it makes its bins now, QuantileDMatrix has them
seconds = time.process_time() - start
print(json.dumps([high_water() - before, copied, seconds]))
"""


def rows(quick: bool) -> list[Row]:
    """Measure both."""
    return [*handoff(quick), demo_memory(quick)]


def handoff(quick: bool) -> list[Row]:
    """Compare the hand-over of one big matrix in memory and time."""
    shape = ("50000", "28") if quick else ("4000000", "28")
    ways = ("ours", "dmatrix", "quantile")
    found: dict[str, list[list[float]]] = {way: [] for way in ways}
    for _ in range(1 if quick else REPEATS):
        for way in ways:
            command = [sys.executable, "-c", HANDOFF, way, *shape]
            found[way].append(json.loads(run_measured(command, TIMEOUT_S).stdout))
    medians = {way: [median(values) for values in zip(*runs, strict=True)] for way, runs in found.items()}
    ours, dmatrix, quantile = (medians[way] for way in ways)
    names = {"dmatrix": "pandas -> numpy -> DMatrix", "quantile": "pandas -> numpy -> QuantileDMatrix"}
    what = f"{shape[0]} x {shape[1]} float32 from an Arrow table to XGBoost's bins"
    copies = f"bytes copied at the handoff: ours {ours[1]:,.0f}, peer {{:,.0f}}. {what}, peak growth"
    pairs = [
        ("handoff_bytes", 0, "dmatrix", dmatrix, copies.format(dmatrix[1])),
        ("handoff_bytes_quantile", 0, "quantile", quantile, copies.format(quantile[1])),
        ("handoff_cpu_seconds", 2, "dmatrix", dmatrix, what),
        ("handoff_cpu_seconds_quantile", 2, "quantile", quantile, what),
    ]
    compared = []
    for name, field, way, peer, note in pairs:
        unit, scale = ("CPU s", 1) if field == 2 else ("MiB", MIB)
        row = Row.compare(name, ours[field] / scale, (names[way], peer[field] / scale), unit, "lower")
        compared.append(replace(row, note=note))
    return compared


def demo_memory(quick: bool) -> Row:
    """Compare the peak memory of the demo's pipeline, at scale 10."""
    scale = 1 if quick else 10
    with tempfile.TemporaryDirectory(prefix="flightshmem-bench-") as folder:
        flight_files(folder, scale)
        job = ["-m", "flightshmem", "run", "-n", "2", "--heap", "1G", "-m", "flightshmem.demo.job", folder]
        ours, theirs = (
            run_measured([sys.executable, *arguments], TIMEOUT_S).peak_bytes / MIB
            for arguments in (job, [single_process.__file__, folder])
        )
    peer = ("pandas + XGBoost in one process", theirs)
    row = Row.compare("demo_memory_vs_pandas", ours, peer, "MiB", "lower")
    note = f"peak PSS of the process tree, scale {scale}; ours: launcher, 2 PEs, Flight servers and a client"
    return replace(row, note=note)


if __name__ == "__main__":
    raise SystemExit(main("ml", rows))
