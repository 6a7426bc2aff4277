# SPDX-License-Identifier: Apache-2.0
"""What each PE of ``flightshmem serve`` executes: read its share, publish, serve, wait for the end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import flightshmem as fs
from flightshmem.errors import FlightShmemError, InvalidArgument
from flightshmem.flight import Server, auth, serve
from flightshmem.flight.server import Expose
from flightshmem.frame import DataFrame

_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def _tab_separated(paths: list[str]) -> DataFrame:
    return fs.read_csv(paths, sep="\t")


READERS: dict[str, Callable[[list[str]], DataFrame]] = {
    ".parquet": fs.read_parquet,
    ".csv": fs.read_csv,
    ".tsv": _tab_separated,
}
"""By the ending of a file name, before one like ``.gz``."""


@dataclass(frozen=True)
class Request:
    """What to serve and how; travels to the PEs as JSON."""

    tables: dict[str, list[str]]
    host: str
    port: int
    token_file: str | None
    no_token: bool
    expose: Expose
    max_message_bytes: int
    max_put_bytes: int
    insecure: bool
    grace_s: float


def reader_of(path: str) -> Callable[[list[str]], DataFrame]:
    """Choose a reader by the file's name; a directory is one of Parquet files."""
    name = os.path.basename(path.rstrip("/")).lower()  # noqa: PTH119  may be a pattern
    for ending, reader in READERS.items():
        if f"{ending}." in name or name.endswith((ending, f"{ending[1:]}*")):
            return reader
    if os.path.isdir(path):  # noqa: PTH112
        return fs.read_parquet
    raise InvalidArgument(f"[serve] unknown kind of file, got {path!r}: use {', '.join(READERS)}")


def publish(tables: dict[str, list[str]]) -> None:
    """Read and publish all tables. Collective."""
    for name, paths in tables.items():
        readers = {reader_of(path) for path in paths}
        if len(readers) > 1:
            raise InvalidArgument(f"[serve] the files of a table are of one kind, got {', '.join(paths)}")
        readers.pop()(paths).publish(name, mode="create")


def ready_line(server: Server, request: Request) -> str:
    """Say that everything is up, and where."""
    count = len(request.tables)
    token = f"token file {server.token_file}" if server.token_file else "no token"
    return f"flightshmem: serving {count} table{'' if count == 1 else 's'} at {server.uri} ({token})"


@contextmanager
def parked() -> Iterator[Callable[[], None]]:
    """Give a function that sleeps until a signal asks this process to end; from then on a signal kills it.

    It reads from a pipe: a thread asleep there takes no processor time, whichever thread gets the signal.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    for number in _END:
        signal.signal(number, lambda *_: None)
    previous = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def wait() -> None:
        while not any(number in _END for number in os.read(woken, 64)):
            pass

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(previous)
        for number in _END:
            signal.signal(number, signal.SIG_DFL)
        os.close(woken)
        os.close(wake)


def _token(request: Request) -> str | None:
    if request.no_token:
        return ""
    return auth.read_token_file(request.token_file) if request.token_file else None


def run(request: Request) -> None:
    """Serve until a signal comes. Collective."""
    publish(request.tables)
    options: dict[str, Any] = {
        key: getattr(request, key)
        for key in ("host", "port", "expose", "max_message_bytes", "max_put_bytes", "insecure")
    }
    with parked() as wait:
        server = serve(token=_token(request), **options)
        if fs.pe() == 0:
            print(ready_line(server, request), flush=True)
        wait()
    server.stop(request.grace_s)


def main() -> int:
    """Run one PE; the exit code is 2 after an error of the user's, which PE 0 tells."""
    request = Request(**json.loads(sys.argv[1]))
    try:
        run(request)
    except FlightShmemError as error:
        if fs.pe() == 0:
            print(f"flightshmem: {error}", file=sys.stderr, flush=True)
        fs.finalize()  # all PEs raise alike: nobody needs to be ended by force
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
