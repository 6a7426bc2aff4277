# SPDX-License-Identifier: Apache-2.0
"""FlightSHMEM: an Arrow Flight dataframe and tensor exchange layer over OpenSHMEM.

This module is the table of contents. Names load on first use, and nothing starts on import: the
first call that needs the other PEs starts the runtime.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# These load the libarrow libraries that the extension module is linked against.
import pyarrow.acero
import pyarrow.flight  # noqa: F401

if TYPE_CHECKING:
    from flightshmem.flight import connect
    from flightshmem.frame import (
        DataFrame,
        Series,
        from_arrow,
        from_pandas,
        read_csv,
        read_parquet,
        table,
    )
    from flightshmem.runtime import (
        Runtime,
        barrier,
        child_environment,
        finalize,
        init,
        is_initialized,
        n_pes,
        parse_bytes,
        pe,
    )

__version__ = "0.1.0"

# Public name -> the module that has it.
_HOME = {
    "DataFrame": "flightshmem.frame",
    "Series": "flightshmem.frame",
    "from_arrow": "flightshmem.frame",
    "from_pandas": "flightshmem.frame",
    "read_csv": "flightshmem.frame",
    "read_parquet": "flightshmem.frame",
    "table": "flightshmem.frame",
    "Runtime": "flightshmem.runtime",
    "barrier": "flightshmem.runtime",
    "child_environment": "flightshmem.runtime",
    "connect": "flightshmem.flight",
    "finalize": "flightshmem.runtime",
    "init": "flightshmem.runtime",
    "is_initialized": "flightshmem.runtime",
    "n_pes": "flightshmem.runtime",
    "parse_bytes": "flightshmem.runtime",
    "pe": "flightshmem.runtime",
}
# Modules that are public themselves: fs.errors, fs.heap, ...
_MODULES = ("catalog", "collectives", "errors", "exchange", "flight", "heap", "ml", "runtime", "testing")

__all__ = [
    "DataFrame",
    "Runtime",
    "Series",
    "barrier",
    "child_environment",
    "connect",
    "finalize",
    "from_arrow",
    "from_pandas",
    "init",
    "is_initialized",
    "n_pes",
    "parse_bytes",
    "pe",
    "read_csv",
    "read_parquet",
    "table",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"flightshmem.{name}")
    raise AttributeError(f"module 'flightshmem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_MODULES])
