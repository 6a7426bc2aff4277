# SPDX-License-Identifier: Apache-2.0
"""How many rows and bytes a node will give, guessed from what the sources know. Equal on every PE."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from flightshmem.plan.expr import Column
from flightshmem.plan.nodes import Aggregate, Filter, Join, Limit, Node, Project, Scan, Sort
from flightshmem.plan.types import width_bytes


@dataclass(frozen=True)
class Estimate:
    """Rows on all PEs (None if nothing is known) and the bytes of one row, per column."""

    rows: float | None
    row_bytes: dict[str, float]

    @property
    def size_bytes(self) -> float | None:
        """Bytes on all PEs."""
        return None if self.rows is None else self.rows * sum(self.row_bytes.values())


class Estimator:
    """Estimates nodes, each once."""

    def __init__(self) -> None:
        self._known: dict[int, Estimate] = {}

    def __call__(self, node: Node) -> Estimate:
        """Estimate a node."""
        if id(node) not in self._known:
            self._known[id(node)] = self._estimate(node)
        return self._known[id(node)]

    def _estimate(self, node: Node) -> Estimate:
        if isinstance(node, Scan):
            return _scan(node)
        inputs = [self(child) for child in node.children]
        if isinstance(node, Project):
            return _project(node, inputs[0])
        if isinstance(node, Join):
            return _join(node, *inputs)
        if isinstance(node, Aggregate):
            rows = 1.0 if not node.keys else inputs[0].rows
            return Estimate(rows, _widths(node.schema, inputs[0].row_bytes))
        if isinstance(node, Limit):
            rows = inputs[0].rows
            return Estimate(node.rows if rows is None else min(rows, node.rows), inputs[0].row_bytes)
        assert isinstance(node, (Filter, Sort))
        return inputs[0]


def _widths(schema: pa.Schema, known: dict[str, float]) -> dict[str, float]:
    return {field.name: known.get(field.name, width_bytes(field.type)) for field in schema}


def _scan(node: Scan) -> Estimate:
    rows = node.source.rows
    if not rows:
        return Estimate(rows, _widths(node.schema, {}))
    sizes = {name: node.source.column_bytes(name) for name in node.columns}
    return Estimate(
        rows, _widths(node.schema, {name: size / rows for name, size in sizes.items() if size is not None})
    )


def _project(node: Project, child: Estimate) -> Estimate:
    widths = {}
    for name, expr in node.columns:
        is_copy = isinstance(expr, Column)
        widths[name] = child.row_bytes[expr.name] if is_copy else width_bytes(expr.type)  # type: ignore[attr-defined]
    return Estimate(child.rows, widths)


def _join(node: Join, left: Estimate, right: Estimate) -> Estimate:
    # As if the right keys were unique: the usual shape (facts with dimensions), and a bound for it.
    widths = {out: left.row_bytes[name] for name, out in node.left_columns}
    widths |= {out: right.row_bytes[name] for name, out in node.right_columns}
    return Estimate(left.rows, widths)
