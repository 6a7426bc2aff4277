# SPDX-License-Identifier: Apache-2.0
"""Parquet: footers are read on every PE, row groups are shared out by bytes, columns read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyarrow.fs import LocalFileSystem

from flightshmem.errors import DataError, FileMissing, SchemaError
from flightshmem.io.normal import as_schema, normal_schema
from flightshmem.io.paths import Paths, expand, label
from flightshmem.io.split import Slice, split_pieces

# Rows decoded at a time: enough to keep kernels busy, little against a share.
_BATCH_ROWS = 1 << 18
_OPERATION = "read_parquet"


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file."""

    file: int
    number: int
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class ParquetSource:
    """Row groups of Parquet files whose schemas fit together."""

    files: tuple[Path, ...]
    fragments: tuple[ds.ParquetFileFragment, ...]
    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    text_bytes: dict[str, float]

    partitioned_by = None

    @property
    def rows(self) -> int:
        """Rows of the row groups that are left."""
        return sum(group.rows for group in self.row_groups)

    def column_bytes(self, name: str) -> float | None:
        """Estimate the bytes of a column of variable width; None if its type says it."""
        per_row = self.text_bytes.get(name)
        return None if per_row is None else per_row * self.rows

    def describe(self) -> str:
        """Say what it is, for explain()."""
        total = sum(fragment.num_row_groups for fragment in self.fragments)
        left = len(self.row_groups)
        return f"parquet {label(list(self.files))}" + (
            f" ({left} of {total} row groups)" if left < total else ""
        )

    def restricted(self, predicate: Any) -> ParquetSource:
        """Leave out row groups whose statistics refute the predicate."""
        kept: list[RowGroup] = []
        for number, fragment in enumerate(self.fragments):
            own = [group for group in self.row_groups if group.file == number]
            passing = self._passing(fragment, predicate)
            kept += own if passing is None else [group for group in own if group.number in passing]
        return replace(self, row_groups=tuple(kept))

    def _passing(self, fragment: ds.ParquetFileFragment, predicate: Any) -> set[int] | None:
        # Statistics are only compared where the file's own types are the table's.
        physical = fragment.physical_schema
        if any(f.name not in physical.names or physical.field(f.name).type != f.type for f in self.schema):
            return None
        try:
            return {group.id for group in fragment.subset(filter=predicate).row_groups}
        except pa.ArrowException:
            return None

    def read(self, columns: Sequence[str], pe: int, n_pes: int) -> Iterator[pa.Table]:
        """Yield this PE's rows, decoding one batch of a row group at a time."""
        rows = [group.rows for group in self.row_groups]
        weights = [float(group.size_bytes) for group in self.row_groups]
        schema = pa.schema([self.schema.field(name) for name in columns])
        for piece in split_pieces(rows, weights, pe, n_pes):
            group = self.row_groups[piece.piece]
            yield from self._read_group(group, piece, schema)

    def _read_group(self, group: RowGroup, piece: Slice, schema: pa.Schema) -> Iterator[pa.Table]:
        path, fragment = self.files[group.file], self.fragments[group.file]
        present = [name for name in schema.names if name in fragment.physical_schema.names]
        position = 0
        with _read_errors(path), pq.ParquetFile(path, metadata=fragment.metadata) as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group.number], columns=present):
                start, stop = max(piece.start - position, 0), min(piece.stop - position, batch.num_rows)
                position += batch.num_rows
                if start < stop:
                    yield _completed(batch.slice(start, stop - start), schema)
                if position >= piece.stop:
                    break


def _completed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Bring a batch to the table's schema; columns the file lacks are missing values."""
    for field in schema:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field.name, pa.nulls(batch.num_rows, field.type))
    return as_schema(pa.Table.from_batches([batch]), schema, _OPERATION)


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileMissing(
            f"[{_OPERATION}] no such file, got {str(path)!r}: it vanished since its footer was read"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"[{_OPERATION}] not a readable Parquet file, got {str(path)!r}: {error}") from error


def open_parquet(path: Paths) -> ParquetSource:
    """Read the footers and fit the schemas together."""
    files = expand(path, (".parquet", ".pq", ".parq"), _OPERATION)
    fragments = [_open(file) for file in files]
    schemas: list[pa.Schema] = []
    for file, fragment in zip(files, fragments, strict=True):
        schemas.append(_unified(schemas[-1:], fragment.physical_schema, file))
    groups = [
        RowGroup(number, group.id, group.num_rows, group.total_byte_size)
        for number, fragment in enumerate(fragments)
        for group in fragment.row_groups
        if group.num_rows
    ]
    schema = schemas[-1]
    return ParquetSource(
        tuple(files), tuple(fragments), schema, tuple(groups), _text_bytes(fragments, schema)
    )


def _open(path: Path) -> ds.ParquetFileFragment:
    with _read_errors(path):
        fragment = ds.ParquetFileFormat().make_fragment(str(path), filesystem=LocalFileSystem())
        fragment.ensure_complete_metadata()
        return fragment


def _unified(known: list[pa.Schema], schema: pa.Schema, path: Path) -> pa.Schema:
    """Fit one more file's schema to those before; null columns take the others' type."""
    schema = normal_schema(schema, _OPERATION)
    if not known:
        return schema
    known_schema, schema = _without_mixed_dictionaries(known[0], schema)
    try:
        return pa.unify_schemas([known_schema, schema], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"[{_OPERATION}] the files' columns do not fit together, got {str(path)!r}: {error}"
        ) from None


def _without_mixed_dictionaries(*schemas: pa.Schema) -> list[pa.Schema]:
    """Where one file has a dictionary and the other plain values, take plain values."""
    result = []
    for schema in schemas:
        fields = []
        for field in schema:
            types = {str(s.field(field.name).type) for s in schemas if field.name in s.names}
            is_mixed = pt.is_dictionary(field.type) and len(types) > 1
            fields.append(field.with_type(field.type.value_type) if is_mixed else field)
        result.append(pa.schema(fields))
    return result


def _text_bytes(fragments: list[ds.ParquetFileFragment], schema: pa.Schema) -> dict[str, float]:
    """Estimate the bytes per row of columns of variable width, from the footers."""
    wide = {
        field.name for field in schema if not pt.is_primitive(field.type) and not pt.is_dictionary(field.type)
    }
    sizes = dict.fromkeys(wide, 0.0)
    rows = 0
    for fragment in fragments:
        metadata = fragment.metadata
        rows += metadata.num_rows
        for group in range(metadata.num_row_groups):
            for leaf in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(leaf)
                name = chunk.path_in_schema.split(".", 1)[0]
                if name in wide:
                    sizes[name] += chunk.total_uncompressed_size
    # Dictionary-encoded pages are smaller than the values they stand for.
    return {name: max(size / max(rows, 1), 12.0) + 4.0 for name, size in sizes.items()}
