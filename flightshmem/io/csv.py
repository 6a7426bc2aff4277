# SPDX-License-Identifier: Apache-2.0
"""CSV: types are inferred on all PEs' parts and agreed on before any row is delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.types as pt

from flightshmem.errors import DataError
from flightshmem.io.csv_split import BLOCK_BYTES, Piece, split_files
from flightshmem.io.normal import normal_schema
from flightshmem.io.paths import Paths, expand, label
from flightshmem.runtime import Runtime

_OPERATION = "read_csv"
_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".csv.zst", ".csv.bz2")
# What pandas reads as missing.
_MISSING = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip


@dataclass(frozen=True)
class CsvFormat:
    """How the files are written, and types the user insists on."""

    separator: str = ","
    types: tuple[tuple[str, pa.DataType], ...] = ()


@dataclass(frozen=True)
class CsvSource:
    """Records of CSV files, cut for the PEs of this job. ``pieces``: those of this PE."""

    files: tuple[Path, ...]
    names: tuple[tuple[str, ...], ...]
    pieces: tuple[Piece, ...]
    schema: pa.Schema
    rows: int
    size_bytes: int
    format: CsvFormat

    partitioned_by = None

    def column_bytes(self, name: str) -> float | None:
        """Estimate strings as an even share of the files' bytes; None for other types."""
        is_text = pt.is_string(self.schema.field(name).type)
        return self.size_bytes / len(self.schema) + 4 * self.rows if is_text else None

    def describe(self) -> str:
        """Say what it is, for explain()."""
        return f"csv {label(list(self.files))}"

    def restricted(self, predicate: Any) -> CsvSource:
        """CSV has no statistics."""
        return self

    def read(self, columns: Sequence[str], pe: int, n_pes: int) -> Iterator[pa.Table]:
        """Yield this PE's rows, one piece at a time."""
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for piece in self.pieces:
            names = self.names[piece.file]
            present = pa.schema([field for field in wanted if field.name in names])
            table = parse(self.files[piece.file], names, piece, self.format, present)
            for field in wanted:
                if field.name not in names:
                    table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            yield table.select(wanted.names)


def open_csv(job: Runtime, path: Paths, form: CsvFormat, block_bytes: int = BLOCK_BYTES) -> CsvSource:
    """Cut files for PEs, infer types on every part and agree on them. Collective."""
    with job.converge(_OPERATION):
        files = expand(path, _SUFFIXES, _OPERATION)
        headers = [_header(file, form) for file in files]
    starts = [start for start, _ in headers]
    names = tuple(tuple(columns) for _, columns in headers)
    pieces = split_files(job, files, starts, form.separator.encode(), block_bytes)
    with job.converge(_OPERATION):
        seen: dict[str, pa.DataType] = {}
        rows = 0
        for piece in pieces:
            table = parse(files[piece.file], names[piece.file], piece, form)
            rows += table.num_rows
            for field in table.schema:
                seen[field.name] = unify(seen.get(field.name, pa.null()), field.type)
    agreed, total = _agree(job, seen, rows)
    with job.converge(_OPERATION):
        schema = _schema(names, agreed, form)
        size = sum(file.stat().st_size for file in files)
    return CsvSource(tuple(files), names, tuple(pieces), schema, total, size, form)


def _header(path: Path, form: CsvFormat) -> tuple[int, list[str]]:
    """Return where the records begin and the names of the columns."""
    with _read_errors(path):
        raw = b""
        with pa.input_stream(str(path), compression="detect") as stream:
            while chunk := stream.read(1 << 16):
                raw += chunk
                end = _record_end(raw)
                if end:
                    break
            else:
                end = len(raw)
        if not raw[:end].strip():
            raise DataError(f"[{_OPERATION}] a header line is needed, got an empty file {str(path)!r}")
        options = pa_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True)
        names = pa_csv.read_csv(
            pa.BufferReader(raw[:end].rstrip(b"\r\n") + b"\n"), parse_options=options
        ).column_names
        return end, names


