# SPDX-License-Identifier: Apache-2.0
"""What the job tells the demo: one line of JSON per step, then one with the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step of the pipeline, of all PEs together."""

    name: str
    rows: int
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Results:
    """What the job found; the same on every PE."""

    auc: float
    matrix_bytes: int
    copied_bytes: int
    importances: Mapping[str, float]
    worst_carriers: Sequence[Mapping[str, Any]]
    read_back: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Summary:
    """All that the report shows."""

    n_pes: int
    transport: str
    results: Results
    single_auc: float
    steps: Sequence[Step] = ()
    about: Mapping[str, str] = field(default_factory=dict)
