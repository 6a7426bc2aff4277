# SPDX-License-Identifier: Apache-2.0
"""Row numbers of masks, and filters by them, against NumPy and pyarrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightshmem import _core
from flightshmem.errors import SchemaError
from flightshmem.execute.rows import keep
from flightshmem.plan.expr import Column


@given(
    bits=st.lists(st.sampled_from([True, False, None]), max_size=300),
    begin=st.integers(0, 70),
    end=st.integers(0, 20),
)
def test_true_rows_are_the_positions_of_true(bits: list[bool | None], begin: int, end: int) -> None:
    mask = pa.array(bits, pa.bool_())
    mask = mask.slice(begin, max(0, len(bits) - begin - end)) if begin <= len(bits) else mask
    expected = [i for i, bit in enumerate(mask.to_pylist()) if bit]
    rows = _core.true_rows(mask)
    rows.validate(full=True)
    assert rows.equals(pa.array(expected, pa.uint32()))


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_true_rows_of_long_masks(share: float) -> None:
    mask = np.random.default_rng(1).random(100_003) < share
    assert np.array_equal(_core.true_rows(pa.array(mask)), np.flatnonzero(mask))


def test_a_mask_must_be_bool() -> None:
    with pytest.raises(SchemaError, match=r"\[filter\] a mask must be bool, got int8"):
        _core.true_rows(pa.array([1, 0], pa.int8()))


@given(
    bits=st.lists(st.sampled_from([True, False, None]), max_size=100),
    n_chunks=st.integers(1, 3),
    skipped=st.integers(0, 9),
)
def test_keep_is_filter(bits: list[bool | None], n_chunks: int, skipped: int) -> None:
    texts = [None if i % 7 == 3 else "x" * (i % 20) for i in range(len(bits))]
    part = pa.table(
        {
            "keep": pa.array(bits, pa.bool_()),
            "number": pa.array([None if i % 5 == 2 else i / 3 for i in range(len(bits))], pa.float64()),
            "text": pa.array(texts, pa.string()),
            "word": pa.array(texts, pa.string()).dictionary_encode(),
            "list": pa.array([[i] for i in range(len(bits))], pa.list_(pa.int64())),
            "nothing": pa.nulls(len(bits)),
        }
    ).slice(skipped)
    table = pa.concat_tables([part] * n_chunks)
    kept = keep(table, Column(pa.bool_(), "keep"))
    kept.validate(full=True)
    assert kept.equals(table.filter(table["keep"]))
