# SPDX-License-Identifier: Apache-2.0
"""``flightshmem run``: a script or module in N PEs."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

from flightshmem.cli.job import Job, run_job
from flightshmem.errors import FileMissing, InvalidArgument
from flightshmem.runtime import launch
from flightshmem.runtime.memory import parse_bytes
from flightshmem.runtime.segment import heap_from_environment

SUMMARY = "run a Python script or module in N PEs"


ENVIRONMENT = """\
environment of the PEs, all optional:
  FLIGHTSHMEM_TIMEOUT  seconds a collective waits for a PE before it fails everywhere (default 600)
  FLIGHTSHMEM_WARM     how much of each heap to touch in the background at the start, as 256M; 0: nothing
                       (default: an eighth of the heap, 512M at most)
  FLIGHTSHMEM_STAGING  the most that rows on their way to other machines take on a PE (default 64M)
"""


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how many PEs, over what, with how much memory."""
    parser.add_argument("-n", "--n-pes", type=int, default=1, metavar="N", help="number of PEs (default 1)")
    parser.add_argument(
        "--transport",
        choices=launch.TRANSPORTS,
        help="posix_shm: this machine, nothing to install (default); openshmem: a real OpenSHMEM library",
    )
    parser.add_argument(
        "--heap",
        metavar="SIZE",
        help="symmetric heap of each PE, as 2G or 512M (default: 1G, less when memory is short)",
    )
    parser.add_argument("--prefix", action="store_true", help="put [pe k] before each line of output")


def job_of(options: argparse.Namespace, target: tuple[str, ...]) -> Job:
    """Make the job that the options of ``add_job_arguments`` describe."""
    transport = options.transport or os.environ.get(launch.TRANSPORT) or "posix_shm"
    if transport not in launch.TRANSPORTS:
        raise InvalidArgument(
            f"[run] no such transport, got {transport!r}: use {' or '.join(launch.TRANSPORTS)}"
        )
    heap = parse_bytes(options.heap) if options.heap else heap_from_environment() or 0
    return Job(target, options.n_pes, transport, heap, options.prefix)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    parser.epilog = ENVIRONMENT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "flightshmem run [-n N] [options] (script.py | -m module) [arguments ...]"
    add_job_arguments(parser)
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="run a module instead of a script"
    )
    parser.add_argument("script", nargs="?", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")


def run(options: argparse.Namespace) -> int:
    """Run the job; its exit code is ours."""
    if options.module:
        target = ("-m", *options.module)
        if importlib.util.find_spec(options.module[0].partition(".")[0]) is None:
            raise FileMissing(f"[run] no module of that name, got {options.module[0]!r}")
    elif options.script is None:
        raise InvalidArgument("[run] nothing to run: name a script.py, or -m module")
    elif not Path(options.script).exists():
        raise FileMissing(f"[run] no such script, got {options.script!r}")
    else:
        target = (options.script, *options.arguments)
    return run_job(job_of(options, target))
