# SPDX-License-Identifier: Apache-2.0
"""Which labels an objective takes. XGBoost looks on each worker alone, and the others may wait for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from flightshmem import runtime
from flightshmem.errors import InvalidArgument

_Check = Callable[[npt.NDArray[np.float32]], Any]

_RANGES: dict[str, tuple[str, _Check]] = {
    **dict.fromkeys(
        ("binary:logistic", "reg:logistic", "binary:logitraw"),
        ("between 0 and 1", lambda label: (label >= 0) & (label <= 1)),
    ),
    **dict.fromkeys(("count:poisson", "reg:tweedie"), ("at least 0", lambda label: label >= 0)),
    "reg:gamma": ("above 0", lambda label: label > 0),
    "reg:squaredlogerror": ("above -1", lambda label: label > -1),
}


def check_labels(operation: str, params: Mapping[str, Any], label: npt.NDArray[np.float32] | None) -> None:
    """Raise ``InvalidArgument`` for a label outside of what ``params["objective"]`` takes. Local."""
    objective = params.get("objective")
    needed, fits = _range_of(objective, params)
    if label is None or fits is None:
        return
    wrong = np.flatnonzero(~fits(label))
    if len(wrong):
        here = runtime.current()
        raise InvalidArgument(
            f"[{operation}] labels for {objective} must be {needed}, got {label[wrong[0]]:g} in row "
            f"{wrong[0]} of this PE's and {len(wrong)} such row(s) here, PE {here.pe}/{here.n_pes}: "
            "map the labels, or take another objective"
        )


def _range_of(objective: object, params: Mapping[str, Any]) -> tuple[str, _Check | None]:
    if objective in ("multi:softmax", "multi:softprob"):
        classes = params.get("num_class")
        if not isinstance(classes, int | np.integer):  # XGBoost refuses that, everywhere alike
            return "", None
        return (
            f"whole numbers from 0 to {classes - 1}, as num_class is {classes}",
            lambda label: (label >= 0) & (label < classes) & (label == np.floor(label)),
        )
    return _RANGES.get(str(objective), ("", None))
