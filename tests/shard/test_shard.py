# SPDX-License-Identifier: Apache-2.0
"""Shards: any batch, in place, aligned, and with nothing of what the memory held before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from strategies import DICTIONARIES, EVERY, FLAT, FLOATS, INTEGERS, TEXTS, arrays, batches, same

from flightshmem import _core
from flightshmem.errors import DataError, HeapExhausted, SchemaError

SEGMENT = 4 << 20
CANARY = b"\xab"
# A run of canary bytes that no value of the strategies spells by itself.
RUN = CANARY * 4

thorough = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Heap:
    def __init__(self, size: int = SEGMENT) -> None:
        self.transport = _core.open_posix_shm_alone(size, 10.0)
        self.heap = _core.Heap(self.transport)

    def fill(self, byte: bytes) -> None:
        """Make all free memory hold `byte`."""
        assert self.heap.stats()["used_bytes"] == 0
        block = self.heap.allocate(self.heap.stats()["largest_free_bytes"])
        memoryview(block).cast("B")[:] = byte * block.nbytes

    def write(self, batch: pa.RecordBatch) -> _core.Shard:
        return _core.write_shard(self.heap, batch)

    def message(self, shard: _core.Shard) -> bytes:
        pe, offset = shard.where
        return self.transport.get(pe, offset, shard.size_bytes)


HEAP = Heap()


@pytest.fixture(autouse=True)
def everything_is_freed() -> Iterator[None]:
    yield
    assert HEAP.heap.stats()["used_bytes"] == 0


def all_buffers(array: pa.Array) -> list[pa.Buffer]:
    """The buffers of an array and its children, without those of dictionaries."""
    if isinstance(array, pa.DictionaryArray):
        array = array.indices
    return [buffer for buffer in array.buffers() if buffer is not None]


@thorough
@given(batches(EVERY))
def test_what_is_written_is_read(batch: pa.RecordBatch) -> None:
    shard = HEAP.write(batch)
    read = _core.read_shard(_core.Header.from_batch(batch), shard)
    read.validate(full=True)
    assert same(read, batch)
    assert (shard.rows, shard.size_bytes) == (batch.num_rows, _core.shard_bytes(batch))
    for column in read.columns:
        assert (
            column.null_count == sum(value is None for value in column.to_pylist())
            or pa.types.is_union(column.type)
            or pa.types.is_run_end_encoded(column.type)
        )


@pytest.mark.parametrize("start", [0, 1, 7])
@pytest.mark.parametrize("rows", [(1 << 20) - 1, 1 << 20, (1 << 20) + 5])
def test_large_columns_are_copied_to_the_last_byte(start: int, rows: int) -> None:
    """What is copied past the caches, of sizes and from addresses that are no multiple of a line."""
    values = np.arange(start + rows, dtype=np.uint32)
    bits = pa.array(values % 3 == 0)
    batch = pa.record_batch({"a": pa.array(values), "b": pa.array(values.astype("f8")), "c": bits})
    heap = Heap(32 << 20)
    read = _core.read_shard(_core.Header.from_batch(batch), heap.write(batch.slice(start)))
    read.validate(full=True)
    assert read.equals(batch.slice(start))


@thorough
@given(batches(EVERY))
def test_buffers_are_places_of_the_block(batch: pa.RecordBatch) -> None:
    """No copy on reading, every buffer at a multiple of 64."""
    shard = HEAP.write(batch)
    base = HEAP.heap.allocate(1)
    segment = base.address - base.offset
    begin = segment + shard.where[1]
    read = _core.read_shard(_core.Header.from_batch(batch), shard)
    for column in read.columns:
        if pa.types.is_struct(column.type) and any(pa.types.is_dictionary(f.type) for f in column.type):
            continue  # its dictionary is the header's
        for buffer in all_buffers(column):
            if buffer.size > 0:
                assert begin <= buffer.address and buffer.address + buffer.size <= begin + shard.size_bytes
                assert buffer.address % 64 == 0


@thorough
@given(batches(EVERY))
def test_the_bytes_are_an_ipc_message(batch: pa.RecordBatch) -> None:
    """Arrow's own reader takes them, dictionaries apart."""
    assume(not any(pa.types.is_dictionary(t) or "dictionary" in str(t) for t in batch.schema.types))
    message = HEAP.message(HEAP.write(batch))
    assert message[:4] == b"\xff\xff\xff\xff" and len(message) % 64 == 0
    assert same(ipc.read_record_batch(pa.py_buffer(message), batch.schema), batch)


@thorough
@given(batches(EVERY))
def test_nothing_of_the_memory_before_shows(batch: pa.RecordBatch) -> None:
    written = []
    for byte in (CANARY, b"\x54"):
        HEAP.fill(byte)
        written.append(HEAP.message(HEAP.write(batch)))
    assert written[0] == written[1]


