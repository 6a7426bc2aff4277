# SPDX-License-Identifier: Apache-2.0
"""Checks the size budgets of the house style: files of at most 400 lines, functions of at most 80."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
ROOTS = ["src", "flightshmem", "tests", "benchmarks", "examples", "tools"]


def long_files() -> list[str]:
    """Describe every source file over the budget."""
    found = []
    for root in ROOTS:
        for path in sorted(Path(root).rglob("*")):
            if path.suffix in {".py", ".cpp", ".h"}:
                lines = len(path.read_text(encoding="utf-8").splitlines())
                if lines > MAX_FILE_LINES:
                    found.append(f"{path}: {lines} lines (at most {MAX_FILE_LINES})")
    return found


def main() -> int:
    """Print what is over budget; 0 when nothing is."""
    found = long_files()
    print("\n".join(found))
    # Complexity and argument counts are ruff's business; lizard looks at lengths, of C++ too.
    limits = ["-C", "1000", "-a", "100", "-L", str(MAX_FUNCTION_LINES)]
    lizard = subprocess.run(
        [sys.executable, "-m", "lizard", "-w", *limits, "src", "flightshmem"],
        check=False,
    )
    return 1 if found or lizard.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
