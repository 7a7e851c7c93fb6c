"""Which stages of a run are computed by workers, and what each worker calls.

A worker builds the thing once, by the same function as the command, and calls it as the command
would: batches that fail are split, time limits hold. Judged metrics and whatever else waits for an
endpoint stay with the command, so that there is one rate limit and one budget.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.ledger.watch import Watch
from ragbench.rag.parts import AdaptedRAG
from ragbench.stages.call_stage import CallStage
from ragbench.stages.calls import Manner, run_plain
from ragbench.stages.rag import RAG, generate_stage, retrieve_stage
from ragbench.stages.score import ScoreInput, ScoreStage, scorer
from ragbench.stages.stage import Running, Stage
from ragbench.stages.validate import VALIDATE, validate_stage
from ragbench.validators.validator import Validator
from ragbench.workers.engines import opened_engine
from ragbench.workers.pool import Map, Task, WorkerPool, by_kind


class Workers(Record):
    """Where stages run: in this process, in processes of this machine, or on a Ray cluster."""

    engine: str = "local"
    """``"local"``, ``"processes"``, ``"ray"`` or ``"ray://HOST:PORT"``."""
    count: int | None = None
    """How many; one per processor of the machine or the cluster when not given."""
    make_rag: Callable[[], RAG] | None = None
    """Makes the RAG again, on each worker: a function of a module, or a partial of one. Without it
    the RAG is asked by this process."""
    make_validator: Callable[[], Validator] | None = None


def lost_case(stage: str, case: object) -> Any:
    """The failure of a case that takes down every worker that it is given to."""
    message = "took three worker processes down, perhaps for lack of memory"
    failure = Failure(type="ProcessDied", message=message, stage=stage)
    if isinstance(case, ScoreInput):
        return tuple(Cell.failed(failure) for _ in case.metrics)
    lost: Outcome[Any] = Outcome(status=Status.FAILED, failure=failure)
    return lost


@contextmanager
def staffed(
    stages: Sequence[Stage],
    workers: Workers,
    run: Running,
    *,
    top_k: int | None,
    rag: RAG | None,
    watch: Watch,
) -> Generator[list[Stage]]:
    """The same stages, with workers behind those that may have some.

    Args:
        top_k: how many chunks the RAG is asked for; None leaves it to the RAG.
        rag: the command's own; None where answers are recorded.
        watch: notes that what workers do cannot be seen.
    """
    if workers.make_rag is not None and rag is not None:
        _check_buildable(rag)
        watch.meet("workers", "it was asked on workers, which cannot be seen into")
    makers: dict[str, tuple[Callable[[], Any] | None, Callable[..., CallStage[Any, Any]]]] = {
        VALIDATE: (workers.make_validator, validate_stage),
        "retrieve": (workers.make_rag, partial(retrieve_stage, top_k=top_k)),
        "generate": (workers.make_rag, generate_stage),
    }
    if _answers_in_one_call(rag):
        # The retrieval brings the answer along: the command takes it from there, and asks nothing.
        makers["generate"] = (None, generate_stage)
    with ExitStack() as stack:
        engine = stack.enter_context(opened_engine(workers.engine, workers=workers.count))
        callers: dict[str, Callable[[], Map[Any, Any]]] = {}
        for stage in stages:
            if isinstance(stage, ScoreStage):
                # A judge is asked by the command: one rate limit, one budget.
                metrics = tuple(metric for metric in stage.table.metrics if not metric.is_judged)
                callers[stage.name] = partial(scorer, metrics)
            elif isinstance(stage, CallStage) and stage.name in makers:
                make, stage_of = makers[stage.name]
                if make is not None:
                    callers[stage.name] = partial(_asking, stage_of, make, run.calls.timeout)

        def lost(task: Task) -> Any:
            """What counts for a task that ended every worker that it was given to."""
            return lost_case(task.kind, task.input)

        pool: WorkerPool[Task, Any] = stack.enter_context(
            WorkerPool(partial(by_kind, callers), engine, lost=lost, stopped=run.stopped)
        )
        stages_on_workers: list[Stage] = []
        for stage in stages:
            if stage.name in callers:
                # Both kinds that have a caller are dataclasses with a pool.
                stages_on_workers.append(replace(cast("Any", stage), pool=pool))
            else:
                stages_on_workers.append(stage)
        yield stages_on_workers


def _answers_in_one_call(rag: object) -> bool:
    """Whether a RAG's answer comes with its retrieval."""
    return isinstance(rag, AdaptedRAG) and rag.answers_in_one_call


def _check_buildable(rag: RAG) -> None:
    """Refuses a RAG that workers cannot be asked in place of."""
    if rag.is_async:
        raise ConfigError(
            "the RAG cannot be built on workers: its methods are coroutines, and one process asks "
            "many of them at a time. Remove on_workers from its class or factory, and set "
            "--concurrency"
        )


# --- on a worker


def _asking(
    stage_of: Callable[..., CallStage[Any, Any]], make: Callable[[], Any], timeout: float | None
) -> Map[Any, Outcome[Any]]:
    """What a worker calls for a stage: of a RAG or validator that it makes once, by itself."""
    stage = stage_of(make(), b"")  # without an identity: the command compares, a worker only calls
    plain = stage.call
    takes_batches = stage.takes_batches
    manner = Manner(stage=stage.name, timeout=timeout)
    if plain is None:
        raise ConfigError(
            f"{stage.name} is asynchronous and cannot run on workers: leave out --engine"
        )

    def call(items: Sequence[Any]) -> list[Outcome[Any]]:
        """The outcome of each item; what fails is split and timed as in the command's process."""
        # Where each query is a call of its own, it has its own time, and its failure is its own.
        calls: list[Sequence[Any]] = [[item] for item in items]
        if takes_batches:
            calls = [items]
        outcomes: list[Outcome[Any]] = []
        for _, batch_outcomes in run_plain(plain, calls, manner):
            outcomes.extend(batch_outcomes)
        return outcomes

    return call
