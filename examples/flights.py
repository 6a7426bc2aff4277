# SPDX-License-Identifier: Apache-2.0
"""Will a flight be late? Files in, joins, XGBoost without a copy, predictions out over Arrow Flight.

``flightshmem run -n 2 examples/flights.py`` (needs ``pip install 'flightshmem[demo]'``). Every PE runs
this script; whatever computes or moves rows is collective. ``flightshmem demo`` is the same, timed.
"""

import tempfile

import flightshmem as fs
import flightshmem.ml.xgboost as fxgb
from flightshmem.demo import flight_files

# 336,776 flights out of New York in 2013 with planes, weather and airports. PE 0 writes the files.
runtime = fs.runtime.current()
directory = tempfile.TemporaryDirectory() if fs.pe() == 0 else None
if directory:
    flight_files(directory.name)
folder = runtime.broadcast(directory.name.encode() if directory else b"").decode()

# Frames are lazy: nothing is read but the footers of the files.
flights = fs.read_parquet(f"{folder}/flights-*.parquet")
planes = fs.read_parquet(f"{folder}/planes.parquet").rename(columns={"year": "plane_year"})
weather = fs.read_parquet(f"{folder}/weather-*.parquet").drop(columns=["year", "month", "day", "hour"])
airports = fs.read_parquet(f"{folder}/airports.parquet").rename(columns={"faa": "dest"})

rows = flights[flights.arr_delay.notna()]
rows = rows.merge(planes[["tailnum", "plane_year", "seats"]], on="tailnum", how="left")
rows = rows.merge(weather, on=["origin", "time_hour"], how="left")
rows = rows.merge(airports[["dest", "lat", "lon"]], on="dest", how="left")
rows = rows.assign(
    late=rows.arr_delay > 15,
    weekday=rows.date.dt.dayofweek,
    dep_hour=rows.hour + rows.minute / 60,
    plane_age=rows.year - rows.plane_year,
    spread=rows.temp - rows.dewp,
    **{name: rows[name].astype("category") for name in ("carrier", "origin", "dest")},
)
print_once = print if fs.pe() == 0 else lambda *_: None

worst = rows.groupby("carrier").agg(delay=("arr_delay", "mean"), flights=("arr_delay", "count"))
print_once(worst.sort_values("delay", ascending=False).head(3).to_pandas())

features = [
    *("weekday", "dep_hour", "distance", "carrier", "origin", "dest", "plane_age", "seats", "lat", "lon"),
    *("temp", "spread", "humid", "wind_speed", "precip", "pressure", "visib"),
]
train = fxgb.dataset(rows[rows.month <= 9][[*features, "late"]], label="late")
test = rows[rows.month > 9]
copied = train.copied_bytes()  # measured on what XGBoost reads; every PE could tell its own
print_once(f"{train.matrix} handed to XGBoost, {copied} bytes copied")

params = {"objective": "binary:logistic", "max_depth": 6, "eta": 0.1, "eval_metric": "auc"}
unseen = fxgb.dataset(test[[*features, "late"]], label="late", like=train, unknown="missing")
scores: dict[str, dict[str, list[float]]] = {}
booster = fxgb.train(params, train, num_boost_round=60, evals=[(unseen, "test")], evals_result=scores)
print_once(f"AUC {scores['test']['auc'][-1]:.4f} on flights of October to December")

keep = ["date", "carrier", "flight", "dest", "late"]
fxgb.predict(booster, test, keep=keep, unknown="missing").publish("predictions")
with fs.flight.serve() as server:
    if fs.pe() == 0:  # this could be any process that can reach the address
        predictions = fs.connect(server.uri).get("predictions")
        print(f"{predictions.num_rows} predictions read over Flight")
        print(predictions.slice(0, 3).to_pandas())
