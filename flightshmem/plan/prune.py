# SPDX-License-Identifier: Apache-2.0
"""Drop columns nobody reads, from the result down to the scans."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from flightshmem.plan.expr import Expr, columns_of
from flightshmem.plan.nodes import Aggregate, Filter, Join, Node, Project, Scan, Sort, walk
from flightshmem.plan.types import width_bytes


def prune_columns(plan: Node) -> Node:
    """Give every node only the columns its parents read; the result keeps all of its own."""
    needed = {id(node): set[str]() for node in walk(plan)}
    needed[id(plan)] = set(plan.schema.names)
    for node in reversed(list(walk(plan))):
        for child, names in zip(node.children, _needs(node, needed[id(node)]), strict=True):
            needed[id(child)] |= names
    done: dict[int, Node] = {}
    for node in walk(plan):
        children = tuple(done[id(child)] for child in node.children)
        done[id(node)] = _narrow(node.with_children(*children), needed[id(node)])
    return done[id(plan)]


def _needs(node: Node, wanted: set[str]) -> list[set[str]]:
    """Return what a node reads of each child to give the wanted columns."""
    if isinstance(node, Filter):
        return [wanted | columns_of(node.predicate)]
    if isinstance(node, Project):
        kept = _kept_columns(node, wanted)
        return [set().union(*(columns_of(expr) for _, expr in kept))]
    if isinstance(node, Join):
        left, right = _kept_sides(node, wanted)
        return [
            {name for name, _ in left} | set(node.left_on),
            {name for name, _ in right} | set(node.right_on),
        ]
    if isinstance(node, Aggregate):
        return [set(node.keys) | {a.column for a in node.aggregations if a.column and a.output in wanted}]
    if isinstance(node, Sort):
        return [wanted | {key.column for key in node.order.keys}]
    return [set(wanted) for _ in node.children]


def _narrow(node: Node, wanted: set[str]) -> Node:
    if isinstance(node, Scan):
        kept = tuple(name for name in node.columns if name in wanted)
        return replace(node, columns=kept or (cheapest(node.schema),))
    if isinstance(node, Project):
        return replace(node, columns=_kept_columns(node, wanted))
    if isinstance(node, Join):
        left, right = _kept_sides(node, wanted)
        return replace(node, left_columns=left, right_columns=right)
    if isinstance(node, Aggregate):
        return replace(node, aggregations=tuple(a for a in node.aggregations if a.output in wanted))
    return node


def _kept_columns(node: Project, wanted: set[str]) -> tuple[tuple[str, Expr], ...]:
    # A table without columns would lose its number of rows.
    return tuple(pair for pair in node.columns if pair[0] in wanted) or node.columns[:1]


Pairs = tuple[tuple[str, str], ...]


def _kept_sides(node: Join, wanted: set[str]) -> tuple[Pairs, Pairs]:
    left = tuple(pair for pair in node.left_columns if pair[1] in wanted)
    right = tuple(pair for pair in node.right_columns if pair[1] in wanted)
    return (left if left or right else node.left_columns[:1]), right


def cheapest(schema: pa.Schema) -> str:
    """Return the column that costs least to read, when only the number of rows matters."""
    flat = [field for field in schema if not pt.is_nested(field.type)] or list(schema)
    return str(min(flat, key=lambda field: width_bytes(field.type)).name)
