"""Judged metrics over a window of cases: many at once, each cell kept as soon as it is there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from ragbench.errors import InterruptedRunError, RagbenchError
from ragbench.evaluation.scored_turn import Column, Turn
from ragbench.llm.chat import Message
from ragbench.llm.limits import CallLimits
from ragbench.llm.models import Models
from ragbench.llm.preflight import preflight
from ragbench.llm.reply import Reply
from ragbench.llm.schema import Schema
from ragbench.llm.session import LLMSession
from ragbench.llm.settings import LLMSettings
from ragbench.records.judgements import JudgedCell
from ragbench.runs.journal import Journal
from ragbench.scoring.judge_plan import JudgePlan
from ragbench.scoring.panel import Asks, Embeds, Panel

__all__ = ["Job", "JudgeRun", "Judging", "Rehearsal", "judge_many"]

JobT = TypeVar("JobT")
_A_SLOT = 4
"""Cells in the work for each call that may be in flight: while some wait for a rate limit or for
their turn, others ask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judging:
    """Who judges, and how."""

    session: LLMSession
    """The clients."""
    chat: LLMSettings | None = None
    """Of the language model; None when none is named."""
    embeddings: LLMSettings | None = None
    """Of the model for embeddings."""
    repeats: int = 1
    """How often each case is judged."""
    preflight: bool = True
    """Whether the models are tried before the first call of a run."""
    rehearsal: Rehearsal | None = None
    """Takes the judging's place: nothing is judged then."""

    @property
    def limits(self) -> CallLimits:
        """How calls are made."""
        known = self.chat or self.embeddings
        return CallLimits() if known is None else known.limits


class Rehearsal(Protocol):
    """What is done in place of judging; see `ragbench.evaluation.dry_run`."""

    def all(self, plan: JudgePlan, jobs: Sequence[Job], stopped: Callable[[], bool]) -> None:
        """Is given the cells that would be judged."""
        ...


class Job(NamedTuple):
    """A cell to be judged."""

    turn: Turn
    position: int
    """The metric's place among the judged ones."""
    key: bytes


class _Told(NamedTuple):
    job: Job
    judged: JudgedCell


@dataclass(slots=True)
class JudgeRun:
    """Judges the cells of a run, window by window."""

    plan: JudgePlan
    columns: Sequence[Column]
    """A judged metric each, in the plan's order."""
    judging: Judging
    journal: Journal
    stopped: Callable[[], bool]
    judged: Callable[[int], None]
    """Told how many more cases have all of their judgements."""
    _is_tried: bool = False

    def all(self, jobs: Sequence[Job]) -> None:
        """Settles cells. What was judged before an error is in the journal.

        Raises:
            LLMStoppedError: nobody answers any more.
            InterruptedRunError: ``stopped`` said so.
        """
        rehearsal = self.judging.rehearsal
        if rehearsal is not None:
            rehearsal.all(self.plan, jobs, self.stopped)
            self.judged(len({job.turn.stored.number for job in jobs}))
            return
        open_jobs = [job for job in jobs if not self._is_blocked(job)]
        left = Counter(job.turn.stored.number for job in open_jobs)
        self.judged(len({job.turn.stored.number for job in jobs} - left.keys()))
        self.journal.flush()
        if not open_jobs:
            return
        session = self.judging.session
        if self.judging.preflight and not self._is_tried:
            chat, embeddings = self.plan.needs_chat, self.plan.needs_embeddings
            session.run(lambda models: preflight(models, chat=chat, embeddings=embeddings))
            self._is_tried = True

        def work(models: Models, tell: Callable[[_Told], None]) -> Coroutine[Any, Any, None]:
            async def judge(job: Job, panel: Panel) -> None:
                tell(_Told(job, await self.plan.judge(job.position, job.turn.trace, panel)))

            concurrency = self.judging.limits.concurrency
            return judge_many(open_jobs, judge, models, concurrency, self.stopped)

        for batch in session.stream(work):
            done = 0
            for job, judged in batch:
                self._record(job, judged)
                left[job.turn.stored.number] -= 1
                done += not left[job.turn.stored.number]
            self.journal.flush()
            self.judged(done)

    def _is_blocked(self, job: Job) -> bool:
        cell = self.plan.blocked(job.position, job.turn.trace)
        if cell is not None:
            self._record(job, JudgedCell(cell=cell))
        return cell is not None

    def _record(self, job: Job, judged: JudgedCell) -> None:
        number, metric = job.turn.stored.number, self.columns[job.position].identity
        self.journal.record_cells([(number, metric, job.key, judged.cell)])
        if judged.judgements:
            self.journal.record_judgements(number, metric, job.key, judged.judgements)


async def judge_many(
    jobs: Iterable[JobT],
    judge: Callable[[JobT, Panel], Awaitable[None]],
    panel: Panel,
    concurrency: int,
    stopped: Callable[[], bool],
) -> None:
    """Works through jobs, a bounded number at a time.

    Args:
        jobs: taken one after the other, as there is room.
        judge: does one; what fails alone it keeps to itself.
        panel: who is asked.
        concurrency: the most calls in flight.
        stopped: asked before each call; once true, no further one is made.

    Raises:
        RagbenchError: a job raised it; no further job was begun.
    """
    stopping: list[RagbenchError] = []
    asked = _Stoppable(panel, stopped)
    waiting = iter(jobs)

    async def worker() -> None:
        for job in waiting:
            try:
                await judge(job, asked)
            except RagbenchError as error:
                stopping.append(error)
            if stopping:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(_A_SLOT * concurrency):
            group.create_task(worker())
    if stopping:
        raise stopping[0]


class _Stoppable:
    """A panel that asks nothing more once the user has stopped the run."""

    def __init__(self, panel: Panel, stopped: Callable[[], bool]) -> None:
        chat = panel.chat
        self.chat: Asks | None = None if chat is None else _StoppableChat(chat, stopped)
        self.embeddings: Embeds | None = panel.embeddings


class _StoppableChat:
    def __init__(self, chat: Asks, stopped: Callable[[], bool]) -> None:
        self._chat = chat
        self._stopped = stopped

    async def ask(
        self, messages: Sequence[Message], *, schema: Schema[Any], **named: Any
    ) -> Reply[Any]:
        if self._stopped():
            raise InterruptedRunError("stopped; the same command continues")
        return await self._chat.ask(messages, schema=schema, **named)
