# SPDX-License-Identifier: Apache-2.0
"""How a process becomes a PE and stops being one. Each case in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from flightshmem.runtime import openshmem
from flightshmem.testing import run_pes


def run_alone(program: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run source text as ``python script.py`` would."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def check_alone(program: str, **changes: str) -> None:
    done = run_alone(program, **changes)
    assert done.returncode == 0, done.stderr


def test_import_starts_nothing() -> None:
    check_alone("""
        import flightshmem as fs
        assert not fs.is_initialized()
        assert fs.pe() == 0 and fs.n_pes() == 1
        assert fs.is_initialized()
    """)


def test_init_twice_is_the_same() -> None:
    check_alone("""
        import flightshmem as fs
        from flightshmem.errors import InvalidArgument
        first = fs.init(heap="32M")
        assert fs.init() is first and fs.init(heap="32M") is first and first.heap_bytes == 32 << 20
        for wrong in (dict(heap="33M"), dict(transport="openshmem")):
            try:
                fs.init(**wrong)
            except InvalidArgument as error:
                assert "already started" in str(error)
            else:
                raise SystemExit(f"accepted {wrong}")
    """)


def test_heap_from_the_environment() -> None:
    check_alone("import flightshmem as fs; assert fs.init().heap_bytes == 48 << 20", FLIGHTSHMEM_HEAP="48M")


def test_heap_beyond_memory() -> None:
    done = run_alone("import flightshmem as fs; fs.init(heap='1000T')")
    assert done.returncode == 1
    assert "InvalidArgument" in done.stderr and "are available" in done.stderr


def test_start_anew_after_finalize() -> None:
    check_alone("""
        import flightshmem as fs
        from flightshmem import heap
        first = fs.init(heap="32M")
        view = heap.empty((1000,), "float64")
        view[:] = 1.5
        fs.finalize()
        fs.finalize()
        assert not fs.is_initialized()
        try:
            first.barrier()
        except fs.errors.TransportError as error:
            assert "has been finalized" in str(error)
        assert view.sum() == 1500  # views outlive the runtime
        assert fs.init(heap="16M").heap_bytes == 16 << 20
    """)


def test_forked_child_is_no_pe() -> None:
    check_alone("""
        import os
        import flightshmem as fs
        fs.init(heap="32M")
        child = os.fork()
        if child == 0:
            assert not fs.is_initialized()
            try:
                fs.barrier()
            except fs.errors.TransportError as error:
                os._exit(7 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        fs.barrier()
    """)


def test_forked_child_that_fails_does_not_end_the_job() -> None:
    program = """
        import os
        import flightshmem as fs
        fs.init()
        if fs.pe() == 0:
            child = os.fork()
            if child == 0:
                raise ValueError("in the child")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        fs.barrier()
    """
    job = run_pes(program, 2)
    assert job.returncode == 0, job.stderr
    assert "ValueError: in the child" in job.stderr


@pytest.mark.parametrize("transport", ["posix_shm", "openshmem"])
def test_forked_child_that_exits_leaves_no_trace(transport: str) -> None:
    if transport == "openshmem" and openshmem.why_missing():
        pytest.skip(openshmem.why_missing())
    program = """
        import gc, os, sys
        import pyarrow as pa
        import flightshmem as fs
        from flightshmem import catalog
        runtime = fs.init()
        catalog.publish("t", pa.table({"x": list(range(1000))}))
        table = catalog.lookup("t")
        batch = table.read(0)
        runtime.barrier()
        if fs.pe() == 0:  # while the others wait
            child = os.fork()
            if child == 0:
                del table, batch, runtime
                gc.collect()
                sys.exit(9)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        fs.barrier()
        catalog.drop("t") if fs.pe() == 0 else None
        fs.barrier()
        for _ in range(10):  # would overwrite the shard if the child had taken this PE's pin away
            catalog.publish("u", pa.table({"x": [-1] * 1000}), mode="replace")
        assert batch["x"].to_pylist() == list(range(1000))
        del table, batch
    """
    job = run_pes(program, 2, transport)
    assert job.returncode == 0, job.stderr


def test_thread_may_not_call_collectives() -> None:
    check_alone("""
        import threading
        import flightshmem as fs
        runtime, errors = fs.init(heap="32M"), []
        def call():
            try:
                runtime.allgather(b"")
            except fs.errors.TransportError as error:
                errors.append(str(error))
        thread = threading.Thread(target=call, name="helper")
        thread.start()
        thread.join()
        assert "from thread 'helper'" in errors[0]
    """)


def test_errors_of_one_pe_alone_are_python_s() -> None:
    done = run_alone("import flightshmem as fs; fs.init(heap='32M'); 1 / 0")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_larger_heap_than_the_launcher_gave() -> None:
    job = run_pes("import flightshmem as fs; fs.init(heap='65M')", 2)
    assert job.returncode == 1
    assert "gave each PE a heap of 64 MiB, got 65 MiB" in job.stderr and "--heap" in job.stderr


def test_children_of_a_pe_are_alone() -> None:
    program = """
        import subprocess, sys
        import flightshmem as fs
        fs.init()
        child = "import flightshmem as fs; print(fs.pe(), fs.n_pes())"
        said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
        assert said.stdout.split() == ["0", "1"], said
        fs.barrier()
    """
    job = run_pes(program, 2)
    assert job.returncode == 0, job.stderr


def test_seat_of_the_environment_is_checked() -> None:
    done = run_alone("import flightshmem as fs; fs.init()", FLIGHTSHMEM_PE="0")
    assert "must be set together" in done.stderr
    seat = {"FLIGHTSHMEM_PE": "0", "FLIGHTSHMEM_N_PES": "2", "FLIGHTSHMEM_SEGMENT_FD": "99"}
    done = run_alone("import flightshmem as fs; fs.init()", **seat)
    assert "TransportError" in done.stderr and "flightshmem run" in done.stderr


@pytest.mark.parametrize("name", ["init", "Runtime", "errors", "runtime"])
def test_public_names(name: str) -> None:
    import flightshmem

    assert name in dir(flightshmem) and getattr(flightshmem, name)


def test_unknown_name() -> None:
    import flightshmem

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        flightshmem.nonsense  # noqa: B018
