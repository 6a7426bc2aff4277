# SPDX-License-Identifier: Apache-2.0
"""How fast a table leaves over Flight: ours, a bare pyarrow.flight server, and a raw socket.

``python -m benchmarks.flight [--quick] [--json FILE]``. Each server is a process of its own and serves the
same table of 10 float64 columns (640 MB); one client process reads from them in turn.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyarrow import flight

from benchmarks._flight_servers import NAME
from benchmarks._harness import Row, interleaved_medians, main

FULL_BYTES, QUICK_BYTES = 640_000_000, 16_000_000
TOKEN = [(b"authorization", b"Bearer benchmark")]


@contextmanager
def server(kind: str, n_bytes: int) -> Iterator[str]:
    """Run a server process; give its address."""
    command = [sys.executable, "-m", "benchmarks._flight_servers", kind, str(n_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def flight_speed(uri: str, n_bytes: int, *, keep: bool) -> Callable[[], float]:
    """Measure a DoGet in GB/s; ``keep``: as one table (read_all), else batch by batch."""
    client = flight.connect(uri)
    options = flight.FlightCallOptions(headers=TOKEN)

    def measure() -> float:
        start = time.perf_counter()
        reader = client.do_get(flight.Ticket(NAME.encode()), options)
        received = reader.read_all().nbytes if keep else sum(chunk.data.nbytes for chunk in reader)
        seconds = time.perf_counter() - start
        if received != n_bytes:
            raise RuntimeError(f"{uri} sent {received} bytes, not {n_bytes}")
        return n_bytes / seconds / 1e9

    return measure


def raw_speed(address: str, n_bytes: int) -> Callable[[], float]:
    """Measure reading the same bytes from a socket, in GB/s."""
    host, port = address.split(":")
    buffer = bytearray(2 << 20)

    def measure() -> float:
        start = time.perf_counter()
        received = 0
        with socket.create_connection((host, int(port))) as connection:
            while size := connection.recv_into(buffer):
                received += size
        seconds = time.perf_counter() - start
        if received != n_bytes:
            raise RuntimeError(f"{address} sent {received} bytes, not {n_bytes}")
        return n_bytes / seconds / 1e9

    return measure


def rows(quick: bool) -> list[Row]:
    """Compare the three servers."""
    n_bytes = QUICK_BYTES if quick else FULL_BYTES
    with ExitStack() as stack:
        uris = {kind: stack.enter_context(server(kind, n_bytes)) for kind in ("ours", "python", "raw")}
        candidates = {
            "ours": flight_speed(uris["ours"], n_bytes, keep=False),
            "python": flight_speed(uris["python"], n_bytes, keep=False),
            "raw": raw_speed(uris["raw"], n_bytes),
            "ours, read_all": flight_speed(uris["ours"], n_bytes, keep=True),
            "python, read_all": flight_speed(uris["python"], n_bytes, keep=True),
        }
        interleaved_medians(candidates, 1)  # warm up
        speeds = interleaved_medians(candidates, 2 if quick else 9)
    python_server = "pyarrow.flight RecordBatchStream"

    def row(name: str, ours: str, peer: tuple[str, str]) -> Row:
        peer_name, key = peer
        return Row.compare(name, speeds[ours], (peer_name, speeds[key]), "GB/s", better="higher")

    return [
        row("doget_vs_python_server", "ours", (python_server, "python")),
        row("doget_vs_raw_tcp", "ours", ("loopback socket", "raw")),
        row("doget_read_all_vs_python_server", "ours, read_all", (python_server, "python, read_all")),
    ]


if __name__ == "__main__":
    raise SystemExit(main("flight", rows))
