# SPDX-License-Identifier: Apache-2.0
"""A model trained by all PEs against the one XGBoost trains alone on the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
from sklearn.metrics import roc_auc_score

import flightshmem.ml.xgboost as fxgb
from flightshmem.errors import ColumnNotFound, InvalidArgument, SchemaError, UnsupportedError
from flightshmem.frame import DataFrame, from_arrow
from flightshmem.runtime import Runtime

MyRows = Callable[[pd.DataFrame | pa.Table], DataFrame]
PARAMS = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.3, "nthread": 1}
FEATURES = ["hour", "wind", "seats", "weekend", "carrier"]


def alone(rows: pd.DataFrame, rounds: int) -> xgboost.Booster:
    data = xgboost.QuantileDMatrix(in_codes(rows), rows.late, feature_types=["q", "q", "q", "q", "c"])
    return xgboost.train(PARAMS, data, rounds)


def in_codes(rows: pd.DataFrame) -> pd.DataFrame:
    """XGBoost's own reading of category names breaks them when they are not ASCII (3.2.0); of codes not."""
    codes = rows.carrier.cat.codes.astype("float32").where(rows.carrier.notna())
    return rows[FEATURES].assign(carrier=codes)


def predictions(frame: DataFrame) -> np.ndarray:
    return frame.to_arrow()["prediction"].to_numpy()


def test_learns_as_well_as_one_process(my_rows: MyRows, flights: pd.DataFrame) -> None:
    booster = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=20)
    ours = predictions(fxgb.predict(booster, my_rows(flights)))
    theirs = alone(flights, 20).inplace_predict(in_codes(flights))
    assert roc_auc_score(flights.late, ours) == pytest.approx(roc_auc_score(flights.late, theirs), abs=0.005)


def test_same_model_as_one_process_when_bins_hold_every_value(my_rows: MyRows, flights: pd.DataFrame) -> None:
    coarse = flights.assign(wind=flights.wind.round(), seats=(flights.seats / 10).round())
    booster = fxgb.train(PARAMS, my_rows(coarse), label="late", num_boost_round=20)
    ours = predictions(fxgb.predict(booster, my_rows(coarse)))
    np.testing.assert_allclose(ours, alone(coarse, 20).inplace_predict(in_codes(coarse)), rtol=1e-4)


def test_every_pe_has_the_same_booster(runtime: Runtime, my_rows: MyRows, flights: pd.DataFrame) -> None:
    booster = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=5)
    assert len(set(runtime.allgather(bytes(booster.save_raw())))) == 1
    assert booster.feature_names == FEATURES
    assert booster.feature_types == ["q", "q", "q", "q", "c"]


def test_predictions_are_those_of_the_booster_alone(my_rows: MyRows, flights: pd.DataFrame) -> None:
    booster = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=8)
    ours = predictions(fxgb.predict(booster, my_rows(flights)))
    np.testing.assert_array_equal(ours, booster.inplace_predict(in_codes(flights)))


def test_predictions_lie_beside_their_rows(my_rows: MyRows, flights: pd.DataFrame) -> None:
    booster = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=3)
    scored = fxgb.predict(booster, my_rows(flights), keep=["hour", "late"], name="p").to_pandas()
    assert list(scored.columns) == ["hour", "late", "p"]
    np.testing.assert_array_equal(scored.hour, flights.hour)
    np.testing.assert_array_equal(scored.p, booster.inplace_predict(in_codes(flights)))


def test_a_saved_booster_still_knows_the_categories(
    my_rows: MyRows, flights: pd.DataFrame, runtime: Runtime
) -> None:
    booster = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=3)
    loaded = xgboost.Booster(model_file=bytearray(booster.save_raw("ubj")))
    assert json.loads(loaded.attr("flightshmem_categories")) == {"carrier": ["AA", "B6", "DL", "UA", "ÜB"]}
    again = predictions(fxgb.predict(loaded, my_rows(flights)))
    np.testing.assert_array_equal(again, predictions(fxgb.predict(booster, my_rows(flights))))


def test_a_booster_of_xgboost_alone_can_score(my_rows: MyRows, flights: pd.DataFrame) -> None:
    ascii_only = flights.assign(carrier=flights.carrier.cat.rename_categories({"ÜB": "ZB"}))
    data = xgboost.QuantileDMatrix(ascii_only[FEATURES], ascii_only.late, enable_categorical=True)
    booster = xgboost.train(PARAMS, data, 5)
    ours = predictions(fxgb.predict(booster, my_rows(ascii_only)))
    np.testing.assert_array_equal(ours, booster.predict(data))


def test_evals_are_global_and_early_stopping_agrees(
    runtime: Runtime, my_rows: MyRows, flights: pd.DataFrame
) -> None:
    half = len(flights) // 2
    train, test = my_rows(flights[:half]), my_rows(flights[half:])
    history: dict[str, dict[str, list[float]]] = {}
    booster = fxgb.train(
        PARAMS | {"eval_metric": "logloss"},
        train,
        label="late",
        num_boost_round=200,
        evals=[(train, "train"), (test, "test")],
        early_stopping_rounds=5,
        evals_result=history,
    )
    assert len(set(runtime.allgather(json.dumps(history).encode()))) == 1
    assert booster.best_iteration < 199
    rounds = (0, booster.best_iteration + 1)
    p = predictions(fxgb.predict(booster, test, iteration_range=rounds)).astype("float64")
    late = flights.late[half:].to_numpy()
    loss = -np.log(np.where(late, p, 1 - p)).mean()
    assert history["test"]["logloss"][booster.best_iteration] == pytest.approx(loss, rel=1e-5)


