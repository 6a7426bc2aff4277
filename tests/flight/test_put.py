# SPDX-License-Identifier: Apache-2.0
"""Storing tables: modes, what arrives, what is refused, and that refusals leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import flight

from flightshmem import errors
from flightshmem.flight import Client, connect
from tests.flight import sample_tables
from tests.flight.serving import Serving, serving
from tests.flight.wire import RawClient

ONE = pa.table({"n": [1]})


def put_bare(served: Serving, table: pa.Table, *path: str) -> None:
    """Store with nothing but pyarrow.flight, as its documentation shows."""
    with flight.connect(served.uri) as bare:
        descriptor = flight.FlightDescriptor.for_path(*path)
        writer, _ = bare.do_put(descriptor, table.schema, served.options())
        with writer:
            writer.write_table(table)


def names(client: Client) -> set[str]:
    return {table.name for table in client.list()}


class TestModes:
    def test_bare_clients_replace_unless_told_otherwise(self, served: Serving, client: Client) -> None:
        put_bare(served, ONE, "bare")
        put_bare(served, pa.table({"n": [2]}), "bare")
        put_bare(served, pa.table({"n": [3]}), "bare", "append")
        assert client.get("bare").to_pydict() == {"n": [2, 3]}
        with pytest.raises(pa.ArrowException, match="published already"):
            put_bare(served, ONE, "bare", "create")
        put_bare(served, pa.table({"other": ["x"]}), "bare", "replace")
        assert client.get("bare").to_pydict() == {"other": ["x"]}

    def test_create(self, client: Client) -> None:
        client.put("fresh", ONE, mode="create")
        with pytest.raises(errors.TableExists, match="'fresh' is published already"):
            client.put("fresh", ONE, mode="create")

    def test_append_makes_the_table_and_keeps_order(self, client: Client) -> None:
        for i in range(5):
            client.put("grown", pa.table({"n": [2 * i, 2 * i + 1]}), mode="append")
        assert client.get("grown")["n"].to_pylist() == list(range(10))
        (described,) = [table for table in client.list() if table.name == "grown"]
        assert (described.rows, described.version) == (10, 5)

    def test_append_needs_the_same_schema(self, client: Client) -> None:
        client.put("typed_once", ONE)
        with pytest.raises(errors.SchemaError, match=r"(?s)append to table 'typed_once'.*int64.*string"):
            client.put("typed_once", pa.table({"n": ["text"]}), mode="append")
        assert client.get("typed_once").equals(ONE)

    def test_append_of_dictionary_columns(self, client: Client) -> None:
        def table(*words: str) -> pa.Table:
            return pa.table({"d": pa.array(words).dictionary_encode()})

        client.put("words", table("b", "a", "c"))
        client.put("words", table("c", "b", "b"), mode="append")
        assert client.get("words")["d"].to_pylist() == ["b", "a", "c", "c", "b", "b"]
        with pytest.raises(errors.SchemaError, match="'d' brings 1 values that its dictionary lacks"):
            client.put("words", table("a", "new"), mode="append")
        assert client.get("words").num_rows == 6

    def test_unknown_mode(self, served: Serving) -> None:
        with pytest.raises(pa.ArrowInvalid, match="create, replace or append, got 'upsert'"):
            put_bare(served, ONE, "x", "upsert")

    def test_drop(self, client: Client) -> None:
        client.put("short_lived", ONE)
        client.drop("short_lived")
        assert "short_lived" not in names(client)
        with pytest.raises(errors.TableNotFound, match="short_lived"):
            client.drop("short_lived")


class TestWhatArrives:
    def test_pandas(self, client: Client) -> None:
        frame = pd.DataFrame({"a": [1.5, None], "b": ["x", "y"], "c": pd.Categorical(["u", "v"])})
        client.put("pandas", frame)
        pd.testing.assert_frame_equal(client.get("pandas").to_pandas(), frame)

    def test_any_arrow_stream(self, client: Client) -> None:
        class Stream:
            def __arrow_c_stream__(self, requested_schema: object = None) -> object:
                return ONE.__arrow_c_stream__(requested_schema)

        client.put("stream", Stream())
        assert client.get("stream").equals(ONE)
        with pytest.raises(errors.InvalidArgument, match="got list"):
            client.put("stream", [1, 2])

    def test_a_slice_takes_only_its_own_bytes(self, client: Client) -> None:
        client.put("slice", pa.table({"n": np.arange(1_000_000)}).slice(500_000, 5))
        assert client.get("slice")["n"].to_pylist() == [500_000 + i for i in range(5)]
        (described,) = [table for table in client.list() if table.name == "slice"]
        assert described.size_bytes < 4096

    @pytest.mark.parametrize("compression", ["lz4", "zstd"])
    def test_compressed_streams(self, served: Serving, client: Client, compression: str) -> None:
        table = sample_tables.typed()
        options = flight.FlightCallOptions(
            timeout=60,
            headers=[(b"authorization", f"Bearer {served.token}".encode())],
            write_options=pa.ipc.IpcWriteOptions(compression=compression),
        )
        with flight.connect(served.uri) as bare:
            descriptor = flight.FlightDescriptor.for_path(compression)
            writer, _ = bare.do_put(descriptor, table.schema, options)
            with writer:
                writer.write_table(table, 100)
        assert client.get(compression).equals(table)

    def test_views_become_plain_strings(self, client: Client) -> None:
        words = ["short", None, "longer than twelve bytes"]
        table = pa.table(
            {
                "s": pa.array(words, pa.string_view()),
                "b": pa.array([None, b"x" * 20, b""], pa.binary_view()),
                "l": pa.array([words, None, []], pa.list_(pa.string_view())),
                "d": pa.DictionaryArray.from_arrays(
                    pa.array([0, 1, None]), pa.array(["x", "y"], pa.string_view())
                ),
            }
        )
        client.put("views", table)
        got = client.get("views")
        assert got.to_pydict() == table.to_pydict()
        assert got.schema.types == [
            pa.string(),
            pa.binary(),
            pa.list_(pa.string()),
            pa.dictionary(pa.int64(), pa.string()),
        ]

    def test_dictionaries_that_change_within_a_stream(self, client: Client) -> None:
        parts = [["a", "b", "a"], ["c", None, "b"], ["d", "a", "d"]]
        batches = [pa.record_batch([pa.array(part).dictionary_encode()], ["d"]) for part in parts]
        client.put("changing", pa.Table.from_batches(batches))
        got = client.get("changing")
        assert got["d"].to_pylist() == [word for part in parts for word in part]
        assert got.unify_dictionaries()["d"].chunk(0).dictionary.to_pylist() == ["a", "b", "c", "d"]

    def test_many_small_and_some_large_batches(self, client: Client) -> None:
        values = np.random.default_rng(3).standard_normal(10_000_000)  # 80 MB: more than one shard
        client.put("large", pa.table({"x": values}))
        np.testing.assert_array_equal(client.get("large")["x"].to_numpy(), values)
        client.drop("large")

    def test_stale_heap_bytes_do_not_show(self, served: Serving, client: Client) -> None:
        canary = b"\xc5CANARY\xc5" * 100_000
        client.put("canary", pa.table({"b": [canary]}))
        client.drop("canary")
        holes = pa.table(
            {
                "n": pa.array([1, None] * 40_000, pa.int64()),
                "f": pa.array([None, 1.0] * 40_000),
                "s": pa.array(["x" * (i % 3) if i % 5 else None for i in range(80_000)]),
                "l": pa.array([[1, None], None] * 40_000, pa.list_(pa.int32())),
            }
        )
        client.put("holes", holes)
        assert client.get("holes").equals(holes)
        with RawClient(served.uri, served.token) as raw:
            assert b"CANARY" not in b"".join(raw.do_get(b"holes"))


@pytest.fixture(scope="module")
def small() -> Iterator[Serving]:
    """A server with a small heap, whose bytes in use are counted."""
    with serving(heap="64M", max_put_bytes=32 << 20) as served:
        yield served


@pytest.fixture
def unchanged(small: Serving) -> Iterator[Client]:
    """A client whose failed uploads must leave no name and no byte."""
    with connect(small.uri) as client:
        before = small.used_bytes()
        yield client
        assert client.list() == []
        assert small.used_bytes() == before
        assert small.is_alive()


class TestRefusals:
    @pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "x\n", "x\0y", "n" * 201, "é" * 101])
    def test_bad_names(self, small: Serving, unchanged: Client, name: str) -> None:
        with pytest.raises(pa.ArrowInvalid, match="bad table name"):
            put_bare(small, ONE, name)
        with pytest.raises(errors.InvalidArgument, match="bad table name"):
            unchanged.put(name, ONE)
        with pytest.raises(errors.TableNotFound, match="no table of that name"):
            unchanged.drop(name)

    def test_commands(self, small: Serving, unchanged: Client) -> None:
        with flight.connect(small.uri) as bare:
            descriptor = flight.FlightDescriptor.for_command(b"INSERT")
            writer, _ = bare.do_put(descriptor, ONE.schema, small.options())
            with pytest.raises(pa.ArrowInvalid, match="must be a path"):
                writer.close()

    def test_duplicate_columns(self, unchanged: Client) -> None:
        table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["twin", "twin"])
        with pytest.raises(errors.InvalidArgument, match="two columns are named 'twin'"):
            unchanged.put("x", table)

    def test_nulls_in_a_column_without_nulls(self, unchanged: Client) -> None:
        schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
        table = pa.Table.from_arrays([pa.array([1, None])], schema=schema)
        with pytest.raises(errors.InvalidArgument, match="'n' is declared not null, got 1 nulls"):
            unchanged.put("x", table)

    def test_values_that_are_not_what_their_type_says(self, unchanged: Client) -> None:
        text = pa.StringArray.from_buffers(
            1, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")
        )
        with pytest.raises(errors.InvalidArgument, match=r"column 's' holds invalid values.*UTF8"):
            unchanged.put("x", pa.table({"s": text}))

    def test_large_uploads_say_why_they_failed(self, small: Serving, unchanged: Client) -> None:
        table = pa.table({"x": np.zeros(25_000_000)})  # 200 MB, far beyond what buffers on the way hold
        with pytest.raises(errors.InvalidArgument, match="the limit is 33554432"):
            unchanged.put("x", table)
        with pytest.raises(pa.ArrowInvalid, match="the limit is 33554432"):
            put_bare(small, table, "x")

    def test_a_full_heap(self) -> None:
        with serving(heap="64M") as served, connect(served.uri) as client:
            client.put("first", pa.table({"x": np.zeros(5_000_000)}))
            before = served.used_bytes()
            with pytest.raises(errors.HeapExhausted, match=r"no room.*--heap"):
                client.put("second", pa.table({"x": np.zeros(5_000_000)}))
            with pytest.raises(flight.FlightUnavailableError, match="no room"):
                put_bare(served, pa.table({"x": np.zeros(5_000_000)}), "second")
            assert served.used_bytes() == before
            assert names(client) == {"first"}

    def test_a_source_that_fails_midway(self, unchanged: Client) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"n": np.zeros(1_000_000)})
            raise ValueError("the source broke")

        reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.float64())]), batches())
        with pytest.raises(ValueError, match="the source broke"):
            unchanged.put("x", reader)

    def test_an_upload_that_says_abort(self, small: Serving, unchanged: Client) -> None:
        with flight.connect(small.uri) as bare:
            descriptor = flight.FlightDescriptor.for_path("x")
            writer, _ = bare.do_put(descriptor, ONE.schema, small.options())
            writer.write_table(ONE)
            writer.write_metadata(b"abort")
            with pytest.raises(flight.FlightCancelledError, match="gave up"):
                writer.close()

    def test_too_many_columns_and_levels(self, unchanged: Client) -> None:
        wide = pa.schema([(f"c{i}", pa.int8()) for i in range(20_001)])
        with pytest.raises(errors.InvalidArgument, match="more than 20000 columns"):
            unchanged.put("x", wide.empty_table())
        deep = pa.int8()
        for _ in range(40):
            deep = pa.list_(deep)
        with pytest.raises(errors.InvalidArgument, match="nested deeper than 32"):
            unchanged.put("x", pa.schema([("d", deep)]).empty_table())
