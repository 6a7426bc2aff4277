# SPDX-License-Identifier: Apache-2.0
"""read_parquet and to_parquet on every PE."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from spmd.frames import VALUES, tables
from spmd.oracle import assert_same

import flightshmem as fs
from flightshmem.errors import (
    ColumnNotFound,
    DataError,
    FileMissing,
    InvalidArgument,
    SchemaError,
    UnsupportedError,
    WriteError,
)
from flightshmem.runtime import current
from flightshmem.testing import agreed


def on_pe_0(write: object) -> None:
    """Run a function on PE 0 while the others wait."""
    with current().converge("prepare"):
        if fs.pe() == 0:
            write()  # type: ignore[operator]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that all PEs share."""
    return Path(current().broadcast(str(tmp_path).encode()).decode())


@settings(max_examples=15)
@given(table=tables(*VALUES))
@agreed
def test_round_trip(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(current().broadcast(str(tmp_path_factory.mktemp("round")).encode()).decode())
    frame = fs.from_arrow(table)
    frame.to_parquet(folder)
    again = fs.read_parquet(folder)
    assert again.schema.equals(frame.schema)
    assert_same(again, table.to_pandas(), ordered=True)
    assert len(again) == table.num_rows


def test_row_groups_are_shared_out_in_order(folder: Path) -> None:
    table = pa.table({"i": range(10_000), "x": np.arange(10_000) * 0.5})

    def write() -> None:
        pq.write_table(table.slice(0, 7000), folder / "a.parquet", row_group_size=100)
        pq.write_table(table.slice(7000), folder / "b.parquet", row_group_size=3000)

    on_pe_0(write)
    for path in (folder, folder / "*.parquet", [folder / "a.parquet", str(folder / "b.parquet")]):
        frame = fs.read_parquet(path)  # type: ignore[arg-type]
        part = frame.local()
        assert abs(part.num_rows - 10_000 / fs.n_pes()) < 600
        assert frame.to_arrow().column("i").to_pylist() == list(range(10_000))
        assert len(frame) == 10_000


def test_one_row_group_is_cut(folder: Path) -> None:
    on_pe_0(lambda: pq.write_table(pa.table({"i": range(5000)}), folder / "a.parquet"))
    frame = fs.read_parquet(folder / "a.parquet")
    assert abs(frame.local().num_rows - 5000 / fs.n_pes()) <= 1
    assert frame["i"].to_arrow().to_pylist() == list(range(5000))


def test_null_typed_first_file_case_08(folder: Path) -> None:
    def write() -> None:
        pq.write_table(pa.table({"a": pa.nulls(2)}), folder / "0.parquet")
        pq.write_table(pa.table({"a": ["x"]}), folder / "1.parquet")

    on_pe_0(write)
    frame = fs.read_parquet(folder)
    assert frame["a"].dtype == pa.string()
    assert frame["a"].to_arrow().to_pylist() == [None, None, "x"]


def test_schemas_that_differ(folder: Path) -> None:
    def write() -> None:
        pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "s": ["x"]}), folder / "0.parquet")
        pq.write_table(pa.table({"b": [2.5], "a": pa.array([2**40], pa.int64())}), folder / "1.parquet")
        pq.write_table(pa.table({"s": pa.array(["x", "y"]).dictionary_encode()}), folder / "2.parquet")

    on_pe_0(write)
    frame = fs.read_parquet(folder)
    assert frame.dtypes == {"a": pa.int64(), "s": pa.string(), "b": pa.float64()}
    assert frame.to_arrow().to_pylist() == [
        {"a": 1, "s": "x", "b": None},
        {"a": 2**40, "s": None, "b": 2.5},
        {"a": None, "s": "x", "b": None},
        {"a": None, "s": "y", "b": None},
    ]
    on_pe_0(lambda: pq.write_table(pa.table({"a": ["text"]}), folder / "3.parquet"))
    with pytest.raises(SchemaError, match=r"3\.parquet"):
        fs.read_parquet(folder)


def test_views_become_strings(folder: Path) -> None:
    table = pa.table({"s": pa.array(["a", None, "a long string that is not inlined"], pa.string_view())})
    assert fs.from_arrow(table)["s"].str.len().to_arrow().to_pylist() == [1, None, 33]
    on_pe_0(lambda: pq.write_table(table, folder / "v.parquet"))
    frame = fs.read_parquet(folder / "v.parquet")
    assert frame["s"].dtype == pa.string()
    assert frame[frame["s"] == "a"]["s"].to_arrow().to_pylist() == ["a"]


def test_pandas_files_and_time_zones_case_31(folder: Path) -> None:
    moment = pd.Timestamp("2020-05-27", tz="Europe/Berlin")
    written = pd.DataFrame({"t": [moment, pd.NaT], "c": pd.Categorical(["u", None])})
    on_pe_0(lambda: written.to_parquet(folder / "p.parquet"))
    frame = fs.read_parquet(folder / "p.parquet")
    assert frame["t"].dtype.tz == "Europe/Berlin"
    assert pa.types.is_dictionary(frame["c"].dtype)
    assert_same(frame, written, ordered=True)


