"""Batches of work in flight, whose results come back in the order in which they were begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["in_order", "map_in_threads"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")


def in_order(
    submit: Callable[[Sequence[ItemT]], Future[list[ValueT]]],
    items: Iterator[ItemT],
    *,
    in_flight: int,
    batch: int,
    stopped: Callable[[], bool],
) -> Iterator[ValueT]:
    """Yields results in the order of the items.

    Args:
        submit: begins the work on a batch.
        items: read as results are taken.
        in_flight: batches that are begun and not yet taken, at most.
        batch: items in each.
        stopped: asked before a batch is begun; once true, those in flight are finished.
    """
    waiting: deque[Future[list[ValueT]]] = deque()
    while True:
        while len(waiting) < in_flight and not stopped():
            taken = list(islice(items, batch))
            if not taken:
                break
            waiting.append(submit(taken))
        if not waiting:
            return
        yield from waiting.popleft().result()


def map_in_threads(
    make: Callable[[], Callable[[ItemT], ValueT]],
    items: Iterable[ItemT],
    *,
    workers: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[ValueT]:
    """Yields what a call gives for each item, in order, for calls that wait for something.

    Args:
        make: makes the call, once; it must bear calls from several threads.
        items: read as results are taken.
        workers: calls side by side.
        stopped: asked before each call; once true, what is in flight is finished.
    """
    call = make()

    def one(batch: Sequence[ItemT]) -> list[ValueT]:
        return [call(item) for item in batch]

    pool = ThreadPoolExecutor(workers)
    try:
        yield from in_order(
            lambda batch: pool.submit(one, batch),
            iter(items),
            in_flight=2 * workers,
            batch=1,
            stopped=stopped,
        )
    finally:
        pool.shutdown(cancel_futures=True)
