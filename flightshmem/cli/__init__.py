# SPDX-License-Identifier: Apache-2.0
"""The ``flightshmem`` command. Each subcommand is a module with ``SUMMARY``, ``add_arguments``, ``run``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from flightshmem.errors import FlightShmemError

SUBCOMMANDS = ("run", "info", "serve", "demo")
"""Modules of this package; registering a subcommand is adding its name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # Only what is asked for is imported: some subcommands stand on large libraries.
    names = SUBCOMMANDS if not {*arguments[:1]} & {*SUBCOMMANDS} else arguments[:1]
    parser = argparse.ArgumentParser(prog="flightshmem", description="Arrow Flight exchange over OpenSHMEM.")
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    for name in names:
        module = importlib.import_module(f"flightshmem.cli.{name}")
        subparser = subparsers.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except FlightShmemError as error:
        print(f"flightshmem: {error}", file=sys.stderr)
        return 2
