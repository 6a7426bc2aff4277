# SPDX-License-Identifier: Apache-2.0
"""The symmetric heap as Python sees it, on every PE."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from strategies import EVERY, batches, same

from flightshmem import heap
from flightshmem.errors import HeapExhausted, InvalidArgument
from flightshmem.runtime import Runtime
from flightshmem.testing import agreed


def used() -> int:
    return heap.stats().used_bytes


def block_offset(array: np.ndarray) -> int:
    return array.base.offset  # type: ignore[union-attr]


def test_views_keep_their_block() -> None:
    before = used()
    array = heap.empty((100, 10), np.float32, order="F")
    assert array.flags.f_contiguous and array.shape == (100, 10) and array.ctypes.data % 64 == 0
    array[:] = 7
    column = array[:, 3]
    assert used() == before + 4032  # 4000 bytes in units of 64
    del array
    assert used() == before + 4032 and column.sum() == 700
    del column
    assert used() == before


@pytest.mark.parametrize("shape", [0, (0, 5), (), 1, (3, 0, 2)])
def test_any_shape(shape: int | tuple[int, ...]) -> None:
    array = heap.empty(shape, "datetime64[us]")
    assert array.shape == np.empty(shape).shape and array.dtype == "datetime64[us]"


@pytest.mark.parametrize(
    ("shape", "dtype", "word"), [(-1, "f8", "shape"), (1 << 62, "f8", "shape"), (3, object, "object")]
)
def test_impossible_arrays_are_refused(shape: int, dtype: object, word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        heap.empty(shape, dtype)  # type: ignore[arg-type]


def test_a_full_heap_says_what_to_do() -> None:
    stats = heap.stats()
    with pytest.raises(HeapExhausted, match=r"--heap.*FLIGHTSHMEM_HEAP") as caught:
        heap.empty(stats.capacity_bytes + 1, np.uint8)
    assert caught.value.requested == stats.capacity_bytes + 1
    assert caught.value.free == stats.free_bytes and caught.value.largest == stats.largest_free_bytes
    assert caught.value.pe == stats.pe and isinstance(caught.value, MemoryError)
    assert heap.stats() == stats


def test_stats_read_well(runtime: Runtime) -> None:
    text = str(heap.stats())
    assert text.startswith(f"heap of PE {runtime.pe}: ") and "largest free block" in text


def test_threads_allocate_and_free() -> None:
    before = used()
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        held: list[np.ndarray] = []
        for step in range(200):
            array = heap.empty(int(rng.integers(1, 5000)), np.int64)
            array[:] = seed * 1000 + step
            held.append(array)
            if len(held) > 8:
                old = held.pop(int(rng.integers(len(held))))
                if (old != old[0]).any():
                    wrong.append(f"thread {seed}, step {step}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert used() == before


def test_symmetric_arrays_have_one_offset(runtime: Runtime) -> None:
    before = used()
    # Heaps that look different: PE k holds k + 1 blocks with holes between them.
    mine = [heap.empty(1000 * (runtime.pe + 1), np.uint8) for _ in range(2 * (runtime.pe + 1))]
    del mine[::2]
    arrays = [heap.symmetric_empty((size, 2), np.int64) for size in (1, 100, 5000)]
    offsets = [block_offset(array) for array in arrays]
    assert runtime.allgather(repr(offsets).encode()) == [repr(offsets).encode()] * runtime.n_pes
    for array in arrays:
        array[:] = -1
    runtime.barrier()
    to = (runtime.pe + 1) % runtime.n_pes
    value = np.array([runtime.pe, len(offsets)])
    for offset in offsets:
        runtime.transport.put(to, offset, value)
    runtime.barrier()
    for array in arrays:
        assert array[0].tolist() == [(runtime.pe - 1) % runtime.n_pes, 3] and (array[1:] == -1).all()
    del array, arrays, mine
    assert used() == before
    runtime.barrier()


def test_symmetric_arrays_find_the_one_common_place(runtime: Runtime) -> None:
    """Free places that hardly overlap: the PEs must talk several times until one fits all."""
    before = used()
    unit = heap.stats().capacity_bytes // 64
    blocks = [heap.empty(unit - 64, np.uint8) for _ in range(63)]
    common = 20
    blocks[common] = None  # type: ignore[call-overload]
    for i in range(21, 63):
        if i % runtime.n_pes == runtime.pe and runtime.n_pes > 1:
            blocks[i] = None  # type: ignore[call-overload]
    array = heap.symmetric_empty(unit - 64, np.uint8)
    offsets = runtime.allgather(str(block_offset(array)).encode())
    assert len(set(offsets)) == 1
    del blocks, array
    assert used() == before
    runtime.barrier()


def test_symmetric_allocation_fails_everywhere(runtime: Runtime) -> None:
    before = used()
    full = runtime.n_pes - 1
    held = None
    if runtime.pe == full:
        held = heap.empty(heap.stats().largest_free_bytes - 4096, np.uint8)
    with pytest.raises(HeapExhausted, match=f"PE {full}/{runtime.n_pes}") as caught:
        heap.symmetric_empty(1 << 20, np.uint8)
    assert caught.value.pe == full and caught.value.requested == 1 << 20
    del held
    assert heap.symmetric_empty(1 << 20, np.uint8).size == 1 << 20
    assert used() == before


def test_symmetric_sizes_must_agree(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    with pytest.raises(InvalidArgument, match="differ between PEs"):
        heap.symmetric_empty(10 + runtime.pe)
    with pytest.raises(InvalidArgument, match="shape"):
        heap.symmetric_empty(-1 if runtime.pe == 1 else 5)


@settings(max_examples=30)
@given(batch=batches(EVERY))
@agreed
def test_persist_keeps_every_value(batch: pa.RecordBatch) -> None:
    before = used()
    table = heap.persist(pa.Table.from_batches([batch]))
    assert same(table, pa.Table.from_batches([batch]))
    table.validate(full=True)
    del table
    assert used() == before


def test_persist_joins_pieces() -> None:
    whole = pa.table({"a": [1.5, None, 2.5], "s": ["x", "yy", None]})
    table = heap.persist(pa.concat_tables([whole.slice(0, 2), whole.slice(2)]))
    assert table.equals(whole) and table["a"].num_chunks == 1
    block = np.frombuffer(table["a"].chunk(0).buffers()[1], np.float64)
    assert np.isnan(block[1]) and block[[0, 2]].tolist() == [1.5, 2.5]  # a legal matrix column
    assert heap.persist(pa.table({})).num_columns == 0
    rows = heap.persist(pa.table({"a": [1, 2]}).select([]))
    assert (rows.num_rows, rows.num_columns) == (2, 0)
