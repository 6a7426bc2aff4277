# SPDX-License-Identifier: Apache-2.0
"""Run a plan on all PEs: local steps on each PE's rows, exchanges between them.

Local steps run inside ``converge``, so an error on one PE is raised on all of them and none waits for
ever in the next exchange. Steps that need no exchange are chained batch by batch: a scan, its filters,
projections, broadcast joins and the first half of an aggregation never hold more than a batch in full.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from flightshmem import _core, exchange, runtime
from flightshmem.errors import InvalidArgument
from flightshmem.execute import gather, skew
from flightshmem.execute.aggregate import Grouping, Parts
from flightshmem.execute.join import Joiner
from flightshmem.execute.keys import key_table
from flightshmem.execute.rows import arrow_errors, concat, keep, project, rechunk
from flightshmem.execute.sampling import barely_shrinks, count_groups, peek
from flightshmem.execute.sort import Cut, choose_cuts, range_pes, sample, sort_table
from flightshmem.plan.estimate import Estimator
from flightshmem.plan.explain import describe, explain
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
    count_parents,
)
from flightshmem.plan.optimize import optimize
from flightshmem.plan.strategy import hashes_alike, partitioning, splittable

Batches = Callable[[], Iterator[pa.Table]]
"""Opens a stream of this PE's rows; local, to be called once."""

# Joins by text or several keys look at the right side once per batch of the left: batches must not be
# smaller.
_JOIN_ROWS = 1 << 18
# Making a table of fewer rows costs less than sharing it.
_SHARED_ROWS = 1 << 16
# Per PE; enough to keep ranges within a few percent of even.
_SAMPLE_ROWS = 2048


