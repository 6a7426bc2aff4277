# SPDX-License-Identifier: Apache-2.0
"""Starts a job: the same Python target in N PEs."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass, replace

from flightshmem import _core
from flightshmem.cli import entry
from flightshmem.cli.children import STOP_S, Child, Supervisor, start
from flightshmem.cli.streams import Stream, prefixed
from flightshmem.errors import InvalidArgument, TransportUnavailable
from flightshmem.runtime import launch, memory, openshmem
from flightshmem.runtime.segment import segment_bytes


@dataclass(frozen=True)
class Job:
    """What to run and how."""

    target: tuple[str, ...]
    """``(script, *args)`` or ``("-m", module, *args)``."""
    n_pes: int = 1
    transport: str = "posix_shm"
    heap_bytes: int = 0
    """Per PE; 0 takes the default."""
    prefix: bool = False
    """Put ``[pe k]`` before each line of output."""
    stop_s: float = STOP_S
    """How long the PEs may take to end after a signal from outside."""
    ends_itself: bool = False
    """The target ends with 0 by itself when it gets SIGTERM, SIGINT or SIGUSR1."""

    def sized(self) -> Job:
        """Return this job with its heap size settled and checked against the memory there is."""
        if self.n_pes < 1:
            raise InvalidArgument(f"[run] needs at least one PE, got {self.n_pes}: use -n 1 or more")
        heap = self.heap_bytes or memory.default_heap_bytes(self.n_pes)
        memory.check_heaps_fit(heap, self.n_pes)
        if self.transport == "openshmem":
            memory.check_shared_files_fit(self.n_pes)
        return replace(self, heap_bytes=heap)

    @property
    def pe_command(self) -> list[str]:
        """The command line of one PE."""
        return [sys.executable, "-m", "flightshmem.cli.entry", *self.target]


def run_job(job: Job) -> int:
    """Run the job to its end and return its exit code."""
    job = job.sized()
    return _run_openshmem(job) if job.transport == "openshmem" else _run_posix_shm(job)


def _run_posix_shm(job: Job) -> int:
    size = segment_bytes(job.heap_bytes)
    descriptor = _core.create_segment_file(size, job.n_pes)
    children: list[Child] = []

    def mark_ended(pe: int) -> None:
        # A PE that ends without a word must not be waited for.
        at = pe * size + _core.STATE_OFFSET
        (state,) = struct.unpack("=I", os.pread(descriptor, 4, at))
        if state <= _core.STATE_RUNNING:
            is_killed = (children[pe].process.returncode or 0) < 0
            state = _core.STATE_KILLED if is_killed else _core.STATE_FINISHED
            os.pwrite(descriptor, struct.pack("=I", state), at)

    try:
        for pe in range(job.n_pes):
            children.append(Child(f"PE {pe}", _start_pe(job, pe, descriptor)))
        streams = [stream for pe, child in enumerate(children) for stream in _streams_of(child, pe)]
        return Supervisor(children, streams, mark_ended, stop_s=job.stop_s).run()
    finally:
        for child in children:
            child.process.kill()  # does nothing to those that have ended
        os.close(descriptor)


def _start_pe(job: Job, pe: int, descriptor: int) -> subprocess.Popen[bytes]:
    environment = {
        **_common_environment(job),
        launch.PE: str(pe),
        launch.N_PES: str(job.n_pes),
        launch.SEGMENT_FD: str(descriptor),
    }
    return start(
        job.pe_command,
        signal.SIGKILL,
        env=environment,
        pass_fds=(descriptor,),
        stdin=_input() if pe == 0 else subprocess.DEVNULL,
        stdout=subprocess.PIPE if job.prefix else None,
        stderr=subprocess.PIPE if job.prefix else None,
    )


def _streams_of(child: Child, pe: int) -> list[Stream]:
    """Take over the pipes that a PE's output comes through, if it does."""
    pipes = ((child.process.stdout, sys.stdout), (child.process.stderr, sys.stderr))
    prefix = prefixed(f"[pe {pe}] ")
    return [Stream(os.dup(pipe.fileno()), out.buffer, prefix) for pipe, out in pipes if pipe is not None]


def _run_openshmem(job: Job) -> int:
    missing = openshmem.why_missing()
    if missing:
        raise TransportUnavailable(f"[run] the openshmem transport is not available: {missing}")
    command = [
        str(openshmem.launcher_path()),
        *openshmem.LAUNCHER_FLAGS,
        "-n",
        str(job.n_pes),
        *job.pe_command,
    ]
    # oshrun passes output on in chunks that end anywhere, so each PE writes to pipes of ours instead.
    streams, writers = [], []
    for pe in range(job.n_pes):
        rewrite = prefixed(f"[pe {pe}] " if job.prefix else "")
        for out in (sys.stdout, sys.stderr):
            reader, writer = os.pipe()
            streams.append(Stream(reader, out.buffer, rewrite))
            writers.append(writer)
    environment = openshmem.settings(job.heap_bytes, _common_environment(job))
    environment[entry.OUTPUT] = ":".join(f"/proc/{os.getpid()}/fd/{writer}" for writer in writers)
    process = start(command, signal.SIGTERM, env=environment, stdin=_input(), stderr=subprocess.PIPE)
    assert process.stderr is not None
    streams.append(Stream(os.dup(process.stderr.fileno()), sys.stderr.buffer, openshmem.in_our_words))
    # oshrun takes SIGTERM as an order to kill the PEs; SIGUSR1 it passes on.
    stop_signal = signal.SIGUSR1 if job.ends_itself else None
    try:
        return Supervisor(
            [Child("the job", process)], streams, stop_s=job.stop_s, stop_signal=stop_signal
        ).run()
    finally:
        for writer in writers:
            os.close(writer)


def _common_environment(job: Job) -> dict[str, str]:
    return {**os.environ, launch.TRANSPORT: job.transport, launch.HEAP: str(job.heap_bytes)}


def _input() -> int | None:
    # PEs are in background process groups, which must not read from a terminal.
    return subprocess.DEVNULL if os.isatty(0) else None
