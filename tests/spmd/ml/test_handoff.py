# SPDX-License-Identifier: Apache-2.0
"""XGBoost reads the heap itself, not a copy of it."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pyarrow as pa
from xgboost.data import _transform_pandas_df

import flightshmem.ml.xgboost as fxgb
from flightshmem import heap
from flightshmem.frame import DataFrame

MyRows = Callable[[pd.DataFrame | pa.Table], DataFrame]


def test_what_xgboost_reads_lies_in_the_heap_block(my_rows: MyRows, flights: pd.DataFrame) -> None:
    """dmlc/xgboost#9692, ray-project/xgboost_ray#224: no conversion on the way."""
    data = fxgb.dataset(my_rows(flights), label="late")
    assert data.copied_bytes() == 0
    # The addresses that XGBoost's own ingestion would pass on to C++.
    columns = _transform_pandas_df(data.features(), True, None, data.feature_types)[0].columns
    block = data.matrix.block
    for index, column in enumerate(columns):
        interface = column.__array_interface__
        assert interface["data"][0] == block.ctypes.data + index * block.strides[1]
        assert column.strides == (4,)
    assert heap.stats().used_bytes >= data.matrix.nbytes


def test_a_copy_would_be_seen(my_rows: MyRows, flights: pd.DataFrame) -> None:
    data = fxgb.dataset(my_rows(flights), label="late")
    copied = pd.DataFrame(data.matrix.numpy().copy(order="F"), columns=data.matrix.columns, copy=False)
    assert data.copied_bytes(copied) == data.matrix.nbytes


def test_training_gives_the_block_back(my_rows: MyRows, flights: pd.DataFrame) -> None:
    before = heap.stats().used_bytes
    booster = fxgb.train({"nthread": 1}, my_rows(flights), label="late", num_boost_round=1)
    scored = fxgb.predict(booster, my_rows(flights)).local()
    assert scored.num_rows > 0
    del scored
    assert heap.stats().used_bytes <= before
