# SPDX-License-Identifier: Apache-2.0
"""Hand frames to learners without a copy. Each learner's module is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flightshmem.ml import xgboost as xgboost

_LEARNERS = ("xgboost",)


def __getattr__(name: str) -> Any:
    if name in _LEARNERS:
        return importlib.import_module(f"flightshmem.ml.{name}")
    raise AttributeError(
        f"module 'flightshmem.ml' has no attribute {name!r}; learners: {', '.join(_LEARNERS)}"
    )
