# SPDX-License-Identifier: Apache-2.0
"""Group-by in three steps: states of a part of the rows, states merged, results.

A group's states can be merged in any grouping of its parts; ``Parts`` is what PEs exchange. Exact
distinct counts need the distinct values themselves: one table of (keys, value) per such column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flightshmem import _core
from flightshmem.errors import Overflow
from flightshmem.execute.keys import canonical, group_numbers, key_table, without_nan
from flightshmem.execute.rows import take
from flightshmem.plan.aggregates import STATES, Aggregation
from flightshmem.plan.casting import to_dictionary
from flightshmem.plan.expr import decode
from flightshmem.plan.nodes import Aggregate
from flightshmem.plan.types import is_float

_SKIP = pc.ScalarAggregateOptions(skip_nulls=True, min_count=0)
_MERGED_BY = {
    "sum": "sum",
    "total": "sum",
    "count": "sum",
    "size": "sum",
    "distinct": "sum",
    "spread": "sum",
    "mean": "max",  # made equal within a group first
    "min": "min",
    "max": "max",
    "any": "any",
    "all": "all",
}
# Merge what has piled up when it exceeds this and twice the groups seen so far.
_PILE_ROWS = 1 << 17


@dataclass(frozen=True)
class Parts:
    """States of every group, and the distinct values of every column counted distinctly."""

    states: pa.Table
    distinct: tuple[pa.Table, ...]

    def tables(self) -> tuple[pa.Table, ...]:
        """Return all tables that move in an exchange; each starts with the key columns."""
        return (self.states, *self.distinct)


class Grouping:
    """The steps of one Aggregate node."""

    def __init__(self, node: Aggregate) -> None:
        self._node = node
        self.keys = [f"k{i}" for i in range(len(node.keys))]
        wanted = [(state, a.column) for a in node.aggregations for state in STATES[a.function]]
        self._states = list(dict.fromkeys(wanted)) or [("size", None)]
        counted = [a.column for a in node.aggregations if a.function == "nunique" and a.column]
        self._distinct = list(dict.fromkeys(counted))

    def partial(self, table: pa.Table) -> Parts:
        """Compute the states of some rows."""
        keys = key_table(table, self._node.keys)
        if self._node.drops_missing and any(column.null_count for column in keys.columns):
            present = keys.column(0).is_valid()
            for column in keys.columns[1:]:
                present = pc.and_(present, column.is_valid())
            keys, table = keys.filter(present), table.filter(present)
        # Without columns, but with the number of rows, which a table of no keys would have lost.
        inputs = table.select([])
        calls: list[tuple[Any, str, Any]] = []
        for key in self.keys:
            inputs = inputs.append_column(key, keys.column(key))
        bare = inputs
        for i, (state, column) in enumerate(self._states):
            if column is None:
                calls.append(([], "count_all", None))
                continue
            inputs = inputs.append_column(f"s{i}", _input(state, table.column(column), bool(self.keys)))
            calls.append((f"s{i}", *_PARTIAL[state]))
        states = self._named(_group(inputs, self.keys, calls, nan_is_missing=True))
        distinct = tuple(
            _distinct(bare.append_column("v", canonical(table.column(c)))) for c in self._distinct
        )
        return Parts(self._finish_partial(states), distinct)

    def accumulate(self, tables: Iterable[pa.Table]) -> Parts:
        """Compute the states of many batches, holding only states."""
        pile: list[Parts] = []
        piled = groups = 0
        for table in tables:
            pile.append(self.partial(table))
            piled += sum(t.num_rows for t in pile[-1].tables())
            if len(pile) > 1 and piled > max(_PILE_ROWS, 2 * groups):
                pile = [self.merge(pile)]
                piled = groups = sum(t.num_rows for t in pile[0].tables())
        if not pile:
            return self.partial(self._node.child.schema.empty_table())
        return pile[0] if len(pile) == 1 else self.merge(pile)

    def merge(self, parts: list[Parts]) -> Parts:
        """Merge states of several parts of the rows."""
        states = pa.concat_tables(part.states for part in parts)
        distinct = [
            pa.concat_tables(tables) for tables in zip(*(part.distinct for part in parts), strict=True)
        ]
        return Parts(self.merge_states(states), tuple(_distinct(table) for table in distinct))

    def counted(self, parts: Parts) -> pa.Table:
        """Replace distinct values by their number: no other part may hold the same group or value."""
        if not self._distinct:
            return parts.states
        rows = [parts.states]
        names = list(parts.states.schema.names)
        for column, values in zip(self._distinct, parts.distinct, strict=True):
            present = values.filter(values.column("v").is_valid())
            counts = _group(present, self.keys, [("v", "count", None)])
            names.append(f"distinct {column}")
            rows.append(counts.rename_columns([*self.keys, names[-1]]))
        return self.merge_states(pa.concat_tables(rows, promote_options="default").select(names))

    def results(self, states: pa.Table) -> pa.Table:
        """Turn merged, counted states into the node's result."""
        arrays = [states.column(key) for key in self.keys]
        arrays += [self._result(a, states) for a in self._node.aggregations]
        schema = self._node.schema
        typed = [_as_type(array, field.type) for array, field in zip(arrays, schema, strict=True)]
        return pa.Table.from_arrays(typed, schema=schema)

    def _named(self, table: pa.Table) -> pa.Table:
        return table.rename_columns([*self.keys, *(f"{state} {column}" for state, column in self._states)])

    def _finish_partial(self, states: pa.Table) -> pa.Table:
        for i, (state, column) in enumerate(self._states, start=len(self.keys)):
            values = states.column(i)
            if state == "sum":
                values = _narrow_sum(values, self._sum_type(column), column)
            elif state == "spread":
                # Arrow gives the variance; times n it is the sum of squares that can be merged.
                values = pc.fill_null(
                    pc.multiply(values, states.column(f"count {column}").cast(pa.float64())), 0.0
                )
            states = states.set_column(i, states.field(i).name, values)
        return states

    def _sum_type(self, column: str | None) -> pa.DataType:
        return next(
            a.result_type for a in self._node.aggregations if a.function == "sum" and a.column == column
        )

    def merge_states(self, states: pa.Table) -> pa.Table:
        """Merge rows of states that belong to the same group."""
        states = self._share_means(states)
        names = [name for name in states.schema.names if name not in self.keys]
        kinds = [name.split(" ", 1)[0] for name in names]
        inputs = states
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True), start=len(self.keys)):
            if kind == "sum":
                inputs = inputs.set_column(i, name, _safe_to_sum(states.column(i)))
        calls = [(name, *_merge_call(kind)) for name, kind in zip(names, kinds, strict=True)]
        merged = _group(inputs, self.keys, calls).rename_columns([*self.keys, *names])
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True), start=len(self.keys)):
            if kind == "sum":
                values = _narrow_sum(merged.column(i), states.schema.field(name).type, name[4:])
                merged = merged.set_column(i, name, values)
        return merged

    def _share_means(self, states: pa.Table) -> pa.Table:
        """Move every row's spread to its group's common mean (Chan, Golub, LeVeque 1979)."""
        spreads = [column for state, column in self._states if state == "spread"]
        if not spreads:
            return states
        groups = group_numbers(states.select(self.keys))
        for column in spreads:
            counts, means, spread = (
                np.asarray(pc.fill_null(states.column(f"{state} {column}").cast(pa.float64()), 0.0))
                for state in ("count", "mean", "spread")
            )
            with np.errstate(invalid="ignore", divide="ignore"):
                common = np.bincount(groups, counts * means) / np.bincount(groups, counts)
            common = np.nan_to_num(common, nan=0.0)[groups]
            moved = spread + counts * (means - common) ** 2
            for state, values in (("mean", common), ("spread", moved)):
                position = states.schema.get_field_index(f"{state} {column}")
                states = states.set_column(position, f"{state} {column}", pa.array(values))
        return states

    def _result(self, aggregation: Aggregation, states: pa.Table) -> Any:
        function, column = aggregation.function, aggregation.column
        if function == "nunique":
            return pc.fill_null(states.column(f"distinct {column}"), 0)
        if function == "mean":
            return pc.divide(states.column(f"total {column}"), _or_null(states.column(f"count {column}"), 0))
        if function in ("std", "var"):
            freedom = _or_null(pc.subtract(states.column(f"count {column}"), 1), 0, below=True)
            variance = pc.divide(states.column(f"spread {column}"), freedom)
            return pc.sqrt(variance) if function == "std" else variance
        return states.column(f"{STATES[function][0]} {column}")


