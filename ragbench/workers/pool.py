"""Batches to workers, begun ahead and taken in order; lost workers replaced, their batches redone.

All is done in the thread that begins and takes: no locks, and no call into an engine from a thread
of its own. A batch that was with a worker when it ended is given again, alone; lost alone, it is
cut into its items, so that one that takes workers down costs one item.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, TypeVar

from ragbench.errors import RunError, warn
from ragbench.workers.engines import Engine, Worker, WorkerLostError

AnyT = TypeVar("AnyT")
ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

_HEAVIEST = 1 << 20
"""A batch ends early that weighs more (callers weigh an item by its characters): memory must not
depend on what an item holds."""
_QUIET = 5.0
"""Seconds without a result after which the engine is looked at."""
_LOSSES = 3
"""Workers that a single item may take down before it is given up."""
_BATCHES_PER_PLACE = 2
"""Batches for each worker where items are shared out: a slow one is evened out by the others."""
_LOST = (
    "a worker process ended without a result, perhaps for lack of memory. Try again with fewer "
    "--workers"
)
_REPLACED = "a worker ended and is replaced; what it had in hand is computed again"

Map = Callable[[Sequence[ItemT]], Sequence[ValueT]]
"""One value per item of a batch."""


class Task(NamedTuple):
    """An item for workers that make several kinds of calls."""

    kind: str
    input: Any


def by_kind(makes: Mapping[str, Callable[[], Map[Any, Any]]]) -> Map[Task, Any]:
    """A call for workers with several kinds of work, each of which is made when first needed.

    A model of a kind that a worker never gets is so never loaded there. All tasks of a batch are of
    one kind.

    Args:
        makes: kind to the function that makes its call.
    """
    calls: dict[str, Map[Any, Any]] = {}
    return partial(_call_of_kind, makes, calls)


def _call_of_kind(
    makes: Mapping[str, Callable[[], Map[Any, Any]]],
    calls: dict[str, Map[Any, Any]],
    tasks: Sequence[Task],
) -> Sequence[Any]:
    """The values of a batch's tasks, which are all of the kind of the first one.

    Args:
        makes: makes the call of each kind, such as by loading a model.
        calls: the calls that this worker has made already, by kind; takes a new one.
        tasks: the batch.
    """
    # One kind per batch, or an input would go to the wrong model: whoever cuts batches sees to it.
    kind = tasks[0].kind
    if kind not in calls:
        calls[kind] = makes[kind]()
    return calls[kind]([task.input for task in tasks])


@dataclass(eq=False, slots=True)
class Batch(Generic[ItemT, ValueT]):
    """Items that one call is made with, and what became of it: values, an error, or parts."""

    items: Sequence[ItemT]
    values: Sequence[ValueT] | None = None
    """What its call gave; None until it is done."""
    error: BaseException | None = None
    parts: list[Batch[ItemT, ValueT]] = field(default_factory=list["Batch[ItemT, ValueT]"])
    """Its items, each on its own, once it was lost too often."""
    losses: int = 0
    """Workers that ended while they had it."""

    @property
    def is_done(self) -> bool:
        """Whether the batch has its values or an error, and can be taken.

        A batch that was cut into its items is done once each of them is.
        """
        if self.parts:
            return all(part.is_done for part in self.parts)
        return self.values is not None or self.error is not None


@dataclass(eq=False, slots=True)
class _Desk:
    """A worker's place: who works there, and at what."""

    worker: Worker
    futures: dict[Future[Any], Batch[Any, Any] | None] = field(
        default_factory=dict[Future[Any], "Batch[Any, Any] | None"]
    )
    """What is in flight; None for a worker that is on its way."""

    def room(self, capacity: int, *, alone: bool) -> bool:
        """Whether the worker at this desk, which is its place in the pool, may get a batch.

        Args:
            capacity: batches that a worker holds at a time.
            alone: whether the batch was lost with another worker: it must be alone, so that it is
                seen which batch ends workers.
        """
        batches = self.futures.values()
        if alone:
            return not batches
        for batch in batches:
            if batch is None or batch.losses:  # it is starting, or has one that is to be alone
                return False
        return len(batches) < capacity


