# SPDX-License-Identifier: Apache-2.0
"""Arrow Flight: the door. Serve published tables, or connect to a server."""

from flightshmem.flight.client import Client, ServerHealth, ServerStats, TableDescription, TableStats, connect
from flightshmem.flight.server import Server, serve

__all__ = [
    "Client",
    "Server",
    "ServerHealth",
    "ServerStats",
    "TableDescription",
    "TableStats",
    "connect",
    "serve",
]
