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
    """The failure of a case that takes down every worker process that it is given to.

    The run goes on without that case. For a case that was to be scored, each of its metrics fails.
    """
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
    """The same stages, with worker processes or a cluster behind those that may run there.

    Judged metrics stay with this process, so that there is one rate limit and one budget; so does a
    RAG that cannot be built again. The workers end with the block.

    Args:
        top_k: how many chunks the RAG is asked for; None leaves it to the RAG.
        rag: the command's own; None where answers are recorded.
        watch: notes that what workers do cannot be seen.
    """
    if workers.make_rag is not None and rag is not None:
        # Before the workers start: building a RAG of coroutines on them would fail in each.
        _check_buildable(rag)
        watch.meet("workers", "it was asked on workers, which cannot be seen into")
    # By the stage's name: what builds the RAG or validator, and what makes a stage of it.
    makers: dict[str, tuple[Callable[[], Any] | None, Callable[..., CallStage[Any, Any]]]] = {
        VALIDATE: (workers.make_validator, validate_stage),
        "retrieve": (workers.make_rag, partial(retrieve_stage, top_k=top_k)),
        "generate": (workers.make_rag, generate_stage),
    }
    if _answers_in_one_call(rag):
        # The retrieval brings the answer along: the command takes it from there, and asks nothing.
        makers["generate"] = (None, generate_stage)
    with ExitStack() as stack:
        # Entered first, so that it is closed last: the pool's workers live in the engine.
        engine = stack.enter_context(opened_engine(workers.engine, workers=workers.count))
        # By stage, what a worker calls; made on the worker, at the first task of the kind.
        callers: dict[str, Callable[[], Map[Any, Any]]] = {}
        for stage in stages:
            if isinstance(stage, ScoreStage):
                # A judge is asked by the command: one rate limit, one budget.
                metrics = tuple(metric for metric in stage.table.metrics if not metric.is_judged)
                callers[stage.name] = partial(scorer, metrics)
            elif isinstance(stage, CallStage) and stage.name in makers:
                make, stage_of = makers[stage.name]
                # Without a maker, the stage stays with this process.
                if make is not None:
                    callers[stage.name] = partial(_worker_call, stage_of, make, run.calls.timeout)

        pool: WorkerPool[Task, Any] = stack.enter_context(
            WorkerPool(partial(by_kind, callers), engine, lost=_lost_task, stopped=run.stopped)
        )
        stages_on_workers: list[Stage] = []
        for stage in stages:
            if stage.name in callers:
                # Stages with a caller (those that make calls, and scoring) are dataclasses with a
                # field ``pool``, which the class `Stage` does not declare.
                stages_on_workers.append(replace(cast("Any", stage), pool=pool))
            else:
                stages_on_workers.append(stage)
        yield stages_on_workers


def _lost_task(task: Task) -> Any:
    """The outcome of a task that ended every worker that it was given to: its case has failed.

    The run goes on with the other cases.
    """
    return lost_case(task.kind, task.input)


def _answers_in_one_call(rag: object) -> bool:
    """Whether a RAG gives the answer in the same call as the chunks: its function does both.

    The answers then come back with the retrievals, and workers are not asked for them again.
    """
    return isinstance(rag, AdaptedRAG) and rag.answers_in_one_call


def _check_buildable(rag: RAG) -> None:
    """Refuses a RAG of coroutines on workers, with the remedy, before a worker is started.

    One process asks many coroutines at a time already; a worker makes plain calls only.
    """
    if rag.is_async:
        raise ConfigError(
            "the RAG cannot be built on workers: its methods are coroutines, and one process asks "
            "many of them at a time. Remove on_workers from its class or factory, and set "
            "--concurrency"
        )


# --- on a worker


def _worker_call(
    stage_of: Callable[..., CallStage[Any, Any]], make: Callable[[], Any], timeout: float | None
) -> Map[Any, Outcome[Any]]:
    """Makes the function with which a worker computes a stage's outcomes.

    Runs on the worker, which builds its RAG or validator here, once.

    Args:
        stage_of: makes the stage of the built thing.
        make: builds the RAG or validator.
        timeout: seconds allowed for a query; None for no limit.
    """
    stage = stage_of(make(), b"")  # without an identity: the command compares, a worker only calls
    if stage.call is None:
        raise ConfigError(
            f"{stage.name} is asynchronous and cannot run on workers: leave out --engine"
        )
    manner = Manner(stage=stage.name, timeout=timeout)
    return partial(_outcomes_on_worker, stage, manner)


def _outcomes_on_worker(
    stage: CallStage[Any, Any], manner: Manner, items: Sequence[Any]
) -> list[Outcome[Any]]:
    """One outcome for each item of a stage, computed on a worker.

    Calls that fail are split and timed as in the command's own process, so that a run gives the
    same with and without workers.

    Args:
        stage: a stage of plain calls.
        manner: the stage's name and time limit.
        items: the inputs of some cases.
    """
    # `_worker_call` has refused a stage without a plain call.
    assert stage.call is not None
    # Where each query is a call of its own, it has its own time, and its failure is its own.
    calls: list[Sequence[Any]] = [[item] for item in items]
    if stage.takes_batches:
        calls = [items]
    outcomes: list[Outcome[Any]] = []
    # `run_plain` keeps the order of the items, so that outcomes pair with them.
    for _, batch_outcomes in run_plain(stage.call, calls, manner):
        outcomes.extend(batch_outcomes)
    return outcomes