class WorkerPool(AbstractContextManager["WorkerPool[Any, Any]"], Generic[ItemT, ValueT]):
    """Makes calls by the workers of an engine; results are taken in the order they were begun.

    Workers are started when enough items wait to be worth them. What is taken before that is called
    in this thread, item by item, when it is taken.
    """

    def __init__(
        self,
        make: Callable[[], Map[ItemT, ValueT]],
        engine: Engine,
        *,
        batch: int | None = None,
        lost: Callable[[ItemT], ValueT] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Takes the call and the engine; no worker is started before enough items wait.

        Args:
            make: makes the call; each worker does so once, where it runs.
            batch: items of a batch, where the engine takes several at a time.
            lost: gives the value of an item that takes workers down; without it, that is an error.
            stopped: whether the user has ended the command: then no worker is replaced.
        """
        self._make = make
        self._engine = engine
        self._size = engine.batch  # items of a batch
        if batch is not None and engine.batch > 1:
            self._size = batch
        self._fewest: int | None = None
        """How many items must wait before workers are started; None where none are started."""
        self.ahead = 0
        """Batches to begin before the first one is taken, so that no worker is ever idle."""
        if engine.fewest is not None:
            self._fewest = engine.fewest * self._size
            # For each worker the batches that it holds and one more; less the one that the caller
            # takes at once.
            self.ahead = engine.count * (engine.capacity + 1) - 1
        self._lost = lost
        self._stopped = stopped
        self._here: Map[ItemT, ValueT] | None = None
        """The call that this process makes itself for items that are too few to start workers;
        None until it is first needed."""
        self.desks: list[_Desk] = []
        """A desk for each worker; while there is none, the caller's own process makes the calls."""
        self._waiting: deque[Batch[ItemT, ValueT]] = deque()
        """Batches that no worker has, in the order in which workers get them."""
        self._in_a_row = 0
        """Workers lost since the last result."""

    def __exit__(self, *_: object) -> None:
        """Ends the pool's workers, and drops the batches that none of them has begun.

        A process ends the batch that it is at before; its values are lost with the pool.
        """
        self._waiting.clear()
        for desk in self.desks:
            desk.worker.close()

    def cut(
        self, items: Iterable[AnyT], weight: Callable[[AnyT], int] = lambda _: 0
    ) -> Iterator[list[AnyT]]:
        """Cuts items into batches for the workers; too few items for workers come one by one.

        Args:
            weight: how much of a batch an item fills, such as its characters: see `_HEAVIEST`.
        """
        source = iter(items)
        beginning: list[AnyT] = []
        if self._fewest is not None:
            # As many items are read ahead as are worth workers: fewer mean that the input ended
            # before.
            beginning = list(islice(source, self._fewest))
        if self._fewest is None or len(beginning) < self._fewest:
            for item in chain(beginning, source):
                yield [item]
            return
        batch: list[AnyT] = []
        batch_weight = 0
        for item in chain(beginning, source):
            batch.append(item)
            batch_weight += weight(item)
            # Ends after the item that fills it: a single item heavier than the limit is still given
            # out.
            if len(batch) >= self._size or batch_weight >= _HEAVIEST:
                yield batch
                batch = []
                batch_weight = 0
        if batch:
            yield batch

    def share(self, items: int, most: int) -> int:
        """How many items a batch should hold, so that every worker gets two batches of equal size.

        Two, not one: a slow batch is then evened out by the other workers.

        Args:
            items: how many items there are in all.
            most: items that a batch holds at most.
        """
        batches = _BATCHES_PER_PLACE * self._engine.count * self._engine.capacity
        even_share = math.ceil(items / batches)
        return max(1, min(most, even_share))

    def begin(self, items: Sequence[ItemT]) -> Batch[ItemT, ValueT]:
        """Queues a batch, so that the workers compute it before it is taken with `take`.

        Workers start with the first batch at which enough items wait; before that nothing is
        computed.
        """
        batch: Batch[ItemT, ValueT] = Batch(items)
        # An empty batch is done already, and keeps only its place in the caller's order.
        if items:
            self._waiting.append(batch)
            if not self.desks and self._is_worth_workers():
                self.desks = [self._start_desk() for _ in range(self._engine.count)]
            if self.desks:
                self._feed()
        return batch

    def _is_worth_workers(self) -> bool:
        """Whether enough items are queued to be worth the time that workers take to start.

        A process needs seconds to import and to load its models: few items are done sooner here.
        """
        if self._fewest is None:
            return False
        queued = sum(len(batch.items) for batch in self._waiting)
        return queued >= self._fewest

    def take(self, batch: Batch[ItemT, ValueT]) -> Iterator[ValueT]:
        """Yields the values of a batch in the order of its items, and waits for them where needed.

        Without workers the calls are made here, in this thread.

        Raises:
            Exception: the call raised it, or the workers were lost with the batch.
        """
        # Never begun by a worker: no desk was opened for it, so it waits in the queue still.
        if batch.items and not self.desks:
            # By identity, as Batch has `eq=False`: another batch of equal items stays in the queue.
            self._waiting.remove(batch)
            if self._here is None:
                self._here = self._make()
            for item in batch.items:
                yield from self._here([item])
            return
        while batch.items and not batch.is_done:
            self._gather()
        # Parts are in the order of the items they were cut from, so the values come in order too.
        for part in batch.parts:
            yield from self.take(part)
        if batch.error is not None:
            raise batch.error
        yield from batch.values or ()

    def drop(self, batch: Batch[ItemT, ValueT]) -> bool:
        """Gives a batch up before it is taken; True where no worker has begun it.

        A batch that was begun is paid for: False says that the caller should take it. An empty
        batch is always given up.
        """
        if batch in self._waiting:
            self._waiting.remove(batch)
            return True
        return not batch.items

    def map(
        self, items: Iterable[ItemT], weight: Callable[[ItemT], int] = lambda _: 0
    ) -> Iterator[ValueT]:
        """Yields the call's value for each item, in the items' order.

        Memory holds a few batches per worker, however many items there are. Once the pool is
        stopped, no more items are read, and the batches in flight are finished.
        """
        begun: deque[Batch[ItemT, ValueT]] = deque()
        batches = self.cut(items, weight)
        while True:
            # Until one more than `ahead` is begun: the loop then takes the oldest of them.
            while len(begun) <= self.ahead and not self._stopped():
                batch = next(batches, None)
                if batch is None:
                    break
                begun.append(self.begin(batch))
            if not begun:
                return
            try:
                yield from self.take(begun.popleft())
            except RunError:
                # A lost worker of a stopped pool is the user's end of the command, no failure to
                # report.
                if self._stopped():
                    return
                raise

    def _start_desk(self) -> _Desk:
        """Starts a worker, and returns a desk for it: its place in the pool, and its batches.

        The desk has no room for a batch until the worker is ready.
        """
        desk = _Desk(self._engine.start(self._make))
        if desk.worker.ready is not None:
            # Waited for like a batch, so that `_gather` sees a worker that ends while it starts.
            # None is no batch: until it is done, the desk has no room (`_Desk.room`).
            desk.futures[desk.worker.ready] = None
        return desk

    def _feed(self) -> None:
        """Gives queued batches to the workers that have the fewest, while any of them has room.

        A desk is a worker's place in the pool. A worker that has ended is noticed here, and
        replaced.
        """
        while self._waiting:
            alone = self._waiting[0].losses > 0
            capacity = self._engine.capacity
            free = [desk for desk in self.desks if desk.room(capacity, alone=alone)]
            if not free:
                return
            desk = min(free, key=lambda free_desk: len(free_desk.futures))
            batch = self._waiting.popleft()
            try:
                desk.futures[desk.worker.submit(batch.items)] = batch
            except WorkerLostError:
                self._waiting.appendleft(batch)  # it never was with that worker
                self._replace(desk)

    def _gather(self) -> None:
        """Waits until a batch is done, notes its values or error, and gives out the next ones.

        `take` calls it until its own batch is done. After some seconds without a result the engine
        is checked, as a cluster may have ended in silence. In a desk's ``futures`` None in place of
        a batch is a worker that is still starting.
        """
        self._feed()
        desks: dict[Future[Any], _Desk] = {}
        for desk in self.desks:
            desks.update(dict.fromkeys(desk.futures, desk))
        done = wait(desks, timeout=_QUIET, return_when=FIRST_COMPLETED).done
        if not done:
            self._engine.check()
        for future in done:
            desk = desks[future]
            if future not in desk.futures:  # lost with its worker, a moment ago
                continue
            batch = desk.futures[future]
            try:
                values = desk.worker.result(future)
            except WorkerLostError:
                self._replace(desk)
                continue
            except Exception as error:  # raised where the batch is taken
                if batch is None:
                    raise
                batch.error = error
            else:
                if batch is not None:
                    batch.values = values
                    # Only a result ends the count of losses: a worker can start well and die of its
                    # first batch.
                    self._in_a_row = 0
            del desk.futures[future]
        self._feed()

    def _replace(self, desk: _Desk) -> None:
        """Starts another worker at the desk of one that has ended; its batches are queued again.

        Where workers keep ending, or the user ends the command, all batches get an error instead.
        """
        self._in_a_row += 1
        # Workers that end one after another, with no result between, do not end for their items: so
        # many losses in a row, more than two for each worker, are not of single items.
        most_in_a_row = 4 + 2 * self._engine.count
        is_hopeless = self._stopped() or self._in_a_row > most_in_a_row
        lost = [batch for batch in desk.futures.values() if batch is not None]
        desk.futures.clear()
        desk.worker.close()
        if is_hopeless:
            for batch in (*lost, *self._waiting):
                batch.error = RunError(_LOST)
            self._waiting.clear()
        else:
            warn(_REPLACED)
            # Each is put before the first of the queue: reversed, they end up in the order they
            # had.
            for batch in reversed(lost):
                self._give_again(batch)
        new_desk = self._start_desk()
        desk.worker = new_desk.worker
        desk.futures = new_desk.futures

    def _give_again(self, batch: Batch[ItemT, ValueT]) -> None:
        """Queues the batch of a worker that has ended, before all others, since it is taken next.

        Before its last try a batch is cut into its items: only the item that ends workers is lost
        then. Lost for good, an item has the value of the pool's ``lost``, or else an error.
        """
        batch.losses += 1
        # The last loss but one: each part begins with one loss, so that it runs alone.
        if len(batch.items) > 1 and batch.losses == _LOSSES - 1:
            batch.parts = [Batch([item], losses=1) for item in batch.items]
            self._waiting.extendleft(reversed(batch.parts))
        elif batch.losses < _LOSSES:
            self._waiting.appendleft(batch)
        elif self._lost is not None:
            # One value per item, as a call gives: the caller pairs values with items by position.
            batch.values = [self._lost(item) for item in batch.items]
        else:
            batch.error = RunError(_LOST)
