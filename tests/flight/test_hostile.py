# SPDX-License-Identifier: Apache-2.0
"""Bytes that no well-meaning client sends: the server answers, survives, and publishes nothing unsound."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pytest

from flightshmem import errors
from flightshmem.flight import Client, connect
from tests.flight import mutants, sample_tables
from tests.flight.serving import Serving, serving
from tests.flight.wire import RawClient, field, flight_message, messages_of, varint

MUTANTS_PER_STREAM = 150


@pytest.fixture(scope="module")
def target() -> Iterator[Serving]:
    with serving(heap="96M", max_put_bytes=64 << 20) as served:
        yield served


@pytest.fixture
def raw(target: Serving) -> Iterator[RawClient]:
    with RawClient(target.uri, target.token) as client:
        yield client


@pytest.fixture
def victim(target: Serving) -> Iterator[Client]:
    """Checks that the server lives and holds no more than before."""
    with connect(target.uri) as client:
        before = target.used_bytes()
        yield client
        for table in client.list():
            client.drop(table.name)
        assert target.used_bytes() == before
        assert target.is_alive()


def send(raw: RawClient, messages: mutants.Messages, name: str) -> grpc.StatusCode:
    first, *rest = messages
    return raw.do_put([flight_message(*first, name), *(flight_message(*message) for message in rest)])


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_mutated_streams(raw: RawClient, victim: Client, compression: str | None) -> None:
    views = pa.table({"v": pa.array(["short", None, "longer than twelve"] * 20, pa.string_view())})
    streams = [sample_tables.typed(100), sample_tables.decorated(), views]
    outcomes = dict.fromkeys(grpc.StatusCode, 0)
    for seed, table in enumerate(streams):
        messages = messages_of(table, compression)
        for mutant in mutants.mutants(messages, MUTANTS_PER_STREAM, seed):
            code = send(raw, mutant, "mutant")
            outcomes[code] += 1
            assert code != grpc.StatusCode.UNAVAILABLE or not victim.list(), "the server went away"
            if code == grpc.StatusCode.OK:  # the damage hit padding, or made other valid values
                victim.get("mutant").validate(full=True)
                victim.drop("mutant")
            assert victim.list() == []
    refused = sum(count for code, count in outcomes.items() if code != grpc.StatusCode.OK)
    assert refused > MUTANTS_PER_STREAM, outcomes


def ipc_messages(stream: bytes) -> mutants.Messages:
    """Cut a malformed IPC stream into messages as well as it can be done."""
    messages = []
    while len(stream) >= 8:
        skip = 8 if stream[:4] == b"\xff\xff\xff\xff" else 4
        (length,) = struct.unpack("<i", stream[skip - 4 : skip])
        if length <= 0:
            break
        header, stream = stream[skip : skip + length], stream[skip + length :]
        try:
            message = pa.ipc.read_message(struct.pack("<iI", -1, len(header)) + header + stream)
            body = message.body.to_pybytes() if message.body else b""
        except (pa.ArrowException, OSError, EOFError):
            body = stream
        messages.append((header, body))
        stream = stream[len(body) :]
    return messages


def test_malformed_corpus(raw: RawClient, victim: Client) -> None:
    root = os.environ.get("ARROW_TEST_DATA")
    if not root:
        pytest.skip("ARROW_TEST_DATA is not set: Arrow's malformed IPC streams were NOT tried")
    files = sorted(path for path in Path(root, "arrow-ipc-stream").iterdir() if path.is_file())
    sent = 0
    for path in files:
        messages = ipc_messages(path.read_bytes())
        if messages:
            sent += 1
            send(raw, messages, "corpus")
            for table in victim.list():
                victim.get(table.name).validate(full=True)
    assert sent > 0
    print(f"{sent} of {len(files)} malformed streams sent")


def test_flight_messages_that_are_no_protobuf(raw: RawClient, victim: Client) -> None:
    header, body = messages_of(pa.table({"n": [1]}))[0]
    good = flight_message(header, body, "x")
    batches = [flight_message(*message) for message in messages_of(pa.table({"n": [1]}))[1:]]
    for wrong in (
        [b""],
        [b"\xff" * 100],
        [good[:-3]],
        [flight_message(header, b"")],  # no descriptor
        [field(1, b"\xff\xff"), good],
        [good, field(2, b"")],
        [good, field(2, b"\0" * 64) + field(1000, b"\0" * 64)],
        [good, good],
        [*batches],
        [good, varint(5 << 3) + varint(5) + batches[0]],  # a field there is not
        [b"\x80" * 50],
    ):
        assert raw.do_put(wrong) != grpc.StatusCode.OK
    assert victim.list() == []


@pytest.mark.parametrize("garbage", [b"\xff" * 50, b"\0" * 50, varint(1000 << 3 | 2) + varint(2**32 - 1)])
def test_garbage_ends_the_stream_there(raw: RawClient, victim: Client, garbage: bytes) -> None:
    # gRPC reports a message that is no protobuf to nobody: what follows it is never read.
    messages = [flight_message(*message) for message in messages_of(pa.table({"n": [1]}))[1:]]
    schema = flight_message(*messages_of(pa.table({"n": [1]}))[0], "cut")
    raw.do_put([schema, *messages, garbage, *messages])
    assert victim.get("cut").to_pydict() == {"n": [1]}


def test_compression_bombs_are_refused_undecoded(target: Serving, raw: RawClient, victim: Client) -> None:
    messages = messages_of(mutants.zstd_bomb(1 << 30), "zstd")
    assert sum(len(body) for _, body in messages) < 200_000
    status = Path(f"/proc/{target.process.pid}/status")
    Path(f"/proc/{target.process.pid}/clear_refs").write_text("5")  # the peak starts anew
    assert send(raw, messages, "bomb") == grpc.StatusCode.INVALID_ARGUMENT
    peak_kib = next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line)
    assert peak_kib < 600 << 10


@pytest.mark.parametrize(
    "table",
    [
        mutants.null_bomb(1_000_000_000),
        mutants.run_end_bomb(1_000_000_000),
        mutants.view_bomb(10_000, 1_000_000),
        pa.table(
            {"d": pa.DictionaryArray.from_arrays([0], mutants.view_bomb(10_000, 1_000_000)["v"].chunk(0))}
        ),
        *mutants.rows_of_nothing(1_000_000_000),
    ],
    ids=["nulls", "run-ends", "views", "dictionary", "binary", "structs", "lists", "no columns"],
)
def test_rows_without_bytes_are_counted(victim: Client, raw: RawClient, table: pa.Table) -> None:
    with pytest.raises(errors.InvalidArgument, match="decodes to"):
        victim.put("bomb", table)
    assert victim.list() == []


def test_moderate_ones_pass(victim: Client) -> None:
    tables = [mutants.null_bomb(1000), mutants.run_end_bomb(1000), mutants.view_bomb(10, 1000)]
    tables += mutants.rows_of_nothing(1000)
    for table in tables:
        victim.put("fine", table)
        assert victim.get("fine").to_pydict() == table.to_pydict()


def test_large_app_metadata_is_ignored(raw: RawClient, victim: Client) -> None:
    (header, body), *rest = messages_of(pa.table({"n": np.arange(10)}))
    messages = [flight_message(header, body, "noted") + field(3, b"m" * 20_000_000)]
    messages += [flight_message(*message) + field(3, b"m" * 20_000_000) for message in rest]
    assert raw.do_put(messages) == grpc.StatusCode.OK
    assert victim.get("noted").num_rows == 10
