# SPDX-License-Identifier: Apache-2.0
"""A real server in a process of its own, for tests.

Run as a module it serves with the options given as JSON, prints where, and stops at SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyarrow import flight

from flightshmem.cli.children import start

TIMEOUT_S = 60


@dataclass(frozen=True)
class Serving:
    """A running server."""

    process: subprocess.Popen[str]
    uri: str
    locations: list[str]
    token: str

    def options(self, timeout: float = TIMEOUT_S) -> flight.FlightCallOptions:
        """Call options for a bare client."""
        return flight.FlightCallOptions(
            timeout=timeout, headers=[(b"authorization", f"Bearer {self.token}".encode())]
        )

    def used_bytes(self) -> int:
        """Ask for the bytes in use in the heap of the gateway PE."""
        with flight.connect(self.uri) as client:
            (result,) = client.do_action(flight.Action("stats", b""), self.options())
        return int(json.loads(result.body.to_pybytes())["heap"]["used_bytes"])

    def is_alive(self) -> bool:
        """Whether the server's process runs and answers."""
        with flight.connect(self.uri) as client:
            (result,) = client.do_action(flight.Action("health", b""), self.options())
        return self.process.poll() is None and json.loads(result.body.to_pybytes())["status"] == "ok"


@contextmanager
def serving(heap: str = "192M", **options: Any) -> Iterator[Serving]:
    """Serve nothing yet, with ``options`` of flightshmem.flight.serve and ``grace_s`` of its stop."""
    command = ["-m", "tests.flight.serving", json.dumps(options)]
    environment = {**os.environ, "FLIGHTSHMEM_HEAP": heap}
    # Ends with the tests, even if those are killed.
    process = start(
        [sys.executable, *command], signal.SIGTERM, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {process.wait(TIMEOUT_S)}")
        yield Serving(process, **json.loads(line))
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
        process.stdout.close()


def _main() -> None:
    import flightshmem as fs
    from flightshmem.cli.serving import parked
    from flightshmem.flight import serve
    from flightshmem.flight.server import GRACE_S

    options = json.loads(sys.argv[1])
    grace_s = options.pop("grace_s", GRACE_S)
    with parked() as wait:
        server = serve(**options)
        if fs.pe() == 0:
            ready = {"uri": server.uri, "locations": server.locations, "token": server.token}
            print(json.dumps(ready), flush=True)
        wait()
    server.stop(grace_s)


if __name__ == "__main__":
    _main()
