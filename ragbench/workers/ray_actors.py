"""The engine of a cluster: one Ray actor per processor, which makes its call once."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from ragbench.errors import ConfigError
from ragbench.plugins import require
from ragbench.workers.engines import Engine, Make, Worker, use_one_thread


@contextmanager
def ray_engine(address: str | None, workers: int | None) -> Generator[Engine]:
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
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield Engine(start=partial(_start, ray), count=count)
    finally:
        if not was_there:
            ray.shutdown()


def _start(ray: Any, make: Make) -> Worker:
    made: bytes = ray.cloudpickle.dumps(make)
    # Replaced by the pool when it ends: Ray would not say which batch was with it.
    remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)
    # It waits for what the cluster lacks: a free processor.
    actor = remote.remote(made, str(Path.cwd()), sys.path)
    known = ray.exceptions

    def close() -> None:
        with suppress(Exception):  # it has ended, or the cluster is gone
            ray.kill(actor)

    return Worker(
        call=lambda items: actor.call.remote(items).future(),
        close=close,
        ready=actor.is_there.remote().future(),
        losses=(known.RayActorError, known.ObjectLostError, known.WorkerCrashedError),
        unpack=_values,
    )


def _values(found: tuple[bool, Any]) -> Sequence[Any]:
    is_error, values = found
    if is_error:
        raise values
    return cast("Sequence[Any]", values)


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
