# SPDX-License-Identifier: Apache-2.0
"""Machine learning on frames: each module needs the library it is named after, so import what you use.

``import flightshmem.ml.xgboost as fxgb``
"""
