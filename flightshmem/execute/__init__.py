# SPDX-License-Identifier: Apache-2.0
"""Run plans: on one process over all rows (the oracle), or on every PE over its part."""

from flightshmem.execute.local import LocalExecutor, RaiseIfExecuted
from flightshmem.execute.spmd import SpmdExecutor

__all__ = ["LocalExecutor", "RaiseIfExecuted", "SpmdExecutor"]
