# SPDX-License-Identifier: Apache-2.0
"""A client for a FlightSHMEM server, on top of pyarrow.flight.

Nothing here is needed to use a server: every Arrow Flight client can. This one finds the token by itself,
reads the shards of a table in parallel, keeps messages small, bounds every wait, and raises our errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from flightshmem.errors import InvalidArgument, ServerError
from flightshmem.flight import auth
from flightshmem.flight.remote_errors import translated
from flightshmem.flight.server import is_loopback
from flightshmem.flight.stall import StallWatch
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
        host, port = _host_and_port(uri)
        if token is None:
            token = os.environ.get(auth.ENVIRONMENT) or (auth.find_token(port) if is_loopback(host) else None)
        headers = [(b"authorization", f"Bearer {auth.check_token(token)}".encode())] if token else []
        self._timeout = timeout
        self._calls = flight.FlightCallOptions(timeout=timeout, headers=headers)
        self._streams = flight.FlightCallOptions(headers=headers)
        with translated(uri):
            self._connections = {uri: flight.connect(uri)}

    def list(self) -> list[TableDescription]:
        """Describe all published tables, sorted by name."""
        with translated(self.uri):
            return [_describe(info) for info in self._gateway.list_flights(options=self._calls)]

    def get(self, name: str) -> pa.Table:
        """Read a table: all its shards, in order, of one version. Raises TableNotFound."""
        for attempt in range(_MAX_ATTEMPTS):
            try:
                with translated(self.uri):
                    return self._get(name)
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
            writer, answers = self._gateway.do_put(descriptor, reader.schema, self._streams)
            _send(writer, slices(reader))
            return _rows_received(answers, writer)

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
        tables = [
            TableStats(**{**table, "shard_pes": tuple(table["shard_pes"])}) for table in answer["tables"]
        ]
        return ServerStats(pe=answer["pe"], n_pes=answer["n_pes"], tables=tuple(tables), **heap)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _gateway(self) -> flight.FlightClient:
        return self._connections[self.uri]

    def _action(self, kind: str, body: str = "") -> Any:
        with translated(self.uri):
            action = flight.Action(kind, body.encode())
            results = [result.body.to_pybytes() for result in self._gateway.do_action(action, self._calls)]
        return json.loads(results[0])

    def _get(self, name: str) -> pa.Table:
        info = self._gateway.get_flight_info(flight.FlightDescriptor.for_path(name), self._calls)
        places: dict[str, list[int]] = {}
        for i, endpoint in enumerate(info.endpoints):
            places.setdefault(self._place(endpoint), []).append(i)
        parts: list[list[pa.RecordBatch]] = [[] for _ in info.endpoints]

        def read(place: str) -> None:
            for i in places[place]:
                parts[i] = self._read(place, info.endpoints[i].ticket)

        _in_parallel(read, list(places))
        return pa.Table.from_batches([batch for part in parts for batch in part], info.schema)

    def _place(self, endpoint: flight.FlightEndpoint) -> str:
        """Choose where to read an endpoint: its own server when it can be reached, else the gateway."""
        for location in endpoint.locations:
            place = location.uri.decode()
            if _host_and_port(place) == _host_and_port(self.uri):
                return self.uri
            with suppress(flight.FlightError, pa.ArrowException):
                if place not in self._connections:
                    connection = flight.connect(place)
                    list(connection.do_action(flight.Action("health", b""), self._calls))
                    self._connections[place] = connection
                return place
        return self.uri

    def _read(self, place: str, ticket: flight.Ticket) -> list[pa.RecordBatch]:
        reader = self._connections[place].do_get(ticket, self._streams)
        batches = []
        with StallWatch(reader.cancel, self._timeout) as watch:
            try:
                for chunk in reader:
                    watch.progress()
                    batches.append(chunk.data)
            except flight.FlightCancelledError:
                if watch.stalled:
                    raise ServerError(f"[get] {place} sent nothing for {self._timeout} s: gave up") from None
                raise
        return batches


def _host_and_port(uri: str) -> tuple[str, int]:
    try:
        parts = urlsplit(uri)
        if parts.scheme not in ("grpc", "grpc+tcp", "grpc+tls") or not parts.hostname or not parts.port:
            raise ValueError("a scheme, a host and a port are needed")
    except ValueError as error:
        raise InvalidArgument(
            f"[connect] not a URI like grpc://127.0.0.1:8815, got {uri!r}: {error}"
        ) from None
    return parts.hostname, parts.port


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


def _in_parallel(call: Callable[[str], None], places: list[str]) -> None:
    if len(places) == 1:
        call(places[0])
        return
    with ThreadPoolExecutor(len(places), thread_name_prefix="flightshmem-get") as pool:
        for _ in pool.map(call, places):
            pass


def _send(writer: flight.FlightStreamWriter, batches: Iterator[pa.RecordBatch]) -> None:
    try:
        for batch in batches:
            writer.write_batch(batch)
        writer.done_writing()
    except BaseException:
        # A stream that just ends counts as complete: say that it is not.
        with suppress(flight.FlightError, pa.ArrowException):
            writer.write_metadata(b"abort")
        with suppress(flight.FlightError, pa.ArrowException):
            writer.close()
        raise


def _rows_received(answers: flight.FlightMetadataReader, writer: flight.FlightStreamWriter) -> int:
    answer = answers.read()
    writer.close()  # raises what the server says
    return int(json.loads(answer.to_pybytes())["rows"]) if answer is not None else 0
