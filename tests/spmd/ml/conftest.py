# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flightshmem.frame import DataFrame, from_arrow
from flightshmem.runtime import Runtime

N_ROWS = 3000


@pytest.fixture
def my_rows(runtime: Runtime) -> Callable[[pd.DataFrame | pa.Table], DataFrame]:
    """Give the frame in which each PE holds its part of the rows; PE 0 holds twice as many as the rest."""

    def part(rows: pd.DataFrame | pa.Table) -> DataFrame:
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
        bounds = [0, *((pe + 2) * table.num_rows // (runtime.n_pes + 1) for pe in range(runtime.n_pes))]
        first, last = bounds[runtime.pe], bounds[runtime.pe + 1]
        return from_arrow(table.slice(first, last - first), distributed=True)

    return part


@pytest.fixture(scope="session")
def flights() -> pd.DataFrame:
    """Rows with numbers, nulls, booleans and words, and a label that depends on all of them."""
    random = np.random.default_rng(7)
    rows = pd.DataFrame(
        {
            "hour": random.integers(5, 24, N_ROWS).astype("int32"),
            "wind": random.normal(10, 4, N_ROWS),
            "seats": random.integers(20, 300, N_ROWS).astype("float32"),
            "weekend": random.random(N_ROWS) < 0.3,
            "carrier": pd.Categorical.from_codes(
                random.integers(0, 5, N_ROWS), ["AA", "B6", "DL", "UA", "ÜB"]
            ),
        }
    )
    rows.loc[random.random(N_ROWS) < 0.1, "wind"] = np.nan
    rows.loc[random.random(N_ROWS) < 0.1, "carrier"] = None
    strain = rows.hour / 6 + rows.wind.fillna(0) / 5 + 2 * rows.carrier.isin(["B6", "ÜB"]) - rows.weekend
    rows["late"] = strain + random.normal(0, 1, N_ROWS) > strain.median()
    return rows
