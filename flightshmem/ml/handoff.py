# SPDX-License-Identifier: Apache-2.0
"""A frame's rows as XGBoost reads them: a matrix in the heap, viewed and not copied, and its labels.

XGBoost reads a pandas frame column by column, in place, when the columns are floats; so the frame over
the matrix block is its leanest and fastest input. It would copy an Arrow table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from flightshmem import runtime
from flightshmem.errors import ColumnNotFound, InvalidArgument, SchemaError
from flightshmem.frame import DataFrame
from flightshmem.frame.matrix import Matrix, check_type, float32_rows, matrix_from_table, write_column
from flightshmem.ml.categories import Categories, Unknown, check_words, encode

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Dataset:
    """Features in the heap, label and weight beside them: this PE's rows, ready for XGBoost.

    Made once, it can train and score any number of models.
    """

    matrix: Matrix
    label: Vector | None = None
    weight: Vector | None = None

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def feature_types(self) -> list[str]:
        """XGBoost's types: "c" for a categorical feature, "q" for a quantity."""
        return ["c" if name in self.matrix.categories else "q" for name in self.matrix.columns]

    def features(self) -> pd.DataFrame:
        """Give what XGBoost is handed. No copy."""
        return self.matrix.pandas()

    def copied_bytes(self, handed: pd.DataFrame | None = None) -> int:
        """Measure how much of what XGBoost is handed on this PE lies outside the matrix block: 0.

        ``handed`` measures another frame than ``features()``.
        """
        low, high = np.lib.array_utils.byte_bounds(self.matrix.block)
        copied = 0
        for _, column in (self.features() if handed is None else handed).items():
            first, last = np.lib.array_utils.byte_bounds(column.to_numpy())
            if len(column) and not low <= first <= last <= high:
                copied += last - first
        return copied


@dataclass(frozen=True)
class Fields:
    """Which columns of a frame are what; ``features`` None means all that are neither label nor weight."""

    label: str | None = None
    weight: str | None = None
    features: Sequence[str] | None = None
    categories: Categories | None = None
    unknown: Unknown = "error"


def dataset_from(operation: str, frame: DataFrame, fields: Fields) -> Dataset:
    """Execute a frame and put its rows where XGBoost can read them. Collective.

    With ``fields.categories``, those columns are coded by the given words; else by the sorted words of
    all PEs. Raises on every PE for values XGBoost cannot take, naming column, PE and row.
    """
    check_fields(operation, frame.schema, fields)
    return dataset_from_table(operation, float32_rows(frame), fields)


def dataset_from_table(operation: str, table: pa.Table, fields: Fields) -> Dataset:
    """Put this PE's rows, whose fields were checked, where XGBoost can read them. Collective."""
    here = runtime.current()
    with here.converge(operation):
        label = _vector(operation, table, fields.label)
        weight = _vector(operation, table, fields.weight)
        if weight is not None:
            _check_values(operation, fields.weight, weight < 0, "is negative")
        names = _feature_names(table.column_names, fields)
        table = table.select(names)
        for name, words in (fields.categories or {}).items():
            index = names.index(name)
            codes = encode(operation, name, table.column(index), words, fields.unknown)
            table = table.set_column(index, name, codes)
    matrix = matrix_from_table(table, np.dtype(np.float32))
    del table
    if fields.categories is not None:
        given = {name: tuple(words) for name, words in fields.categories.items()}
        matrix = replace(matrix, categories=given)
    with here.converge(operation):
        check_words(operation, matrix.categories)
        check_finite(operation, matrix)
    return Dataset(matrix, label, weight)


def check_finite(operation: str, matrix: Matrix) -> None:
    """Refuse infinity, which is what a value beyond float32's range has become. Local.

    XGBoost refuses it in training with a message that names neither column nor PE, and predicts
    something for it without a word.
    """
    for index, name in enumerate(matrix.columns):
        column = matrix.block[:, index]
        if len(column) == 0:
            continue
        # fmax and fmin pass over NaN and need no memory, unlike isinf over the whole column.
        if np.isinf(np.fmax.reduce(column)) or np.isinf(np.fmin.reduce(column)):
            _check_values(operation, name, np.isinf(column), "is infinite, or beyond float32's 3.4e38")


def _vector(operation: str, table: pa.Table, name: str | None) -> Vector | None:
    if name is None:
        return None
    column = table[name]
    vector: Vector = np.empty(len(column), np.float32)
    write_column(column, vector)
    _check_values(operation, name, ~np.isfinite(vector), "is null, NaN or infinite")
    return vector


def _check_values(operation: str, name: str | None, wrong: npt.NDArray[Any], what: str) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        here = runtime.current()
        raise InvalidArgument(
            f"[{operation}] column {name!r} {what}, got {len(rows)} such rows, the first at {rows[0]} "
            f"of this PE's, PE {here.pe}/{here.n_pes}: filter these rows out or replace the values"
        )


def _feature_names(there: Sequence[str], fields: Fields) -> list[str]:
    if fields.features is not None:
        return list(fields.features)
    return [name for name in there if name not in (fields.label, fields.weight)]


def check_fields(operation: str, schema: pa.Schema, fields: Fields) -> None:
    """Check names and types; runs alike on every PE, as a frame has the same columns everywhere."""
    there = schema.names
    names = _feature_names(there, fields)
    targets = [name for name in (fields.label, fields.weight) if name is not None]
    missing = [name for name in [*names, *targets] if name not in there]
    if missing:
        raise ColumnNotFound(f"[{operation}] no such column, got {missing}: the frame has {', '.join(there)}")
    if not names:
        raise InvalidArgument(f"[{operation}] no feature is left, got only {list(there)}: add columns")
    odd = [name for name in names if any(sign in name for sign in "[]<")]
    if odd:
        raise InvalidArgument(
            f"[{operation}] XGBoost allows no [, ] or < in a feature's name, got {odd}: rename them"
        )
    if fields.unknown not in ("error", "missing"):
        raise InvalidArgument(f'[{operation}] unknown must be "error" or "missing", got {fields.unknown!r}')
    for name in targets:
        _check_number(operation, schema.field(name))
    for name in names:
        if name not in (fields.categories or {}):
            check_type(schema.field(name), np.dtype(np.float32))


def _check_number(operation: str, field: pa.Field) -> None:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if not any(fits(field.type) for fits in kinds):
        raise SchemaError(
            f"[{operation}] column {field.name!r} must be numbers or booleans, got {field.type}: "
            "map the classes to 0, 1, 2... first"
        )
