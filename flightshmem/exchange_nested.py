# SPDX-License-Identifier: Apache-2.0
"""Columns that the exchange cannot write in place: lists, structs, maps, unions.

They travel as IPC messages, one for each pair of PEs, in one large_binary column of an exchange of
its own. The receiver's columns are views of the messages: one chunk for each batch that was sent.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import SchemaError, UnsupportedError
from flightshmem.runtime import Runtime

_ALIGNMENT = 64
_FIELD = pa.field("message", pa.large_binary())


def is_nested(kind: pa.DataType) -> bool:
    """Return whether columns of this type travel as messages."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_nested(kind.storage_type)
    return bool(pt.is_nested(kind))


def nested_part(runtime: Runtime, table: pa.Table) -> pa.Table:
    """Return the nested columns, none if there are none. Collective: the same ones on all PEs."""
    part = table.select([i for i, field in enumerate(table.schema) if is_nested(field.type)])
    bare = pa.schema([pa.field(field.name, field.type) for field in part.schema])
    # Also without nested columns: another PE may have some, and all must hear of it.
    mine = bare.serialize().to_pybytes() if len(bare) else b""
    schemas = runtime.allgather(mine)
    for pe, other in enumerate(schemas):
        if other != schemas[0]:
            first, second = (
                pa.ipc.read_schema(pa.py_buffer(s)) if s else pa.schema([]) for s in (schemas[0], other)
            )
            raise SchemaError(
                f"[exchange] nested columns differ between PEs, got {_listed(second)} on PE {pe}/"
                f"{runtime.n_pes} and {_listed(first)} on PE 0: give them the same names and types"
            )
    return part


def without_nested(table: pa.Table) -> pa.Table:
    """Put columns of type null, which cost nothing, in the place of nested ones."""
    for at, field in enumerate(table.schema):
        if is_nested(field.type):
            table = table.set_column(at, pa.field(field.name, pa.null()), pa.nulls(table.num_rows))
    return table


def put_back(table: pa.Table, fields: pa.Schema, part: pa.Table) -> pa.Table:
    """Put nested columns in their places; ``fields``: the schema they had before."""
    places = [at for at, field in enumerate(fields) if is_nested(field.type)]
    for at, column in zip(places, part.columns, strict=True):
        table = table.set_column(at, fields.field(at), column)
    return table


def pack(part: pa.Table, pes: npt.NDArray[np.uint16], n_pes: int) -> tuple[pa.RecordBatch, pa.Array]:
    """Write one message for each PE that gets rows; return them and their destinations."""
    sink = pa.BufferOutputStream()
    ends, destinations = [0], []
    batches = part.to_batches()
    begins = np.cumsum([0, *(len(batch) for batch in batches)])
    for pe in range(n_pes):
        rows = [np.flatnonzero(pes[a:b] == pe) for a, b in itertools.pairwise(begins)]
        pieces = [_take(b, some) for b, some in zip(batches, rows, strict=True) if len(some)]
        if pieces:
            ends.append(_write(sink, part.schema, pieces))
            destinations.append(pe)
    return _messages(sink, ends), pa.array(destinations, pa.uint16())


def pack_whole(part: pa.Table) -> pa.RecordBatch:
    """Write one message with all rows."""
    sink = pa.BufferOutputStream()
    return _messages(sink, [0, _write(sink, part.schema, part.to_batches())])


def unpack(messages: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of all messages, in order, as views of them."""
    batches = list[pa.RecordBatch]()
    for chunk in messages.column(0).chunks:
        _, offsets, text = chunk.buffers()
        ends = np.frombuffer(offsets, np.int64)[chunk.offset :][: len(chunk) + 1].tolist()
        for begin, end in itertools.pairwise(ends):
            batches += list(pa.ipc.open_stream(text.slice(begin, end - begin)))
    return pa.Table.from_batches(batches, schema)


def _take(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            columns.append(column.take(pa.array(rows)))
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedError(
                f"[exchange] column '{field.name}' cannot change PEs, got {field.type}: {error}"
            ) from error
    return pa.record_batch(columns, schema=batch.schema)


def _write(sink: pa.BufferOutputStream, schema: pa.Schema, batches: list[pa.RecordBatch]) -> int:
    """Append a message and return where it ends. Aligned, so that it can be read in place."""
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    sink.write(b"\0" * (-sink.tell() % _ALIGNMENT))
    return int(sink.tell())


def _messages(sink: pa.BufferOutputStream, ends: list[int]) -> pa.RecordBatch:
    buffers = [None, pa.py_buffer(np.array(ends, np.int64)), sink.getvalue()]
    column = pa.Array.from_buffers(_FIELD.type, len(ends) - 1, buffers)
    return pa.record_batch([column], schema=pa.schema([_FIELD]))


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"'{field.name}' {field.type}" for field in schema) or "none"
