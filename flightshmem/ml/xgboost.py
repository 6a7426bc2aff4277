# SPDX-License-Identifier: Apache-2.0
"""XGBoost on frames: each PE's matrix is read in place, all PEs train one model together.

Between the PEs runs XGBoost's own collective, so a model does not need our library afterwards: every PE
gets the same ordinary ``xgboost.Booster``. What XGBoost lets pass in silence (infinity, other columns
on another PE, unknown categories) is an error here, the same on every PE.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import xgboost

from flightshmem import runtime
from flightshmem.errors import InvalidArgument, UnsupportedError
from flightshmem.frame import DataFrame, from_arrow
from flightshmem.ml import categories as words
from flightshmem.ml.agreed import agreed_options
from flightshmem.ml.categories import Unknown
from flightshmem.ml.collective import agree, check_one_machine, threads_per_pe, together
from flightshmem.ml.handoff import Dataset, Fields, Vector, check_fields, dataset_from, dataset_from_table
from flightshmem.ml.labels import check_labels

__all__ = ["Dataset", "dataset", "predict", "train"]

Source: TypeAlias = DataFrame | Dataset

_TRAIN = "xgboost.train"


def dataset(
    frame: DataFrame,
    *,
    label: str | None = None,
    weight: str | None = None,
    like: Dataset | None = None,
    unknown: Unknown = "error",
) -> Dataset:
    """Put a frame's rows where XGBoost reads them in place. Collective.

    All columns but ``label`` and ``weight`` are features: numbers, booleans or categories; null is
    missing. ``like`` gives columns and category codes of another dataset: pass the training one for a
    test set; a category it lacks is an error, or missing with ``unknown="missing"``. One copy, into
    the heap; the hand-over copies nothing (``Dataset.copied_bytes``).
    """
    fields = _fields("xgboost.dataset", label, weight)
    if like is not None:
        fields = replace(fields, features=like.matrix.columns, categories=like.matrix.categories)
    return dataset_from("xgboost.dataset", frame, replace(fields, unknown=unknown))


def train(
    params: Mapping[str, Any],
    frame: Source,
    *,
    label: str | None = None,
    num_boost_round: int = 10,
    evals: Sequence[tuple[Source, str]] = (),
    weight: str | None = None,
    early_stopping_rounds: int | None = None,
    **options: Any,
) -> xgboost.Booster:
    """Train one model on all PEs' rows and give every PE the same booster. Collective.

    ``frame`` and the frames in ``evals`` hold features, ``label`` and ``weight``; a dataset already
    knows its own. ``options`` go to ``xgboost.train`` (``evals_result``, ``verbose_eval``,
    ``callbacks``, ``xgb_model``, ``obj``...) and must be alike on every PE. ``nthread`` is by default
    the machine's cores divided by its PEs.

    Raises ``InvalidArgument`` or ``SchemaError``, on every PE, for labels that are null or outside of what
    the objective takes, negative weights, infinite values, no rows at all, arguments that differ between
    PEs, a callback that stops on some PEs only, and whatever XGBoost refuses; and what a callback, ``obj``
    or ``custom_metric`` raises on one PE (there itself; elsewhere as ``RemoteError`` if it is not ours).
    """
    check_one_machine(_TRAIN)
    if params.get("booster") == "gblinear" and runtime.n_pes() > 1:
        raise UnsupportedError(
            f"[{_TRAIN}] XGBoost cannot train a linear booster on several PEs, got {runtime.n_pes()}: "
            'use booster="gbtree", or one PE'
        )
    options = {"verbose_eval": False, "early_stopping_rounds": early_stopping_rounds, **options}
    _agree_on_arguments(
        params, frame, evals, label=label, weight=weight, num_boost_round=num_boost_round, **options
    )
    datasets = _datasets(frame, [source for source, _ in evals], _fields(_TRAIN, label, weight))
    del frame
    with runtime.current().converge(_TRAIN):
        check_labels(_TRAIN, params, datasets[0].label)
    names, types = list(datasets[0].matrix.columns), datasets[0].feature_types
    categories = datasets[0].matrix.categories
    settings = {"nthread": threads_per_pe(), "verbosity": 1, **params}

    def fit() -> xgboost.Booster:
        matrices = _quantised(datasets, settings)
        watched = list(zip(matrices[1:], [name for _, name in evals], strict=True))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Empty dataset at worker")  # that is in order
            booster = xgboost.train(
                settings, matrices[0], num_boost_round, evals=watched, **agreed_options(options)
            )
        booster.feature_names, booster.feature_types = names, types  # not kept where there are no rows
        return booster

    booster = together(_TRAIN, fit)
    words.remember(booster, categories)
    return booster


def predict(
    booster: xgboost.Booster,
    frame: DataFrame,
    *,
    name: str = "prediction",
    keep: Sequence[str] | None = None,
    unknown: Unknown = "error",
    output_margin: bool = False,
    iteration_range: tuple[int, int] = (0, 0),
) -> DataFrame:
    """Score a frame: its rows, in their order and on their PEs, with the predictions beside them. Collective.

    Features are found by name, categories by their words. ``keep`` are the columns to carry along (all
    by default). A model with k outputs gives columns ``name_0`` to ``name_k-1``.

    Raises, on every PE, ``ColumnNotFound`` for a missing feature and ``InvalidArgument`` for an infinite
    value or a category the booster has never seen (``unknown="missing"`` treats that as missing).
    """
    operation = "xgboost.predict"
    features = booster.feature_names
    if features is None:
        raise InvalidArgument(f"[{operation}] the booster has no feature names: train it on named columns")
    keep = list(frame.columns if keep is None else keep)
    known = words.recall(operation, booster)
    fields = Fields(features=features, categories=known, unknown=unknown)
    check_fields(operation, frame.schema, fields)
    threads = threads_per_pe()
    rows = frame[list(dict.fromkeys([*features, *keep]))].local()
    scored = dataset_from_table(operation, rows.select(features), fields)
    with runtime.current().converge(operation):
        booster.set_param({"nthread": threads})
        outputs = _outputs(booster, scored, output_margin, iteration_range)
        names = [name] if len(outputs) == 1 else [f"{name}_{index}" for index in range(len(outputs))]
        taken = [new for new in names if new in keep]
        if taken:
            raise InvalidArgument(f"[{operation}] column exists already, got {taken}: pass another name=")
        rows = rows.select(keep)
        for new, values in zip(names, outputs, strict=True):
            rows = rows.append_column(new, pa.array(values))
    return from_arrow(rows, distributed=True)


def _outputs(
    booster: xgboost.Booster, rows: Dataset, output_margin: bool, iteration_range: tuple[int, int]
) -> list[Vector]:
    """Predict, one vector per output of the model."""
    features = rows.matrix.numpy()
    if len(rows) == 0:  # XGBoost forgets the number of outputs when there are no rows
        features = np.zeros((1, len(rows.matrix.columns)), np.float32)
    if _learner(booster) == "gblinear":  # the one kind that cannot predict in place
        matrix = xgboost.DMatrix(
            features, feature_names=rows.matrix.columns, feature_types=rows.feature_types
        )
        result = booster.predict(matrix, output_margin=output_margin, iteration_range=iteration_range)
    else:
        kind = "margin" if output_margin else "value"
        result = booster.inplace_predict(features, predict_type=kind, iteration_range=iteration_range)
    table = np.asarray(result, np.float32).reshape(len(features), -1)[: len(rows)]
    return [np.ascontiguousarray(column) for column in table.T]


def _learner(booster: xgboost.Booster) -> str:
    return str(json.loads(booster.save_config())["learner"]["gradient_booster"]["name"])


def _fields(operation: str, label: str | None, weight: str | None) -> Fields:
    for argument, name in (("label", label), ("weight", weight)):
        if name is not None and not isinstance(name, str):
            raise InvalidArgument(
                f"[{operation}] {argument} must be the name of a column of the frame, got a "
                f"{type(name).__name__}: add it with frame.assign({argument}=...)"
            )
    return Fields(label, weight)


def _datasets(frame: Source, evals: Sequence[Source], fields: Fields) -> list[Dataset]:
    """Execute the training frame, then the others with its features and categories. Collective."""
    first = _dataset(frame, fields)
    _check_rows(first)
    fields = replace(fields, features=first.matrix.columns, categories=first.matrix.categories)
    others = [first if source is frame else _dataset(source, fields) for source in evals]
    for other in others:
        _check_alike(first, other)
    return [first, *others]


def _dataset(source: Source, fields: Fields) -> Dataset:
    if (source if isinstance(source, Dataset) else fields).label is None:
        raise InvalidArgument(f"[{_TRAIN}] no label, got label=None: pass label=<name of a column>")
    return source if isinstance(source, Dataset) else dataset_from(_TRAIN, source, fields)


def _check_alike(first: Dataset, other: Dataset) -> None:
    mine, theirs = first.matrix, other.matrix
    if mine.columns != theirs.columns or dict(mine.categories) != dict(theirs.categories):
        raise InvalidArgument(
            f"[{_TRAIN}] a dataset in evals must have the features and categories of the training "
            f"one, got {theirs.columns} for {mine.columns}: make it with dataset(..., like=training)"
        )


def _check_rows(first: Dataset) -> None:
    rows, weight = len(first), 1.0 if first.weight is None else float(first.weight.sum())
    totals = runtime.current().reduce(np.array([float(rows), weight]))
    if totals[0] == 0:
        raise InvalidArgument(f"[{_TRAIN}] no rows to train on, got 0 on all PEs: check the filters")
    if totals[1] == 0:
        raise InvalidArgument(f"[{_TRAIN}] all weights are 0: nothing would count")


def _agree_on_arguments(
    params: Mapping[str, Any], frame: Source, evals: Sequence[tuple[Source, str]], **others: Any
) -> None:
    sources = [frame, *(source for source, _ in evals)]
    columns = [s.matrix.columns if isinstance(s, Dataset) else tuple(s.columns) for s in sources]
    weighted = [s.weight is not None if isinstance(s, Dataset) else others["weight"] for s in sources]
    named = {f"params[{name!r}]": _comparable(value) for name, value in params.items()}
    options = {name: _comparable(value) for name, value in others.items()}
    seen = {"columns": columns, "weights": weighted, "evals": [name for _, name in evals]}
    agree(_TRAIN, {"the set of params": sorted(params), **named, **options, **seen})


def _comparable(value: Any) -> Any:
    """Functions and objects have no value to compare: their type and name must do."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return getattr(value, "__qualname__", type(value).__qualname__)


def _quantised(pending: list[Dataset], settings: Mapping[str, Any]) -> list[xgboost.DMatrix]:
    """Build XGBoost's matrices one after the other, letting go of each block of ours once it is read."""
    by_histogram = (
        settings.get("tree_method", "auto") in ("auto", "hist") and settings.get("booster") != "gblinear"
    )
    matrices: list[xgboost.DMatrix] = []
    same: dict[int, xgboost.DMatrix] = {}
    while pending:
        rows = pending.pop(0)
        if id(rows) not in same:
            common = {
                "label": rows.label,
                "weight": rows.weight,
                "feature_names": rows.matrix.columns,
                "feature_types": rows.feature_types,
                "nthread": settings["nthread"],
            }
            if by_histogram:
                reference = matrices[0] if matrices else None
                bins = settings.get("max_bin", 256)
                built = xgboost.QuantileDMatrix(rows.features(), ref=reference, max_bin=bins, **common)
            else:
                built = xgboost.DMatrix(rows.features(), **common)
            same[id(rows)] = built
        matrices.append(same[id(rows)])
    return matrices
