# SPDX-License-Identifier: Apache-2.0
"""What an aggregation is: its result type, and the states that PEs exchange to compute it.

Every aggregation is a function of a few *states* per group. A state can be computed on any part of the
rows and merged with another part's, so PEs aggregate their own rows first and exchange only states.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.plan.types import is_number, is_plain_number, value_type

FUNCTIONS = ("sum", "mean", "count", "min", "max", "std", "var", "nunique", "size", "any", "all")

STATES: dict[str, tuple[str, ...]] = {
    "sum": ("sum",),
    "mean": ("total", "count"),
    "count": ("count",),
    "min": ("min",),
    "max": ("max",),
    "std": ("count", "mean", "spread"),
    "var": ("count", "mean", "spread"),
    "nunique": (),
    "size": ("size",),
    "any": ("any",),
    "all": ("all",),
}
"""``total``: sum in float64; ``spread``: sum of squared differences from the group's mean."""


@dataclass(frozen=True)
class Aggregation:
    """Reduce one column (None for size) of every group to one value named ``output``."""

    function: str
    column: str | None
    output: str
    result_type: pa.DataType

    def __str__(self) -> str:
        return f"{self.output}={self.function}({self.column or ''})"


def aggregation(function: str, column: str | None, output: str, schema: pa.Schema) -> Aggregation:
    """Check that the function fits the column's type and give the result's type."""
    if not isinstance(function, str) or function not in FUNCTIONS:
        raise InvalidArgument(
            f"[agg] no such aggregation, got {function!r}: use one of {', '.join(FUNCTIONS)} by name"
        )
    if column is None:
        return Aggregation(function, None, output, pa.int64())
    return Aggregation(function, column, output, result_type(function, schema.field(column).type, column))


def result_type(function: str, dtype: pa.DataType, column: str) -> pa.DataType:
    """Return the type of an aggregate of values of a type.

    Sums of integers are 64 bits wide, of floats float64, of decimals as wide as decimal128 goes.
    """
    kind = value_type(dtype)
    if function in ("count", "size", "nunique"):
        return pa.int64()
    if function in ("min", "max"):
        if pt.is_nested(kind):
            raise SchemaError(_unfit(function, column, dtype))
        return kind
    if function in ("any", "all"):
        if not is_plain_number(kind):
            raise SchemaError(_unfit(function, column, dtype))
        return pa.bool_()
    if function == "sum" and pt.is_duration(kind):
        return kind
    if not is_number(kind) and not pt.is_null(kind):
        raise SchemaError(_unfit(function, column, dtype))
    return _sum_type(kind) if function == "sum" else pa.float64()


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_unsigned_integer(kind):
        return pa.uint64()
    if pt.is_integer(kind) or pt.is_boolean(kind):
        return pa.int64()
    if pt.is_decimal(kind):
        return pa.decimal256(76, kind.scale) if pt.is_decimal256(kind) else pa.decimal128(38, kind.scale)
    return pa.float64()


def _unfit(function: str, column: str, dtype: pa.DataType) -> str:
    return (
        f"[{function}] not defined for column {column!r}, got {dtype}: select number columns first, "
        f"e.g. groupby(...)[['x', 'y']].{function}()"
    )
