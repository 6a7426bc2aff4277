# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading

import numpy as np
import pytest

from flightshmem.errors import (
    ColumnNotFound,
    HeapExhausted,
    InvalidArgument,
    PeerLost,
    RemoteError,
    TransportError,
)
from flightshmem.runtime import Runtime
from flightshmem.testing import SeenElsewhere, agree, agreed


def last_pe(runtime: Runtime) -> int:
    return runtime.n_pes - 1


def test_converge_without_error(runtime: Runtime) -> None:
    with runtime.converge("work"):
        value = runtime.pe
    assert value == runtime.pe


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("[merge] wrong, got 5"),
        ColumnNotFound("[select] no such column, got 'x'"),
        HeapExhausted("[persist] no room", requested=10, free=3, largest=2, pe=7),
        PeerLost("[barrier] gone"),
    ],
)
def test_converge_raises_ours_everywhere(runtime: Runtime, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, runtime.converge("work"):
        if runtime.pe == last_pe(runtime):
            raise error
    if runtime.pe == last_pe(runtime):
        assert caught.value is error
    else:
        assert str(caught.value) == f"PE {last_pe(runtime)}: {error}"
        public = {name: value for name, value in vars(caught.value).items() if not name.startswith("_")}
        assert public == vars(error)


def test_converge_raises_foreign_errors_as_remote(runtime: Runtime) -> None:
    expected = ZeroDivisionError if runtime.pe == 0 else RemoteError
    with pytest.raises(expected) as caught, runtime.converge("divide"):
        if runtime.pe == 0:
            1 / 0  # noqa: B018
    if runtime.pe != 0:
        assert str(caught.value) == "[divide] failed on PE 0: ZeroDivisionError: division by zero"


def test_first_failing_pe_wins_and_the_others_keep_their_own(runtime: Runtime) -> None:
    with pytest.raises((InvalidArgument, PeerLost)) as caught, runtime.converge("work"):
        if runtime.pe == 1:
            raise InvalidArgument("one")
        if runtime.pe != 0:
            raise PeerLost("later")
        if runtime.n_pes == 1:
            raise InvalidArgument("PE 1: one")
    assert str(caught.value) == ["PE 1: one", "one", "later"][runtime.pe]


def test_errors_survive_odd_texts_and_fields(runtime: Runtime) -> None:
    error = InvalidArgument("ünïcode \udcff \0 {braces}")
    error.cause_list = [1, 2]  # type: ignore[attr-defined]  # not plain: stays behind
    with pytest.raises(InvalidArgument) as caught, runtime.converge("work"):
        if runtime.pe == 0:
            raise error
    assert str(caught.value).endswith("\udcff \0 {braces}")


def test_broadcast_and_allgather(runtime: Runtime) -> None:
    assert runtime.broadcast(b"from zero" if runtime.pe == 0 else b"") == b"from zero"
    assert runtime.allgather(b"x" * runtime.pe) == [b"x" * pe for pe in range(runtime.n_pes)]


def test_reduce_leaves_its_argument(runtime: Runtime) -> None:
    mine = np.arange(4.0) + runtime.pe
    total = runtime.reduce(mine)
    np.testing.assert_array_equal(mine, np.arange(4.0) + runtime.pe)
    np.testing.assert_array_equal(total, np.arange(4.0) * runtime.n_pes + sum(range(runtime.n_pes)))


def test_reduce_of_any_shape_and_order(runtime: Runtime) -> None:
    matrix = np.asfortranarray(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(runtime.reduce(matrix, "max"), matrix)
    assert runtime.reduce(np.int64(runtime.pe), "max") == runtime.n_pes - 1
    assert runtime.reduce(np.empty((0, 3))).shape == (0, 3)
    assert runtime.reduce([[1, 2]], "prod").shape == (1, 2)


def test_reduce_of_booleans(runtime: Runtime) -> None:
    mine = np.array([runtime.pe == 0, True, False])
    assert list(runtime.reduce(mine, "or")) == [True, True, False]
    assert list(runtime.reduce(mine, "and")) == [runtime.n_pes == 1, True, False]
    assert runtime.reduce(mine, "or").dtype == np.bool_
    with pytest.raises(InvalidArgument, match="booleans"):
        runtime.reduce(mine, "sum")


def test_only_the_owning_thread_may_call(runtime: Runtime) -> None:
    errors: list[Exception] = []

    def call() -> None:
        try:
            runtime.barrier()
        except TransportError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_agree_brings_pes_back_into_step(runtime: Runtime) -> None:
    if runtime.n_pes == 1:
        pytest.skip("one PE is always in step")
    with pytest.raises(AssertionError) as caught, agree("inner"):
        assert runtime.pe != 1, "own"
        for size in range(5):
            runtime.allgather(bytes(size))
            runtime.barrier()
    assert isinstance(caught.value, SeenElsewhere) == (runtime.pe != 1)
    assert runtime.allgather(b"in step") == [b"in step"] * runtime.n_pes


def test_agreed_raises_the_same_everywhere(runtime: Runtime) -> None:
    @agreed
    def body() -> str:
        if runtime.pe == last_pe(runtime):
            raise ValueError("own")
        return "fine"

    with pytest.raises(AssertionError, match=f"example failed on PE {last_pe(runtime)}"):
        body()
