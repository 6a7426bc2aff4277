# SPDX-License-Identifier: Apache-2.0
"""A frame's rows as one matrix in the heap: the hand-over to XGBoost, NumPy, pandas and PyTorch.

::

    layout="columns"   | column 0: n_rows values | column 1: n_rows values | ...   (Fortran order)
    layout="rows"      | row 0: n_columns values | row 1: n_columns values | ...   (C order)

The stride is exact (no padding), because libraries copy whatever is not contiguous. Each value is
written once, converted on its way from the Arrow buffer to its place in the heap; from then on every
view is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from flightshmem import heap, runtime
from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.frame import collect
from flightshmem.frame.output import Output
from flightshmem.io.memory import TableSource
from flightshmem.plan.nodes import Node, Project, Scan

Layout = Literal["columns", "rows"]
FloatArray = npt.NDArray[Any]

# Bits (bools, validity) are unpacked to bytes before they are written: this bounds that scratch space.
_ROWS_PER_STEP = 1 << 17


@dataclass(frozen=True)
class Matrix:
    """This PE's rows of a frame as one matrix in the heap.

    ``block`` is the memory itself; every view made from here is read-only and keeps it alive.
    Missing values are NaN. Categorical columns hold codes: positions in ``categories[name]``, which
    is sorted and the same on every PE.
    """

    block: FloatArray
    columns: tuple[str, ...]
    categories: Mapping[str, tuple[Any, ...]]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows on this PE, columns."""
        rows, columns = self.block.shape
        return rows, columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """The one type of all values."""
        return self.block.dtype

    @property
    def nbytes(self) -> int:
        """Size of the block on this PE, bytes."""
        return int(self.block.nbytes)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"Matrix({rows} rows x {columns} columns of {self.dtype} on this PE, {self.nbytes} bytes)"

    def numpy(self) -> FloatArray:
        """View the block as a read-only array. No copy."""
        view = self.block.view()
        view.flags.writeable = False
        return view

    def pandas(self) -> pd.DataFrame:
        """View the block as a pandas frame with named columns. No copy."""
        return pd.DataFrame(self.numpy(), columns=list(self.columns), copy=False)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **request: Any) -> Any:
        return self.numpy().__dlpack__(**request)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()


def matrix_of(frame: Output, dtype: npt.DTypeLike = "float32", layout: Layout = "columns") -> Matrix:
    """Compute a frame into one heap block: this PE's rows of it. Collective.

    Raises ``SchemaError`` for a type without a number for each value, ``InvalidArgument`` for values
    the dtype cannot hold, ``HeapExhausted`` on every PE before anything is written.
    """
    target = checked_dtype(dtype, layout)
    for field in frame._plan.schema:
        check_type(field, target)
    table = float32_rows(frame) if target == np.float32 else frame.local()
    return matrix_from_table(table, target, layout)


def float32_rows(frame: Output) -> pa.Table:
    """Compute a frame and return this PE's rows, numbers as float32 where that saves memory. Collective."""
    return collect.local_part(frame._plan, None if _lies_in_memory(frame._plan) else _narrow)


def matrix_from_table(table: pa.Table, target: np.dtype[Any], layout: Layout = "columns") -> Matrix:
    """Write this PE's rows, as ``DataFrame.local`` gives them, into one heap block. Collective.

    The table's columns are let go of one by one as they are written: pass the only reference.
    """
    names = tuple(table.column_names)
    shape = (table.num_rows, table.num_columns)
    with runtime.current().converge("to_matrix"):
        if target.kind != "f":
            _check_integers(table, target)
        block = heap.empty(shape, target, order="F" if layout == "columns" else "C")
    categories = {name: _categories(table[name]) for name in names if _is_category(table[name].type)}
    pending = table.columns[::-1]
    del table
    for index in range(len(names)):
        write_column(pending.pop(), block[:, index])
    # What the plan needed on its way is free now, but the allocator would keep it from XGBoost.
    pa.default_memory_pool().release_unused()
    return Matrix(block, names, categories)


def _lies_in_memory(plan: Node) -> bool:
    while isinstance(plan, Project):
        plan = plan.child
    return isinstance(plan, Scan) and isinstance(plan.source, TableSource)


