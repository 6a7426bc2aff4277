# SPDX-License-Identifier: Apache-2.0
"""Output of PEs on its way to ours: by whole lines, so that lines of different PEs do not mix."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

_CHUNK = 1 << 16


class Stream:
    """One source of lines. Owns the descriptor."""

    def __init__(self, descriptor: int, out: BinaryIO, rewrite: Callable[[bytes], bytes] = bytes) -> None:
        self.descriptor = descriptor
        self._out = out
        self._rewrite = rewrite
        self._rest = b""
        os.set_blocking(descriptor, False)

    def pump(self) -> bool:
        """Pass on some of what has arrived, by whole lines; False when the source has ended."""
        chunk = self._read()
        if chunk:
            self._take(chunk)
        return chunk != b""

    def close(self) -> None:
        """Pass on all that is left, a last line without its end too."""
        while chunk := self._read():
            self._take(chunk)
        self._write([self._rest] if self._rest else [])
        os.close(self.descriptor)

    def _read(self) -> bytes | None:
        """Return what there is; None when that is nothing for now, b"" at the end."""
        try:
            return os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return None

    def _take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._write(lines)

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        try:
            self._out.write(b"".join(self._rewrite(line) + b"\n" for line in lines))
            self._out.flush()
        except BrokenPipeError:  # nobody reads any more (`| head`): the job goes on unheard
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._out.fileno())
            os.close(nowhere)


def prefixed(prefix: str) -> Callable[[bytes], bytes]:
    """Return a rewrite that puts text before each line."""
    start = prefix.encode()
    return lambda line: start + line
