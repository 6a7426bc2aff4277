# SPDX-License-Identifier: Apache-2.0
"""The reference: what a plan means, over all rows in one process, with nothing clever."""

from __future__ import annotations

import pyarrow as pa

from flightshmem.execute.aggregate import Grouping
from flightshmem.execute.join import Joiner, match_rows
from flightshmem.execute.rows import concat, keep, project
from flightshmem.execute.sort import sort_table
from flightshmem.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Scan,
    Sort,
    SortKey,
    SortOrder,
)


class LocalExecutor:
    """Runs a plan as written, without optimizing it; the oracle for every other executor."""

    def execute(self, plan: Node) -> pa.Table:
        """Return all rows of the result."""
        inputs = [self.execute(child) for child in plan.children]
        if isinstance(plan, Scan):
            return concat(plan.source.read(plan.columns, 0, 1), plan.schema)
        if isinstance(plan, Filter):
            return keep(inputs[0], plan.predicate)
        if isinstance(plan, Project):
            return project(inputs[0], plan)
        if isinstance(plan, Join):
            left, right = inputs
            return Joiner(right, plan, lambda keys: lambda rows, how: match_rows(rows, keys, how)).join(left)
        if isinstance(plan, Aggregate):
            grouping = Grouping(plan)
            result = grouping.results(grouping.counted(grouping.partial(inputs[0])))
            return sort_table(result, SortOrder(tuple(map(SortKey, plan.keys)))) if plan.is_sorted else result
        if isinstance(plan, Sort):
            return sort_table(inputs[0], plan.order)
        assert isinstance(plan, Limit)
        return inputs[0].slice(0, plan.rows)


class RaiseIfExecuted:
    """Proves that building a plan runs nothing."""

    def execute(self, plan: Node) -> pa.Table:
        """Raise."""
        raise AssertionError(f"a plan was executed: {type(plan).__name__}")

    gather = persistable = execute
