# SPDX-License-Identifier: Apache-2.0
"""How this process was started, and which transport follows from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from flightshmem.errors import InvalidArgument, TransportError

TRANSPORTS = ("posix_shm", "openshmem")

TRANSPORT = "FLIGHTSHMEM_TRANSPORT"
HEAP = "FLIGHTSHMEM_HEAP"
TIMEOUT = "FLIGHTSHMEM_TIMEOUT"
WARM = "FLIGHTSHMEM_WARM"
STAGING = "FLIGHTSHMEM_STAGING"
PE = "FLIGHTSHMEM_PE"
N_PES = "FLIGHTSHMEM_N_PES"
SEGMENT_FD = "FLIGHTSHMEM_SEGMENT_FD"

_FOREIGN_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "ORTE_", "SHMEM4PY_RC_INITIALIZE")
"""How names begin that belong to a job of another launcher; the last one we set in such jobs."""


@dataclass(frozen=True)
class Seat:
    """The place that ``flightshmem run`` gave this process in a posix_shm job."""

    pe: int
    n_pes: int
    segment_fd: int
    """The memory file of all PEs, inherited."""
    pid: int
    """The process that holds the seat; its forks do not."""


_seat: Seat | None = None


def take_seat() -> Seat | None:
    """Return this process's seat, if ``flightshmem run`` gave it one.

    The first call takes the variables out of the environment, so that no child process can claim
    to be the same PE.
    """
    global _seat
    if _seat is None and PE in os.environ:
        try:
            pe, n_pes, descriptor = (int(os.environ.pop(name)) for name in (PE, N_PES, SEGMENT_FD))
        except (KeyError, ValueError) as error:
            raise TransportError(
                f"[init] {PE}, {N_PES} and {SEGMENT_FD} must be set together, got {error}: "
                "leave them to `flightshmem run`"
            ) from None
        _seat = Seat(pe, n_pes, descriptor, os.getpid())
    return _seat


def foreign_pes() -> int:
    """Return how many processes another launcher (oshrun, srun, ...) started; 0 when none did."""
    for size in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if os.environ.get(size, "").isdigit():
            return int(os.environ[size])
    if "PMIX_RANK" in os.environ or "PMI_RANK" in os.environ:
        return int(os.environ.get("SLURM_NTASKS", "2"))  # not said: more than one, for all we know
    return 0


def foreign_pe() -> int | None:
    """Return the number that another launcher gave this process."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def choose_transport(asked: str | None) -> str:
    """Return the transport to use: asked for, or by environment, or by who started this process."""
    choice = asked or os.environ.get(TRANSPORT) or ""
    if choice and choice not in TRANSPORTS:
        raise InvalidArgument(f"[init] no such transport, got {choice!r}: use {' or '.join(TRANSPORTS)}")
    seat = take_seat()
    if seat is not None and choice == "openshmem":
        raise InvalidArgument(
            f"[init] this job runs over posix_shm, got transport {choice!r}: start it with "
            "`flightshmem run --transport openshmem`"
        )
    if seat is None and choice == "posix_shm" and foreign_pes() > 1:
        raise InvalidArgument(
            "[init] posix_shm cannot join the processes that another launcher started, got transport "
            f"{choice!r}: start them with `flightshmem run -n {foreign_pes()}`, or leave the choice to us"
        )
    if choice:
        return choice
    return "openshmem" if seat is None and foreign_pes() > 0 else "posix_shm"


def child_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a copy of the environment for a child process, without what makes it claim to be this PE.

    ``subprocess.run(command, env=fs.child_environment())``. Needed under oshrun and srun, whose
    variables a child that starts OpenSHMEM itself would take for its own.
    """
    source = os.environ if environment is None else environment
    ours = (PE, N_PES, SEGMENT_FD)
    return {
        name: value
        for name, value in source.items()
        if name not in ours and not name.startswith(_FOREIGN_LAUNCHERS)
    }


def timeout_s() -> float:
    """Return how long a collective waits for absent PEs: FLIGHTSHMEM_TIMEOUT, else 600 seconds."""
    text = os.environ.get(TIMEOUT, "600")
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise InvalidArgument(f"[init] {TIMEOUT} must be a number of seconds, got {text!r}")
    return value
