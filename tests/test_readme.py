# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_the_quickstart_is_the_example_that_is_run() -> None:
    example = (ROOT / "examples" / "quickstart.py").read_text()
    code = example.split('"""\n\n', 1)[1]  # without licence and docstring
    assert blocks("python")[0] == code


def test_the_commands_are_targets_of_make() -> None:
    output = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # A make inside `make test` also tells which directory it enters.
    listed = [line for line in output.splitlines() if line.startswith("  make ")]
    named = set(re.findall(r"\bmake ([a-z]+)\b(?= )", README)) | {"demo", "test"}
    assert named <= {line.split()[1] for line in listed}
    assert len(listed) <= 10


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
