# SPDX-License-Identifier: Apache-2.0
"""Rewrite a plan into a cheaper one with the same rows. Pure functions, the same result on every PE.

1. filters move down: below projections and sorts, into the side of a join they concern, and, as
   row-group pruning, into scans;
2. columns nobody reads are dropped, down to the scans;
3. joins and aggregations get their strategy from estimated bytes and known partitionings.

A node that several parents share stays shared, so it is computed once.
"""

from __future__ import annotations

from dataclasses import replace

from flightshmem.plan.expr import Column, Expr, columns_of, join_and, split_and, substitute
from flightshmem.plan.nodes import Filter, Join, Node, Project, Scan, Sort, count_parents
from flightshmem.plan.prune import prune_columns
from flightshmem.plan.pushdown import arrow_predicate
from flightshmem.plan.strategy import choose_strategies


def optimize(plan: Node, n_pes: int) -> Node:
    """Rewrite a plan for a number of PEs."""
    return choose_strategies(prune_columns(push_filters(plan)), n_pes)


def push_filters(plan: Node) -> Node:
    """Move filters towards the scans; a shared node keeps its filters above it."""
    return _FilterPush(plan).rewrite(plan)


class _FilterPush:
    def __init__(self, plan: Node) -> None:
        self._parents = count_parents(plan)
        # The node itself is kept beside its rewriting: ids are only unique among living objects.
        self._done: dict[int, tuple[Node, Node]] = {}

    def rewrite(self, node: Node) -> Node:
        if id(node) not in self._done:
            moved = node
            if isinstance(node, Filter):
                conjuncts, below = self._collect(node)
                moved = _filtered(below, conjuncts) if self._is_shared(below) else _sink(conjuncts, below)
            self._done[id(node)] = node, self._rewrite_children(moved)
        return self._done[id(node)][1]

    def _rewrite_children(self, node: Node) -> Node:
        children = tuple(self.rewrite(child) for child in node.children)
        same = all(new is old for new, old in zip(children, node.children, strict=True))
        return node if same else node.with_children(*children)

    def _is_shared(self, node: Node) -> bool:
        return self._parents.get(id(node), 0) > 1

    def _collect(self, node: Filter) -> tuple[list[Expr], Node]:
        """Gather the conjuncts of filters that lie on one another, the lowest first."""
        conjuncts: list[Expr] = []
        below: Node = node
        while isinstance(below, Filter) and (below is node or not self._is_shared(below)):
            conjuncts = split_and(below.predicate) + conjuncts
            below = below.child
        return conjuncts, below


def _filtered(node: Node, conjuncts: list[Expr]) -> Node:
    return Filter(node, join_and(conjuncts)) if conjuncts else node


def _sink(conjuncts: list[Expr], node: Node) -> Node:
    """Put conjuncts as far below ``node`` as they keep their meaning."""
    if not conjuncts:
        return node
    if isinstance(node, Sort):
        return replace(node, child=_filtered(node.child, conjuncts))
    if isinstance(node, Project):
        return _sink_project(conjuncts, node)
    if isinstance(node, Join):
        return _sink_join(conjuncts, node)
    if isinstance(node, Scan):
        return _filtered(_restrict(node, conjuncts), conjuncts)
    return _filtered(node, conjuncts)


def _sink_project(conjuncts: list[Expr], node: Project) -> Node:
    copies = {name: expr for name, expr in node.columns if isinstance(expr, Column)}
    below: list[Expr] = []
    above: list[Expr] = []
    for part in conjuncts:
        (below if columns_of(part) <= copies.keys() else above).append(part)
    moved = [substitute(part, copies) for part in below]
    return _filtered(replace(node, child=_filtered(node.child, moved)), above)


def _sink_join(conjuncts: list[Expr], node: Join) -> Node:
    left = _origins(node.left, node.left_columns)
    right = _origins(node.right, node.right_columns) if node.how == "inner" else {}
    to_left: list[Expr] = []
    to_right: list[Expr] = []
    above: list[Expr] = []
    for part in conjuncts:
        names = columns_of(part)
        if names <= left.keys():
            to_left.append(substitute(part, left))
        elif names <= right.keys():
            to_right.append(substitute(part, right))
        else:
            above.append(part)
    joined = replace(node, left=_filtered(node.left, to_left), right=_filtered(node.right, to_right))
    return _filtered(joined, above)


def _origins(side: Node, columns: tuple[tuple[str, str], ...]) -> dict[str, Expr]:
    return {out: Column(side.schema.field(name).type, name) for name, out in columns}


def _restrict(node: Scan, conjuncts: list[Expr]) -> Scan:
    predicate = arrow_predicate(conjuncts)
    if predicate is None:
        return node
    text = " & ".join(str(part) for part in conjuncts)
    return replace(node, source=node.source.restricted(predicate), predicate=text)
