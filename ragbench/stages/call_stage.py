"""The stages that call something for every case: asked, checked, stored and given back.

What the source recorded is taken, what the journal holds under the same key is reused, the rest is
asked for: in this process, in one of its own for a case that took an earlier one down, or by
workers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.record import Record, replace
from ragbench.core.trace import RunCase, StageOutcome
from ragbench.errors import InterfaceError, InterruptedRunError, RagbenchError, RunError, warn
from ragbench.ledger.codec import CODECS, check_text, encode_outcome
from ragbench.ledger.fingerprint import fixed_digest
from ragbench.ledger.journal import RECORDED, StoredOutcome
from ragbench.stages.calls import TIMED_OUT, Done, Manner, ask_in_child, attempt_async, run_plain
from ragbench.stages.stage import STOPPED, InFlight, InLoop, Running, Stage, settle_stored

if TYPE_CHECKING:
    from ragbench.workers.pool import Batch, Task, WorkerPool

InputT = TypeVar("InputT")
ValueT = TypeVar("ValueT")


_PER_WORKER = 16
"""Queries that a worker is given at a time, where each is a call of its own."""
_PATIENCE = 60.0
"""Seconds that a copy of this process has for a case: in a copy, libraries that have threads of
their own may never answer."""


class Given(NamedTuple, Generic[InputT]):
    """What a stage is given for a case."""

    input: InputT
    """What the call takes."""
    digest: bytes
    """Of the input."""


class Work(NamedTuple, Generic[InputT]):
    """A case that a stage has to be asked for: nothing is recorded or stored of it."""

    row: RunCase
    """The case, whose `settled` gets the outcome."""
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
    asks_system: bool = False
    """Whether the system is asked, which says how many calls of it may be in flight; else code of
    ours or an operator of the user's is called."""
    bears_calls: bool = False
    """Whether several calls may be in flight where the system is not asked: they wait for a
    service, such as a language model, and are made for that."""
    final: tuple[type[Exception], ...] = ()
    """Errors that every other case would meet, too: they end the run."""
    status: Callable[[ValueT], Status] = lambda _: Status.MEASURED
    """Whether a value is an answer or an abstention."""
    is_incomplete: Callable[[bytes], bool] = lambda _: False
    """Whether a stored body holds a failure that was recovered from: it is worth another try."""
    pool: WorkerPool[Task, Any] | None = None
    """Workers that make the call in this process's place, in tasks of the stage's name."""

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        """Gives every case of the window (cases handled together) its outcome of this stage.

        For runs in one thread or by workers; where several calls are in flight, a `Flow` does the
        same with `take`, `attempt` and `keep`. Returns only once every case has an outcome, since
        the next stage reads it; a stop ends the run instead.
        """
        todo = self.take(window, run)
        if self.pool is not None:
            self._ask_workers(todo, self.pool, run)
        elif todo:
            self._ask_here(todo, run)
        # Nothing but a stop leaves a case without an outcome: a failure is one, too.
        if any(self.name not in work.row.settled for work in todo):
            raise InterruptedRunError(STOPPED)

    def take(self, window: Sequence[RunCase], run: Running) -> list[Work[InputT]]:
        """Settles the cases that need no call, and lists the others as work to be asked for.

        No call is needed for what the source recorded, for a case without an input to this stage,
        and for what the journal holds under the same key (identity of the stage and digest of the
        input): a run that was stopped pays for no answer twice. The source comes first, whatever
        the stage would answer now.
        """
        name = self.name
        journal = run.journal
        todo: list[Work[InputT]] = []
        failed = 0
        recorded = 0
        reused = 0
        # By the case's number and the key; under the key `RECORDED` is what the source recorded.
        stored_outcomes: Mapping[tuple[int, bytes], StoredOutcome] = {}
        if not journal.was_empty:
            stored_outcomes = journal.outcomes(name, [row.number for row in window])
        for row in window:
            # What the source recorded counts, whatever the stage would say now.
            stored = stored_outcomes.get((row.number, RECORDED))
            if stored is not None:
                recorded += 1
                failed += settle_stored(name, row, stored, journal)
                continue
            stage_input = self.reads(row)
            if isinstance(stage_input, StageOutcome):
                row.settled[name] = stage_input
                failed += stage_input.outcome.status is Status.FAILED
                continue
            key = fixed_digest(self.identity, stage_input.digest)
            stored = stored_outcomes.get((row.number, key))
            # With `retry_failed`, a stored failure counts as not stored: the case is asked once
            # more.
            if stored is not None and run.retry_failed:
                has_failed = stored.status is Status.FAILED or self.is_incomplete(stored.body)
                if has_failed:
                    stored = None
            if stored is None:
                todo.append(Work(row, key, stage_input.input))
            else:
                reused += 1
                failed += settle_stored(name, row, stored, journal)
        done = len(window) - len(todo)
        run.settled(name, done, failed=failed, reused=reused, recorded=recorded)
        return todo

    def keep(
        self, batch: Sequence[Work[InputT]], outcomes: Sequence[Outcome[ValueT]], run: Running
    ) -> None:
        """Stores the outcomes that were asked for; each case gets its outcome as it was stored.

        Later stages work with what a later run will read: were they to use the RAG's own objects,
        numbers and types that JSON does not know would score in one way now and in another after an
        interruption, and what the RAG does with its objects later would change what is scored.

        The order counts: a case leaves `in_flight` only once it is stored, so that a case that
        takes the process down while it is stored is found, too.
        """
        name = self.name
        stored: list[Outcome[ValueT]] = []
        for work, outcome in zip(batch, outcomes, strict=True):
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
                failure = Failure.of(_error_with_place(error), stage=name)
                outcome = replace(outcome, status=Status.FAILED, value=None, failure=failure)
                encoded = encode_outcome(name, outcome)
            run.journal.record_outcome(work.row.number, name, work.key, outcome, encoded)
            texts = b"".join(encoded.digests)
            work.row.settled[name] = StageOutcome(outcome, texts, encoded.output)
            stored.append(outcome)
        failed = sum(outcome.status is Status.FAILED for outcome in stored)
        # A whole batch of failures may mean that the service is gone: then the run gives up.
        if failed == len(stored):
            run.giving_up.count(name, stored)
        else:
            run.giving_up.answered.add(name)
        # Only now: a case that takes the process down while it is stored is found, too.
        if run.in_flight is not None:
            run.in_flight.end([work.row.number for work in batch])
        run.journal.flush(if_due=True)
        run.settled(name, len(batch), failed=failed)

    def ask_once(
        self,
        stage_input: InputT,
        in_loop: InLoop = None,
        *,
        timeout: float | None = None,
        final: tuple[type[Exception], ...] = (),
    ) -> Outcome[ValueT]:
        """Asks the stage for one input beside any run, and returns the outcome: nothing is stored.

        So a system can be tried, or compared with stored outcomes, without a trace in a run's
        folder.

        Args:
            timeout: seconds allowed; None for no limit.
            final: errors that are raised. Others are the outcome's failure.
        """
        manner = Manner(stage=self.name, timeout=timeout, final=final)
        # One outcome comes, since one input cannot be asked in parts; the index below relies on it.
        answers: list[Outcome[ValueT]] = []
        if self.call is not None:
            for _, outcomes in run_plain(self.call, [[stage_input]], manner):
                answers += outcomes
        elif self.call_async is not None:
            attempt = attempt_async(self.call_async, [stage_input], manner)
            # Without an event loop at hand, one is made for this call.
            (in_loop or asyncio.run)(_collect_outcomes(attempt, answers))
        return answers[0]

    def _ask_workers(
        self, todo: Sequence[Work[InputT]], pool: WorkerPool[Task, Any], run: Running
    ) -> None:
        """Asks worker processes for the listed cases, and keeps their outcomes in the cases' order.

        Some batches are begun ahead of the one whose outcomes are kept, so that no worker is idle.
        """
        from ragbench.workers.pool import Task

        if self.takes_batches:
            size = run.calls.batch_size
        else:
            size = pool.share(len(todo), _PER_WORKER)
        ahead = Ahead(self, pool, run)
        for batch in _batches_of_work(todo, size):
            # Checked before a batch is begun: what is begun already is kept by `settle_all` below.
            if run.stopped():
                break
            is_full = ahead.begin(batch, [Task(self.name, work.input) for work in batch])
            if is_full:
                ahead.settle()
        ahead.settle_all()

    def manner(self, run: Running) -> Manner:
        """How the stage's calls are made in a run: limits, what stops them, and whom to notify.

        Before each call its cases are noted as in flight, so that a process that dies leaves behind
        which cases it was asking.
        """
        return Manner(
            stage=self.name,
            timeout=run.calls.timeout,
            stopped=run.stopped,
            final=self.final,
            begun=partial(_note_in_flight, run.in_flight),
            split=partial(run.warn_of_split, self.name),
        )

    def attempt(
        self, batch: Sequence[Work[InputT]], manner: Manner
    ) -> Iterator[Done[Work[InputT], ValueT]]:
        """Asks for a batch of cases in the calling thread.

        Yields the outcomes of the whole batch; or of ever smaller parts, where a call for several
        cases failed, so that one bad case does not cost the others their answers.
        """
        # A local name: the lambda below would not know that the attribute is not None.
        call = self.call
        if call is None:
            raise RunError(f"{self.name} is a coroutine function: its calls are awaited in a flow")
        return run_plain(lambda part: call([work.input for work in part]), [batch], manner)

    def attempt_async(
        self, batch: Sequence[Work[InputT]], manner: Manner
    ) -> AsyncIterator[Done[Work[InputT], ValueT]]:
        """Awaits a batch of cases in the running event loop, for a system of coroutines.

        Yields the outcomes of the whole batch; or of ever smaller parts, where a call for several
        cases failed, so that one bad case does not cost the others their answers.
        """
        call: Any = self.call_async
        return attempt_async(lambda part: call([work.input for work in part]), batch, manner)

    def _ask_here(self, todo: Sequence[Work[InputT]], run: Running) -> None:
        """Asks for the listed cases in this process and thread, and stores each outcome at once.

        Cases that an earlier process was asking when it died are asked apart, since they may bring
        this process down as well.
        """
        in_flight = run.in_flight
        if in_flight is not None and in_flight.left_over:
            todo = self.ask_suspects(todo, {*in_flight.left_over}, run)
        manner = self.manner(run)
        for batch in _batches_of_work(todo, run.calls.batch_size if self.takes_batches else 1):
            for part, outcomes in self.attempt(batch, manner):
                self.keep(part, outcomes, run)

    def ask_suspects(
        self, todo: Sequence[Work[InputT]], suspects: Collection[int], run: Running
    ) -> Sequence[Work[InputT]]:
        """Asks each suspect case in a process of its own; returns the work that is left to ask.

        A suspect that takes its process down becomes a failed case, and the run goes on.

        Args:
            suspects: numbers of cases that were being asked when an earlier process died; perhaps
                one of them took it down.
        """
        remaining: list[Work[InputT]] = []
        for work in todo:
            # After a stop the case stays in the list, where the loop of the caller sees the stop.
            if work.row.number in suspects and not run.stopped():
                warn(
                    f"case '{work.row.case.id}' was being asked when an earlier process ended: "
                    f"it is asked in a process of its own ({self.name})"
                )
                limit = run.calls.timeout or _PATIENCE
                outcome = ask_in_child(
                    self._call_without_loop, work.input, stage=self.name, timeout=limit
                )
                # A child process that never answers says nothing of the case: a copy of a process
                # with threads may hang. So the case is asked in this process.
                if outcome.failure is None or outcome.failure.type != TIMED_OUT:
                    self.keep([work], [outcome], run)
                    continue
            remaining.append(work)
        return remaining

    def _call_without_loop(self, inputs: Sequence[InputT]) -> Sequence[ValueT]:
        """Calls the system with inputs, in a child process that has no event loop of its own.

        A coroutine function gets a loop for this one call.
        """
        if self.call is not None:
            return self.call(inputs)
        call_async: Any = self.call_async
        return asyncio.run(call_async(inputs))


