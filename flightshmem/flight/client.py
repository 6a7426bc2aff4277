# SPDX-License-Identifier: Apache-2.0
"""A client for a FlightSHMEM server, on top of pyarrow.flight.

Nothing here is needed to use a server: every Arrow Flight client can. This one finds the token by itself,
reads the shards of a table in parallel, keeps messages small, bounds every wait, and raises our errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa
from pyarrow import flight

from flightshmem.flight import auth
from flightshmem.flight.reading import Connections, host_and_port, read_table
from flightshmem.flight.remote_errors import translated
from flightshmem.flight.server import is_loopback
from flightshmem.flight.tables import as_reader, slices

Mode = Literal["create", "replace", "append"]
TIMEOUT_S = 60.0
# How often a read starts over because somebody replaced the table under it.
_MAX_ATTEMPTS = 50
_REPLACED = "was replaced since"


@dataclass(frozen=True)
class TableDescription:
    """One published table."""

    name: str
    rows: int
    size_bytes: int
    schema: pa.Schema
    version: int
    """1 for a new name; every replace and append adds one."""
    n_endpoints: int


@dataclass(frozen=True)
class ServerHealth:
    """A server that answers."""

    status: str
    pe: int
    n_pes: int


@dataclass(frozen=True)
class TableStats:
    """What a published table takes."""

    name: str
    version: int
    rows: int
    size_bytes: int
    shard_pes: tuple[int, ...]


@dataclass(frozen=True)
class ServerStats:
    """The heap of the PE that answered, and all tables."""

    pe: int
    n_pes: int
    capacity_bytes: int
    used_bytes: int
    peak_bytes: int
    largest_free_bytes: int
    tables: tuple[TableStats, ...]


def connect(uri: str, *, token: str | None = None, timeout: float = TIMEOUT_S) -> Client:
    """Connect to a server, e.g. ``grpc://127.0.0.1:8815``.

    ``token``: None takes FLIGHTSHMEM_TOKEN, else the token file of this user's server on this machine.
    ``timeout``: seconds a call may take, for streams the seconds without progress. Raises ServerError when
    nobody answers, AuthenticationError when the token is missing or wrong.
    """
    client = Client(uri, token, timeout)
    try:
        client.health()
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection; made by :func:`connect`. Any thread may use it. Closed by ``close`` or ``with``."""

    def __init__(self, uri: str, token: str | None, timeout: float) -> None:
        self.uri = uri
        host, port = host_and_port(uri)
        if token is None:
            token = os.environ.get(auth.ENVIRONMENT) or (auth.find_token(port) if is_loopback(host) else None)
        headers = [(b"authorization", f"Bearer {auth.check_token(token)}".encode())] if token else []
        with translated(uri):
            self._connections = Connections(uri, headers, timeout)

    def list(self) -> list[TableDescription]:
        """Describe all published tables, sorted by name."""
        with translated(self.uri):
            return [_describe(info) for info in self._gateway.list_flights(options=self._connections.calls)]

    def get(self, name: str) -> pa.Table:
        """Read a table: all its shards, in order, of one version. Raises TableNotFound."""
        for attempt in range(_MAX_ATTEMPTS):
            try:
                with translated(self.uri):
                    descriptor = flight.FlightDescriptor.for_path(name)
                    info = self._gateway.get_flight_info(descriptor, self._connections.calls)
                    return read_table(self._connections, info)
            except KeyError as error:
                if _REPLACED not in str(error) or attempt + 1 == _MAX_ATTEMPTS:
                    raise
        raise AssertionError("not reached")

    def put(self, name: str, table: Any, *, mode: Mode = "replace") -> int:
        """Store a table under ``name`` and return its rows; readers see all of it or nothing.

        ``table``: a pyarrow table, batch or reader, a pandas frame, or anything with
        ``__arrow_c_stream__``; streams are sent as they come, without being held. ``mode``: "create" raises
        TableExists when the name is taken, "append" needs a table of the same schema.
        """
        reader = as_reader(table)
        descriptor = flight.FlightDescriptor.for_path(name, mode)
        with translated(self.uri):
            options = self._connections.upload(getattr(table, "nbytes", None))
            writer, answers = self._gateway.do_put(descriptor, reader.schema, options)
        self._send(writer, slices(reader))
        with translated(self.uri):
            answer = answers.read()
            writer.close()  # raises what the server says
        return int(json.loads(answer.to_pybytes())["rows"])

    def drop(self, name: str) -> None:
        """Remove a table; readers that have begun still finish. Raises TableNotFound."""
        self._action("drop", name)

    def health(self) -> ServerHealth:
        """Ask whether the server answers."""
        return ServerHealth(**self._action("health"))

    def stats(self) -> ServerStats:
        """Ask for the gateway PE's heap and all tables."""
        answer = self._action("stats")
        heap = {key: value for key, value in answer["heap"].items() if key != "blocks"}
        tables = tuple(_table_stats(**table) for table in answer["tables"])
        return ServerStats(pe=answer["pe"], n_pes=answer["n_pes"], tables=tables, **heap)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _gateway(self) -> flight.FlightClient:
        return self._connections.gateway

    def _send(self, writer: flight.FlightStreamWriter, batches: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in batches:  # what the source raises is not ours to translate
                with translated(self.uri):
                    writer.write_batch(batch)
            with translated(self.uri):
                writer.done_writing()
        except BaseException:
            # A stream that just ends counts as complete: say that it is not.
            with suppress(pa.ArrowException, OSError):
                writer.write_metadata(b"abort")
            with suppress(pa.ArrowException, OSError):
                writer.close()
            raise

    def _action(self, kind: str, body: str = "") -> Any:
        with translated(self.uri):
            action = flight.Action(kind, body.encode())
            results = [
                result.body.to_pybytes()
                for result in self._gateway.do_action(action, self._connections.calls)
            ]
        return json.loads(results[0])


def _describe(info: flight.FlightInfo) -> TableDescription:
    return TableDescription(
        name=info.descriptor.path[0].decode(),
        rows=info.total_records,
        size_bytes=info.total_bytes,
        schema=info.schema,
        version=json.loads(info.app_metadata)["version"],
        n_endpoints=len(info.endpoints),
    )


def _table_stats(shard_pes: list[int], **rest: Any) -> TableStats:
    return TableStats(shard_pes=tuple(shard_pes), **rest)
