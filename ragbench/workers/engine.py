"""The protocol of an engine: where workers run, and how one is started, asked and ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

from ragbench.errors import ConfigError

__all__ = [
    "ENGINES",
    "Engine",
    "Make",
    "Worker",
    "WorkerLostError",
    "available_cpus",
    "check_engine",
    "opened_engine",
]

Make = Callable[[], Callable[[Sequence[Any]], Sequence[Any]]]
"""Makes what a worker calls: one value per item of a batch. A function of a module, or a partial of
one: it is called once in each worker."""

ENGINES = ("local", "processes", "ray")


class WorkerLostError(Exception):
    """A worker ended, and whatever it was given is lost with it."""


class Worker(Protocol):
    """Computes batches, one after the other."""

    @property
    def ready(self) -> Future[Any] | None:
        """Done when the worker can be given batches; None where that is at once."""
        ...

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Hands a batch over.

        Raises:
            WorkerLostError: the worker has ended.
        """
        ...

    def result(self, future: Future[Any]) -> Sequence[Any]:
        """What a finished batch gave.

        Raises:
            WorkerLostError: the worker ended before it was through.
            Exception: the call raised it.
        """
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


def check_engine(text: str) -> str:
    """The kind of engine that a text names: ``local``, ``processes`` or ``ray``.

    Raises:
        ConfigError: it names none.
    """
    kind, separator, address = text.partition("://")
    if kind not in ENGINES or (separator and (kind != "ray" or not address)):
        raise ConfigError(f"--engine {text}: expected local, processes, ray or ray://HOST:PORT")
    return kind


@contextmanager
def opened_engine(text: str, *, workers: int | None = None, threads: int = 1) -> Generator[Engine]:
    """Opens an engine.

    Args:
        text: ``"local"``: this process; ``"processes"``: processes of this machine; ``"ray"``: the
            cluster that ``RAY_ADDRESS`` names or this machine belongs to, else a Ray of its own;
            ``"ray://HOST:PORT"``: that cluster.
        workers: how many; by default one per processor, of this machine or of the cluster.
        threads: for ``local``: calls in flight, for calls that wait for something.

    Raises:
        ConfigError: no such engine, or the cluster cannot be reached.
        MissingExtraError: Ray is not installed.
    """
    from ragbench.workers.processes import Processes, Threads

    kind = check_engine(text)
    if kind == "ray":
        from ragbench.workers.ray_actors import ray_engine

        with ray_engine(None if text == kind else text, workers) as engine:
            yield engine
    elif kind == "processes":
        count = workers or available_cpus()
        yield Threads(1) if count == 1 else Processes(count)
    else:
        yield Threads(threads)