def test_row_groups_are_left_out_by_statistics(folder: Path) -> None:
    day = datetime.date(2013, 1, 1)
    table = pa.table(
        {
            "i": range(1000),
            "f": np.arange(1000) * 1.0,
            "s": [f"{i:04d}" for i in range(1000)],
            "d": [day + datetime.timedelta(days=i) for i in range(1000)],
            "n": [None if i < 900 else i for i in range(1000)],
        }
    )
    on_pe_0(lambda: pq.write_table(table, folder / "a.parquet", row_group_size=100))
    frame, theirs = fs.read_parquet(folder / "a.parquet"), table.to_pandas()
    kept = {
        "(2 of 10 row groups)": lambda d: d[(d["i"] >= 150) & (d["i"] < 250)],
        "(1 of 10 row groups)": lambda d: d[d["s"] == "0555"],
        "(0 of 10 row groups)": lambda d: d[d["f"] > 5000],
        "(3 of 10 row groups)": lambda d: d[d["i"].isin([5, 10, 405, 999])],
    }
    for text, choose in kept.items():
        assert text in choose(frame).explain(), choose(frame).explain()
        assert_same(choose(frame), choose(theirs), ordered=True)
    # != and missing values: nothing may be left out wrongly.
    for choose in (
        lambda d: d[d["n"] != 950],
        lambda d: d[d["n"].isna()],
        lambda d: d[d["n"].notna() & (d["i"] > 0)],
        lambda d: d[~(d["i"] < 500)],
        lambda d: d[(d["i"] < 50) | (d["s"] > "0990")],
        lambda d: d[(d["i"] < 50) | (d["s"].str.endswith("7"))],
    ):
        assert_same(choose(frame), choose(theirs), ordered=True)
    days = frame[frame["d"] >= day + datetime.timedelta(days=950)]
    assert "(1 of 10 row groups)" in days.explain()
    assert len(days) == 50


def test_only_needed_columns_are_read(folder: Path) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4], "c": ["x", "y"]})
    on_pe_0(lambda: pq.write_table(table, folder / "a.parquet"))
    frame = fs.read_parquet(folder / "a.parquet")
    assert "[a, b]" in frame[frame["a"] > 1][["b"]].explain()
    assert fs.read_parquet(folder / "a.parquet", columns=["c", "a"]).columns == ["c", "a"]
    with pytest.raises(ColumnNotFound, match="'z'"):
        fs.read_parquet(folder / "a.parquet", columns=["z"])


def test_columns_in_folder_names_are_not_lost_silently(folder: Path) -> None:
    def write() -> None:
        pq.write_to_dataset(
            pa.table({"year": [2012, 2013], "x": [1, 2]}), folder / "hive", partition_cols=["year"]
        )

    on_pe_0(write)
    with pytest.raises(UnsupportedError, match="year=2012"):
        fs.read_parquet(folder / "hive")
    assert fs.read_parquet(folder / "hive" / "year=2013")["x"].sum() == 2


def test_bad_files(folder: Path) -> None:
    table = pa.table({"a": np.random.default_rng(0).normal(size=20_000)})

    def write() -> None:
        (folder / "text.parquet").write_text("this is not Parquet at all")
        (folder / "empty.parquet").write_bytes(b"")
        pq.write_table(table, folder / "good.parquet", row_group_size=5000)
        whole = (folder / "good.parquet").read_bytes()
        (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
        (folder / "scrambled.parquet").write_bytes(whole[:4] + b"\xff" * 150_000 + whole[150_004:])

    on_pe_0(write)
    with pytest.raises(FileMissing, match=r"nowhere\.parquet"):
        fs.read_parquet(folder / "nowhere.parquet")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        fs.read_parquet(folder / "no*.parquet")
    with pytest.raises(FileMissing, match="holds no"):
        fs.read_parquet(_made(folder / "void"))
    for name in ("text", "empty", "cut"):
        with pytest.raises(DataError, match=rf"{name}\.parquet"):
            fs.read_parquet(folder / f"{name}.parquet")
    broken = fs.read_parquet(folder / "scrambled.parquet")  # the footer is whole
    with pytest.raises(DataError, match=r"scrambled\.parquet"):
        broken.to_arrow()
    assert len(fs.read_parquet(folder / "good.parquet")) == 20_000


def _made(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def test_writing_replaces_and_never_tears(folder: Path) -> None:
    target = folder / "out"
    on_pe_0(
        lambda: [
            _made(target),
            (target / "part-7.parquet").write_bytes(b"old"),
            (target / "notes.txt").touch(),
        ]
    )
    fs.from_arrow(pa.table({"i": range(10)})).to_parquet(target)
    names = {path.name for path in target.iterdir()}
    assert names == {"notes.txt", *(f"part-{pe}.parquet" for pe in range(fs.n_pes()))}
    assert fs.read_parquet(target)["i"].to_arrow().to_pylist() == list(range(10))
    broken = fs.from_arrow(pa.table({"s": ["1"] * 5 + ["x"]}))
    with pytest.raises(DataError):
        broken.astype({"s": "int64"}).to_parquet(target)
    assert len(fs.read_parquet(target)) == 10
    assert {path.name for path in target.iterdir()} == names
    with pytest.raises(InvalidArgument, match=r"notes\.txt"):
        fs.from_arrow(pa.table({"i": [1]})).to_parquet(target / "notes.txt")


def test_places_that_cannot_be_written(folder: Path) -> None:
    frame = fs.from_arrow(pa.table({"i": range(10)}))
    on_pe_0(lambda: (folder / "file").touch())
    for path in (folder / "file" / "below", folder / ("n" * 300), Path("/proc/nowhere/out")):
        with pytest.raises(WriteError, match=r"\[to_parquet\].*check that the directory"):
            frame.to_parquet(path)
    with pytest.raises(InvalidArgument, match="to_parquet"):
        frame.to_parquet(folder / "packed", compression="zipzap")
    assert not list(folder.rglob("part-*"))


def test_empty_frame_round_trip(folder: Path) -> None:
    fs.from_arrow(pa.table({"i": pa.array([], pa.int32()), "s": pa.array([], pa.string())})).to_parquet(
        folder / "e"
    )
    again = fs.read_parquet(folder / "e")
    assert len(again) == 0
    assert again.dtypes == {"i": pa.int32(), "s": pa.string()}
    assert again["i"].sum() == 0
