# SPDX-License-Identifier: Apache-2.0
"""An ordinary Arrow Flight client: it knows pyarrow, an address and a token, and nothing of us.

``FLIGHTSHMEM_TOKEN=... python reader.py URI TABLE`` prints the number of rows and the first five as JSON.
"""

from __future__ import annotations

import json
import os
import sys

from pyarrow import flight


def main(uri: str, table: str) -> None:
    """Read a table over Flight and print the first rows."""
    bearer = f"Bearer {os.environ['FLIGHTSHMEM_TOKEN']}".encode()
    options = flight.FlightCallOptions(headers=[(b"authorization", bearer)])
    rows, first = 0, None
    with flight.connect(uri) as client:
        found = client.get_flight_info(flight.FlightDescriptor.for_path(table), options)
        for endpoint in found.endpoints:
            where = endpoint.locations[0] if endpoint.locations else uri
            with flight.connect(where) as shard:
                part = shard.do_get(endpoint.ticket, options).read_all()
            rows += part.num_rows
            first = part.slice(0, 5) if first is None or not first.num_rows else first
    answer = {
        "rows": rows,
        "first": first.to_pylist() if first else [],
        "knows_us": any(name.partition(".")[0] == "flightshmem" for name in sys.modules),
    }
    print(json.dumps(answer, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
