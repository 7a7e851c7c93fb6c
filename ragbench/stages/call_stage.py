"""The stages that call something for every case: asked, checked, stored and given back.

What the source recorded is taken, what the journal holds under the same key is reused, the rest is
asked for: in this process, in one of its own for a case that took an earlier one down, or by
workers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.record import Record, replace
from ragbench.core.trace import RunCase, StageOutcome
from ragbench.errors import InterfaceError, InterruptedRunError, RagbenchError, RunError
from ragbench.ledger.codec import CODECS, check_text, encode_outcome
from ragbench.ledger.fingerprint import fixed_digest
from ragbench.ledger.journal import RECORDED
from ragbench.stages.calls import TIMED_OUT, Manner, ask_in_child, run_async, run_plain
from ragbench.stages.stage import STOPPED, InLoop, Running, settle_stored

if TYPE_CHECKING:
    from ragbench.workers.pool import Batch, Task, WorkerPool

InputT = TypeVar("InputT")
ValueT = TypeVar("ValueT")


class Given(NamedTuple, Generic[InputT]):
    input: InputT
    digest: bytes
    """Of the input."""


class Work(NamedTuple, Generic[InputT]):
    """A case that a stage has to be asked for."""

    row: RunCase
    key: bytes
    """Under which the journal will hold what it gives."""
    input: InputT


class CallStage(Record, Generic[InputT, ValueT]):
    """A stage that calls something for every case."""

    name: str
    identity: bytes
    """Changes whenever the same input may give another output."""
    reads: Callable[[RunCase], Given[InputT] | StageOutcome]
    """What is given for a case; an outcome instead where there is nothing to call for."""
    call: Callable[[Sequence[InputT]], Sequence[ValueT]] | None = None
    """Gives one value per input; None when it is a coroutine function."""
    call_async: Callable[[Sequence[InputT]], Awaitable[Sequence[ValueT]]] | None = None
    """The same for a RAG whose methods are coroutines."""
    takes_batches: bool = False
    """Whether a batch is one call of the user's. If not, each query is a call of its own, so that
    it is in the journal as soon as it is finished."""
    status: Callable[[ValueT], Status] = lambda _: Status.MEASURED
    """Whether a value is an answer or an abstention."""
    is_incomplete: Callable[[bytes], bool] = lambda _: False
    """Whether a stored body holds a failure that was recovered from: it is worth another try."""
    pool: WorkerPool[Task, Any] | None = None
    """Workers that make the call in this process's place, in tasks of the stage's name."""

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        todo, pool = self.take(window, run), self.pool
        if pool is not None:
            from ragbench.workers.pool import Task

            size = run.calls.batch_size if self.takes_batches else pool.share(len(todo), _SHARE)
            ahead = Ahead(self, pool, run)
            for at in range(0, len(todo), size):
                if run.stopped():
                    break
                items = todo[at : at + size]
                if ahead.begin(items, [Task(self.name, item.input) for item in items]):
                    ahead.settle()
            ahead.settle_all()
        elif todo:
            self._ask(todo, run)
        if any(self.name not in item.row.settled for item in todo):
            raise InterruptedRunError(STOPPED)

    def take(self, window: Sequence[RunCase], run: Running) -> list[Work[InputT]]:
        """Settles what need not be asked for, and lists the rest."""
        todo: list[Work[InputT]] = []
        name, journal = self.name, run.journal
        failed = recorded = reused = 0
        known = {} if journal.was_empty else journal.outcomes(name, [row.number for row in window])
        for row in window:
            stored = known.get((row.number, RECORDED))
            if stored is not None:
                recorded += 1
                failed += settle_stored(name, row, stored, journal)
                continue
            given = self.reads(row)
            if isinstance(given, StageOutcome):
                row.settled[name] = given
                failed += given.outcome.status is Status.FAILED
                continue
            key = fixed_digest(self.identity, given.digest)
            stored = known.get((row.number, key))
            if stored is not None and run.retry_failed:
                has_failed = stored.status is Status.FAILED or self.is_incomplete(stored.body)
                stored = None if has_failed else stored
            if stored is None:
                todo.append(Work(row, key, given.input))
            else:
                reused += 1
                failed += settle_stored(name, row, stored, journal)
        done = len(window) - len(todo)
        run.settled(name, done, failed=failed, reused=reused, recorded=recorded)
        return todo

    def keep(
        self, asked: Sequence[Work[InputT]], outcomes: Sequence[Outcome[ValueT]], run: Running
    ) -> None:
        """Stores what was asked for, and settles it as a later run will read it.

        What follows works with that: were it to use the RAG's own objects, numbers and types that
        JSON does not know would score in one way now and in another after an interruption, and
        what the RAG does with its objects later would change what is scored.
        """
        name, given = self.name, list[Outcome[ValueT]]()
        for item, outcome in zip(asked, outcomes, strict=True):
            try:
                if outcome.value is not None:
                    outcome = replace(outcome, status=self.status(outcome.value))
                elif outcome.status is Status.MEASURED:
                    raise InterfaceError("it returned None")
                encoded = encode_outcome(name, outcome)
                if outcome.value is not None:
                    value = CODECS[name].decode(encoded.texts, encoded.body)
                    outcome = replace(outcome, value=value)
            except (ValueError, TypeError, InterfaceError) as error:  # it cannot be written down
                failure = Failure.of(_said_better(error), stage=name)
                outcome = replace(outcome, status=Status.FAILED, value=None, failure=failure)
                encoded = encode_outcome(name, outcome)
            run.journal.record_outcome(item.row.number, name, item.key, outcome, encoded)
            texts = b"".join(encoded.digests)
            item.row.settled[name] = StageOutcome(outcome, texts, encoded.output)
            given.append(outcome)
        failed = sum(outcome.status is Status.FAILED for outcome in given)
        if failed == len(given):
            run.giving_up.count(name, given)
        else:
            run.giving_up.answered.add(name)
        if run.in_flight is not None:
            run.in_flight.end([item.row.number for item in asked])
        run.journal.flush(if_due=True)
        run.settled(name, len(asked), failed=failed)

    def ask_once(self, given: InputT, in_loop: InLoop = None, **how: Any) -> Outcome[ValueT]:
        """What one input gives, beside any run; ``how`` it is called, see `Manner`."""
        manner, found = Manner(stage=self.name, **how), list[Outcome[ValueT]]()
        if self.call is not None:
            for _, outcomes in run_plain(self.call, [[given]], manner):
                found += outcomes
        elif self.call_async is not None:
            asked = run_async(
                self.call_async, [[given]], manner, lambda _, some: found.extend(some)
            )
            (in_loop or asyncio.run)(asked)
        return found[0]

    def _ask(self, todo: Sequence[Work[InputT]], run: Running) -> None:
        """Asks in this process, but for the cases that an earlier one died with."""
        in_flight, calls = run.in_flight, run.calls
        if in_flight is not None and in_flight.left_over:
            todo = self._ask_suspects(todo, {*in_flight.left_over}, run)
        size = calls.batch_size if self.takes_batches else 1
        batches = [todo[at : at + size] for at in range(0, len(todo), size)]
        plain, coroutine = self.call, self.call_async
        manner = Manner(
            stage=self.name,
            concurrency=calls.concurrency,
            timeout=calls.timeout,
            stopped=run.stopped,
            begun=(lambda _: None)
            if in_flight is None
            else lambda items: in_flight.begin([one.row.number for one in items]),
            split=partial(run.warn_of_split, self.name),
        )
        if plain is not None:
            done = run_plain(lambda items: plain([one.input for one in items]), batches, manner)
            for batch, outcomes in done:
                self.keep(batch, outcomes, run)
        elif coroutine is not None:
            keep = partial(self.keep, run=run)
            asked = run_async(
                lambda items: coroutine([one.input for one in items]), batches, manner, keep
            )
            (run.in_loop or asyncio.run)(asked)

    def _ask_suspects(
        self, todo: Sequence[Work[InputT]], suspects: Collection[int], run: Running
    ) -> Sequence[Work[InputT]]:
        """Asks each of some cases in a process of its own, and gives back those left to ask."""
        coroutine: Any = self.call_async

        def plain(items: Sequence[InputT]) -> Sequence[ValueT]:
            return asyncio.run(coroutine(items)) if self.call is None else self.call(items)

        others: list[Work[InputT]] = []
        for item in todo:
            if item.row.number in suspects and not run.stopped():
                limit = run.calls.timeout or _PATIENCE
                outcome = ask_in_child(plain, item.input, stage=self.name, timeout=limit)
                if outcome.failure is None or outcome.failure.type != TIMED_OUT:
                    self.keep([item], [outcome], run)
                    continue
            others.append(item)
        return others


@dataclass(slots=True)
class Ahead(Generic[InputT, ValueT]):
    """Batches that workers have begun while those before them are settled."""

    stage: CallStage[InputT, ValueT]
    pool: WorkerPool[Any, Outcome[ValueT]]
    run: Running
    _begun: deque[tuple[Sequence[Work[InputT]], Batch[Any, Outcome[ValueT]]]] = field(
        default_factory=lambda: deque()
    )

    def begin(self, todo: Sequence[Work[InputT]], inputs: Sequence[Any]) -> bool:
        """Begins a batch; whether an earlier one is to be settled before the next."""
        self._begun.append((todo, self.pool.begin(inputs)))
        return len(self._begun) > self.pool.ahead

    def settle(self) -> None:
        """Settles the batch that was begun first."""
        todo, batch = self._begun.popleft()
        try:
            outcomes = self.pool.take(batch)
            if self.pool.desks:
                self.stage.keep(todo, [*outcomes], self.run)
            else:  # called here, one by one
                for item, outcome in zip(todo, outcomes, strict=False):
                    self.stage.keep([item], [outcome], self.run)
                    if self.run.stopped():
                        break
        except RagbenchError as error:
            # Stopped: the signal that stops this process has ended its workers, too.
            if not (self.run.stopped() and isinstance(error, RunError)):
                self.finish()  # what was answered is kept
                raise
        if self.run.stopped():
            self.finish()

    def settle_all(self) -> None:
        while self._begun:
            self.settle()

    def finish(self) -> None:
        """Keeps what the workers are through with, or have begun; the rest is dropped."""
        while self._begun:
            if self.pool.drop(self._begun[0][1]):
                self._begun.popleft()
            else:
                with suppress(RagbenchError):
                    self.settle()


_SHARE = 16
"""Queries that a worker is given at a time, where each is a call of its own."""
_PATIENCE = 60.0
"""Seconds that a copy of this process has for a case: in a copy, libraries that have threads of
their own may never answer."""


def _said_better(error: Exception) -> Exception:
    """The error about a broken text as one that shows where it is broken."""
    if isinstance(error, UnicodeEncodeError):
        try:
            check_text(error.object)
        except ValueError as better:
            return better
    return error
