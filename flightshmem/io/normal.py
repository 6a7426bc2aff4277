# SPDX-License-Identifier: Apache-2.0
"""What comes in is brought to the column types and names that every later step accepts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import InvalidArgument, SchemaError


def normal_type(dtype: pa.DataType) -> pa.DataType:
    """Replace view types, which Arrow's kernels refuse, and half floats, which most do."""
    if pt.is_string_view(dtype):
        return pa.string()
    if pt.is_binary_view(dtype):
        return pa.binary()
    if pt.is_float16(dtype):
        return pa.float32()
    if pt.is_dictionary(dtype):
        # One code width, so that dictionaries can be unified over PEs.
        return pa.dictionary(pa.int32(), normal_type(dtype.value_type), dtype.ordered)
    if pt.is_run_end_encoded(dtype):
        return normal_type(dtype.value_type)
    return dtype


def normal_schema(schema: pa.Schema, operation: str) -> pa.Schema:
    """Check names and normalise types; metadata (pandas' index description, ...) is dropped."""
    names = schema.names
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise InvalidArgument(
            f"[{operation}] column names must be unique, got {', '.join(map(repr, doubles))} more than once: "
            "rename or drop one of them"
        )
    if not names:
        raise InvalidArgument(f"[{operation}] a table needs at least one column, got none")
    return pa.schema([pa.field(field.name, normal_type(field.type)) for field in schema])


def normal_table(table: pa.Table, operation: str) -> pa.Table:
    """Return the table in normal types, without copying columns that are so already."""
    schema = normal_schema(table.schema, operation)
    return as_schema(table, schema, operation)


def as_schema(table: pa.Table, schema: pa.Schema, operation: str) -> pa.Table:
    """Convert a table's columns to a schema of the same names."""
    arrays = [_convert(table.column(field.name), field, operation) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _convert(column: Any, field: pa.Field, operation: str) -> Any:
    if column.type.equals(field.type):
        return column
    try:
        if pt.is_run_end_encoded(column.type):
            chunks = [pa.compute.run_end_decode(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks, column.type.value_type)
        if pt.is_dictionary(column.type) and not pt.is_dictionary(field.type):
            column = column.cast(column.type.value_type)
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"[{operation}] column {field.name!r} cannot be read as {field.type}, got {column.type}: {error}"
        ) from None
