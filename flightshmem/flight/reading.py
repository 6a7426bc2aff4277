# SPDX-License-Identifier: Apache-2.0
"""Reads a table whose shards several servers hold: each from its own, side by side, in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from flightshmem.errors import InvalidArgument, ServerError
from flightshmem.flight.stall import StallWatch

_SLOW_LINE_BYTES_PER_S = 1e6


def host_and_port(uri: str) -> tuple[str, int]:
    """Take a Flight URI apart; InvalidArgument when it is none."""
    try:
        parts = urlsplit(uri)
        if parts.scheme not in ("grpc", "grpc+tcp", "grpc+tls") or not parts.hostname or not parts.port:
            raise ValueError("a scheme, a host and a port are needed")
    except ValueError as error:
        raise InvalidArgument(
            f"[connect] not a URI like grpc://127.0.0.1:8815, got {uri!r}: {error}"
        ) from None
    return parts.hostname, parts.port


class Connections:
    """Connections to the servers of one job: the gateway's, the others when they are needed."""

    def __init__(self, uri: str, headers: list[tuple[bytes, bytes]], timeout_s: float) -> None:
        self.uri = uri
        self.calls = flight.FlightCallOptions(timeout=timeout_s, headers=headers)
        """For short calls."""
        self.downloads = flight.FlightCallOptions(headers=headers)
        """For streams from the server, which may take as long as they move (StallWatch)."""
        self._headers = headers
        self.timeout_s = timeout_s
        self.gateway = flight.connect(uri)
        self._lock = threading.Lock()
        self._open = {host_and_port(uri): self.gateway}

    def upload(self, n_bytes: int | None) -> flight.FlightCallOptions:
        """Give options for a stream to the server of ``n_bytes``, None when that is not known.

        Flight cannot cancel an upload from outside, so it gets a deadline: as a slow line would need.
        """
        timeout_s = None if n_bytes is None else self.timeout_s + n_bytes / _SLOW_LINE_BYTES_PER_S
        return flight.FlightCallOptions(timeout=timeout_s, headers=self._headers)

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            for connection in self._open.values():
                connection.close()

    def for_endpoint(self, endpoint: flight.FlightEndpoint) -> flight.FlightClient:
        """Choose where to read: the first of its locations that answers, else the gateway."""
        for location in endpoint.locations:
            # A location may have a scheme we do not speak or a name we cannot resolve.
            with suppress(pa.ArrowException, OSError, InvalidArgument):
                return self._reach(location.uri.decode())
        return self.gateway

    def _reach(self, uri: str) -> flight.FlightClient:
        place = host_and_port(uri)
        with self._lock:
            if place not in self._open:
                connection = flight.connect(uri)
                list(connection.do_action(flight.Action("health", b""), self.calls))
                self._open[place] = connection
            return self._open[place]


def read_table(connections: Connections, info: flight.FlightInfo) -> pa.Table:
    """Read all endpoints; those of one server one after the other, servers side by side."""
    parts: list[list[pa.RecordBatch]] = [[] for _ in info.endpoints]
    work: dict[flight.FlightClient, list[int]] = {}
    for i, endpoint in enumerate(info.endpoints):
        work.setdefault(connections.for_endpoint(endpoint), []).append(i)

    def read(connection: flight.FlightClient) -> None:
        for i in work[connection]:
            parts[i] = _read_stream(connections, connection, info.endpoints[i].ticket)

    if len(work) == 1:
        read(next(iter(work)))
    else:
        with ThreadPoolExecutor(len(work), thread_name_prefix="flightshmem-get") as pool:
            list(pool.map(read, work))  # raises what a thread raised
    return pa.Table.from_batches([batch for part in parts for batch in part], info.schema)


def _read_stream(
    connections: Connections, connection: flight.FlightClient, ticket: flight.Ticket
) -> list[pa.RecordBatch]:
    reader = connection.do_get(ticket, connections.downloads)
    batches = []
    with StallWatch(reader.cancel, connections.timeout_s) as watch:
        try:
            for chunk in reader:
                watch.progress()
                batches.append(chunk.data)
        except flight.FlightCancelledError:
            if watch.stalled:
                raise ServerError(
                    f"[get] the server sent nothing for {connections.timeout_s} s, got {connections.uri}: "
                    "gave up; connect with a longer timeout if it is only slow"
                ) from None
            raise
    return batches
