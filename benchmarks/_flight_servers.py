# SPDX-License-Identifier: Apache-2.0
"""The servers that benchmarks.flight compares, each in a process of its own.

``python -m benchmarks._flight_servers KIND N_BYTES`` prints the address it listens on, serves the same table
until its stdin closes, and ends. Kinds: ``ours``, ``python`` (bare pyarrow.flight), ``raw`` (a socket).
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyarrow import flight

N_COLUMNS = 10
NAME = "table"
BATCH_BYTES = 2 << 20


def make_table(n_bytes: int) -> pa.Table:
    """Make float64 columns of ``n_bytes`` together, one chunk each."""
    rows = n_bytes // (8 * N_COLUMNS)
    rng = np.random.default_rng(7)
    return pa.table({f"c{i}": rng.standard_normal(rows) for i in range(N_COLUMNS)})


def serve_ours(table: pa.Table, ready: Callable[[str], None]) -> None:
    """Serve from the symmetric heap, as ``flightshmem serve`` does; one PE."""
    import flightshmem as fs
    from flightshmem import catalog, runtime
    from flightshmem.flight import serve

    runtime.init(heap=table.nbytes * 5 // 4 + (64 << 20))
    catalog.publish(NAME, table)
    with serve(token="benchmark") as server:
        ready(server.uri)
    fs.finalize()


class PythonServer(flight.FlightServerBase):
    """What the pyarrow documentation shows: RecordBatchStream over a table in memory."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__("grpc://127.0.0.1:0")
        rows = BATCH_BYTES // (8 * N_COLUMNS)
        self._table = pa.Table.from_batches(table.to_batches(max_chunksize=rows))

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the table."""
        return flight.RecordBatchStream(self._table)


def serve_python(table: pa.Table, ready: Callable[[str], None]) -> None:
    """Serve with a bare pyarrow.flight server."""
    with PythonServer(table) as server:
        ready(f"grpc://127.0.0.1:{server.port}")


def serve_raw(table: pa.Table, ready: Callable[[str], None]) -> None:
    """Send the same bytes to whoever connects, without any protocol."""
    columns = [memoryview(column.chunk(0).buffers()[1]).cast("B") for column in table.columns]

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                for column in columns:
                    connection.sendall(column)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        ready(f"127.0.0.1:{listener.getsockname()[1]}")


SERVERS = {"ours": serve_ours, "python": serve_python, "raw": serve_raw}


def _ready(address: str) -> None:
    print(address, flush=True)
    sys.stdin.read()  # until the benchmark closes it


if __name__ == "__main__":
    SERVERS[sys.argv[1]](make_table(int(sys.argv[2])), _ready)
