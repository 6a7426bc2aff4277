# SPDX-License-Identifier: Apache-2.0
"""pandas' ``merge``: which keys, which types, which columns under which names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import InvalidArgument, MergeError, UnsupportedError
from flightshmem.frame.align import all_columns
from flightshmem.frame.names import find_all
from flightshmem.plan.expr import cast
from flightshmem.plan.nodes import Join, Node, Project
from flightshmem.plan.types import common_type

if TYPE_CHECKING:
    from flightshmem.frame.frame import DataFrame

Keys = str | Sequence[str] | None
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MergeOptions:
    """The arguments of ``merge``."""

    how: str = "inner"
    on: Keys = None
    left_on: Keys = None
    right_on: Keys = None
    suffixes: tuple[str | None, str | None] = ("_x", "_y")
    strategy: str = "auto"


def merge(left: DataFrame, right: DataFrame, options: MergeOptions) -> Node:
    """Build the join of two frames; all errors of names and types are raised here."""
    if not hasattr(right, "_plan"):
        raise InvalidArgument(
            f"[merge] a FlightSHMEM frame is needed, got {type(right).__name__}: "
            "use from_pandas or from_arrow first"
        )
    how, strategy = options.how, options.strategy
    if how not in ("inner", "left"):
        raise UnsupportedError(
            f"[merge] how is 'inner' or 'left', got {how!r}: swap the frames for a right join"
        )
    if strategy not in ("auto", "broadcast", "shuffle"):
        raise InvalidArgument(f"[merge] strategy is 'auto', 'broadcast' or 'shuffle', got {strategy!r}")
    left_keys, right_keys = _keys(left, right, options)
    left_plan, right_plan, types = _comparable(left._plan, right._plan, left_keys, right_keys)
    left_columns, right_columns = _output_names(
        left.columns, right.columns, left_keys, right_keys, options.suffixes
    )
    return Join(
        left_plan,
        right_plan,
        tuple(left_keys),
        tuple(right_keys),
        types,
        how,
        left_columns,
        right_columns,
        strategy,
    )


def _keys(left: DataFrame, right: DataFrame, options: MergeOptions) -> tuple[list[str], list[str]]:
    on, left_on, right_on = options.on, options.left_on, options.right_on
    if on is not None and (left_on is not None or right_on is not None):
        raise MergeError("[merge] keys are given by on=, or by left_on= and right_on=, got both")
    if (left_on is None) != (right_on is None):
        raise MergeError("[merge] left_on= and right_on= belong together, got only one of them")
    if on is None and left_on is None:
        on = [name for name in left.columns if name in right.columns]
        if not on:
            raise MergeError(
                f"[merge] the frames share no column, got {left.columns} and {right.columns}: "
                "name the keys with left_on= and right_on="
            )
    left_keys = find_all(left.schema, _listed(on if on is not None else left_on), "merge, left frame")
    right_keys = find_all(right.schema, _listed(on if on is not None else right_on), "merge, right frame")
    if len(left_keys) != len(right_keys) or not left_keys:
        raise MergeError(
            f"[merge] each left key needs a right key, got {len(left_keys)} left and {len(right_keys)} right"
        )
    return left_keys, right_keys


def _listed(keys: Any) -> list[str]:
    return [keys] if isinstance(keys, str) else list(keys)


def _comparable(
    left: Node, right: Node, left_keys: list[str], right_keys: list[str]
) -> tuple[Node, Node, tuple[pa.DataType, ...]]:
    """Return the types keys are compared in; keys of different time zones are first brought to UTC."""
    types = []
    for mine, theirs in zip(left_keys, right_keys, strict=True):
        left_type, right_type = left.schema.field(mine).type, right.schema.field(theirs).type
        common = common_type(left_type, right_type)
        if common is None or pt.is_nested(common):
            raise MergeError(
                f"[merge] keys of these types never match, got {mine!r} {left_type} "
                f"and {theirs!r} {right_type}: "
                "convert one of them with astype()"
            )
        if pt.is_timestamp(common) and left_type.tz != right_type.tz:
            left = _cast_column(left, mine, pa.timestamp(left_type.unit, common.tz))
            right = _cast_column(right, theirs, pa.timestamp(right_type.unit, common.tz))
        types.append(common)
    return left, right, tuple(types)


def _cast_column(plan: Node, name: str, dtype: pa.DataType) -> Node:
    columns = all_columns(plan)
    columns[name] = cast(columns[name], dtype)
    return Project(plan, tuple(columns.items()))


def _output_names(
    left: list[str],
    right: list[str],
    left_keys: list[str],
    right_keys: list[str],
    suffixes: tuple[str | None, str | None],
) -> tuple[Pairs, Pairs]:
    """Name the result's columns: a key of one name on both sides comes once, the left one."""
    shared = {mine for mine, theirs in zip(left_keys, right_keys, strict=True) if mine == theirs}
    from_right = [name for name in right if name not in shared]
    overlap = [name for name in left if name in from_right]
    first, second = suffixes
    if overlap and not first and not second:
        raise MergeError(
            f"[merge] columns overlap but no suffix is given, got {', '.join(map(repr, overlap))}: "
            "pass suffixes=('_x', '_y')"
        )
    left_pairs = tuple((name, name + (first or "") if name in overlap else name) for name in left)
    right_pairs = tuple((name, name + (second or "") if name in overlap else name) for name in from_right)
    names = [out for _, out in left_pairs + right_pairs]
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise MergeError(
            f"[merge] suffixes {suffixes} make columns of the same name, got "
            f"{', '.join(map(repr, doubles))}: pass other suffixes or rename a column first"
        )
    return left_pairs, right_pairs
