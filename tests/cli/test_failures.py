# SPDX-License-Identifier: Apache-2.0
"""A PE that fails ends the job: soon, with its number and its reason, and nothing stays behind."""

from __future__ import annotations

import pytest

from flightshmem.testing import run_pes

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

# PE 1 fails while the others wait for it.
PROGRAM = """
import os, signal, sys, threading
import numpy as np
import flightshmem as fs
runtime = fs.init()
print("PE", fs.pe(), "is here", flush=True)
fs.barrier()
if fs.pe() == 1:
    {failure}
fs.barrier()
"""


def run(failure: str, transport: str, n_pes: int = 3) -> tuple[int, str]:
    """Exit code and all output of a job in which PE 1 fails."""
    job = run_pes(PROGRAM.format(failure=failure), n_pes, transport)
    return job.returncode, job.stdout + job.stderr


def test_nothing_fails(transport: str) -> None:
    code, output = run("pass", transport)
    assert code == 0
    assert [f"PE {pe} is here" in output for pe in range(3)] == [True] * 3


def test_exception(transport: str) -> None:
    code, output = run("raise ValueError('the reason')", transport)
    assert code == 1
    assert "ValueError: the reason" in output
    assert "PE 1: ends the job after the ValueError above" in output
    assert output.count("Traceback") == 1  # that of the PE that failed, and no other


def test_exception_in_a_thread(transport: str) -> None:
    code, output = run("t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", transport)
    assert code == 1
    assert "ZeroDivisionError" in output
    assert "PE 1: ends the job" in output


def test_sys_exit(transport: str) -> None:
    code, output = run("sys.exit(3)", transport)
    assert code == 3
    assert "PE 1" in output and "ended with exit code 3" in output


def test_sys_exit_with_a_text(transport: str) -> None:
    code, output = run("sys.exit('out of ideas')", transport)
    assert code == 1
    assert "out of ideas" in output


@pytest.mark.parametrize("code", [0, 7])
def test_underscore_exit(transport: str, code: int) -> None:
    got, output = run(f"os._exit({code})", transport)
    assert got != 0
    assert "PE 1" in output


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_signal(transport: str, name: str) -> None:
    code, output = run(f"os.kill(os.getpid(), signal.{name})", transport)
    assert code > 128
    assert "PE 1" in output
    assert name in output or "exited on signal" in output


def test_ends_early(transport: str) -> None:
    code, output = run("sys.exit(0)", transport)
    assert code == 1
    assert "PeerLost" in output and "PE 1 has ended" in output


def test_one_barrier_more(transport: str) -> None:
    code, output = run("fs.barrier()", transport)
    assert code == 1
    assert "PeerLost" in output


def test_another_collective(transport: str) -> None:
    code, output = run("runtime.reduce(np.ones(3))\n    runtime.allgather(b'')", transport)
    assert code == 1
    assert "PEs disagree" in output or "PeerLost" in output


def test_error_of_one_is_raised_on_all(transport: str) -> None:
    program = """
        import flightshmem as fs
        from flightshmem.errors import HeapExhausted
        runtime = fs.init()
        try:
            with runtime.converge("load"):
                if fs.pe() == 1:
                    raise HeapExhausted("no room", requested=5, free=3, pe=1)
        except HeapExhausted as error:
            print(f"PE {fs.pe()} saw {error} {error.requested} {error.free} {error.pe}")
        fs.barrier()
    """
    job = run_pes(program, 3, transport)
    assert job.returncode == 0, job.stderr
    assert sorted(job.stdout.splitlines()) == [
        "PE 0 saw PE 1: no room 5 3 1",
        "PE 1 saw no room 5 3 1",
        "PE 2 saw PE 1: no room 5 3 1",
    ]


def test_waits_no_longer_than_the_timeout() -> None:
    program = """
        import os, signal
        import flightshmem as fs
        fs.init()
        if fs.pe() == 1:
            signal.pause()
        fs.barrier()
    """
    job = run_pes(program, 2, options=["--heap", "64M"], environment_changes={"FLIGHTSHMEM_TIMEOUT": "5"})
    assert job.returncode != 0
    assert "waited 5 s: PE 1 is not here yet, PE 0/2" in job.stderr
