# SPDX-License-Identifier: Apache-2.0
"""One server in every PE, over the same tables."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from flightshmem import errors
from flightshmem.flight import Server, connect, serve
from flightshmem.runtime import Runtime

ROWS = 20_000


@pytest.fixture
def server(runtime: Runtime) -> Iterator[Server]:
    with serve() as server:
        yield server


def part(pe: int) -> pa.Table:
    """What PE ``pe`` contributes to a table."""
    rng = np.random.default_rng(pe)
    return pa.table(
        {"pe": np.full(ROWS, pe), "x": rng.standard_normal(ROWS), "s": [f"{pe}-{i}" for i in range(ROWS)]}
    )


def put_parts(runtime: Runtime, server: Server, name: str) -> pa.Table:
    """Make a table with a shard on every PE, through every PE's own server, in PE order."""
    for pe in range(runtime.n_pes):
        if pe == runtime.pe:
            with connect(server.locations[pe]) as client:
                client.put(name, part(pe), mode="append")
        runtime.barrier()
    return pa.concat_tables([part(pe) for pe in range(runtime.n_pes)])


def drop(runtime: Runtime, server: Server, name: str) -> None:
    runtime.barrier()
    if runtime.pe == 0:
        with connect(server.uri) as client:
            client.drop(name)
    runtime.barrier()


def options(server: Server) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(
        timeout=60, headers=[(b"authorization", f"Bearer {server.token}".encode())]
    )


def test_every_server_serves_every_shard(runtime: Runtime, server: Server) -> None:
    expected = put_parts(runtime, server, "shared")
    for location in server.locations:
        with flight.connect(location) as bare:
            info = bare.get_flight_info(flight.FlightDescriptor.for_path("shared"), options(server))
            assert info.total_records == expected.num_rows
            shards = [bare.do_get(endpoint.ticket, options(server)).read_all() for endpoint in info.endpoints]
            assert pa.concat_tables(shards).equals(expected)
            assert bare.do_get(flight.Ticket(b"shared"), options(server)).read_all().equals(expected)
        with connect(location) as client:
            assert client.get("shared").equals(expected)
            assert client.health().pe == server.locations.index(location)
            (stats,) = client.stats().tables
            assert stats.shard_pes == tuple(range(runtime.n_pes))
    drop(runtime, server, "shared")


def test_endpoints_name_the_owner(runtime: Runtime, server: Server) -> None:
    put_parts(runtime, server, "owned")
    with flight.connect(server.uri) as bare:
        info = bare.get_flight_info(flight.FlightDescriptor.for_path("owned"), options(server))
    assert len(info.endpoints) == runtime.n_pes
    for location, endpoint in zip(server.locations, info.endpoints, strict=True):
        (where,) = endpoint.locations
        assert where.uri.decode().rpartition("://")[2] == location.rpartition("://")[2]
        with flight.connect(where) as owner:
            owner.do_get(endpoint.ticket, options(server)).read_all()
    drop(runtime, server, "owned")


def test_the_gateway_can_be_the_only_address(runtime: Runtime) -> None:
    with serve(expose="gateway") as server:
        expected = put_parts(runtime, server, "behind")
        with flight.connect(server.uri) as bare:
            info = bare.get_flight_info(flight.FlightDescriptor.for_path("behind"), options(server))
        assert all(not endpoint.locations for endpoint in info.endpoints)
        with connect(server.uri) as client:
            assert client.get("behind").equals(expected)
        drop(runtime, server, "behind")


def test_readers_see_whole_versions(runtime: Runtime, server: Server) -> None:
    def version(i: int) -> pa.Table:
        return pa.table({"i": np.full(5000 + i, i)})

    if runtime.pe == 0:
        with connect(server.uri) as client:
            client.put("turning", version(0))
    runtime.barrier()
    with connect(server.locations[runtime.pe]) as client:
        if runtime.pe == 0:
            for i in range(1, 100):
                client.put("turning", version(i))
        seen = [client.get("turning")["i"] for _ in range(30)]
    latest = -1
    for column in seen:
        (value,) = column.unique().to_pylist()
        assert len(column) == 5000 + value
        assert value >= latest
        latest = value
    drop(runtime, server, "turning")


def free_ports(runtime: Runtime) -> int:
    """Find a port from which on n_pes are free, below those the system hands out. Collective."""
    found = b""
    while runtime.pe == 0 and not found:
        base = random.randrange(20_000, 32_000)
        with suppress(OSError):
            for pe in range(runtime.n_pes):
                socket.create_server(("127.0.0.1", base + pe)).close()
            found = str(base).encode()
    return int(runtime.broadcast(found))


def test_given_ports(runtime: Runtime) -> None:
    base = free_ports(runtime)
    with serve(port=base) as server:
        assert server.locations == [f"grpc://127.0.0.1:{base + pe}" for pe in range(runtime.n_pes)]
        assert server.uri == server.locations[0]


def test_a_port_in_use_stops_all(runtime: Runtime) -> None:
    base = free_ports(runtime)
    last = runtime.n_pes - 1
    busy = socket.create_server(("127.0.0.1", base + last)) if runtime.pe == last else None
    runtime.barrier()
    with pytest.raises(errors.ServerError, match=f"cannot listen on 127.0.0.1:{base + last}.*in use"):
        serve(port=base)
    runtime.barrier()
    if busy:
        busy.close()
    runtime.barrier()
    # The ports are free again: nobody was left half started.
    with serve(port=base) as server, connect(server.uri) as client:
        assert client.list() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"host": "0.0.0.0"}, "--insecure"),
        ({"token": ""}, "--insecure"),
        ({"token": "two words"}, "visible ASCII"),
        ({"port": 70_000}, "port"),
        ({"port": -1}, "port"),
        ({"expose": "some"}, "'all' or 'gateway'"),
        ({"max_message_bytes": 10}, "max_message_bytes"),
        ({"max_put_bytes": 0}, "max_put_bytes"),
        ({"host": ""}, "host"),
    ],
)
def test_wrong_arguments(runtime: Runtime, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        serve(**arguments)  # type: ignore[arg-type]


def test_a_host_that_does_not_exist(runtime: Runtime) -> None:
    with pytest.raises(errors.ServerError, match="cannot resolve the host"):
        serve(host="no.such.host.invalid", insecure=True)


def test_beyond_this_machine_when_told(runtime: Runtime) -> None:
    with serve(host="0.0.0.0", insecure=True) as server:
        port = server.uri.rpartition(":")[2]
        with connect(f"grpc://127.0.0.1:{port}", token=server.token) as client:
            assert client.health().n_pes == runtime.n_pes


def test_ipv6(runtime: Runtime) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with serve(host="::1") as server:
        assert server.uri.startswith("grpc://[::1]:")
        expected = put_parts(runtime, server, "six")
        with connect(server.uri) as client:
            assert client.get("six").equals(expected)
        drop(runtime, server, "six")
