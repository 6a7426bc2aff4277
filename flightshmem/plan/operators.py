# SPDX-License-Identifier: Apache-2.0
"""Build typed expressions from what a user writes: promotion, literals, and errors before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.plan.expr import INFIX, Expr, Literal, call, cast, literal
from flightshmem.plan.types import (
    common_type,
    is_float,
    is_number,
    is_plain_number,
    is_text,
    numpy_result,
    value_type,
)

_E = TypeVar("_E", bound=Expr)


def arithmetic(function: str, left: Expr, right: Expr) -> Expr:
    """Build ``left <op> right`` with NumPy's promotion."""
    left, right = _adapt_time(left, right), _adapt_time(right, left)
    kinds = value_type(left.type), value_type(right.type)
    if all(is_text(kind) for kind in kinds) and function == "add":
        common = pa.large_string() if any(pt.is_large_string(kind) for kind in kinds) else pa.string()
        return call("concat", cast(left, common), cast(right, common))
    if all(is_plain_number(kind) or pt.is_null(kind) for kind in kinds):
        return _number_arithmetic(function, left, right)
    if any(is_text(kind) for kind in kinds):
        raise SchemaError(_cannot(function, left, right))
    return call(function, left, right)


def _number_arithmetic(function: str, left: Expr, right: Expr) -> Expr:
    common = promote(left, right)
    if pt.is_boolean(common):
        if function in ("add", "multiply"):
            return call("or" if function == "add" else "and", left, right)
        common = pa.int64()
    if function == "divide" and not is_float(common):
        common = pa.float64()
    if function in ("floor_divide", "modulo") and not is_float(common) and _may_be_zero(right):
        # NumPy's answer to integer division by zero is inf or nan, which only floats have.
        common = pa.float64()
    if function == "power" and pt.is_integer(common) and _is_negative(right):
        raise InvalidArgument(
            "[**] integers to a negative integer power are not integers: use a float, e.g. x ** -1.0"
        )
    return call(function, cast(left, common), cast(right, common))


def _may_be_zero(expr: Expr) -> bool:
    return not (isinstance(expr, Literal) and expr.value.is_valid and expr.value.as_py() != 0)