_PARTIAL: dict[str, tuple[str, Any]] = {
    "sum": ("sum", _SKIP),
    "total": ("sum", _SKIP),
    "count": ("count", None),
    "mean": ("mean", None),
    "spread": ("variance", pc.VarianceOptions(ddof=0)),
    "min": ("min", None),
    "max": ("max", None),
    "any": ("any", _SKIP),
    "all": ("all", _SKIP),
}


def _merge_call(kind: str) -> tuple[str, Any]:
    function = _MERGED_BY[kind]
    return function, None if function in ("min", "max") else _SKIP


def _group(
    table: pa.Table, keys: list[str], calls: list[tuple[Any, str, Any]], nan_is_missing: bool = False
) -> pa.Table:
    """Aggregate like ``pyarrow.TableGroupBy``: keys first, groups in order of their first rows.

    ``nan_is_missing`` tells only about inputs that ``_keeps_nan`` names; the others have none.
    """
    if not keys:
        return pa.TableGroupBy(table, keys, use_threads=False).aggregate(calls)
    numbers, first_rows = _core.group_rows(table.select(keys))
    found: list[Any] = [None] * len(calls)
    for i, (column, function, options) in enumerate(calls):
        values = table.select([column]) if isinstance(column, str) else table.select(keys[:1])
        if _has_kernel(function, options, values.column(0).type):
            found[i] = _core.state_of_groups(function, numbers, len(first_rows), values, nan_is_missing)
    left = [i for i, state in enumerate(found) if state is None]
    if left:
        # One thread: with more, the order of groups (and of float additions) varies from run to run.
        numbered = table.append_column("group", numbers)
        others = pa.TableGroupBy(numbered, ["group"], use_threads=False).aggregate([calls[i] for i in left])
        for place, i in enumerate(left, start=1):
            found[i] = others.column(place)
    key_columns = take(table.select(keys), first_rows)
    names = [*keys, *(f"{column}_{function}" for column, function, _ in calls)]
    return pa.Table.from_arrays([*key_columns.columns, *found], names=names)


