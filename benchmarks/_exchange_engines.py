# SPDX-License-Identifier: Apache-2.0
"""The peers that run in one process with two threads, and Dask with two; prints JSON.

``python -m benchmarks._exchange_engines ENGINE ROWS REPEATS``. Results end in the engine's own memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from benchmarks._exchange_tables import PARTS, Check, check, dim_part, fact_part, seconds_of, whole

Runs = dict[str, Callable[[], Any]]


def polars_runs(rows: int, engine: str) -> tuple[Runs, Callable[[Any], pa.Table]]:
    os.environ["POLARS_MAX_THREADS"] = "2"
    import polars as pl

    fact, dim = (pl.from_arrow(whole(part, rows)).rechunk() for part in (fact_part, dim_part))  # type: ignore[union-attr]
    lazy, col = fact.lazy(), pl.col  # type: ignore[union-attr]
    plans = {
        "join": lazy.join(dim.lazy(), on="k"),  # type: ignore[union-attr]
        "groupby_1m": lazy.group_by("k").agg(col("v").sum(), col("w").mean()),
        "groupby_100": lazy.group_by("s").agg(col("v").sum(), col("w").mean()),
        "filter_assign": lazy.filter(col("v") > 0.5).with_columns(z=col("v") * col("w") + 1),
        "sort": lazy.sort("k"),
    }
    return {name: lambda plan=plan: plan.collect(engine=engine) for name, plan in plans.items()}, (
        lambda frame: frame.to_arrow()
    )


SQL = {
    "join": "select fact.*, dim.x from fact join dim on fact.k = dim.k",
    "groupby_1m": "select k, sum(v) as v, avg(w) as w from fact group by k",
    "groupby_100": "select s, sum(v) as v, avg(w) as w from fact group by s",
    "filter_assign": "select *, v * w + 1 as z from fact where v > 0.5",
    "sort": "select * from fact order by k",
}


def duckdb_runs(rows: int) -> tuple[Runs, Callable[[Any], pa.Table]]:
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    for name, part in (("fact", fact_part), ("dim", dim_part)):
        connection.register("arrow_table", whole(part, rows))
        connection.execute(f"create table {name} as select * from arrow_table")
    return {
        name: lambda query=query: connection.sql(query).to_arrow_table() for name, query in SQL.items()
    }, (lambda table: table)


def datafusion_runs(rows: int) -> tuple[Runs, Callable[[Any], pa.Table]]:
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_target_partitions(2))
    for name, part in (("fact", fact_part), ("dim", dim_part)):
        halves = [part(i, rows).to_batches(max_chunksize=8192) for i in range(PARTS)]
        context.register_record_batches(name, halves)
    return {name: lambda query=query: context.sql(query).collect() for name, query in SQL.items()}, (
        pa.Table.from_batches
    )


def measure_dask(rows: int, repeats: int) -> dict[str, Any]:
    """Shuffle all columns by k with p2p between two processes of one thread each."""
    import dask
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster, wait

    dask.config.set({"dataframe.shuffle.method": "p2p", "logging.distributed": "error"})
    cluster = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    )
    with cluster, Client(cluster):  # type: ignore[no-untyped-call]
        meta = fact_part(0, 100).to_pandas(types_mapper=_arrow_strings)
        fact = dd.from_map(_dask_part, [(i, j, rows) for i in range(PARTS) for j in range(4)], meta=meta)
        fact = fact.persist()
        wait(fact)

        def shuffled() -> Any:
            result = fact.shuffle(on="k").persist()
            wait(result)
            return result

        times, result = seconds_of(shuffled, repeats)
        sums = result[["k", "v", "w"]].sum().compute()
        numbers = [float(len(result)), *(float(value) for value in sums)]
    return {"exchange_string": _entry(times, numbers)}


def _arrow_strings(kind: pa.DataType) -> Any:
    import pandas as pd

    return pd.StringDtype("pyarrow") if pa.types.is_string(kind) else None


def _dask_part(where: tuple[int, int, int]) -> Any:
    half, quarter, rows = where
    table = fact_part(half, rows)
    count = table.num_rows // 4
    rest = table.num_rows - quarter * count if quarter == 3 else count
    return table.slice(quarter * count, rest).to_pandas(types_mapper=_arrow_strings)


def _entry(times: list[float], numbers: Check) -> dict[str, Any]:
    return {"seconds": sorted(times)[len(times) // 2], "check": numbers}


def main() -> None:
    engine, rows, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if engine == "dask":
        print(json.dumps(measure_dask(rows, repeats)))
        return
    if engine.startswith("polars"):
        runs, to_arrow = polars_runs(rows, engine.removeprefix("polars_").replace("_", "-"))
    else:
        runs, to_arrow = {"duckdb": duckdb_runs, "datafusion": datafusion_runs}[engine](rows)
    results = {}
    for name, run in runs.items():
        times, result = seconds_of(run, repeats)
        results[name] = _entry(times, check(name, to_arrow(result)))
        del result
    print(json.dumps(results))


if __name__ == "__main__":
    main()
