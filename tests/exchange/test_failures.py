# SPDX-License-Identifier: Apache-2.0
"""PEs that are killed, or fail, in the middle of an exchange: the others say who and where, soon."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest

from flightshmem.runtime import openshmem
from flightshmem.testing import run_pes

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

# PE 1 kills itself, from a thread of its own, once it sees itself in the phase. A PE is in a phase
# for long when it has many rows itself, or when it waits there for the others, who have many.
KILLED = """
import os, signal, threading
import numpy as np, pyarrow as pa
import flightshmem as fs
from flightshmem import exchange
runtime = fs.init(heap="200M")
victim = fs.pe() == 1
rows = {own_rows} if victim else {other_rows}
values = np.arange(rows) % 1009
table = pa.table({{"k": values, "v": pa.array(values * 0.5, mask=values % 7 == 0), "w": values}})

def kill_in_phase():
    while runtime.transport.phase_of(1) != {phase!r}:
        pass
    os.kill(os.getpid(), signal.SIGKILL)

fs.barrier()
if victim:
    threading.Thread(target=kill_in_phase, daemon=True).start()
try:
    while True:
        exchange.shuffle(table, ["k"])
except Exception as error:
    print(f"PE {{fs.pe()}} saw {{type(error).__name__}}: {{error}}", flush=True)
    raise
"""

# Phase, rows of PE 1, rows of the others.
MOMENTS = {
    "before_counts": ("shuffle: partition", 1_500_000, 1_000),
    "at_the_counts": ("scatter: counts", 1_000, 1_500_000),
    "writing": ("scatter: write", 1_500_000, 1_000),
    "at_the_barrier": ("scatter: write", 1_000, 1_500_000),
    "receiving": ("scatter: assemble", 1_000, 1_000),
}
# PE 1 may get on a little before the signal reaches it.
PHASES = [
    "shuffle: partition",
    *("scatter: counts", "scatter: allocate", "scatter: write", "scatter: assemble", "scatter: done"),
]
# Who finds the others gone only when this time is over says so, instead of who was killed where.
SOON = {"FLIGHTSHMEM_TIMEOUT": "5"}


def check_survivors(output: str, n_pes: int) -> None:
    for pe in range(n_pes):
        if pe == 1:
            continue
        (text,) = re.findall(rf"PE {pe} saw PeerLost: (.*)", output) or [output]
        found = re.search(r'PE 1 was killed, last seen in phase "(.*)", PE (\d/\d)', text)
        assert found is not None, text
        assert found[1] in PHASES and found[2] == f"{pe}/{n_pes}"


@pytest.mark.parametrize("n_pes", [2, 3])
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed(transport: str, moment: str, n_pes: int) -> None:
    phase, own_rows, other_rows = MOMENTS[moment]
    program = KILLED.format(phase=phase, own_rows=own_rows, other_rows=other_rows)
    job = run_pes(program, n_pes, transport, options=["--heap", "200M"], environment_changes=SOON)
    assert job.returncode == 128 + 9, job.stderr
    check_survivors(job.stdout, n_pes)
    assert "PE 1" in job.stderr


def test_the_phase_is_the_one_of_the_end(transport: str) -> None:
    program = """
        import os, signal
        import flightshmem as fs
        runtime = fs.init()
        runtime.transport.set_phase("first words, too long, so that they are cut")
        runtime.transport.set_phase(f"phase of {fs.pe()}")
        fs.barrier()
        if fs.pe() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        fs.barrier()
    """
    job = run_pes(program, 2, transport, environment_changes=SOON)
    assert job.returncode == 128 + 9
    assert 'PE 1 was killed, last seen in phase "phase of 1", PE 0/2' in job.stderr


@pytest.mark.skipif(bool(openshmem.why_missing()), reason=openshmem.why_missing() or "-")
def test_killed_under_plain_oshrun() -> None:
    """The launcher kills all others two seconds later: they have spoken before."""
    phase, own_rows, other_rows = MOMENTS["writing"]
    program = KILLED.format(phase=phase, own_rows=own_rows, other_rows=other_rows)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = [str(openshmem.launcher_path()), *openshmem.LAUNCHER_FLAGS, "-n", "3"]
    done = subprocess.run(
        [*launcher, sys.executable, "-c", program],
        env={**os.environ, **as_root, **SOON},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 128 + 9, done.stderr
    check_survivors(done.stdout, 3)
    for pe in (0, 2):  # also where nobody catches the error
        assert f"PE {pe}: PeerLost: [barrier] PE 1 was killed" in done.stderr


def outcomes(program: str, transport: str, n_pes: int) -> list[str]:
    """What every PE printed: one line each, in PE order."""
    options = ["--heap", "32M", "--prefix"]
    job = run_pes(textwrap.dedent(program), n_pes, transport, options=options)
    assert job.returncode == 0, job.stderr
    return sorted(job.stdout.splitlines())


@pytest.mark.parametrize("n_pes", [2, 3])
def test_partition_step_fails_on_one_pe(transport: str, n_pes: int) -> None:
    """All see the error, nobody loses step, and the next exchange works."""
    program = """
        import pyarrow as pa
        import flightshmem as fs
        from flightshmem import exchange
        fs.init()
        before = fs.heap.stats()
        table = pa.table({"k": [1, 2, 3]})
        key = "gone" if fs.pe() == 1 else "k"
        try:
            exchange.shuffle(table, [key])
        except fs.errors.ColumnNotFound as error:
            same = fs.heap.stats().used_bytes == before.used_bytes
            rows = sum(fs.runtime.current().reduce([exchange.shuffle(table, ["k"]).num_rows]))
            print(error, same, rows)
    """
    for pe, line in enumerate(outcomes(program, transport, n_pes)):
        origin = "" if pe == 1 else "PE 1: "
        assert line.startswith(f"[pe {pe}] {origin}[shuffle] no column 'gone', PE 1/{n_pes}")
        assert line.endswith(f"True {3 * n_pes}")


@pytest.mark.parametrize("n_pes", [2, 3])
def test_heap_full_on_one_pe(transport: str, n_pes: int) -> None:
    program = """
        import numpy as np, pyarrow as pa
        import flightshmem as fs
        from flightshmem import exchange
        fs.init()
        full = fs.heap.empty(fs.heap.stats().largest_free_bytes - 65536, np.uint8) if fs.pe() == 1 else None
        before = fs.heap.stats()
        table = pa.table({"k": np.arange(300_000)})
        try:
            exchange.shuffle(table, ["k"])
        except fs.errors.HeapExhausted as error:
            same = fs.heap.stats().used_bytes == before.used_bytes
            del full
            rows = sum(fs.runtime.current().reduce([exchange.shuffle(table, ["k"]).num_rows]))
            print("HeapExhausted on PE", error.pe, same, rows)
    """
    expected = [f"[pe {pe}] HeapExhausted on PE 1 True {300_000 * n_pes}" for pe in range(n_pes)]
    assert outcomes(program, transport, n_pes) == expected
