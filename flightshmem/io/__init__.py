# SPDX-License-Identifier: Apache-2.0
"""Files, memory and published tables -> Arrow rows, split over PEs."""