def _has_kernel(function: str, options: Any, kind: pa.DataType) -> bool:
    if function == "count":
        return options is None
    if function == "sum":
        return options is _SKIP and kind in _SUMMED
    return function in ("min", "max") and (kind in _SUMMED or (pt.is_temporal(kind) and kind.bit_width <= 64))


_SUMMED = {pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()}


def _distinct(table: pa.Table) -> pa.Table:
    return _group(table, table.schema.names, [])


def _keeps_nan(state: str, kind: pa.DataType) -> bool:
    """Tell whether the kernel of a state skips NaN by itself."""
    return state in ("sum", "total", "count", "min", "max") and kind in (pa.float32(), pa.float64())


def _input(state: str, values: Any, is_grouped: bool) -> Any:
    values = decode(values)
    if not (is_grouped and _keeps_nan(state, values.type)):
        values = without_nan(values)
    if state in ("total", "mean", "spread"):
        return values.cast(pa.float64(), safe=False)
    if state in ("any", "all"):
        return values if pt.is_boolean(values.type) else pc.not_equal(values, pa.scalar(0, values.type))
    if state == "sum":
        if is_float(values.type) or pt.is_null(values.type):
            return values.cast(pa.float64(), safe=False)
        if pt.is_boolean(values.type) or pt.is_duration(values.type):
            values = values.cast(pa.int64())
        return _safe_to_sum(values)
    if state in ("min", "max") and pt.is_duration(values.type):
        return values.cast(pa.int64())
    return values


def _safe_to_sum(values: Any) -> Any:
    """Widen 64-bit integers whose sum might wrap; Arrow's sum would wrap silently."""
    if values.type not in (pa.int64(), pa.uint64()) or not len(values):
        return values
    bounds = pc.min_max(values).as_py()
    greatest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    return values if greatest * len(values) < 2**63 else values.cast(pa.decimal128(20, 0))


def _narrow_sum(values: Any, dtype: pa.DataType, column: str | None) -> Any:
    if pt.is_decimal(dtype):
        return values.cast(dtype)
    try:
        return values.cast(pa.int64() if pt.is_duration(dtype) else dtype)
    except pa.ArrowInvalid:
        raise Overflow(
            f"[sum] the sum of a group does not fit in {dtype}, got column {column!r}: "
            f"sum it as floats, df[{column!r}].astype('float64')"
        ) from None


def _or_null(values: Any, bad: int, below: bool = False) -> Any:
    is_bad: Callable[..., Any] = pc.less_equal if below else pc.equal
    return pc.if_else(is_bad(values, bad), pa.scalar(None, pa.float64()), values.cast(pa.float64()))


def _as_type(values: Any, dtype: pa.DataType) -> Any:
    if pt.is_dictionary(dtype):
        return to_dictionary(values, dtype)
    return values.cast(dtype)
