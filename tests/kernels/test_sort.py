# SPDX-License-Identifier: Apache-2.0
"""Row order and ranges of rows against NumPy and pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightshmem import _core
from flightshmem.errors import SchemaError, UnsupportedError

RNG_ROWS = 5000  # enough for radix passes
COLUMNS = {
    "few": lambda rng: rng.integers(0, 3, RNG_ROWS),
    "one": lambda rng: np.zeros(RNG_ROWS, np.int8),
    "uint64": lambda rng: rng.integers(0, 2**64, RNG_ROWS, dtype=np.uint64),
    "int64": lambda rng: rng.integers(-(2**63), 2**63 - 1, RNG_ROWS),
    "int32": lambda rng: rng.integers(-1000, 1000, RNG_ROWS, dtype=np.int32),
    "float32": lambda rng: rng.normal(size=RNG_ROWS).astype(np.float32),
    "float16": lambda rng: rng.normal(size=RNG_ROWS).astype(np.float16),
    # All but one value within one radix bucket.
    "skewed": lambda rng: np.where(np.arange(RNG_ROWS) == 17, 1e300, rng.random(RNG_ROWS)),
    "zeros": lambda rng: rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], RNG_ROWS),
}
KEYS = st.lists(
    st.tuples(st.sampled_from(sorted(COLUMNS)), st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda key: key[0],
)


@given(keys=KEYS, missing_last=st.booleans(), share=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 99))
def test_long_orders_are_pandas(
    keys: list[tuple[str, bool]], missing_last: bool, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [
        pa.array(COLUMNS[name](rng), mask=rng.random(RNG_ROWS) < share, from_pandas=False) for name, _ in keys
    ]
    table = pa.table(arrays, names=[name for name, _ in keys])
    ours = _core.sort_rows(table, [ascending for _, ascending in keys], missing_last)
    order = np.arange(RNG_ROWS)
    for (_, ascending), array in reversed(list(zip(keys, arrays, strict=True))):
        series = pd.Series(array.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))
        if array.null_count and pa.types.is_integer(array.type):
            series = pd.Series(array.to_pylist(), dtype=f"{'U' if str(array.type)[0] == 'u' else ''}Int64")
        series = series.iloc[order].reset_index(drop=True)
        where = "last" if missing_last else "first"
        order = order[
            series.sort_values(ascending=ascending, kind="stable", na_position=where).index.to_numpy()  # type: ignore[call-overload]
        ]
    assert np.array_equal(np.asarray(ours), order)


@given(
    values=st.lists(st.none() | st.integers(-3, 3), max_size=30),
    cuts=st.lists(st.tuples(st.none() | st.integers(-3, 3), st.integers(0, 30)), max_size=4),
    ascending=st.booleans(),
    missing_last=st.booleans(),
)
def test_ranges_count_the_cuts_before_a_row(
    values: list[int | None], cuts: list[tuple[int | None, int]], ascending: bool, missing_last: bool
) -> None:
    def place(value: int | None) -> tuple[bool, int]:
        if value is None:
            return (missing_last, 0)
        return (not missing_last, value if ascending else -value)

    cuts = sorted(cuts, key=lambda cut: (place(cut[0]), cut[1]))
    keys, ties = pa.array([key for key, _ in cuts], pa.int32()), [tie for _, tie in cuts]
    column = pa.table({"k": pa.array(values, pa.int32())})
    ours = _core.find_ranges(column, keys, ties, ascending, missing_last)
    assert ours.to_pylist() == [
        sum(place(key) < place(value) or (key == value and tie <= row) for key, tie in cuts)
        for row, value in enumerate(values)
    ]


def test_nothing_to_sort() -> None:
    none = pa.table({"k": pa.array([], pa.float64())})
    assert len(_core.sort_rows(none, [True], True)) == 0
    assert len(_core.find_ranges(none, pa.array([1.0]), [0], True, True)) == 0


def test_wrong_types() -> None:
    with pytest.raises(UnsupportedError, match="column 's'"):
        _core.sort_rows(pa.table({"s": ["a"]}), [True], True)
    with pytest.raises(SchemaError, match="differ in type"):
        _core.find_ranges(pa.table({"k": [1]}), pa.array([1.0]), [0], True, True)
