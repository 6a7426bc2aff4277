# SPDX-License-Identifier: Apache-2.0
"""Every error the library raises: ours and the builtin a user would catch.

Messages read ``[operation] what is wrong, got <value>, PE k/n: what to do``.
"""

from __future__ import annotations


class FlightShmemError(Exception):
    """Base of all errors raised by FlightSHMEM."""


class HeapExhausted(FlightShmemError, MemoryError):
    """The symmetric heap has no room; raised on every PE before any byte moved.

    ``requested``, ``free`` and ``largest`` are bytes, ``pe`` is the PE that had no room.
    """

    def __init__(
        self, message: str, requested: int = 0, free: int = 0, largest: int = 0, pe: int = -1
    ) -> None:
        super().__init__(message)
        self.requested = requested
        self.free = free
        self.largest = largest
        self.pe = pe


class TransportError(FlightShmemError, RuntimeError):
    """The transport could not start, or a call to it failed."""


class TransportUnavailable(TransportError):
    """The transport asked for is not built or not installed here; the message says what to install."""


class PeerLost(TransportError):
    """A PE ended or did not arrive in time while others waited in a collective."""


class ColumnNotFound(FlightShmemError, KeyError):
    """No such column; the message lists those there are."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TableNotFound(FlightShmemError, KeyError):
    """No such published table; the message lists those there are."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TableExists(FlightShmemError, FileExistsError):
    """A table of that name is published already; use mode="replace" or "append"."""


class SchemaError(FlightShmemError, TypeError):
    """Column types do not fit the operation."""


class InvalidArgument(FlightShmemError, ValueError):
    """An argument has a value that cannot be used."""


class MergeError(InvalidArgument):
    """A merge whose keys, suffixes or column names cannot work (as pandas.errors.MergeError)."""


class UnsupportedError(FlightShmemError, NotImplementedError):
    """Not offered for this type or argument; the message names the alternative."""


class DataError(FlightShmemError, ValueError):
    """A file or stream holds bytes that are not what they claim to be."""


class FileMissing(FlightShmemError, FileNotFoundError):
    """No file at that path."""


class WriteError(FlightShmemError, OSError):
    """A file could not be written; the message says why and where."""


class RemoteError(FlightShmemError, RuntimeError):
    """Another PE failed in this collective; the message carries its error and PE number."""


class ServerError(FlightShmemError, OSError):
    """The Flight server could not start or be reached."""


class AuthenticationError(FlightShmemError, PermissionError):
    """No token, or a wrong one."""


class Overflow(FlightShmemError, OverflowError):
    """A number does not fit the type of the result."""
