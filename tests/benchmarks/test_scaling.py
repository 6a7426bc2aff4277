# SPDX-License-Identifier: Apache-2.0
"""The formulas of the scaling model, against sums done by hand and constants that are known."""

from __future__ import annotations

import pytest

from benchmarks._scaling_model import WIDE_COLUMNS, Constants, Job, fit

NETWORK = {"barrier": 1e-5, "reduce": 3e-5, "gather": 43e-5, "put": 1e-6, "put_byte": 1e-9}


def constants() -> Constants:
    found = {
        n: {
            "empty_processor": 1e-6 * (3 + 2 * n + 4 * n**2),
            "wide_processor": 1e-6 * (10 + 2 * n + WIDE_COLUMNS * n**2),
            "full_processor": 0.0,
            "barrier": 1e-6,
        }
        for n in (1, 2, 4, 8)
    }
    for figures, ns_per_row in zip(found.values(), (8, 10, 12, 14), strict=True):
        figures["full_processor"] = figures["empty_processor"] + 1000 * ns_per_row * 1e-9
    return Constants.of(found, NETWORK, rows=1000)


def test_counts_of_1024_pes() -> None:
    job = Job(n=1024, near=32, rows=5_000_000)
    assert job.counts_bytes == 73_728
    assert job.n * job.counts_bytes == 75_497_472
    assert job.collectives == 8


def test_counts_take_more_pieces_when_there_are_many_columns() -> None:
    assert Job(n=1024, near=1024, rows=0, columns=100).collectives == 7 + 4


def test_puts_per_destination_column_and_round() -> None:
    job = Job(n=4, near=2, rows=1_000_000)
    assert job.rounds == 2  # 36 MB of rows, 32 MiB per round
    assert job.puts == 2 * 2 * 4
    assert job.bytes_leaving == 16_000_000
    assert Job(n=4, near=4, rows=1_000_000).puts == 0
    assert Job(n=4, near=2, rows=0).puts == 0


def test_fit_finds_the_terms() -> None:
    sizes = [1, 2, 4, 8, 16]
    assert fit(sizes, [5 + 3 * n + 2 * n**2 for n in sizes], (0, 1, 2)) == pytest.approx((5, 3, 2))
    a, b, c = fit(sizes, [9 - n / 4 for n in sizes], (0, 1, 2))
    assert min(a, b, c) >= 0


def test_rows_cost_more_on_more_pes() -> None:
    found = constants()
    assert found.row_seconds(2) == pytest.approx(10e-9)
    assert found.row_seconds(6) == pytest.approx(13.17e-9, rel=1e-3)  # between 4 and 8
    assert found.row_seconds(1024) == pytest.approx(28e-9)  # 7 doublings of 2 ns beyond 8


def test_parts_add_up_with_and_without_a_network() -> None:
    found = constants()
    on_node = found.parts(Job(n=8, near=8, rows=1000))
    assert on_node == pytest.approx({"write": 14e-6, "plan": 275e-6, "collectives": 8 * 4e-6})
    parts = found.parts(Job(n=8, near=4, rows=1000))
    assert parts["collectives"] == pytest.approx(8 * (3 * 1e-5 + 2 * 4 * 1e-5))
    assert parts["counts"] == pytest.approx(4 * 576 * 1e-9)
    assert parts["puts"] == pytest.approx(16 * 1e-6 + 16_000 * 1e-9)


def test_pes_that_share_a_core_take_turns() -> None:
    found, job = constants(), Job(n=4, near=4, rows=1000, per_core=2)
    assert found.parts(job) == pytest.approx({"write": 24e-6, "plan": 150e-6})
