# SPDX-License-Identifier: Apache-2.0
"""For tests of programs that run on several PEs, and of transports."""

from __future__ import annotations

from flightshmem.testing.agreement import SeenElsewhere, agree, agreed
from flightshmem.testing.jobs import run_pes

__all__ = ["SeenElsewhere", "agree", "agreed", "run_pes"]
