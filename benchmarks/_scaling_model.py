# SPDX-License-Identifier: Apache-2.0
"""What an exchange of rows costs on n PEs; docs/scaling.md explains the formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

PIECE_BYTES = ((1 << 20) - (64 << 10)) // 2 - 32
"""What one collective carries of one PE at once: kPieceBytes in collectives.cpp."""
STAGING_BYTES = 64 << 20
SLOT_BYTES = 8
GATHER_BYTES = 400_000
"""Of each PE, in the all-gather that is measured; one piece."""
WIDE_COLUMNS = 3000
"""Of the exchange that shows what the square of the PEs costs, which a narrow one hides up to 32 PEs."""

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Job:
    """n PEs, of which ``near`` reach each other's memory; no nulls, all columns of 8 bytes."""

    n: int
    near: int
    rows: int
    columns: int = 4
    per_core: float = 1.0

    @property
    def away(self) -> int:
        return self.n - self.near

    @property
    def counts_bytes(self) -> int:
        """What a PE tells all others: rows, and nulls and text bytes of each column, per destination."""
        return 8 * self.n * (1 + 2 * self.columns)

    @property
    def collectives(self) -> int:
        """Collectives in Scatter, each of one barrier; the schema takes two, and none on one PE."""
        schema, agreements, offsets = 2 * (self.n > 1), 4, 1
        return schema + agreements + offsets + ceil(self.counts_bytes / PIECE_BYTES)

    @property
    def rounds(self) -> int:
        """How often the stage is filled; SplitRounds halves what is too large."""
        staged = self.rows * self.columns * (SLOT_BYTES + 1)
        return 2 ** ceil(log2(max(staged / (STAGING_BYTES / 2), 1))) if self.away and self.rows else 0

    @property
    def puts(self) -> int:
        return self.rounds * self.away * self.columns

    @property
    def bytes_leaving(self) -> float:
        return self.rows * self.columns * SLOT_BYTES * self.away / self.n


@dataclass(frozen=True)
class Constants:
    """Measured; seconds. ``network`` is None where there is none to measure."""

    sizes: Sequence[int]
    row: Sequence[float]
    """Processor seconds per row on so many PEs."""
    plan: tuple[float, float, float]
    """Processor seconds of an exchange without rows: a + b n + c n^2 columns."""
    barrier: float
    network: Figures | None

    @classmethod
    def of(cls, on_node: Mapping[int, Figures], network: Figures | None, rows: int) -> Constants:
        """Derive them from what benchmarks._scaling_job printed, by number of PEs."""
        sizes = sorted(on_node)
        row = [(on_node[n]["full_processor"] - on_node[n]["empty_processor"]) / rows for n in sizes]
        several = [n for n in sizes if n > 1]
        widening = [on_node[n]["wide_processor"] - on_node[n]["empty_processor"] for n in several]
        square = fit(several, widening, (0, 2))[2] / (WIDE_COLUMNS - 4)
        rest = [max(on_node[n]["empty_processor"] - 4 * square * n**2, 1e-9) for n in sizes]
        plan = (*fit(sizes, rest, (0, 1))[:2], square)
        return cls(sizes, row, plan, on_node[2]["barrier"], network and network_constants(network))

    def row_seconds(self, n: int) -> float:
        """Interpolate over the number of doublings; beyond the largest n the last slope goes on."""
        at = [log2(size) for size in self.sizes]
        known = float(np.interp(log2(n), at, self.row))
        slope = (self.row[-1] - self.row[-2]) / (at[-1] - at[-2])
        return known + max(slope, 0) * max(log2(n) - at[-1], 0)

    def parts(self, job: Job) -> dict[str, float]:
        """Give the seconds of each part of an exchange."""
        a, b, c = self.plan
        parts = {
            "write": job.rows * self.row_seconds(job.n) * job.per_core,
            "plan": (a + b * job.n + c * job.n**2 * job.columns) * job.per_core,
        }
        if job.away and self.network:
            net = {name: value * job.per_core for name, value in self.network.items()}
            one = net["barrier"] * ceil(log2(job.n)) + 2 * job.away * net["get"]
            parts["collectives"] = job.collectives * one
            parts["counts"] = job.away * job.counts_bytes * net["get_byte"]
            parts["puts"] = job.puts * net["put"] + job.bytes_leaving * net["put_byte"]
        elif job.per_core == 1:  # else PEs sleep, and what that costs is in the plan
            parts["collectives"] = job.collectives * self.barrier * job.n / 2
        return parts

    def seconds(self, job: Job) -> float:
        return sum(self.parts(job).values())


def network_constants(found: Figures) -> dict[str, float]:
    """Split the figures of 2 PEs that are out of each other's reach; a collective gets twice from a PE."""
    get = max(found["reduce"] - found["barrier"], 0) / 2
    get_byte = max(found["gather"] - found["reduce"], 0) / GATHER_BYTES
    copied = {name: found[name] for name in ("barrier", "put", "put_byte")}
    return {**copied, "get": get, "get_byte": get_byte}


def fit(sizes: Sequence[int], seconds: Sequence[float], powers: Sequence[int]) -> tuple[float, float, float]:
    """Fit a + b n + c n^2, of these powers, with the least relative error and no term below zero."""
    n, weights, kept = np.array(sizes, float), 1 / np.array(seconds), list(powers)
    while True:
        terms = np.stack([n**power for power in kept], axis=1) * weights[:, None]
        found = np.linalg.lstsq(terms, np.ones(len(n)), rcond=None)[0]
        if found.min() >= 0:
            break
        del kept[int(found.argmin())]
    result = dict(zip(kept, found.tolist(), strict=True))
    return result.get(0, 0.0), result.get(1, 0.0), result.get(2, 0.0)