def _narrow(table: pa.Table) -> pa.Table:
    """Convert numbers to float32, as the matrix will hold them: half the memory until then."""
    for index, field in enumerate(table.schema):
        if pa.types.is_float64(field.type) or pa.types.is_integer(field.type):
            column = table.column(index).cast(pa.float32(), safe=False)
            table = table.set_column(index, field.name, column)
    return table


def write_column(column: pa.ChunkedArray, out: FloatArray) -> None:
    """Convert a column into ``out``, NaN where it is null; no temporary is larger than a step."""
    start = 0
    with np.errstate(over="ignore"):  # beyond float32's range becomes inf, as in NumPy and pandas
        for chunk in column.chunks:
            for first in range(0, len(chunk), _ROWS_PER_STEP):
                piece = chunk.slice(first, _ROWS_PER_STEP)
                _write_piece(piece, out[start : start + len(piece)])
                start += len(piece)


def _write_piece(piece: pa.Array, out: FloatArray) -> None:
    if _is_category(piece.type):
        piece = piece.indices
    if pa.types.is_null(piece.type):
        out[...] = np.nan
        return
    validity, values = piece.buffers()
    if pa.types.is_boolean(piece.type):
        out[...] = _bits(values, piece.offset, len(piece))
    else:
        item = np.dtype(piece.type.to_pandas_dtype())
        out[...] = np.frombuffer(values, item, len(piece), piece.offset * item.itemsize)
    if piece.null_count:
        np.copyto(out, np.nan, where=_bits(validity, piece.offset, len(piece)) == 0)


def _bits(buffer: pa.Buffer, offset: int, length: int) -> npt.NDArray[np.uint8]:
    first, shift = divmod(offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (shift + length + 7) // 8, first)
    return np.unpackbits(packed, count=shift + length, bitorder="little")[shift:]


def checked_dtype(dtype: npt.DTypeLike, layout: str = "columns") -> np.dtype[Any]:
    """Check what kind of matrix is asked for."""
    target = np.dtype(dtype)
    if target.kind not in "fiu" or not target.isnative or target.itemsize > 8:
        raise InvalidArgument(
            f"[to_matrix] dtype must be a float or integer type of this machine, got {target}: "
            'use "float32" (the default), "float64" or "int64"'
        )
    if layout not in ("columns", "rows"):
        raise InvalidArgument(f'[to_matrix] layout must be "columns" or "rows", got {layout!r}')
    return target


def _is_category(type_: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(type_))


def check_type(field: pa.Field, target: np.dtype[Any]) -> None:
    """Check that a column's values can be numbers of a type."""
    type_, name = field.type, field.name
    whole = pa.types.is_integer(type_) or pa.types.is_boolean(type_) or _is_category(type_)
    if whole:
        return
    if pa.types.is_floating(type_) or pa.types.is_null(type_):
        if target.kind == "f":
            return
        remedy = f'ask for dtype="float64", or round with df["{name}"].astype("{target}") first'
    elif pa.types.is_temporal(type_):
        remedy = f'take the parts you need, for instance df["{name}"].dt.hour'
    elif pa.types.is_decimal(type_):
        remedy = f'convert it with df["{name}"].astype("float64")'
    elif pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        remedy = f'make it categorical with df["{name}"].astype("category"), or leave it out'
    else:
        remedy = "leave it out of the columns"
    raise SchemaError(f"[to_matrix] column {name!r} cannot be {target} values, got {type_}: {remedy}")


def _categories(column: pa.ChunkedArray) -> tuple[Any, ...]:
    return tuple(column.chunk(0).dictionary.to_pylist()) if column.num_chunks else ()


def _check_integers(table: pa.Table, target: np.dtype[Any]) -> None:
    """An integer matrix has no NaN to stand for a null, and must not wrap round."""
    limits = np.iinfo(target)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise InvalidArgument(
                f"[to_matrix] column {name!r} has nulls, which {target} cannot hold, "
                f'got {column.null_count} nulls: use dtype="float64", or df["{name}"].fillna(...) first'
            )
        if not pa.types.is_integer(column.type) or len(column) == 0:
            continue
        low, high = pc.min_max(column).as_py().values()
        if low < limits.min or high > limits.max:
            raise InvalidArgument(
                f"[to_matrix] column {name!r} does not fit {target}, got {low} to {high}: use a wider dtype"
            )
