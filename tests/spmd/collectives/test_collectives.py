# SPDX-License-Identifier: Apache-2.0
"""Collectives give what NumPy and Arrow make of the values of all PEs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.exchange.job_tables import decoded as plain
from spmd.exchange.job_tables import jobs
from strategies import same

from flightshmem import collectives
from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.runtime import Runtime, current
from flightshmem.testing import agreed

TYPES = ["i1", "u2", "i4", "u8", "f4", "f8"]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def of_pe(pe: int, dtype: str, shape: int | tuple[int, ...] = 7) -> np.ndarray:
    """Give the array of a PE: small values, so that nothing overflows."""
    return np.random.default_rng(pe).integers(1, 4, shape).astype(dtype)


def of_all(runtime: Runtime, dtype: str, shape: int | tuple[int, ...] = 7) -> list[np.ndarray]:
    return [of_pe(pe, dtype, shape) for pe in range(runtime.n_pes)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("shape", [(), 0, 1, 7, (3, 5)])
def test_all_reduce(runtime: Runtime, dtype: str, op: str, shape: int | tuple[int, ...]) -> None:
    everybody = of_all(runtime, dtype, shape)
    wanted = everybody[0].copy()
    for theirs in everybody[1:]:
        wanted = UFUNCS[op](wanted, theirs)
    got = collectives.all_reduce(everybody[runtime.pe], op)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, wanted)


def test_all_reduce_of_many_floats_is_the_same_everywhere(runtime: Runtime) -> None:
    everybody = [np.random.default_rng(pe).standard_normal(300_001) for pe in range(runtime.n_pes)]
    wanted = everybody[0].copy()
    for theirs in everybody[1:]:
        wanted += theirs
    got = collectives.all_reduce(everybody[runtime.pe])
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_exclusive_scan(runtime: Runtime, dtype: str, op: str) -> None:
    everybody = of_all(runtime, dtype)
    wanted = np.full(7, 0 if op == "sum" else 1, dtype)
    for theirs in everybody[: runtime.pe]:
        wanted = UFUNCS[op](wanted, theirs)
    got = collectives.exclusive_scan(everybody[runtime.pe], op)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, wanted)


def test_exclusive_scan_of_different_shapes_and_unknown_ops(runtime: Runtime) -> None:
    with pytest.raises(InvalidArgument, match="knows sum and prod"):
        collectives.exclusive_scan([1], "max")
    if runtime.n_pes > 1:
        with pytest.raises(InvalidArgument, match=r"shape \(1,\) on PE 1/"):
            collectives.exclusive_scan(np.zeros(1 if runtime.pe else 2))


@settings(max_examples=15)
@given(sizes=st.lists(st.integers(0, 200_000), min_size=4, max_size=4), root=st.integers(0, 3))
@agreed
def test_gathers_take_any_shapes(sizes: list[int], root: int) -> None:
    runtime = current()
    everybody = [np.arange(size, dtype=TYPES[pe]) for pe, size in enumerate(sizes[: runtime.n_pes])]
    for got, wanted in zip(collectives.all_gather(everybody[runtime.pe]), everybody, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    got = collectives.gather(everybody[runtime.pe], root % runtime.n_pes)
    assert (got is None) == (runtime.pe != root % runtime.n_pes)


def test_broadcast(runtime: Runtime) -> None:
    for root in range(runtime.n_pes):
        mine = of_pe(root, "f4", (2, 3)) if runtime.pe == root else None
        got = collectives.broadcast(mine, root)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, of_pe(root, "f4", (2, 3)))
    with pytest.raises(InvalidArgument, match="no such PE"):
        collectives.broadcast([1], runtime.n_pes)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (70_000,)])
def test_alltoall(runtime: Runtime, shape: tuple[int, ...]) -> None:
    everybody = of_all(runtime, "i4", (runtime.n_pes, *shape))
    got = collectives.alltoall(everybody[runtime.pe])
    np.testing.assert_array_equal(got, np.stack([theirs[runtime.pe] for theirs in everybody]))
    with pytest.raises(InvalidArgument, match="one element for each"):
        collectives.alltoall(np.zeros(runtime.n_pes + 1))


def test_objects_are_refused(runtime: Runtime) -> None:
    with pytest.raises(SchemaError, match="Python objects"):
        collectives.all_gather(np.array([{}]))


@settings(max_examples=20)
@given(job=jobs(), root=st.integers(0, 3))
@agreed
def test_tables(job: list[pa.Table], root: int) -> None:
    runtime = current()
    mine, root = job[runtime.pe], root % runtime.n_pes
    assert same(plain(collectives.all_gather_table(mine)), plain(pa.concat_tables(map(plain, job))))
    assert same(plain(collectives.broadcast_table(mine, root)), plain(job[root]))
    got = plain(collectives.gather_table(mine, root))
    wanted = pa.concat_tables(map(plain, job))
    assert same(got, wanted if runtime.pe == root else wanted.slice(0, 0))


@settings(max_examples=30)
@given(job=jobs())
@agreed
def test_rebalance(job: list[pa.Table]) -> None:
    runtime = current()
    parts = collectives.rebalance(job[runtime.pe])
    sizes = [int(size[()]) for size in collectives.all_gather(np.int64(parts.num_rows))]
    assert max(sizes) - min(sizes) <= 1
    begin = sum(sizes[: runtime.pe])
    wanted = pa.concat_tables(map(plain, job)).slice(begin, parts.num_rows)
    assert same(plain(parts), wanted)


def test_rebalance_of_nested_columns(runtime: Runtime) -> None:
    mine = pa.table({"l": pa.array([[i] * (i % 3) for i in range(30 * runtime.pe)], pa.list_(pa.int8()))})
    everybody = collectives.all_gather_table(mine).to_pylist()
    parts = collectives.all_gather_table(collectives.rebalance(mine))
    assert parts.to_pylist() == everybody
