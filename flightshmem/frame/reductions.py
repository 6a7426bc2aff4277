# SPDX-License-Identifier: Apache-2.0
"""Scalars of a column: every PE gets the answer over all rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.types as pt

from flightshmem.frame import collect
from flightshmem.plan.aggregates import aggregation
from flightshmem.plan.nodes import Aggregate, Node

if TYPE_CHECKING:
    from flightshmem.plan.expr import Expr


class Reductions:
    """Reductions of a Series. Missing values are skipped; all are collective."""

    _plan: Node
    _expr: Expr
    _name: str

    def _as_plan(self, name: str | None = None) -> Node:
        raise TypeError(type(self).__name__)

    def _reduce(self, function: str) -> Any:
        rows = self._as_plan("x")
        wanted = aggregation(function, "x", "x", rows.schema)
        value = collect.whole(Aggregate(rows, (), (wanted,))).column(0)[0]
        if not value.is_valid:
            return pd.NaT if pt.is_temporal(value.type) else math.nan
        return pd.Timestamp(value.as_py()) if pt.is_timestamp(value.type) else value.as_py()

    def __len__(self) -> int:
        return collect.count_rows(self._plan)

    def sum(self) -> Any:
        """Add up; 0 if there is nothing; ``Overflow`` if integers leave 64 bits. Collective."""
        return self._reduce("sum")

    def mean(self) -> Any:
        """Average; NaN if there is nothing. Collective."""
        return self._reduce("mean")

    def min(self) -> Any:
        """Smallest value; NaN if there is nothing. Collective."""
        return self._reduce("min")

    def max(self) -> Any:
        """Greatest value; NaN if there is nothing. Collective."""
        return self._reduce("max")

    def count(self) -> int:
        """Count values that are not missing. Collective."""
        return int(self._reduce("count"))

    def std(self) -> float:
        """Sample standard deviation (ddof=1); NaN below two values. Collective."""
        return float(self._reduce("std"))

    def var(self) -> float:
        """Sample variance (ddof=1); NaN below two values. Collective."""
        return float(self._reduce("var"))

    def nunique(self) -> int:
        """Count distinct values, exactly. Collective."""
        return int(self._reduce("nunique"))

    def any(self) -> bool:
        """Tell whether any value is true. Collective."""
        return bool(self._reduce("any"))

    def all(self) -> bool:
        """Tell whether all values are true. Collective."""
        return bool(self._reduce("all"))
