# SPDX-License-Identifier: Apache-2.0
"""Where blocks go, against a model that is a list of used 64-byte units."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flightshmem import _core
from flightshmem.errors import HeapExhausted, InvalidArgument

UNITS = 300
TRANSPORT = _core.open_posix_shm_alone(4 << 20, 10.0)
BEGIN = TRANSPORT.segment_size - UNITS * 64


class AllocatorModel(RuleBasedStateMachine):
    """Any sequence of allocations and frees: lowest fit, no overlap, exact figures."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = _core.Heap(TRANSPORT, BEGIN)
        self.used = [False] * UNITS
        self.blocks: list[_core.HeapBuffer] = []
        self.peak = 0

    def lowest_fit(self, units: int) -> int | None:
        fits = (at for at in range(UNITS - units + 1) if not any(self.used[at : at + units]))
        return next(fits, None)

    @rule(nbytes=st.integers(0, 60 * 64) | st.integers(0, UNITS * 64 + 1))
    def allocate(self, nbytes: int) -> None:
        units = max(1, -(-nbytes // 64))
        at = self.lowest_fit(units)
        if at is None:
            with pytest.raises(HeapExhausted):
                self.heap.allocate(nbytes)
            return
        block = self.heap.allocate(nbytes)
        assert (block.offset, block.nbytes) == (BEGIN + at * 64, nbytes)
        self.used[at : at + units] = [True] * units
        self.blocks.append(block)
        self.peak = max(self.peak, sum(self.used))

    @precondition(lambda self: self.blocks)
    @rule(choice=st.integers(0))
    def free(self, choice: int) -> None:
        block = self.blocks.pop(choice % len(self.blocks))
        at, units = (block.offset - BEGIN) // 64, max(1, -(-block.nbytes // 64))
        self.used[at : at + units] = [False] * units

    @invariant()
    def figures_are_exact(self) -> None:
        runs = "".join("x" if used else "." for used in self.used).split("x")
        assert self.heap.stats() == {
            "capacity_bytes": UNITS * 64,
            "used_bytes": sum(self.used) * 64,
            "peak_bytes": self.peak * 64,
            "largest_free_bytes": max(map(len, runs)) * 64,
            "blocks": len(self.blocks),
        }


TestAllocator = AllocatorModel.TestCase
TestAllocator.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_absurd_sizes_do_not_wrap_around() -> None:
    heap = _core.Heap(TRANSPORT, BEGIN)
    for nbytes in (2**63, 2**64 - 1, 2**64 - 64):
        with pytest.raises(HeapExhausted):
            heap.allocate(nbytes)


def test_a_segment_too_small_for_a_heap_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="--heap"):
        _core.Heap(TRANSPORT, TRANSPORT.segment_size)


def test_after_close_nothing_is_allocated_and_frees_do_nothing() -> None:
    heap = _core.Heap(TRANSPORT, BEGIN)
    block = heap.allocate(100)
    view = memoryview(block)
    view[:3] = b"abc"
    heap.close()
    with pytest.raises(InvalidArgument, match="finalize"):
        heap.allocate(1)
    assert view[:3] == b"abc"
    del view, block
    assert heap.stats()["blocks"] == 1


def test_blocks_are_writable_and_keep_their_heap() -> None:
    block = _core.Heap(TRANSPORT, BEGIN).allocate(128)
    view = memoryview(block).cast("Q")
    del block
    view[5] = 2**60
    assert view[5] == 2**60 and view.nbytes == 128 and not view.readonly
