# SPDX-License-Identifier: Apache-2.0
"""Steps that look at one row at a time: filters, projections, and putting batches together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from flightshmem import _core
from flightshmem.errors import DataError, SchemaError, UnsupportedError
from flightshmem.plan.expr import Expr, decode, evaluate
from flightshmem.plan.nodes import Project
from flightshmem.plan.types import value_type


@contextmanager
def arrow_errors(operation: str) -> Iterator[None]:
    """Turn Arrow's exceptions into ours, naming the step."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"[{operation}] {error}: cast the column with astype() first") from error
    except pa.ArrowTypeError as error:
        raise SchemaError(f"[{operation}] {error}") from error
    except pa.ArrowInvalid as error:
        raise DataError(f"[{operation}] {error}") from error


def keep(table: pa.Table, predicate: Expr) -> pa.Table:
    """Keep the rows for which the predicate is true."""
    mask = evaluate(predicate, table, {})
    if isinstance(mask, pa.Scalar):
        return table if mask.as_py() else table.slice(0, 0)
    return _chosen(table, mask)


def _chosen(table: pa.Table, mask: pa.Array | pa.ChunkedArray) -> pa.Table:
    chunks = mask.chunks if isinstance(mask, pa.ChunkedArray) else [mask]
    # Gathering needs columns of one chunk: joining them first would copy every row once more.
    if len(chunks) != 1 or not table.columns or any(c.num_chunks != 1 for c in table.columns):
        return table.filter(mask)
    return take(table, _core.true_rows(chunks[0]))


def project(table: pa.Table, node: Project) -> pa.Table:
    """Compute a projection; columns that are only passed on are not copied."""
    cache: dict[int, Any] = {}
    arrays = []
    for _, expr in node.columns:
        values = evaluate(expr, table, cache)
        if isinstance(values, pa.Scalar):
            values = repeat(values, table.num_rows)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=node.schema)


def repeat(value: pa.Scalar, rows: int) -> pa.Array:
    """Return an array of one value."""
    if pt.is_dictionary(value.type):
        words = pa.array([value.as_py()], value.type.value_type)
        codes = pa.repeat(pa.scalar(0, value.type.index_type), rows)
        return pa.DictionaryArray.from_arrays(codes, words, ordered=value.type.ordered)
    return pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type)


def concat(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Put tables of one schema on one another without copying."""
    parts = [table for table in tables if table.num_rows]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def take(table: pa.Table, indices: Any) -> pa.Table:
    """Gather rows by number; a null number gives a row of nulls."""
    # Gathering from many chunks is far slower than one copy that joins them.
    whole = contiguous(table)
    batches = whole.to_batches()
    if len(batches) != 1 or indices.type not in (pa.uint32(), pa.int64()):
        return whole.take(indices)
    # Nested columns are left to Arrow.
    ours = _core.gatherable(whole.schema)
    positions = [i for i, is_ours in enumerate(ours) if is_ours]
    gathered = iter(_core.gather(batches[0].select(positions), indices).columns if positions else [])
    columns = [
        next(gathered) if is_ours else column.take(indices)
        for column, is_ours in zip(whole.columns, ours, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=whole.schema)


def contiguous(table: pa.Table) -> pa.Table:
    """Give every column one chunk (and one dictionary)."""
    if any(pt.is_dictionary(field.type) for field in table.schema):
        table = table.unify_dictionaries()
    return table.combine_chunks()


def decoded(table: pa.Table) -> pa.Table:
    """Replace dictionary columns by their values."""
    if not any(pt.is_dictionary(field.type) for field in table.schema):
        return table
    fields = [field.with_type(value_type(field.type)) for field in table.schema]
    return pa.Table.from_arrays([decode(column) for column in table.columns], schema=pa.schema(fields))


def rechunk(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield tables of at least ``rows`` rows (the last may be shorter), so that fixed costs pay."""
    pending: list[pa.Table] = []
    count = 0
    for table in tables:
        pending.append(table)
        count += table.num_rows
        del table
        if count >= rows:
            yield _drained(pending)
            count = 0
    if pending:
        yield _drained(pending)


def _drained(tables: list[pa.Table]) -> pa.Table:
    """Put tables on one another and leave the list empty, so that it keeps nothing alive."""
    whole = pa.concat_tables(tables)
    tables.clear()
    return whole
