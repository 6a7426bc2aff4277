# SPDX-License-Identifier: Apache-2.0
"""What pyarrow.flight raises, as our errors: the server's text, without gRPC's own additions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import flight

from flightshmem import errors

# In this order: the first that fits wins.
_CLASSES: tuple[tuple[type[BaseException], type[errors.FlightShmemError]], ...] = (
    (flight.FlightUnauthenticatedError, errors.AuthenticationError),
    (flight.FlightUnauthorizedError, errors.AuthenticationError),
    (pa.ArrowKeyError, errors.TableNotFound),
    (pa.ArrowMemoryError, errors.HeapExhausted),
    (pa.ArrowNotImplementedError, errors.UnsupportedError),
    (pa.ArrowInvalid, errors.InvalidArgument),
)
# How the server marks what Flight has no code for, at the beginning of the text.
_TAGS: tuple[tuple[str, type[errors.FlightShmemError]], ...] = (
    ("[heap]", errors.HeapExhausted),
    ("[schema]", errors.SchemaError),
)
_NOISE = (". gRPC client debug context", ". Client context", ". Detail:")


def as_ours(error: BaseException, place: str) -> errors.FlightShmemError:
    """Give the error of ours that says the same; ``place`` is the server's address."""
    text = str(error)
    exists = "ALREADY_EXISTS" in text
    for noise in _NOISE:
        text = text.split(noise, 1)[0]
    text = text.removeprefix("Unknown: ").strip() or type(error).__name__
    if exists:
        return errors.TableExists(text)
    for tag, ours in _TAGS:
        if text.startswith(tag):
            return ours(text)
    if isinstance(error, flight.FlightUnavailableError) and not text.startswith("["):
        why = text.rpartition("with message: ")[2]
        return errors.ServerError(f"[flight] no server answers, got {place}: {why}: is it running there?")
    text = text if text.startswith("[") else f"[flight] {text}, got {place}"
    for theirs, ours in _CLASSES:
        if isinstance(error, theirs):
            return ours(text)
    return errors.ServerError(text)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise what Flight raises inside as our errors."""
    try:
        yield
    except errors.FlightShmemError:
        raise
    except (pa.ArrowException, OSError) as error:  # an arrow IOError arrives as OSError
        raise as_ours(error, place) from None
