# SPDX-License-Identifier: Apache-2.0
"""Published tables: a name for rows on all PEs, readable one-sided by every PE and every client.

A table is replaced in one step: who looks it up gets the old version or the new one, whole, and keeps
it as long as a batch of it lives.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from flightshmem import _core
from flightshmem.errors import InvalidArgument, SchemaError, TableNotFound
from flightshmem.heap import one_batch
from flightshmem.runtime import Runtime, current

Mode = Literal["create", "replace", "append"]

# In the JSON of a version's partitioning: every PE published its own rows.
_COLLECTIVE = "collective"


class PublishedTable:
    """One version of a table; its rows stay as long as this object or a batch read from it lives."""

    def __init__(self, runtime: Runtime, version: _core.TableVersion) -> None:
        self._runtime = runtime
        self._version = version
        self.name: str = version.name
        self.version: int = version.version
        """1 for a new name, then counting up."""
        self.rows: int = version.rows
        self.size_bytes: int = version.size_bytes
        self.partitioning: str = version.partitioning
        """How rows are spread over PEs, as JSON."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._version.schema

    @property
    def n_shards(self) -> int:
        """How many pieces the table has."""
        return len(self._version.shards)

    @property
    def shard_pes(self) -> list[int]:
        """The PE on which each shard lies."""
        return [shard[0] for shard in self._version.shards]

    @property
    def shard_rows(self) -> list[int]:
        """The rows of each shard."""
        return [shard[3] for shard in self._version.shards]

    def read(self, shard: int) -> pa.RecordBatch:
        """Give the rows of a shard, on whichever PE it lies. One-sided, no copy on this machine."""
        return self._runtime.catalog.read(self._version, shard)

    def local(self) -> pa.Table:
        """Give this PE's part of the rows. One-sided, no copy on this machine.

        Over all PEs the parts are the whole table, each row once: the shards a PE owns when every
        PE published its own, else equal ranges of rows.
        """
        if self._published_together():
            own = [i for i, pe in enumerate(self.shard_pes) if pe == self._runtime.pe]
            return self._table(self.read(i) for i in own)
        pe, n_pes = self._runtime.pe, self._runtime.n_pes
        return self._table(self._range(self.rows * pe // n_pes, self.rows * (pe + 1) // n_pes))

    def to_arrow(self) -> pa.Table:
        """Give all rows, in shard order. One-sided, no copy on this machine."""
        return self._table(self.read(i) for i in range(self.n_shards))

    def _published_together(self) -> bool:
        return bool(_parsed(self.partitioning).get(_COLLECTIVE, False))

    def _range(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        first = 0
        for shard, rows in enumerate(self.shard_rows):
            low, high = max(begin - first, 0), min(end - first, rows)
            if low < high:
                yield self.read(shard).slice(low, high - low)
            first += rows

    def _table(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        # Without batches the dictionaries, and with them the categories, would be lost.
        kept = [batch for batch in batches if batch.num_rows > 0] or [self._version.empty]
        return pa.Table.from_batches(kept)

    def __repr__(self) -> str:
        return (
            f"PublishedTable({self.name!r}, version={self.version}, rows={self.rows}, shards={self.n_shards})"
        )


def publish(name: str, table: pa.Table, *, mode: Mode = "create", partitioning: str = "") -> None:
    """Publish every PE's rows as one table. Collective, one copy into the heap.

    Schema and dictionaries must be equal on all PEs. ``partitioning``: a JSON object that says how
    rows are spread, for whoever reads the table. ``mode="replace"`` and ``"append"`` of a new name
    create it. Any error is raised on all PEs, and then nothing has changed: TableExists, SchemaError,
    HeapExhausted, InvalidArgument.
    """
    runtime = current()
    with runtime.converge("publish"):
        _check_name("publish", name)
        _check_columns(table)
        spread = _parsed(partitioning)
        # What pandas noted about its index differs between PEs and means nothing here.
        batch = one_batch("publish", _without_pandas_metadata(table))
        header = _core.Header.from_batch(batch)
        shard = _core.write_shard(runtime.heap, batch)
    first = _core.Header.from_bytes(runtime.broadcast(header.to_bytes()))
    with runtime.converge("publish"):
        _check_same_header(runtime, header, first)
    refs = runtime.allgather(json.dumps([*shard.where, shard.size_bytes, shard.rows]).encode())
    entry = b""
    with runtime.converge("publish"):
        if runtime.pe == 0:
            spread[_COLLECTIVE] = mode != "append" or _is_collective_or_new(runtime, name)
            shards = [tuple(json.loads(ref)) for ref in refs]
            published = runtime.catalog.publish(name, mode, header, shards, json.dumps(spread))
            entry = json.dumps(published).encode()
    runtime.catalog.own(tuple(json.loads(runtime.broadcast(entry))), shard)


def lookup(name: str) -> PublishedTable:
    """Give the current version of a table. One-sided.

    Other PEs may see another version if it is being replaced; see ``lookup_together``. Raises
    TableNotFound, which lists the tables there are.
    """
    runtime = current()
    _check_name("lookup", name)
    return PublishedTable(runtime, runtime.catalog.lookup(name))


def lookup_together(name: str) -> PublishedTable:
    """Give a version of a table that is the same on all PEs. Collective."""
    runtime = current()
    while True:
        with runtime.converge("lookup"):
            table = lookup(name)
        versions = runtime.allgather(repr(table._version.id).encode())
        if len(set(versions)) == 1:
            return table


def drop(name: str) -> None:
    """Remove a table; memory is freed when its last reader is done. One-sided.

    Call it on one PE only. Raises TableNotFound.
    """
    _check_name("drop", name)
    current().catalog.drop(name)


def names() -> list[str]:
    """Give the names of all published tables, sorted. One-sided."""
    return current().catalog.names()


def _check_name(operation: str, name: object) -> None:
    """Refuse what is no text at all; which text can name a table is the catalog's to say."""
    if not isinstance(name, str) or any("\ud800" <= char <= "\udfff" for char in name):
        raise InvalidArgument(f"[{operation}] a table name is text that UTF-8 can express, got {name!r}")


def _check_columns(table: pa.Table) -> None:
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise InvalidArgument(
            f"[publish] column names must differ, got {twice[0]!r} {table.column_names.count(twice[0])} "
            "times: rename them"
        )


def _parsed(partitioning: str) -> dict[str, object]:
    if not partitioning:
        return {}
    try:
        parsed = json.loads(partitioning)
    except json.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidArgument(f"[publish] partitioning must be a JSON object, got {partitioning!r}")
    return parsed


def _without_pandas_metadata(table: pa.Table) -> pa.Table:
    metadata = dict(table.schema.metadata or {})
    metadata.pop(b"pandas", None)
    return table.replace_schema_metadata(metadata or None)


def _check_same_header(runtime: Runtime, header: _core.Header, first: _core.Header) -> None:
    try:
        first.check_equals(header)
    except SchemaError as error:
        raise SchemaError(
            f"[publish] PE {runtime.pe}/{runtime.n_pes} and PE 0 publish different columns: {error}; "
            "cast to one type, and unify dictionaries (flightshmem.exchange.unify_dictionaries)"
        ) from None


def _is_collective_or_new(runtime: Runtime, name: str) -> bool:
    try:
        version = runtime.catalog.lookup(name)
    except TableNotFound:
        return True
    return PublishedTable(runtime, version)._published_together()
