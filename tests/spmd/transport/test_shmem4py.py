# SPDX-License-Identifier: Apache-2.0
"""shmem4py in the same process uses the same library: arrays in our heap are symmetric to it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from flightshmem import heap
from flightshmem.runtime import Runtime


@pytest.fixture
def shmem(runtime: Runtime) -> ModuleType:
    if runtime.transport_name != "openshmem":
        pytest.skip("shmem4py is for the openshmem transport")
    from shmem4py import shmem

    return shmem


@pytest.fixture
def arrays(runtime: Runtime) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    source = heap.symmetric_empty((1000,), np.int64)
    target = heap.symmetric_empty((1000,), np.int64)
    source[:], target[:] = np.arange(1000) + runtime.pe, -1
    runtime.barrier()
    return source, target


def test_same_job(runtime: Runtime, shmem: Any) -> None:
    assert (shmem.my_pe(), shmem.n_pes()) == (runtime.pe, runtime.n_pes)


def test_put(runtime: Runtime, shmem: Any, arrays: Any) -> None:
    source, target = arrays
    shmem.put(target, source, (runtime.pe + 1) % runtime.n_pes)
    shmem.barrier_all()
    np.testing.assert_array_equal(target, np.arange(1000) + (runtime.pe - 1) % runtime.n_pes)
    runtime.barrier()


def test_put_nbi_is_complete_after_our_barrier(runtime: Runtime, shmem: Any, arrays: Any) -> None:
    source, target = arrays
    shmem.put_nbi(target, source, (runtime.pe + 1) % runtime.n_pes)
    runtime.barrier()
    np.testing.assert_array_equal(target, np.arange(1000) + (runtime.pe - 1) % runtime.n_pes)
    runtime.barrier()


def test_get(runtime: Runtime, shmem: Any, arrays: Any) -> None:
    source, _ = arrays
    for pe in range(runtime.n_pes):
        private = np.empty(1000, np.int64)
        shmem.get(private, source, pe)
        np.testing.assert_array_equal(private, np.arange(1000) + pe)
    runtime.barrier()


def test_reduce(runtime: Runtime, shmem: Any, arrays: Any) -> None:
    source, target = arrays
    shmem.sum_reduce(target, source)
    np.testing.assert_array_equal(target, runtime.reduce(source, "sum"))


def test_atomics(runtime: Runtime, shmem: Any, arrays: Any) -> None:
    source, _ = arrays
    shmem.atomic_add(source[:1], 5, 0)
    runtime.barrier()
    assert source[0] == (5 * runtime.n_pes if runtime.pe == 0 else runtime.pe)


def test_arrays_of_shmem4py_have_room(runtime: Runtime, shmem: Any) -> None:
    theirs = shmem.zeros(1 << 20, dtype="float64")
    theirs[:] = runtime.pe
    shmem.barrier_all()
    assert shmem.ptr(theirs, 0)[0] == 0
    runtime.barrier()
    shmem.free(theirs)