def _is_negative(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value.is_valid and expr.value.as_py() < 0


def promote(*exprs: Expr) -> pa.DataType:
    """Return the NumPy result type of plain numbers; Python scalars adapt to the columns."""
    operands: list[Any] = []
    for expr in exprs:
        if pt.is_null(expr.type):
            continue
        if isinstance(expr, Literal) and expr.is_weak:
            operands.append(expr.value.as_py())
        else:
            operands.append(value_type(expr.type))
    return numpy_result(*operands) if operands else pa.float64()


def comparison(function: str, left: Expr, right: Expr) -> Expr:
    """Build a comparison; operands must be comparable."""
    left, right = _adapt_time(left, right), _adapt_time(right, left)
    kinds = value_type(left.type), value_type(right.type)
    if all(is_plain_number(kind) for kind in kinds):
        common = promote(left, right)
        return call(function, cast(left, common), cast(right, common))
    if not _are_comparable(*kinds):
        raise SchemaError(_cannot(function, left, right))
    return call(function, left, right)


def _are_comparable(left: pa.DataType, right: pa.DataType) -> bool:
    if common_type(left, right) is not None:
        return True
    return bool(pt.is_date(left) or pt.is_date(right)) and all(
        pt.is_date(kind) or pt.is_timestamp(kind) for kind in (left, right)
    )


def _adapt_time(expr: _E, other: Expr) -> _E | Literal:
    """Read a string literal as a point in time or a span when it meets one."""
    kind = other.type
    if not (isinstance(expr, Literal) and pt.is_string(expr.type) and pt.is_temporal(kind)):
        return expr
    text = expr.value.as_py()
    try:
        if pt.is_duration(kind):
            return Literal(kind, pa.scalar(pd.Timedelta(text)).cast(kind, safe=False))
        if pt.is_date(kind):
            return Literal(kind, pa.scalar(pd.Timestamp(text).date()))
        if pt.is_timestamp(kind):
            moment = pd.Timestamp(text)
            if kind.tz is not None and moment.tzinfo is None:
                moment = moment.tz_localize(kind.tz)
            return literal(moment)
    except ValueError:
        raise InvalidArgument(
            f"[expression] not a {kind}, got {text!r}: write it as e.g. '2013-06-30 12:00'"
        ) from None
    return expr


def logical(function: str, left: Expr, right: Expr) -> Expr:
    """Build ``& | ^``: on booleans with missing values as unknown, on integers bit by bit."""
    kinds = value_type(left.type), value_type(right.type)
    if all(pt.is_boolean(kind) or pt.is_null(kind) for kind in kinds):
        return call(function, cast(left, pa.bool_()), cast(right, pa.bool_()))
    if all(pt.is_integer(kind) or pt.is_boolean(kind) for kind in kinds):
        common = promote(left, right)
        return call("bit_" + function, cast(left, common), cast(right, common))
    raise SchemaError(
        _cannot(function, left, right) + " (put comparisons in parentheses: (df.a > 1) & (df.b < 2))"
    )


def invert(expr: Expr) -> Expr:
    """Build ``~``."""
    if pt.is_boolean(expr.type):
        return call("not", expr)
    if pt.is_integer(expr.type):
        return call("bit_not", expr)
    raise SchemaError(f"[~] not defined for {expr.type}: use it on booleans or integers")


def _cannot(function: str, left: Expr, right: Expr) -> str:
    symbol = INFIX.get(function, function)
    return (
        f"[{symbol}] the operands do not fit, got {left.type} {symbol} {right.type} "
        f"in ({left} {symbol} {right}): cast one of them with astype()"
    )


def is_in(expr: Expr, values: Iterable[Any]) -> Expr:
    """Build a membership test; values of a kind the column cannot hold never match, as in pandas."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(f"[isin] a list-like of values is needed, got {values!r}: write [{values!r}]")
    present, with_missing = [], False
    for value in values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else values:
        if (
            value is None
            or value is pd.NA
            or value is pd.NaT
            or (isinstance(value, float) and math.isnan(value))
        ):
            with_missing = True
        else:
            present.append(literal(value))
    kind = value_type(expr.type)
    fitting = [adapted for value in present if (adapted := _member(value, expr)) is not None]
    common = kind
    if is_plain_number(kind) and fitting:
        common = promote(expr, *fitting)
        expr = cast(expr, common)
    members = pa.array([value.value.as_py() for value in fitting], common)
    return call("is_in", expr, value_set=members, with_missing=with_missing)


def _member(value: Literal, expr: Expr) -> Literal | None:
    """Return the value in the column's type; None if no value of that type can equal it."""
    kind = value_type(expr.type)
    adapted = _adapt_time(value, expr)
    if is_plain_number(kind):
        return adapted if is_plain_number(adapted.type) else None
    if not _are_comparable(kind, adapted.type):
        return None
    try:
        return Literal(kind, adapted.value.cast(kind))
    except pa.ArrowInvalid:
        return None


def fill_missing(expr: Expr, replacement: Expr) -> Expr:
    """Build ``fillna``: numbers widen if the replacement needs it, other types must fit."""
    kind = value_type(expr.type)
    if is_plain_number(kind) and is_plain_number(replacement.type) and not pt.is_boolean(kind):
        common = promote(expr, replacement)
        return call("fill_missing", cast(expr, common), cast(replacement, common))
    replacement = _adapt_time(replacement, expr)
    common = common_type(kind, replacement.type)
    if common is None or (pt.is_null(kind) and pt.is_null(replacement.type)):
        raise SchemaError(
            f"[fillna] the value does not fit the column, got {replacement.type} "
            f"for {expr} ({expr.type}): "
            "give a value per column, e.g. fillna({'delay': 0, 'name': ''})"
        )
    target = common if pt.is_null(kind) else kind
    filled = call("fill_missing", cast(expr, target), cast(replacement, target))
    return cast(filled, expr.type) if pt.is_dictionary(expr.type) else filled


def choose(condition: Expr, chosen: Expr, other: Expr) -> Expr:
    """Build ``chosen if condition else other`` row by row."""
    if not pt.is_boolean(condition.type):
        raise SchemaError(f"[where] the condition must be boolean, got {condition.type}: compare first")
    kinds = value_type(chosen.type), value_type(other.type)
    if all(is_plain_number(kind) or pt.is_null(kind) for kind in kinds):
        common: pa.DataType | None = promote(chosen, other)
    else:
        common = common_type(*kinds)
    if common is None:
        raise SchemaError(_cannot("where", chosen, other))
    if is_text(common) and not any(pt.is_large_string(kind) for kind in kinds):
        common = pa.string()
    return call("if_else", condition, cast(chosen, common), cast(other, common))


def clip(expr: Expr, lower: Expr | None, upper: Expr | None) -> Expr:
    """Build bounds on both sides."""
    for function, bound in (("clip_lower", lower), ("clip_upper", upper)):
        if bound is None:
            continue
        common = promote(expr, bound) if is_plain_number(expr.type) else expr.type
        expr = call(function, cast(expr, common), cast(bound, common))
    return expr


def require_number(expr: Expr, operation: str) -> Expr:
    """Refuse anything arithmetic has no meaning for."""
    if not is_number(expr.type):
        raise SchemaError(f"[{operation}] numbers are needed, got {expr.type} in {expr}: cast with astype()")
    return expr
