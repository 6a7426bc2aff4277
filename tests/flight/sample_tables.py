# SPDX-License-Identifier: Apache-2.0
"""Tables that servers find hard: every type, every odd shape."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa


def typed(rows: int = 1000) -> pa.Table:
    """One column per type, every seventh value null."""

    def column(make: object, type_: pa.DataType) -> pa.Array:
        assert callable(make)
        return pa.array([None if i % 7 == 3 else make(i) for i in range(rows)], type_)

    day = dt.datetime(2013, 1, 1)
    return pa.table(
        {
            "bool": column(lambda i: i % 3 == 0, pa.bool_()),
            "int8": column(lambda i: i % 100, pa.int8()),
            "uint64": column(lambda i: 2**64 - 1 - i, pa.uint64()),
            "half": pa.array(np.arange(rows, dtype=np.float16)),
            "double": column(lambda i: i / 7, pa.float64()),
            "decimal": column(lambda i: Decimal(i) / 4, pa.decimal128(20, 4)),
            "decimal256": column(lambda i: Decimal(i) / 4, pa.decimal256(60, 4)),
            "date": column(lambda i: day.date(), pa.date32()),
            "time": column(lambda i: dt.time(1, 2, 3, i), pa.time64("us")),
            "timestamp": column(lambda i: day + dt.timedelta(hours=i), pa.timestamp("ns", "Europe/Berlin")),
            "duration": column(lambda i: dt.timedelta(seconds=i), pa.duration("s")),
            "interval": column(lambda i: (i, 2, 3), pa.month_day_nano_interval()),
            "string": column(lambda i: "äöü" * (i % 5), pa.string()),
            "large_string": column(str, pa.large_string()),
            "binary": column(lambda i: bytes(i % 256), pa.binary()),
            "fixed_binary": column(lambda i: i.to_bytes(5, "big"), pa.binary(5)),
            "list": column(lambda i: list(range(i % 4)), pa.list_(pa.int32())),
            "large_list": column(lambda i: ["x"] * (i % 4), pa.large_list(pa.string())),
            "list_view": column(lambda i: [i] * (i % 3), pa.list_view(pa.int16())),
            "fixed_list": column(lambda i: [i, -i], pa.list_(pa.float32(), 2)),
            "struct": column(
                lambda i: {"a": i, "b": [str(i)]},
                pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
            ),
            "map": column(lambda i: [("k", i)], pa.map_(pa.string(), pa.int32())),
            "dictionary": column(lambda i: "abc"[i % 3], pa.string()).dictionary_encode(),
            "null": pa.nulls(rows),
            "sparse_union": pa.UnionArray.from_sparse(
                pa.array([i % 2 for i in range(rows)], pa.int8()),
                [pa.array(range(rows)), pa.array([str(i) for i in range(rows)])],
            ),
            "run_end_encoded": pa.RunEndEncodedArray.from_arrays(
                pa.array([rows // 2, rows], pa.int32()), pa.array(["first", "second"])
            ),
        }
    )


def decorated() -> pa.Table:
    """Metadata, an extension type, an ordered dictionary, a column without nulls."""
    ids = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.UUID(int=i).bytes for i in range(4)], pa.binary(16))
    )
    grades = pa.DictionaryArray.from_arrays(
        pa.array([2, 0, 1, None], pa.int8()), pa.array(["low", "middle", "high"]), ordered=True
    )
    schema = pa.schema(
        [
            pa.field("id", pa.uuid(), nullable=False, metadata={"unit": "none"}),
            pa.field("grade", grades.type, metadata={"ARROW:FLIGHT:SQL:REMARKS": "an order"}),
        ],
        metadata={"pandas": '{"index_columns": []}', "own": "kept"},
    )
    return pa.Table.from_arrays([ids, grades], schema=schema)


def one_chunk(n_bytes: int = 17 << 20) -> pa.Table:
    """One int64 column in one chunk larger than any client's message limit."""
    return pa.table({"n": np.arange(n_bytes // 8)})


def skewed_strings() -> pa.Table:
    """Thousands of tiny strings, then a few of half a megabyte, then tiny ones again."""
    return pa.table({"s": ["x"] * 100_000 + ["y" * 500_000] * 20 + ["z"] * 100_000})


def many_columns(columns: int = 1500, rows: int = 400) -> pa.Table:
    """So many columns that a message's metadata outweighs its rows."""
    return pa.table({f"c{i}": np.full(rows, i, np.int32) for i in range(columns)})


def large_dictionary() -> pa.Table:
    """A dictionary that is larger than a message may be."""
    values = pa.array([f"{i:0100d}" for i in range(60_000)])
    codes = pa.array(np.arange(60_000, dtype=np.int32)[::-1])
    return pa.table({"d": pa.DictionaryArray.from_arrays(codes, values)})


def no_columns() -> pa.Table:
    """Three rows of nothing."""
    return pa.table({"n": [1, 2, 3]}).select([])


ALL = {
    "typed": typed,
    "decorated": decorated,
    "one_chunk": one_chunk,
    "skewed_strings": skewed_strings,
    "many_columns": many_columns,
    "large_dictionary": large_dictionary,
    "no_columns": no_columns,
    "no_rows": lambda: typed().slice(0, 0),
    "one_row": lambda: typed().slice(501, 1),
}
