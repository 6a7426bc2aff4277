# SPDX-License-Identifier: Apache-2.0
"""Arrow Flight: the door. Serve published tables, or connect to a server.

What a bare Flight client needs to know about a server (header ``authorization: Bearer <token>``):

======================  =========================================================================
ListFlights             all tables; criteria: only those whose name begins so
GetFlightInfo           descriptor ``for_path(name)``; one endpoint per shard, in row order
GetSchema               descriptor ``for_path(name)``
DoGet                   an endpoint's ticket, or the table's name for all of it; a ticket ends when the
                        table is replaced (NOT_FOUND "was replaced since": ask again)
DoPut                   ``for_path(name)`` replaces or makes the table; ``for_path(name, mode)`` with mode
                        create, replace or append; a message with app_metadata ``abort`` gives up
DoAction                ``health``, ``stats``: JSON; ``drop``: the body is the name
======================  =========================================================================

An upload is published when its stream has ended properly, all of it or nothing. All of its values are
validated; string_view and binary_view columns become string and binary; a row without bytes of its own (null,
run-end encoded) counts as if it were written out.
"""

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
