# SPDX-License-Identifier: Apache-2.0
"""What computes a frame: results for this process, for the other PEs, for files and for clients."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import pyarrow as pa

from flightshmem.catalog import Mode
from flightshmem.frame import collect
from flightshmem.plan.nodes import Node

if TYPE_CHECKING:
    from pathlib import Path


class Output:
    """Results of a frame. Everything here is collective."""

    _plan: Node

    def __init__(self, plan: Node) -> None:
        self._plan = plan

    def local(self) -> pa.Table:
        """Compute the frame and return this PE's rows. Collective.

        Rows that lie in the heap already (persisted, or just exchanged) are not copied.
        """
        return collect.local_part(self._plan)

    def to_arrow(self) -> pa.Table:
        """Return all rows on every PE, in PE order. Collective; every PE's heap must hold the whole table."""
        return collect.whole(self._plan)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows on every PE as a pandas frame. Collective; memory as ``to_arrow`` plus a copy."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Give all rows to any Arrow library, as ``to_arrow``. Collective."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def persist(self) -> Self:
        """Compute the frame once into the heap and return a frame over the result. Collective.

        One copy; afterwards ``local()`` and the matrix handoff are views of the heap. The original frame
        stays lazy. Raises ``HeapExhausted`` on all PEs if one has no room.
        """
        return type(self)(collect.persisted(self._plan))

    def publish(self, name: str, *, mode: Mode = "replace") -> None:
        """Compute the frame and publish it under a name, for other PEs and Flight clients. Collective.

        ``mode``: create (an error if the name is taken), replace (readers see the old or the new table,
        never a mix) or append.
        """
        collect.published(self._plan, name, mode)

    def to_parquet(self, path: str | os.PathLike[str] | Path, *, compression: str = "snappy") -> None:
        """Write one file ``part-<pe>.parquet`` per PE into a directory. Collective.

        All files become visible after all are written; if one PE fails, none does. Parts of an earlier
        write to the same directory are replaced.
        """
        collect.written(self._plan, os.fspath(path), compression)
