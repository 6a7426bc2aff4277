# SPDX-License-Identifier: Apache-2.0
"""Frames: lazy tables with pandas' verbs, and how to make one."""

from flightshmem.frame.frame import DataFrame
from flightshmem.frame.readers import from_arrow, from_pandas, read_csv, read_parquet, table
from flightshmem.frame.series import Series

__all__ = ["DataFrame", "Series", "from_arrow", "from_pandas", "read_csv", "read_parquet", "table"]
