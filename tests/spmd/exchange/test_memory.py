# SPDX-License-Identifier: Apache-2.0
"""What an exchange takes of the heap, what it gives back, and what shows of older bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from flightshmem import _core, exchange
from flightshmem.errors import HeapExhausted
from flightshmem.runtime import Runtime

ROWS = 10_000


def some_rows() -> pa.Table:
    """Rows in whose Arrow form no byte is 0xAB: small numbers, little text, nulls in one run."""
    numbers = np.arange(ROWS) % 100
    nulls = np.arange(ROWS) < ROWS // 2
    columns = {
        "int8": pa.array(numbers, pa.int8(), mask=nulls),
        "int64": pa.array(numbers, pa.int64(), mask=nulls),
        "text": pa.array(["x" if n % 500 == 1 else "" for n in range(ROWS)], mask=nulls),
        "fixed": pa.array([b"abc"] * ROWS, pa.binary(3), mask=nulls),
        "flag": pa.array(np.ones(ROWS, bool), mask=nulls),
        "one_row_null": pa.array(np.zeros(ROWS), mask=np.arange(ROWS) == 5),
        "none": pa.nulls(ROWS, pa.int32()),
    }
    return pa.table(columns).slice(1)


def poison(runtime: Runtime) -> None:
    block = runtime.heap.allocate(runtime.heap.stats()["largest_free_bytes"])
    memoryview(block).cast("B")[:] = b"\xab" * block.nbytes


@pytest.mark.parametrize("replicate", [False, True])
def test_older_bytes_do_not_show(runtime: Runtime, replicate: bool) -> None:
    gc.collect()
    table = some_rows()
    pes = pa.array(np.arange(table.num_rows) % runtime.n_pes, pa.uint16())
    poison(runtime)
    batch = table.to_batches()[0]
    if replicate:
        shard, result = _core.replicate(runtime.heap, table.schema, [batch])
    else:
        shard, result = _core.scatter(runtime.heap, table.schema, [batch], [pes])
    assert result.num_rows == shard.rows
    message = np.frombuffer(runtime.transport.get(*shard.where, shard.size_bytes), np.uint8)
    body = message[8 + int(message[4:8].view(np.int32)[0]) :]
    assert (body != 0xAB).all()


def unchanged_by(runtime: Runtime, attempt: Callable[[], object]) -> None:
    """Run what fails; blocks and bytes in use must be as before."""
    kept = ("used_bytes", "blocks")
    before = {key: runtime.heap.stats()[key] for key in kept}
    try:
        attempt()
    finally:
        assert {key: runtime.heap.stats()[key] for key in kept} == before


def check_exhausted(runtime: Runtime, error: HeapExhausted, pes: set[int]) -> None:
    assert error.pe in pes
    assert len(set(runtime.allgather(str(error).encode()))) == 1
    assert error.requested > 8 * ROWS
    assert error.largest <= 50_064
    assert f"PE {error.pe}/{runtime.n_pes}" in str(error)


def test_full_heap_fails_on_all_pes_and_leaks_nothing(runtime: Runtime) -> None:
    gc.collect()
    table = pa.table({"v": np.arange(ROWS), "s": ["text"] * ROWS})
    to_last = pa.array(np.full(ROWS, runtime.n_pes - 1), pa.uint32())
    room = runtime.heap.stats()["largest_free_bytes"]
    last = runtime.pe == runtime.n_pes - 1
    hold = runtime.heap.allocate(room - 50_000) if last else None
    with pytest.raises(HeapExhausted, match=r"--heap") as caught:
        unchanged_by(runtime, lambda: exchange.scatter(table, to_last))
    check_exhausted(runtime, caught.value, {runtime.n_pes - 1})
    hold = runtime.heap.allocate(room - 50_000) if not last else hold
    with pytest.raises(HeapExhausted, match=r"--heap") as caught:
        unchanged_by(runtime, lambda: _core.replicate(runtime.heap, table.schema, table.to_batches()))
    check_exhausted(runtime, caught.value, set(range(runtime.n_pes)))
    del hold, caught
    assert exchange.scatter(table, to_last).num_rows == (ROWS * runtime.n_pes if last else 0)


def test_an_exchange_takes_its_result_and_no_more(runtime: Runtime) -> None:
    """In a heap just large enough it works; with one block unit less it fails before any byte moves."""
    gc.collect()
    table = some_rows()
    pes = pa.array(np.arange(table.num_rows) % runtime.n_pes, pa.uint16())
    attempt = lambda: _core.scatter(runtime.heap, table.schema, table.to_batches(), [pes])  # noqa: E731
    size = attempt()[0].size_bytes
    gc.collect()
    room = runtime.heap.stats()["largest_free_bytes"]
    hold = runtime.heap.allocate(room - size)
    assert runtime.heap.stats()["largest_free_bytes"] == size
    shard, _ = attempt()
    assert runtime.heap.stats()["used_bytes"] >= size
    del shard, _, hold
    gc.collect()
    hold = runtime.heap.allocate(room - size + 64)
    with pytest.raises(HeapExhausted):
        unchanged_by(runtime, attempt)
    del hold


def test_pes_of_a_node_share_a_replica(runtime: Runtime) -> None:
    gc.collect()
    table = pa.table({"v": np.arange(ROWS) + runtime.pe})
    before = runtime.heap.stats()
    shard, batch = _core.replicate(runtime.heap, table.schema, table.to_batches())
    mine = runtime.heap.stats()["used_bytes"] - before["used_bytes"]
    used = [int(other) for other in runtime.allgather(str(mine).encode())]
    if all(runtime.transport.has_peer(pe) for pe in range(runtime.n_pes)):
        assert sorted(used)[:-1] == [0] * (runtime.n_pes - 1)
    assert max(used) >= 8 * ROWS * runtime.n_pes
    expected = np.concatenate([np.arange(ROWS) + pe for pe in range(runtime.n_pes)])
    # The keeper lets go first: the others' rows stay.
    values = batch.column(0)
    if used[runtime.pe] > 0:
        del shard, batch, values
        gc.collect()
        runtime.barrier()
    else:
        runtime.barrier()
        np.testing.assert_array_equal(values.to_numpy(), expected)
        del shard, batch, values
        gc.collect()
    runtime.barrier()
    assert runtime.heap.stats()["used_bytes"] == before["used_bytes"]


def test_results_free_their_blocks(runtime: Runtime) -> None:
    gc.collect()
    before = runtime.heap.stats()["used_bytes"]
    table = some_rows()
    pes = pa.array(np.arange(table.num_rows) % runtime.n_pes, pa.uint16())
    result = exchange.scatter(table, pes)
    column = result.column("int64").slice(3)
    held = runtime.heap.stats()["used_bytes"]
    assert held > before
    del result
    gc.collect()
    assert runtime.heap.stats()["used_bytes"] == held, "a column keeps the whole shard"
    assert column.num_chunks == 1
    del column
    gc.collect()
    assert runtime.heap.stats()["used_bytes"] == before


def test_published_bytes_are_one_message(runtime: Runtime) -> None:
    """The result is a shard: reading its message back gives the same rows."""
    table = some_rows()
    pes = pa.array(np.arange(table.num_rows) % runtime.n_pes, pa.uint16())
    shard, batch = _core.scatter(runtime.heap, table.schema, table.to_batches(), [pes])
    header = _core.Header.from_batch(batch)
    again = _core.read_shard(header, shard)
    assert again.equals(batch)
    message = runtime.transport.get(*shard.where, shard.size_bytes)
    assert pa.ipc.read_record_batch(pa.py_buffer(message), table.schema).equals(batch)
