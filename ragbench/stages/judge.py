"""Judged metrics over a window of cases: many at once, each cell stored as soon as it is there.

`Judging` holds what a run's judging is set to, and `JudgeStage` is the stage of the loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
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
"""What is done in place of judging, such as counting what it would cost (a dry run)."""
_WORKERS_PER_CALL = 4
"""Cells that are worked on for each call that may be in flight: while some wait for a rate limit or
for their turn, others ask."""


class Judging(Record):
    """Which models judge a run, and how often."""

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

    @property
    def cells_at_once(self) -> int:
        """How many cells (a metric's values of a case) are judged at once.

        More than calls are allowed: some cells wait for a rate limit while others are asked.
        """
        settings = self.chat or self.embeddings
        limits = CallLimits() if settings is None else settings.limits
        return _WORKERS_PER_CALL * limits.concurrency

    def plan(self, metrics: Sequence[Metric]) -> JudgePlan:
        """The plan of judging some metrics: their questions to models, the judges, the repeats.

        By the plan a cell is judged, and its identity is in the run's manifest.
        """
        panel = [juror.endpoint for juror in self.panel]
        return JudgePlan(metrics, repeats=self.repeats, panel=panel)

    def info(self, plan: JudgePlan) -> dict[str, Any]:
        """What a run's manifest keeps of its judging, as JSON: all that judgements depend on.

        The fingerprint is over endpoint, model, parameters, prompts and the versions of what makes
        them: two runs compare when it is the same. How often a case is judged and what tokens cost
        is not part of it. A new part in the fingerprint or the keys makes stored judgements
        unusable.
        """
        chat_endpoint = None if self.chat is None else self.chat.endpoint
        embeddings_endpoint = None if self.embeddings is None else self.embeddings.endpoint
        # Raises before anything is asked where a metric's model is missing.
        plan.check(chat_endpoint, embeddings_endpoint)
        chat_identity = None
        # A model that is set but that no metric asks is no part of the fingerprint.
        if chat_endpoint and plan.needs_chat:
            chat_identity = chat_endpoint.identity()
        embeddings_identity = None
        if embeddings_endpoint and plan.needs_embeddings:
            embeddings_identity = embeddings_endpoint.identity()
        identity: dict[str, Any] = {
            "chat": chat_identity,
            "embeddings": embeddings_identity,
            "scorers": plan.identities,
        }
        panel = [juror.identity() for juror in plan.panel]
        # A judge without a panel keeps the fingerprint that it had before there were panels.
        if panel and plan.needs_chat:
            identity["panel"] = panel

        # A metric's key depends on the models that it asks, and on no other.
        keys: dict[str, str] = {}
        for metric in plan.metrics:
            needs = metric.definition.needs
            asks_chat = Need.LLM in needs
            asks_embeddings = Need.EMBEDDINGS in needs
            parts: list[object] = [
                chat_identity if asks_chat else None,
                embeddings_identity if asks_embeddings else None,
                plan.prompts[metric.name],
                # The repeats are in the key, though not in the fingerprint: a mean of three is
                # another cell.
                plan.repeats,
            ]
            if panel and asks_chat:
                parts.append(panel)
            keys[metric.name] = fingerprint(tuple(parts))

        price = None
        if chat_endpoint and plan.needs_chat:
            price = msgspec.to_builtins(price_for(chat_endpoint))
        if price is not None:
            del price["long_prompt"]  # it is of a single call; what reads this adds up many
        return {
            **identity,
            "fingerprint": fingerprint(identity),
            "repeats": plan.repeats,
            "prompts": plan.prompts,
            "keys": keys,
            "price": price,
        }

    def try_models(self, plan: JudgePlan, stopped: Callable[[], bool]) -> None:
        """Asks the models a small question each, unless `preflight` is off; raises if one fails.

        A wrong key or an unknown model is so one clear error, and not a failed cell for each case.
        """
        if not self.preflight:
            return
        # Once for all clients of the session, which keep it for the calls that follow.
        self.session.models.stop_when(stopped)
        chat = plan.needs_chat
        embeddings = plan.needs_embeddings
        self.session.run(lambda models: preflight(models, chat=chat, embeddings=embeddings))

    def judged(
        self,
        jobs: Sequence[JobT],
        judge: Callable[[JobT, ModelClients], Awaitable[JudgedCell]],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[list[tuple[JobT, JudgedCell]]]:
        """Has jobs judged, many at once, and yields each with its value as soon as it is done.

        Args:
            jobs: the things to judge, such as a metric with a case.
            judge: asks the models about one job.
            stopped: asked before each call; once true, no more are made.
        """
        return self.session.stream(partial(self._judge_all, jobs, judge, stopped))

    async def _judge_all(
        self,
        jobs: Sequence[JobT],
        judge: Callable[[JobT, ModelClients], Awaitable[JudgedCell]],
        stopped: Callable[[], bool],
        models: ModelClients,
        emit: Callable[[tuple[JobT, JudgedCell]], None],
    ) -> None:
        """Judges all jobs in the session's event loop, several at a time.

        An error ends the run, yet jobs that are under way are finished: they have been paid for.

        Args:
            emit: hands each job out with its value, as soon as it is judged.
        """
        models.stop_when(stopped)
        # One iterator, which the tasks below share.
        waiting_jobs = iter(jobs)
        errors: list[RagbenchError] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(self.cells_at_once):
                group.create_task(_judge_waiting(waiting_jobs, judge, models, emit, errors))
        if errors:
            raise errors[0]


async def _judge_waiting(
    waiting_jobs: Iterator[JobT],
    judge: Callable[[JobT, ModelClients], Awaitable[JudgedCell]],
    models: ModelClients,
    emit: Callable[[tuple[JobT, JudgedCell]], None],
    errors: list[RagbenchError],
) -> None:
    """Judges one waiting job after the other, until none is left or an error ends the run.

    Several tasks do so side by side.

    Args:
        waiting_jobs: shared by the tasks: each job is taken by one of them.
        emit: hands a job out with its value.
        errors: shared by the tasks; with an error of any of them, each ends after its own job.
    """
    # Taking the next job has no `await`: two tasks never get the same one.
    for job in waiting_jobs:
        try:
            emit((job, await judge(job, models)))
        except RagbenchError as error:
            errors.append(error)
        # An error ends the run, yet each task finishes the job that it is at: what has been paid
        # for is stored.
        if errors:
            return


class Job(NamedTuple):
    """One cell that is to be judged."""

    row: RunCase
    place: int
    """The metric's, among those of the run."""
    metric: Metric


@dataclass(slots=True)
class JudgeStage:
    """Judges the cells that the journal lacks: many at once, each stored as soon as it is there."""

    plan: JudgePlan
    judging: Judging
    info: dict[str, Any]
    """For the manifest; see `Judging.info`."""
    table: CellTable = field(init=False)
    """Opened for the window by the scoring stage before."""
    name: str = "judge"
    _open_cells: Counter[int] = field(default_factory=Counter[int])
    """Cells that are still to be judged, by the number of the case."""
    _is_tried: bool = False
    """Whether the models have been tried in this run."""

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        """Judges the cells (a metric's values of a case) of a window that lack a score.

        In a dry run, these are only counted. Returns once every row has all its cells.
        """
        jobs = self.take(window, run)
        if jobs:
            self._try_models(run)
            for batch in self.judging.judged(jobs, self._judged_job, run.stopped):
                for job, judged in batch:
                    self.keep(job, judged, run)
                run.journal.flush()
        self.read_back(window)

    def take(self, window: Sequence[RunCase], run: Running) -> list[Job]:
        """Settles the cells of a window that need no model, and lists those to judge.

        A cell is a metric's value of a case. In a dry run the list is empty: its cells are only
        counted. A row of the list is settled once `keep` was called for all of its cells.
        """
        jobs: list[Job] = []
        for row in window:
            for place in self._judged_places:
                if run.lacks(row.cells[place]):
                    jobs.append(Job(row, place, self.table.metrics[place]))
        # By case: progress counts cases, of which each may have several cells.
        # Cases without a cell to judge: their judgements are stored, or no metric is judged for
        # them.
        reused = len(window) - len({job.row.number for job in jobs})
        if self.judging.rehearsal is not None:
            self.judging.rehearsal(self.plan, jobs, run.stopped)
            run.settled(self.name, len(window), reused=reused)
            return []
        run.settled(self.name, reused, reused=reused)
        # Cells that need no model (skipped, failed before) are stored at once.
        open_jobs: list[Job] = []
        for job in jobs:
            cell = not_asked(job.metric, job.row.trace)
            if cell is not None:
                self.table.save_judged(job.row, job.place, cell, ())
            else:
                open_jobs.append(job)
                self._open_cells[job.row.number] += 1
        # Cases of which every cell needed no model are through this stage with it.
        run.settled(self.name, len({job.row.number for job in jobs} - self._open_cells.keys()))
        run.journal.flush(if_due=True)
        return open_jobs

    def begin(self, job: Job, run: Running) -> Future[JudgedCell]:
        """Begins to judge a cell in the models' event loop, and returns the future of its value.

        A flow begins many, and stores each in its own thread once the future is done.
        """
        self._try_models(run)
        return self.judging.session.begin(lambda models: self._judged_job(job, models))

    async def _judged_job(self, job: Job, models: ModelClients) -> JudgedCell:
        """Asks the models to judge one cell (one metric's value of one case), and awaits it."""
        return await self.plan.judge(job.metric, job.row.trace, models)

    def keep(self, job: Job, judged: JudgedCell, run: Running) -> bool:
        """Stores a judged cell (a metric's value of a case) in the journal.

        Returns:
            Whether it was the last of its row: the case is through this stage then.
        """
        self.table.save_judged(job.row, job.place, judged.cell, judged.judgements)
        number = job.row.number
        self._open_cells[number] -= 1
        if self._open_cells[number]:
            return False
        del self._open_cells[number]
        run.settled(self.name, 1)
        return True

    def read_back(self, window: Sequence[RunCase]) -> None:
        """Gives each row the judgements that its judged cells rest on, as the journal holds them.

        Reports show reasons and quotes from there. In a dry run there are none.
        """
        if self.judging.rehearsal is None:
            self.table.journal.flush()
            self.table.read_judgements(window, self._judged_places)

    @property
    def _judged_places(self) -> list[int]:
        """The positions of the judged metrics among the run's metrics: a row has a cell at each.

        Only cells at these positions are asked of models; others are computed before.
        """
        return [place for place, metric in enumerate(self.table.metrics) if metric.is_judged]

    def _try_models(self, run: Running) -> None:
        """Asks the models a small question once in a run, when a cell first needs a model.

        A wrong key then ends the run with one error, before any cell fails; a run with all cells
        stored asks no model.
        """
        if not self._is_tried:
            self.judging.session.models.stop_when(run.stopped)
            self.judging.try_models(self.plan, run.stopped)
            self._is_tried = True


def judge_of(metrics: Sequence[Metric], judging: Judging | None) -> JudgeStage:
    """The stage that judges those of a run's metrics that ask a model.

    Metrics that need a model are refused without one, at the start of the run.
    """
    judged = [metric for metric in metrics if metric.is_judged]
    if judging is None:
        JudgePlan(judged).check(None, None)  # its error says which variable to set
        raise ConfigError("the metrics need a language model: pass judging=... to evaluate()")
    plan = judging.plan(judged)
    return JudgeStage(plan, judging, judging.info(plan))
