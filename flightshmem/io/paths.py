# SPDX-License-Identifier: Apache-2.0
"""From what a user passes as path to a sorted list of files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from flightshmem.errors import FileMissing, InvalidArgument, UnsupportedError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def expand(path: Paths, suffixes: tuple[str, ...], operation: str) -> list[Path]:
    """Return the files of a path, a list of paths, a pattern or a directory (searched below, too).

    Hidden files and those starting with ``_`` (other tools' metadata) in directories are left out.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not given:
        raise InvalidArgument(f"[{operation}] at least one path is needed, got an empty list")
    files: list[Path] = []
    for one in given:
        files += _expand_one(os.fspath(one), suffixes, operation)
    return files


def _expand_one(path: str, suffixes: tuple[str, ...], operation: str) -> list[Path]:
    found = Path(path).expanduser()
    if found.is_dir():
        files = sorted(
            file for file in found.rglob("*") if file.name.endswith(suffixes) and _is_plain(file, found)
        )
        _refuse_partitions(files, found, operation)
        return files or _missing(path, operation, f"the directory holds no {' or '.join(suffixes)} file")
    if found.exists():
        return [found]
    if glob.has_magic(path):
        # Path.glob wants a fixed root and a relative pattern; users write the pattern anywhere.
        matches = sorted(Path(match) for match in glob.glob(str(found), recursive=True))  # noqa: PTH207
        return [match for match in matches if match.is_file()] or _missing(path, operation, "no file matches")
    return _missing(path, operation, "no such file")


def _is_plain(file: Path, root: Path) -> bool:
    return file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def _refuse_partitions(files: list[Path], root: Path, operation: str) -> None:
    """Refuse ``year=2013/...`` folders rather than lose the column that only their names hold."""
    for file in files:
        for part in file.relative_to(root).parts[:-1]:
            if "=" in part:
                raise UnsupportedError(
                    f"[{operation}] columns in folder names are not read, got {part!r} below {str(root)!r}: "
                    "pass the files of one folder, and add the column with assign()"
                )


def _missing(path: str, operation: str, why: str) -> list[Path]:
    raise FileMissing(
        f"[{operation}] {why}, got {path!r} (in {Path.cwd()}): check the path; every PE must see it"
    )


def label(files: list[Path]) -> str:
    """Name the files for explain()."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
