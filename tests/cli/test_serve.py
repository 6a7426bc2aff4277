# SPDX-License-Identifier: Apache-2.0
"""``flightshmem serve`` as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, flight, parquet

from flightshmem.cli.serve import parse_tables
from flightshmem.errors import InvalidArgument
from flightshmem.flight import auth, connect

TIMEOUT_S = 60
SERVE = [sys.executable, "-m", "flightshmem", "serve", "--heap", "64M"]
TABLE = pa.table({"n": np.arange(40_000), "s": [f"s{i % 11}" for i in range(40_000)]})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A table in two Parquet files and in one CSV file."""
    parquet.write_table(TABLE.slice(0, 25_000), tmp_path / "a.parquet", row_group_size=5000)
    parquet.write_table(TABLE.slice(25_000), tmp_path / "b.parquet", row_group_size=5000)
    csv.write_csv(TABLE, tmp_path / "c.csv")
    return tmp_path


def process_tree(pid: int) -> list[str]:
    """List a process and all its descendants."""
    tree = [str(pid)]
    for parent in tree:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            tree += children.read_text().split()
    return tree


@contextmanager
def serving(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Run it until its ready line; give the process, the line and the URI."""
    command = [*SERVE, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            uri = re.search(r"grpc://\S+", line)
            assert uri, line
            yield process, line, uri.group()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(TIMEOUT_S)


def refused(*arguments: object) -> str:
    """Run it with something wrong; give what it says on stderr."""
    result = subprocess.run(
        [*SERVE, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize("n_pes", [1, 2])
def test_serves_files_until_told_to_stop(files: Path, n_pes: int) -> None:
    arguments = ("-n", n_pes, f"flights={files}/*.parquet", f"text={files}/c.csv")
    with serving(*arguments) as (process, line, uri):
        assert line.startswith(f"flightshmem: serving 2 tables at {uri} (token file /")
        with connect(uri) as client:
            assert [(table.name, table.rows) for table in client.list()] == [
                ("flights", 40_000),
                ("text", 40_000),
            ]
            assert client.get("flights").sort_by("n").equals(TABLE)
            assert client.get("text").sort_by("n").to_pydict() == TABLE.to_pydict()
            assert client.health().n_pes == n_pes
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    assert not auth.token_path(int(uri.rpartition(":")[2])).exists()


def test_ctrl_c(files: Path) -> None:
    with serving("-n", 2, f"t={files}/c.csv") as (process, _, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0


def processor_ticks(pid: str) -> int:
    """Give the processor time a process has used, in ticks of which a second has 100."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_waiting_takes_no_processor_time(files: Path, transport: str) -> None:
    with serving("-n", 2, "--transport", transport, f"t={files}/c.csv") as (process, _, uri):
        tree = process_tree(process.pid)
        time.sleep(1)  # the last of starting up
        before = sum(map(processor_ticks, tree))
        time.sleep(2)
        assert sum(map(processor_ticks, tree)) - before < 20  # of 200 for every PE that would spin
        with connect(uri) as client:
            assert client.health().status == "ok"
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def test_streams_go_on_for_the_grace_time(files: Path) -> None:
    with serving("--grace", 30, f"t={files}/c.csv") as (process, _, uri), connect(uri) as client:
        client.put("large", pa.table({"x": np.arange(4_000_000)}))
        token = auth.find_token(int(uri.rpartition(":")[2]))
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        with flight.connect(uri) as bare:
            reader = bare.do_get(flight.Ticket(b"large"), options)
            rows = reader.read_chunk().data.num_rows
            process.terminate()
            rows += reader.read_all().num_rows
        assert rows == 4_000_000
        assert process.wait(TIMEOUT_S) == 0


def test_a_second_signal_does_not_wait_for_the_grace_time(files: Path) -> None:
    with serving("--grace", 600, f"t={files}/c.csv") as (process, _, uri), connect(uri) as client:
        client.put("large", pa.table({"x": np.arange(4_000_000)}))
        token = auth.find_token(int(uri.rpartition(":")[2]))
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        with flight.connect(uri) as bare:
            reader = bare.do_get(flight.Ticket(b"large"), options)
            reader.read_chunk()  # and never again
            while process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
    assert process.returncode != 0


def test_token_file_and_options(files: Path, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("of-my-own\n")
    arguments = (
        "--token-file",
        token_file,
        "--expose",
        "gateway",
        "--max-message",
        "16K",
        f"t={files}/c.csv",
    )
    with serving("-n", 2, *arguments) as (_, _, uri), connect(uri, token="of-my-own") as client:
        assert client.get("t").num_rows == TABLE.num_rows
    with serving("--insecure", "--no-token", "--host", "0.0.0.0") as (_, line, uri):
        assert "serving 0 tables" in line
        assert "(no token)" in line
        with flight.connect(f"grpc://127.0.0.1:{uri.rpartition(':')[2]}") as bare:
            assert list(bare.list_flights()) == []


def test_what_is_wrong_is_said_once(files: Path) -> None:
    (files / "bad.parquet").write_text("no parquet at all")
    (files / "x.unknown").write_text("?")
    cases = {
        f"t={files}/missing.parquet": "no such file",
        f"t={files}/bad.parquet": "not a readable Parquet file",
        f"t={files}/x.unknown": "unknown kind of file",
        f"{files}/c.csv": "needs a name",
    }
    for argument, message in cases.items():
        said = refused("-n", 2, argument)
        assert said.count(message) == 1, said
    for options, message in {
        ("--host", "0.0.0.0"): "--insecure",
        ("--no-token",): "--insecure",
        ("--token-file", files / "none"): "no token file",
        ("--port", "70000"): "port must be",
        ("--max-message", "10"): "max_message_bytes must",
    }.items():
        assert message in refused(*options, f"t={files}/c.csv")


def test_a_port_in_use(files: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as busy:
        port = busy.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in refused("--port", port, f"t={files}/c.csv")


def test_a_heap_too_small_for_the_files(files: Path) -> None:
    parquet.write_table(pa.table({"x": np.random.default_rng(1).random(12_000_000)}), files / "large.parquet")
    said = refused("-n", 2, "--heap", "32M", f"t={files}/large.parquet")
    assert "no room" in said
    assert "--heap" in said


def test_a_pe_that_dies_ends_the_job(files: Path) -> None:
    with serving("-n", 2, f"t={files}/c.csv") as (process, _, _):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGKILL)
        assert process.wait(TIMEOUT_S) != 0


def test_parse_tables() -> None:
    assert parse_tables(["a=x", "y", "b=data/year=2024/*.csv", "data/year=2025/z.csv"]) == {
        "a": ["x", "y"],
        "b": ["data/year=2024/*.csv", "data/year=2025/z.csv"],
    }
    for wrong in (["x"], ["=x"], ["a="], ["a=x", "a=y"], [".a=x"]):
        with pytest.raises(InvalidArgument):
            parse_tables(wrong)
