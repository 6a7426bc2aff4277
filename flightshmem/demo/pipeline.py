# SPDX-License-Identifier: Apache-2.0
"""The demo's frames: what examples/flights.py does, in named pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flightshmem.frame import DataFrame, read_parquet

WEATHER = ["temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"]
FEATURES = [
    *("weekday", "dep_hour", "distance", "carrier", "origin", "dest", "plane_age", "seats", "lat", "lon"),
    *("temp", "spread", "humid", "wind_speed", "precip", "pressure", "visib"),
]
PARAMS = {"objective": "binary:logistic", "max_depth": 6, "eta": 0.1}
ROUNDS = 60
LAST_TRAINING_MONTH = 9


@dataclass(frozen=True)
class Tables:
    """The files as frames, keys named alike."""

    flights: DataFrame
    planes: DataFrame
    weather: DataFrame
    airports: DataFrame
    airlines: DataFrame


def open_tables(folder: str) -> Tables:
    """Open the files; only their footers are read."""
    planes = read_parquet(f"{folder}/planes.parquet").rename(columns={"year": "plane_year"})
    airports = read_parquet(f"{folder}/airports.parquet").rename(columns={"faa": "dest"})
    return Tables(
        flights=read_parquet(f"{folder}/flights-*.parquet"),
        planes=planes[["tailnum", "plane_year", "seats"]],
        weather=read_parquet(f"{folder}/weather-*.parquet")[["origin", "time_hour", *WEATHER]],
        airports=airports[["dest", "lat", "lon"]],
        airlines=read_parquet(f"{folder}/airlines.parquet"),
    )


def with_features(rows: DataFrame) -> DataFrame:
    """Derive what the model may know before take-off, and the label."""
    return rows.assign(
        late=rows.arr_delay > 15,
        weekday=rows.date.dt.dayofweek,
        dep_hour=rows.hour + rows.minute / 60,
        plane_age=rows.year - rows.plane_year,
        spread=rows.temp - rows.dewp,
        carrier=rows.carrier.astype("category"),
        origin=rows.origin.astype("category"),
        dest=rows.dest.astype("category"),
    )


def auc(is_positive: npt.NDArray[np.bool_], scores: npt.NDArray[np.float32]) -> float:
    """Return the exact area under the ROC curve, by the ranks of the positives (ties share a rank)."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[place]
    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    return float((ranks[is_positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))
