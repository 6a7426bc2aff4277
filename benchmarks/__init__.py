# SPDX-License-Identifier: Apache-2.0
"""Ours beside the peers, one module per layer: ``python -m benchmarks.NAME [--quick] [--json FILE]``."""
