# SPDX-License-Identifier: Apache-2.0
"""Starting over a real OpenSHMEM library: plain oshrun, alone, and after shmem4py."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flightshmem.runtime import openshmem
from flightshmem.testing import run_pes

pytestmark = pytest.mark.skipif(bool(openshmem.why_missing()), reason=openshmem.why_missing() or "-")

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def oshrun(program: str, n_pes: int = 2, **changes: str) -> subprocess.CompletedProcess[str]:
    """``oshrun -n N python -c program``, with none of our settings in the environment."""
    return subprocess.run(
        [
            *(str(openshmem.launcher_path()), *openshmem.LAUNCHER_FLAGS, "-n", str(n_pes)),
            *(sys.executable, "-c", textwrap.dedent(program)),
        ],
        env={**os.environ, **AS_ROOT, **changes},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr


def test_plain_oshrun() -> None:
    check(
        oshrun("""
            import os
            import flightshmem as fs
            runtime = fs.init(heap="32M")
            assert runtime.transport_name == "openshmem" and runtime.n_pes == 2
            assert runtime.heap_bytes == 32 << 20
            assert runtime.allgather(bytes([fs.pe()])) == [b"\\0", b"\\1"]
            assert os.environ["OMPI_MCA_osc"] == "ucx"
        """)
    )


def test_default_heap_under_oshrun() -> None:
    check(oshrun("import flightshmem as fs; assert fs.init().heap_bytes > 16 << 20"))


def test_heap_that_the_user_gave_the_library() -> None:
    program = "import flightshmem as fs; assert 100 << 20 < fs.init().heap_bytes < 200 << 20"
    check(oshrun(program, SHMEM_SYMMETRIC_HEAP_SIZE="200M"))


def test_pes_must_ask_for_equal_heaps() -> None:
    done = oshrun("""
        import os
        import flightshmem as fs
        fs.init(heap=["32M", "48M"][int(os.environ["OMPI_COMM_WORLD_RANK"])])
    """)
    assert done.returncode != 0
    assert "all PEs need the same heap size" in done.stderr


def test_alone() -> None:
    program = """if True:
        import flightshmem as fs
        assert fs.init(heap="32M").transport_name == "openshmem" and fs.n_pes() == 1
    """
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FLIGHTSHMEM_TRANSPORT": "openshmem"},
        timeout=60,
        check=True,
    )


@pytest.mark.parametrize("code", [1, 5])
def test_sys_exit_under_plain_oshrun(code: int) -> None:
    done = oshrun(f"""
        import sys
        import flightshmem as fs
        fs.init(heap="32M")
        fs.barrier()
        if fs.pe() == 1:
            sys.exit({code})
        fs.barrier()
    """)
    assert done.returncode != 0
    assert "PE 1 has ended" in done.stderr


def test_memory_is_private_and_signals_are_as_before() -> None:
    check(
        oshrun("""
            import os, signal, subprocess
            from pathlib import Path
            import flightshmem as fs
            from flightshmem import heap
            fs.init(heap="32M")
            status = dict(l.split(":") for l in Path("/proc/self/status").read_text().splitlines())
            caught = int(status["SigCgt"], 16)
            assert not caught >> (signal.SIGTERM - 1) & 1 and not caught >> (signal.SIGUSR1 - 1) & 1
            address = heap.symmetric_empty((8,), "int64").ctypes.data
            for line in Path("/proc/self/maps").read_text().splitlines():
                begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                if begin <= address < end and "/SYSV" in line:
                    segment = line.split()[4]
            listed = subprocess.run(["ipcs", "-m"], capture_output=True, text=True).stdout
            row = next(l.split() for l in listed.splitlines() if l.split()[1:2] == [segment])
            assert row[3] == "600", row
        """)
    )


def test_forked_child_may_exit() -> None:
    check(
        oshrun("""
            import os, sys
            import flightshmem as fs
            fs.init(heap="32M")
            child = os.fork()
            if child == 0:
                sys.exit(9)  # with exit handlers and all
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
            fs.barrier()
        """)
    )


def test_posix_shm_cannot_join_them() -> None:
    done = oshrun("import flightshmem as fs; fs.init(transport='posix_shm')")
    assert done.returncode != 0
    assert "flightshmem run -n 2" in done.stderr


AFTER_SHMEM4PY = """
    from shmem4py import shmem
    theirs = shmem.zeros(1000, dtype="int64")
    import numpy as np
    import flightshmem as fs
    from flightshmem import heap
    runtime = fs.init({arguments})
    assert (runtime.pe, runtime.n_pes) == (shmem.my_pe(), shmem.n_pes())
    ours = heap.symmetric_empty((1000,), np.int64)
    ours[:] = runtime.pe + 1
    runtime.barrier()
    shmem.put(theirs, ours, (runtime.pe + 1) % runtime.n_pes)
    shmem.barrier_all()
    assert (theirs == (runtime.pe - 1) % runtime.n_pes + 1).all()
    room = shmem.zeros(1 << 20, dtype="uint8")
    shmem.free(room), shmem.free(theirs)
    sizes = set(runtime.allgather(str(runtime.heap_bytes).encode()))
    if runtime.pe == 0:
        print(b" ".join(sizes).decode())
"""


def test_after_shmem4py() -> None:
    job = run_pes(AFTER_SHMEM4PY.format(arguments=""), 3, "openshmem")
    assert job.returncode == 0, job.stderr
    assert job.stdout.split() == [str(64 << 20)]


def test_after_shmem4py_a_default_heap_takes_what_is_there() -> None:
    settings = {"OMPI_MCA_osc": "ucx", "SHMEM_SYMMETRIC_HEAP_SIZE": "128M"}
    done = oshrun(AFTER_SHMEM4PY.format(arguments=""), 2, **settings)
    check(done)
    assert 32 << 20 < int(done.stdout) < 64 << 20  # one size, and room for shmem4py left


def test_after_shmem4py_a_heap_that_does_not_fit() -> None:
    settings = {"OMPI_MCA_osc": "ucx", "SHMEM_SYMMETRIC_HEAP_SIZE": "128M"}
    done = oshrun(AFTER_SHMEM4PY.format(arguments="heap='1G'"), 2, **settings)
    assert done.returncode != 0
    assert "SHMEM_SYMMETRIC_HEAP_SIZE" in done.stderr and "TransportError" in done.stderr


def test_without_oshrun(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flightshmem", "run", "--transport", "openshmem", __file__],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "not available" in done.stderr and "openmpi-bin" in done.stderr
