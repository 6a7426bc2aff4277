# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flightshmem.cli import main
from flightshmem.runtime import memory
from flightshmem.testing import run_pes

SLEEPER = """
import os, signal, sys, time
import flightshmem as fs
fs.init()
{setup}
fs.barrier()
print("ready", os.getpid(), flush=True)
{wait}
"""


def launch(
    tmp_path: Path, transport: str, wait: str, setup: str = ""
) -> tuple[subprocess.Popen[str], list[int]]:
    """Start two PEs and return the launcher and the PEs' process ids once all are up."""
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER.format(wait=wait, setup=setup))
    command = [sys.executable, "-m", "flightshmem", "run", "-n", "2", "--transport", transport]
    launcher = subprocess.Popen(
        [*command, "--heap", "64M", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    return launcher, [int(launcher.stdout.readline().split()[1]) for _ in range(2)]


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while not all(map(has_ended, pids)):
        assert time.monotonic() < deadline, "PEs are still there"
        time.sleep(0.05)


@pytest.mark.usefixtures("nothing_left_behind")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
# Inside Python, inside a collective, and not listening at all.
@pytest.mark.parametrize(
    ("setup", "wait"),
    [
        ("", "time.sleep(600)"),
        ("", "fs.barrier() if fs.pe() == 0 else time.sleep(600)"),
        ("for n in (2, 15): signal.signal(n, signal.SIG_IGN)", "time.sleep(600)"),
    ],
    ids=["sleeping", "in_barrier", "ignoring"],
)
def test_signal_to_the_launcher(
    tmp_path: Path, transport: str, number: signal.Signals, setup: str, wait: str
) -> None:
    launcher, pids = launch(tmp_path, transport, wait, setup)
    launcher.send_signal(number)
    launcher.communicate(timeout=60)
    assert launcher.returncode == 128 + number
    assert all(map(has_ended, pids))


def test_signal_that_pes_take_well(tmp_path: Path) -> None:
    setup = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    launcher, _ = launch(tmp_path, "posix_shm", "time.sleep(600)", setup)
    launcher.terminate()
    launcher.communicate(timeout=60)
    assert launcher.returncode == 0


@pytest.mark.usefixtures("nothing_left_behind")
def test_launcher_is_killed(tmp_path: Path, transport: str) -> None:
    launcher, pids = launch(tmp_path, transport, "time.sleep(600)")
    launcher.kill()
    launcher.communicate(timeout=60)
    wait_for_end(pids)


def test_heap_beyond_memory(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    witness = tmp_path / "started"
    script = tmp_path / "script.py"
    script.write_text(f"open({str(witness)!r}, 'w')")
    half = memory.available_bytes() // 2
    assert main(["run", "-n", "4", "--heap", str(half), str(script)]) == 2
    error = capfd.readouterr().err
    assert "4 PEs x" in error and memory.format_bytes(4 * half) in error and "--heap" in error
    assert not witness.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_script.py"], "no such script, got 'no_such_script.py'"),
        (["-m", "no_such_module"], "no module of that name, got 'no_such_module'"),
        ([], "nothing to run"),
        (["-n", "0", __file__], "at least one PE, got 0"),
        (["--heap", "much", __file__], "not a size, got 'much'"),
    ],
)
def test_wrong_arguments(capfd: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["run", *arguments]) == 2
    assert message in capfd.readouterr().err


def test_environment_is_checked(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIGHTSHMEM_TRANSPORT", "pigeon")
    assert main(["run", __file__]) == 2
    assert "no such transport, got 'pigeon'" in capfd.readouterr().err


def test_prefix_and_whole_lines(transport: str) -> None:
    program = """
        import sys
        import flightshmem as fs
        fs.init()
        for i in range(200):
            print(i, "x" * (i * 37 % 5000))
        print("an error", file=sys.stderr)
        sys.stdout.write("no end of line")
    """
    job = run_pes(program, 3, transport, options=["--prefix", "--heap", "64M"])
    assert job.returncode == 0
    expected = {f"[pe {pe}] {i} {'x' * (i * 37 % 5000)}" for pe in range(3) for i in range(200)}
    assert set(job.stdout.splitlines()) == expected | {f"[pe {pe}] no end of line" for pe in range(3)}
    assert sorted(job.stderr.splitlines()) == [f"[pe {pe}] an error" for pe in range(3)]


def test_arguments_module_and_input(transport: str, tmp_path: Path) -> None:
    (tmp_path / "greet.py").write_text(
        "import sys, flightshmem as fs\nfs.init()\nprint(fs.pe(), sys.argv[1:], sys.stdin.read())"
    )
    command = [sys.executable, "-m", "flightshmem", "run", "-n", "2", "--transport", transport]
    command += ["--heap", "64M", "-m", "greet", "--flag", "-n", "5"]
    paths = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    job = subprocess.run(
        command,
        input="hello",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert sorted(job.stdout.splitlines()) == ["0 ['--flag', '-n', '5'] hello", "1 ['--flag', '-n', '5'] "]


def test_traceback_begins_in_the_script() -> None:
    job = run_pes("def f():\n    raise KeyError('x')\nf()", 1)
    assert job.returncode == 1
    assert "runpy" not in job.stderr and "entry.py" not in job.stderr and "KeyError: 'x'" in job.stderr


def test_info(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    report = capfd.readouterr().out
    for word in ("pyarrow", "transport posix_shm", "transport openshmem", "memory available", "default heap"):
        assert word in report
