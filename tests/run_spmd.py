# SPDX-License-Identifier: Apache-2.0
"""Run tests/spmd inside jobs: each transport on 1, 2 and 3 PEs, the transport
conformance suite, exchanges and collectives on 4.

python tests/run_spmd.py                                   everything
python tests/run_spmd.py --transport posix_shm -n 2 -k merge tests/spmd/frame
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFORMANCE = "tests/spmd/transport/test_conformance.py"
MOVES = ("tests/spmd/exchange", "tests/spmd/collectives")
NO_TESTS_RAN = 5
"""pytest's exit code when a selection leaves nothing to run."""


@dataclass(frozen=True)
class Run:
    transport: str
    n_pes: int
    paths: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        extra = "".join(f" {name}={value}" for name, value in self.environment.items())
        return f"{self.transport} n={self.n_pes}{extra}"


def planned(options: argparse.Namespace) -> list[Run]:
    """List the runs that the options leave."""
    transports = options.transport or ["posix_shm", "openshmem"]
    if options.paths:
        counts = options.n or [1, 2, 3]
        return [Run(transport, n, tuple(options.paths)) for transport in transports for n in counts]
    runs = [Run(transport, n, ("tests/spmd",)) for transport in transports for n in (1, 2, 3)]
    runs += [Run(transport, 4, (CONFORMANCE, *MOVES)) for transport in transports]
    # Without shared memory no PE has a pointer to another: every call goes through the library.
    runs += (
        [Run("openshmem", 2, (CONFORMANCE, *MOVES), {"UCX_TLS": "tcp,self"})]
        if "openshmem" in transports
        else []
    )
    return [run for run in runs if not options.n or run.n_pes in options.n]


def execute(run: Run, options: argparse.Namespace) -> tuple[int, str]:
    """Run one job; its exit code and pytest's summary."""
    command = [sys.executable, "-m", "flightshmem", "run", "-n", str(run.n_pes)]
    command += ["--transport", run.transport, "--heap", options.heap, "-m", "pytest", "-q", "--color=no"]
    # A test that hangs outside collectives ends the job, with the stacks of all threads.
    command += ["-o", "faulthandler_exit_on_timeout=true"]
    command += ["-p", "no:cacheprovider", "-o", "norecursedirs=build .venv .hypothesis", *run.paths]
    command += ["-k", options.k] if options.k else []
    environment = {**os.environ, **run.environment, "FLIGHTSHMEM_TIMEOUT": "120"}
    job = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    summary = "no summary"
    try:
        output, _ = job.communicate(timeout=options.timeout)
    except subprocess.TimeoutExpired:
        job.terminate()  # the launcher ends the PEs
        output, _ = job.communicate()
        summary = f"not done after {options.timeout} s"
    found = re.findall(r"^(?:\d+ \w+(?:, )?)+ in [\d.]+s.*$", output, re.MULTILINE)
    if job.returncode not in (0, NO_TESTS_RAN) or options.verbose:
        print(output)
    return job.returncode, found[-1] if found else summary


def main() -> int:
    """Run what is planned; 0 when all is green."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="test files or folders (default: all of tests/spmd)")
    parser.add_argument("--transport", action="append", choices=["posix_shm", "openshmem"])
    parser.add_argument("-n", type=int, action="append", help="number of PEs; may be repeated")
    parser.add_argument("-k", help="pytest's -k")
    parser.add_argument("--heap", default="256M", help="heap of each PE (default 256M)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for each run (default 900)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the output of green runs too")
    options = parser.parse_args()
    lines, failures = [], 0
    for run in planned(options):
        started = time.monotonic()
        code, summary = execute(run, options)
        failures += code not in (0, NO_TESTS_RAN)
        verdict = "ok    " if code in (0, NO_TESTS_RAN) else f"FAILED (exit code {code})"
        lines.append(f"{verdict} {run}: {summary} ({time.monotonic() - started:.0f} s with start and end)")
        print(lines[-1], flush=True)
    print("\n".join(["", "Tests inside jobs:", *lines]))
    return 1 if failures or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
