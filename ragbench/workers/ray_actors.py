"""The engine of a cluster: one Ray actor per processor, which makes its call once."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.plugins import require
from ragbench.workers.engine import Make, WorkerLostError
from ragbench.workers.processes import use_one_thread


@contextmanager
def ray_engine(address: str | None, workers: int | None) -> Generator[RayActors]:
    """Connects to a cluster, or starts a Ray on this machine that ends with this."""
    # Ray reports each start to its makers and takes SIGTERM for itself, unless it is kept from it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = signal.getsignal(signal.SIGTERM)
    ray: Any = require("ray", extra="ray")
    was_there = bool(ray.is_initialized())
    try:
        if not was_there:
            ray.init(
                address,
                include_dashboard=False if address is None else None,
                configure_logging=False,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "this machine"
        raise ConfigError(f"Ray cannot be used at {where}: {error}") from error
    finally:
        with suppress(ValueError, TypeError):  # not the main thread: nothing was changed
            signal.signal(signal.SIGTERM, before)
    try:
        yield RayActors(ray, workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        if not was_there:
            ray.shutdown()


@dataclass(frozen=True, slots=True)
class RayActors:
    """Actors of a cluster."""

    ray: Any
    count: int
    capacity: int = 2
    batch: int = 16
    fewest: int | None = 0

    def start(self, make: Make) -> _RayWorker:
        """See `Engine.start`. What the actor lacks by then, it waits for: a free processor."""
        made: bytes = self.ray.cloudpickle.dumps(make)
        # Replaced by the pool when it ends: Ray would not say which batch was with it.
        remote = self.ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)
        actor = remote.remote(made, str(Path.cwd()), sys.path)
        return _RayWorker(self.ray, actor, actor.is_there.remote().future())


@dataclass(frozen=True, slots=True)
class _RayWorker:
    ray: Any
    actor: Any
    ready: Future[Any]

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        try:
            future: Future[Any] = self.actor.call.remote(items).future()
        except self._losses() as error:
            raise WorkerLostError from error
        return future

    def result(self, future: Future[Any]) -> Any:
        try:
            is_error, found = future.result()
        except self._losses() as error:
            raise WorkerLostError from error
        if is_error:
            raise found
        return found

    def close(self) -> None:
        with suppress(Exception):  # it has ended, or the cluster is gone
            self.ray.kill(self.actor)

    def _losses(self) -> tuple[type[Exception], ...]:
        known = self.ray.exceptions
        return (known.RayActorError, known.ObjectLostError, known.WorkerCrashedError)


# --- on the cluster


class _Actor:
    """Calls, in a process of the cluster."""

    def __init__(self, make: bytes, folder: str, path: Sequence[str]) -> None:
        use_one_thread()
        with suppress(OSError):
            os.chdir(folder)
        sys.path += [one for one in path if one not in sys.path]
        self._make = make
        self._call: Callable[[Sequence[Any]], Sequence[Any]] | None = None

    def is_there(self) -> tuple[bool, Any]:
        return False, ()

    def call(self, items: Sequence[Any]) -> tuple[bool, Any]:
        """Whether it raised, and what it raised or gave."""
        try:
            call = self._call = self._call or pickle.loads(self._make)()
            return False, [*call(items)]
        except Exception as error:  # noqa: BLE001  # raised again by the driver
            with suppress(Exception):
                pickle.loads(pickle.dumps(error))
                return True, error
            return True, RuntimeError(f"{type(error).__name__}: {error}")
