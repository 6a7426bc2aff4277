# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from flightshmem.flight import Client, connect
from tests.flight.serving import Serving, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    """One server for the tests of a module; each uses table names of its own."""
    with serving() as server:
        yield server


@pytest.fixture
def client(served: Serving) -> Iterator[Client]:
    with connect(served.uri) as client:
        yield client
