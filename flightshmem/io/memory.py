# SPDX-License-Identifier: Apache-2.0
"""Tables in this process as a source: the same whole table on every PE, or one part per PE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flightshmem.io.split import even_range


@dataclass(frozen=True)
class TableSource:
    """Rows in memory. ``is_part``: the table is this PE's part, else every PE has the whole one.

    ``rows`` and ``size_bytes`` count over all PEs.
    """

    table: pa.Table
    name: str
    rows: int
    size_bytes: int
    is_part: bool
    partitioned_by: tuple[str, ...] | None = None
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """Columns it can give."""
        return self.table.schema

    def column_bytes(self, name: str) -> float | None:
        """Return the bytes of one column on all PEs."""
        return self.size_bytes * self.shares[name] if name in self.shares else None

    def describe(self) -> str:
        """Say what it is, for explain()."""
        return self.name

    def restricted(self, predicate: Any) -> TableSource:
        """Rows in memory are not in groups that could be left out."""
        return self

    def read(self, columns: Sequence[str], pe: int, n_pes: int) -> Iterator[pa.Table]:
        """Yield this PE's rows, as views."""
        chosen = self.table.select(list(columns))
        if not self.is_part:
            start, stop = even_range(chosen.num_rows, pe, n_pes)
            chosen = chosen.slice(start, stop - start)
        yield chosen


def column_shares(table: pa.Table) -> dict[str, float]:
    """Return each column's share of a table's bytes."""
    total = max(table.nbytes, 1)
    return {name: table.column(name).nbytes / total for name in table.schema.names}
