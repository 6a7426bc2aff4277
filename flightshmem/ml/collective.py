# SPDX-License-Identifier: Apache-2.0
"""XGBoost's own collective between our PEs, and one error for all when it fails on one."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import xgboost
import xgboost.collective
from xgboost.tracker import RabitTracker

from flightshmem import runtime
from flightshmem.errors import InvalidArgument, PeerLost, UnsupportedError
from flightshmem.ml.agreed import FailedElsewhere

T = TypeVar("T")

# How long one collective step of XGBoost waits for the slowest PE, and the tracker for all to leave.
_STEP_TIMEOUT_S = 300
_LEAVE_TIMEOUT_S = 30
# XGBoost heads a message with time and source file, and ends it with a stack trace.
_SOURCE = re.compile(r"\[\d\d:\d\d:\d\d\] (?P<file>\S+?):\d+: ")


def threads_per_pe() -> int:
    """Share the machine's cores between its PEs, whether or not the launcher bound them. Collective."""
    here = runtime.current()
    mine = os.sched_getaffinity(0)
    everybody = [json.loads(answer) for answer in here.allgather(json.dumps(sorted(mine)).encode())]
    share = sum(1 / sum(core in cores for cores in everybody) for core in mine)
    return max(1, int(share + 0.01))


def agree(operation: str, arguments: Mapping[str, Any]) -> None:
    """Check that every PE passes the same arguments. Collective.

    XGBoost does not: with different depths, one PE raises and another returns some model.
    """
    here = runtime.current()
    mine = {name: repr(value) for name, value in arguments.items()}
    everybody = [json.loads(answer) for answer in here.allgather(json.dumps(mine).encode())]
    for pe, theirs in enumerate(everybody):
        for name, value in everybody[0].items():
            if theirs.get(name) != value:
                raise InvalidArgument(
                    f"[{operation}] {name} must be the same on every PE, got {theirs.get(name)} "
                    f"on PE {pe}/{here.n_pes} and {value} on PE 0: pass the same everywhere"
                )


def together(operation: str, fit: Callable[[], xgboost.Booster]) -> xgboost.Booster:
    """Run ``fit`` on every PE inside XGBoost's collective. Collective.

    ``fit`` must not use our own collectives. If it raises on one PE, all raise the error that came first
    in cause, not its echoes. What can fail on one PE alone is to be agreed upon inside or before (see
    ``agreed``): XGBoost's collective mostly breaks on the others when one leaves, but not always.
    """
    here = runtime.current()
    booster: xgboost.Booster | None = None
    error: Exception | None = None
    try:
        with _communicator():
            booster = fit()
    except Exception as raised:  # of any kind: the other PEs wait for our report
        error = raised
    report = "" if booster is None else _digest(booster)
    kind = "model" if error is None else "echo" if _is_echo(error) else "cause"
    reports = [json.loads(answer) for answer in here.allgather(json.dumps([kind, report]).encode())]
    kinds = [answer[0] for answer in reports]
    with here.converge(operation):
        if error is not None and (kind == "cause" or "cause" not in kinds):
            raise _translated(operation, error) from error
    if booster is None or len({answer[1] for answer in reports}) > 1:
        raise InvalidArgument(
            f"[{operation}] the PEs ended with different models, got {reports}: "
            "callbacks and objectives must do the same on every PE"
        )
    return booster


@contextlib.contextmanager
def _communicator() -> Iterator[None]:
    """Join XGBoost's collective as the worker that has this PE's number; leave it in any case."""
    here = runtime.current()
    if here.n_pes == 1:
        yield
        return
    with _tracker() as address:
        worker = {**address, "dmlc_task_id": f"{here.pe:06d}", "dmlc_timeout": _STEP_TIMEOUT_S}
        with contextlib.redirect_stdout(io.StringIO()):  # it prints which number each worker got
            xgboost.collective.init(**worker)
        try:
            yield
        finally:
            # After an error the others may be gone already; their own words tell more than this.
            with contextlib.suppress(xgboost.core.XGBoostError):
                xgboost.collective.finalize()


@contextlib.contextmanager
def _tracker() -> Iterator[dict[str, Any]]:
    """Run XGBoost's meeting point on PE 0 and give every PE its address. Collective."""
    here = runtime.current()
    tracker: RabitTracker | None = None
    address: dict[str, Any] = {}
    try:
        with here.converge("xgboost.train"):
            if here.pe == 0:
                tracker = RabitTracker(n_workers=here.n_pes, host_ip="127.0.0.1", sortby="task")
                tracker.start()
                address = tracker.worker_args()
        yield json.loads(here.broadcast(json.dumps(address).encode()))
    finally:
        if tracker is not None:
            with contextlib.suppress(ValueError, xgboost.core.XGBoostError):
                tracker.wait_for(_LEAVE_TIMEOUT_S)
            tracker.free()


def check_one_machine(operation: str) -> None:
    """Refuse PEs that a loopback address cannot reach."""
    here = runtime.current()
    apart = [pe for pe in range(here.n_pes) if not here.transport.has_peer(pe)]
    if apart:
        raise UnsupportedError(
            f"[{operation}] all PEs must be on one machine so far, got PEs {apart} elsewhere, "
            f"PE {here.pe}/{here.n_pes}: run the job on one node"
        )


def _digest(booster: xgboost.Booster) -> str:
    return hashlib.sha256(booster.save_raw("ubj")).hexdigest()


def _is_echo(error: Exception) -> bool:
    if isinstance(error, FailedElsewhere):
        return True
    match = _SOURCE.match(str(error))
    return match is not None and "/src/collective/" in match["file"]


def _translated(operation: str, error: Exception) -> Exception:
    if not isinstance(error, xgboost.core.XGBoostError):
        return error
    here = runtime.current()
    text = _SOURCE.sub("", str(error).split("Stack trace:")[0]).strip()
    if _is_echo(error):
        return PeerLost(
            f"[{operation}] another PE left XGBoost's collective, PE {here.pe}/{here.n_pes}: {text}"
        )
    return InvalidArgument(f"[{operation}] XGBoost refuses, PE {here.pe}/{here.n_pes}: {text}")
