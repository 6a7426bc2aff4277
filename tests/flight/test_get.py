# SPDX-License-Identifier: Apache-2.0
"""Reading tables, through our client, bare pyarrow.flight and by hand."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyarrow import flight

from flightshmem import errors
from flightshmem.flight import Client
from tests.flight import sample_tables
from tests.flight.serving import Serving, serving
from tests.flight.wire import RawClient

LIMIT = 2 << 20


def info_of(client: flight.FlightClient, served: Serving, name: str) -> flight.FlightInfo:
    return client.get_flight_info(flight.FlightDescriptor.for_path(name), served.options())


def batches_of(client: flight.FlightClient, served: Serving, ticket: flight.Ticket) -> list[pa.RecordBatch]:
    return [chunk.data for chunk in client.do_get(ticket, served.options())]


@pytest.fixture(scope="module")
def stored(served: Serving) -> dict[str, pa.Table]:
    """All sample tables, put there once."""
    from flightshmem.flight import connect

    tables = {name: make() for name, make in sample_tables.ALL.items()}
    with connect(served.uri) as client:
        for name, table in tables.items():
            assert client.put(name, table) == table.num_rows
    return tables


@pytest.mark.parametrize("name", sample_tables.ALL)
def test_every_reader_sees_the_same_table(
    served: Serving, client: Client, stored: dict[str, pa.Table], name: str
) -> None:
    table = stored[name]
    mine = client.get(name)
    mine.validate(full=True)
    assert mine.equals(table, check_metadata=True)
    assert mine.num_rows == table.num_rows
    with flight.connect(served.uri) as bare:
        by_name = bare.do_get(flight.Ticket(name.encode()), served.options()).read_all()
        assert by_name.equals(table, check_metadata=True)
        parts = [
            batch
            for endpoint in info_of(bare, served, name).endpoints
            for batch in batches_of(bare, served, endpoint.ticket)
        ]
        assert pa.Table.from_batches(parts, table.schema).equals(table, check_metadata=True)


@pytest.mark.parametrize("name", sample_tables.ALL)
def test_schemas_agree_byte_for_byte(served: Serving, stored: dict[str, pa.Table], name: str) -> None:
    with flight.connect(served.uri) as bare:
        advertised = info_of(bare, served, name).schema
        asked = bare.get_schema(flight.FlightDescriptor.for_path(name), served.options()).schema
        streamed = bare.do_get(flight.Ticket(name.encode()), served.options()).schema
    expected = stored[name].schema
    for schema in (advertised, asked, streamed):
        assert schema.equals(expected, check_metadata=True)
        assert schema.serialize() == expected.serialize()


def test_flight_info_counts(served: Serving, stored: dict[str, pa.Table]) -> None:
    with flight.connect(served.uri) as bare:
        infos = {
            info.descriptor.path[0].decode(): info for info in bare.list_flights(options=served.options())
        }
        assert list(infos) == sorted(stored)
        for name, table in stored.items():
            info = info_of(bare, served, name)
            assert info.total_records == infos[name].total_records == table.num_rows
            assert info.total_bytes >= table.nbytes
            assert info.ordered
            assert len(info.endpoints) == 1
        only = [info.descriptor.path[0] for info in bare.list_flights(b"no_", options=served.options())]
        assert only == [b"no_columns", b"no_rows"]


@pytest.mark.parametrize("name", sample_tables.ALL)
def test_no_message_is_larger_than_the_limit(served: Serving, stored: dict[str, pa.Table], name: str) -> None:
    with RawClient(served.uri, served.token) as raw:
        sizes = [len(message) for message in raw.do_get(name.encode())]
    assert max(sizes) <= LIMIT
    # And not in crumbs either: the big one fills its messages.
    if name == "one_chunk":
        assert len(sizes) <= 2 + stored[name].nbytes / (LIMIT * 0.9)


def test_clients_with_small_limits_can_read(served: Serving, stored: dict[str, pa.Table]) -> None:
    options = [("grpc.max_receive_message_length", LIMIT)]
    with flight.FlightClient(served.uri, generic_options=options) as bare:
        for name, table in stored.items():
            got = bare.do_get(flight.Ticket(name.encode()), served.options()).read_all()
            assert got.num_rows == table.num_rows


def test_no_empty_batch_except_a_sole_one(served: Serving, client: Client) -> None:
    schema = pa.schema([("n", pa.int64())])
    full, empty = pa.record_batch([[1]], schema), pa.record_batch([[]], schema)
    client.put("gaps", pa.Table.from_batches([empty, full, empty, full, empty]))
    client.put("nothing", pa.Table.from_batches([empty]))
    with flight.connect(served.uri) as bare:
        assert [b.num_rows for b in batches_of(bare, served, flight.Ticket(b"gaps"))] == [2]
        assert [b.num_rows for b in batches_of(bare, served, flight.Ticket(b"nothing"))] == [0]


def test_a_row_wider_than_the_limit_is_named(client: Client) -> None:
    client.put("wide_row", pa.table({"s": ["a", "b" * 3_000_000, "c"]}))
    with pytest.raises(errors.InvalidArgument, match=r"row 1 .*'wide_row' takes 30\d+ bytes.*--max-message"):
        client.get("wide_row")


def test_the_limit_is_an_option() -> None:
    with serving(max_message_bytes=64 << 10) as served:
        from flightshmem.flight import connect

        with connect(served.uri) as client, RawClient(served.uri, served.token) as raw:
            table = sample_tables.typed()
            client.put("typed", table)
            assert max(len(message) for message in raw.do_get(b"typed")) <= 64 << 10
            assert client.get("typed").equals(table)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "x\ny", "é" * 300, "a/b"])
def test_odd_names_are_only_unknown_tables(served: Serving, name: str) -> None:
    with flight.connect(served.uri) as bare:
        with pytest.raises(KeyError, match="no table of that name"):
            info_of(bare, served, name)
        with pytest.raises(KeyError, match="no table of that name"):
            bare.do_get(flight.Ticket(name.encode()), served.options()).read_all()


def test_unknown_tables_are_told_with_those_there_are(served: Serving, stored: dict[str, pa.Table]) -> None:
    with flight.connect(served.uri) as bare:
        with pytest.raises(KeyError, match=r"missing.*typed"):
            info_of(bare, served, "missing")
        with pytest.raises(KeyError, match=r"missing.*typed"):
            bare.get_schema(flight.FlightDescriptor.for_path("missing"), served.options())
        with pytest.raises(KeyError, match=r"missing.*typed"):
            bare.do_get(flight.Ticket(b"missing"), served.options()).read_all()


@pytest.mark.parametrize(
    "wrong",
    [
        flight.FlightDescriptor.for_command(b"SELECT 1"),
        flight.FlightDescriptor.for_path(),
        flight.FlightDescriptor.for_path("a", "b"),
    ],
    ids=str,
)
def test_other_descriptors_are_refused(served: Serving, wrong: flight.FlightDescriptor) -> None:
    with flight.connect(served.uri) as bare:
        with pytest.raises(pa.ArrowInvalid):
            bare.get_flight_info(wrong, served.options())
        with pytest.raises(pa.ArrowInvalid):
            bare.get_schema(wrong, served.options())


def test_a_ticket_ends_with_its_version(served: Serving, client: Client) -> None:
    client.put("changing", pa.table({"n": [1]}))
    with flight.connect(served.uri) as bare:
        old = info_of(bare, served, "changing").endpoints[0].ticket
        client.put("changing", pa.table({"n": [2]}))
        with pytest.raises(KeyError, match="was replaced since"):
            batches_of(bare, served, old)
        new = info_of(bare, served, "changing").endpoints[0].ticket
        assert batches_of(bare, served, new)[0].to_pydict() == {"n": [2]}
        client.drop("changing")
        with pytest.raises(KeyError, match="changing"):
            batches_of(bare, served, new)


def test_forged_tickets_are_refused(served: Serving, client: Client) -> None:
    client.put("secret", pa.table({"n": [1]}))
    rng = random.Random(5)
    with flight.connect(served.uri) as bare:
        ticket = info_of(bare, served, "secret").endpoints[0].ticket.ticket
        good = pa.table({"n": [1]})
        forged = [b"", b"\0", b"\xff" * 40, ticket[:3], ticket[:12], ticket[:-1], ticket + b"x", ticket * 50]
        for _ in range(300):
            mutant = bytearray(ticket)
            mutant[rng.randrange(len(ticket))] ^= 1 << rng.randrange(8)
            forged.append(bytes(mutant))
        refused = 0
        for bytes_ in forged:
            try:
                assert bare.do_get(flight.Ticket(bytes_), served.options()).read_all().equals(good)
            except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
                refused += 1
                assert len(str(error)) < 4000
        assert refused == len(forged)
    assert served.is_alive()


def test_long_error_texts_arrive_cut(served: Serving) -> None:
    from tests.flight.wire import descriptor

    with RawClient(served.uri, served.token) as raw:
        trailers = raw.trailers("GetFlightInfo", descriptor("n" * 20_000))
    text = dict(trailers)["message"]
    assert "no table of that name" in str(text)
    assert sum(len(key) + len(value) for key, value in trailers) < 8192
