# SPDX-License-Identifier: Apache-2.0
"""``flightshmem demo``: the whole promise on real flight records, timed step by step.

``files`` writes the Parquet files, ``job`` is what every PE runs, ``single_process`` the yardstick,
``reader`` a Flight client that knows nothing of us, ``report`` the page; ``show`` runs them in turn.
"""

from flightshmem.demo.files import flight_files

__all__ = ["flight_files"]
