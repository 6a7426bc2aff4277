# SPDX-License-Identifier: Apache-2.0
"""Run it on two PEs: ``flightshmem run -n 2 examples/quickstart.py``; or on one: ``python``."""

import numpy as np
import pandas as pd

import flightshmem as fs

rows = pd.DataFrame({"shop": ["a", "b", "c"] * 4000, "price": np.arange(12_000) % 97})
shops = pd.DataFrame({"shop": ["a", "b"], "rent": [3.0, None]})

sales = fs.from_pandas(rows).merge(fs.from_pandas(shops), on="shop", how="left")  # lazy
sales = sales.assign(shop=sales.shop.astype("category"), dear=sales.price > 50)
sales = sales[sales.price > 5]
by_shop = sales.groupby("shop").agg(mean_price=("price", "mean")).to_pandas()

booster = fs.ml.xgboost.train({"objective": "binary:logistic"}, sales, label="dear")  # no copy
fs.ml.xgboost.predict(booster, sales).publish("scored")

with fs.flight.serve() as server:  # any Arrow Flight client can read it now
    if fs.pe() == 0:
        print(by_shop, fs.connect(server.uri).get("scored").slice(0, 3).to_pandas(), sep="\n")
