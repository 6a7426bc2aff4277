# SPDX-License-Identifier: Apache-2.0
"""Watches the processes of a job: one fails, all end; signals go to all; nothing is left behind."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flightshmem.cli.streams import Stream

SETTLE_S = 0.5
"""After a first failure the others get this long to show their own words."""
TERM_S = 2.0
"""What follows SIGTERM before SIGKILL."""
STOP_S = 5.0
"""How long processes may take to end after a signal from outside."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Child:
    """A process of the job."""

    name: str
    process: subprocess.Popen[bytes]


def start(command: Sequence[str], last_signal: signal.Signals, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that gets ``last_signal`` when this one dies, however that happens.

    ``options`` are Popen's. It has a process group of its own, so that Ctrl-C reaches it once, through
    the Supervisor. Call from the main thread: the kernel looks at the thread, not at the process.
    """
    parent = os.getpid()

    def tie_to_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, last_signal)
        if os.getppid() != parent:  # it died before the call above
            os._exit(128 + last_signal)

    return subprocess.Popen(command, process_group=0, preexec_fn=tie_to_parent, **options)


def describe_end(returncode: int) -> str:
    """Say in words how a process ended."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    hint = " (out of memory?)" if -returncode == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def exit_code(returncode: int) -> int:
    """Return what a shell would say: the code, or 128 + signal."""
    return returncode if returncode >= 0 else 128 - returncode


class Supervisor:
    """Runs until all children have ended; the main thread of a process without other threads."""

    def __init__(
        self,
        children: Sequence[Child],
        streams: Sequence[Stream] = (),
        on_end: Callable[[int], None] = lambda index: None,
        *,
        stop_s: float = STOP_S,
        stop_signal: signal.Signals | None = None,
    ) -> None:
        """``streams``: output of theirs. ``stop_signal``: sent on in place of what comes from outside."""
        self._children = list(children)
        self._streams = list(streams)
        self._on_end = on_end
        self._stop_s = stop_s
        self._stop_signal = stop_signal
        self._running = set(range(len(children)))
        self._failed: int | None = None
        self._signalled: signal.Signals | None = None
        self._deadlines: list[tuple[float, signal.Signals]] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Return the job's exit code: 0, the first failure's, or 128 + the signal that ended it."""
        wake, woken = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ)
        for stream in self._streams:
            self._selector.register(stream.descriptor, selectors.EVENT_READ, stream)
        previous = {number: signal.signal(number, self._on_signal) for number in _FORWARDED}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        descriptor = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            while self._running:
                self._reap()
                self._send_due_signals()
                if self._running:
                    self._wait(woken)
        finally:
            self._kill_rest()
            self._selector.close()
            for stream in self._streams:
                stream.close()
            signal.set_wakeup_fd(descriptor)
            for number, handler in previous.items():
                signal.signal(number, handler)
            wake.close()
            woken.close()
        return self._exit_code()

    def _wait(self, woken: socket.socket) -> None:
        due = min((at for at, _ in self._deadlines), default=None)
        timeout = None if due is None else max(due - time.monotonic(), 0)
        for key, _ in self._selector.select(timeout):
            if key.fileobj is woken:
                woken.recv(4096)
            elif not key.data.pump():
                self._selector.unregister(key.fileobj)

    def _reap(self) -> None:
        for index in sorted(self._running):
            returncode = self._children[index].process.poll()
            if returncode is None:
                continue
            self._running.discard(index)
            self._on_end(index)
            if returncode != 0 and self._failed is None:
                self._failed = index
                if self._signalled is None:
                    self._report(index, returncode)
                    self._schedule(SETTLE_S, TERM_S)

    def _report(self, index: int, returncode: int) -> None:
        print(
            f"flightshmem: {self._children[index].name} {describe_end(returncode)}",
            file=sys.stderr,
            flush=True,
        )

    def _schedule(self, term_after_s: float, kill_after_s: float) -> None:
        now = time.monotonic()
        self._deadlines = [
            (now + term_after_s, signal.SIGTERM),
            (now + term_after_s + kill_after_s, signal.SIGKILL),
        ]

    def _on_signal(self, number: int, frame: object) -> None:
        if self._signalled is None:
            self._signalled = signal.Signals(number)
            self._deadlines = [(time.monotonic() + self._stop_s, signal.SIGKILL)]
        self._send(self._stop_signal or signal.Signals(number))

    def _send_due_signals(self) -> None:
        now = time.monotonic()
        for at, number in self._deadlines:
            if at <= now:
                self._send(number)
        self._deadlines = [deadline for deadline in self._deadlines if deadline[0] > now]

    def _send(self, number: signal.Signals) -> None:
        for index in self._running:
            self._children[index].process.send_signal(number)

    def _kill_rest(self) -> None:
        self._send(signal.SIGKILL)
        for index in self._running:
            self._children[index].process.wait()

    def _exit_code(self) -> int:
        if self._failed is None:
            return 0
        if self._signalled is not None:
            return 128 + self._signalled
        return exit_code(self._children[self._failed].process.returncode)
