# SPDX-License-Identifier: Apache-2.0
"""One PE's bytes, read in place by all."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest

from flightshmem import exchange
from flightshmem.runtime import Runtime


def shares_memory(runtime: Runtime) -> bool:
    return all(runtime.transport.has_peer(pe) for pe in range(runtime.n_pes))


@pytest.mark.parametrize("keeper", ["first", "last"])
def test_all_read_the_keepers_bytes(runtime: Runtime, keeper: str) -> None:
    gc.collect()
    before = runtime.heap.stats()["used_bytes"]
    pe = 0 if keeper == "first" else runtime.n_pes - 1
    mine = pa.array(np.arange(100_001) % 251, pa.uint8()) if runtime.pe == pe else None
    shared = exchange.share_bytes(pe, mine)
    if not shares_memory(runtime):
        assert shared is None
        return
    assert shared is not None
    np.testing.assert_array_equal(shared.to_numpy(), np.arange(100_001) % 251)
    used = runtime.heap.stats()["used_bytes"] - before
    assert used > 100_000 if runtime.pe == pe else used == 0
    del shared
    gc.collect()
    runtime.barrier()
    assert runtime.heap.stats()["used_bytes"] == before


def test_without_bytes_or_room_there_is_nothing(runtime: Runtime) -> None:
    assert exchange.share_bytes(0, None) is None
    gc.collect()
    room = runtime.heap.stats()["largest_free_bytes"]
    hold = runtime.heap.allocate(room - 4096)
    data = pa.array(np.zeros(100_000), pa.uint8())
    assert exchange.share_bytes(0, data) is None
    del hold
    assert (exchange.share_bytes(0, data) is not None) == shares_memory(runtime)