def with_garbage(array: pa.Array) -> pa.Array:
    """An equal array whose dead bytes (slots under nulls, behind the end) are canaries."""
    if isinstance(array, pa.DictionaryArray):
        codes = with_garbage_in_slots(array.indices, b"\x00")  # a code must stay in range
        return pa.DictionaryArray.from_arrays(codes, array.dictionary, ordered=array.type.ordered)
    return with_garbage_in_slots(array, CANARY)


def with_garbage_in_slots(array: pa.Array, garbage: bytes) -> pa.Array:
    size = len(array)
    valid = np.array(array.is_valid(), dtype=bool)
    bitmap = np.packbits(np.append(valid, np.ones(-size % 8, bool)), bitorder="little").tobytes()
    bits = pa.py_buffer(bitmap + CANARY * 13)
    if pa.types.is_boolean(array.type):
        slots = np.array([True if value is None else value for value in array.to_pylist()], bool)
        packed = np.packbits(np.append(slots, np.ones(-size % 8, bool)), bitorder="little").tobytes()
        return pa.Array.from_buffers(array.type, size, [bits, pa.py_buffer(packed + CANARY * 13)])
    width = array.type.bit_width // 8
    source = array.buffers()[1]
    begin = array.offset * width
    raw = bytearray(source.to_pybytes()[begin : begin + size * width])
    for row in np.flatnonzero(~valid):
        raw[row * width : (row + 1) * width] = garbage * width
    return pa.Array.from_buffers(array.type, size, [bits, pa.py_buffer(bytes(raw) + CANARY * 29)])


FIXED = [t for t in FLAT if t not in [pa.null(), *TEXTS]]


@thorough
@given(st.sampled_from(FIXED).flatmap(lambda type_: arrays(type_, 37)))
def test_dead_bytes_of_the_source_are_not_copied(array: pa.Array) -> None:
    clean = pa.record_batch({"a": array})
    dirty = pa.record_batch({"a": with_garbage(array)})
    assert same(clean, dirty)
    messages = [HEAP.message(HEAP.write(batch)) for batch in (clean, dirty)]
    assert messages[0] == messages[1]


@thorough
@given(st.lists(st.none() | st.text("xyz", max_size=9), max_size=40), st.booleans())
def test_bytes_of_null_strings_are_not_copied(texts: list[str | None], large: bool) -> None:
    offsets, values = [0], b""
    for text in texts:
        values += RUN if text is None else text.encode()
        offsets.append(len(values))
    type_ = pa.large_string() if large else pa.string()
    bitmap = np.packbits(np.array([text is not None for text in texts], bool), bitorder="little").tobytes()
    buffers = [bitmap, np.array(offsets, np.int64 if large else np.int32).tobytes(), values + RUN]
    column = pa.Array.from_buffers(type_, len(texts), [pa.py_buffer(buffer) for buffer in buffers])
    batch = pa.record_batch({"s": column})
    shard = HEAP.write(batch)
    assert RUN not in HEAP.message(shard)
    read = _core.read_shard(_core.Header.from_batch(batch), shard)
    read.validate(full=True)
    assert read["s"].to_pylist() == texts


def hidden_values(type_: pa.DataType) -> pa.Array:
    """Six rows of which two are null, with canaries in what only the nulls refer to."""
    canary = int.from_bytes(RUN, "little", signed=True)
    numbers = pa.array([1, 2, canary, canary, 5, 6], pa.int32())
    nulls = pa.array([False, False, True, True, False, False])
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([numbers], names=["x"], mask=nulls)
    if pa.types.is_fixed_size_list(type_):
        return pa.FixedSizeListArray.from_arrays(numbers, 1, mask=nulls)
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(pa.array(range(7), pa.int32()), numbers, mask=nulls)
    if pa.types.is_large_list(type_):
        return pa.LargeListArray.from_arrays(pa.array(range(7), pa.int64()), numbers, mask=nulls)
    if pa.types.is_list_view(type_):
        starts, ones = pa.array(range(6), pa.int32()), pa.array([1] * 6, pa.int32())
        return pa.ListViewArray.from_arrays(starts, ones, numbers, mask=nulls)
    if pa.types.is_large_list_view(type_):
        starts, ones = pa.array(range(6), pa.int64()), pa.array([1] * 6, pa.int64())
        return pa.LargeListViewArray.from_arrays(starts, ones, numbers, mask=nulls)
    if pa.types.is_string_view(type_):
        long = "long enough to lie in a buffer of its own "
        texts = [long + "a", None, RUN.decode("latin-1") * 9, long + "b", None, "x"]
        array = pa.array(texts, pa.string_view())
        views = array.buffers()
        return pa.Array.from_buffers(type_, 6, [pa.py_buffer(b"\x29"), *views[1:]])
    codes = pa.array([0, 0, 1, 1, 0, 0], pa.int8())
    zeros = pa.array([0, 0, 9, 9, 0, 0], pa.int32())
    if type_.mode == "sparse":
        return pa.UnionArray.from_sparse(codes, [numbers, zeros])
    return pa.UnionArray.from_dense(codes, pa.array([0, 1, 0, 1, 4, 5], pa.int32()), [numbers, zeros])


