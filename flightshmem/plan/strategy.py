# SPDX-License-Identifier: Apache-2.0
"""Choose how joins and aggregations move rows: not at all, the small side to all PEs, or by key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from flightshmem.plan.estimate import Estimator
from flightshmem.plan.expr import Column
from flightshmem.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Partitioning,
    Project,
    Scan,
    walk,
)
from flightshmem.plan.types import is_text, value_type

# A side this small is cheaper to copy to every PE than to look at any longer.
_ALWAYS_BROADCAST_BYTES = 1 << 20
# Copying a side to every PE also makes every PE build the whole hash table: it must save twice its bytes.
_BROADCAST_GAIN = 2.0
_UNKNOWN = float("inf")


def choose_strategies(plan: Node, n_pes: int) -> Node:
    """Set the strategy of every join and aggregation that is ``auto``."""
    estimate = Estimator()
    done: dict[int, Node] = {}
    for node in walk(plan):
        rebuilt = node.with_children(*(done[id(child)] for child in node.children))
        if isinstance(rebuilt, Join):
            rebuilt = replace(rebuilt, strategy=_join_strategy(rebuilt, n_pes, estimate))
        elif isinstance(rebuilt, Aggregate) and rebuilt.strategy == "auto":
            rebuilt = replace(rebuilt, strategy=_aggregate_strategy(rebuilt, n_pes))
        done[id(node)] = rebuilt
    return done[id(plan)]


def _join_strategy(node: Join, n_pes: int, estimate: Estimator) -> str:
    if n_pes == 1:
        return "local"
    if node.strategy not in ("auto", "shuffle"):
        return node.strategy
    shuffle = _shuffle_strategy(node)
    if node.strategy == "shuffle" or shuffle == "copartitioned":
        return shuffle
    left, right = (_bytes(estimate, side) for side in node.children)
    stays = {"shuffle_right": left, "shuffle_left": right}.get(shuffle, 0.0)
    budget = max(_ALWAYS_BROADCAST_BYTES, (left + right - stays) / (n_pes * _BROADCAST_GAIN))
    if right <= budget and right < _UNKNOWN:
        return "broadcast"
    if node.how == "inner" and left <= budget and left < _UNKNOWN:
        return "broadcast_left"
    return shuffle


def _bytes(estimate: Estimator, node: Node) -> float:
    size = estimate(node).size_bytes
    return _UNKNOWN if size is None else size


def _shuffle_strategy(node: Join) -> str:
    """Say which sides have to move so that equal keys meet."""
    left, right = partitioning(node.left), partitioning(node.right)
    by_left = _positions(left, node.left_on) if left else None
    by_right = _positions(right, node.right_on) if right else None
    if not all(hashes_alike(*types) for types in _key_types(node)):
        return "shuffle"
    if by_left is not None and by_left == by_right:
        return "copartitioned"
    if by_left is not None:
        return "shuffle_right"
    return "shuffle" if by_right is None else "shuffle_left"


def _positions(columns: tuple[str, ...], keys: tuple[str, ...]) -> tuple[int, ...] | None:
    return tuple(keys.index(name) for name in columns) if set(columns) <= set(keys) else None


def _key_types(node: Join) -> list[tuple[pa.DataType, pa.DataType]]:
    left, right = node.left.schema, node.right.schema
    pairs = zip(node.left_on, node.right_on, strict=True)
    return [(left.field(a).type, right.field(b).type) for a, b in pairs]


def hashes_alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Tell whether equal values of two types hash to the same PE."""
    left, right = value_type(left), value_type(right)
    if left.equals(right) or (is_text(left) and is_text(right)):
        return True
    return bool(pt.is_integer(left) and pt.is_integer(right))


def _aggregate_strategy(node: Aggregate, n_pes: int) -> str:
    if not node.keys:
        return "gather"
    if n_pes == 1:
        return "local"
    if node.is_sorted:
        return "range"
    known = partitioning(node.child)
    return "local" if known is not None and set(known) <= set(node.keys) else "hash"


def partitioning(node: Node, split: Collection[int] = ()) -> Partitioning:
    """Return the columns by whose hash the rows of a node lie on PEs; strategies must be chosen.

    ``split``: ids of the joins that kept frequent keys where they were. Only those may that are
    splittable: then what was planned from the partitioning of their inputs stays true.
    """
    if isinstance(node, Scan):
        known = node.source.partitioned_by
        return known if known is not None and set(known) <= set(node.columns) else None
    if isinstance(node, (Filter, Limit)):
        return partitioning(node.child, split)
    if isinstance(node, Project):
        copies: dict[str, str] = {}
        for name, expr in node.columns:
            if isinstance(expr, Column):
                copies.setdefault(expr.name, name)
        return _renamed(partitioning(node.child, split), copies)
    if isinstance(node, Join):
        return None if id(node) in split else _join_partitioning(node, split)
    if isinstance(node, Aggregate):
        if node.strategy == "local":
            return partitioning(node.child, split)
        return node.keys if node.strategy == "hash" else None
    return None


def splittable(plan: Node) -> frozenset[int]:
    """Return the ids of the shuffled joins of a plan whose partitioning no step above relies on."""
    relied: set[int] = set()
    shuffled = set[int]()
    # Parents come before their children.
    for node in reversed(list(walk(plan))):
        if isinstance(node, Join) and node.strategy == "shuffle":
            shuffled.add(id(node))
        for child, needs in zip(node.children, _relies(node, id(node) in relied), strict=True):
            if needs:
                relied.add(id(child))
    return frozenset(shuffled - relied)


def _relies(node: Node, is_relied: bool) -> tuple[bool, ...]:
    """Say for each child whether its partitioning must be what was planned."""
    if isinstance(node, Join):
        return {
            "copartitioned": (True, True),
            "shuffle_right": (True, False),
            "shuffle_left": (False, True),
            "broadcast_left": (False, is_relied),
            "shuffle": (False, False),
        }.get(node.strategy, (is_relied, False))
    if isinstance(node, Aggregate):
        return (node.strategy == "local",)
    return (is_relied,) * len(node.children)


def _join_partitioning(node: Join, split: Collection[int]) -> Partitioning:
    outputs = dict(reversed(node.left_columns))
    if node.strategy in ("broadcast", "copartitioned", "shuffle_right", "local"):
        return _renamed(partitioning(node.left, split), outputs)
    if node.strategy == "broadcast_left":
        return _renamed(partitioning(node.right, split), dict(node.right_columns))
    by_own_type = all(hashes_alike(left, right) for left, right in _key_types(node))
    if not by_own_type:
        return None
    keys: Partitioning = node.left_on
    if node.strategy == "shuffle_left":
        known = partitioning(node.right)
        keys = known and tuple(node.left_on[node.right_on.index(name)] for name in known)
    return _renamed(keys, outputs)


def _renamed(columns: Partitioning, names: dict[str, str]) -> Partitioning:
    if columns is None or not set(columns) <= names.keys():
        return None
    return tuple(names[name] for name in columns)
