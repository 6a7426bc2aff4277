# SPDX-License-Identifier: Apache-2.0
"""What computes a frame: persist, publish, gathering, and what does not."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from spmd.oracle import assert_same

import flightshmem as fs
from flightshmem import catalog, heap
from flightshmem.errors import HeapExhausted, InvalidArgument, SchemaError, TableExists, TableNotFound
from flightshmem.execute import RaiseIfExecuted
from flightshmem.frame import collect
from flightshmem.io.memory import TableSource
from flightshmem.plan.nodes import Scan
from flightshmem.runtime import current


def test_building_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = fs.from_arrow(pa.table({"k": [1, 2], "x": [1.0, None], "s": ["a", "b"]}))
    monkeypatch.setattr(collect, "SpmdExecutor", RaiseIfExecuted)
    lazy = frame.assign(y=frame["x"] * 2, u=frame["s"].str.upper())[frame["x"] > 0]
    lazy = lazy.merge(frame, on="k", how="left").sort_values("y").head(3).dropna(subset="y")
    lazy = lazy.groupby("k").agg(total=("y", "sum"))
    assert "total" in repr(lazy)
    assert "lazy" in repr(lazy["total"])
    assert lazy.columns == ["k", "total"]
    assert lazy.schema.field("total").type == pa.float64()
    assert len(frame) == 2  # the source knows
    with pytest.raises(AssertionError, match="executed"):
        lazy.to_arrow()


def test_persist_is_a_view_of_the_heap() -> None:
    table = pa.table({"i": np.arange(10_000), "f": np.arange(10_000) * 0.5})
    frame = fs.from_arrow(table)
    before = heap.stats().used_bytes
    kept = frame[frame["i"] % 2 == 0].persist()
    assert heap.stats().used_bytes - before >= kept.local().nbytes
    addresses = [
        [chunk.buffers()[1].address for column in kept.local().columns for chunk in column.chunks]
        for _ in range(2)
    ]
    assert addresses[0] == addresses[1]
    assert len(kept) == 5000
    assert kept["i"].sum() == sum(range(0, 10_000, 2))
    assert "persisted" in kept.explain()
    assert "persisted" not in frame.explain()
    theirs = table.to_pandas()
    assert_same(kept, theirs[theirs["i"] % 2 == 0], ordered=True)
    del kept, addresses
    assert heap.stats().used_bytes == before


def test_publish_and_read_back() -> None:
    table = pa.table(
        {
            "k": [1, 2, 3, 1],
            "s": ["a", None, "c", "d"],
            "c": pa.array(["u", "v", "u", None]).dictionary_encode(),
        }
    )
    fs.from_arrow(table).publish("test-published")
    again = fs.table("test-published")
    assert_same(again, table.to_pandas(), ordered=True)
    assert "published 'test-published' version" in again.explain()
    assert again["c"].dtype == pa.dictionary(pa.int32(), pa.string())
    with pytest.raises(TableExists):
        fs.from_arrow(table).publish("test-published", mode="create")
    fs.from_arrow(table).publish("test-published", mode="append")
    assert len(fs.table("test-published")) == 8
    assert len(again) == 4
    fs.from_arrow(table).groupby("k", sort=False).size().publish("test-published")
    by_key = fs.table("test-published")
    assert_same(by_key, pd.DataFrame({"k": [1, 2, 3], "size": [2, 1, 1]}))
    if fs.n_pes() > 1:
        assert "nothing moves" in by_key.groupby("k", sort=False).sum().explain()
    assert by_key.groupby("k")["size"].sum().to_arrow().to_pylist()[0] == {"k": 1, "size": 2}
    current().barrier()
    if fs.pe() == 0:
        catalog.drop("test-published")
    current().barrier()
    with pytest.raises(TableNotFound):
        fs.table("test-published")


def test_results_for_other_libraries() -> None:
    table = pa.table({"i": [1, 2, None], "s": ["a", "b", None]})
    frame = fs.from_arrow(table)
    assert pa.table(frame).to_pylist() == table.to_pylist()
    assert pa.RecordBatchReader.from_stream(frame).read_all().to_pylist() == table.to_pylist()
    pd.testing.assert_frame_equal(frame.to_pandas(), table.to_pandas())
    pd.testing.assert_series_equal(frame["s"].to_pandas(), table.to_pandas()["s"])
    assert fs.from_arrow(table.to_batches()[0])["i"].sum() == 3
    assert fs.from_arrow(pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))["i"].sum() == 3
    page = frame._repr_html_()
    assert "<table>" in page
    assert "first 3 rows" in page
    assert "<b>" not in fs.from_arrow(pa.table({"<b>": ["<i>"]}))._repr_html_()


def test_parts_lie_on_their_pes() -> None:
    frame = fs.from_arrow(pa.table({"i": range(100)}))
    mine = frame.local().column("i").to_pylist()
    assert mine == list(range(100 * fs.pe() // fs.n_pes(), 100 * (fs.pe() + 1) // fs.n_pes()))
    part = pa.table({"pe": [fs.pe()] * (fs.pe() + 1)})
    together = fs.from_arrow(part, distributed=True)
    assert together.local().num_rows == fs.pe() + 1
    assert len(together) == sum(pe + 1 for pe in range(fs.n_pes()))
    assert together["pe"].to_arrow().to_pylist() == [pe for pe in range(fs.n_pes()) for _ in range(pe + 1)]
    own = fs.from_pandas(pd.DataFrame({"x": [1.5] * fs.pe()}), distributed=True)
    assert own["x"].count() == sum(range(fs.n_pes()))


def test_parts_must_fit_together() -> None:
    name = "a" if fs.pe() == 0 else "b"
    part = pa.table({name: [1]})
    if fs.n_pes() == 1:
        assert fs.from_arrow(part, distributed=True).columns == ["a"]
    else:
        with pytest.raises(SchemaError, match="same columns"):
            fs.from_arrow(part, distributed=True)


def test_plans_must_be_the_same_on_all_pes() -> None:
    frame = fs.from_arrow(pa.table({"i": range(10 + fs.pe())}))
    if fs.n_pes() == 1:
        assert frame["i"].sum() == 45
    else:
        with pytest.raises(InvalidArgument, match="different plans"):
            frame.to_arrow()


def test_a_persisted_frame_does_not_keep_its_source() -> None:
    frame = fs.from_arrow(pa.table({"i": range(10)}))
    source = weakref.ref(frame._plan)
    kept = frame.persist()
    del frame
    gc.collect()
    assert source() is None
    assert kept["i"].sum() == 45


def test_from_pandas() -> None:
    theirs = pd.DataFrame({"x": [1.0, None], "s": ["a", None], "c": pd.Categorical(["u", "u"])}, index=[5, 7])
    mine = fs.from_pandas(theirs)
    assert mine.columns == ["x", "s", "c"]
    assert_same(mine, theirs.reset_index(drop=True), ordered=True)
    with pytest.raises(SchemaError, match="different kinds"):
        fs.from_pandas(pd.DataFrame({"o": [1, "a", 2.5]}))
    with pytest.raises(InvalidArgument, match="pandas DataFrame"):
        fs.from_pandas([1, 2])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="__arrow_c_stream__"):
        fs.from_arrow([1, 2])
    with pytest.raises(InvalidArgument, match="at least one column"):
        fs.from_arrow(pa.table({}))


def test_a_shared_step_runs_once() -> None:
    reads: list[int] = []

    class CountedSource(TableSource):
        def read(self, columns, pe, n_pes):  # type: ignore[no-untyped-def]
            reads.append(pe)
            return super().read(columns, pe, n_pes)

    table = pa.table({"k": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0]})
    source = CountedSource(table, "counted", 4, table.nbytes, False)
    frame = fs.DataFrame(Scan(source, ("k", "x")))
    big = frame[frame["x"] > 1]
    joined = big.merge(big.groupby("k").agg(total=("x", "sum")), on="k")
    assert "shared #1" in joined.explain()
    assert len(joined.to_arrow()) == 3
    assert len(reads) == 1


def test_a_full_heap_fails_everywhere_and_leaves_it_usable() -> None:
    before = heap.stats()
    rows = before.capacity_bytes // 8
    frame = fs.from_arrow(pa.table({"x": np.zeros(rows // fs.n_pes() + 1000)}), distributed=True)
    with pytest.raises(HeapExhausted):
        (frame.to_arrow() if fs.n_pes() > 1 else frame.assign(y=frame["x"]).persist())
    with pytest.raises(MemoryError):
        frame.assign(y=frame["x"] + 1, z=frame["x"] + 2).persist()
    assert heap.stats().used_bytes == before.used_bytes
    assert frame["x"].sum() == 0.0
