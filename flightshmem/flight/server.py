# SPDX-License-Identifier: Apache-2.0
"""The Flight server of a job: one in every PE, all serving the same published tables.

The data verbs run in C++ (src/flight), in gRPC's threads and without the GIL; here is what surrounds them:
starting and stopping on all PEs alike, addresses, tokens.
"""

from __future__ import annotations

import atexit
import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from flightshmem import _core, runtime
from flightshmem.errors import InvalidArgument
from flightshmem.flight import auth

Expose = Literal["all", "gateway"]
MAX_MESSAGE_BYTES = 2 << 20
MAX_PUT_BYTES = 4 << 30
GRACE_S = 5.0
_SMALLEST_MESSAGE_BYTES = 4096
_LARGEST_MESSAGE_BYTES = 2**31 - 2**20  # gRPC's own limit, with room for the envelope


class Server:
    """The running servers of all PEs; made by :func:`serve`. Closed by ``stop`` or ``with``."""

    def __init__(self, server: _core.FlightServer, locations: list[str], token: str, token_file: Path | None):
        self._server = server
        self._token_file = token_file
        atexit.register(self._close, 0.0)  # before the runtime's own end
        self.locations = locations
        """Where each PE listens, in PE order."""
        self.token = token
        """The bearer token clients must send; empty without authentication."""

    @property
    def uri(self) -> str:
        """The gateway's address (PE 0): what clients connect to."""
        return self.locations[0]

    @property
    def token_file(self) -> Path | None:
        """Where same-user clients find the token of this PE's server."""
        return self._token_file

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Stop the servers, once every PE has come here. Collective.

        Running streams get ``grace_s`` seconds to end, then they are cancelled: no client can hold it up.
        """
        rt = runtime.current()
        rt.barrier()  # a PE may still be a client of another's server
        with rt.converge("server.stop"):
            self._close(grace_s)

    def _close(self, grace_s: float) -> None:
        atexit.unregister(self._close)
        self._server.stop(grace_s)
        if self._token_file is not None:
            auth.remove_token(self._token_file, self.token)
            self._token_file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error on this PE the others may not come: stop alone then.
        if error is None:
            self.stop()
        else:
            self._close(0.0)


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    expose: Expose = "all",
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    max_put_bytes: int = MAX_PUT_BYTES,
    insecure: bool = False,
) -> Server:
    """Serve the published tables over Arrow Flight. Collective.

    PE k listens on ``port + k``, or on a free port when ``port`` is 0. Clients send ``token`` as a bearer
    token; None takes the one of FLIGHTSHMEM_TOKEN or makes a random one, which clients of the same user on
    this machine find by themselves. ``expose="gateway"`` names no other address than PE 0's.
    No message is larger than ``max_message_bytes`` (many clients accept 4 MiB at most); one upload may
    decode to ``max_put_bytes`` and never more than the heap holds.

    There is no TLS yet: listening beyond this machine, or without a token (``token=""``), must be asked for
    with ``insecure=True``. Raises ServerError on all PEs when one cannot listen; no server is left then.
    """
    rt = runtime.current()
    with rt.converge("serve"):
        host = host.strip("[]")
        _check_arguments(host, port, expose, max_message_bytes, max_put_bytes)
        mine = _choose_token(token) if rt.pe == 0 else ""
        if not insecure:
            _check_secure(host, mine if rt.pe == 0 else None)
    token = rt.broadcast(mine.encode()).decode()

    def start() -> _core.FlightServer:
        own_port = port + rt.pe if port else 0
        return _core.FlightServer.start(rt.catalog, host, own_port, token, max_message_bytes, max_put_bytes)

    server, token_file = _start_everywhere(rt, start, token)
    locations = [place.decode() for place in rt.allgather(_address(host, server.port).encode())]
    server.set_locations(locations, expose == "gateway")
    rt.barrier()  # whoever knows the address now finds all servers up
    return Server(server, locations, token, token_file)


def _start_everywhere(
    rt: runtime.Runtime, start: Callable[[], _core.FlightServer], token: str
) -> tuple[_core.FlightServer, Path | None]:
    server: _core.FlightServer | None = None
    token_file: Path | None = None
    try:
        with rt.converge("serve"):
            server = start()
            token_file = auth.write_token(server.port, token) if token else None
    except BaseException:
        if server is not None:
            server.stop(0.0)
        if token_file is not None:
            auth.remove_token(token_file, token)
        raise
    return server, token_file


def _choose_token(token: str | None) -> str:
    if token is None:
        token = os.environ.get(auth.ENVIRONMENT) or auth.new_token()
    return auth.check_token(token) if token else ""


def _check_arguments(host: str, port: int, expose: str, max_message_bytes: int, max_put_bytes: int) -> None:
    n_pes = runtime.n_pes()
    if not host:
        raise InvalidArgument("[serve] the host is empty: give 127.0.0.1 for this machine only")
    if not (port == 0 or 1 <= port <= 65536 - n_pes):
        raise InvalidArgument(f"[serve] port must be 0 or 1 to {65536 - n_pes} ({n_pes} PEs), got {port}")
    if expose not in ("all", "gateway"):
        raise InvalidArgument(f"[serve] expose must be 'all' or 'gateway', got {expose!r}")
    if not _SMALLEST_MESSAGE_BYTES <= max_message_bytes <= _LARGEST_MESSAGE_BYTES:
        raise InvalidArgument(
            f"[serve] max_message_bytes must lie between {_SMALLEST_MESSAGE_BYTES} and "
            f"{_LARGEST_MESSAGE_BYTES}, got {max_message_bytes}"
        )
    if max_put_bytes < 1:
        raise InvalidArgument(f"[serve] max_put_bytes must be positive, got {max_put_bytes}")


def _check_secure(host: str, token: str | None) -> None:
    """``token``: None where it is not known (only PE 0 chooses it)."""
    if token == "":
        raise InvalidArgument("[serve] no token: pass insecure=True (--insecure) to serve without one")
    if not is_loopback(host):
        raise InvalidArgument(
            f"[serve] {host} can be reached from other machines and there is no TLS, so tokens and tables "
            "would be readable on the way: listen on 127.0.0.1, or pass insecure=True (--insecure)"
        )


def is_loopback(host: str) -> bool:
    """Whether an address only this machine can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _address(host: str, port: int) -> str:
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()  # a wildcard is no address to connect to
    return f"grpc://[{host}]:{port}" if ":" in host else f"grpc://{host}:{port}"
