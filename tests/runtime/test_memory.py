# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from flightshmem.errors import InvalidArgument
from flightshmem.runtime import memory


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (12345, 12345),
        ("0", 0),
        ("2G", 2 << 30),
        ("512m", 512 << 20),
        ("1.5 GiB", 3 << 29),
        (" 64KB ", 64 << 10),
        ("1T", 1 << 40),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_parse_bytes(text: str | int, size: int) -> None:
    assert memory.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "2 X", "1e9", "two", "1.2.3G", "2GG"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"not a size.*2G"):
        memory.parse_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (5 << 30, "5 GiB")],
)
def test_format_bytes(size: int, text: str) -> None:
    assert memory.format_bytes(size) == text


def test_heaps_must_fit() -> None:
    available = memory.available_bytes()
    memory.check_heaps_fit(available // 10, 4)
    with pytest.raises(InvalidArgument) as caught:
        memory.check_heaps_fit(available // 4, 4)
    assert "4 PEs x" in str(caught.value) and "--heap" in str(caught.value)


@pytest.mark.parametrize("n_pes", [1, 3, 500])
def test_default_heaps_fit(n_pes: int) -> None:
    heap = memory.default_heap_bytes(n_pes)
    assert 16 << 20 <= heap <= 1 << 30
    if n_pes < 100:
        memory.check_heaps_fit(heap, n_pes)