async def _collect_outcomes(
    attempt: AsyncIterator[Done[InputT, ValueT]], answers: list[Outcome[ValueT]]
) -> None:
    """Adds the outcomes of an awaited call to a list, in the order in which they come.

    A loop that runs a coroutine to its end gives nothing back: the list carries the outcomes.
    """
    async for _, outcomes in attempt:
        answers.extend(outcomes)


def _note_in_flight(in_flight: InFlight | None, batch: Sequence[Work[Any]]) -> None:
    """Notes the numbers of the cases of a call in the file of cases in flight, before the call.

    If the call takes the process down, the next run reads there which cases to ask apart.
    Does nothing without such a file, where no case can take the process down.
    """
    if in_flight is not None:
        in_flight.begin([work.row.number for work in batch])


def has_calls_at_once(stages: Sequence[Stage], run: Running) -> bool:
    """Whether some stage makes several calls at once in this process, or awaits them.

    A run with such a stage needs a flow (`Flow`), which keeps calls in flight; any other run makes
    one call after the other in one plain thread.
    """
    for stage in stages:
        calling = calling_here(stage)
        if calling is None:
            continue
        if calling.call_async is not None or calling.bears_calls or run.most_calls > 1:
            return True
    return False


def calling_here(stage: Stage) -> CallStage[Any, Any] | None:
    """The stage as one that calls something in this process; None for any other stage.

    Other stages take recorded outcomes, or have worker processes make the call: this process asks
    nothing for them.
    """
    if not isinstance(stage, CallStage):
        return None
    # `isinstance` cannot check type arguments, and no caller uses them.
    calling = cast("CallStage[Any, Any]", stage)
    return calling if calling.pool is None else None


