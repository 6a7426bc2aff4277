# SPDX-License-Identifier: Apache-2.0
"""Inputs from public bug reports; each test names its issue."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost

import flightshmem.ml.xgboost as fxgb
from flightshmem.errors import ColumnNotFound, InvalidArgument, RemoteError
from flightshmem.frame import DataFrame, from_arrow
from flightshmem.runtime import Runtime

MyRows = Callable[[pd.DataFrame | pa.Table], DataFrame]
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1}


@pytest.fixture
def numbers() -> pd.DataFrame:
    random = np.random.default_rng(3)
    rows = pd.DataFrame(random.normal(size=(600, 3)), columns=["a", "b", "c"])
    return rows.assign(y=rows.a - rows.b > 0.2)


def on_last_pe(runtime: Runtime, rows: pd.DataFrame, column: str, value: object) -> DataFrame:
    """All PEs hold the rows; on the last one row 4 of a column has another value."""
    if runtime.pe == runtime.n_pes - 1:
        rows = rows.copy()
        rows.loc[4, column] = value
    return from_arrow(pa.Table.from_pandas(rows, preserve_index=False), distributed=True)


def test_swapped_columns_are_matched_by_name(my_rows: MyRows, numbers: pd.DataFrame) -> None:
    """dmlc/xgboost#8357."""
    booster = fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=5)
    straight = fxgb.predict(booster, my_rows(numbers)).to_pandas().prediction
    swapped = fxgb.predict(booster, my_rows(numbers[["b", "y", "a", "c"]])).to_pandas().prediction
    pd.testing.assert_series_equal(swapped, straight)
    with pytest.raises(ColumnNotFound, match="'b'"):
        fxgb.predict(booster, my_rows(numbers[["a", "c"]]))


def test_nan_on_one_pe_only(runtime: Runtime, numbers: pd.DataFrame) -> None:
    """dmlc/xgboost#9271."""
    booster = fxgb.train(PARAMS, on_last_pe(runtime, numbers, "a", np.nan), label="y", num_boost_round=3)
    assert booster.num_boosted_rounds() == 3


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_infinite_on_one_pe_only(runtime: Runtime, numbers: pd.DataFrame, value: float) -> None:
    """dmlc/xgboost#7941, #7421: one clear error on all PEs, in training and in prediction."""
    last = runtime.n_pes - 1
    where = rf"'b' is infinite.* first at 4 of this PE's, PE {last}/{runtime.n_pes}"
    with pytest.raises(InvalidArgument, match=where):
        fxgb.train(PARAMS, on_last_pe(runtime, numbers, "b", value), label="y")
    booster = fxgb.train(PARAMS, on_last_pe(runtime, numbers, "b", 0.0), label="y", num_boost_round=2)
    with pytest.raises(InvalidArgument, match=where):
        fxgb.predict(booster, on_last_pe(runtime, numbers, "b", value))


@pytest.mark.parametrize("value", [None, np.nan, np.inf])
def test_bad_label_on_one_pe_only(runtime: Runtime, numbers: pd.DataFrame, value: object) -> None:
    frame = on_last_pe(runtime, numbers.astype({"y": float}), "y", value)
    with pytest.raises(InvalidArgument, match="'y' is null, NaN or infinite"):
        fxgb.train(PARAMS, frame, label="y")


def test_nullable_integers_never_show_what_lies_under_a_null(
    runtime: Runtime, my_rows: MyRows, numbers: pd.DataFrame
) -> None:
    """dmlc/xgboost#6851."""
    garbage = np.arange(600, dtype=np.int32) * 1_000_003
    is_null = np.arange(600) % 3 == 0
    values = pa.Array.from_buffers(
        pa.int32(), 600, [pa.array(~is_null).buffers()[1], pa.py_buffer(garbage.tobytes())]
    )
    table = pa.table({"i": values, "a": numbers.a, "y": numbers.y})
    data = fxgb.dataset(my_rows(table), label="y")
    mine = my_rows(table).local()
    expected = mine["i"].to_pandas().astype("float32")
    np.testing.assert_array_equal(data.matrix.numpy()[:, 0], expected)


def test_weights_are_checked(runtime: Runtime, numbers: pd.DataFrame) -> None:
    """dask/dask-xgboost#74: XGBoost takes weights that only one worker gives."""
    weighted = numbers.assign(w=1.0)
    with pytest.raises(InvalidArgument, match="'w' is negative"):
        fxgb.train(PARAMS, on_last_pe(runtime, weighted, "w", -1.0), label="y", weight="w")
    with pytest.raises(InvalidArgument, match="'w' is null"):
        fxgb.train(PARAMS, on_last_pe(runtime, weighted, "w", None), label="y", weight="w")
    with pytest.raises(InvalidArgument, match="all weights are 0"):
        fxgb.train(PARAMS, on_last_pe(runtime, numbers.assign(w=0.0), "w", 0.0), label="y", weight="w")
    if runtime.n_pes > 1:
        mine = "w" if runtime.pe == 0 else None
        with pytest.raises(InvalidArgument, match="weight must be the same on every PE"):
            fxgb.train(PARAMS, on_last_pe(runtime, weighted, "w", 1.0), label="y", weight=mine)


