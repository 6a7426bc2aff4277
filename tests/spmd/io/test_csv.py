# SPDX-License-Identifier: Apache-2.0
"""read_csv: the same rows and types on any number of PEs."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spmd.oracle import assert_same

import flightshmem as fs
from flightshmem.errors import ColumnNotFound, DataError, FileMissing, InvalidArgument
from flightshmem.frame import DataFrame
from flightshmem.io.csv import CsvFormat, open_csv
from flightshmem.plan.nodes import Scan
from flightshmem.runtime import current
from flightshmem.testing import agreed


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all PEs share."""
    return Path(current().broadcast(str(tmp_path_factory.mktemp("csv")).encode()).decode())


def written(path: Path, content: str | bytes) -> Path:
    """Write a file on PE 0."""
    with current().converge("prepare"):
        if fs.pe() == 0:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def in_blocks(path: Path, block_bytes: int) -> DataFrame:
    """Read with a border every few bytes."""
    source = open_csv(current(), path, CsvFormat(), block_bytes)
    return DataFrame(Scan(source, tuple(source.schema.names)))


@pytest.mark.parametrize("block_bytes", [1, 3, 8, 1 << 20])
def test_newlines_in_quotes_case_21(folder: Path, block_bytes: int) -> None:
    path = written(folder / "quoted.csv", 'foo,n\n"a",1\n"b",2\n"c\nd\ne\n",3\n"h",4\n')
    frame = in_blocks(path, block_bytes)
    assert frame["foo"].str.len().to_arrow().to_pylist() == [1, 1, 6, 1]
    assert frame["n"].to_arrow().to_pylist() == [1, 2, 3, 4]
    assert len(frame) == 4


FIELDS = st.text(st.sampled_from('ab",\n\r x1é'), max_size=5)


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(FIELDS, st.integers(-99, 99), FIELDS), max_size=12),
    block_bytes=st.integers(1, 40),
)
@agreed
def test_any_border_gives_the_same_rows(
    folder: Path, rows: list[tuple[str, int, str]], block_bytes: int
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["a", "b c", "d"])
    writer.writerows(rows)
    path = written(folder / "any.csv", text.getvalue())
    source = open_csv(current(), path, CsvFormat(types=(("a", pa.string()), ("d", pa.string()))), block_bytes)
    ours = DataFrame(Scan(source, tuple(source.schema.names))).to_arrow()
    wanted = [(None if a in ("", "NA") else a, b, None if d == "" else d) for a, b, d in rows]
    assert [tuple(row.values()) for row in ours.to_pylist()] == wanted


def test_stray_quotes_are_text(folder: Path) -> None:
    path = written(folder / "stray.csv", 'name,n\n5" pipe,1\nplain,2\n7" pipe,3\n"quoted, with comma",4\n')
    frame = in_blocks(path, 5)
    assert frame["name"].to_arrow().to_pylist() == ['5" pipe', "plain", '7" pipe', "quoted, with comma"]


def test_types_are_agreed_over_pes(folder: Path) -> None:
    lines = [f"{i},{i},{i % 2 == 0},2013-01-0{i % 9 + 1},x{i}" for i in range(30)]
    lines[-1] = "29,2.5,true,2013-01-09 05:00:00,"
    path = written(folder / "types.csv", "i,f,b,t,s\n" + "\n".join(lines) + "\n")
    frame = in_blocks(path, 64)
    assert frame.dtypes == {
        "i": pa.int64(),
        "f": pa.float64(),
        "b": pa.bool_(),
        "t": pa.timestamp("s"),
        "s": pa.string(),
    }
    assert frame["f"].sum() == sum(range(29)) + 2.5
    mixed = written(folder / "mixed.csv", "a\n" + "1\n" * 50 + "word\n")
    assert in_blocks(mixed, 16)["a"].dtype == pa.string()
    assert fs.read_csv(mixed, dtype={"a": "string"})["a"].value_counts().to_arrow().to_pylist() == [
        {"a": "1", "count": 50},
        {"a": "word", "count": 1},
    ]


