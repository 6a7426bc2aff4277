# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from flightshmem.errors import InvalidArgument
from flightshmem.runtime import launch, openshmem
from flightshmem.runtime.segment import segment_bytes


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in launch.TRANSPORT, launch.PE, "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE":
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "asked", "chosen"),
    [
        ({}, None, "posix_shm"),
        ({}, "openshmem", "openshmem"),
        ({"FLIGHTSHMEM_TRANSPORT": "openshmem"}, None, "openshmem"),
        ({"FLIGHTSHMEM_TRANSPORT": "openshmem"}, "posix_shm", "posix_shm"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, None, "openshmem"),
        ({"PMIX_RANK": "0"}, None, "openshmem"),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, None, "openshmem"),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, "posix_shm", "posix_shm"),
    ],
)
def test_choice(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], asked: str | None, chosen: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert launch.choose_transport(asked) == chosen


def test_choices_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="no such transport, got 'pigeon'"):
        launch.choose_transport("pigeon")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    with pytest.raises(InvalidArgument, match="flightshmem run -n 3"):
        launch.choose_transport("posix_shm")


def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(launch.TIMEOUT, "2.5")
    assert launch.timeout_s() == 2.5
    for text in ("0", "-1", "soon", "nan"):
        monkeypatch.setenv(launch.TIMEOUT, text)
        with pytest.raises(InvalidArgument, match="number of seconds"):
            launch.timeout_s()


def test_child_environment_has_no_job() -> None:
    job = {
        launch.PE: "1",
        launch.N_PES: "2",
        launch.SEGMENT_FD: "5",
        "OMPI_COMM_WORLD_RANK": "1",
        "PMIX_RANK": "1",
        "SHMEM4PY_RC_INITIALIZE": "0",
    }
    kept = {"PATH": "/bin", "UCX_TLS": "tcp", launch.TRANSPORT: "posix_shm"}
    assert launch.child_environment({**job, **kept}) == kept


def test_settings_of_openshmem() -> None:
    size = str(segment_bytes(1 << 30) + openshmem.SLACK_BYTES)
    ours = openshmem.settings(1 << 30, {"PATH": "/bin"})
    assert ours["SHMEM_SYMMETRIC_SIZE"] == ours["SHMEM_SYMMETRIC_HEAP_SIZE"] == size
    assert ours["OMPI_MCA_osc"] == "ucx" and ours["PATH"] == "/bin"


def test_settings_keep_what_the_user_said() -> None:
    user = {"OMPI_MCA_osc": "rdma", "SMA_SYMMETRIC_SIZE": "3G"}
    ours = openshmem.settings(None, user)
    assert ours["OMPI_MCA_osc"] == "rdma"
    assert ours["SHMEM_SYMMETRIC_SIZE"] == ours["SHMEM_SYMMETRIC_HEAP_SIZE"] == str(3 << 30)
    assert "SMA_SYMMETRIC_SIZE" not in ours  # Open MPI refuses to start when it differs
    larger = openshmem.settings(4 << 30, {"SHMEM_SYMMETRIC_SIZE": "1G"})
    assert int(larger["SHMEM_SYMMETRIC_SIZE"]) > 4 << 30
