# SPDX-License-Identifier: Apache-2.0
"""Write a plan as an indented tree with estimated rows and bytes and the chosen strategies."""

from __future__ import annotations

from flightshmem.plan.estimate import Estimate, Estimator
from flightshmem.plan.expr import Column
from flightshmem.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Scan,
    Sort,
    count_parents,
)

_JOIN_MOVES = {
    "auto": "",
    "local": "one PE, nothing moves",
    "copartitioned": "co-partitioned, nothing moves",
    "broadcast": "broadcast: the right side goes to every PE",
    "broadcast_left": "broadcast: the left side goes to every PE",
    "shuffle": "shuffle: both sides go by key",
    "shuffle_left": "shuffle: the left side goes by key, the right side lies so already",
    "shuffle_right": "shuffle: the right side goes by key, the left side lies so already",
}
_AGGREGATE_MOVES = {
    "auto": "",
    "local": "nothing moves",
    "hash": "partial on each PE, then by hash of key",
    "range": "partial on each PE, then by range of key, sorted",
    "gather": "partial on each PE, then to every PE",
}


def explain(plan: Node) -> str:
    """Describe a plan, inputs indented below the step that reads them."""
    estimate = Estimator()
    parents = count_parents(plan)
    numbers: dict[int, int] = {}
    lines: list[str] = []

    def visit(node: Node, depth: int) -> None:
        indent = "  " * depth
        if id(node) in numbers:
            lines.append(f"{indent}(shared #{numbers[id(node)]}, computed once)")
            return
        shared = ""
        if parents.get(id(node), 0) > 1:
            numbers[id(node)] = len(numbers) + 1
            shared = f"  (shared #{numbers[id(node)]})"
        lines.append(f"{indent}{describe(node)}  {size(estimate(node))}{shared}")
        for child in node.children:
            visit(child, depth + 1)

    visit(plan, 0)
    return "\n".join(lines)


def describe(node: Node) -> str:
    """Name one step and its arguments."""
    if isinstance(node, Scan):
        rows = f" where {node.predicate}" if node.predicate else ""
        return f"Scan {node.source.describe()} [{_names(node.columns)}]{rows}"
    if isinstance(node, Filter):
        return f"Filter {node.predicate}"
    if isinstance(node, Project):
        return f"Project [{_projection(node)}]"
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, Sort):
        keys = _names([key.column + ("" if key.is_ascending else " descending") for key in node.order.keys])
        return f"Sort [{keys}]" + ("" if node.order.missing_last else " missing first")
    assert isinstance(node, Limit)
    return f"Limit {node.rows}"


def _projection(node: Project) -> str:
    return _names([name if _is_copy(name, expr) else f"{name}={expr}" for name, expr in node.columns])


def _is_copy(name: str, expr: object) -> bool:
    return isinstance(expr, Column) and expr.name == name


def _join(node: Join) -> str:
    keys = ", ".join(a if a == b else f"{a} = {b}" for a, b in zip(node.left_on, node.right_on, strict=True))
    moves = _JOIN_MOVES[node.strategy]
    return f"Join {node.how} on {keys}" + (f" ({moves})" if moves else "")


def _aggregate(node: Aggregate) -> str:
    keys = f" by {', '.join(node.keys)}" if node.keys else ""
    moves = _AGGREGATE_MOVES[node.strategy]
    what = ", ".join(str(a) for a in node.aggregations)
    return f"Aggregate{keys} [{what}]" + (f" ({moves})" if moves else "")


def _names(names: list[str] | tuple[str, ...]) -> str:
    if len(names) <= 8:
        return ", ".join(names)
    return ", ".join(names[:6]) + f", ... {len(names)} in all"


def size(estimate: Estimate) -> str:
    """Write an estimate."""
    if estimate.rows is None or estimate.size_bytes is None:
        return "~? rows"
    return f"~{estimate.rows:,.0f} rows, ~{_bytes(estimate.size_bytes)}"


def _bytes(amount: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