def test_ambiguous_dates_stay_text_case_43(folder: Path) -> None:
    path = written(folder / "dates.csv", "d,e\n10/9/2016,4998-01-01\n30/9/2016,2013-01-01\n")
    frame = in_blocks(path, 12)
    assert frame["d"].to_arrow().to_pylist() == ["10/9/2016", "30/9/2016"]
    assert frame["e"].dt.year.to_arrow().to_pylist() == [4998, 2013]


def test_missing_values_are_pandas(folder: Path) -> None:
    text = 'x,s\n1,NA\nNaN,"N/A"\n,nan\nnull,None\n3,ok\n#N/A,\n'
    path = written(folder / "na.csv", text)
    assert_same(fs.read_csv(path), pd.read_csv(io.StringIO(text)), ordered=True)


def test_several_files(folder: Path) -> None:
    first = written(folder / "m1.csv", "a,b\n1,x\n2,y\n")
    second = written(folder / "m2.csv", "b,c\nz,2.5\n")
    frame = fs.read_csv([first, second])
    assert frame.to_arrow().to_pylist() == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": "y", "c": None},
        {"a": None, "b": "z", "c": 2.5},
    ]
    assert len(fs.read_csv(folder / "m?.csv")) == 3
    assert fs.read_csv([first, second], columns=["c"]).to_arrow().column("c").to_pylist() == [None, None, 2.5]


def test_compressed(folder: Path) -> None:
    text = "a,s\n" + "".join(f'{i},"line\n{i}"\n' for i in range(100))
    path = written(folder / "z.csv.gz", gzip.compress(text.encode()))
    frame = fs.read_csv(path)
    assert frame["a"].sum() == 4950
    assert frame["s"].to_arrow()[7].as_py() == "line\n7"


def test_other_forms(folder: Path) -> None:
    tabs = written(folder / "t.tsv", "a\tb\r\n1\t'x'\r\n2\ty\r\n")
    assert fs.read_csv(tabs, sep="\t").to_arrow().to_pylist() == [{"a": 1, "b": "'x'"}, {"a": 2, "b": "y"}]
    bom = written(folder / "bom.csv", b"\xef\xbb\xbfa,b\n1,2\n")
    assert fs.read_csv(bom).columns == ["a", "b"]
    no_end = written(folder / "noend.csv", "a,b\n1,2\n3,4")
    assert fs.read_csv(no_end)["b"].sum() == 6
    header_only = written(folder / "header.csv", "a,b\n")
    assert len(fs.read_csv(header_only)) == 0
    assert fs.read_csv(header_only).columns == ["a", "b"]
    names = written(folder / "names.csv", '"a b","c\nd",é\n1,2,3\n')
    assert fs.read_csv(names).columns == ["a b", "c\nd", "é"]


def test_errors(folder: Path) -> None:
    with pytest.raises(FileMissing, match=r"nowhere\.csv"):
        fs.read_csv(folder / "nowhere.csv")
    ragged = written(folder / "ragged.csv", "a,b\n" + "1,2\n" * 20 + "1,2,3\n")
    with pytest.raises(DataError, match=r"ragged\.csv"):
        fs.read_csv(ragged)
    empty = written(folder / "empty.csv", "")
    with pytest.raises(DataError, match=r"header.*empty\.csv"):
        fs.read_csv(empty)
    twice = written(folder / "twice.csv", "a,a\n1,2\n")
    with pytest.raises(InvalidArgument, match="'a'"):
        fs.read_csv(twice)
    words = written(folder / "words.csv", "a\n" + "1\n" * 20 + "word\n")
    with pytest.raises(DataError, match=r"words\.csv"):
        fs.read_csv(words, dtype={"a": "int64"})
    with pytest.raises(ColumnNotFound, match="'zz'"):
        fs.read_csv(words, dtype={"zz": "int64"})
    with pytest.raises(InvalidArgument, match="one byte"):
        fs.read_csv(words, sep="||")
