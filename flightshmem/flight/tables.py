# SPDX-License-Identifier: Apache-2.0
"""Anything tabular as a stream of batches that are small enough to send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flightshmem.errors import InvalidArgument

MESSAGE_BYTES = 1 << 20


def as_reader(tabular: Any) -> pa.RecordBatchReader:
    """Open a pyarrow table, batch or reader, a pandas frame, or anything with ``__arrow_c_stream__``.

    No copy, except what pandas' own conversion needs; a pandas index other than the default one becomes a
    column.
    """
    if isinstance(tabular, pa.RecordBatchReader):
        return tabular
    if isinstance(tabular, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(tabular.schema, [tabular])
    if isinstance(tabular, pa.Table):
        return tabular.to_reader()
    if type(tabular).__module__.startswith("pandas") and hasattr(tabular, "columns"):
        return pa.Table.from_pandas(tabular).to_reader()
    if hasattr(tabular, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(tabular)
    raise InvalidArgument(
        "[put] takes a pyarrow or pandas table or anything with __arrow_c_stream__, "
        f"got {type(tabular).__name__}"
    )


def slices(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Cut batches so that a message stays near MESSAGE_BYTES; a wider row goes alone."""
    for batch in reader:
        yield from _slices(batch)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    first = 0
    rows = batch.num_rows
    while first < batch.num_rows:
        part = batch.slice(first, rows)
        size = pa.ipc.get_record_batch_size(part)
        if size > MESSAGE_BYTES and part.num_rows > 1:
            rows = max(1, min(part.num_rows * MESSAGE_BYTES // size, part.num_rows * 3 // 4))
            continue
        yield part
        first += part.num_rows
        # Narrower rows may follow: try more of them next time.
        rows = max(1, min(part.num_rows * MESSAGE_BYTES // max(size, 1), 4 * part.num_rows))
