# SPDX-License-Identifier: Apache-2.0
"""Write one Parquet file per PE: all of them appear, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flightshmem import runtime
from flightshmem.errors import InvalidArgument, WriteError

_PART = re.compile(r"part-(\d+)\.parquet")


def write_parts(table: pa.Table, path: str, compression: str) -> None:
    """Write this PE's rows as ``path/part-<pe>.parquet``. Collective.

    Every PE first writes under a hidden name; only when all have succeeded are the files renamed. Parts
    that an earlier write with more PEs left are removed.
    """
    job = runtime.current()
    folder = Path(path).expanduser()
    hidden, final = folder / f".part-{job.pe}.parquet.tmp", folder / f"part-{job.pe}.parquet"
    try:
        with job.converge("to_parquet"), _write_errors(folder):
            _make(folder)
            pq.write_table(table, hidden, compression=compression)
        with job.converge("to_parquet"), _write_errors(folder):
            hidden.replace(final)
            if job.pe == 0:
                _remove_beyond(folder, job.n_pes)
    finally:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    job = runtime.current()
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"[to_parquet] {error.strerror or error}, got {str(folder)!r}, PE {job.pe}/{job.n_pes}: "
            "check that the directory can be made and written to, and that the disk has room"
        ) from error
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"[to_parquet] {error}, PE {job.pe}/{job.n_pes}: nothing was written"
        ) from error


def _make(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(
            f"[to_parquet] a directory is needed (one file per PE), got the file {str(folder)!r}: "
            "remove it or choose another path"
        )
    folder.mkdir(parents=True, exist_ok=True)


def _remove_beyond(folder: Path, n_pes: int) -> None:
    for file in folder.iterdir():
        match = _PART.fullmatch(file.name)
        if match and int(match[1]) >= n_pes:
            file.unlink()