def test_arguments_that_differ(runtime: Runtime, numbers: pd.DataFrame) -> None:
    """XGBoost: one worker raises, the other returns some model."""
    if runtime.n_pes == 1:
        pytest.skip("one PE always agrees with itself")
    frame = on_last_pe(runtime, numbers, "a", 0.0)
    with pytest.raises(InvalidArgument, match=r"max_depth.*must be the same"):
        fxgb.train(PARAMS | {"max_depth": 3 + runtime.pe}, frame, label="y")
    with pytest.raises(InvalidArgument, match="num_boost_round must be the same"):
        fxgb.train(PARAMS, frame, label="y", num_boost_round=3 + runtime.pe)
    with pytest.raises(InvalidArgument, match="evals must be the same"):
        fxgb.train(PARAMS, frame, label="y", evals=[(frame, f"on {runtime.pe}")])


def test_boolean_features(my_rows: MyRows, numbers: pd.DataFrame) -> None:
    """dmlc/xgboost#7157, #10504: as 0 and 1, nulls missing."""
    flags = pd.DataFrame({"a": numbers.a > 0, "b": (numbers.b > 0).astype("boolean"), "y": numbers.y})
    flags.loc[::7, "b"] = pd.NA
    booster = fxgb.train(PARAMS, my_rows(flags), label="y", num_boost_round=4)
    ours = fxgb.predict(booster, my_rows(flags)).to_pandas().prediction
    floats = flags[["a", "b"]].astype("Float32").to_numpy("float32", na_value=np.nan)
    np.testing.assert_array_equal(ours, booster.inplace_predict(floats))


def test_dictionaries_that_differ_between_pes(runtime: Runtime) -> None:
    """XGBoost alone learns a silently wrong model from permuted dictionaries."""
    words = [["a", "b", "c"], ["c", "b", "a"], ["d", "b", "c"]][runtime.pe % 3]
    codes = np.tile(np.arange(3, dtype=np.int8), 50)
    column = pa.DictionaryArray.from_arrays(codes, words)
    target = pa.array([ord(words[code]) - ord("a") for code in codes], pa.float32())
    frame = from_arrow(pa.table({"word": column, "y": target}), distributed=True)
    params = {"objective": "reg:squarederror", "eta": 1.0, "lambda": 0, "nthread": 1, "base_score": 0}
    booster = fxgb.train(params, frame, label="y", num_boost_round=3)
    ours = fxgb.predict(booster, frame).local()
    np.testing.assert_allclose(ours["prediction"].to_numpy(), target.to_numpy(), atol=1e-5)


def test_unknown_category(runtime: Runtime, my_rows: MyRows) -> None:
    """dmlc/xgboost#12189: 3.2.0 silently takes the next word in sort order."""
    rows = pd.DataFrame({"word": ["x", "y", "z"] * 40, "y": [0.0, 1.0, 2.0] * 40})
    booster = fxgb.train({"nthread": 1}, my_rows(rows.astype({"word": "category"})), label="y")
    known = rows.astype({"word": pd.CategoricalDtype(["z", "never used", "y", "x"])})
    by_category = fxgb.predict(booster, my_rows(known)).to_pandas().prediction
    by_string = fxgb.predict(booster, my_rows(rows)).to_pandas().prediction
    pd.testing.assert_series_equal(by_category, by_string)
    for strange in ("w", "xx", "zz", ""):
        bad = on_last_pe(runtime, rows, "word", strange)
        with pytest.raises(InvalidArgument, match=f"never seen, got '{strange}'"):
            fxgb.predict(booster, bad)
        lenient = fxgb.predict(booster, bad, unknown="missing").local()["prediction"].to_pylist()
        missing = fxgb.predict(booster, on_last_pe(runtime, rows, "word", None)).local()
        assert lenient == missing["prediction"].to_pylist()
    numbers = rows.assign(word=1.5)
    with pytest.raises(TypeError, match="'word' is categorical"):
        fxgb.predict(booster, my_rows(numbers))


def test_what_xgboost_refuses_is_one_error_everywhere(my_rows: MyRows, numbers: pd.DataFrame) -> None:
    with pytest.raises(InvalidArgument, match=r"XGBoost refuses.*Unknown objective") as caught:
        fxgb.train({"objective": "no:such", "nthread": 1}, my_rows(numbers), label="y")
    assert "Stack trace" not in str(caught.value)
    booster = fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=2)
    assert booster.num_boosted_rounds() == 2  # the collective works again