def test_weights_count(my_rows: MyRows, flights: pd.DataFrame) -> None:
    weighted = flights.assign(w=np.where(flights.hour < 12, 5.0, 0.5))
    booster = fxgb.train(PARAMS, my_rows(weighted), label="late", weight="w", num_boost_round=10)
    plain = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=10)
    assert booster.feature_names == FEATURES
    assert booster.get_dump() != plain.get_dump()


def test_a_dataset_trains_and_tests_many_times(
    runtime: Runtime, my_rows: MyRows, flights: pd.DataFrame
) -> None:
    data = fxgb.dataset(my_rows(flights), label="late")
    test = fxgb.dataset(my_rows(flights.assign(carrier="B6")), label="late", like=data)
    assert test.matrix.categories == data.matrix.categories
    first = fxgb.train(PARAMS, data, num_boost_round=4, evals=[(test, "t")])
    second = fxgb.train(PARAMS, data, num_boost_round=4)
    assert first.get_dump() == second.get_dump()
    assert (
        first.get_dump() == fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=4).get_dump()
    )
    other = fxgb.dataset(my_rows(flights.drop(columns="wind")), label="late")
    with pytest.raises(InvalidArgument, match="like=training"):
        fxgb.train(PARAMS, data, evals=[(other, "t")])


def test_a_pe_without_rows_takes_part(runtime: Runtime, flights: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(flights, preserve_index=False)
    mine = table if runtime.pe == runtime.n_pes - 1 else table.slice(0, 0)
    booster = fxgb.train(PARAMS, from_arrow(mine, distributed=True), label="late", num_boost_round=5)
    scored = fxgb.predict(booster, from_arrow(mine, distributed=True))
    assert scored.local().num_rows == mine.num_rows
    np.testing.assert_array_equal(predictions(scored), booster.inplace_predict(in_codes(flights)))


def test_three_classes_even_without_rows(runtime: Runtime, flights: pd.DataFrame, my_rows: MyRows) -> None:
    classes = flights.assign(late=np.digitize(flights.hour, [10, 17]))
    params = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    booster = fxgb.train(params, my_rows(classes), label="late", num_boost_round=3)
    table = pa.Table.from_pandas(classes, preserve_index=False)
    mine = table if runtime.pe == 0 else table.slice(0, 0)
    scored = fxgb.predict(booster, from_arrow(mine, distributed=True)).to_pandas()
    got = scored[["prediction_0", "prediction_1", "prediction_2"]].to_numpy()
    np.testing.assert_array_equal(got, booster.inplace_predict(in_codes(flights)))


@pytest.mark.parametrize("params", [{"booster": "gblinear"}, {"tree_method": "approx"}, {"booster": "dart"}])
def test_other_boosters(
    runtime: Runtime, my_rows: MyRows, flights: pd.DataFrame, params: dict[str, str]
) -> None:
    rows = flights.drop(columns="carrier")
    objective = {"objective": "binary:logistic", "nthread": 1}
    if params.get("booster") == "gblinear" and runtime.n_pes > 1:
        with pytest.raises(UnsupportedError, match="linear booster"):
            fxgb.train(objective | params, my_rows(rows), label="late")
        return
    booster = fxgb.train(objective | params, my_rows(rows), label="late", num_boost_round=5)
    ours = predictions(fxgb.predict(booster, my_rows(rows)))
    theirs = booster.predict(xgboost.DMatrix(rows.drop(columns="late").astype("float32")))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_margins(my_rows: MyRows, flights: pd.DataFrame) -> None:
    booster = fxgb.train(PARAMS, my_rows(flights), label="late", num_boost_round=3)
    margin = predictions(fxgb.predict(booster, my_rows(flights), output_margin=True))
    p = predictions(fxgb.predict(booster, my_rows(flights)))
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-margin)), rtol=1e-5)


def test_no_rows_at_all(my_rows: MyRows, flights: pd.DataFrame) -> None:
    with pytest.raises(InvalidArgument, match="no rows to train on"):
        fxgb.train(PARAMS, my_rows(flights[:0]), label="late")


def test_columns_that_do_not_fit(my_rows: MyRows, flights: pd.DataFrame) -> None:
    frame = my_rows(flights.assign(tail="N1"))
    with pytest.raises(SchemaError, match=r"'tail'.*astype\(\"category\"\)"):
        fxgb.train(PARAMS, frame, label="late")
    with pytest.raises(ColumnNotFound, match=r"'delay'.*hour, wind"):
        fxgb.train(PARAMS, frame, label="delay")
    with pytest.raises(SchemaError, match="'tail' must be numbers"):
        fxgb.train(PARAMS, frame, label="tail")
    with pytest.raises(InvalidArgument, match="no label"):
        fxgb.train(PARAMS, frame)
    with pytest.raises(InvalidArgument, match="name of a column"):
        fxgb.train(PARAMS, frame, label=np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"no \[, \] or <"):
        fxgb.train(PARAMS, my_rows(flights.rename(columns={"hour": "h[0]"})), label="late")
