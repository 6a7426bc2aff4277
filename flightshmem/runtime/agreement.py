# SPDX-License-Identifier: Apache-2.0
"""One PE's error becomes an error on every PE."""

from __future__ import annotations

import json

from flightshmem import errors
from flightshmem.errors import FlightShmemError, RemoteError


def origin_of(error: BaseException) -> int | None:
    """Return the PE on which an error first happened, when that was another one."""
    return getattr(error, "_origin_pe", None)


def pack_error(error: Exception) -> bytes:
    """Write down an error as JSON: class, message, and fields that JSON knows."""
    plain = (str, int, float, bool, type(None))
    fields = {k: v for k, v in vars(error).items() if isinstance(v, plain) and not k.startswith("_")}
    return json.dumps([type(error).__name__, str(error), fields]).encode()


def unpack_error(packed: bytes, operation: str, pe: int) -> FlightShmemError:
    """Rebuild another PE's error: the same class when it is one of ours, else RemoteError."""
    name, message, fields = json.loads(packed)
    # By name from our own module only: what another PE sends never chooses code to run.
    known = getattr(errors, name, None)
    error: FlightShmemError
    if isinstance(known, type) and issubclass(known, FlightShmemError):
        error = known(f"PE {pe}: {message}")
        vars(error).update(fields)
    else:
        error = RemoteError(f"[{operation}] failed on PE {pe}: {name}: {message}")
    vars(error)["_origin_pe"] = pe
    return error
