"""Judged metrics over a window of cases: many at once, each cell kept as soon as it is there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from ragbench.core.metric import Metric, Need
from ragbench.core.outcome import JudgedCell
from ragbench.core.record import Record
from ragbench.core.trace import RunCase
from ragbench.errors import ConfigError, RagbenchError
from ragbench.ledger.fingerprint import fingerprint
from ragbench.llm.budget import price_for
from ragbench.llm.probe import preflight
from ragbench.llm.session import LLMSession, ModelClients
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import CallLimits
from ragbench.metrics.judging import JudgePlan, not_asked
from ragbench.stages.score import CellTable
from ragbench.stages.stage import Running

JobT = TypeVar("JobT")
Rehearsal: TypeAlias = Callable[[JudgePlan, Sequence["Job"], Callable[[], bool]], None]
"""What is done in place of judging; see `ragbench.stages.dry_run`."""
_A_SLOT = 4
"""Cells in the work for each call that may be in flight: while some wait for a rate limit or for
their turn, others ask."""


class Judging(Record):
    session: LLMSession
    chat: LLMSettings | None = None
    embeddings: LLMSettings | None = None
    panel: tuple[LLMSettings, ...] = ()
    """Judges beside the language model."""
    repeats: int = 1
    """How often each judge judges each case."""
    preflight: bool = True
    """Whether the models are tried before the first call of a run."""
    rehearsal: Rehearsal | None = None
    """Takes the judging's place: nothing is judged then."""

    def plan(self, metrics: Sequence[Metric]) -> JudgePlan:
        panel = [juror.endpoint for juror in self.panel]
        return JudgePlan(metrics, repeats=self.repeats, panel=panel)

    def info(self, plan: JudgePlan) -> dict[str, Any]:
        """Everything that judgements depend on, as JSON holds it.

        The fingerprint is over endpoint, model, parameters, prompts and the versions of what makes
        them: two runs compare when it is the same. How often a case is judged and what tokens cost
        is not part of it.
        """
        both = (self.chat, self.embeddings)
        chat, embeddings = (None if one is None else one.endpoint for one in both)
        plan.check(chat, embeddings)
        asked = chat.identity() if chat and plan.needs_chat else None
        embedding = embeddings.identity() if embeddings and plan.needs_embeddings else None
        identity: dict[str, Any] = {"chat": asked, "embeddings": embedding}
        identity["scorers"] = plan.identities
        panel = [juror.identity() for juror in plan.panel]
        if panel and plan.needs_chat:
            identity["panel"] = panel
        keys: dict[str, str] = {}
        for metric in plan.metrics:
            needs = metric.definition.needs
            is_chat = Need.LLM in needs
            known: tuple[object, ...] = (
                asked if is_chat else None,
                embedding if Need.EMBEDDINGS in needs else None,
                plan.prompts[metric.name],
                plan.repeats,
            )
            keys[metric.name] = fingerprint((*known, panel) if panel and is_chat else known)
        price = None if asked is None or chat is None else msgspec.to_builtins(price_for(chat))
        if price is not None:
            del price["long_prompt"]  # it is one call's; what reads this adds up many
        parts = {"repeats": plan.repeats, "prompts": plan.prompts, "keys": keys, "price": price}
        return {**identity, "fingerprint": fingerprint(identity), **parts}

    def try_models(self, plan: JudgePlan, stopped: Callable[[], bool]) -> None:
        """Sees whether the models answer as a plan needs it, where that is wanted."""
        if self.preflight:
            self.session.models.stop_when(stopped)
            chat, embeddings = plan.needs_chat, plan.needs_embeddings
            self.session.run(lambda models: preflight(models, chat=chat, embeddings=embeddings))

    def judged(
        self,
        jobs: Sequence[JobT],
        judge: Callable[[JobT, ModelClients], Awaitable[JudgedCell]],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[list[tuple[JobT, JudgedCell]]]:
        """Has jobs judged, many at once; each is given as soon as it is done."""
        known = self.chat or self.embeddings
        concurrency = (CallLimits() if known is None else known.limits).concurrency

        async def work(
            models: ModelClients, emit: Callable[[tuple[JobT, JudgedCell]], None]
        ) -> None:
            models.stop_when(stopped)
            waiting, stopping = iter(jobs), list[RagbenchError]()

            async def worker() -> None:
                for job in waiting:
                    try:
                        emit((job, await judge(job, models)))
                    except RagbenchError as error:
                        stopping.append(error)
                    if stopping:
                        return

            async with asyncio.TaskGroup() as group:
                for _ in range(_A_SLOT * concurrency):
                    group.create_task(worker())
            if stopping:
                raise stopping[0]

        return self.session.stream(work)


class Job(NamedTuple):
    row: RunCase
    place: int
    """The metric's, among those of the run."""
    metric: Metric


@dataclass(slots=True)
class JudgeStage:
    """Judges the cells that the journal lacks: many at once, each kept as soon as it is there."""

    plan: JudgePlan
    judging: Judging
    info: dict[str, Any]
    """For the manifest; see `Judging.info`."""
    table: CellTable = field(init=False)
    """Opened for the window by the scoring stage before."""
    name: str = "judge"
    _is_tried: bool = False

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        judged = [(at, each) for at, each in enumerate(self.table.metrics) if each.is_judged]
        jobs = [Job(row, *one) for row in window for one in judged if run.lacks(row.cells[one[0]])]
        reused = len(window) - len({job.row.number for job in jobs})
        if (rehearsal := self.judging.rehearsal) is not None:
            rehearsal(self.plan, jobs, run.stopped)
            run.settled(self.name, len(window), reused=reused)
        else:
            self._judge(jobs, run)
            self.table.read_judgements(window, [at for at, _ in judged])
            run.settled(self.name, reused, reused=reused)

    def _judge(self, jobs: Sequence[Job], run: Running) -> None:
        left: Counter[int] = Counter()
        open_jobs: list[Job] = []
        for job in jobs:
            known = not_asked(job.metric, job.row.trace)
            if known is not None:
                self.table.save_judged(job.row, job.place, known, ())
            else:
                open_jobs.append(job)
                left[job.row.number] += 1
        run.settled(self.name, len({job.row.number for job in jobs} - left.keys()))
        run.journal.flush()
        if not open_jobs:
            return
        if not self._is_tried:
            self.judging.try_models(self.plan, run.stopped)
            self._is_tried = True

        def judge(job: Job, panel: ModelClients) -> Awaitable[JudgedCell]:
            return self.plan.judge(job.metric, job.row.trace, panel)

        for batch in self.judging.judged(open_jobs, judge, run.stopped):
            done = 0
            for job, judged in batch:
                self.table.save_judged(job.row, job.place, judged.cell, judged.judgements)
                left[job.row.number] -= 1
                done += not left[job.row.number]
            run.journal.flush()
            run.settled(self.name, done)


def judge_of(metrics: Sequence[Metric], judging: Judging | None) -> JudgeStage:
    """Prepares the judged ones of a run's metrics."""
    judged = [metric for metric in metrics if metric.is_judged]
    if judging is None:
        JudgePlan(judged).check(None, None)  # says what to set
        raise ConfigError("the metrics need a language model: pass judging=... to evaluate()")
    plan = judging.plan(judged)
    return JudgeStage(plan, judging, judging.info(plan))
