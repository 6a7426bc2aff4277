# SPDX-License-Identifier: Apache-2.0
"""Row pairs of a join against pandas.merge."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightshmem import _core

NAN = float("nan")
DAY = dt.datetime(2013, 1, 1)


def join(left: pa.Table, right: pa.Table, how: str) -> tuple[pa.Array, pa.Array]:
    rows_left, rows_right = _core.join_table(right).probe(left, how)
    if rows_left is None:
        rows_left = pa.array(range(left.num_rows), pa.uint32())
    assert rows_left.type == rows_right.type == pa.uint32()
    assert len(rows_left) == len(rows_right)
    return rows_left, rows_right


def pairs(left: pa.Table, right: pa.Table, how: str) -> list[tuple[int, int | None]]:
    rows_left, rows_right = join(left, right, how)
    return list(zip(rows_left.to_pylist(), rows_right.to_pylist(), strict=True))


def plain(value: Any, column: pa.ChunkedArray) -> Any:
    """A Python object that is equal to another one exactly when pandas takes the keys as equal."""
    if value is None or value != value:
        return "missing"
    return value + 0.0 if isinstance(value, float) else value


def oracle(left: pa.Table, right: pa.Table, how: str) -> list[tuple[int, int | None]]:
    """pandas.merge on group numbers of the keys (objects, so that no type is lost on the way)."""
    names = [f"k{i}" for i in range(left.num_columns)]
    frames = []
    for side, table in (("left", left), ("right", right)):
        frame = pd.DataFrame(
            {
                n: pd.Series([plain(v, c) for v in c.to_pylist()], dtype=object)
                for n, c in zip(names, table.columns, strict=True)
            }
        )
        frames.append(frame.assign(**{side: np.arange(table.num_rows)}))
    merged = frames[0].merge(frames[1], on=names, how=how).sort_values(["left", "right"])
    return [
        (int(a), None if pd.isna(b) else int(b)) for a, b in zip(merged["left"], merged["right"], strict=True)
    ]


def check(left: pa.Table, right: pa.Table) -> None:
    for how in ("inner", "left"):
        assert pairs(left, right, how) == oracle(left, right, how)


KEYS = {
    "int64": pa.array([3, 1, None, 1, -7, 2**62], pa.int64()),
    "int8": pa.array([3, 1, None, 1, -7, 127], pa.int8()),
    "uint64": pa.array([3, 1, None, 1, 2**63, 2**64 - 1], pa.uint64()),
    "float64": pa.array([0.0, -0.0, NAN, None, 1.5, 2.5], pa.float64()),
    "float32": pa.array([0.0, -0.0, NAN, None, 1.5, 2.5], pa.float32()),
    "float16": pa.array(np.array([0.0, -0.0, NAN, 1.5, 2.5, 3.0], np.float16)),
    "bool": pa.array([True, False, None, True, None, False]),
    "string": pa.array(["a", "", None, "a", "Zürich 名", "b"]),
    "large_string": pa.array(["a", "", None, "a", "Zürich", "b"], pa.large_string()),
    "binary": pa.array([b"a", b"", None, b"a", b"\0", b"b"]),
    "fixed_size_binary": pa.array([b"ab", b"cd", None, b"ab", b"\0\0", b"ef"], pa.binary(2)),
    "decimal128": pa.array([Decimal("1.50"), Decimal("-1.50"), None] * 2, pa.decimal128(5, 2)),
    "decimal256": pa.array([Decimal("1.50"), Decimal("-1.50"), None] * 2, pa.decimal256(50, 2)),
    "date32": pa.array([DAY.date(), None, DAY.date()], pa.date32()),
    "time64": pa.array([dt.time(1), None, dt.time(1)], pa.time64("us")),
    "timestamp": pa.array([DAY, None, DAY, DAY + dt.timedelta(days=9999)], pa.timestamp("us", "UTC")),
    "duration": pa.array([dt.timedelta(1), None, dt.timedelta(1)], pa.duration("s")),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "dictionary of int": pa.array([2**40, None, 7, 2**40]).dictionary_encode(),
    "decimal32": pa.array([Decimal("1.50"), Decimal("-1.50"), None] * 2, pa.decimal32(5, 2)),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_key_type_against_pandas(name: str) -> None:
    key = KEYS[name]
    left = pa.table({"k": pa.chunked_array([key, key.slice(1, 2)])})
    right = pa.table({"k": pa.chunked_array([key.slice(1)])})
    check(left, right)
    check(left, right.slice(0, 0))
    check(left.slice(0, 0), right)


def test_null_matches_null_and_nan() -> None:
    left = pa.table({"k": pa.array([1.0, None, NAN])})
    right = pa.table({"k": pa.array([NAN, 1.0])})
    assert pairs(left, right, "inner") == [(0, 1), (1, 0), (2, 0)]


def test_dictionaries_of_both_sides_may_differ() -> None:
    left = pa.table(
        {"k": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", "b", None]))}
    )
    right = pa.table({"k": pa.array(["b", None, "a"]).dictionary_encode()})
    assert pairs(left, right, "inner") == [(0, 2), (1, 0), (2, 1), (3, 1)]
    assert pairs(left, pa.table({"k": pa.array(["b"], pa.large_string())}), "inner") == [(1, 0)]


def test_several_keys_with_nulls_and_duplicates() -> None:
    rng = np.random.default_rng(0)
    tables = []
    for rows in (700, 300):
        a = pa.array(rng.integers(0, 12, rows), mask=rng.random(rows) < 0.1)
        b = pa.array([f"s{v}" for v in rng.integers(0, 9, rows)], mask=rng.random(rows) < 0.1)
        c = pa.array(rng.integers(0, 3, rows) * 10**15)
        tables.append(pa.table({"a": a, "b": b, "c": c}))
    check(*tables)


def test_several_keys_of_many_kinds_each() -> None:
    """So many pairs of keys that they cannot be numbered by multiplication."""
    rng = np.random.default_rng(1)
    tables = []
    for rows in (3000, 2000):
        a = pa.array(rng.integers(0, 2000, rows) * 2**30, mask=rng.random(rows) < 0.05)
        b = pa.array([f"s{v % 1500}" for v in a.fill_null(3).to_pylist()])
        tables.append(pa.table({"a": a, "b": b, "c": pa.array(rng.random(rows).round(1))}))
    check(*tables)
    assert pairs(*tables, "inner")


def test_string_keys_over_more_than_128_partitions() -> None:
    """Every left row finds its partner in the partition of its key (case 03)."""
    rows, n_parts = 6450, 200
    left = pa.record_batch([pa.array([f"F{i:09d}" for i in range(rows)])], ["k"])
    right = left.take(pa.array(np.arange(rows)[::-1]))
    parts = [np.asarray(_core.hash_partition(side, n_parts)) for side in (left, right)]
    seen = 0
    for part in range(n_parts):
        sides = [
            pa.Table.from_batches([side.take(pa.array(np.flatnonzero(numbers == part)))])
            for side, numbers in zip((left, right), parts, strict=True)
        ]
        rows_left, rows_right = join(*sides, "left")
        assert rows_right.null_count == 0
        assert len(rows_left) == sides[0].num_rows
        assert sides[0].take(rows_left).equals(sides[1].take(rows_right))
        seen += len(rows_left)
    assert seen == rows


def test_more_distinct_keys_than_a_short_holds() -> None:
    keys = pa.array([f"F{i:09d}" for i in range(70_000)])
    backwards = np.arange(70_000)[::-1]
    left, right = pa.table({"k": keys}), pa.table({"k": keys.take(pa.array(backwards))})
    rows_left, rows_right = join(left, right, "left")
    assert (rows_left.to_numpy() == np.arange(70_000)).all()
    assert (rows_right.to_numpy() == backwards).all()


@pytest.mark.parametrize("factor", [1, 2**40], ids=["close", "apart"])
@pytest.mark.parametrize("copies", [1, 2], ids=["unique", "twice"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_one_table_serves_many_batches_of_many_chunks(factor: int, copies: int, kind: pa.DataType) -> None:
    rng = np.random.default_rng(5)
    right = np.tile(rng.permutation(5000)[:4000], copies)
    right_keys = pa.chunked_array(
        [
            pa.array(right[:700] * factor).cast(kind, safe=False),
            pa.array([None], kind),
            pa.array(right[700:] * factor).cast(kind, safe=False),
        ]
    )
    table = _core.join_table(pa.table({"k": right_keys}))
    for rows in (0, 1, 2047, 9000):
        left = rng.integers(-50, 5500, rows)
        missing = rng.random(rows) < 0.1
        keys = pa.array(left * factor, mask=missing).cast(kind, safe=False)
        sides = (
            pa.table({"k": pa.chunked_array([keys[: rows // 3], keys[rows // 3 :]], kind)}),
            pa.table({"k": right_keys}),
        )
        for how in ("inner", "left"):
            ours = table.probe(sides[0], how)
            if how == "left" and copies == 1:
                assert ours[0] is None
            assert pairs(*sides, how) == oracle(*sides, how)
            assert ours[1].equals(join(*sides, how)[1])


def test_integer_keys_with_nulls_stay_integers() -> None:
    """Left [0, 1, null], right [0, 1, 2], left join: the null finds no partner (case 27)."""
    left, right = pa.table({"k": pa.array([0, 1, None])}), pa.table({"k": pa.array([0, 1, 2])})
    assert pairs(left, right, "left") == [(0, 0), (1, 1), (2, None)]


def test_null_keys_match_as_pandas_has_it() -> None:
    """k = [1, 2, null] on both sides, inner: three rows (case 26)."""
    both = pa.table({"k": pa.array([1, 2, None])})
    assert pairs(both, both, "inner") == [(0, 0), (1, 1), (2, 2)]


def test_keys_of_two_types_are_an_error() -> None:
    """An int key never meets a string key (case 45)."""
    with pytest.raises(TypeError, match="'k' has two types, got int64 and string"):
        join(pa.table({"k": [1, 2]}), pa.table({"k": ["1", "2"]}), "inner")


def test_nested_keys_are_an_error() -> None:
    nested = pa.table({"k": pa.array([[1], [2]])})
    with pytest.raises(NotImplementedError, match="column 'k' cannot be a key"):
        join(nested, nested, "inner")


def test_unknown_kind_and_unequal_number_of_keys_are_errors() -> None:
    one, two = pa.table({"k": [1]}), pa.table({"k": [1], "j": [1]})
    with pytest.raises(ValueError, match="'outer'"):
        join(one, one, "outer")
    with pytest.raises(ValueError, match="got 1 and 2"):
        join(one, two, "inner")


SMALL = st.one_of(st.none(), st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, NAN, 1.5]), st.floats())
TEXT = st.one_of(st.none(), st.text("abc", max_size=2))
ROWS = st.lists(st.tuples(SMALL, FLOATS, TEXT), max_size=12)


@given(left=ROWS, right=ROWS, columns=st.sets(st.integers(0, 2), min_size=1))
def test_any_small_tables_against_pandas(
    left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], columns: set[int]
) -> None:
    types = (pa.int64(), pa.float64(), pa.string())
    tables = [
        pa.table({f"k{c}": pa.array([row[c] for row in rows], types[c]) for c in sorted(columns)})
        for rows in (left, right)
    ]
    check(*tables)


@pytest.mark.parametrize("spread", [1, 982451653])
@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.timestamp("us")], ids=str
)
@pytest.mark.parametrize("copies", [1, 3])
def test_a_view_of_an_image_probes_alike(kind: pa.DataType, spread: int, copies: int) -> None:
    """Dense and sparse keys, unique and not: what another process finds in the shared bytes."""
    factor = spread if kind.bit_width == 64 else min(spread, 100_000)
    rng = np.random.default_rng(spread)
    right = pa.table({"k": pa.array(np.tile(rng.permutation(5000), copies) * factor).cast(kind)})
    left = pa.array(rng.integers(0, 7000, 20_000) * factor, mask=rng.random(20_000) < 0.1).cast(kind)
    table = _core.join_table(right)
    view = _core.view_join_table(right, table.image())
    for how in ("inner", "left"):
        for found, wanted in zip(
            view.probe(pa.table({"k": left}), how), table.probe(pa.table({"k": left}), how), strict=True
        ):
            assert (found is None and wanted is None) or found.equals(wanted)


def test_what_has_no_image() -> None:
    texts = pa.table({"k": ["a"]})
    assert _core.join_table(texts).image() is None
    numbers = _core.join_table(pa.table({"k": [1]})).image()
    with pytest.raises(NotImplementedError, match="no shared table for keys of type string"):
        _core.view_join_table(texts, numbers)
    with pytest.raises(TypeError, match="one key column of type int64"):
        _core.view_join_table(pa.table({"k": [1]}), numbers).probe(texts, "inner")
