# SPDX-License-Identifier: Apache-2.0
"""A test that fails on one PE fails on all, and the PEs are in step again afterwards."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from flightshmem.errors import InvalidArgument
from flightshmem.runtime import current

P = ParamSpec("P")
R = TypeVar("R")

# A shape that no other collective has: a PE that is still in the test's body when another one has
# failed already then gets an error from its next collective, instead of the other's verdict.
_VERDICT_SHAPE = 1013


class SeenElsewhere(AssertionError):
    """The test failed on another PE."""


@contextmanager
def agree(name: str) -> Iterator[None]:
    """Run a test's body, collectives and all, so that PEs agree whether it failed. Collective.

    The PE on which it failed raises its own error, the others SeenElsewhere.
    """
    own: BaseException | None = None
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pytest's skip, and what Hypothesis stops examples with, too
        own = error
    failed = _failed_pes(_verdict_on(own))
    if own is not None and (not failed or current().pe in failed):
        raise own
    if failed:
        raise SeenElsewhere(f"{name} failed on PE {', PE '.join(map(str, failed))}; see there") from own


def agreed(body: Callable[P, R]) -> Callable[P, R]:
    """Decorate the body of a Hypothesis test, below ``@given``: every example agrees over all PEs.

    Examples must be the same on all PEs (a derandomized profile). Every PE raises the same
    class of error from the same line, so that shrinking takes the same steps everywhere.
    """

    @wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        own: BaseException | None = None
        text = ""
        try:
            result = body(*args, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            own, text = error, "".join(traceback.format_exception(error))
        failed = _failed_pes(_verdict_on(own))
        # Not from inside the except clause: Hypothesis tells failures apart by their context too.
        if failed:
            raise AssertionError(f"example failed on PE {', PE '.join(map(str, failed))}\n{text}")
        if own is not None:
            raise own
        return result

    return run


_PASSED, _OUT_OF_STEP, _FAILED = range(3)


def _verdict_on(error: BaseException | None) -> int:
    kind = type(error)
    # Skipping and Hypothesis' assume happen on all PEs alike.
    if error is None or kind.__name__ == "Skipped" or kind.__module__.startswith("hypothesis."):
        return _PASSED
    return _OUT_OF_STEP if "PEs disagree" in str(error) else _FAILED


def _failed_pes(verdict: int) -> list[int]:
    """Return the PEs that failed; those that are merely out of step only if none is worse. Collective."""
    runtime = current()
    mine = np.zeros(max(_VERDICT_SHAPE, runtime.n_pes), dtype=np.uint8)
    mine[runtime.pe] = verdict
    while True:
        try:
            verdicts = runtime.reduce(mine, "max")
        except InvalidArgument:
            # Another PE is still in the body. Its next collectives pair with this one, fail, and
            # so bring it here.
            continue
        worst = verdicts.max()
        return [int(pe) for pe in np.flatnonzero(verdicts == worst)] if worst != _PASSED else []
