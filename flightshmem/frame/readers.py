# SPDX-License-Identifier: Apache-2.0
"""Make a frame: of files, of tables in memory, of published tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from flightshmem import runtime
from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.frame import collect
from flightshmem.frame.frame import DataFrame
from flightshmem.frame.names import find_all
from flightshmem.io.csv import CsvFormat, open_csv
from flightshmem.io.normal import normal_table
from flightshmem.io.parquet import open_parquet
from flightshmem.io.paths import Paths
from flightshmem.io.published import PublishedSource
from flightshmem.plan.nodes import Scan, Source
from flightshmem.plan.types import check_names, parse_dtype


def read_parquet(path: Paths, columns: list[str] | None = None) -> DataFrame:
    """Read Parquet files lazily, row groups spread over PEs. Collective.

    ``path``: a file, a list, a pattern (``flights/*.parquet``) or a directory; every PE must see it.
    Only the footers are read now. Files may differ in column order, in columns they lack (missing
    values) and in integer or float widths (the widest wins); ``string_view`` is read as ``string``.
    Raises ``FileMissing``, or ``DataError`` naming the file, on all PEs.
    """
    with runtime.current().converge("read_parquet"):
        source = open_parquet(path)
    return _frame(source, columns, "read_parquet")


def read_csv(
    path: Paths,
    columns: list[str] | None = None,
    *,
    sep: str = ",",
    dtype: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Read CSV files with a header line lazily, their records spread over PEs. Collective.

    ``path`` as for ``read_parquet``; compressed files (``.gz``, ``.zst``, ...) are read by one PE each.
    Types are inferred from all rows (integer, float, ISO date or timestamp, bool, else string; ambiguous
    dates like 10/9/2016 stay strings), the same on every PE whatever their number; ``dtype`` overrides
    them by column. What pandas reads as missing (empty, NA, NaN, null, ...) is missing. Newlines
    inside quotes are kept. Raises ``FileMissing``, or ``DataError`` naming the file, on all PEs.
    """
    if len(sep.encode()) != 1:
        raise InvalidArgument(f"[read_csv] sep must be one byte, got {sep!r}")
    types = tuple((name, parse_dtype(target)) for name, target in (dtype or {}).items())
    source = open_csv(runtime.current(), path, CsvFormat(sep, types))
    find_all(source.schema, [name for name, _ in types], "read_csv")
    return _frame(source, columns, "read_csv")


def from_pandas(df: pd.DataFrame, *, distributed: bool = False) -> DataFrame:
    """Spread a pandas frame over PEs; its index is dropped (use ``reset_index()`` to keep it).

    Every PE passes the same frame and takes its share of the rows; ``distributed=True``: every PE
    passes its own part (collective). One copy. NaN becomes a missing value, categoricals stay
    dictionaries.
    """
    if not isinstance(df, pd.DataFrame):
        raise InvalidArgument(f"[from_pandas] a pandas DataFrame is needed, got {type(df).__name__}")
    check_names(list(df.columns), "from_pandas")
    try:
        table = pa.Table.from_pandas(df, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"[from_pandas] a column holds values of different kinds: {error.args[0]}: "
            "convert it with astype() first"
        ) from None
    return DataFrame(Scan(_in_memory(table, "from_pandas", distributed), tuple(table.schema.names)))


def from_arrow(source: Any, *, distributed: bool = False) -> DataFrame:
    """Spread an Arrow table over PEs, without a copy.

    ``source``: anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow, Polars, DuckDB, ...).
    Every PE passes the same rows and takes its share; ``distributed=True``: its own part (collective).
    """
    if not any(hasattr(source, f"__arrow_c_{kind}__") for kind in ("stream", "array")):
        raise InvalidArgument(
            "[from_arrow] an object with __arrow_c_stream__ or __arrow_c_array__ is needed, "
            f"got {type(source).__name__}"
        )
    table = source if isinstance(source, pa.Table) else pa.table(source)
    return DataFrame(Scan(_in_memory(table, "from_arrow", distributed), tuple(table.schema.names)))


def table(name: str) -> DataFrame:
    """Return a frame over a published table, in the version that is current now. Collective."""
    source = PublishedSource(name)
    return DataFrame(Scan(source, tuple(source.schema.names)))


def _in_memory(table: pa.Table, operation: str, is_part: bool) -> Source:
    table = normal_table(table, operation)
    return collect.table_source(table, f"{operation}(...)", is_part)


def _frame(source: Source, columns: list[str] | None, operation: str) -> DataFrame:
    names = source.schema.names if columns is None else find_all(source.schema, columns, operation)
    return DataFrame(Scan(source, tuple(names)))
