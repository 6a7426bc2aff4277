# SPDX-License-Identifier: Apache-2.0
"""Group-by: pandas' verbs, keys as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flightshmem.errors import InvalidArgument
from flightshmem.frame.names import find, find_all
from flightshmem.plan.aggregates import Aggregation, aggregation
from flightshmem.plan.expr import Column, call, cast, literal
from flightshmem.plan.nodes import Aggregate, Node, Project, Sort, SortKey, SortOrder
from flightshmem.plan.types import check_names, is_number

if TYPE_CHECKING:
    from flightshmem.frame.frame import DataFrame
    from flightshmem.frame.series import Series


class GroupBy:
    """Groups of a frame. Every method returns a lazy frame: the keys, then one column per aggregate.

    Aggregates skip missing values; the sum of none is 0, mean, std, min and max of none are missing.
    """

    def __init__(
        self,
        plan: Node,
        keys: tuple[str, ...],
        is_sorted: bool,
        drops_missing: bool,
        columns: tuple[str, ...] | None = None,
        is_single: bool = False,
    ) -> None:
        self._plan = plan
        self._keys = keys
        self._is_sorted = is_sorted
        self._drops_missing = drops_missing
        chosen = columns if columns is not None else tuple(n for n in plan.schema.names if n not in keys)
        self._columns = chosen
        self._is_single = is_single

    def __getitem__(self, columns: str | Sequence[str]) -> GroupBy:
        """Choose the columns to aggregate."""
        names = [columns] if isinstance(columns, str) else list(columns)
        find_all(self._plan.schema, names, "groupby")
        is_single = isinstance(columns, str)
        return GroupBy(self._plan, self._keys, self._is_sorted, self._drops_missing, tuple(names), is_single)

    def __getattr__(self, name: str) -> GroupBy:
        if name.startswith("_") or name not in self._plan.schema.names:
            raise AttributeError(
                f"GroupBy has no attribute or column {name!r}; columns: {self._plan.schema.names}"
            )
        return self[name]

    def agg(self, functions: Any = None, **named: Any) -> DataFrame:
        """Aggregate by name, list of names, mapping, or named aggregation.

        ``agg("sum")``; ``agg(["min", "max"])`` gives ``x_min``, ``x_max`` (``min``, ``max`` if one column
        was chosen by ``["x"]``); ``agg({"x": "sum", "y": ["min", "max"]})`` gives ``x``, ``y_min``,
        ``y_max``; ``agg(total=("x", "sum"))`` gives ``total``. Functions: sum, mean, count, min, max, std,
        var, nunique, size, any, all.
        """
        if (functions is None) == (not named):
            raise InvalidArgument(
                "[agg] functions are needed, either positional or named, e.g. agg(total=('x', 'sum'))"
            )
        if named:
            return self._aggregate([self._named(output, choice) for output, choice in named.items()])
        if isinstance(functions, Mapping):
            return self._aggregate(
                [triple for name, f in functions.items() for triple in _of_column(name, f, name)]
            )
        triples = []
        for name in self._columns:
            prefix = "" if self._is_single and not isinstance(functions, str) else name
            triples += _of_column(name, functions, prefix)
        return self._aggregate(triples)

    aggregate = agg

    def _named(self, output: str, choice: Any) -> tuple[str, str | None, str]:
        if isinstance(choice, str) and self._is_single:
            return choice, self._columns[0], output
        if isinstance(choice, tuple) and len(choice) == 2:
            column, function = choice
            return function, column, output
        raise InvalidArgument(
            f"[agg] a named aggregation is name=(column, function), got {output}={choice!r}"
        )

    def _aggregate(self, triples: Sequence[tuple[str, str | None, str]]) -> DataFrame:
        from flightshmem.frame.frame import DataFrame

        schema = self._plan.schema
        made: list[Aggregation] = []
        for function, column, output in triples:
            if column is not None:
                find(schema, column, "agg")
            made.append(aggregation(function, None if function == "size" else column, output, schema))
        check_names([*self._keys, *(a.output for a in made)], "agg")
        return DataFrame(Aggregate(self._plan, self._keys, tuple(made), self._is_sorted, self._drops_missing))

    def _each(self, function: str, numeric_only: bool = False) -> DataFrame:
        names = self._columns
        if numeric_only:
            names = tuple(name for name in names if is_number(self._plan.schema.field(name).type))
        return self._aggregate([(function, name, name) for name in names])

    def size(self) -> DataFrame:
        """Count the rows of each group, in a column ``size``."""
        return self._aggregate([("size", None, "size")])

    def count(self) -> DataFrame:
        """Count values that are not missing."""
        return self._each("count")

    def sum(self, numeric_only: bool = False) -> DataFrame:
        """Add up; integers that do not fit in 64 bits raise ``Overflow``."""
        return self._each("sum", numeric_only)

    def mean(self, numeric_only: bool = False) -> DataFrame:
        """Average."""
        return self._each("mean", numeric_only)

    def min(self, numeric_only: bool = False) -> DataFrame:
        """Smallest value."""
        return self._each("min", numeric_only)

    def max(self, numeric_only: bool = False) -> DataFrame:
        """Greatest value."""
        return self._each("max", numeric_only)

    def std(self, numeric_only: bool = False) -> DataFrame:
        """Sample standard deviation (ddof=1)."""
        return self._each("std", numeric_only)

    def var(self, numeric_only: bool = False) -> DataFrame:
        """Sample variance (ddof=1)."""
        return self._each("var", numeric_only)

    def nunique(self) -> DataFrame:
        """Count distinct values, exactly."""
        return self._each("nunique")

    def any(self) -> DataFrame:
        """Tell whether any value is true."""
        return self._each("any")

    def all(self) -> DataFrame:
        """Tell whether all values are true."""
        return self._each("all")


def _of_column(name: str, functions: Any, prefix: str) -> list[tuple[str, str | None, str]]:
    if isinstance(functions, str) or not isinstance(functions, Sequence):
        return [(functions, name, name)]
    return [(f, name, f"{prefix}_{f}" if prefix else str(f)) for f in functions]


def value_counts(series: Series, normalize: bool, ascending: bool, dropna: bool) -> DataFrame:
    """Build ``Series.value_counts``."""
    from flightshmem.frame.frame import DataFrame

    rows, name = series._as_plan(), series.name
    output = "proportion" if normalize else "count"
    check_names([name, output], "value_counts")
    size = Aggregation("size", None, output, pa.int64())
    counts: Node = Aggregate(rows, (name,), (size,), is_sorted=False, drops_missing=dropna)
    if normalize:
        total = int(series.count()) if dropna else len(series)
        count = cast(Column(pa.int64(), output), pa.float64())
        share = call("divide", count, literal(float(total)))
        counts = Project(counts, ((name, Column(counts.schema.field(name).type, name)), (output, share)))
    return DataFrame(Sort(counts, SortOrder((SortKey(output, ascending), SortKey(name)))))
