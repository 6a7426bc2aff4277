# SPDX-License-Identifier: Apache-2.0
"""A published table as a source: read one-sided, without the PEs that own its shards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from flightshmem import catalog


def partitioning_text(columns: tuple[str, ...] | None) -> str:
    """Write a hash partitioning for the catalog; empty if none is known."""
    return "" if columns is None else json.dumps({"hash": list(columns)})


class PublishedSource:
    """The version of a table that was current when the source was made. Making one is collective."""

    def __init__(self, name: str) -> None:
        self._table = catalog.lookup_together(name)

    @property
    def schema(self) -> pa.Schema:
        """Columns it can give."""
        return self._table.schema

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return int(self._table.rows)

    @property
    def partitioned_by(self) -> tuple[str, ...] | None:
        """The hash partitioning it was published with."""
        spread = json.loads(self._table.partitioning or "{}")
        # Only the PEs' own shards lie as they were exchanged; an even split of all shards does not.
        return tuple(spread["hash"]) if spread.get("collective") and "hash" in spread else None

    def column_bytes(self, name: str) -> float | None:
        """As the column's type says."""
        return None

    def describe(self) -> str:
        """Say what it is, for explain()."""
        return f"published {self._table.name!r} version {self._table.version}"

    def restricted(self, predicate: Any) -> PublishedSource:
        """Shards have no statistics."""
        return self

    def read(self, columns: Sequence[str], pe: int, n_pes: int) -> Iterator[pa.Table]:
        """Yield this PE's rows: the shards it owns, or an even part of all of them."""
        yield self._table.local().select(list(columns))
