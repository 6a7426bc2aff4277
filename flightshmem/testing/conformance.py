# SPDX-License-Identifier: Apache-2.0
"""What every transport must do: every call, with every type it takes, at the sizes where it may break.

Subclass ``TransportConformance`` in a test file and run it on 1 to 4 PEs:

    class TestMine(TransportConformance):
        pass

    flightshmem run -n 4 --transport ... -m pytest test_mine.py

The runtime's own transport is tested; override ``transport`` and ``area`` for another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from flightshmem._core import Transport
from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.runtime import current

AREA_BYTES = 4 << 20
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
ATOMICS = ["int32", "int64", "uint32", "uint64"]
# Nothing, one, odd, around the 480 KiB of scratch that one piece fills, several pieces.
SIZES = [0, 1, 7, 64, 4097, 491_495, 491_496, 491_497, 1_500_001]

Array = npt.NDArray[np.generic]


def pattern(seed: int, size: int) -> bytes:
    """Return bytes that differ by seed and by place."""
    return np.random.default_rng(seed).bytes(size)


def values_of(pe: int, dtype: str, count: int) -> Array:
    """Return what ``pe`` contributes to a reduction: over the whole range of the type."""
    random = np.random.default_rng(1000 + pe)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(count).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)


NUMPY_OPS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def folded(op: str, dtype: str, count: int, n_pes: int) -> Array:
    """Return the reduction as NumPy does it, in PE order."""
    total = values_of(0, dtype, count)
    with np.errstate(over="ignore"):
        for pe in range(1, n_pes):
            total = NUMPY_OPS[op](total, values_of(pe, dtype, count))
    return total


class _Fixtures:
    @pytest.fixture
    def transport(self) -> Transport:
        """Return the transport under test."""
        return current().transport

    @pytest.fixture
    def area(self, transport: Transport) -> Iterator[int]:
        """Offset of AREA_BYTES that the tests may write, the same on every PE."""
        block = current().heap.allocate_symmetric(AREA_BYTES)
        transport.put(transport.my_pe, block.offset, bytes(4096))  # tests count on zeros there
        transport.barrier()
        yield block.offset
        transport.barrier()  # nobody reads any more
        del block


class OneSidedConformance(_Fixtures):
    """Put, get and their completion."""

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("shift", [0, 1, 13])
    def test_put_reaches_the_next_pe(self, transport: Transport, area: int, size: int, shift: int) -> None:
        me, n = transport.my_pe, transport.n_pes
        transport.put((me + 1) % n, area + shift, pattern(me, size))
        transport.barrier()
        assert transport.get(me, area + shift, size) == pattern((me - 1) % n, size)

    @pytest.mark.parametrize("size", SIZES)
    def test_get_reads_every_pe(self, transport: Transport, area: int, size: int) -> None:
        transport.put(transport.my_pe, area, pattern(transport.my_pe, size))
        transport.barrier()
        for pe in range(transport.n_pes):
            assert transport.get(pe, area, size) == pattern(pe, size)
        transport.barrier()

    @pytest.mark.parametrize("size", SIZES)
    def test_put_nbi_is_complete_after_quiet(self, transport: Transport, area: int, size: int) -> None:
        me, n = transport.my_pe, transport.n_pes
        for pe in range(n):
            transport.put_nbi(pe, area + me * size, pattern(me, size)) if size * n <= AREA_BYTES else None
        transport.quiet()
        transport.barrier()
        for pe in range(n if size * n <= AREA_BYTES else 0):
            assert transport.get(me, area + pe * size, size) == pattern(pe, size)
        transport.barrier()

    @pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
    def test_every_type_travels(self, transport: Transport, area: int, dtype: str) -> None:
        me, n = transport.my_pe, transport.n_pes
        transport.put((me + 1) % n, area, values_of(me, dtype, 1001))
        transport.barrier()
        got = np.frombuffer(transport.get(me, area, 1001 * np.dtype(dtype).itemsize), dtype)
        np.testing.assert_array_equal(got, values_of((me - 1) % n, dtype, 1001))

    def test_fence_orders_puts(self, transport: Transport, area: int) -> None:
        me, n = transport.my_pe, transport.n_pes
        target = (me + 1) % n
        for number in range(1, 50):
            transport.put(target, area, number.to_bytes(8, "little"))
            transport.fence()
            transport.put(target, area + 64, number.to_bytes(8, "little"))
            flag = int.from_bytes(transport.get(me, area + 64, 8), "little")
            assert int.from_bytes(transport.get(me, area, 8), "little") >= flag
        transport.barrier()

    @pytest.mark.parametrize("pe", [-1, 1 << 20])
    def test_no_such_pe(self, transport: Transport, area: int, pe: int) -> None:
        for call in (lambda: transport.put(pe, area, b"x"), lambda: transport.get(pe, area, 1)):
            with pytest.raises(InvalidArgument, match=f"no such PE, got {pe}"):
                call()
        with pytest.raises(InvalidArgument):
            transport.put_nbi(pe, area, b"x")
        with pytest.raises(InvalidArgument):
            transport.fetch_add(pe, area, 1)
        assert not transport.has_peer(pe)

    def test_beyond_the_segment(self, transport: Transport) -> None:
        end = transport.segment_size
        for offset, size in [(end, 1), (end - 1, 2), (end + 1, 0), (2**64 - 1, 2), (0, end + 1)]:
            with pytest.raises(InvalidArgument, match="beyond the segment"):
                transport.get(transport.my_pe, offset, size)
        for offset in (end, end - 1, 2**64 - 1):
            with pytest.raises(InvalidArgument, match="beyond the segment"):
                transport.put(transport.my_pe, offset, b"xy")
            with pytest.raises(InvalidArgument, match="beyond the segment"):
                transport.put_nbi(transport.my_pe, offset, b"xy")
        assert transport.get(transport.my_pe, end, 0) == b""

    def test_what_is_not_a_buffer(self, transport: Transport, area: int) -> None:
        with pytest.raises(TypeError):
            transport.put(transport.my_pe, area, "text")
        with pytest.raises((BufferError, ValueError)):
            transport.put(transport.my_pe, area, np.zeros((4, 4))[:, 1])


class AtomicConformance(_Fixtures):
    """Fetch-and-add and compare-and-swap."""

    @pytest.mark.parametrize("dtype", ATOMICS)
    def test_fetch_add_gives_the_value_before(self, transport: Transport, area: int, dtype: str) -> None:
        limits = np.iinfo(dtype)
        me = transport.my_pe
        values = [limits.max, 1, limits.min, 5] if limits.min < 0 else [limits.max, 2, 5]
        expected = np.zeros(1, dtype)
        for value in values:
            assert transport.fetch_add(me, area, value, dtype) == expected[0]
            expected += np.array([value], dtype)  # wraps
        width = np.dtype(dtype).itemsize
        assert transport.get(me, area, width) == expected.tobytes()
        assert transport.get(me, area + width, 8) == bytes(8)  # and nothing beside it

    @pytest.mark.parametrize("dtype", ATOMICS)
    def test_compare_swap_swaps_only_the_expected(self, transport: Transport, area: int, dtype: str) -> None:
        limits = np.iinfo(dtype)
        me, width = transport.my_pe, np.dtype(dtype).itemsize
        for before, after in [(0, limits.max), (limits.max, limits.min), (limits.min, 7)]:
            wrong = before ^ 1
            assert transport.compare_swap(me, area, wrong, 3, dtype) == before
            assert transport.compare_swap(me, area, before, after, dtype) == before
            assert transport.get(me, area, width) == np.array([after], dtype).tobytes()
        assert transport.get(me, area + width, 8) == bytes(8)

    @pytest.mark.parametrize("dtype", ATOMICS)
    def test_adds_of_all_pes_are_exact(self, transport: Transport, area: int, dtype: str) -> None:
        n, rounds = transport.n_pes, 500
        seen = [[transport.fetch_add(pe, area, 1, dtype) for pe in range(n)] for _ in range(rounds)]
        transport.barrier()
        everything = np.frombuffer(b"".join(transport.allgather(np.array(seen).tobytes())), np.int64)
        for pe, values in enumerate(everything.reshape(-1, n).T):
            assert sorted(values) == list(range(rounds * n)), f"on PE {pe}"
        transport.barrier()

    @pytest.mark.parametrize("dtype", ATOMICS)
    def test_a_lock_of_compare_swap_excludes(self, transport: Transport, area: int, dtype: str) -> None:
        if not all(transport.has_peer(pe) for pe in range(transport.n_pes)):
            pytest.skip("a PE that spins on its own memory need not serve those on other nodes")
        rounds = 100
        for _ in range(rounds):
            while transport.compare_swap(0, area, 0, transport.my_pe + 1, dtype) != 0:
                pass
            count = int.from_bytes(transport.get(0, area + 64, 8), "little")
            transport.put(0, area + 64, (count + 1).to_bytes(8, "little"))
            transport.quiet()
            assert transport.compare_swap(0, area, transport.my_pe + 1, 0, dtype) == transport.my_pe + 1
        transport.barrier()
        total = int.from_bytes(transport.get(0, area + 64, 8), "little")
        assert total == rounds * transport.n_pes
        transport.barrier()

    def test_wrong_arguments(self, transport: Transport, area: int) -> None:
        me = transport.my_pe
        for dtype, offset in (("int64", area + 4), ("int32", area + 2)):
            with pytest.raises(InvalidArgument, match="multiple of"):
                transport.fetch_add(me, offset, 1, dtype)
            with pytest.raises(InvalidArgument, match="multiple of"):
                transport.compare_swap(me, offset, 0, 1, dtype)
        for dtype in ("int8", "float64", "nonsense"):
            with pytest.raises(SchemaError, match=dtype):
                transport.fetch_add(me, area, 1, dtype)
        for value, dtype in ((2**63, "int64"), (-1, "uint64"), (2**31, "int32"), (2**32, "uint32")):
            with pytest.raises(InvalidArgument, match=str(value)):
                transport.fetch_add(me, area, value, dtype)
        with pytest.raises(InvalidArgument, match="beyond the segment"):
            transport.fetch_add(me, transport.segment_size, 1)


class CollectiveConformance(_Fixtures):
    """Barrier, broadcast, allgather, alltoall, reduce."""

    def test_barrier_orders_puts_and_gets(self, transport: Transport, area: int) -> None:
        me, n = transport.my_pe, transport.n_pes
        for number in range(200):
            transport.put_nbi((me + 1) % n, area, number.to_bytes(8, "little"))
            transport.barrier()
            assert int.from_bytes(transport.get(me, area, 8), "little") == number
            transport.barrier()

    @pytest.mark.parametrize("size", SIZES)
    def test_broadcast_from_every_root(self, transport: Transport, size: int) -> None:
        for root in range(transport.n_pes):
            mine = pattern(root, size) if transport.my_pe == root else b"not looked at"
            assert transport.broadcast(mine, root) == pattern(root, size)

    @pytest.mark.parametrize("size", SIZES)
    def test_allgather_of_equal_sizes(self, transport: Transport, size: int) -> None:
        gathered = transport.allgather(pattern(transport.my_pe, size))
        assert gathered == [pattern(pe, size) for pe in range(transport.n_pes)]

    @pytest.mark.parametrize("size", SIZES)
    def test_allgather_of_different_sizes(self, transport: Transport, size: int) -> None:
        sizes = [size * pe // 2 for pe in range(transport.n_pes)]
        gathered = transport.allgather(pattern(transport.my_pe, sizes[transport.my_pe]))
        assert gathered == [pattern(pe, sizes[pe]) for pe in range(transport.n_pes)]

    @pytest.mark.parametrize("size", SIZES)
    def test_alltoall(self, transport: Transport, size: int) -> None:
        me, n = transport.my_pe, transport.n_pes
        received = transport.alltoall([pattern(me * 100 + pe, size) for pe in range(n)])
        assert received == [pattern(pe * 100 + me, size) for pe in range(n)]

    @pytest.mark.parametrize("op", list(NUMPY_OPS))
    @pytest.mark.parametrize("dtype", INTEGERS)
    def test_reduce_of_integers_wraps(self, transport: Transport, dtype: str, op: str) -> None:
        values = values_of(transport.my_pe, dtype, 1001)
        transport.reduce(values, op)
        np.testing.assert_array_equal(values, folded(op, dtype, 1001, transport.n_pes))

    @pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_reduce_of_floats_is_in_pe_order(self, transport: Transport, dtype: str, op: str) -> None:
        values = values_of(transport.my_pe, dtype, 1001)
        transport.reduce(values, op)
        # Bit for bit, which another order would not give.
        np.testing.assert_array_equal(values, folded(op, dtype, 1001, transport.n_pes))

    @pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_reduce_keeps_nan(self, transport: Transport, dtype: str, op: str) -> None:
        for bad in range(transport.n_pes):
            values = np.array([1.0, np.nan if transport.my_pe == bad else 2.0, -0.0], dtype)
            transport.reduce(values, op)
            assert list(np.isnan(values)) == [False, True, False]

    @pytest.mark.parametrize("count", [0, 1, 3, 61_436, 61_437, 61_438, 200_001])
    @pytest.mark.parametrize("dtype", ["int16", "float64"])
    def test_reduce_of_any_length(self, transport: Transport, dtype: str, count: int) -> None:
        values = values_of(transport.my_pe, dtype, count)
        transport.reduce(values, "sum")
        np.testing.assert_array_equal(values, folded("sum", dtype, count, transport.n_pes))

    def test_what_cannot_be_reduced(self, transport: Transport) -> None:
        for op in ("and", "or", "xor"):
            with pytest.raises(SchemaError, match="integer type"):
                transport.reduce(np.zeros(3), op)
        with pytest.raises(InvalidArgument, match="median"):
            transport.reduce(np.zeros(3), "median")
        for dtype in ("complex128", "float16"):
            with pytest.raises(SchemaError):
                transport.reduce(np.zeros(3, dtype), "sum")

    def test_wrong_pieces_and_roots(self, transport: Transport) -> None:
        n = transport.n_pes
        for pieces in ([b"x"] * (n + 1), [b"x"] * (n - 1), [b"x"] * n + [b""]):
            with pytest.raises(InvalidArgument, match="pieces"):
                transport.alltoall(pieces)
        for root in (-1, n):
            with pytest.raises(InvalidArgument, match="no such PE"):
                transport.broadcast(b"", root)

    def test_different_calls_are_noticed(self, transport: Transport) -> None:
        if transport.n_pes == 1:
            pytest.skip("one PE cannot disagree")
        with pytest.raises(InvalidArgument, match="PEs disagree"):
            if transport.my_pe == 0:
                transport.reduce(np.zeros(5), "sum")
            else:
                transport.allgather(b"")
        with pytest.raises(InvalidArgument, match="PEs disagree"):
            transport.reduce(np.zeros(1 + transport.my_pe), "sum")
        assert transport.allgather(b"in step") == [b"in step"] * transport.n_pes


class TransportConformance(OneSidedConformance, AtomicConformance, CollectiveConformance):
    """Everything."""
