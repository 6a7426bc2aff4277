# SPDX-License-Identifier: Apache-2.0
"""The committed stub of the C++ core is what the built core says."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "tools" / "make_stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_stub_matches_the_extension() -> None:
    tool = _tool()
    # As syntax trees: layout may differ between versions of the generator.
    committed = ast.dump(ast.parse(tool.STUB.read_text()), indent=1)
    generated = ast.dump(ast.parse(tool.generate()), indent=1)
    assert committed == generated, "the bindings changed: run `python tools/make_stubs.py` and commit"
