# SPDX-License-Identifier: Apache-2.0
"""The bearer token: where it comes from, where same-user clients on this machine find it.

A server writes ``<port>.token`` (mode 0600: the token, the process) into a directory that only its user can
enter: a client of the same user reads it there and needs no configuration. The directory is
``$XDG_RUNTIME_DIR/flightshmem`` or, without one, ``flightshmem-<uid>`` under the system's directory for
temporary files. It is trusted only when it is a real directory, owned by this user and closed to all others.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flightshmem.errors import (
    AuthenticationError,
    FileMissing,
    FlightShmemError,
    InvalidArgument,
    ServerError,
)

ENVIRONMENT = "FLIGHTSHMEM_TOKEN"
MAX_TOKEN_BYTES = 4096


def new_token() -> str:
    """Make a random token of 256 bits."""
    return secrets.token_urlsafe(32)


def check_token(token: str) -> str:
    """Return the token when it can travel in a header; InvalidArgument otherwise. Never shows it."""
    if not token:
        raise InvalidArgument("[token] the token is empty: give at least one character")
    if len(token) > MAX_TOKEN_BYTES or not all("!" <= character <= "~" for character in token):
        raise InvalidArgument(
            f"[token] a token is at most {MAX_TOKEN_BYTES} visible ASCII characters without spaces, "
            f"got something else ({len(token)} characters)"
        )
    return token


def read_token_file(path: str | Path) -> str:
    """Read the token that a file holds in its first line."""
    try:
        first_line, _, _ = Path(path).read_text(encoding="ascii").strip().partition("\n")
        return check_token(first_line.strip())
    except FileNotFoundError:
        raise FileMissing(f"[token] no token file, got {path}: write the token into it first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise AuthenticationError(f"[token] cannot read the token file, got {path}: {error}") from None


def token_path(port: int) -> Path:
    """Say where the token of the server on ``port`` lies."""
    return _directory_path() / f"{port}.token"


def write_token(port: int, token: str) -> Path:
    """Leave the token for same-user clients; files of servers that died without a word go away."""
    path = token_path(port)
    try:
        with suppress(FileExistsError):
            path.parent.mkdir(mode=0o700)
        _check_private(path.parent, stat.S_ISDIR)
        _remove_orphans(path.parent)
        path.unlink(missing_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as out:
            out.write(f"{token}\n{os.getpid()}\n")
    except OSError as error:
        if isinstance(error, FlightShmemError):
            raise
        raise ServerError(f"[token] cannot write the token file, got {path}: {error}") from None
    return path


def remove_token(path: Path, token: str) -> None:
    """Remove the file again, unless another server has written its own token there since."""
    with suppress(OSError, FileMissing, AuthenticationError, InvalidArgument):
        if read_token_file(path) == token:
            path.unlink()


def find_token(port: int) -> str | None:
    """Find the token of this user's server on ``port`` of this machine; None when there is none."""
    path = token_path(port)
    if not os.path.lexists(path):
        return None
    _check_private(path.parent, stat.S_ISDIR)
    _check_private(path, stat.S_ISREG)
    return read_token_file(path)


def _remove_orphans(directory: Path) -> None:
    for path in directory.glob("*.token"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(path.read_text(encoding="ascii").split()[1])
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                path.unlink()


def _directory_path() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and _is_own_directory(Path(runtime)):
        return Path(runtime) / "flightshmem"
    return Path(tempfile.gettempdir()) / f"flightshmem-{os.getuid()}"


def _is_own_directory(path: Path) -> bool:
    try:
        return path.is_dir() and path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _check_private(path: Path, is_kind: Callable[[int], bool]) -> None:
    status = path.lstat()  # not stat: a symlink could lead to somebody else's file
    if not is_kind(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise AuthenticationError(
            f"[token] {path} is not safe: it must be yours alone, no symlink, closed to others "
            f"(chmod go= {path}), or remove it"
        )
