# SPDX-License-Identifier: Apache-2.0
"""What every PE of the demo runs: ``flightshmem run -n 2 -m flightshmem.demo.job FOLDER``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from flightshmem import flight, runtime
from flightshmem.demo import reader
from flightshmem.demo.pipeline import (
    FEATURES,
    LAST_TRAINING_MONTH,
    PARAMS,
    ROUNDS,
    auc,
    open_tables,
    with_features,
)
from flightshmem.demo.summary import Results, Step
from flightshmem.frame import DataFrame
from flightshmem.ml import xgboost as fxgb

_READER_TIMEOUT_S = 60


@dataclass
class Timed:
    """A step while it runs; PE 0 prints it when it has ended."""

    name: str
    rows: int = 0
    note: str = ""


@contextmanager
def step(name: str) -> Iterator[Timed]:
    """Time a step and report it."""
    timed, start = Timed(name), time.perf_counter()
    yield timed
    seconds = time.perf_counter() - start
    _tell("step", asdict(Step(timed.name, timed.rows, seconds, timed.note)))


def _tell(kind: str, content: dict[str, Any]) -> None:
    if runtime.pe() == 0:
        print(json.dumps({kind: content}, default=str), flush=True)


def main(folder: str) -> None:
    """Run the whole pipeline."""
    rows, worst = joined(folder)
    booster, matrix_bytes, copied_bytes = trained(rows)
    predictions, score = scored(rows, booster)
    read_back = published(rows, predictions, worst)
    gains = booster.get_score(importance_type="total_gain")
    results = Results(
        auc=score,
        matrix_bytes=matrix_bytes,
        copied_bytes=copied_bytes,
        importances={name: float(np.sum(gains.get(name, 0.0))) for name in FEATURES},
        worst_carriers=worst.head(5).to_arrow().to_pylist(),
        read_back=read_back,
    )
    _tell("results", asdict(results))


def joined(folder: str) -> tuple[DataFrame, DataFrame]:
    """Filter and join flights; gives the lazy rows with all features, and delays by carrier."""
    with step("open files") as now:
        tables = open_tables(folder)
        now.rows, now.note = len(tables.flights), "footers only: all the rest is lazy"
    with step("filter") as now:
        flights = tables.flights[tables.flights.arr_delay.notna()]
        now.rows, now.note = len(flights), "arr_delay is known"
    rows = flights
    joins = [
        ("planes", tables.planes, ["tailnum"], "plane_year"),
        ("weather", tables.weather, ["origin", "time_hour"], "temp"),
        ("airports", tables.airports, ["dest"], "lat"),
    ]
    for name, right, keys, column in joins:
        with step(f"join {name}") as now:
            rows = rows.merge(right, on=keys, how="left")
            found = rows[[column]].persist()
            now.rows, now.note = len(found), f"{int(found[column].count()):,} found on {' + '.join(keys)}"
    with step("worst carriers") as now:
        delays = flights.groupby("carrier").agg(
            mean_delay=("arr_delay", "mean"), flights=("arr_delay", "count")
        )
        named = delays.merge(tables.airlines, on="carrier").sort_values("mean_delay", ascending=False)
        worst = named[["carrier", "name", "flights", "mean_delay"]].persist()
        now.rows, now.note = len(worst), "mean arrival delay by carrier"
    return with_features(rows), worst


def trained(rows: DataFrame) -> tuple[xgboost.Booster, int, int]:
    """Hand the training months to XGBoost and train; gives the booster and the bytes handed and copied."""
    with step("matrix") as now:
        train = rows[rows.month <= LAST_TRAINING_MONTH][[*FEATURES, "late"]]
        data = [fxgb.dataset(train, label="late")]
        sizes = np.array([len(data[0]), data[0].matrix.nbytes, data[0].copied_bytes()])
        count, handed, copied = (int(size) for size in runtime.current().reduce(sizes))
        now.rows = count
        now.note = f"{handed / 1e6:,.1f} MB in the heap, {copied:,} bytes copied at the handoff"
    with step("train") as now:
        # We keep no reference: the matrix is freed as soon as XGBoost has its bins.
        booster = fxgb.train(PARAMS, data.pop(), num_boost_round=ROUNDS)
        now.rows, now.note = count, f"{ROUNDS} rounds, depth {PARAMS['max_depth']}, one model on all PEs"
    return booster, handed, copied


def scored(rows: DataFrame, booster: xgboost.Booster) -> tuple[DataFrame, float]:
    """Predict the months the model has not seen; gives the predictions and their AUC."""
    with step("predict") as now:
        test = rows[rows.month > LAST_TRAINING_MONTH]
        # A destination first served in October is missing to the model, not an error.
        keep = ["date", "carrier", "flight", "origin", "dest", "late"]
        predictions = fxgb.predict(booster, test, keep=keep, unknown="missing").persist()
        answers = predictions[["late", "prediction"]].to_arrow()
        score = auc(answers["late"].to_numpy(), answers["prediction"].to_numpy())
        now.rows, now.note = len(predictions), f"AUC {score:.4f}"
    return predictions, score


def published(rows: DataFrame, predictions: DataFrame, worst: DataFrame) -> list[dict[str, Any]]:
    """Publish tables, serve them, and let another process read the predictions; gives its first rows."""
    with step("publish") as now:
        flights = rows[["date", "carrier", "flight", "tailnum", "origin", "dest", "arr_delay", "late"]]
        for name, frame in (("flights", flights), ("predictions", predictions), ("carriers", worst)):
            frame.publish(name)
        now.rows, now.note = len(flights), "flights, predictions, carriers"
    with step("read over Flight") as now, flight.serve() as server:
        answer = _read(server.uri, server.token)
        now.rows = answer["rows"]
        now.note = (
            "another process, bare pyarrow.flight" if not answer["knows_us"] else "imported flightshmem!"
        )
    first: list[dict[str, Any]] = answer["first"]
    return first


def _read(uri: str, token: str) -> dict[str, Any]:
    """Run the reader on PE 0; gives its answer on every PE."""
    here = runtime.current()
    output = b""
    with here.converge("demo"):
        if here.pe == 0:
            command = [sys.executable, str(Path(reader.__file__)), uri, "predictions"]
            environment = {**runtime.child_environment(), "FLIGHTSHMEM_TOKEN": token}
            output = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, timeout=_READER_TIMEOUT_S
            ).stdout
    answer: dict[str, Any] = json.loads(here.broadcast(output))
    return answer


if __name__ == "__main__":
    main(sys.argv[1])
