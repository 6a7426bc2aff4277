# SPDX-License-Identifier: Apache-2.0
"""What all PEs compute or tell each other: arrays and tables, element by element or PE by PE.

All functions are collective. Arrays are NumPy arrays of integers, floats of 32 or 64 bits, or
booleans, of the same shape and type on all PEs where nothing else is said. Results are new arrays.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flightshmem import exchange
from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.runtime import Runtime, current

Array = npt.NDArray[Any]

_IDENTITY = {"sum": 0, "prod": 1}


def all_reduce(values: npt.ArrayLike, op: str = "sum") -> Array:
    """Combine the arrays of all PEs element by element; everybody gets the result. Collective.

    ``op``: sum, prod, min, max, and for integers and, or, xor. In PE order, so the result is the
    same, bit for bit, on every PE and every time.
    """
    return current().reduce(values, op)


def exclusive_scan(values: npt.ArrayLike, op: str = "sum") -> Array:
    """Combine the arrays of the PEs before this one, element by element. Collective.

    ``op``: sum or prod. PE 0 gets zeros or ones: with the row counts of all PEs this gives the
    number of a PE's first row.
    """
    runtime = current()
    with runtime.converge("exclusive_scan"):
        mine = np.asarray(values)
        if op not in _IDENTITY:
            raise InvalidArgument(
                f"[exclusive_scan] knows sum and prod, got {op!r}, {_here(runtime)}: use one of them"
            )
        result = np.full_like(mine, _IDENTITY[op])
    combine = np.add if op == "sum" else np.multiply
    everybody = all_gather(mine)
    _check_alike(runtime, "exclusive_scan", everybody)
    for theirs in everybody[: runtime.pe]:
        combine(result, theirs, out=result)
    return result


def all_gather(values: npt.ArrayLike) -> list[Array]:
    """Return the arrays of all PEs, of any shapes and types, in PE order. Collective."""
    runtime = current()
    with runtime.converge("all_gather"):
        payload = _to_bytes(np.asarray(values), runtime)
    return [_from_bytes(received) for received in runtime.allgather(payload)]


def gather(values: npt.ArrayLike, root: int = 0) -> list[Array] | None:
    """Return the arrays of all PEs, of any shapes and types, on the root; None elsewhere. Collective."""
    runtime = current()
    with runtime.converge("gather"):
        _check_root(runtime, "gather", root)
    everybody = all_gather(values)
    return everybody if runtime.pe == root else None


def broadcast(values: npt.ArrayLike | None, root: int = 0) -> Array:
    """Return the root's array; the others' argument is not looked at. Collective."""
    runtime = current()
    with runtime.converge("broadcast"):
        _check_root(runtime, "broadcast", root)
        payload = _to_bytes(np.asarray(values), runtime) if runtime.pe == root else b""
    return _from_bytes(runtime.broadcast(payload, root))


def alltoall(values: npt.ArrayLike) -> Array:
    """Send element ``i`` (along the first axis) to PE ``i``; element ``s`` of the result is from PE ``s``.

    Collective. For small values, such as counts; rows of tables move with ``exchange.scatter``.
    """
    runtime = current()
    with runtime.converge("alltoall"):
        mine = np.ascontiguousarray(values)
        if mine.ndim == 0 or len(mine) != runtime.n_pes or mine.dtype.hasobject:
            raise InvalidArgument(
                f"[alltoall] needs one element for each of {runtime.n_pes} PEs, got {mine.dtype} of shape "
                f"{mine.shape}, {_here(runtime)}: make the first axis that long"
            )
    _check_alike(runtime, "alltoall", all_gather(np.empty((0, *mine.shape), mine.dtype)))
    received = runtime.transport.alltoall([piece.tobytes() for piece in mine])
    return np.frombuffer(b"".join(received), mine.dtype).reshape(mine.shape).copy()


def all_gather_table(table: pa.Table) -> pa.Table:
    """Return the rows of all PEs, in PE order. Collective.

    PEs that share memory read one copy, which lies in the heap of one of them.
    """
    return exchange.replicate(table)


def gather_table(table: pa.Table, root: int = 0) -> pa.Table:
    """Return the rows of all PEs, in PE order, on the root; no rows elsewhere. Collective."""
    runtime = current()
    with runtime.converge("gather_table"):
        _check_root(runtime, "gather_table", root)
    return exchange.scatter(table, pa.repeat(pa.scalar(root, pa.uint16()), table.num_rows))


def broadcast_table(table: pa.Table, root: int = 0) -> pa.Table:
    """Return the root's rows; of the others' tables only the schema counts. Collective.

    PEs that share memory read one copy, which lies in the heap of one of them.
    """
    runtime = current()
    with runtime.converge("broadcast_table"):
        _check_root(runtime, "broadcast_table", root)
    return exchange.replicate(table if runtime.pe == root else table.slice(0, 0))


def rebalance(table: pa.Table) -> pa.Table:
    """Even out the numbers of rows, to within one. Collective.

    The rows of all PEs, in PE order, stay in their order: each PE gets a contiguous range of them.
    With one PE, and where all have as many as they should, the rows stay where they are.
    """
    runtime = current()
    counts = [int(count) for count in all_gather(np.int64(table.num_rows))]
    total, n_pes = sum(counts), runtime.n_pes
    ends = [total * (pe + 1) // n_pes for pe in range(n_pes)]
    if max(counts) - min(counts) <= 1:
        return table
    first = sum(counts[: runtime.pe])
    rows = np.arange(first, first + table.num_rows)
    pes = np.searchsorted(np.array(ends), rows, side="right").astype(np.uint16)
    return exchange.scatter(table, pa.array(pes), keep_types=True)


def _to_bytes(array: Array, runtime: Runtime) -> bytes:
    if array.dtype.hasobject:
        raise SchemaError(
            f"[collectives] arrays of Python objects cannot be sent, got {array.dtype}, {_here(runtime)}: "
            "use numbers, or a pyarrow.Table"
        )
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=False)
    return sink.getvalue()


def _from_bytes(packed: bytes) -> Array:
    array: Array = np.load(io.BytesIO(packed), allow_pickle=False)
    return array


def _check_alike(runtime: Runtime, operation: str, everybody: Sequence[Array]) -> None:
    """Raise the same error on all PEs when their arrays differ in type or shape."""
    first = everybody[0]
    for pe, other in enumerate(everybody):
        if (other.dtype, other.shape) != (first.dtype, first.shape):
            raise InvalidArgument(
                f"[{operation}] arrays differ between PEs, got {other.dtype} of shape {other.shape} on PE "
                f"{pe}/{runtime.n_pes} and {first.dtype} of shape {first.shape} on PE 0: make them alike"
            )


def _check_root(runtime: Runtime, operation: str, root: int) -> None:
    if not 0 <= root < runtime.n_pes:
        raise InvalidArgument(
            f"[{operation}] no such PE, got root {root}, {_here(runtime)}: use 0 to {runtime.n_pes - 1}"
        )


def _here(runtime: Runtime) -> str:
    return f"PE {runtime.pe}/{runtime.n_pes}"
