# SPDX-License-Identifier: Apache-2.0
"""This PE's part of the symmetric heap: arrays and tables that every PE and client can read.

Views keep their block: memory goes back to the heap when the last array, table or slice of it is
gone, never earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flightshmem import _core
from flightshmem.errors import InvalidArgument
from flightshmem.runtime import current, format_bytes


@dataclass(frozen=True)
class HeapStats:
    """How full this PE's heap is. All sizes in bytes."""

    pe: int
    capacity_bytes: int
    used_bytes: int
    peak_bytes: int
    """The most that was ever in use."""
    largest_free_bytes: int
    """The largest block that can be had now."""
    blocks: int

    @property
    def free_bytes(self) -> int:
        """Bytes not in use, in one piece or many."""
        return self.capacity_bytes - self.used_bytes

    def __str__(self) -> str:
        return (
            f"heap of PE {self.pe}: {format_bytes(self.used_bytes)} of {format_bytes(self.capacity_bytes)} "
            f"used in {self.blocks} blocks (peak {format_bytes(self.peak_bytes)}), "
            f"largest free block {format_bytes(self.largest_free_bytes)}"
        )


def stats() -> HeapStats:
    """Tell how full this PE's heap is; tables that are gone are freed first. One-sided."""
    runtime = current()
    runtime.catalog.reclaim()
    return HeapStats(pe=runtime.pe, **runtime.heap.stats())


def empty(
    shape: int | Sequence[int], dtype: npt.DTypeLike = np.float64, order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]:
    """Give an array in this PE's heap. One-sided.

    Its values are what the memory last held, as with ``numpy.empty``: fill it before others see it.
    64-byte aligned. Raises HeapExhausted, on this PE only.
    """
    wanted = _checked("empty", shape, dtype)
    return _view(current().heap.allocate(wanted.nbytes), wanted, order)


def symmetric_empty(shape: int | Sequence[int], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Give an array at the same offset of every PE's heap: an OpenSHMEM symmetric object. Collective.

    Shape and dtype must be equal on all PEs. The values are what the memory last held. With the
    openshmem transport it can be handed to shmem4py's put, get and reductions. Raises HeapExhausted on
    all PEs when one has no room.
    """
    runtime = current()
    with runtime.converge("symmetric_empty"):
        wanted = _checked("symmetric_empty", shape, dtype)
    sizes = [int(size) for size in runtime.allgather(str(wanted.nbytes).encode())]
    if len(set(sizes)) > 1:
        raise InvalidArgument(
            f"[symmetric_empty] sizes differ between PEs, got {sizes} bytes, "
            f"PE {runtime.pe}/{runtime.n_pes}: pass the same shape and dtype on all PEs"
        )
    return _view(runtime.heap.allocate_symmetric(wanted.nbytes), wanted, "C")


def persist(table: pa.Table) -> pa.Table:
    """Copy a table into this PE's heap and give it back as views of there. One-sided, one copy.

    Slots under nulls hold zero, NaN in float columns. Raises HeapExhausted, on this PE only.
    """
    batch = one_batch("persist", table)
    shard = _core.write_shard(current().heap, batch)
    return pa.Table.from_batches([_core.read_shard(_core.Header.from_batch(batch), shard)])


def one_batch(operation: str, table: pa.Table) -> pa.RecordBatch:
    """Give a table's rows as one batch; copies only columns that lie in several pieces."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.num_chunks == 1:
            columns.append(column.chunk(0))
            continue
        try:
            whole = column.combine_chunks()
        except pa.ArrowInvalid as error:
            whole = error
        # Too long for 32-bit offsets is an error for some types and several chunks for others.
        if not isinstance(whole, pa.Array):
            raise InvalidArgument(
                f"[{operation}] column {name!r} is too long for one shard of type {column.type}, got "
                f"{format_bytes(column.nbytes)}: cast it to a large_ type, or use more PEs"
            )
        columns.append(whole)
    if not columns:  # a batch made from no arrays would forget how many rows there are
        rows = pa.StructArray.from_buffers(pa.struct([]), table.num_rows, [None])
        return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(table.schema.metadata)
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


@dataclass(frozen=True)
class _Wanted:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _checked(operation: str, shape: int | Sequence[int], dtype: npt.DTypeLike) -> _Wanted:
    sizes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    wanted = _Wanted(sizes, np.dtype(dtype))
    if any(size < 0 for size in sizes) or wanted.nbytes >= 1 << 63:
        raise InvalidArgument(f"[{operation}] no array can have that shape, got {shape!r}")
    if wanted.dtype.hasobject:
        raise InvalidArgument(
            f"[{operation}] Python objects cannot lie in shared memory, got dtype {wanted.dtype}: "
            "use numbers, booleans or fixed-size strings"
        )
    return wanted


def _view(block: _core.HeapBuffer, wanted: _Wanted, order: Literal["C", "F"]) -> npt.NDArray[Any]:
    # The array holds the block, and every slice of it holds the array.
    return np.ndarray(wanted.shape, wanted.dtype, buffer=cast(Any, block), order=order)
