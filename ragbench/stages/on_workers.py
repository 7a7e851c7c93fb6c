"""Which stages of a run are computed by workers, and what each worker calls.

A worker builds the thing once, by the same function as the command, and calls it as the command
would: batches that fail are split, time limits hold. Judged metrics and whatever else waits for an
endpoint stay with the command, so that there is one rate limit and one budget.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from ragbench.core.calling import with_deadline
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.errors import ConfigError
from ragbench.rag.parts import AdaptedRAG
from ragbench.stages.call_stage import CallStage
from ragbench.stages.calls import Manner, attempt
from ragbench.stages.rag import RAG, generate_stage, retrieve_stage
from ragbench.stages.score import ScoreStage, lost_cells, scorer
from ragbench.stages.stage import Stage
from ragbench.stages.validate import VALIDATE, validate_stage
from ragbench.validators.validator import Validator
from ragbench.workers.engines import opened_engine
from ragbench.workers.pool import Map, Task, WorkerPool, by_kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    engine: str = "local"
    """``"local"``, ``"processes"``, ``"ray"`` or ``"ray://HOST:PORT"``."""
    count: int | None = None
    """How many; one per processor of the machine or the cluster when not given."""
    make_rag: Callable[[], RAG] | None = None
    """Makes the RAG again, on each worker: a function of a module, or a partial of one. Without it
    the RAG is asked by this process."""
    make_validator: Callable[[], Validator] | None = None


def lost_case(stage: str, _case: object) -> Outcome[Any]:
    """What a case gave that takes down every worker that it is given to."""
    message = "took three worker processes down, perhaps for lack of memory"
    failure = Failure(type="ProcessDied", message=message, stage=stage)
    return Outcome(status=Status.FAILED, failure=failure)


def check_buildable(rag: RAG) -> None:
    """Refuses a RAG that workers cannot be asked in place of."""
    if rag.is_async or (isinstance(rag, AdaptedRAG) and rag.answers_in_one_call):
        kind = "its methods are coroutines" if rag.is_async else "it answers while it retrieves"
        raise ConfigError(
            f"the RAG cannot be built on workers: {kind}. Take on_workers from it, and the command "
            "asks it itself"
        )


@contextmanager
def staffed(
    stages: Sequence[Stage],
    workers: Workers,
    *,
    top_k: int | None,
    timeout: float | None,
    stopped: Callable[[], bool],
) -> Generator[list[Stage]]:
    """The same stages, with workers behind those that may have some.

    Args:
        timeout: seconds per query; None for no limit.
    """
    with ExitStack() as stack:
        engine = stack.enter_context(opened_engine(workers.engine, workers=workers.count))
        makes = {stage.name: _maker(stage, workers, top_k, timeout) for stage in stages}
        made = {name: make for name, make in makes.items() if make is not None}
        pool: WorkerPool[Task, Any] = stack.enter_context(
            WorkerPool(partial(by_kind, made), engine, lost=_lost, stopped=stopped)
        )
        # All that something is made for are dataclasses with a pool.
        yield [
            replace(cast("Any", stage), pool=pool) if stage.name in made else stage
            for stage in stages
        ]


def _maker(
    stage: Stage, workers: Workers, top_k: int | None, timeout: float | None
) -> Callable[[], Map[Any, Any]] | None:
    """What makes a stage's call on a worker; None where this process makes it."""
    if isinstance(stage, ScoreStage):
        metrics = tuple(e.metric for e in stage.table.metrics if not e.metric.is_judged)
        return partial(scorer, metrics)
    if stage.name == VALIDATE and workers.make_validator is not None:
        return partial(_asking, partial(_validating, workers.make_validator), timeout)
    if stage.name in ("retrieve", "generate") and workers.make_rag is not None:
        return partial(_asking, partial(_asked, workers.make_rag, stage.name, top_k), timeout)
    return None


def _lost(task: Task) -> Any:
    return lost_cells(task.input) if task.kind == "score" else lost_case(task.kind, task.input)


# --- on a worker


def _validating(make: Callable[[], Validator]) -> CallStage[Any, Any]:
    return validate_stage(make(), b"")


def _asked(make: Callable[[], RAG], stage: str, top_k: int | None) -> CallStage[Any, Any]:
    rag = make()
    return retrieve_stage(rag, b"", top_k) if stage == "retrieve" else generate_stage(rag, b"")


def _asking(
    make: Callable[[], CallStage[Any, Any]], timeout: float | None
) -> Map[Any, Outcome[Any]]:
    stage = make()
    plain = stage.call
    if plain is None:
        raise ConfigError(f"{stage.name}: its call is a coroutine")
    limited = plain if timeout is None else with_deadline(plain, timeout)
    manner = Manner(stage=stage.name)

    def call(items: Sequence[Any]) -> list[Outcome[Any]]:
        # Where each query is a call of its own, it has its own time, and its failure is its own.
        calls = [items] if stage.takes_batches else [[item] for item in items]
        done = (part for one in calls for part in attempt(limited, one, manner))
        return [outcome for _, outcomes in done for outcome in outcomes]

    return call
