# SPDX-License-Identifier: Apache-2.0
"""Starts a job: the same Python target in N PEs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import dataclass

from flightshmem import _core
from flightshmem.cli.children import Child, Supervisor
from flightshmem.cli.entry import LAUNCHER
from flightshmem.errors import InvalidArgument
from flightshmem.runtime import launch, memory
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

    def sized(self) -> Job:
        """Return this job with its heap size settled and checked against the memory there is."""
        if self.n_pes < 1:
            raise InvalidArgument(f"[run] needs at least one PE, got {self.n_pes}: use -n 1 or more")
        heap = self.heap_bytes or memory.default_heap_bytes(self.n_pes)
        memory.check_heaps_fit(heap, self.n_pes)
        return Job(self.target, self.n_pes, self.transport, heap, self.prefix)

    @property
    def pe_command(self) -> list[str]:
        """The command line of one PE."""
        return [sys.executable, "-m", "flightshmem.cli.entry", *self.target]


def run_job(job: Job) -> int:
    """Run the job to its end and return its exit code."""
    job = job.sized()
    return _run_posix_shm(job)


def _run_posix_shm(job: Job) -> int:
    size = segment_bytes(job.heap_bytes)
    descriptor = _core.create_segment_file(size, job.n_pes)
    finished = struct.pack("=I", _core.STATE_FINISHED)

    def mark_finished(pe: int) -> None:
        # A PE that ends without a word must not be waited for.
        os.pwrite(descriptor, finished, pe * size + _core.STATE_OFFSET)

    try:
        children: list[Child] = []
        try:
            for pe in range(job.n_pes):
                children.append(_start_pe(job, pe, descriptor))
        except BaseException:
            for child in children:
                child.process.kill()
            raise
        return Supervisor(children, mark_finished).run()
    finally:
        os.close(descriptor)


def _start_pe(job: Job, pe: int, descriptor: int) -> Child:
    environment = {
        **os.environ,
        launch.TRANSPORT: job.transport,
        launch.HEAP: str(job.heap_bytes),
        launch.PE: str(pe),
        launch.N_PES: str(job.n_pes),
        launch.SEGMENT_FD: str(descriptor),
        LAUNCHER: str(os.getpid()),
    }
    # PEs have a process group of their own, so that Ctrl-C reaches them once, through us; a
    # background group cannot read a terminal.
    takes_input = pe == 0 and not os.isatty(0)
    process = subprocess.Popen(
        job.pe_command,
        env=environment,
        pass_fds=(descriptor,),
        process_group=0,
        stdin=None if takes_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE if job.prefix else None,
        stderr=subprocess.PIPE if job.prefix else None,
    )
    return Child(f"PE {pe}", process, f"[pe {pe}] ".encode() if job.prefix else b"")
