# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for Arrow data, shared by the tests of all layers.

``batches(types)`` gives record batches of random columns with nulls, slice offsets and NaN;
``same`` compares them value by value (NaN equals NaN, -0.0 differs from 0.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal32(5, 2), pa.decimal64(12, 3), pa.decimal128(30, 4), pa.decimal256(60, 6)]
TEMPORALS = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.duration("s"),
    pa.duration("ns"),
]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
DICTIONARIES = [
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.int64()),
    pa.dictionary(pa.uint16(), pa.large_string(), ordered=True),
]
# What an exchange moves without a fallback.
FLAT = [
    pa.null(),
    pa.bool_(),
    pa.binary(7),
    *INTEGERS,
    *FLOATS,
    *DECIMALS,
    *TEMPORALS,
    *TEXTS,
    *DICTIONARIES,
]
VIEWS = [pa.string_view(), pa.binary_view()]
NESTED = [
    pa.list_(pa.int16()),
    pa.large_list(pa.string()),
    pa.list_(pa.float64(), 3),
    pa.struct([("x", pa.float32()), ("y", pa.string()), ("z", pa.bool_())]),
    pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.struct([("deep", pa.list_(pa.bool_())), ("n", pa.int64())])),
    pa.list_view(pa.int32()),
    pa.large_list_view(pa.string()),
    pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))]),
    pa.sparse_union([pa.field("i", pa.int32()), pa.field("s", pa.string())]),
    pa.dense_union([pa.field("i", pa.int32()), pa.field("s", pa.string())]),
    pa.run_end_encoded(pa.int32(), pa.string()),
]
EVERY = [*FLAT, *VIEWS, *NESTED]

MAX_TEXT = 20  # longer than the 12 bytes a view holds inline


def _integers(type_: pa.DataType) -> st.SearchStrategy[int]:
    limits = np.iinfo(type_.to_pandas_dtype())
    return st.integers(int(limits.min), int(limits.max)) | st.integers(0, 5)


def _temporal_values(type_: pa.DataType) -> st.SearchStrategy[int]:
    """Integers that fit the type and have a Python object: whole days, times within a day."""
    if pa.types.is_date64(type_):
        return st.integers(-20_000, 20_000).map(lambda days: days * 86_400_000)
    if pa.types.is_date32(type_):
        return st.integers(-20_000, 20_000)
    step = {"s": 1, "ms": 1, "us": 1, "ns": 1000}[type_.unit]
    if pa.types.is_time(type_):
        return st.integers(0, 86_399).map(lambda value: value * step)
    return st.integers(-(10**9), 10**9).map(lambda value: value * step)


def _decimals(type_: pa.DataType) -> st.SearchStrategy[Decimal]:
    limit = 10**type_.precision - 1
    return st.integers(-limit, limit).map(lambda units: Decimal(f"{units}E-{type_.scale}"))


def _nested_values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: values(field.type) for field in type_})
    if pa.types.is_map(type_):
        return st.dictionaries(st.text(max_size=3), values(type_.item_type), max_size=3).map(
            lambda entries: list(entries.items())
        )
    if pa.types.is_fixed_size_list(type_):
        return st.lists(values(type_.value_type), min_size=type_.list_size, max_size=type_.list_size)
    return st.lists(values(type_.value_type), max_size=4)


def _plain_values(type_: pa.DataType) -> st.SearchStrategy[Any] | None:
    """Give the values of a type that is not nested, without nulls."""
    if pa.types.is_boolean(type_):
        return st.booleans()
    if pa.types.is_integer(type_):
        return _integers(type_)
    if pa.types.is_floating(type_):
        return st.floats(width=type_.bit_width)  # type: ignore[arg-type]
    if pa.types.is_decimal(type_):
        return _decimals(type_)
    if pa.types.is_fixed_size_binary(type_):
        return st.binary(min_size=type_.byte_width, max_size=type_.byte_width)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return st.text(st.characters(codec="utf-8"), max_size=MAX_TEXT)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return st.binary(max_size=MAX_TEXT)
    return _temporal_values(type_) if pa.types.is_temporal(type_) else None


def values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """Give Python values of a type, None among them."""
    if pa.types.is_null(type_):
        return st.none()
    if pa.types.is_dictionary(type_):
        # Few distinct values, so that codes repeat and fit in 8 bits.
        few = st.integers(0, 5) if pa.types.is_integer(type_.value_type) else st.sampled_from("abcdef")
        return st.none() | few
    plain = _plain_values(type_)
    return st.none() | (_nested_values(type_) if plain is None else plain)


def _whole_array(draw: st.DrawFn, type_: pa.DataType, size: int) -> pa.Array:
    if pa.types.is_union(type_):
        codes = pa.array(draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)), pa.int8())
        children = [_whole_array(draw, type_.field(i).type, size) for i in range(type_.num_fields)]
        names = [type_.field(i).name for i in range(type_.num_fields)]
        if type_.mode == "sparse":
            return pa.UnionArray.from_sparse(codes, children, names)
        return pa.UnionArray.from_dense(codes, pa.array(range(size), pa.int32()), children, names)
    if pa.types.is_run_end_encoded(type_):
        lengths = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
        ends = pa.array(np.cumsum(lengths), pa.int32())
        return pa.RunEndEncodedArray.from_arrays(ends, _whole_array(draw, type_.value_type, size)).slice(
            0, size
        )
    if pa.types.is_struct(type_) and any(pa.types.is_dictionary(field.type) for field in type_):
        children = [_whole_array(draw, field.type, size) for field in type_]
        return pa.StructArray.from_arrays(children, fields=list(type_))
    drawn = draw(st.lists(values(type_), min_size=size, max_size=size))
    if pa.types.is_float16(type_):
        return pa.array([None if value is None else np.float16(value) for value in drawn], type_)
    if pa.types.is_temporal(type_):
        width = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(drawn, width).view(type_)
    return pa.array(drawn, type_)


@st.composite
def arrays(draw: st.DrawFn, type_: pa.DataType, size: int) -> pa.Array:
    """Give arrays of a type; often slices of longer ones, at any (bit) offset."""
    before, after = draw(st.tuples(st.integers(0, 9), st.integers(0, 9)) | st.just((0, 0)))
    return _whole_array(draw, type_, before + size + after).slice(before, size)


@st.composite
def batches(
    draw: st.DrawFn,
    types: Sequence[pa.DataType] = tuple(EVERY),
    max_rows: int = 40,
    max_columns: int = 4,
) -> pa.RecordBatch:
    """Give record batches of 0 to ``max_columns`` columns c0, c1, ... of the given types."""
    rows = draw(st.integers(0, max_rows))
    chosen = draw(st.lists(st.sampled_from(list(types)), max_size=max_columns))
    columns = [draw(arrays(type_, rows)) for type_ in chosen]
    schema = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(chosen)])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def same(left: Any, right: Any) -> bool:
    """Tell whether two batches, tables or arrays have equal types and values."""
    if isinstance(left, pa.Array | pa.ChunkedArray):
        return bool(left.type == right.type) and repr(left.to_pylist()) == repr(right.to_pylist())
    return bool(left.schema.equals(right.schema)) and repr(left.to_pylist()) == repr(right.to_pylist())
