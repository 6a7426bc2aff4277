# SPDX-License-Identifier: Apache-2.0
"""The nodes of a plan. Each knows its schema as soon as it is built, so wrong columns fail early.

Nodes compare by identity: a node that two parents share is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol
from weakref import ReferenceType

import pyarrow as pa

from flightshmem.plan.aggregates import Aggregation
from flightshmem.plan.expr import Expr

Partitioning = tuple[str, ...] | None
"""The columns whose hash says which PE has a row; None if nothing is known."""


class Source(Protocol):
    """Rows that exist already: files, tables in memory, published tables."""

    @property
    def schema(self) -> pa.Schema:
        """Columns it can give."""

    @property
    def rows(self) -> int | None:
        """Rows on all PEs, None if unknown; equal on every PE."""

    @property
    def partitioned_by(self) -> Partitioning:
        """The hash partitioning its rows have."""

    def column_bytes(self, name: str) -> float | None:
        """Estimate the bytes of one column on all PEs (None: as its type says); equal on every PE."""

    def describe(self) -> str:
        """Say what it is, for explain()."""

    def restricted(self, predicate: pa.compute.Expression) -> Source:
        """Leave out parts (row groups) in which the predicate cannot be true for any row."""

    def read(self, columns: Sequence[str], pe: int, n_pes: int) -> Iterator[pa.Table]:
        """Yield this PE's rows. Local."""


@dataclass(frozen=True, eq=False)
class Node:
    """A step of a plan."""

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the result."""
        raise TypeError(type(self).__name__)

    @property
    def children(self) -> tuple[Node, ...]:
        """The inputs."""
        return ()

    def with_children(self, *children: Node) -> Node:
        """Return the same step on other inputs."""
        return self


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """Read a source. ``origin``: the plan whose result the source holds, if it was persisted.

    Weak, so that a persisted frame does not keep alive what it was made from.
    """

    source: Source
    columns: tuple[str, ...]
    origin: ReferenceType[Node] | None = None
    predicate: str = ""

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([self.source.schema.field(name) for name in self.columns])

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the result."""
        return self._schema


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A step on one input that keeps its columns."""

    child: Node

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the result."""
        return self.child.schema

    @property
    def children(self) -> tuple[Node, ...]:
        """The inputs."""
        return (self.child,)

    def with_children(self, *children: Node) -> Node:
        """Return the same step on another input."""
        return replace(self, child=children[0])


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    """Keep the rows for which the predicate is true (not false, not null)."""

    predicate: Expr


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """Compute columns row by row."""

    columns: tuple[tuple[str, Expr], ...]

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, expr.type) for name, expr in self.columns])

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the result."""
        return self._schema


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Pair rows with equal keys. ``left_columns`` and ``right_columns`` map input to output names.

    ``key_types``: the types both sides' keys are compared in. ``strategy``: auto, local, copartitioned,
    broadcast (the right side goes to all PEs), broadcast_left, shuffle, shuffle_left, shuffle_right.
    """

    left: Node
    right: Node
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    how: str
    left_columns: tuple[tuple[str, str], ...]
    right_columns: tuple[tuple[str, str], ...]
    strategy: str = "auto"

    @cached_property
    def _schema(self) -> pa.Schema:
        fields = [self.left.schema.field(name).with_name(out) for name, out in self.left_columns]
        fields += [self.right.schema.field(name).with_name(out) for name, out in self.right_columns]
        return pa.schema([pa.field(f.name, f.type) for f in fields])

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the result."""
        return self._schema

    @property
    def children(self) -> tuple[Node, ...]:
        """The inputs."""
        return (self.left, self.right)

    def with_children(self, *children: Node) -> Node:
        """Return the same join of other inputs."""
        return replace(self, left=children[0], right=children[1])


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """Group rows by keys (no keys: all rows are one group, and every PE gets it) and reduce each group.

    ``is_sorted``: groups come out in key order over all PEs. ``drops_missing``: rows with a missing key
    are left out. ``strategy``: auto, local, hash, range, gather.
    """

    keys: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]
    is_sorted: bool = True
    drops_missing: bool = True
    strategy: str = "auto"

    @cached_property
    def _schema(self) -> pa.Schema:
        fields = [pa.field(name, self.child.schema.field(name).type) for name in self.keys]
        return pa.schema([*fields, *(pa.field(a.output, a.result_type) for a in self.aggregations)])

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the result."""
        return self._schema


@dataclass(frozen=True)
class SortKey:
    """One column of a sort order."""

    column: str
    is_ascending: bool = True


@dataclass(frozen=True)
class SortOrder:
    """The order of rows: by the first key, ties by the next.

    Missing values come last, or first, whatever the direction.
    """

    keys: tuple[SortKey, ...]
    missing_last: bool = True


@dataclass(frozen=True, eq=False)
class Sort(Unary):
    """Order rows over all PEs, stably."""

    order: SortOrder


@dataclass(frozen=True, eq=False)
class Limit(Unary):
    """Keep the first rows in PE order."""

    rows: int


def walk(plan: Node) -> Iterator[Node]:
    """Yield every node once, children before parents."""
    seen: set[int] = set()

    def visit(node: Node) -> Iterator[Node]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.children:
            yield from visit(child)
        yield node

    yield from visit(plan)


def count_parents(plan: Node) -> dict[int, int]:
    """Return how many parents use each node, by id."""
    counts: dict[int, int] = {}
    for node in walk(plan):
        for child in node.children:
            counts[id(child)] = counts.get(id(child), 0) + 1
    return counts
