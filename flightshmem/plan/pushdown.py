# SPDX-License-Identifier: Apache-2.0
"""Turn filters into Arrow expressions that Parquet's row-group statistics can refute.

The result may be weaker than the filter (it only leaves row groups out; the filter still runs on the
rest), never stronger. So what has no exact counterpart is left out of a conjunction, and a
disjunction with such a part is left out whole. ``!=`` and ``~`` keep missing values and are left out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flightshmem.plan.expr import Call, Column, Expr, Literal
from flightshmem.plan.types import is_float

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def arrow_predicate(conjuncts: list[Expr]) -> pc.Expression | None:
    """Return what must hold in a row group for any row to pass, None if nothing is known."""
    parts = [part for expr in conjuncts if (part := _convert(expr)) is not None]
    return reduce(operator.and_, parts) if parts else None


def _convert(expr: Expr) -> pc.Expression | None:
    if not isinstance(expr, Call):
        return None
    if expr.function in _COMPARISONS:
        left, right = (_operand(arg) for arg in expr.args)
        return None if left is None or right is None else _COMPARISONS[expr.function](left, right)
    if expr.function == "and":
        return arrow_predicate(list(expr.args))
    if expr.function == "or":
        left, right = (_convert(arg) for arg in expr.args)
        return None if left is None or right is None else left | right
    if expr.function == "is_in":
        return _membership(expr)
    if expr.function == "is_missing":
        return _missing(expr, is_wanted=True)
    if expr.function == "not" and isinstance(expr.args[0], Call) and expr.args[0].function == "is_missing":
        return _missing(expr.args[0], is_wanted=False)
    return None


def _operand(expr: Expr) -> pc.Expression | None:
    if isinstance(expr, Column) and not pt.is_dictionary(expr.type):
        return pc.field(expr.name)
    if isinstance(expr, Literal) and expr.value.is_valid:
        return pc.scalar(expr.value)
    if isinstance(expr, Call) and expr.function == "cast" and _widens(expr.args[0].type, expr.type):
        return _operand(expr.args[0])
    return None


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether a cast keeps every value, so that comparing before it is the same."""
    return bool(pt.is_integer(source) and pt.is_integer(target) and target.bit_width > source.bit_width)


def _membership(expr: Call) -> pc.Expression | None:
    options = dict(expr.options)
    column = _operand(expr.args[0])
    if column is None or options["with_missing"]:
        return None
    return column.isin(options["value_set"])


def _missing(expr: Call, is_wanted: bool) -> pc.Expression | None:
    column = _operand(expr.args[0])
    if column is None or is_float(expr.args[0].type):
        return None
    return column.is_null() if is_wanted else column.is_valid()