class SpmdExecutor:
    """Executes plans. All methods are collective; every PE passes the same plan."""

    def __init__(self) -> None:
        self._runtime = runtime.current()
        self._shared: dict[int, list[pa.Table]] = {}
        self._uses: dict[int, int] = {}
        # Joins that may keep frequent keys where they are, and those that have.
        self._may_split: frozenset[int] = frozenset()
        self._split: set[int] = set()

    def optimized(self, plan: Node) -> Node:
        """Return the plan that will run. Local."""
        return optimize(plan, self._runtime.n_pes)

    def execute(self, plan: Node, each: Callable[[pa.Table], pa.Table] | None = None) -> pa.Table:
        """Return this PE's rows; dictionaries are sorted and equal on all PEs.

        ``each`` is applied to every batch of the result before it is kept.
        """
        return self._result(self.optimized(plan), each)

    def gather(self, plan: Node) -> pa.Table:
        """Return all rows on every PE, in PE order."""
        plan = self.optimized(plan)
        table = self._result(plan)
        is_whole = isinstance(plan, Aggregate) and plan.strategy == "gather"
        return table if is_whole else gather.whole(self._runtime, table)

    def persistable(self, plan: Node) -> tuple[pa.Table, tuple[str, ...] | None]:
        """Return this PE's rows and the columns by whose hash they lie on PEs."""
        plan = self.optimized(plan)
        table = self._result(plan)
        return table, partitioning(plan, self._split)

    def _result(self, plan: Node, each: Callable[[pa.Table], pa.Table] | None = None) -> pa.Table:
        self._check_agreement(plan)
        self._uses = count_parents(plan)
        self._may_split = splittable(plan)
        table = self._collect(plan, each)
        # What intermediates took goes back to the system: the heap or a model may need it next.
        pa.default_memory_pool().release_unused()
        has_dictionaries = any(pa.types.is_dictionary(field.type) for field in table.schema)
        return exchange.unify_dictionaries(table) if has_dictionaries else table

    def _check_agreement(self, plan: Node) -> None:
        """Refuse plans that differ between PEs: their exchanges would never meet."""
        if self._runtime.n_pes == 1:
            return
        mine = explain(plan)
        digest = hashlib.sha256(mine.encode()).digest()
        others = self._runtime.allgather(digest)
        if len(set(others)) > 1:
            pe = next(pe for pe, other in enumerate(others) if other != others[0])
            raise InvalidArgument(
                f"[execute] PE 0 and PE {pe} run different plans, "
                f"PE {self._runtime.pe}/{self._runtime.n_pes}: "
                "build the same frame from the same data on every PE (distributed=True for own parts); "
                f"the plan here is\n{mine}"
            )

    @contextmanager
    def _local_step(self, node: Node) -> Iterator[None]:
        operation = describe(node).split(" ", 1)[0].lower()
        with self._runtime.converge(operation), arrow_errors(operation):
            yield

    # -- streams and tables

    def _collect(self, node: Node, each: Callable[[pa.Table], pa.Table] | None = None) -> pa.Table:
        """Return all of this PE's rows of a node."""
        batches = self._stream(node)
        with self._local_step(node):
            if each is None:
                return concat(batches(), node.schema)
            return concat(map(each, batches()), each(node.schema.empty_table()).schema)

    def _stream(self, node: Node) -> Batches:
        """Run what a node needs from other PEs and return its rows as a stream."""
        uses = self._uses.get(id(node), 0)
        if uses <= 1:
            return self._open(node)
        if id(node) not in self._shared:
            batches = self._open(node)
            with self._local_step(node):
                self._shared[id(node)] = [concat(batches(), node.schema)] * uses
        return _once(self._shared[id(node)])

    def _open(self, node: Node) -> Batches:
        if isinstance(node, Scan):
            return lambda: node.source.read(node.columns, self._runtime.pe, self._runtime.n_pes)
        if isinstance(node, Filter):
            return _mapped(self._stream(node.child), lambda table: keep(table, node.predicate))
        if isinstance(node, Project):
            return _mapped(self._stream(node.child), lambda table: project(table, node))
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, Aggregate):
            return _once([self._aggregate(node)])
        if isinstance(node, Sort):
            return _once([self._sort(self._collect(node.child), node.order)])
        assert isinstance(node, Limit)
        return _once([self._limit(node)])

    # -- joins

    def _join(self, node: Join) -> Batches:
        if node.strategy == "broadcast_left":
            left = exchange.replicate(self._collect(node.left), keep_types=True)
            return self._joined(node, _once([left]), self._collect(node.right))
        if node.strategy == "broadcast":
            right = exchange.replicate(self._collect(node.right), keep_types=True)
            left = self._stream(node.left)
            return self._joined(node, left, right, self._shared_table(node, right))
        if node.strategy in ("local", "copartitioned"):
            right = self._collect(node.right)
            return self._joined(node, self._stream(node.left), right)
        left, right = self._shuffled(node)
        return self._joined(node, _once([left]), right)

    def _shared_table(self, node: Join, right: pa.Table) -> _core.JoinTable | None:
        """Make one table of a right side that went to all, for the PEs of the node to probe in place.

        None where each PE makes its own: keys of other kinds than one number, few rows, several nodes.
        """
        runtime = self._runtime
        if runtime.n_pes == 1 or len(node.right_on) > 1 or right.num_rows < _SHARED_ROWS:
            return None
        keeper = 0
        with self._local_step(node):
            keys = key_table(right, node.right_on, node.key_types)
            image = _core.join_table(keys).image() if runtime.pe == keeper else None
        shared = exchange.share_bytes(keeper, image)
        return None if shared is None else _core.view_join_table(keys, shared)

    def _joined(
        self, node: Join, left: Batches, right: pa.Table, shared: _core.JoinTable | None = None
    ) -> Batches:
        """Probe the right side with the left one's batches; it is made ready when they begin."""
        rows = max(_JOIN_ROWS, right.num_rows)
        sides = [right]
        del right

        def batches() -> Iterator[pa.Table]:
            joiner = Joiner(sides.pop(), node, lambda keys: (shared or _core.join_table(keys)).probe)
            return _mapped(lambda: rechunk(left(), rows), joiner.join)()

        return batches

    def _shuffled(self, node: Join) -> tuple[pa.Table, pa.Table]:
        """Move the rows of one or both sides so that equal keys meet."""
        left, right = self._collect(node.left), self._collect(node.right)
        positions = list(range(len(node.left_on)))
        if node.strategy == "shuffle_left":
            positions = [node.right_on.index(name) for name in partitioning(node.right) or ()]
        elif node.strategy == "shuffle_right":
            positions = [node.left_on.index(name) for name in partitioning(node.left) or ()]
        types = None
        schemas = left.schema, right.schema
        on = [(node.left_on[i], node.right_on[i]) for i in positions]
        if not all(hashes_alike(schemas[0].field(a).type, schemas[1].field(b).type) for a, b in on):
            types = [node.key_types[i] for i in positions]
        if id(node) in self._may_split:
            sides = [
                skew.Side(left, [name for name, _ in on], types),
                skew.Side(right, [name for _, name in on], types),
            ]
            split = skew.find_split(self._runtime, sides[0], sides[1], node.how)
            if split is not None:
                self._split.add(id(node))
                del left, right
                return self._spread(sides, split)
        if node.strategy != "shuffle_right":
            left = self._by_hash(left, [name for name, _ in on], types)
        if node.strategy != "shuffle_left":
            right = self._by_hash(right, [name for _, name in on], types)
        return left, right

    def _spread(self, sides: list[skew.Side], split: skew.Split) -> tuple[pa.Table, pa.Table]:
        """Move rows by key, frequent keys excepted."""
        right = skew.spread(self._runtime, sides.pop(), split.right_stays, split.left_stays)
        left = skew.spread(self._runtime, sides.pop(), split.left_stays, split.right_stays)
        return left, right

    def _by_hash(
        self, table: pa.Table, keys: Sequence[str], types: Sequence[pa.DataType] | None = None
    ) -> pa.Table:
        with self._runtime.converge("shuffle"), arrow_errors("shuffle"):
            pes = [
                _core.hash_partition(batch, self._runtime.n_pes)
                for batch in key_table(table, keys, types).to_batches()
            ]
            chunks = pa.chunked_array(pes, pa.uint16())
        return exchange.scatter(table, chunks, keep_types=True)

    # -- aggregations

    def _aggregate(self, node: Aggregate) -> pa.Table:
        grouping = Grouping(node)
        batches = self._stream(node.child)
        are_apart = node.strategy in ("hash", "range")
        if are_apart:
            batches, moves_rows = self._sampled(node, batches)
            if moves_rows:
                batches, are_apart = _once([self._groups_together(node, batches)]), False
        with self._local_step(node):
            parts = grouping.accumulate(batches())
        if node.strategy == "gather":
            return self._aggregate_all(node, grouping, parts)
        if are_apart:
            parts = self._exchanged(node, grouping, parts)
        with self._local_step(node):
            result = grouping.results(grouping.counted(parts))
            return sort_table(result, _by(node.keys)) if node.is_sorted else result

    def _sampled(self, node: Aggregate, batches: Batches) -> tuple[Batches, bool]:
        """Look at the first rows: is it better to move rows than states? The same answer on all PEs."""
        with self._local_step(node):
            first, tables = peek(batches())
            mine = (0, 0) if first is None else count_groups(key_table(first, node.keys))
        counts = [json.loads(other) for other in self._runtime.allgather(json.dumps(mine).encode())]
        expected = Estimator()(node.child).rows
        rows = max(count for count, _ in counts) if expected is None else expected / self._runtime.n_pes
        return (lambda: tables), barely_shrinks(counts, rows)

    def _groups_together(self, node: Aggregate, batches: Batches) -> pa.Table:
        """Bring all rows of a group to one PE."""
        with self._local_step(node):
            table = concat(batches(), node.child.schema)
        if node.strategy == "hash":
            return self._by_hash(table, node.keys)
        order = _by(node.keys)
        return self._by_range(table, self._cuts(table, order), order)

    def _exchanged(self, node: Aggregate, grouping: Grouping, parts: Parts) -> Parts:
        """Bring all states of a group to one PE and merge them."""
        if node.strategy == "range":
            order = _by(grouping.keys)
            cuts = self._cuts(parts.states, order)
            moved = [self._by_range(table, cuts, order) for table in parts.tables()]
        else:
            moved = [self._by_hash(table, grouping.keys) for table in parts.tables()]
        with self._local_step(node):
            return grouping.merge([Parts(moved[0], tuple(moved[1:]))])

    def _aggregate_all(self, node: Aggregate, grouping: Grouping, parts: Parts) -> pa.Table:
        """Aggregate all rows as one group: every PE gets the row."""
        if self._runtime.n_pes > 1 and parts.distinct:
            # Equal values meet on one PE, so that numbers of distinct values can be added.
            moved = tuple(self._by_hash(table, ["v"]) for table in parts.distinct)
            with self._local_step(node):
                parts = Parts(parts.states, grouping.merge([Parts(parts.states, moved)]).distinct)
        with self._local_step(node):
            states = grouping.counted(parts)
        states = pa.concat_tables(gather.small(self._runtime, states))
        with self._local_step(node):
            return grouping.results(grouping.merge_states(states))

    # -- order

    def _sort(self, table: pa.Table, order: SortOrder) -> pa.Table:
        if self._runtime.n_pes > 1:
            cuts = self._cuts(table, order)
            # Cut within equal keys too: a frequent key does not overload a PE.
            table = self._by_range(table, cuts, order, self._runtime.pe)
        with self._runtime.converge("sort"), arrow_errors("sort"):
            return sort_table(table, order)

    def _cuts(self, table: pa.Table, order: SortOrder) -> list[Cut]:
        with self._runtime.converge("sort"), arrow_errors("sort"):
            chosen = sample(table, order, _SAMPLE_ROWS)
        samples = gather.small(self._runtime, chosen)
        weights = [int(count) for count in self._runtime.allgather(str(table.num_rows).encode())]
        return choose_cuts(samples, weights, order, self._runtime.n_pes)

    def _by_range(
        self, table: pa.Table, cuts: Sequence[Cut], order: SortOrder, pe: int | None = None
    ) -> pa.Table:
        with self._runtime.converge("sort"), arrow_errors("sort"):
            pes = range_pes(table, cuts, order, pe)
        return exchange.scatter(table, pes, keep_types=True)

    def _limit(self, node: Limit) -> pa.Table:
        """Keep the first rows in PE order: each PE reads no more than it might need."""
        batches = self._stream(node.child)
        with self._local_step(node):
            first, rows = list[pa.Table](), 0
            for table in batches():
                first.append(table)
                rows += table.num_rows
                if rows >= node.rows:
                    break
            mine = concat(first, node.schema)
        counts = [int(count) for count in self._runtime.allgather(str(mine.num_rows).encode())]
        before = sum(counts[: self._runtime.pe])
        return mine.slice(0, max(0, min(mine.num_rows, node.rows - before)))


def _by(keys: Sequence[str]) -> SortOrder:
    return SortOrder(tuple(map(SortKey, keys)))


def _once(tables: list[pa.Table]) -> Batches:
    """Stream one table and forget it, so that its memory goes with its last reader."""

    def batches() -> Iterator[pa.Table]:
        yield tables.pop()

    return batches


def _mapped(below: Batches, step: Callable[[pa.Table], pa.Table]) -> Batches:
    def batches() -> Iterator[pa.Table]:
        for table in below():
            result = [step(table)]
            del table
            yield result.pop()

    return batches
