# SPDX-License-Identifier: Apache-2.0
"""Callbacks, objectives and metrics of the user's inside XGBoost's collective.

When one worker leaves XGBoost's collective, the others usually raise, but sometimes wait for ever: the
thread that moves their bytes has stopped, and a step submitted after that is never answered. So whatever
can fail on one PE alone is agreed upon while all are still there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import xgboost
import xgboost.collective

from flightshmem import runtime
from flightshmem.errors import InvalidArgument

T = TypeVar("T")

_OPERATION = "xgboost.train"


class FailedElsewhere(InvalidArgument):
    """Another PE's callback, objective or metric raised; that PE knows the cause."""


def agreed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Make what the user's functions in ``options`` raise or decide the same on every PE. Local.

    The functions in the result are collective, of XGBoost's kind: call them inside its collective only.
    """
    wrapped = dict(options)
    if runtime.n_pes() == 1:
        return wrapped
    if isinstance(wrapped.get("callbacks"), list | tuple):
        wrapped["callbacks"] = [_agreed_callback(callback) for callback in wrapped["callbacks"]]
    if callable(wrapped.get("obj")):
        wrapped["obj"] = _agreed_objective(wrapped["obj"])
    for name in ("custom_metric", "feval"):
        if callable(wrapped.get(name)):
            wrapped[name] = _agreed_metric(wrapped[name])
    return wrapped


class _AgreedCallback(xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Runs a callback; an error on one PE is one on all, and all stop in the same round."""

    def __init__(self, callback: xgboost.callback.TrainingCallback) -> None:
        super().__init__()
        self._callback = callback

    def before_training(self, model: Any) -> Any:
        return _everywhere(self._callback, lambda: self._callback.before_training(model))

    def after_training(self, model: Any) -> Any:
        return _everywhere(self._callback, lambda: self._callback.after_training(model))

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return _vote(self._callback, lambda: self._callback.before_iteration(model, epoch, evals_log))

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return _vote(self._callback, lambda: self._callback.after_iteration(model, epoch, evals_log))


def _agreed_callback(callback: Any) -> Any:
    # Anything else is refused by XGBoost, on all PEs alike.
    known = isinstance(callback, xgboost.callback.TrainingCallback)
    return _AgreedCallback(callback) if known else callback


def _agreed_objective(objective: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(objective)
    def everywhere(predictions: Any, rows: xgboost.DMatrix) -> Any:
        def checked() -> Any:
            gradient, hessian = objective(predictions, rows)
            _check_gradient(np.shape(gradient), np.shape(hessian), rows.num_row())
            return gradient, hessian

        return _everywhere(objective, checked)

    return everywhere


def _check_gradient(gradient: tuple[int, ...], hessian: tuple[int, ...], n_rows: int) -> None:
    """Refuse what XGBoost would on this worker alone, while the others go on."""
    values = int(np.prod(gradient))
    if gradient != hessian or values < n_rows or values % max(n_rows, 1):
        raise InvalidArgument(
            f"[{_OPERATION}] obj must give a gradient and a hessian for each of the {n_rows} rows, got "
            f"shapes {gradient} and {hessian}, PE {runtime.pe()}/{runtime.n_pes()}: return two arrays "
            "as long as the predictions"
        )


def _agreed_metric(metric: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(metric)
    def everywhere(predictions: Any, rows: xgboost.DMatrix) -> Any:
        return _everywhere(metric, lambda: metric(predictions, rows))

    return everywhere


def _everywhere(what: object, call: Callable[[], T]) -> T:
    """Run ``call``, and raise on every PE if it raised on one. Collective, of XGBoost's kind."""
    error: Exception | None = None
    try:
        result = call()
    except Exception as raised:  # of any kind: the other PEs wait for our word
        error = raised
    failed = _count(error is not None)
    if error is not None:
        raise error
    if failed:
        raise FailedElsewhere(f"[{_OPERATION}] {_name(what)} raised on {failed} other PE(s)")
    return result


def _vote(callback: object, call: Callable[[], bool]) -> bool:
    stop = bool(_everywhere(callback, call))
    stopping, n_pes = _count(stop), runtime.n_pes()
    if stopping not in (0, n_pes):
        raise InvalidArgument(
            f"[{_OPERATION}] a callback must stop on all PEs or on none, got {_name(callback)} stopping "
            f"on {stopping} of {n_pes}: decide from what is the same on every PE, such as evals_log"
        )
    return stop


def _count(yes: bool) -> int:
    counted = xgboost.collective.allreduce(np.array([yes], np.int32), xgboost.collective.Op.SUM)
    return int(counted[0])


def _name(what: object) -> str:
    return str(getattr(what, "__qualname__", type(what).__qualname__))
