# SPDX-License-Identifier: Apache-2.0
"""Rows with equal keys meet on one PE, and nothing is lost on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from spmd.exchange.job_tables import decoded, gathered, jobs
from strategies import DICTIONARIES, same

from flightshmem import _core, exchange
from flightshmem.errors import ColumnNotFound, InvalidArgument, SchemaError, UnsupportedError
from flightshmem.runtime import Runtime, current
from flightshmem.testing import agreed

NAN = float("nan")


def key_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make keys comparable as pandas has it: missing is missing, -0.0 is 0.0."""
    return tuple("missing" if v is None or v != v else v for v in row)


def keys_by_pe(table: pa.Table, keys: list[str]) -> list[set[tuple[Any, ...]]]:
    columns = [[t.column(key).to_pylist() for key in keys] for t in gathered(decoded(table.select(keys)))]
    return [{key_of(row) for row in zip(*lists, strict=True)} for lists in columns]


def check_shuffle(table: pa.Table, keys: list[str]) -> pa.Table:
    before = gathered(decoded(table))
    result = exchange.shuffle(table, keys)
    result.validate(full=True)
    homes = keys_by_pe(result, keys)
    assert sum(map(len, homes)) == len(set().union(*homes)), "a key lives on two PEs"
    after = gathered(decoded(result))
    assert sorted(map(repr, pa.concat_tables(before).to_pylist())) == sorted(
        map(repr, pa.concat_tables(after).to_pylist())
    )
    return result


@settings(max_examples=15)
@given(job=jobs([pa.int64(), pa.float64(), pa.string(), *DICTIONARIES[:2], pa.bool_()]))
@agreed
def test_equal_keys_meet_on_one_pe(job: list[pa.Table]) -> None:
    mine = job[current().pe]
    check_shuffle(mine, ["c1"])
    check_shuffle(mine, ["c3", "c5"])
    check_shuffle(mine, ["c2", "c0", "c4"])


def test_missing_keys_of_all_kinds_meet(runtime: Runtime) -> None:
    table = pa.table({"k": pa.array([None, NAN, 0.0, -0.0, 1.5]), "pe": [runtime.pe] * 5})
    result = check_shuffle(table, ["k"])
    missing = [k is None or k != k for k in result.column("k").to_pylist()]
    assert sum(missing) in (0, 2 * runtime.n_pes)


def test_order_is_by_source_pe_then_source_order(runtime: Runtime) -> None:
    rows = 3000
    table = pa.table({"k": np.arange(rows) % 17, "at": np.arange(rows) + runtime.pe * rows})
    at = exchange.shuffle(table, ["k"]).column("at").to_numpy()
    assert (np.diff(at) > 0).all()


def test_narrow_and_wide_integer_keys_meet(runtime: Runtime) -> None:
    """int32 on the left, int64 on the right: the join sees every pair (case 02)."""
    rng = np.random.default_rng(runtime.pe)
    left = rng.integers(0, 100, 20_000).astype(np.int32)
    right = rng.integers(0, 100, 500)
    total = sum(
        runtime.reduce(np.bincount(left, minlength=100)) * runtime.reduce(np.bincount(right, minlength=100))
    )
    keys = [exchange.shuffle(pa.table({"k": side}), ["k"]) for side in (left, right)]
    _, pairs = _core.join_table(keys[1]).probe(keys[0].cast(pa.schema([("k", pa.int64())])), "inner")
    assert int(runtime.reduce(np.array([len(pairs)]))[0]) == total


def test_one_pe_keeps_its_rows_where_they_are(runtime: Runtime) -> None:
    if runtime.n_pes > 1:
        pytest.skip("with several PEs rows move")
    table = pa.table({"k": pa.array([3, 1, 2]), "s": ["a", "b", "c"]})
    for result in (exchange.shuffle(table, ["k"]), exchange.replicate(table)):
        assert same(result, table)
        for name in table.column_names:
            buffers = [c.chunk(0).buffers()[-1].address for c in (result.column(name), table.column(name))]
            assert buffers[0] == buffers[1]


def test_unknown_key_lists_the_columns(runtime: Runtime) -> None:
    table = pa.table({"k": [1], "s": ["a"]})
    asked = "zz" if runtime.pe == runtime.n_pes - 1 else "k"
    with pytest.raises(ColumnNotFound, match=r"no column 'zz'.*\['k', 's'\]"):
        exchange.shuffle(table, [asked])


def test_no_key_and_doubled_names_are_errors(runtime: Runtime) -> None:
    twice = pa.table([[1], [2]], ["k", "k"])
    with pytest.raises(InvalidArgument, match="at least one key"):
        exchange.shuffle(twice, [])
    with pytest.raises(InvalidArgument, match="2 columns are named 'k'"):
        exchange.shuffle(twice, ["k"])


def test_nested_keys_name_themselves(runtime: Runtime) -> None:
    table = pa.table({"k": [1], "shape": [[1, 2]]})
    if runtime.n_pes > 1:
        with pytest.raises(UnsupportedError, match="'shape'"):
            exchange.shuffle(table, ["shape"])


def test_schemas_that_differ_name_pe_and_column(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("needs two PEs")
    odd = runtime.pe == 1
    with pytest.raises(SchemaError, match="got 'v' string, PE 1/"):
        exchange.shuffle(pa.table({"k": [1], "v": ["a"] if odd else [1]}), ["k"])
    with pytest.raises(SchemaError, match=r"number of columns differs.*PE 1/"):
        exchange.replicate(pa.table({"k": [1], "v": [2]} if odd else {"k": [1]}))
    words = pa.array(["a"])
    with pytest.raises(SchemaError, match=r"'v' differs between PEs.*PE 1/"):
        exchange.replicate(pa.table({"v": words.dictionary_encode() if odd else words}))
