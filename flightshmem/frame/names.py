# SPDX-License-Identifier: Apache-2.0
"""Look up columns; what is not there is reported with what is."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from flightshmem.errors import ColumnNotFound, InvalidArgument


def find(schema: pa.Schema, name: Any, operation: str) -> str:
    """Return the name of a column that exists."""
    if isinstance(name, str) and name in schema.names:
        return name
    close = get_close_matches(str(name), schema.names, n=3)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise ColumnNotFound(
        f"[{operation}] no such column, got {name!r}: {hint}columns are {', '.join(schema.names)}"
    )


def find_all(schema: pa.Schema, names: Sequence[Any], operation: str) -> list[str]:
    """Return names of columns that all exist."""
    if isinstance(names, (bytes, str)):
        raise InvalidArgument(f"[{operation}] a list of column names is needed, got {names!r}")
    return [find(schema, name, operation) for name in names]
