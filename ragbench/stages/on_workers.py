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
from ragbench.rag.parts import AdaptedRAG
from ragbench.stages.call_stage import CallStage
from ragbench.stages.calls import Manner, run_plain
from ragbench.stages.rag import RAG, generate_stage, retrieve_stage
from ragbench.stages.score import ScoreInput, ScoreStage, scorer
from ragbench.stages.stage import Stage
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
    """What a case gave that takes down every worker that it is given to."""
    message = "took three worker processes down, perhaps for lack of memory"
    failure = Failure(type="ProcessDied", message=message, stage=stage)
    if isinstance(case, ScoreInput):
        return tuple(Cell.failed(failure) for _ in case.metrics)
    lost: Outcome[Any] = Outcome(status=Status.FAILED, failure=failure)
    return lost


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
    rag = workers.make_rag
    makes = {VALIDATE: workers.make_validator, "retrieve": rag, "generate": rag}
    with ExitStack() as stack:
        engine = stack.enter_context(opened_engine(workers.engine, workers=workers.count))
        made = dict[str, Callable[[], Map[Any, Any]]]()
        for stage in stages:
            if isinstance(stage, ScoreStage):
                metrics = tuple(one for one in stage.table.metrics if not one.is_judged)
                made[stage.name] = partial(scorer, metrics)
            elif make := makes.get(stage.name):
                made[stage.name] = partial(_asking, stage.name, make, top_k, timeout)

        def lost(task: Task) -> Any:
            return lost_case(task.kind, task.input)

        pool: WorkerPool[Task, Any] = stack.enter_context(
            WorkerPool(partial(by_kind, made), engine, lost=lost, stopped=stopped)
        )
        # All that something is made for are dataclasses with a pool.
        yield [
            replace(cast("Any", stage), pool=pool) if stage.name in made else stage
            for stage in stages
        ]


# --- on a worker


def _asking(
    name: str, make: Callable[[], Any], top_k: int | None, timeout: float | None
) -> Map[Any, Outcome[Any]]:
    made = make()
    stage: CallStage[Any, Any]
    if name == VALIDATE:
        stage = validate_stage(made, b"")
    elif name == "retrieve":
        stage = retrieve_stage(made, b"", top_k)
    else:
        stage = generate_stage(made, b"")
    plain, takes_batches = stage.call, stage.takes_batches
    manner = Manner(stage=name, timeout=timeout)
    if plain is None:
        raise ConfigError(f"{name} is asynchronous and cannot run on workers: leave out --engine")

    def call(items: Sequence[Any]) -> list[Outcome[Any]]:
        # Where each query is a call of its own, it has its own time, and its failure is its own.
        calls = [items] if takes_batches else [[item] for item in items]
        done = run_plain(plain, calls, manner)
        return [outcome for _, outcomes in done for outcome in outcomes]

    return call
