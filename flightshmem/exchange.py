# SPDX-License-Identifier: Apache-2.0
"""Rows change PEs: by key, by number, or to everybody.

All functions take and give ``pyarrow.Table`` and are collective. Results lie in this PE's heap, rows
ordered by source PE, then by their order there. Columns may have any type; nested ones travel as IPC
messages, which costs a copy more, and arrive in one chunk for each batch that was sent. Dictionary
columns get the same dictionary on every PE. A string or binary column whose text would not fit on some
PE (2 GiB) becomes large_string or large_binary on all PEs; with ``keep_types`` it is shown as what it
was, in several chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightshmem import _core, exchange_nested
from flightshmem.errors import ColumnNotFound, DataError, InvalidArgument, SchemaError, UnsupportedError
from flightshmem.runtime import Runtime, current


def shuffle(table: pa.Table, keys: list[str]) -> pa.Table:
    """Send rows with equal keys to the same PE. Collective.

    Null and NaN are equal keys, and so are -0.0 and 0.0. With one PE the rows stay where they are.
    """
    runtime = current()
    runtime.transport.set_phase("shuffle: partition")
    with runtime.converge("shuffle"):
        table = _without_views(table)
        keyed = _select_keys(runtime, table, keys)
        batches = keyed.to_batches() if runtime.n_pes > 1 else []
        pes = pa.chunked_array([_core.hash_partition(b, runtime.n_pes) for b in batches], pa.uint16())
    unified = unify_dictionaries(table)
    return unified if runtime.n_pes == 1 else _scatter(runtime, unified, pes)


def scatter(table: pa.Table, pes: pa.ChunkedArray | pa.Array, *, keep_types: bool = False) -> pa.Table:
    """Send row i to PE ``pes[i]`` (any integer type; uint16 needs no conversion). Collective."""
    runtime = current()
    with runtime.converge("scatter"):
        chunks = pes.chunks if isinstance(pes, pa.ChunkedArray) else [pes]
        numbers = _pe_numbers(runtime, pa.chunked_array(chunks, type=pes.type))
        if len(numbers) != table.num_rows:
            raise InvalidArgument(
                f"[scatter] one PE number is needed for each of {table.num_rows} rows, "
                f"got {len(numbers)}, {_here(runtime)}"
            )
    unified = unify_dictionaries(table)
    result = _scatter(runtime, unified, numbers)
    return _short_text(result, unified.schema) if keep_types else result


def replicate(table: pa.Table, *, keep_types: bool = False) -> pa.Table:
    """Give every PE all rows of all PEs, in PE order. Collective.

    PEs that share memory share one copy, in the heap of one of them. With one PE the rows stay where
    they are.
    """
    runtime = current()
    unified = unify_dictionaries(table)
    if runtime.n_pes == 1:
        return unified
    part = exchange_nested.nested_part(runtime, unified)
    result = _replicate_flat(runtime, exchange_nested.without_nested(unified))
    if part.num_columns:
        with runtime.converge("replicate"):
            messages = pa.Table.from_batches([exchange_nested.pack_whole(part)])
        received = _replicate_flat(runtime, messages)
        result = exchange_nested.put_back(
            result, unified.schema, exchange_nested.unpack(received, part.schema)
        )
    return _short_text(result, unified.schema) if keep_types else result


def share_bytes(keeper: int, data: pa.UInt8Array | None) -> pa.UInt8Array | None:
    """Let all PEs read the keeper's bytes in place, out of its heap; others' ``data`` is not looked at.

    Collective; one copy, on the keeper. None on all PEs when the keeper has none, its heap no room for
    them, or when not all PEs share memory.
    """
    runtime = current()
    if not all(runtime.transport.has_peer(pe) for pe in range(runtime.n_pes)):
        return None
    shared: pa.UInt8Array | None = _core.share_bytes(runtime.heap, keeper, data)
    return shared


def _replicate_flat(runtime: Runtime, table: pa.Table) -> pa.Table:
    _, batch = _core.replicate(
        runtime.heap, table.schema, _batches(table), staging_bytes=runtime.staging_bytes
    )
    return pa.Table.from_batches([batch])


def unify_dictionaries(table: pa.Table) -> pa.Table:
    """Give dictionary columns the same dictionary on every PE. Collective.

    It holds the values that occur on some PE, sorted, with int32 codes, so that codes depend neither
    on row order nor on the number of PEs. An ordered dictionary that is the same on all PEs is kept
    whole and in its order. Views (string_view, binary_view) become plain columns. Other columns are
    not touched.
    """
    runtime = current()
    with runtime.converge("unify_dictionaries"):
        table = _without_views(table)
        names = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
        mine = _pack({name: _gather_words(table.column(name), name) for name in names})
    # Also without dictionary columns: another PE may have some, and all must hear of it.
    everybody = [_unpack(payload) for payload in runtime.allgather(mine)]
    _check_same_columns(runtime, everybody)
    with runtime.converge("unify_dictionaries"):
        for name in names:
            words = _unite([words[name] for words in everybody])
            at = table.schema.get_field_index(name)
            column = _recode(table.column(name), words)
            table = table.set_column(at, table.schema.field(at).with_type(column.type), column)
    return table


@dataclass(frozen=True)
class _Words:
    """The values of a dictionary column: plain, distinct, without null."""

    values: pa.Array
    ordered: bool

    def is_sorted(self) -> bool:
        return bool(self.values.equals(_sorted(self.values)))


def _gather_words(column: pa.ChunkedArray, name: str) -> _Words:
    """Collect the values a column needs: those in use, or the whole of an ordered dictionary."""
    ordered: bool = column.type.ordered
    chunks = [chunk for chunk in column.chunks if len(chunk) or ordered]
    try:
        if ordered:
            parts = [_Words(chunk.dictionary.drop_null(), True) for chunk in chunks]
        else:
            parts = [_Words(_used(chunk), False) for chunk in chunks]
        return _unite(parts or [_Words(pa.array([], column.type.value_type), ordered)])
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(
            f"[exchange] the dictionary of column '{name}' cannot be unified, got {column.type}: "
            "cast the column to its value type"
        ) from error


def _used(chunk: pa.DictionaryArray) -> pa.Array:
    return chunk.dictionary.take(chunk.indices.unique().drop_null()).drop_null()


def _unite(parts: list[_Words]) -> _Words:
    """Make one dictionary of several; it is ordered when its order is that of all of them."""
    ordered = all(part.ordered for part in parts)
    filled = [part for part in parts if len(part.values)] or parts[:1]
    first = filled[0]
    if ordered and all(part.values.equals(first.values) for part in filled):
        return first
    union = pa.chunked_array([part.values for part in filled]).unique()
    return _Words(_sorted(union), ordered and all(part.is_sorted() for part in filled))


def _sorted(values: pa.Array) -> pa.Array:
    return values.take(pc.sort_indices(values))


def _recode(column: pa.ChunkedArray, words: _Words) -> pa.ChunkedArray:
    kind = pa.dictionary(pa.int32(), words.values.type, words.ordered)
    chunks = column.chunks or [pa.array([], column.type)]
    return pa.chunked_array([_recode_chunk(chunk, words) for chunk in chunks], kind)


def _recode_chunk(chunk: pa.DictionaryArray, words: _Words) -> pa.DictionaryArray:
    # A value without a code is null or in no row.
    codes = pc.index_in(chunk.dictionary, value_set=words.values, skip_nulls=True)
    return pa.DictionaryArray.from_arrays(codes.take(chunk.indices), words.values, ordered=words.ordered)


def _pack(columns: dict[str, _Words]) -> bytes:
    """Write words as an IPC stream of one row: a list column per dictionary column."""
    lists = [
        pa.LargeListArray.from_arrays(pa.array([0, len(words.values)], pa.int64()), words.values)
        for words in columns.values()
    ]
    fields = [
        pa.field(name, array.type, metadata={"ordered": "1" if words.ordered else ""})
        for (name, words), array in zip(columns.items(), lists, strict=True)
    ]
    schema = pa.schema(fields)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if lists:
            writer.write_batch(pa.record_batch(lists, schema=schema))
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(payload: bytes) -> dict[str, _Words]:
    table = pa.ipc.open_stream(payload).read_all()
    return {
        field.name: _Words(column.chunk(0).flatten(), bool(field.metadata[b"ordered"]))
        for field, column in zip(table.schema, table.columns, strict=True)
    }


def _check_same_columns(runtime: Runtime, everybody: list[dict[str, _Words]]) -> None:
    """Raise the same error on all PEs when their dictionary columns differ."""
    kinds = [{name: words.values.type for name, words in columns.items()} for columns in everybody]
    for pe, other in enumerate(kinds):
        for name in [*kinds[0], *other]:
            here, there = kinds[0].get(name), other.get(name)
            if here != there:
                raise SchemaError(
                    f"[exchange] column '{name}' differs between PEs, got a dictionary of {there} on "
                    f"PE {pe}/{runtime.n_pes} and of {here} on PE 0 (None: not one): cast it everywhere"
                )


def _scatter(runtime: Runtime, table: pa.Table, pes: pa.ChunkedArray) -> pa.Table:
    part = exchange_nested.nested_part(runtime, table)
    result = _scatter_flat(runtime, exchange_nested.without_nested(table), pes)
    if not part.num_columns:
        return result
    with runtime.converge("scatter"):
        messages, numbers = exchange_nested.pack(part, pes.to_numpy(), runtime.n_pes)
    received = _scatter_flat(runtime, pa.Table.from_batches([messages]), pa.chunked_array([numbers]))
    columns = exchange_nested.unpack(received, part.schema)
    return exchange_nested.put_back(result, table.schema, columns)


def _scatter_flat(runtime: Runtime, table: pa.Table, pes: pa.ChunkedArray) -> pa.Table:
    with runtime.converge("scatter"):
        batches = _batches(table)
        numbers = []
        begin = 0
        for batch in batches:
            numbers.append(pes.slice(begin, batch.num_rows).combine_chunks())
            begin += batch.num_rows
    _, batch = _core.scatter(
        runtime.heap, table.schema, batches, numbers, staging_bytes=runtime.staging_bytes
    )
    return pa.Table.from_batches([batch])


def _short_text(table: pa.Table, schema: pa.Schema, max_bytes: int = _core.MAX_SHORT_TEXT) -> pa.Table:
    """Give columns that the exchange has made large_string or large_binary their old types back.

    Such a column then comes in several chunks, each of at most ``max_bytes`` of text. Offsets are
    copied, text is not.
    """
    for at, (field, wanted) in enumerate(zip(table.schema, schema, strict=True)):
        if wanted.type in (pa.string(), pa.binary()) and field.type != wanted.type:
            column = table.column(at)
            chunks = [piece for c in column.chunks for piece in _short_chunks(c, wanted.type, max_bytes)]
            table = table.set_column(at, wanted, pa.chunked_array(chunks, wanted.type))
    return table


def _short_chunks(chunk: pa.Array, kind: pa.DataType, max_bytes: int) -> list[pa.Array]:
    _, offset_bytes, text = chunk.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    chunks, begin = list[pa.Array](), 0
    while begin < len(chunk) or not chunks:
        fitting = int(np.searchsorted(offsets, offsets[begin] + max_bytes, side="right")) - 1
        if fitting == begin < len(chunk):
            raise DataError(
                f"[exchange] one value of type {kind} is longer than its offsets reach, got "
                f"{offsets[begin + 1] - offsets[begin]} bytes: cast the column to large_{kind}"
            )
        short = (offsets[begin : fitting + 1] - offsets[begin]).astype(np.int32)
        valid = chunk[begin:fitting].is_valid().buffers()[1] if chunk.null_count else None
        bytes_of = text.slice(int(offsets[begin]), int(short[-1])) if text is not None else None
        buffers = [valid, pa.py_buffer(short), bytes_of]
        chunks.append(pa.Array.from_buffers(kind, fitting - begin, buffers))
        begin = fitting
    return chunks


def _pe_numbers(runtime: Runtime, pes: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_integer(pes.type):
        raise SchemaError(
            f"[scatter] PE numbers must be integers, got {pes.type}, {_here(runtime)}: cast them"
        )
    try:
        return pes.cast(pa.uint16())
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            f"[scatter] PE numbers must lie in [0, {runtime.n_pes}), got {pc.min_max(pes)}, {_here(runtime)}"
        ) from error


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows as batches; at least one, since it carries the dictionaries."""
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    if batches:
        return batches
    columns = [c.chunk(0)[:0] if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return [pa.record_batch(columns, schema=table.schema)]


def _select_keys(runtime: Runtime, table: pa.Table, keys: list[str]) -> pa.Table:
    if not keys:
        raise InvalidArgument(f"[shuffle] at least one key column is needed, got [], {_here(runtime)}")
    for key in keys:
        found = len(table.schema.get_all_field_indices(key))
        if found == 0:
            raise ColumnNotFound(
                f"[shuffle] no column {key!r}, {_here(runtime)}: the table has {table.column_names}"
            )
        if found > 1:
            raise InvalidArgument(
                f"[shuffle] {found} columns are named {key!r}, {_here(runtime)}: rename them"
            )
    return table.select(keys)


def _without_views(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        plain = _plain(field.type)
        if plain != field.type:
            table = table.set_column(at, field.with_type(plain), table.column(at).cast(plain))
    return table


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    return kind


def _here(runtime: Runtime) -> str:
    return f"PE {runtime.pe}/{runtime.n_pes}"
