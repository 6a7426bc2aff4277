# SPDX-License-Identifier: Apache-2.0
"""Let columns of one frame be used with another whose rows are the same rows.

``late = df["delay"] > 15; df = df.assign(x=...); df[late]`` is what pandas users write. Both plans
reach a common node through projections only, so both can be expressed over that node.
"""

from __future__ import annotations

from dataclasses import dataclass

from flightshmem.errors import InvalidArgument
from flightshmem.plan.expr import Column, Expr, substitute
from flightshmem.plan.nodes import Node, Project, Scan


@dataclass(frozen=True)
class _View:
    """A plan's columns as expressions over ``base``. ``ids``: the nodes that stand for base."""

    base: Node
    columns: dict[str, Expr]
    ids: frozenset[int]


def all_columns(plan: Node) -> dict[str, Expr]:
    """Return every column of a plan as an expression over it."""
    return {field.name: Column(field.type, field.name) for field in plan.schema}


def _views(plan: Node) -> list[_View]:
    views = [_View(plan, all_columns(plan), _stands_for(plan))]
    while isinstance(plan, Project):
        computed = dict(plan.columns)
        columns = {name: substitute(expr, computed) for name, expr in views[-1].columns.items()}
        plan = plan.child
        views.append(_View(plan, columns, _stands_for(plan)))
    return views


def _stands_for(node: Node) -> frozenset[int]:
    # A persisted plan gives the rows of the plan it was made from.
    origin = node.origin() if isinstance(node, Scan) and node.origin is not None else None
    return frozenset({id(node)} if origin is None else {id(node), id(origin)})


def common_base(left: Node, right: Node, operation: str) -> tuple[Node, dict[str, Expr], dict[str, Expr]]:
    """Return a node of the same rows and the columns of both plans over it."""
    if left is right:
        return left, all_columns(left), all_columns(right)
    right_views = _views(right)
    for view in _views(left):
        for other in right_views:
            if view.ids & other.ids:
                base = view.base if isinstance(view.base, Scan) else other.base
                return base, view.columns, other.columns
    raise InvalidArgument(
        f"[{operation}] the columns belong to frames with different rows: "
        "compute them from the same frame, or bring them together with merge()"
    )
