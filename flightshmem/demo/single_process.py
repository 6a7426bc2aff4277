# SPDX-License-Identifier: Apache-2.0
"""The demo's yardstick: the same features and model in plain pandas and XGBoost, in one process.

Run as a script, without FlightSHMEM: ``python single_process.py FOLDER`` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pandas as pd
import xgboost

FLIGHTS = [
    *("year", "month", "carrier", "tailnum", "origin", "dest"),
    *("arr_delay", "distance", "hour", "minute", "time_hour", "date"),
]
WEATHER = ["origin", "time_hour", "temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"]
FEATURES = [
    *("weekday", "dep_hour", "distance", "carrier", "origin", "dest", "plane_age", "seats", "lat", "lon"),
    *("temp", "spread", "humid", "wind_speed", "precip", "pressure", "visib"),
]
PARAMS = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 6, "eta": 0.1}
ROUNDS = 60


def read(folder: str, name: str, columns: list[str]) -> pd.DataFrame:
    """Read the files of a table."""
    paths = sorted(Path(folder).glob(f"{name}*.parquet"))
    return pd.concat([pd.read_parquet(path, columns=columns) for path in paths], ignore_index=True)


def prepare(folder: str) -> pd.DataFrame:
    """Filter, join and derive the features."""
    planes = read(folder, "planes", ["tailnum", "year", "seats"]).rename(columns={"year": "plane_year"})
    airports = read(folder, "airports", ["faa", "lat", "lon"]).rename(columns={"faa": "dest"})
    rows = read(folder, "flights", FLIGHTS)
    rows = rows[rows.arr_delay.notna()]
    rows = rows.merge(planes, on="tailnum", how="left")
    rows = rows.merge(read(folder, "weather", WEATHER), on=["origin", "time_hour"], how="left")
    rows = rows.merge(airports, on="dest", how="left")
    rows = rows.assign(
        late=rows.arr_delay > 15,
        weekday=rows.date.dt.day_of_week,
        dep_hour=rows.hour + rows.minute / 60,
        plane_age=rows.year - rows.plane_year,
        spread=rows.temp - rows.dewp,
    )
    return rows.astype(dict.fromkeys(("carrier", "origin", "dest"), "category"))


def main(folder: str) -> dict[str, float]:
    """Run it all; gives rows, AUC and seconds."""
    start = time.perf_counter()
    rows = prepare(folder)
    is_train = rows.month <= 9
    carriers = rows.groupby("carrier", observed=True).arr_delay.mean()
    train, test = rows.loc[is_train, [*FEATURES, "late"]], rows.loc[~is_train, [*FEATURES, "late"]]
    del rows
    data = xgboost.QuantileDMatrix(train[FEATURES], train.late, enable_categorical=True)
    unseen = xgboost.QuantileDMatrix(test[FEATURES], test.late, ref=data, enable_categorical=True)
    scores: dict[str, dict[str, list[float]]] = {}
    params = PARAMS | {"eval_metric": "auc"}
    watched = [(unseen, "test")]
    xgboost.train(params, data, ROUNDS, evals=watched, evals_result=scores, verbose_eval=False)
    return {
        "rows": len(train) + len(test),
        "auc": scores["test"]["auc"][-1],
        "worst_delay": float(carriers.max()),
        "seconds": time.perf_counter() - start,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
