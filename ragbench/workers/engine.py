"""The protocol of an engine: where workers run, and how one is started, asked and ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

Make = Callable[[], Callable[[Sequence[Any]], Sequence[Any]]]
"""Makes what a worker calls: one value per item of a batch. A function of a module, or a partial of
one: it is called once in each worker."""


class WorkerLostError(Exception):
    """A worker ended, and whatever it was given is lost with it."""


class Worker(Protocol):
    """Computes batches, one after the other."""

    @property
    def ready(self) -> Future[Any] | None:
        """Done when the worker can be given batches; None where that is at once."""
        ...

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Hands a batch over."""
        ...

    def result(self, future: Future[Any]) -> Sequence[Any]:
        """What a finished batch gave."""
        ...

    def close(self) -> None:
        """Ends the worker; nothing happens where it has ended."""
        ...


class Engine(Protocol):
    """Where workers run."""

    @property
    def count(self) -> int:
        """How many workers there are at most."""
        ...

    @property
    def capacity(self) -> int:
        """Batches that a worker is given at a time: enough that it is never idle."""
        ...

    @property
    def batch(self) -> int:
        """Items per batch, where nobody says."""
        ...

    @property
    def fewest(self) -> int | None:
        """Batches that must wait before workers are worth their start.

        None starts none ever: all is called in this thread.
        """
        ...

    def start(self, make: Make) -> Worker:
        """Starts a worker."""
        ...


def available_cpus() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
