# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from leftovers import nothing_left_behind, pytest_generate_tests

__all__ = ["nothing_left_behind", "pytest_generate_tests"]
