# SPDX-License-Identifier: Apache-2.0
"""Plans: what a frame will compute, as typed, immutable nodes and expressions."""
