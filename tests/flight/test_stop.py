# SPDX-License-Identifier: Apache-2.0
"""Stopping: streams get their time, nobody can hold it up, nothing is left over."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from flightshmem import errors
from flightshmem.flight import connect
from tests.flight.serving import TIMEOUT_S, Serving, serving

ROWS = 10_000_000


def put_large(served: Serving) -> None:
    with connect(served.uri) as client:
        client.put("large", pa.table({"x": np.arange(ROWS)}))


def test_a_reader_that_stalls_is_cancelled() -> None:
    with serving() as served:
        put_large(served)
        with flight.connect(served.uri) as bare:
            reader = bare.do_get(flight.Ticket(b"large"), served.options(timeout=600))
            reader.read_chunk()
            served.process.terminate()
            assert served.process.wait(TIMEOUT_S) == 0
            with pytest.raises((flight.FlightError, pa.ArrowException)):
                reader.read_all()


def test_a_reader_that_goes_on_gets_everything() -> None:
    with serving(grace_s=60) as served:
        put_large(served)
        with flight.connect(served.uri) as bare:
            reader = bare.do_get(flight.Ticket(b"large"), served.options())
            first = reader.read_chunk().data
            served.process.terminate()
            # Nobody new is let in while the stream goes on.
            with pytest.raises(errors.ServerError):
                while True:
                    connect(served.uri).close()
            rest = reader.read_all()
            assert first.num_rows + rest.num_rows == ROWS
        assert served.process.wait(TIMEOUT_S) == 0


def test_a_writer_that_never_ends_is_cancelled() -> None:
    batch = pa.record_batch({"x": np.zeros(1000)})
    with serving() as served:
        started = threading.Event()
        failures: list[BaseException] = []

        def write() -> None:
            with flight.connect(served.uri) as bare:
                descriptor = flight.FlightDescriptor.for_path("endless")
                writer, _ = bare.do_put(descriptor, batch.schema, served.options(timeout=600))
                try:
                    while True:
                        writer.write_batch(batch)
                        started.set()
                except (pa.ArrowException, OSError) as error:
                    failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        assert started.wait(TIMEOUT_S)
        served.process.terminate()
        assert served.process.wait(TIMEOUT_S) == 0
        thread.join(TIMEOUT_S)
        assert failures


def test_a_client_whose_server_is_gone_does_not_hang() -> None:
    with serving() as served:
        client = connect(served.uri)
        served.process.kill()
        served.process.wait(TIMEOUT_S)
        with client:
            for call in (
                client.list,
                client.stats,
                lambda: client.get("x"),
                lambda: client.put("x", pa.table({})),
            ):
                with pytest.raises(errors.ServerError):
                    call()
        with pytest.raises(errors.ServerError):
            connect(served.uri)


class StallingServer(flight.FlightServerBase):
    """Answers, sends one batch, and then nothing."""

    schema = pa.schema([("x", pa.int64())])

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.ended = threading.Event()

    def do_action(self, context: object, action: flight.Action) -> list[bytes]:
        return [b'{"status": "ok", "pe": 0, "n_pes": 1}']

    def get_flight_info(self, context: object, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        endpoint = flight.FlightEndpoint(b"x", [])
        return flight.FlightInfo(self.schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context: object, ticket: flight.Ticket) -> flight.GeneratorStream:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([[1]], self.schema)
            self.ended.wait(TIMEOUT_S)

        return flight.GeneratorStream(self.schema, batches())


def test_a_stream_that_stalls_is_given_up() -> None:
    server = StallingServer()
    stalled = pytest.raises(errors.ServerError, match="sent nothing for")
    with connect(f"grpc://127.0.0.1:{server.port}", timeout=1.0) as client, stalled:
        client.get("x")
    server.ended.set()
    server.shutdown()


def is_stopped(pid: int) -> bool:
    """Whether the signal has reached all threads."""
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_a_stopped_server_does_not_hang_a_client() -> None:
    with serving() as served, connect(served.uri, timeout=1.0) as client:
        served.process.send_signal(signal.SIGSTOP)
        while not is_stopped(served.process.pid):
            time.sleep(0.01)
        try:
            for call in (client.list, client.health, lambda: client.get("large")):
                with pytest.raises(errors.ServerError):
                    call()
        finally:
            served.process.send_signal(signal.SIGCONT)


CYCLES = """
import gc, json, os, sys
import numpy as np, pyarrow as pa
import flightshmem as fs
from flightshmem.flight import connect, serve

def counts():
    gc.collect()
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

fs.init(heap="64M")
table = pa.table({"x": np.zeros(1 << 20)})
seen = []
for cycle in range(110):
    with serve() as server, connect(server.uri) as client:
        client.put("t", table)
        assert client.get("t").num_rows == table.num_rows
    del server, client
    seen.append(counts())
print(json.dumps([seen[9], seen[-1]]))
"""


def test_a_hundred_servers_leave_nothing() -> None:
    result = subprocess.run(
        [sys.executable, "-c", CYCLES],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path.cwd(),
    )
    assert result.returncode == 0, result.stderr
    (threads, files), (threads_after, files_after) = json.loads(result.stdout)
    assert threads_after <= threads + 2  # gRPC's own pool breathes
    assert files_after <= files