def _record_end(raw: bytes) -> int:
    """Return the length of the first record with its newline, 0 if it is not complete."""
    position = raw.find(b"\n")
    while position >= 0 and raw.count(b'"', 0, position) % 2:
        position = raw.find(b"\n", position + 1)
    return position + 1


def parse(
    path: Path, names: Sequence[str], piece: Piece, form: CsvFormat, schema: pa.Schema | None = None
) -> pa.Table:
    """Parse a piece: all columns with inferred types, or the schema's columns as its types."""
    types = dict(form.types) if schema is None else {field.name: field.type for field in schema}
    convert = pa_csv.ConvertOptions(
        column_types=types,
        include_columns=None if schema is None else schema.names,
        null_values=_MISSING,
        strings_can_be_null=True,
    )
    options = pa_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True)
    with _read_errors(path, piece):
        if piece.stop is None:
            with pa.input_stream(str(path), compression="detect") as stream:
                source = stream.read_buffer()
            reading = pa_csv.ReadOptions(column_names=list(names), skip_rows=1, block_size=_block(source))
        else:
            with pa.OSFile(str(path)) as file:
                file.seek(piece.start)
                source = file.read_buffer(piece.stop - piece.start)
            reading = pa_csv.ReadOptions(column_names=list(names), block_size=_block(source))
        if not source.size:
            return pa.schema([pa.field(name, types.get(name, pa.null())) for name in names]).empty_table()
        return pa_csv.read_csv(pa.BufferReader(source), reading, options, convert)


def _block(source: pa.Buffer) -> int:
    # A record must fit into one of the parser's blocks.
    return min(max(int(source.size) + 1, 1 << 16), (1 << 31) - 1)


def unify(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type that holds what two parts of a column were inferred as; text if nothing else."""
    if left.equals(right) or pt.is_null(right):
        return left
    if pt.is_null(left):
        return right
    pair = {left, right}
    if pair == {pa.int64(), pa.float64()}:
        return pa.float64()
    times = [t for t in (left, right) if pt.is_timestamp(t)]
    if len(times) == 2 and left.tz == right.tz:
        return pa.timestamp("ns", left.tz)
    if len(times) == 1 and times[0].tz is None and pa.date32() in pair:
        return times[0]
    return pa.string()


def _agree(job: Runtime, seen: dict[str, pa.DataType], rows: int) -> tuple[dict[str, pa.DataType], int]:
    """Unify the types all PEs have seen, and add up rows."""
    schema = pa.schema([pa.field(name, dtype) for name, dtype in seen.items()])
    parts = job.allgather(rows.to_bytes(8, "little") + schema.serialize().to_pybytes())
    schemas = [pa.ipc.read_schema(pa.py_buffer(part[8:])) for part in parts]
    agreed: dict[str, pa.DataType] = {}
    for field in (field for schema in schemas for field in schema):
        agreed[field.name] = unify(agreed.get(field.name, pa.null()), field.type)
    return agreed, sum(int.from_bytes(part[:8], "little") for part in parts)


def _schema(names: tuple[tuple[str, ...], ...], agreed: dict[str, pa.DataType], form: CsvFormat) -> pa.Schema:
    order = list(dict.fromkeys(name for columns in names for name in columns))
    for columns in names:
        normal_schema(pa.schema([pa.field(name, pa.null()) for name in columns]), _OPERATION)
    insisted = dict(form.types)
    fields = []
    for name in order:
        dtype = insisted.get(name, agreed.get(name, pa.null()))
        # Nothing but missing values: float64, as in pandas.
        fields.append(pa.field(name, pa.float64() if pt.is_null(dtype) else dtype))
    return pa.schema(fields)


@contextmanager
def _read_errors(path: Path, piece: Piece | None = None) -> Iterator[None]:
    where = f" in bytes {piece.start} to {piece.stop}" if piece is not None and piece.stop is not None else ""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"[{_OPERATION}] cannot be read as CSV, got {str(path)!r}{where}: {error}: "
            "check the separator, or give the column's type with dtype={'name': 'string'}"
        ) from error
