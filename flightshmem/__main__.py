# SPDX-License-Identifier: Apache-2.0
"""``python -m flightshmem``: the same as the ``flightshmem`` command."""

from __future__ import annotations

import sys

from flightshmem.cli import main

if __name__ == "__main__":
    sys.exit(main())
