# SPDX-License-Identifier: Apache-2.0
"""The token: required by every verb, found by the same user only, kept in a safe place."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from flightshmem import errors
from flightshmem.flight import auth, connect
from tests.flight.serving import Serving, serving

ONE = pa.table({"n": [1]})
Call = Callable[[flight.FlightClient, flight.FlightCallOptions], object]


def _put(client: flight.FlightClient, options: flight.FlightCallOptions) -> None:
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("x"), ONE.schema, options)
    writer.write_table(ONE)
    writer.close()


def _exchange(client: flight.FlightClient, options: flight.FlightCallOptions) -> None:
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("x"), options)
    writer.done_writing()
    reader.read_all()


VERBS: dict[str, Call] = {
    "list_flights": lambda client, options: list(client.list_flights(options=options)),
    "get_flight_info": lambda c, options: c.get_flight_info(flight.FlightDescriptor.for_path("x"), options),
    "get_schema": lambda c, options: c.get_schema(flight.FlightDescriptor.for_path("x"), options),
    "do_get": lambda client, options: client.do_get(flight.Ticket(b"x"), options).read_all(),
    "do_put": _put,
    "do_exchange": _exchange,
    "health": lambda client, options: list(client.do_action(flight.Action("health", b""), options)),
    "list_actions": lambda client, options: list(client.list_actions(options)),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"Basic dXNlcjpwYXNz")],
        [(b"x-token", b"TOKEN")],
        [(b"authorization", b"TOKEN")],
        [(b"authorization", b"Bearer TOKENx")],
        [(b"authorization", b"Bearer TOKENTOKEN")],
    ],
    ids=str,
)
def test_every_verb_needs_the_token(served: Serving, verb: str, headers: list[tuple[bytes, bytes]]) -> None:
    real = [(name, value.replace(b"TOKEN", served.token.encode())) for name, value in headers]
    options = flight.FlightCallOptions(timeout=30, headers=real)
    # pyarrow's get_schema alone raises a plain OSError with the same text.
    refused = (flight.FlightUnauthenticatedError, OSError)
    with flight.connect(served.uri) as client, pytest.raises(refused, match="Unauthenticated"):
        VERBS[verb](client, options)


def test_the_scheme_is_not_case_sensitive(served: Serving) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"bearer {served.token}".encode())])
    with flight.connect(served.uri) as client:
        assert list(client.list_flights(options=options)) == []


def test_our_client(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(served.uri) as client:  # finds the file
        assert client.health().status == "ok"
    with pytest.raises(errors.AuthenticationError, match="wrong token"):
        connect(served.uri, token="wrong")
    monkeypatch.setenv(auth.ENVIRONMENT, "wrong as well".replace(" ", "-"))
    with pytest.raises(PermissionError, match="wrong token"):
        connect(served.uri)
    monkeypatch.setenv(auth.ENVIRONMENT, served.token)
    with connect(served.uri) as client:
        assert client.health().n_pes == 1
    with pytest.raises(errors.InvalidArgument):
        connect(served.uri, token="two words")


def test_the_token_file_is_private_and_goes_away() -> None:
    with serving() as served:
        path = auth.token_path(int(served.uri.rpartition(":")[2]))
        assert path.read_text().split() == [served.token, str(served.process.pid)]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert len(served.token) >= 40
    assert not path.exists()


def test_a_given_token() -> None:
    with serving(token="s3cret") as served:
        assert served.token == "s3cret"
        with connect(served.uri, token="s3cret") as client:
            assert client.list() == []


def test_a_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(auth.ENVIRONMENT, "of-the-environment")
    with serving() as served, connect(served.uri) as client:
        assert served.token == "of-the-environment"
        assert client.list() == []


def test_no_token_must_be_asked_for() -> None:
    with pytest.raises(RuntimeError, match="ended with 1"), serving(token=""):
        pass
    with serving(token="", insecure=True) as served, flight.connect(served.uri) as client:
        assert list(client.list_flights()) == []


class TestTokenFiles:
    @pytest.fixture(autouse=True)
    def own_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        return tmp_path / "flightshmem"

    def test_round_trip(self, own_directory: Path) -> None:
        assert auth.find_token(1234) is None
        path = auth.write_token(1234, "first")
        assert path.parent == own_directory
        assert auth.find_token(1234) == "first"
        auth.write_token(1234, "second")  # the first server died without cleaning up
        auth.remove_token(path, "first")
        assert auth.find_token(1234) == "second"
        auth.remove_token(path, "second")
        assert auth.find_token(1234) is None

    def test_without_a_runtime_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        path = auth.write_token(1, "t")
        assert path.parent == tmp_path / f"flightshmem-{os.getuid()}"
        assert auth.find_token(1) == "t"

    def test_a_directory_open_to_others_is_not_trusted(self, own_directory: Path) -> None:
        own_directory.mkdir(mode=0o755)
        own_directory.chmod(0o755)
        with pytest.raises(errors.AuthenticationError, match="not safe"):
            auth.write_token(1, "t")

    def test_symlinks_are_not_followed(self, own_directory: Path, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        own_directory.symlink_to(elsewhere)
        with pytest.raises(errors.AuthenticationError, match="not safe"):
            auth.write_token(1, "t")
        own_directory.unlink()
        path = auth.write_token(1, "t")
        path.unlink()
        (tmp_path / "theirs").write_text("theirs")
        path.symlink_to(tmp_path / "theirs")
        with pytest.raises(errors.AuthenticationError, match="not safe"):
            auth.find_token(1)
        auth.write_token(1, "ours")  # replaces the link, not what it points to
        assert (tmp_path / "theirs").read_text() == "theirs"

    def test_a_file_open_to_others_is_not_trusted(self) -> None:
        auth.write_token(1, "t").chmod(0o644)
        with pytest.raises(errors.AuthenticationError, match="not safe"):
            auth.find_token(1)

    def test_files_of_dead_servers_go_away(self, own_directory: Path) -> None:
        auth.write_token(1, "t")
        with subprocess.Popen(["true"]) as process:
            process.wait()
        (own_directory / "2.token").write_text(f"old\n{process.pid}\n")
        (own_directory / "3.token").write_text("of some other kind\n")
        auth.write_token(4, "t")
        assert sorted(path.name for path in own_directory.iterdir()) == ["1.token", "3.token", "4.token"]

    def test_token_files_of_the_user(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        with pytest.raises(errors.FileMissing, match="no token file"):
            auth.read_token_file(path)
        for content in ("", "\n", "two words\n1", "ü"):
            path.write_text(content, encoding="utf-8")
            with pytest.raises((errors.InvalidArgument, errors.AuthenticationError)):
                auth.read_token_file(path)
        path.write_text("good\n")
        assert auth.read_token_file(path) == "good"
