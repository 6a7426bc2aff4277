# SPDX-License-Identifier: Apache-2.0
"""The runtime of this PE: transport, heap and catalog, started once."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from flightshmem import _core
from flightshmem.errors import InvalidArgument, TransportError
from flightshmem.runtime import failures, launch, memory, providers
from flightshmem.runtime.agreement import pack_error, unpack_error
from flightshmem.runtime.segment import HEAP_BEGIN, staging_bytes, warm_bytes


class Runtime:
    """This PE's place in the job. Made by ``init``, passed down; one per process."""

    def __init__(self, transport: _core.Transport) -> None:
        self.transport = transport
        self.transport_name: str = transport.name
        self.pe: int = transport.my_pe
        self.n_pes: int = transport.n_pes
        self.heap_bytes: int = transport.segment_size - HEAP_BEGIN
        self._owner = threading.get_ident()
        self._pid = os.getpid()
        self._finalized = False
        self.staging_bytes = staging_bytes()
        self.heap = _core.Heap(transport, HEAP_BEGIN, warm_bytes(self.heap_bytes, self.n_pes))
        self.catalog = _core.Catalog(self.heap)

    def barrier(self) -> None:
        """Wait until every PE is here; everything written before is visible after. Collective."""
        self._check_usable("barrier")
        self.transport.barrier()

    def allgather(self, payload: bytes) -> list[bytes]:
        """Return every PE's payload, of any sizes, in PE order. Collective."""
        self._check_usable("allgather")
        return self.transport.allgather(payload)

    def broadcast(self, payload: bytes, root: int = 0) -> bytes:
        """Return the root's payload; the others' argument is not looked at. Collective."""
        self._check_usable("broadcast")
        return self.transport.broadcast(payload, root)

    def reduce(self, values: npt.ArrayLike, op: str = "sum") -> npt.NDArray[np.generic]:
        """Combine equal-shaped arrays of all PEs element by element, in PE order. Collective.

        ``op``: sum, prod, min, max, and for integers and, or, xor. Integers wrap, NaN wins. Returns
        a new array, bit for bit the same on every PE. Booleans take and, or, xor, min, max.
        """
        self._check_usable("reduce")
        result: npt.NDArray[np.generic] = np.array(values, order="C")
        if result.dtype != np.bool_:
            self.transport.reduce(result, op)
        elif op in ("and", "or", "xor", "min", "max"):
            self.transport.reduce(result.view(np.uint8), op)
        else:
            raise InvalidArgument(f"[reduce] booleans take and, or, xor, min, max, got {op!r}: convert them")
        return result

    @contextmanager
    def converge(self, operation: str) -> Iterator[None]:
        """Make an error of the body on any PE an error on every PE. Collective.

        The body does local work only, no collective. A PE whose body failed raises its own error;
        the others raise that of the first PE that failed: the same class when it is one of
        ``flightshmem.errors``, else ``RemoteError``. Costs nothing with one PE.
        """
        if self.n_pes == 1:
            yield
            return
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            own = error
        outcomes = self.allgather(b"" if own is None else pack_error(own))
        if own is not None:
            raise own
        for pe, packed in enumerate(outcomes):
            if packed:
                raise unpack_error(packed, operation, pe)

    def finalize(self) -> None:
        """Leave the job; views of the heap stay readable while the process lives. Collective, idempotent."""
        if self._finalized or self._pid != os.getpid():
            return
        self._finalized = True
        self.heap.close()
        self.transport.finalize()

    def can_be_replaced(self) -> bool:
        """Whether a new runtime may follow this one: it was alone, and is finalized."""
        alone = self.transport_name == "posix_shm" and self.n_pes == 1
        return alone and self._finalized and self._pid == os.getpid()

    def _check_usable(self, operation: str) -> None:
        is_owner = self._owner == threading.get_ident() and self._pid == os.getpid()
        if is_owner and not self._finalized:
            return
        where = f"PE {self.pe}/{self.n_pes}"
        if self._pid != os.getpid():
            raise TransportError(
                f"[{operation}] this process was forked from {where} and is no PE itself: "
                "use subprocess, or fork before flightshmem.init()"
            )
        if self._finalized:
            raise TransportError(f"[{operation}] the runtime has been finalized, {where}")
        raise TransportError(
            f"[{operation}] called from thread {threading.current_thread().name!r}, {where}: "
            "collectives belong to the thread that called flightshmem.init()"
        )


_runtime: Runtime | None = None


def init(*, heap: str | int | None = None, transport: str | None = None) -> Runtime:
    """Start this PE and return its runtime. Collective.

    Called again, it returns the runtime there is. Without it the first operation that needs the
    runtime starts it with these defaults.

    ``heap``: bytes per PE, as ``"2G"``; else FLIGHTSHMEM_HEAP (set by ``flightshmem run --heap``), else
    1 GiB or what memory allows. ``transport``: ``"posix_shm"`` or ``"openshmem"``; else
    FLIGHTSHMEM_TRANSPORT, else what the launcher implies: openshmem under oshrun or srun,
    posix_shm under ``flightshmem run`` and alone.
    """
    global _runtime
    if _runtime is not None and not _runtime.can_be_replaced():
        _runtime._check_usable("init")
        _check_same(_runtime, heap, transport)
        return _runtime
    name = launch.choose_transport(transport)
    heap_bytes = None if heap is None else memory.parse_bytes(heap)
    _runtime = Runtime(providers.open_transport(name, heap_bytes))
    if _runtime.n_pes > 1:
        failures.install_hooks(_runtime.transport)
    atexit.register(_runtime.finalize)
    return _runtime


def _check_same(runtime: Runtime, heap: str | int | None, transport: str | None) -> None:
    if transport is not None and transport != runtime.transport_name:
        raise InvalidArgument(
            f"[init] already started over {runtime.transport_name}, got transport {transport!r}: "
            "call flightshmem.init() before any other use"
        )
    if heap is not None and memory.parse_bytes(heap) > runtime.heap_bytes:
        raise InvalidArgument(
            f"[init] already started with a heap of {memory.format_bytes(runtime.heap_bytes)}, got "
            f"{heap!r}: call flightshmem.init() before any other use"
        )


def current() -> Runtime:
    """Return the runtime, started with defaults if need be. Collective the first time."""
    return _runtime if _runtime is not None and not _runtime._finalized else init()


def is_initialized() -> bool:
    """Return whether the runtime is running in this process."""
    return _runtime is not None and not _runtime._finalized and _runtime._pid == os.getpid()


def finalize() -> None:
    """Leave the job; happens by itself when the process ends. Collective, idempotent."""
    if _runtime is not None:
        _runtime.finalize()


def pe() -> int:
    """Return the number of this PE, from 0."""
    return current().pe


def n_pes() -> int:
    """Return how many PEs the job has."""
    return current().n_pes


def barrier() -> None:
    """Wait until every PE is here. Collective."""
    current().barrier()
