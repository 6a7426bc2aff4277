# SPDX-License-Identifier: Apache-2.0
"""Categorical features: a booster remembers the words behind its codes, and other frames are coded by them.

XGBoost 3.2 itself would map an unknown word to its neighbour in sort order without a sound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import xgboost

from flightshmem import runtime
from flightshmem.errors import InvalidArgument, SchemaError

Categories = Mapping[str, Sequence[Any]]
Unknown = Literal["error", "missing"]

_ATTRIBUTE = "flightshmem_categories"


def remember(booster: xgboost.Booster, categories: Categories) -> None:
    """Store the words of each categorical feature in the booster; saved and loaded with it."""
    words = {name: list(values) for name, values in categories.items()}
    booster.set_attr(**{_ATTRIBUTE: json.dumps(words)})


def recall(operation: str, booster: xgboost.Booster) -> Categories:
    """Give the words of each categorical feature of a booster, also of one trained by XGBoost alone."""
    stored = booster.attr(_ATTRIBUTE)
    if stored is not None:
        known: Categories = json.loads(stored)
        return known
    types = booster.feature_types or []
    names = [name for name, type_ in zip(booster.feature_names or [], types, strict=False) if type_ == "c"]
    if not names:
        return {}
    own = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    if any(own.get(name) is None for name in names):
        raise InvalidArgument(
            f"[{operation}] the booster does not say which words its categorical codes mean, "
            f"got {names}: train it with flightshmem.ml.xgboost.train"
        )
    return {name: own[name].to_pylist() for name in names}


def check_words(operation: str, categories: Categories) -> None:
    """Refuse words that a model file cannot carry."""
    for name, words in categories.items():
        odd = [word for word in words if not isinstance(word, str | int | float | bool)]
        if odd:
            raise SchemaError(
                f"[{operation}] categories of column {name!r} must be strings or numbers, got "
                f"{odd[0]!r}: convert the column to string before making it categorical"
            )


def encode(
    operation: str, name: str, column: pa.ChunkedArray, words: Sequence[Any], unknown: Unknown
) -> pa.ChunkedArray:
    """Turn a column of words (categorical or plain) into the booster's codes; null stays null.

    A word that the booster has never seen raises ``InvalidArgument``, or becomes null.
    """
    value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        value_set = pa.array(words, type=value_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"[{operation}] column {name!r} is categorical in the booster with words like {words[:3]}, "
            f"got {column.type}: convert it to the type of those words"
        ) from error
    chunks = []
    for chunk in column.chunks:
        codes = _codes(chunk, value_set)
        if unknown == "error" and codes.null_count > chunk.null_count:
            row = pc.index(pc.and_(codes.is_null(), chunk.is_valid()), True).as_py()
            raise _never_seen(operation, name, chunk[row].as_py(), len(words))
        chunks.append(codes)
    return pa.chunked_array(chunks, type=pa.int32())


def _codes(chunk: pa.Array, value_set: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(chunk.type):
        return pc.index_in(chunk.dictionary, value_set=value_set).take(chunk.indices)
    return pc.index_in(chunk, value_set=value_set, skip_nulls=True)


def _never_seen(operation: str, name: str, word: Any, n_words: int) -> InvalidArgument:
    here = runtime.current()
    return InvalidArgument(
        f"[{operation}] column {name!r} has a category the booster has never seen, got {word!r}, "
        f"PE {here.pe}/{here.n_pes}: replace it by one of its {n_words} categories, or pass "
        'unknown="missing" to treat it as missing'
    )