def test_a_callback_that_fails_on_one_pe(runtime: Runtime, my_rows: MyRows, numbers: pd.DataFrame) -> None:
    class Fails(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: object, epoch: int, evals_log: object) -> bool:
            if epoch == 2 and runtime.pe == runtime.n_pes - 1:
                raise InvalidArgument("the callback has had enough")
            return False

    with pytest.raises(InvalidArgument, match="the callback has had enough"):
        fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=5, callbacks=[Fails()])


def test_a_callback_that_stops_on_one_pe(runtime: Runtime, my_rows: MyRows, numbers: pd.DataFrame) -> None:
    """XGBoost: that worker returns a shorter model, the other one raises or waits for ever."""
    if runtime.n_pes == 1:
        pytest.skip("one PE may stop when it likes")

    class Stops(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: object, epoch: int, evals_log: object) -> bool:
            return bool(epoch == 2 and runtime.pe == 0)

    with pytest.raises(InvalidArgument, match=r"got .*Stops stopping on 1 of \d"):
        fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=5, callbacks=[Stops()])


def test_a_callback_that_stops_everywhere(my_rows: MyRows, numbers: pd.DataFrame) -> None:
    class Stops(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: object, epoch: int, evals_log: object) -> bool:
            return epoch == 2

    booster = fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=5, callbacks=[Stops()])
    assert booster.num_boosted_rounds() == 3


@pytest.mark.parametrize("which", ["obj", "custom_metric"])
def test_a_function_that_fails_on_one_pe(
    runtime: Runtime, my_rows: MyRows, numbers: pd.DataFrame, which: str
) -> None:
    def fails(predictions: np.ndarray, rows: xgboost.DMatrix) -> object:
        if runtime.pe == runtime.n_pes - 1:
            raise ZeroDivisionError("not here")
        return (predictions, np.ones_like(predictions)) if which == "obj" else ("mine", 1.0)

    rows = my_rows(numbers)
    with pytest.raises((ZeroDivisionError, RemoteError), match="not here"):
        fxgb.train(PARAMS, rows, label="y", evals=[(rows, "train")], **{which: fails})


def test_a_short_gradient_on_one_pe(runtime: Runtime, my_rows: MyRows, numbers: pd.DataFrame) -> None:
    def short(predictions: np.ndarray, rows: xgboost.DMatrix) -> tuple[np.ndarray, np.ndarray]:
        gradient = predictions - rows.get_label()
        return gradient[: len(gradient) - (runtime.pe == 0)], np.ones_like(gradient)

    with pytest.raises(ValueError, match=r"599|gradient and a hessian"):
        fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=2, obj=short)


@pytest.mark.parametrize(
    ("objective", "bad", "good"),
    [
        ("binary:logistic", 1.5, 1.0),
        ("reg:logistic", -0.5, 0.5),
        ("binary:logitraw", 2.0, 0.0),
        ("count:poisson", -0.5, 40.0),
        ("reg:tweedie", -1.0, 0.0),
        ("reg:gamma", 0.0, 0.5),
        ("reg:squaredlogerror", -1.0, -0.5),
        ("multi:softprob", 3.0, 2.0),
        ("multi:softmax", 0.5, 0.0),
    ],
)
def test_labels_an_objective_does_not_take(
    runtime: Runtime, numbers: pd.DataFrame, objective: str, bad: float, good: float
) -> None:
    """XGBoost is the oracle: alone, it refuses ``bad`` and takes ``good``."""
    params = {"objective": objective, "nthread": 1, "verbosity": 0}
    params |= {"num_class": 3} if "multi" in objective else {}
    numbers = numbers.assign(y=1.0)
    labels = np.ones(len(numbers))
    for value in (good, bad):
        labels[4] = value
        alone = xgboost.DMatrix(numbers[["a", "b", "c"]], labels)
        ours = on_last_pe(runtime, numbers, "y", value)
        if value == good:
            xgboost.train(params, alone, 1)
            fxgb.train(params, ours, label="y", num_boost_round=1)
        else:
            with pytest.raises(xgboost.core.XGBoostError):
                xgboost.train(params, alone, 1)
            last = runtime.n_pes - 1
            with pytest.raises(InvalidArgument, match=rf"labels for {objective} must be .*PE {last}/"):
                fxgb.train(params, ours, label="y", num_boost_round=1)


def test_the_name_of_a_prediction_must_be_free(my_rows: MyRows, numbers: pd.DataFrame) -> None:
    booster = fxgb.train(PARAMS, my_rows(numbers), label="y", num_boost_round=1)
    with pytest.raises(InvalidArgument, match="exists already"):
        fxgb.predict(booster, my_rows(numbers), name="y")
    with pytest.raises(ColumnNotFound, match="'nope'"):
        fxgb.predict(booster, my_rows(numbers), keep=["nope"])
