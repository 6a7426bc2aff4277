# SPDX-License-Identifier: Apache-2.0
"""Gives up on a stream that brings nothing more.

A gRPC deadline bounds a whole call, but a long stream is fine as long as it moves: what must be bounded is
the time without progress.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self


class StallWatch:
    """Calls ``cancel`` once when ``progress`` was not called for ``timeout_s`` seconds."""

    def __init__(self, cancel: Callable[[], object], timeout_s: float) -> None:
        self.stalled = False
        self._cancel = cancel
        self._timeout_s = timeout_s
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="flightshmem-stall", daemon=True)

    def progress(self) -> None:
        """Note that something arrived."""
        self._last = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(min(self._timeout_s / 4, 1.0)):
            if time.monotonic() - self._last > self._timeout_s:
                self.stalled = True
                self._cancel()
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
