# SPDX-License-Identifier: Apache-2.0
"""What the core promises one process: errors as ours, versions held by what was read from them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from flightshmem import _core, errors


class Core:
    def __init__(self) -> None:
        self.transport = _core.open_posix_shm_alone(16 << 20, 10.0)
        self.heap = _core.Heap(self.transport)
        self.catalog = _core.Catalog(self.heap)

    def publish(self, name: str, batch: pa.RecordBatch, mode: str = "create") -> None:
        shard = _core.write_shard(self.heap, batch)
        refs = [(*shard.where, shard.size_bytes, shard.rows)]
        entry = self.catalog.publish(name, mode, _core.Header.from_batch(batch), refs, "")
        self.catalog.own(entry, shard)

    def publish_elsewhere(self, name: str, ref: tuple[int, int, int, int]) -> None:
        self.catalog.publish(name, "create", _core.Header.from_batch(NUMBERS), [ref], "")

    def blocks(self) -> int:
        self.catalog.reclaim()
        return self.heap.stats()["blocks"]


@pytest.fixture
def core() -> Iterator[Core]:
    yield Core()


NUMBERS = pa.record_batch({"v": np.arange(1000)})
WORDS = pa.record_batch({"w": pa.array(["x", "y", "x"]).dictionary_encode()})


def test_a_slice_of_a_column_holds_its_version(core: Core) -> None:
    core.publish("t", NUMBERS)
    column = core.catalog.read(core.catalog.lookup("t"), 0)["v"].slice(990)
    core.catalog.drop("t")
    assert core.blocks() == 2 and column.to_pylist() == list(range(990, 1000))
    del column
    assert core.blocks() == 0


def test_a_dictionary_holds_its_version(core: Core) -> None:
    """Dictionaries lie in the descriptor, not in a shard: they must hold it, too."""
    core.publish("t", WORDS)
    dictionary = core.catalog.read(core.catalog.lookup("t"), 0)["w"].dictionary
    core.catalog.drop("t")
    assert core.blocks() == 2
    for _ in range(20):
        core.publish("other", NUMBERS, "replace")
    assert dictionary.to_pylist() == ["x", "y"]
    del dictionary
    core.catalog.drop("other")
    assert core.blocks() == 0


def test_a_view_may_die_on_any_thread(core: Core) -> None:
    core.publish("t", NUMBERS)
    held = [core.catalog.read(core.catalog.lookup("t"), 0) for _ in range(8)]
    core.catalog.drop("t")
    threads = [threading.Thread(target=held.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert core.blocks() == 0


def test_a_view_outlives_heap_and_catalog() -> None:
    core = Core()
    core.publish("t", NUMBERS)
    batch = core.catalog.read(core.catalog.lookup("t"), 0)
    core.heap.close()
    core.transport.finalize()
    del core
    assert batch.equals(NUMBERS)
    del batch


def test_views_alive_at_exit_do_no_harm() -> None:
    """Modules are torn down in any order; the process must still end well."""
    script = textwrap.dedent("""
        import numpy as np, pyarrow as pa
        import flightshmem as fs
        from flightshmem import catalog, heap
        fs.init(heap="16M")
        catalog.publish("t", pa.table({"v": np.arange(1000), "w": ["x"] * 1000}))
        table, array = catalog.lookup("t"), heap.empty(1000)
        batch = table.read(0)
        rows = heap.persist(pa.table({"v": [1, 2]}))
        print(batch.num_rows)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000\n", "")


@pytest.mark.parametrize(
    ("fails", "ours", "builtin"),
    [
        (lambda core: core.catalog.lookup("none"), errors.TableNotFound, KeyError),
        (lambda core: core.catalog.drop("none"), errors.TableNotFound, KeyError),
        (lambda core: core.publish("t", NUMBERS), errors.TableExists, FileExistsError),
        (lambda core: core.publish("t", WORDS, "append"), errors.SchemaError, TypeError),
        (lambda core: core.publish("", WORDS), errors.InvalidArgument, ValueError),
        (lambda core: core.heap.allocate(1 << 40), errors.HeapExhausted, MemoryError),
        (lambda core: core.catalog.read(core.catalog.lookup("t"), 1), errors.InvalidArgument, ValueError),
        (lambda core: _core.Header.from_bytes(b"junk"), errors.DataError, ValueError),
        (lambda core: _core.write_shard(core.heap, 3), errors.SchemaError, TypeError),
        (
            lambda core: core.catalog.publish(
                "u", "create", _core.Header.from_batch(WORDS), [(5, 0, 1, 1)], ""
            ),
            errors.InvalidArgument,
            ValueError,
        ),
    ],
)
def test_failures_are_ours_and_the_builtin(core: Core, fails: object, ours: type, builtin: type) -> None:
    core.publish("t", NUMBERS)
    with pytest.raises(ours, match=r"^\[") as caught:
        fails(core)  # type: ignore[operator]
    assert isinstance(caught.value, builtin) and isinstance(caught.value, errors.FlightShmemError)
    assert core.catalog.names() == ["t"]


def test_control_characters_do_not_reach_a_message(core: Core) -> None:
    with pytest.raises(errors.TableNotFound, match=r"a\\x0ab"):
        core.catalog.lookup("a\nb")
