# SPDX-License-Identifier: Apache-2.0
"""Expressions over the columns of one table: typed when they are built, evaluated by Arrow's kernels.

An expression never looks at rows other than its own, so it can be evaluated batch by batch on any PE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import DataError, FlightShmemError, InvalidArgument, SchemaError, UnsupportedError
from flightshmem.plan.casting import cast as convert
from flightshmem.plan.functions import FUNCTIONS, KEEPS_DICTIONARY
from flightshmem.plan.types import value_type


@dataclass(frozen=True, eq=False)
class Expr:
    """A value per row."""

    type: pa.DataType

    def children(self) -> tuple[Expr, ...]:
        """Return the operands."""
        return ()


@dataclass(frozen=True, eq=False)
class Column(Expr):
    """A column of the table the expression is evaluated on."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """The same value for every row. ``is_weak``: a Python number, which adapts to a column's type."""

    value: pa.Scalar
    is_weak: bool = False

    def __str__(self) -> str:
        value = self.value.as_py()
        return repr(value) if isinstance(value, (str, bytes, int, float, bool, type(None))) else str(value)


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A function of ``functions.FUNCTIONS`` applied to operands."""

    function: str
    args: tuple[Expr, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def children(self) -> tuple[Expr, ...]:
        """Return the operands."""
        return self.args

    def __str__(self) -> str:
        if self.function in INFIX:
            left, right = self.args
            return f"({left} {INFIX[self.function]} {right})"
        parts = [str(arg) for arg in self.args]
        parts += [f"{name}={_shorten(value)}" for name, value in self.options if value is not None]
        return f"{self.function}({', '.join(parts)})"


INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "modulo": "%",
    "power": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
}


def _shorten(value: Any) -> str:
    text = str(value.to_pylist()) if isinstance(value, pa.Array) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def literal(value: Any) -> Literal:
    """Make a constant of a Python, NumPy, pandas or Arrow value."""
    if isinstance(value, Literal):
        return value
    if isinstance(value, pa.Scalar):
        return Literal(value.type, value)
    is_weak = isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
    if value is None or value is pd.NA or value is pd.NaT:
        scalar = pa.scalar(None)
    elif isinstance(value, np.datetime64 | np.timedelta64):
        scalar = pa.array(np.array([value]))[0]
    else:
        try:
            scalar = pa.scalar(value.item() if isinstance(value, np.generic) else value)
            if isinstance(value, np.generic):
                scalar = scalar.cast(pa.from_numpy_dtype(value.dtype))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InvalidArgument(
                f"[expression] not a value a column can be combined with, got {value!r} "
                f"({type(value).__name__}): use a Series of the same frame or a scalar ({error})"
            ) from None
    if pt.is_nested(scalar.type):
        raise InvalidArgument(
            f"[expression] a scalar is needed, got {type(value).__name__}: use a Series of the same frame, "
            "or isin() for membership"
        )
    return Literal(scalar.type, scalar, is_weak)


def call(function: str, *args: Expr, **options: Any) -> Call:
    """Apply a function; its type comes from running it on no rows, so a wrong operand fails here."""
    empty = [_empty(arg, function) for arg in args]
    try:
        result = FUNCTIONS[function](*empty, **options)
    except FlightShmemError:
        raise
    except pa.ArrowNotImplementedError:
        types = ", ".join(str(arg.type) for arg in args)
        raise SchemaError(
            f"[{function}] not defined for these types, got {types}: cast with astype() first"
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"[{function}] {error}") from error
    return Call(result.type, function, args, tuple(sorted(options.items())))


def _empty(arg: Expr, function: str) -> Any:
    if isinstance(arg, Literal):
        return arg.value
    dtype = arg.type if function in KEEPS_DICTIONARY else value_type(arg.type)
    # One empty chunk: without any, kernels do not look at their options.
    return pa.chunked_array([pa.array([], dtype)])


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and everything below it."""
    yield expr
    for child in expr.children():
        yield from walk(child)


def columns_of(expr: Expr) -> set[str]:
    """Return the names of the columns an expression reads."""
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def substitute(expr: Expr, columns: Mapping[str, Expr]) -> Expr:
    """Put expressions in place of columns."""
    if isinstance(expr, Column):
        return columns[expr.name]
    if isinstance(expr, Call):
        args = tuple(substitute(arg, columns) for arg in expr.args)
        return Call(expr.type, expr.function, args, expr.options)
    return expr


def evaluate(expr: Expr, table: pa.Table, cache: dict[int, Any] | None = None) -> Any:
    """Compute an expression on a table's rows: a ChunkedArray or Array, or a Scalar if it is constant.

    ``cache`` keeps results of operands that several expressions share; it must not outlive the table.
    """
    if isinstance(expr, Column):
        return table.column(expr.name)
    if isinstance(expr, Literal):
        return expr.value
    assert isinstance(expr, Call)
    if cache is not None and id(expr) in cache:
        return cache[id(expr)]
    args = [evaluate(arg, table, cache) for arg in expr.args]
    if expr.function not in KEEPS_DICTIONARY:
        args = [decode(arg) for arg in args]
    try:
        result = FUNCTIONS[expr.function](*args, **dict(expr.options))
    except pa.ArrowInvalid as error:
        operation = "astype" if expr.function == "cast" else expr.function
        raise DataError(
            f"[{operation}] {error}, computing {expr}: filter such rows out first, or choose another type"
        ) from error
    if not result.type.equals(expr.type):
        result = result.cast(expr.type)
    if cache is not None:
        cache[id(expr)] = result
    return result


def decode(values: Any) -> Any:
    """Turn dictionary values into plain ones."""
    if pt.is_dictionary(values.type):
        plain = values.type.value_type
        return pa.scalar(values.as_py(), plain) if isinstance(values, pa.Scalar) else values.cast(plain)
    return values


def split_and(expr: Expr) -> list[Expr]:
    """Return the operands of a chain of ``&``."""
    if isinstance(expr, Call) and expr.function == "and":
        return [part for arg in expr.args for part in split_and(arg)]
    return [expr]


def join_and(parts: list[Expr]) -> Expr:
    """Chain expressions by ``&``."""
    result = parts[0]
    for part in parts[1:]:
        result = call("and", result, part)
    return result


def cast(expr: Expr, dtype: pa.DataType) -> Expr:
    """Convert as pandas' ``astype`` does; the same expression if it has that type already."""
    if expr.type.equals(dtype):
        return expr
    if isinstance(expr, Literal) and expr.is_weak and not pt.is_dictionary(dtype):
        return Literal(dtype, convert(expr.value, dtype))
    if pt.is_nested(expr.type) or pt.is_nested(dtype):
        raise UnsupportedError(
            f"[astype] nested types cannot be converted, got {expr.type} to {dtype}: convert before reading"
        )
    return call("cast", expr, dtype=dtype)
