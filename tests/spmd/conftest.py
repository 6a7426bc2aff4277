# SPDX-License-Identifier: Apache-2.0
"""Tests that run inside a job, on every PE: ``flightshmem run -n 2 -m pytest tests/spmd``.

A test's body may call collectives. If it fails on one PE it fails on all, and they go on in step
with the next test. PE 0 reports as pytest does, the others print only what failed on themselves.

Hypothesis examples are the same on every PE (profile below); put ``@agreed`` from
``flightshmem.testing`` under ``@given``, so that shrinking stays in step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import hypothesis
import pytest

from flightshmem.runtime import Runtime, current
from flightshmem.testing import agree

hypothesis.settings.register_profile(
    "spmd",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("spmd")


class OwnFailures:
    """What a PE other than 0 prints."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and "SeenElsewhere" not in report.longreprtext:
            print(f"PE {current().pe}: FAILED {report.nodeid}\n{report.longreprtext}", file=sys.stderr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            print(f"PE {current().pe}: ERROR {report.nodeid}\n{report.longreprtext}", file=sys.stderr)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if current().pe != 0:
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(OwnFailures())


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    return current()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    with agree(pyfuncitem.name):
        return (yield)


def pytest_unconfigure() -> None:
    sys.stdout.flush()
    current().barrier()  # nobody ends the job before PE 0 has reported
