# SPDX-License-Identifier: Apache-2.0
"""Dictionary columns get one dictionary on all PEs, which depends on the values alone."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from spmd.exchange.job_tables import decoded, gathered, jobs
from strategies import DICTIONARIES, same

from flightshmem import exchange
from flightshmem.errors import SchemaError, UnsupportedError
from flightshmem.runtime import Runtime, current
from flightshmem.testing import agreed


def encoded(codes: list[int | None], words: list[Any], *, ordered: bool = False) -> pa.Table:
    array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words), ordered=ordered)
    return pa.table({"d": array})


def dictionary_of(table: pa.Table) -> list[Any]:
    return table.column("d").chunk(0).dictionary.to_pylist()


@settings(max_examples=20)
@given(job=jobs(DICTIONARIES))
@agreed
def test_values_stay_and_dictionaries_are_equal(job: list[pa.Table]) -> None:
    mine = job[current().pe]
    result = exchange.unify_dictionaries(mine)
    result.validate(full=True)
    assert same(decoded(result), decoded(mine))
    for name in result.column_names:
        column = result.column(name)
        assert column.type.index_type == pa.int32()
        words = column.chunk(0).dictionary
        assert all(chunk.dictionary.equals(words) for chunk in column.chunks)
        assert all(t.column("w").combine_chunks().equals(words) for t in gathered(pa.table({"w": words})))
        if not mine.column(name).type.ordered:
            used = set().union(*(t.column(name).to_pylist() for t in map(decoded, job))) - {None}
            assert words.to_pylist() == sorted(used)


def test_dictionaries_that_differ_per_pe(runtime: Runtime) -> None:
    """Case 05: values survive a shuffle when PEs bring different dictionaries."""
    words = ["apple", "pear"] if runtime.pe == 0 else ["citrus"]
    table = encoded([0, len(words) - 1, None], words)
    result = exchange.shuffle(table.append_column("b", pa.array([1, 2, 3])), ["b"])
    everything = [v for t in gathered(result) for v in t.column("d").to_pylist()]
    assert sorted(everything, key=str) == sorted(
        ["apple", "pear", None, *["citrus", "citrus", None] * (runtime.n_pes - 1)], key=str
    )
    assert dictionary_of(result) == sorted({"apple", "pear", *["citrus"] * (runtime.n_pes > 1)})


def test_codes_do_not_depend_on_row_order(runtime: Runtime) -> None:
    forth = exchange.replicate(encoded([0, 1, 2], ["b", "c", "a"]))
    back = exchange.replicate(encoded([2, 1, 0], ["c", "a", "b"]))
    assert dictionary_of(forth) == dictionary_of(back) == ["a", "b", "c"]
    assert forth.column("d").chunk(0).indices[:3].to_pylist() == [1, 2, 0]


def test_null_inside_a_dictionary_becomes_a_null_row(runtime: Runtime) -> None:
    result = exchange.replicate(encoded([0, 1, 2, None], ["a", None, "b"]))
    assert result.column("d").to_pylist() == ["a", None, "b", None] * runtime.n_pes
    assert result.column("d").null_count == 2 * runtime.n_pes
    assert dictionary_of(result) == ["a", "b"]


def test_words_no_row_uses_are_left_out(runtime: Runtime) -> None:
    assert dictionary_of(exchange.replicate(encoded([1], ["unused", "used"]))) == ["used"]


def test_equal_ordered_dictionaries_keep_their_order(runtime: Runtime) -> None:
    sizes = ["small", "medium", "large"]
    table = encoded([2, 0], sizes, ordered=True) if runtime.pe == 0 else encoded([], sizes, ordered=True)
    result = exchange.replicate(table)
    assert dictionary_of(result) == sizes
    assert result.column("d").type.ordered


def test_ordered_dictionaries_that_disagree_lose_the_order(runtime: Runtime) -> None:
    words = ["small", "large"] if runtime.pe == 0 else ["large", "small"]
    result = exchange.replicate(encoded([0], words, ordered=True))
    assert result.column("d").type.ordered == (runtime.n_pes == 1)
    assert sorted(dictionary_of(result)) == ["large", "small"]


def test_ordered_parts_of_one_order_keep_it(runtime: Runtime) -> None:
    words = ["a", "c"] if runtime.pe == 0 else ["b", "c"]
    result = exchange.replicate(encoded([0], words, ordered=True))
    assert result.column("d").type.ordered
    assert dictionary_of(result) == (["a", "c"] if runtime.n_pes == 1 else ["a", "b", "c"])


def test_an_empty_pe_does_not_spoil_the_order(runtime: Runtime) -> None:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    sizes = encoded([1], ["small", "large"], ordered=True)
    none = pa.table([pa.chunked_array([], kind)], ["d"])
    result = exchange.replicate(sizes if runtime.pe == 0 else none)
    assert result.column("d").to_pylist() == ["large"]
    assert dictionary_of(result) == ["small", "large"]


@pytest.mark.parametrize(
    "words",
    [
        [True, False],
        [2.5, float("nan"), -1.0],
        [Decimal("1.5"), Decimal("-2.5")],
        [dt.date(2013, 1, 2), dt.date(2013, 1, 1)],
        [dt.datetime(2013, 1, 2, tzinfo=dt.UTC)],
        [b"b", b"a"],
        [None],
    ],
    ids=lambda words: type(words[0]).__name__,
)
def test_dictionaries_of_other_types(runtime: Runtime, words: list[Any]) -> None:
    table = encoded([*range(len(words)), None], words)
    result = exchange.replicate(table)
    assert repr(result.column("d").to_pylist()) == repr(table.column("d").to_pylist() * runtime.n_pes)


def test_dictionaries_of_lists_name_their_column(runtime: Runtime) -> None:
    with pytest.raises(UnsupportedError, match="the dictionary of column 'd' cannot be unified"):
        exchange.replicate(encoded([0], [[1, 2]]))


def test_word_types_that_differ_name_pe_and_column(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("needs two PEs")
    with pytest.raises(SchemaError, match="'d' differs between PEs, got a dictionary of int64 on PE 1/"):
        exchange.replicate(encoded([0], [7] if runtime.pe == 1 else ["a"]))
