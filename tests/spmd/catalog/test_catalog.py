# SPDX-License-Identifier: Apache-2.0
"""Publishing together and reading one-sided, on every PE."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EVERY, batches, same

from flightshmem import _core, catalog, heap
from flightshmem.errors import HeapExhausted, InvalidArgument, SchemaError, TableExists, TableNotFound
from flightshmem.runtime import Runtime, current
from flightshmem.testing import agree, agreed


def used() -> int:
    return heap.stats().used_bytes


@pytest.fixture(autouse=True)
def nothing_stays(runtime: Runtime) -> Iterator[None]:
    """Every test drops what it published; then every block is free again."""
    before = used()
    yield
    with agree("nothing stays"):
        runtime.barrier()
        assert catalog.names() == []
        if used() != before:
            gc.collect()  # what pytest.raises caught refers to the rows, in a circle
        assert used() == before


def drop_together(name: str) -> None:
    runtime = current()
    runtime.barrier()  # nobody is still reading the name
    if runtime.pe == 0:
        catalog.drop(name)
    runtime.barrier()


def rows_of(pe: int, rows: int = 10) -> pa.Table:
    text = pa.array([f"{pe}-{row}" for row in range(rows)], pa.string())
    row = pa.array(range(rows), pa.int64())
    return pa.table({"pe": pa.array([pe] * rows, pa.int32()), "row": row, "text": text})


def everybodys(runtime: Runtime) -> pa.Table:
    return pa.concat_tables([rows_of(pe) for pe in range(runtime.n_pes)])


def test_every_pe_reads_every_shard(runtime: Runtime) -> None:
    catalog.publish("t", rows_of(runtime.pe), partitioning='{"hash": ["pe"]}')
    table = catalog.lookup("t")
    assert (table.name, table.version, table.rows) == ("t", 1, 10 * runtime.n_pes)
    assert table.shard_pes == list(range(runtime.n_pes)) and table.n_shards == runtime.n_pes
    assert table.schema == rows_of(0).schema and '"hash": ["pe"]' in table.partitioning
    assert table.to_arrow().equals(everybodys(runtime))
    for shard in range(table.n_shards):
        assert table.read(shard).to_pylist() == rows_of(shard).to_pylist()
    assert table.local().equals(rows_of(runtime.pe))
    assert catalog.names() == ["t"] and "rows=" in repr(table)
    del table
    drop_together("t")


def test_own_rows_are_read_where_they_lie(runtime: Runtime) -> None:
    catalog.publish("t", rows_of(runtime.pe))
    column = catalog.lookup("t").local()["row"].chunk(0)
    probe = runtime.heap.allocate(1)
    begin = probe.address - probe.offset
    assert begin <= column.buffers()[1].address < begin + runtime.transport.segment_size
    del column, probe
    drop_together("t")


def test_names_must_be_new_to_create(runtime: Runtime) -> None:
    catalog.publish("t", rows_of(runtime.pe))
    before = used()
    with pytest.raises(TableExists, match="replace"):
        catalog.publish("t", rows_of(0, 3))
    assert used() == before and catalog.lookup("t").version == 1
    drop_together("t")


def test_replace_leaves_readers_their_version(runtime: Runtime) -> None:
    catalog.publish("t", rows_of(runtime.pe), mode="replace")
    old = catalog.lookup("t")
    kept = old.read(runtime.n_pes - 1)
    del old
    runtime.barrier()
    catalog.publish("t", rows_of(runtime.pe, 3), mode="replace")
    new = catalog.lookup_together("t")
    assert (new.version, new.rows) == (2, 3 * runtime.n_pes)
    assert kept.to_pylist() == rows_of(runtime.n_pes - 1).to_pylist()
    del new, kept
    drop_together("t")


def test_drop_leaves_readers_their_rows(runtime: Runtime) -> None:
    catalog.publish("t", rows_of(runtime.pe))
    shard = catalog.lookup("t").read(0)
    drop_together("t")
    with pytest.raises(TableNotFound, match="nothing is published"):
        catalog.lookup("t")
    catalog.publish("other", rows_of(runtime.pe))
    assert shard.to_pylist() == rows_of(0).to_pylist()
    with pytest.raises(TableNotFound, match="published: other"):
        catalog.drop("t")
    del shard
    drop_together("other")


def test_appends_keep_rows_and_order(runtime: Runtime) -> None:
    parts = []
    for step in range(70):
        table = rows_of(100 * step + runtime.pe, 2)
        catalog.publish("t", table, mode="append")
        parts += [rows_of(100 * step + pe, 2) for pe in range(runtime.n_pes)]
    table = catalog.lookup("t")
    assert table.version == 70 and table.to_arrow().equals(pa.concat_tables(parts))
    # Shards are joined now and then, so that reading does not become slow.
    assert table.n_shards <= 64 + runtime.n_pes
    local = table.local()
    counts = runtime.reduce(np.array([local.num_rows]))
    assert counts[0] == table.rows
    del table, local
    drop_together("t")


def test_append_needs_the_same_columns(runtime: Runtime) -> None:
    catalog.publish("t", rows_of(runtime.pe))
    with pytest.raises(SchemaError, match="appended must be as table 't' is"):
        catalog.publish("t", pa.table({"other": [1.5]}), mode="append")
    assert catalog.lookup("t").version == 1
    drop_together("t")


def test_one_full_heap_publishes_nothing(runtime: Runtime) -> None:
    full = runtime.n_pes - 1
    held = None
    if runtime.pe == full:
        held = heap.empty(heap.stats().largest_free_bytes - 8192, np.uint8)
    with pytest.raises(HeapExhausted, match="no room") as caught:
        catalog.publish("t", rows_of(runtime.pe, 1000))
    assert caught.value.pe == full and caught.value.requested > 8192
    assert catalog.names() == []
    del held


def test_the_error_of_a_full_heap_names_the_largest_tables(runtime: Runtime) -> None:
    catalog.publish("small", rows_of(runtime.pe, 1))
    catalog.publish("large", rows_of(runtime.pe, 5000))
    with pytest.raises(HeapExhausted, match=r"largest tables on all PEs: large .* KiB, small ") as caught:
        heap.empty(1 << 40)
    assert caught.value.requested == 8 << 40
    drop_together("small")
    drop_together("large")


def test_columns_must_agree_between_pes(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    odd = runtime.n_pes - 1
    mine = pa.table({"a": [1.5]}) if runtime.pe == odd else pa.table({"a": [1]})
    with pytest.raises(SchemaError, match=f"PE {odd}/{runtime.n_pes} and PE 0 publish different columns"):
        catalog.publish("t", mine)
    words = pa.array(["x", "y"] if runtime.pe == odd else ["x", "z"]).dictionary_encode()
    with pytest.raises(SchemaError, match="unify"):
        catalog.publish("t", pa.table({"a": words}))
    assert catalog.names() == []


def test_pandas_notes_do_not_count_as_columns(runtime: Runtime) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": range(runtime.pe + 1)})  # the notes hold the length of the index
    catalog.publish("t", pa.Table.from_pandas(frame))
    assert catalog.lookup("t").rows == sum(range(runtime.n_pes + 1))
    drop_together("t")


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines", "nul\0", "../etc/passwd", "a/b", ".hidden"])
def test_bad_names_are_refused(name: str, runtime: Runtime) -> None:
    with pytest.raises(InvalidArgument, match="table name"):
        catalog.publish(name, rows_of(runtime.pe))


@pytest.mark.parametrize("name", [None, 3, b"t", "\udcff"])
def test_names_are_text(name: object) -> None:
    for call in (catalog.lookup, catalog.drop, lambda name: catalog.publish(name, rows_of(0))):
        with pytest.raises(InvalidArgument, match="table name is text"):
            call(name)  # type: ignore[arg-type]


def test_good_names_are_kept(runtime: Runtime) -> None:
    good = sorted(["a", "x" * 200, "Flüge 2013 ✈", "a.b", "a b", "'; drop"])
    for name in good:
        catalog.publish(name, rows_of(runtime.pe, 1))
    assert catalog.names() == good
    runtime.barrier()
    for name in good:
        drop_together(name)


def test_bad_arguments_fail_everywhere(runtime: Runtime) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    last = runtime.pe == runtime.n_pes - 1
    with pytest.raises(InvalidArgument, match="'a' 2 times"):
        catalog.publish("t", twice if last else pa.table({"a": [1]}))
    with pytest.raises(InvalidArgument, match="JSON object"):
        catalog.publish("t", rows_of(0), partitioning="[1]" if last else "")
    with pytest.raises(InvalidArgument, match="'upsert'"):
        catalog.publish("t", rows_of(0), mode="upsert")  # type: ignore[arg-type]
    catalog.publish("t", rows_of(runtime.pe))
    with pytest.raises(InvalidArgument, match=r"has .* shards, got number 99"):
        catalog.lookup("t").read(99)
    drop_together("t")


def publish_alone(name: str, tables: list[pa.Table], mode: str = "create") -> tuple[int, int, int]:
    """Publish from this PE only, as an upload does: all shards lie here."""
    runtime = current()
    batch = [heap.one_batch("test", table) for table in tables]
    header = _core.Header.from_batch(batch[0])
    shards = [_core.write_shard(runtime.heap, rows) for rows in batch]
    refs = [(*shard.where, shard.size_bytes, shard.rows) for shard in shards]
    entry = runtime.catalog.publish(name, mode, header, refs, "")
    for shard in shards:
        runtime.catalog.own(entry, shard)
    return entry


def test_uploaded_rows_are_shared_out(runtime: Runtime) -> None:
    """A table one PE published alone: local() gives everybody an equal part, in order."""
    if runtime.pe == runtime.n_pes - 1:
        publish_alone("t", [rows_of(7, 11), rows_of(8, 1), rows_of(9, 0), rows_of(10, 30)])
    runtime.barrier()
    table = catalog.lookup("t")
    local = table.local()
    assert abs(local.num_rows - 42 / runtime.n_pes) < 1
    parts = runtime.allgather(json.dumps(local["text"].to_pylist()).encode())
    together = [text for part in parts for text in json.loads(part)]
    assert together == table.to_arrow()["text"].to_pylist()
    del table, local
    drop_together("t")


def test_append_to_an_uploaded_table(runtime: Runtime) -> None:
    if runtime.pe == 0:
        publish_alone("t", [rows_of(50, 20)])
    runtime.barrier()
    catalog.publish("t", rows_of(runtime.pe), mode="append")
    table = catalog.lookup("t")
    rows = runtime.reduce(np.array([table.local().num_rows]))
    assert rows[0] == table.rows == 20 + 10 * runtime.n_pes
    assert table.to_arrow().equals(pa.concat_tables([rows_of(50, 20), everybodys(runtime)]))
    del table
    drop_together("t")


@settings(max_examples=40)
@given(st.data())
@agreed
def test_any_table_comes_back(data: st.DataObject) -> None:
    runtime = current()
    drawn = data.draw(batches([t for t in EVERY if "dictionary" not in str(t)]))
    cut = drawn.num_rows // 2 if runtime.pe % 2 else drawn.num_rows
    catalog.publish("t", pa.Table.from_batches([drawn.slice(0, cut)]))
    table = catalog.lookup("t")
    assert same(table.read(runtime.pe), drawn.slice(0, cut))
    local = table.local()
    assert same(local, pa.Table.from_batches([drawn.slice(0, cut)]))
    del table, local
    drop_together("t")


def test_dictionaries_come_back_without_rows(runtime: Runtime) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array(["lo", "hi"]))
    catalog.publish("t", pa.table({"c": column}))
    table = catalog.lookup("t")
    assert table.local()["c"].chunk(0).dictionary.to_pylist() == ["lo", "hi"]
    del table
    drop_together("t")


REPLACES = 1000


def version_table(version: int) -> list[pa.Table]:
    """All values equal the version; the number of shards and rows varies with it."""
    rows = 100 + version % 7 * 50
    text = pa.array([str(version)] * rows)
    piece = pa.table({"v": pa.array([version] * rows, pa.int64()), "s": text})
    return [piece] * (1 + version % 3)


def read_until(last: int) -> tuple[int, str]:
    """Read continuously until version `last`; how many reads, and what was wrong if anything."""
    reads, seen = 0, 0
    while seen < last:
        table = catalog.lookup("t")
        whole = table.to_arrow()
        values, texts = whole["v"].to_numpy(), whole["s"].to_pylist()
        if table.version < seen:
            return reads, f"version {table.version} after {seen}"
        expected = version_table(table.version)
        if len(values) != sum(piece.num_rows for piece in expected):
            return reads, f"version {table.version} has {len(values)} rows"
        if (values != table.version).any() or set(texts) != {str(table.version)}:
            return reads, f"version {table.version} is torn: {set(values.tolist())}, {set(texts)}"
        reads, seen = reads + 1, table.version
    return reads, ""


def test_readers_see_whole_versions_during_a_thousand_replaces(runtime: Runtime) -> None:
    writer = runtime.n_pes - 1
    if runtime.pe == writer:
        publish_alone("t", version_table(1), "replace")
    runtime.barrier()
    outcomes: list[tuple[int, str]] = []
    readers = [threading.Thread(target=lambda: outcomes.append(read_until(REPLACES))) for _ in range(2)]
    for reader in readers:
        reader.start()
    if runtime.pe == writer:
        for version in range(2, REPLACES + 1):
            publish_alone("t", version_table(version), "replace")
    for reader in readers:
        reader.join()
    assert [wrong for _, wrong in outcomes] == ["", ""]
    assert all(reads >= 1 for reads, _ in outcomes)
    assert catalog.lookup("t").version == REPLACES
    drop_together("t")


def test_all_pes_replace_and_append_at_once(runtime: Runtime) -> None:
    """Writers race: every append is kept, and one version follows the other without a gap."""
    each = 40

    def work() -> None:
        for step in range(each):
            publish_alone("t", [rows_of(runtime.pe, 1 + step % 3)], "append")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.barrier()
    table = catalog.lookup("t")
    assert table.version == 2 * each * runtime.n_pes
    rows = table.to_arrow()
    per_pe = 2 * sum(1 + step % 3 for step in range(each))
    assert rows.group_by("pe").aggregate([("row", "count")]).sort_by("pe").to_pydict() == {
        "pe": list(range(runtime.n_pes)),
        "row_count": [per_pe] * runtime.n_pes,
    }
    del table, rows
    drop_together("t")
