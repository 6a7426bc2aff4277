# SPDX-License-Identifier: Apache-2.0
"""Group numbers and states against plain Python, and Arrow for the states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FLAT, arrays

from flightshmem import _core

KEY_TYPES = [kind for kind in FLAT if not pa.types.is_interval(kind)]
STATE_TYPES = [pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()]
EXTREME_TYPES = [*STATE_TYPES, pa.date32(), pa.date64(), pa.timestamp("us", "UTC"), pa.duration("ms")]


def plain(value: Any) -> Any:
    if value is None or value != value:
        return "missing"
    return value + 0.0 if isinstance(value, float) else value


@given(data=st.data())
def test_groups_are_those_of_equal_keys(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 12))
    table = pa.table({f"k{i}": data.draw(arrays(kind, rows)) for i, kind in enumerate(kinds)})
    numbers, first_rows = _core.group_rows(table)
    seen: dict[Any, int] = {}
    keys = [tuple(map(plain, row)) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    expected = [seen.setdefault(key, len(seen)) for key in keys]
    assert numbers.to_pylist() == expected
    assert first_rows.to_pylist() == [expected.index(group) for group in range(len(seen))]


@pytest.mark.parametrize("letters", [1, 7, 8, 30])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.dictionary(pa.int16(), pa.string())])
def test_texts_of_any_length(kind: pa.DataType, letters: int) -> None:
    """Short texts, long ones, and enough of them to make every table grow."""
    rng = np.random.default_rng(letters)
    words = [f"{n:x}".rjust(letters, "é"[: letters % 2] or "x")[:letters] for n in range(30_000)]
    words += ["", "\0", "\0\0"]
    chosen = pa.array([words[i] for i in rng.integers(0, len(words), 60_000)])
    nulls = rng.random(60_000) < 0.1
    keys = pc.if_else(pa.array(nulls), None, chosen)
    keys = keys.cast(kind) if not pa.types.is_dictionary(kind) else keys.dictionary_encode().cast(kind)
    table = pa.table({"k": pa.chunked_array([keys.slice(0, 20_001), keys.slice(20_001)])})
    numbers, first_rows = _core.group_rows(table)
    encoded = pc.dictionary_encode(chosen.filter(pa.array(~nulls)))
    assert len(first_rows) == len(encoded.dictionary) + 1
    firsts = np.asarray(first_rows)
    assert (np.asarray(numbers)[firsts] == np.arange(len(firsts))).all()
    of = np.asarray(numbers)
    assert keys.take(pa.array(firsts[of])).equals(keys)


@given(data=st.data())
def test_states_skip_what_is_missing(data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(["sum", "count", "min", "max"]))
    kind = data.draw(st.sampled_from(STATE_TYPES if state == "sum" else EXTREME_TYPES))
    rows = data.draw(st.integers(0, 12))
    values = data.draw(arrays(kind, rows))
    if pa.types.is_floating(kind) and state == "sum":  # sums of huge floats depend on their order
        values = pc.if_else(pc.less(pc.abs(values), 1e6), values, pa.scalar(float("nan"), kind))
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    cut = data.draw(st.integers(0, rows))
    column = pa.chunked_array([values[:cut], values[cut:]], kind)
    found = _core.state_of_groups(
        state, pa.array(numbers, pa.uint32()), 4, pa.table({"v": column}), nan_is_missing=True
    )
    for group in range(4):
        own = values.filter(pa.array([number == group for number in numbers], pa.bool_()))
        own = own.drop_null()
        if pa.types.is_floating(kind):
            own = own.filter(pc.invert(pc.is_nan(own)))
        if state == "sum" and pa.types.is_integer(kind):
            wide = sum(own.to_pylist())
            got = found[group].as_py()
            assert (got - wide) % 2**64 == 0
            continue
        if state == "sum":
            assert math.isclose(found[group].as_py(), math.fsum(own.to_pylist()), abs_tol=1e-3)
            continue
        if state == "count":
            assert found[group].as_py() == len(own)
            continue
        bits = own.cast(pa.int64()) if pa.types.is_duration(kind) else own  # Arrow has no extreme of those
        expected = pc.min_max(bits)[state].cast(kind)
        assert found[group].equals(expected) or found[group].as_py() == expected.as_py()


def test_nan_counts_unless_it_is_missing() -> None:
    values = pa.table({"v": [1.0, float("nan"), None]})
    numbers = pa.array([0, 0, 0], pa.uint32())
    for state, kept, skipped in (("sum", math.nan, 1.0), ("count", 2, 1), ("max", math.nan, 1.0)):
        (with_nan,) = _core.state_of_groups(state, numbers, 1, values).to_pylist()
        (without,) = _core.state_of_groups(state, numbers, 1, values, nan_is_missing=True).to_pylist()
        assert with_nan == kept or (math.isnan(with_nan) and math.isnan(kept))
        assert without == skipped


def test_wrong_use_is_told() -> None:
    numbers, values = pa.array([0], pa.uint32()), pa.table({"v": [1.5]})
    with pytest.raises(ValueError, match="sum, count, min or max"):
        _core.state_of_groups("median", numbers, 1, values)
    with pytest.raises(ValueError, match="a value for each of 1 rows, got 2"):
        _core.state_of_groups("sum", numbers, 1, pa.table({"v": [1, 2]}))
    with pytest.raises(TypeError, match="uint32"):
        _core.state_of_groups("sum", pa.array([0]), 1, values)
    with pytest.raises(NotImplementedError, match="no sum of string"):
        _core.state_of_groups("sum", numbers, 1, pa.table({"v": ["a"]}))
    with pytest.raises(NotImplementedError, match="cannot be a key"):
        _core.group_rows(pa.table({"k": [[1]]}))
