# SPDX-License-Identifier: Apache-2.0
"""Flight on the wire, written and read by hand: what a client library would never send or hide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import grpc
import pyarrow as pa

_SERVICE = "/arrow.flight.protocol.FlightService/"
_LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def varint(value: int) -> bytes:
    """Encode a number as protobuf does."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def descriptor(*path: str) -> bytes:
    """Encode a FlightDescriptor that is a path."""
    return varint(1 << 3) + varint(1) + b"".join(field(3, part.encode()) for part in path)


def flight_message(header: bytes, body: bytes, *path: str) -> bytes:
    """Encode a FlightData; with a descriptor when a path is given."""
    first = field(1, descriptor(*path)) if path else b""
    return first + field(2, header) + (field(1000, body) if body else b"")


def messages_of(table: pa.Table, compression: str | None = None) -> list[tuple[bytes, bytes]]:
    """Give header and body of each IPC message of a table's stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(sink.getvalue()))
    return [
        (message.metadata.to_pybytes(), message.body.to_pybytes() if message.body else b"")
        for message in reader
    ]


class RawClient:
    """Sends bytes as Flight calls and gives back bytes."""

    def __init__(self, uri: str, token: str) -> None:
        self._channel = grpc.insecure_channel(uri.removeprefix("grpc://"), options=_LIMITS)
        self._metadata = [("authorization", f"Bearer {token}")]

    def do_put(self, messages: Iterable[bytes], timeout: float = 60) -> grpc.StatusCode:
        """Send FlightData messages; give the status the call ended with."""
        call = self._channel.stream_stream(_SERVICE + "DoPut")(
            iter(messages), metadata=self._metadata, timeout=timeout
        )
        try:
            for _ in call:
                pass
        except grpc.RpcError:
            pass
        return call.code()

    def do_get(self, ticket: bytes) -> Iterator[bytes]:
        """Give the FlightData messages of a ticket."""
        call = self._channel.unary_stream(_SERVICE + "DoGet")
        yield from call(field(1, ticket), metadata=self._metadata, timeout=60)

    def trailers(self, method: str, request: bytes) -> list[tuple[str, str | bytes]]:
        """Make a call that fails; give all the server sends about it."""
        call = self._channel.unary_unary(_SERVICE + method)
        try:
            call(request, metadata=self._metadata, timeout=60)
        except grpc.RpcError as error:
            return [*error.trailing_metadata(), ("message", error.details())]
        raise AssertionError(f"{method} succeeded")

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
