# SPDX-License-Identifier: Apache-2.0
"""Which PE a row belongs to: equal keys agree, whatever their encoding, and rows spread evenly."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flightshmem import _core

NAN = float("nan")
N_PES = 1009  # large, so that unequal hashes hardly ever agree by chance


def pes(*columns: pa.Array, n_pes: int = N_PES) -> list[int]:
    batch = pa.record_batch(list(columns), [f"k{i}" for i in range(len(columns))])
    result = _core.hash_partition(batch, n_pes)
    assert result.type == pa.uint16()
    assert result.null_count == 0
    return result.to_pylist()


NUMBERS = [0, 1, 7, 100, 127]


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"])
def test_widths_agree(name: str) -> None:
    narrow = pa.array([*NUMBERS, None], getattr(pa, name)())
    assert pes(narrow) == pes(pa.array([*NUMBERS, None], pa.int64()))


def test_negative_numbers_agree_over_widths() -> None:
    assert pes(pa.array([-1, -128], pa.int8())) == pes(pa.array([-1, -128], pa.int64()))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_and_missing_floats_agree(kind: pa.DataType) -> None:
    zero, minus, nan, null, half = pes(pa.array([0.0, -0.0, NAN, None, 1.5], kind))
    assert zero == minus
    assert nan == null
    assert len({zero, nan, half}) == 3
    assert pes(pa.array([1.5], pa.float32())) == [half]
    assert pes(pa.array(np.array([1.5], np.float16))) == [half]


def test_nulls_agree_over_types() -> None:
    kinds = [pa.null(), pa.int8(), pa.string(), pa.bool_(), pa.float64(), pa.decimal128(5, 2)]
    assert len({pes(pa.nulls(1, kind))[0] for kind in kinds}) == 1


def test_text_encodings_agree() -> None:
    words = ["", "a", "Zürich", None, "a" * 300]
    plain = pes(pa.array(words))
    assert plain[1] != plain[2]
    assert pes(pa.array(words, pa.large_string())) == plain
    assert pes(pa.array(words).dictionary_encode()) == plain
    assert pes(pa.array(words, pa.large_string()).dictionary_encode()) == plain
    assert pes(pa.array([w and w.encode() for w in words])) == plain


def test_null_inside_a_dictionary_is_null() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert pes(encoded) == pes(pa.array(["a", None, None]))


def test_decimals_agree_over_widths() -> None:
    values = [Decimal("1.50"), Decimal("-1.50"), Decimal("0.00"), None]
    first = pes(pa.array(values, pa.decimal128(10, 2)))
    assert len(set(first)) == 4
    assert pes(pa.array(values, pa.decimal256(60, 2))) == first
    assert pes(pa.array(values, pa.decimal32(5, 2))) == first


def test_temporal_values_hash_as_their_numbers() -> None:
    day = dt.date(2013, 1, 1)
    number = (day - dt.date(1970, 1, 1)).days
    assert pes(pa.array([day])) == pes(pa.array([number]))
    stamp = pa.array([number], pa.int64()).cast(pa.timestamp("s", "Europe/Berlin"))
    assert pes(stamp) == pes(pa.array([number]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5, None, 7, 8, None, 1]),
        pa.array([True, None, False, True, None, False]),
        pa.array(["x", None, "yy", "zzz", None, ""]),
        pa.array([b"ab", None, b"cd", b"ef", None, b"gh"], pa.binary(2)),
        pa.array([Decimal(1), None, Decimal(2), Decimal(3), None, Decimal(4)], pa.decimal128(9)),
        pa.array(["x", None, "yy", "zzz", None, ""]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type)[:12],
)
def test_slices_hash_as_the_whole(column: pa.Array) -> None:
    whole = pes(column)
    for start in range(len(column)):
        assert pes(column.slice(start)) == whole[start:]


def test_several_keys_combine_in_order() -> None:
    a, b = pa.array([1, 2, None, 1]), pa.array(["x", "y", "x", "x"])
    both = pes(a, b)
    assert both[0] == both[3]
    assert len(set(both)) == 3
    assert pes(pa.array([1, 2]), pa.array([2, 1])) != pes(pa.array([2, 1]), pa.array([1, 2]))


@pytest.mark.parametrize("n_pes", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("stride", [1, 8, 4096, 2**40])
def test_rows_spread_evenly(n_pes: int, stride: int) -> None:
    rows = 64_000
    keys = pa.array(np.arange(rows, dtype=np.int64) * stride)
    counts = np.bincount(pes(keys, n_pes=n_pes), minlength=n_pes)
    assert len(counts) == n_pes
    expected = rows / n_pes
    assert abs(counts - expected).max() <= 5 * np.sqrt(expected)


def test_no_rows() -> None:
    assert pes(pa.array([], pa.string())) == []


def test_errors_name_the_column() -> None:
    nested = pa.record_batch([pa.array([[1]])], ["shape"])
    with pytest.raises(NotImplementedError, match="'shape' cannot be a key, got type list"):
        _core.hash_partition(nested, 2)
    with pytest.raises(ValueError, match="n_pes must lie in"):
        _core.hash_partition(pa.record_batch([pa.array([1])], ["k"]), 0)
    with pytest.raises(ValueError, match="no key column"):
        _core.hash_partition(pa.record_batch([], []), 2)
