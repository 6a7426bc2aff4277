# SPDX-License-Identifier: Apache-2.0
"""A shuffle as a message-passing dataframe does it: partition, Arrow IPC, MPI_Alltoallv, concatenate.

``mpirun -n 2 python -m benchmarks._exchange_mpi ROWS REPEATS``; prints JSON. ``exchange_fresh`` takes new
buffers every time, as Cylon does; ``exchange_warm`` keeps send and receive buffers that were touched once.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from mpi4py import MPI

from benchmarks._exchange_tables import check, fact_part

Bytes = npt.NDArray[np.uint8]


def partitioned(table: pa.Table, n_parts: int) -> list[pa.Table]:
    """Split rows by the hash of k."""
    keys = np.asarray(table.column("k")).astype(np.uint64)
    parts = ((keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) % np.uint64(n_parts)
    return [table.filter(pa.array(parts == part)) for part in range(n_parts)]


def serialized(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class Shuffle:
    """One way to shuffle; ``keeps``: buffers from one run to the next."""

    def __init__(self, keeps: bool, spare: int) -> None:
        self.comm = MPI.COMM_WORLD
        self._kept = [np.ones(spare, np.uint8) for _ in range(2)] if keeps else None

    def _buffer(self, which: int, size: int) -> Bytes:
        return self._kept[which][:size] if self._kept else np.empty(size, np.uint8)

    def run(self, table: pa.Table) -> pa.Table:
        messages = [serialized(part) for part in partitioned(table, self.comm.size)]
        sizes = np.array([message.size for message in messages])
        send = self._buffer(0, int(sizes.sum()))
        ends = np.cumsum(sizes)
        for message, end in zip(messages, ends, strict=True):
            send[end - message.size : end] = np.frombuffer(message, np.uint8)
        incoming = np.empty_like(sizes)
        self.comm.Alltoall(sizes, incoming)
        receive = self._buffer(1, int(incoming.sum()))
        starts = np.cumsum(incoming) - incoming
        self.comm.Alltoallv([send, (sizes, ends - sizes), MPI.BYTE], [receive, (incoming, starts), MPI.BYTE])
        pieces = [receive[a : a + size] for a, size in zip(starts, incoming, strict=True)]
        tables = [pa.ipc.open_stream(pa.py_buffer(piece)).read_all() for piece in pieces]
        return pa.concat_tables(tables)


def main() -> None:
    rows, repeats = int(sys.argv[1]), int(sys.argv[2])
    comm = MPI.COMM_WORLD
    table = fact_part(comm.rank, rows)
    results: dict[str, Any] = {}
    for name, keeps in (("exchange_fresh", False), ("exchange_warm", True)):
        shuffle, times = Shuffle(keeps, 2 * table.nbytes), []
        for _ in range(repeats + 1):
            comm.Barrier()
            start = time.perf_counter()
            result = shuffle.run(table)
            comm.Barrier()
            times.append(time.perf_counter() - start)
        numbers = comm.allreduce(np.array(check("exchange", result)))
        results[name] = {"seconds": float(np.median(times[1:])), "check": numbers.tolist()}
        del result
    if comm.rank == 0:
        print(json.dumps(results))


if __name__ == "__main__":
    pc.sum(pa.array([1]))  # loads the kernels before anything is timed
    main()
