# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from flightshmem.testing.conformance import TransportConformance


class TestTransport(TransportConformance):
    """The transport that this job runs over."""
