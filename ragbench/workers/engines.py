"""Where workers run: processes of this machine, or a cluster."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, NoReturn, cast

from ragbench.core.record import Record
from ragbench.errors import ConfigError, RunError
from ragbench.plugins import require
from ragbench.safe_text import did_you_mean

_CONTINUE = "Finished work is stored: the same command continues, on this or another --engine"
"""The end of messages about workers that cannot go on."""

Make = Callable[[], Callable[[Sequence[Any]], Sequence[Any]]]
"""Makes what a worker calls: one value per item of a batch. A function of a module, or a partial of
one: it is called once in each worker."""


class WorkerLostError(Exception):
    """A worker ended, and whatever it was given is lost with it."""


class Worker(Record):
    """One process or actor that makes calls, as the pool sees both."""

    call: Callable[[Sequence[Any]], Future[Any]]
    close: Callable[[], None]
    """Ends the worker; nothing happens where it has ended."""
    ready: Future[Any] | None = None
    """Done when the worker can be given batches; None where that is at once."""
    losses: tuple[type[Exception], ...] = ()
    """Errors by which its engine says that it has ended."""

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Gives the worker a batch of items, and returns the future of their values.

        Engines say in different ways that a worker has ended: here they become one error.

        Raises:
            WorkerLostError: the worker has ended.
        """
        try:
            return self.call(items)
        except self.losses as error:
            raise WorkerLostError from error

    def result(self, future: Future[Any]) -> Sequence[Any]:
        """The values of a batch that the worker has computed, or the error of its call.

        An actor hands errors over as values (see `_Actor.call`): only here they are raised.

        Raises:
            WorkerLostError: the worker ended while it had the batch.
        """
        try:
            values = future.result()
        except self.losses as error:
            raise WorkerLostError from error
        if isinstance(values, Exception):  # handed over as it was raised
            raise values
        return cast("Sequence[Any]", values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """How workers are started, how many, and how much each is given."""

    start: Callable[[Make], Worker]
    count: int = 1
    capacity: int = 2
    """Batches that a worker is given at a time: enough that it is never idle."""
    batch: int = 16
    check: Callable[[], None] = lambda: None
    """Raises when no worker can ever work again; called while none of them gives anything."""
    fewest: int | None = 0
    """Batches that must wait before workers are worth their start. None starts none ever: all is
    called in this thread."""


ENGINES = ("local", "processes", "ray")
"""The kinds that a user may name; ``ray`` also with the address of a cluster."""


def check_engine(text: str) -> str:
    """The kind of engine that a text names: ``local``, ``processes`` or ``ray``.

    Checked when a command begins, so that no run fails later for a misspelled engine. An engine
    starts the workers of a run: none, processes of this machine, or a cluster's actors.

    Raises:
        ConfigError: the text names none of these kinds; the error may suggest one.
    """
    # With an address, "ray://" alone is refused: it names no cluster.
    kind, separator, address = text.partition("://")
    is_allowed_address = not separator or (kind == "ray" and bool(address))
    if kind not in ENGINES or not is_allowed_address:
        meant = did_you_mean(text, ENGINES)
        raise ConfigError(
            f"--engine {text}: expected local, processes, ray or ray://HOST:PORT.{meant}"
        )
    return kind


def import_engine(text: str) -> None:
    """Imports an engine's package, so that a missing one is reported before a run begins.

    An engine starts the workers of a run: processes of this machine, or actors of a Ray cluster.
    """
    if check_engine(text) == "ray":
        _import_ray()


def _import_ray() -> Any:
    """The package Ray; where it is missing, one clear error names the extra that brings it.

    Ray would report its use to its makers: a variable keeps it from that.
    """
    # Ray reports each start to its makers, unless it is kept from it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return require("ray", extra="ray")


@contextmanager
def opened_engine(text: str, *, workers: int | None = None) -> Generator[Engine]:
    """The engine that ``--engine`` names, open until the block ends.

    Where one process is enough, no other is started: this one does the work.

    Args:
        text: ``local``, ``processes``, ``ray`` or the address of a cluster.
        workers: how many; None for one per processor.
    """
    kind = check_engine(text)
    if kind == "ray":
        address = None if text == kind else text
        with ray_engine(address, workers) as engine:
            yield engine
        return
    if kind == "local":
        yield engine_here()
        return
    count = workers or available_cpus()
    if count == 1:
        yield engine_here()
    else:
        # Each process is started anew, so that it holds no locks of this one. A single
        # batch cannot be shared out: called here, it spares the start of a process.
        yield Engine(start=_start_process, count=count, fewest=2)


def available_cpus() -> int:
    """How many processors this process may use, which can be fewer than the machine has.

    In a container or a batch job, more workers than that would only wait for each other.
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def engine_here() -> Engine:
    """The engine without workers: a call is made in this thread when its value is taken.

    For few or cheap calls: to start processes would take longer than the calls themselves.
    """
    return Engine(start=_refuse_start, capacity=1, batch=1, fewest=None)


def _refuse_start(make: Make) -> NoReturn:
    """Refuses to start a worker, for the engine that makes all calls in this thread.

    It is never called, as that engine sets `Engine.fewest` to None.
    """
    raise RunError("calls are made here: no worker is started")


def _start_process(make: Make) -> Worker:
    """Starts a worker that is a process of this machine, for one desk of the pool.

    Each has an executor of its own: an executor in which a process dies is broken as a whole. The
    process begins anew, so whatever makes the call must be importable there.

    Raises:
        ConfigError: the call is defined in a program that the process cannot import.
    """
    # An executor for each: one that a process dies in is broken as a whole.
    context = get_context("spawn")
    executor = ProcessPoolExecutor(
        1, mp_context=context, initializer=_begin_process, initargs=(make,)
    )
    # A function or class of the script itself is pickled by that name: the process must import it.
    needs_script = b"__main__" in pickle.dumps(make)
    if needs_script:
        script = getattr(sys.modules["__main__"], "__file__", None)
        # A script with the test of `__name__` may be run again in the process; one without it, not.
        if script is None or "__main__" not in Path(script).read_text("utf-8", "replace"):
            raise ConfigError(
                "workers cannot import a class or function of the program itself: move it into a "
                "module, or start workers below \"if __name__ == '__main__':\" of a script"
            )
    start_scope = nullcontext() if needs_script else _without_main()
    with start_scope:
        ready = executor.submit(os.getpid)  # starts the process
    return Worker(
        call=lambda items: executor.submit(_values_of_batch, items),
        close=partial(executor.shutdown, cancel_futures=True),
        ready=ready,
        losses=(BrokenProcessPool,),
    )


_starting = threading.Lock()
"""Held while the main module is changed: two starts at once would restore each other's state."""


@contextmanager
def _without_main() -> Generator[None]:
    """Lets a new process begin in the block without running the program's script again.

    Python's ``spawn`` runs the main module in each new process: a script without ``if __name__ ==
    '__main__':`` would begin its work again.
    """
    main = vars(sys.modules["__main__"])
    with _starting:
        as_it_was: dict[str, Any] = {}
        for name in ("__spec__", "__file__"):
            if name in main:
                as_it_was[name] = main[name]
        # `spawn` finds the script by either of the two names: with one left, it would be run.
        main["__spec__"] = None
        main.pop("__file__", None)
        try:
            yield
        finally:
            main.update(as_it_was)


# --- on a cluster: a Ray actor per processor, which makes its call once


@contextmanager
def ray_engine(address: str | None, workers: int | None) -> Generator[Engine]:
    """Connects to a Ray cluster for the block, or starts a Ray on this machine that ends with it.

    Args:
        address: the cluster's; None for Ray's own variable, or this machine.
        workers: how many actors; None for one per processor of the cluster.

    Raises:
        ConfigError: Ray is missing or cannot be used there.
    """
    before = signal.getsignal(signal.SIGTERM)  # Ray takes it for itself
    ray = _import_ray()
    # A cluster that runs already has a dashboard or not: None leaves it so.
    include_dashboard = False if address is None else None
    was_there = bool(ray.is_initialized())
    try:
        if not was_there:
            ray.init(
                address,
                include_dashboard=include_dashboard,
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
        check = _ClusterCheck(ray)
        yield Engine(start=partial(_start_actor, ray), count=count, check=check)
    finally:
        if not was_there:
            ray.shutdown()


_ANSWER = 5.0
"""Seconds in which a cluster says which nodes it has."""
_NEW_NODE = 600.0
"""Seconds that a cluster without a processor is given to get one, as an autoscaler does."""


class _ClusterCheck:
    """Ray waits for ever for a cluster that has ended."""

    def __init__(self, ray: Any) -> None:
        """Takes the package Ray, which is connected to the cluster that is to be checked.

        The pool calls the check while no worker gives anything.
        """
        self._ray = ray
        self._since: float | None = None
        """Since when the cluster has had no processor; None while it has one."""

    def __call__(self) -> None:
        """Ends a run that waits for a cluster which will never answer again.

        Called while no worker gives anything: Ray itself would wait for ever.

        Raises:
            RunError: the cluster has ended, or has had no processor for too long.
        """
        # An empty list is also a cluster that gave no answer in time: both mean that it is gone.
        alive = [node for node in self._nodes() if node["Alive"]]
        if not alive:
            raise RunError(f"Ray's nodes have ended, perhaps for lack of memory. {_CONTINUE}")
        has_processor = any(node["Resources"].get("CPU") for node in alive)
        if has_processor:
            self._since = None
            return
        # Counted from the first check without a processor, not from the start of the run.
        if self._since is None:
            self._since = time.monotonic()
        if time.monotonic() - self._since > _NEW_NODE:
            raise RunError(f"no node of Ray has had a processor for 10 minutes. {_CONTINUE}")

    def _nodes(self) -> Sequence[Any]:
        """The nodes that the Ray cluster reports; none where it does not answer within seconds.

        A cluster that has ended would let this call wait for ever.
        """
        nodes: list[Any] = []
        # In a thread of its own: a cluster that has ended never answers.
        asking = threading.Thread(target=self._add_nodes, args=(nodes,), daemon=True)
        asking.start()
        asking.join(_ANSWER)
        return nodes

    def _add_nodes(self, nodes: list[Any]) -> None:
        """Adds the cluster's nodes to a list, if the cluster answers; it may wait for ever.

        Runs in a thread of its own, which is given up after some seconds: so the result is a list
        of the caller's, and no error leaves the thread.
        """
        with suppress(Exception):
            nodes.extend(self._ray.nodes())


def _start_actor(ray: Any, make: Make) -> Worker:
    """Starts a worker that is an actor of the Ray cluster; it waits for a free processor there.

    The actor gets the function `make`, which makes the call of the worker, as pickled bytes. It
    imports modules from the same folders as this process.
    """
    pickled_make: bytes = ray.cloudpickle.dumps(make)
    # No restarts by Ray, which would not say which batch the lost actor had: the pool starts
    # another actor in place of one that ends.
    remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)
    # Ray keeps an actor waiting, without an error, until the cluster has a free processor.
    actor = remote.remote(pickled_make, str(Path.cwd()), sys.path)
    errors = ray.exceptions
    return Worker(
        call=lambda items: actor.call.remote(items).future(),
        close=partial(_end_actor, ray, actor),
        ready=actor.is_there.remote().future(),
        losses=(errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError),
    )


def _end_actor(ray: Any, actor: Any) -> None:
    """Ends an actor of the cluster, which frees its processor; an ended one is left as it is.

    The pool calls it for each worker at its end, also for one that was lost.
    """
    with suppress(Exception):  # it has ended, or the cluster is gone
        ray.kill(actor)


class _Actor:
    """What works on a cluster's node, made ready there to import what the driver can import."""

    def __init__(self, make: bytes, folder: str, path: Sequence[str]) -> None:
        """Prepares the process of a cluster's node to import what the driver can import.

        Args:
            make: makes the call, pickled: it is unpickled once the driver's paths are known.
            folder: the driver's working directory.
            path: where the driver imports from.
        """
        use_one_thread()
        with suppress(OSError):  # the folder may be on the driver's machine alone
            os.chdir(folder)
        sys.path += [entry for entry in path if entry not in sys.path]
        self._make = make
        self._call: Callable[[Sequence[Any]], Sequence[Any]] | None = None

    def is_there(self) -> Sequence[Any]:
        """Returns at once, before any batch: by its result Ray says that the actor has begun.

        A new actor waits for a free processor, for minutes on a full cluster.
        """
        return ()

    def call(self, items: Sequence[Any]) -> Sequence[Any] | Exception:
        """The values of a batch, or the error as a value: raised here, it would be Ray's own.

        An error that cannot be pickled becomes a plain one with its type and text.
        """
        try:
            call = self._call
            if call is None:
                call = pickle.loads(self._make)()
                self._call = call
            return list(call(items))
        except Exception as error:  # noqa: BLE001  # raised again by the driver
            with suppress(Exception):
                pickle.loads(pickle.dumps(error))
                return error
            return RuntimeError(f"{type(error).__name__}: {error}")


# --- in a worker process

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which numeric libraries read how many threads they may use."""
_make: Make
"""What makes this process' call: given to it at its start."""
_made: Callable[[Sequence[Any]], Sequence[Any]] | None = None
"""The call itself; None before the first batch."""


def use_one_thread() -> None:
    """Keeps numeric libraries of a worker to one thread each: the workers fill the processors.

    A value that the user has set stays. It has to be called before such a library is imported.
    """
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")


def _begin_process(make: Make) -> None:
    """Prepares a new worker process; the call itself is made with the first batch.

    An interruption is left to the parent, which decides how a run ends.
    """
    global _make
    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=end_with_parent, daemon=True).start()
    _make = make


def end_with_parent() -> None:
    """Waits for the end of the parent process, and then ends this worker process.

    A parent that is killed cannot end its workers; they would go on for ever. Runs in a thread.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _values_of_batch(items: Sequence[Any]) -> list[Any]:
    """The values of a batch in a worker process, which finds this function by its name.

    The call is made with the first batch and kept: an error of making it must get to the parent,
    which it would not at the start of the process.
    """
    global _made
    if _made is None:  # not when it starts: what it raises must get to the parent
        _made = _make()
    return list(_made(items))