@pytest.mark.parametrize(
    "type_",
    [
        pa.struct([("x", pa.int32())]),
        pa.list_(pa.int32(), 1),
        pa.list_(pa.int32()),
        pa.large_list(pa.int32()),
        pa.list_view(pa.int32()),
        pa.large_list_view(pa.int32()),
        pa.string_view(),
        pa.sparse_union([pa.field("0", pa.int32()), pa.field("1", pa.int32())]),
        pa.dense_union([pa.field("0", pa.int32()), pa.field("1", pa.int32())]),
    ],
    ids=str,
)
def test_what_only_null_rows_refer_to_is_not_copied(type_: pa.DataType) -> None:
    column = hidden_values(type_)
    assert column.type == type_
    batch = pa.record_batch({"c": column})
    shard = HEAP.write(batch)
    message = HEAP.message(shard)
    assert RUN not in message and "\xab\xab".encode() not in message
    read = _core.read_shard(_core.Header.from_batch(batch), shard)
    read.validate(full=True)
    assert same(read, batch)


@pytest.mark.parametrize("type_", [*FLOATS, *INTEGERS, pa.bool_()], ids=str)
def test_value_buffers_are_matrix_columns(type_: pa.DataType) -> None:
    """NaN in float slots under nulls, zero in others: the buffer alone is a NumPy column."""
    numbers = [np.float16(1), None, np.float16(2)] if pa.types.is_floating(type_) else [1, None, 2]
    batch = pa.record_batch(
        {"a": pa.array(numbers, pa.float16() if type_ in FLOATS else pa.int8()).cast(type_)}
    )
    read = _core.read_shard(_core.Header.from_batch(batch), HEAP.write(batch))["a"]
    if pa.types.is_boolean(type_):
        assert read.buffers()[1].to_pybytes()[0] == 0b101
        return
    values = np.frombuffer(read.buffers()[1], type_.to_pandas_dtype(), 3)
    assert values[[0, 2]].tolist() == [1, 2]
    assert np.isnan(values[1]) if pa.types.is_floating(type_) else values[1] == 0


def test_rows_without_columns() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), 7, [None]))
    shard = HEAP.write(batch)
    assert shard.rows == 7
    assert _core.read_shard(_core.Header.from_batch(batch), shard).num_rows == 7


def test_a_batch_outlives_its_shard() -> None:
    batch = pa.record_batch({"a": [1, 2, 3]})
    shard = HEAP.write(batch)
    column = _core.read_shard(_core.Header.from_batch(batch), shard)["a"].slice(1)
    del shard
    HEAP.heap.allocate(64)
    assert HEAP.heap.stats()["used_bytes"] > 0 and column.to_pylist() == [2, 3]


def test_extension_types_and_metadata_survive() -> None:
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12.0).reshape(3, 2, 2))
    schema = pa.schema([pa.field("t", tensor.type, metadata={"unit": "m"})], metadata={"source": "test"})
    batch = pa.RecordBatch.from_arrays([tensor], schema=schema)
    read = _core.read_shard(_core.Header.from_batch(batch), HEAP.write(batch))
    assert read.schema.equals(schema, check_metadata=True)
    assert (read["t"].to_numpy_ndarray() == tensor.to_numpy_ndarray()).all()


def test_no_room_leaves_nothing() -> None:
    with pytest.raises(HeapExhausted, match="no room"):
        HEAP.write(pa.record_batch({"a": np.zeros(SEGMENT)}))


@given(batches(DICTIONARIES, max_columns=3))
@settings(deadline=None)
def test_headers_carry_schema_and_dictionaries(batch: pa.RecordBatch) -> None:
    header = _core.Header.from_batch(batch)
    again = _core.Header.from_bytes(header.to_bytes())
    assert again.schema.equals(batch.schema, check_metadata=True)
    again.check_equals(header)
    assert same(_core.read_shard(again, HEAP.write(batch)), batch)


@pytest.mark.parametrize(
    "other",
    [
        pa.record_batch({"a": pa.array(["x"]).dictionary_encode()}),
        pa.record_batch({"a": ["x"]}),
        pa.record_batch({"b": pa.array(["x", "y"]).dictionary_encode()}),
    ],
)
def test_headers_that_differ_say_so(other: pa.RecordBatch) -> None:
    batch = pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()})
    with pytest.raises(SchemaError, match="differ"):
        _core.Header.from_batch(batch).check_equals(_core.Header.from_batch(other))


def test_bad_header_bytes_are_refused() -> None:
    good = _core.Header.from_batch(pa.record_batch({"a": [1]})).to_bytes()
    for bad in (b"", b"nonsense", good[:40], good[: len(good) // 2]):
        with pytest.raises(DataError, match="table header"):
            _core.Header.from_bytes(bad)
