"""Calls in several processes: in order, few in flight, clear when a process dies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ragbench.errors import RunError
from ragbench.stages.processes import WorkerPool, available_cpus, map_in_processes


def squares() -> Callable[[int], tuple[int, int]]:
    return lambda number: (number * number, os.getpid())


def dying(at: int) -> Callable[[int], int]:
    def call(number: int) -> int:
        if number == at:
            os._exit(7)
        return number

    return call


def test_results_come_in_order_from_other_processes() -> None:
    found = list(map_in_processes(squares, range(200), workers=2, batch=8))
    assert [square for square, _ in found] == [number * number for number in range(200)]
    assert os.getpid() not in {pid for _, pid in found}


@pytest.mark.parametrize(("items", "workers"), [(10, 2), (200, 1), (0, 2)])
def test_few_items_or_one_worker_stay_here(items: int, workers: int) -> None:
    found = list(map_in_processes(squares, range(items), workers=workers, batch=8))
    assert found == [(number * number, os.getpid()) for number in range(items)]


def test_few_items_are_read_ahead() -> None:
    read = 0

    def counted() -> Iterator[int]:
        nonlocal read
        for number in range(10_000):
            read += 1
            yield number

    results = map_in_processes(squares, counted(), workers=2, batch=5)
    for _ in range(10):
        next(results)
    assert read < 100
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [1, 2])
def test_once_stopped_what_is_in_flight_is_finished(workers: int) -> None:
    done = 0
    results = map_in_processes(
        squares, range(1000), workers=workers, batch=4, stopped=lambda: done >= 10
    )
    found: list[int] = []
    for square, _ in results:
        done += 1
        found.append(square)
    assert 10 <= len(found) < 100
    assert found == [number * number for number in range(len(found))]


def test_a_process_that_dies_is_one_clear_error() -> None:
    with pytest.raises(RunError, match="a worker process ended without a result"):
        list(map_in_processes(partial(dying, 50), range(100), workers=2, batch=8))


def test_a_pool_that_broke_between_batches_says_so_when_the_batch_is_taken() -> None:
    with WorkerPool(partial(dying, 0), workers=2, batch=1) as pool:
        first = [pool.begin([number]) for number in range(2)]
        with pytest.raises(RunError):
            list(pool.take(first[0]))
        later = pool.begin([2])  # the executor refuses it
        with pytest.raises(RunError, match="a worker process ended without a result"):
            list(pool.take(later))


def test_a_process_that_dies_while_all_is_stopped_is_no_error() -> None:
    asked = iter([False] * 4)  # batches are begun; then a signal ends this process and its workers
    call = partial(dying, 3)
    found = map_in_processes(
        call, range(200), workers=2, batch=8, stopped=lambda: next(asked, True)
    )
    assert list(found) == []


def in_threads(make: Callable[[], Callable[[int], Any]], items: range) -> Iterator[Any]:
    """What two threads give, taken while the next calls are in flight."""
    with WorkerPool(make, workers=2, threads=True) as pool:
        begun = [pool.begin(batch) for batch in pool.cut(items)]
        for batch in begun:
            yield from pool.take(batch)


def test_threads_keep_the_order_and_work_side_by_side() -> None:
    both = threading.Barrier(2, timeout=30)

    def meeting() -> Callable[[int], int]:
        def call(number: int) -> int:
            both.wait()  # passes only when two calls are in flight
            return number

        return call

    assert list(in_threads(meeting, range(20))) == list(range(20))


def test_an_error_in_a_thread_comes_in_its_place() -> None:
    found: list[float] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(in_threads(lambda: lambda n: 1 / (3 - n), range(10)))
    assert found == [1 / 3, 1 / 2, 1 / 1]


def test_heavy_items_make_small_batches() -> None:
    with WorkerPool(squares, workers=2) as pool:
        light, heavy = list(pool.cut(range(64))), list(pool.cut(range(64), lambda _: 300_000))
        few = list(pool.cut(range(31)))
    assert [len(batch) for batch in light] == [16] * 4
    assert [len(batch) for batch in heavy] == [4] * 16
    assert few == [[number] for number in range(31)]  # too few to be worth a process


def test_what_is_dropped_is_not_called() -> None:
    called: list[int] = []
    with WorkerPool(lambda: called.append, workers=1) as pool:
        first, second, third = (pool.begin([number]) for number in range(3))
        assert pool.drop(second)
        for batch in (first, third):
            list(pool.take(batch))
        assert pool.drop(pool.begin([]))
    assert called == [0, 2]


def test_there_is_a_processor() -> None:
    assert available_cpus() >= 1
