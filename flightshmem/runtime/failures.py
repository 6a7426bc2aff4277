# SPDX-License-Identifier: Apache-2.0
"""An uncaught exception on one PE ends the job, since the others would wait for it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from flightshmem.errors import PeerLost
from flightshmem.runtime.agreement import origin_of

if TYPE_CHECKING:
    from flightshmem._core import Transport

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""

_WAIT_FOR_CAUSE_S = 2.0


def install_hooks(transport: Transport) -> None:
    """Make exceptions that nobody catches, in any thread, end the whole job with their traceback.

    In this process only: what becomes of its forks is not the job's business.
    """
    before, before_in_threads, pid = sys.excepthook, threading.excepthook, os.getpid()

    def on_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != pid:
            before(kind, error, trace)
            return
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C shall not disturb the end
            end_job(transport, INTERRUPTED, "interrupted")
        if isinstance(error, PeerLost):
            # A PE that was killed shows nothing, and oshrun leaves the others two seconds.
            print(f"PE {transport.my_pe}: PeerLost: {error}", file=sys.stderr, flush=True)
        if origin_of(error) is not None or isinstance(error, PeerLost):
            # Another PE shows the cause, and ends the job before this one has to.
            time.sleep(_WAIT_FOR_CAUSE_S)
        before(kind, error, trace)
        end_job(transport, 1, f"ends the job after the {kind.__name__} above")

    def on_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
        before_in_threads(args)
        if os.getpid() != pid:
            return
        name = args.thread.name if args.thread is not None else "unknown"
        end_job(transport, 1, f"ends the job after the error above in thread {name}")

    sys.excepthook = on_uncaught
    threading.excepthook = on_uncaught_in_thread


def end_job(transport: Transport, code: int, message: str) -> None:
    """End every PE with this exit code; does not return."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed or gone
            stream.flush()
    transport.abort(code, message)
