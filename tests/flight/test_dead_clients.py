# SPDX-License-Identifier: Apache-2.0
"""Clients that are killed: nothing stays behind, and nothing of theirs is published."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from flightshmem.flight import Client
from tests.flight.serving import Serving

# Prints a line per megabyte, so that the test kills it in the middle of things.
PUT = """
import sys, numpy as np, pyarrow as pa
from pyarrow import flight
client = flight.connect(sys.argv[1])
options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + sys.argv[2].encode())])
batch = pa.record_batch({"x": np.zeros(131072)})
writer, _ = client.do_put(flight.FlightDescriptor.for_path("half"), batch.schema, options)
while True:
    writer.write_batch(batch)
    print(flush=True)
"""
GET = """
import sys, time
from pyarrow import flight
client = flight.connect(sys.argv[1])
options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + sys.argv[2].encode())])
reader = client.do_get(flight.Ticket(b"large"), options)
reader.read_chunk()
print(flush=True)
time.sleep(600)
"""


def kill_midway(served: Serving, script: str, lines: int) -> None:
    command = [sys.executable, "-c", script, served.uri, served.token]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        for _ in range(lines):
            assert process.stdout.readline()
        process.kill()


def until(condition: Callable[[], bool]) -> bool:
    """Wait up to a minute for a condition."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_killed_writers_leave_nothing(served: Serving, client: Client) -> None:
    before = served.used_bytes()
    for lines in (1, 80, 2, 100, 3, 90, 1, 70):  # from 64 MB on a shard lies in the heap already
        kill_midway(served, PUT, lines)
    assert until(lambda: served.used_bytes() == before)
    assert client.list() == []


def test_killed_readers_let_go_of_the_version(served: Serving, client: Client) -> None:
    before = served.used_bytes()
    client.put("large", pa.table({"x": np.zeros(10_000_000)}))
    kill_midway(served, GET, 1)
    client.drop("large")
    assert until(lambda: served.used_bytes() == before)