def _batches_of_work(todo: Sequence[Work[InputT]], size: int) -> list[Sequence[Work[InputT]]]:
    """The work cut into the parts of one call each, ``size`` cases at most.

    A RAG that takes several queries in a call gets them so; for others the size is 1.
    """
    return [todo[start : start + size] for start in range(0, len(todo), size)]


@dataclass(slots=True)
class Ahead(Generic[InputT, ValueT]):
    """Batches that workers have begun while those before them are settled."""

    stage: CallStage[InputT, ValueT]
    pool: WorkerPool[Any, Outcome[ValueT]]
    run: Running
    _begun: deque[tuple[Sequence[Work[InputT]], Batch[Any, Outcome[ValueT]]]] = field(
        default_factory=lambda: deque()
    )
    """The first begun at the left: each batch's cases, and what the pool knows it by."""

    def begin(self, todo: Sequence[Work[InputT]], inputs: Sequence[Any]) -> bool:
        """Begins a batch in the workers; whether an earlier batch must be settled before the next.

        So only a bounded number of batches is under way whose outcomes are not in the journal yet.

        Args:
            todo: the cases of the batch, whose outcomes are kept when it is settled.
            inputs: the tasks for the workers, one a case in the same order.
        """
        self._begun.append((todo, self.pool.begin(inputs)))
        return len(self._begun) > self.pool.ahead

    def settle(self) -> None:
        """Keeps the outcomes of the batch that was begun first, waiting until that batch is done.

        First begun, first kept: so the journal has the cases in their order.

        Raises:
            RagbenchError: it ends the run; what was answered is kept.
        """
        todo, batch = self._begun.popleft()
        try:
            outcomes = self.pool.take(batch)
            if self.pool.desks:
                self.stage.keep(todo, [*outcomes], self.run)
            else:
                # An engine without workers calls each case here, at the moment when the loop takes
                # its outcome: so each is kept at once, and a stop is heeded between two.
                for work, outcome in zip(todo, outcomes, strict=False):
                    self.stage.keep([work], [outcome], self.run)
                    if self.run.stopped():
                        break
        except RagbenchError as error:
            # When stopped this is no error: the signal to this process has ended its workers, too.
            if not (self.run.stopped() and isinstance(error, RunError)):
                self.finish()  # what was answered is kept
                raise
        if self.run.stopped():
            self.finish()

    def settle_all(self) -> None:
        """Keeps the outcomes of all batches that workers still have, oldest first.

        A window of cases ends here: the next stage needs an outcome of every case of it.
        """
        while self._begun:
            self.settle()

    def finish(self) -> None:
        """Ends the batches that workers still have, after a stop or an error.

        Batches that are done or begun are waited for and kept, since they are paid for; the rest is
        dropped. Errors of these batches are left out: the first one, or the stop, ends the run.
        """
        while self._begun:
            _, batch = self._begun[0]
            if self.pool.drop(batch):
                self._begun.popleft()
            else:
                with suppress(RagbenchError):
                    self.settle()


def _error_with_place(error: Exception) -> Exception:
    """The error of a text with broken characters as one that shows where in the text they are.

    Python's own error names a position in bytes only; any other error is returned as it is.
    """
    if isinstance(error, UnicodeEncodeError):
        try:
            check_text(error.object)
        except ValueError as error_with_place:
            return error_with_place
    return error
