"""An evaluation put together: which cases, which system, which models, and the run over them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.core.chat import ChatModel
from ragbench.core.metric import Metric
from ragbench.core.report import Report
from ragbench.errors import ConfigError
from ragbench.io.read import Selection
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import run_name
from ragbench.ledger.watch import Watch
from ragbench.post.stage import PostRetrieval
from ragbench.stages.reuse import project_of
from ragbench.validators.validator import Validator
from ragbench.verbs.evaluate import (
    EvalSettings,
    dataset_name,
    evaluate_entries,
    evaluate_repeatedly,
)
from ragbench_cli import console
from ragbench_cli.console import StageAdvance
from ragbench_cli.costs import booked_run
from ragbench_cli.eval_options import Asking, Keeping, Measuring, SystemChoice
from ragbench_cli.eval_source import OpenedSource, SourceChoice, opened_source
from ragbench_cli.models import ModelChoice, ModelsInUse, models_in_use, with_canaries
from ragbench_cli.systems import (
    DocumentsBeside,
    PipelineFile,
    System,
    chosen_system,
    run_folder,
)
from ragbench_cli.validator_options import ValidatorChoice, validator_maker

if TYPE_CHECKING:
    from ragbench.stages.dry_run import DryRun
    from ragbench.stages.on_workers import Workers


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    report: Report
    folder: Path
    estimate: DryRun | None
    """What judging would take, where it was only counted."""
    is_asked: bool
    """Whether a RAG was asked; else all of it was recorded."""


def evaluated(
    cases: SourceChoice,
    system: SystemChoice,
    models: ModelChoice,
    measuring: Measuring,
    asking: Asking,
    keeping: Keeping,
    *,
    quiet: bool,
) -> Evaluated:
    """Opens what the options name, runs it in its folder, and books what it cost."""
    with _opened(cases, system, models, measuring, quiet=quiet) as parts:
        folder = run_folder(
            keeping.out,
            lambda: _run_name(cases, system, parts.system, measuring.selection, asking.top_k),
            partial(
                project_of,
                parts.system.rag,
                parts.operators,
                parts.validator,
                metrics=parts.metrics,
                watch=parts.watch,
                leaving_out=[cases.dataset],
            ),
            stay=keeping.fresh or keeping.reuse,
            quiet=quiet,
        )
        parts.source.check_out(folder)
        with booked_run(parts.models, parts.system.receipts, folder, quiet=quiet):
            workers = _workers(asking, system, parts, quiet=quiet)
            report = _run(parts, folder, measuring, asking, keeping, workers)
    return Evaluated(
        report=report,
        folder=folder,
        estimate=parts.models.dry_run,
        is_asked=parts.system.rag is not None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    source: OpenedSource
    system: System
    metrics: tuple[Metric, ...]
    operators: PostRetrieval | None
    models: ModelsInUse
    validator: Validator | None
    make_validator: Callable[[], Validator] | None
    """Makes one more on a worker; None where there may be one only."""
    watch: Watch
    stopped: Callable[[], bool]
    bars: StageAdvance | None


@contextmanager
def _opened(
    source: SourceChoice,
    system: SystemChoice,
    models: ModelChoice,
    measuring: Measuring,
    *,
    quiet: bool,
) -> Generator[_Parts]:
    metrics, validator = measuring.metrics(), measuring.validator
    rag, file = system.rag, system.pipeline
    with (
        Watch() as watch,
        console.stop_on_signal() as stopped,
        console.users_code(),
        opened_source(source, has_rag=rag is not None, has_pipeline=file is not None) as cases,
        models_in_use(models, metrics) as used,
        chosen_system(
            rag=rag,
            pipeline=None if file is None else PipelineFile(file, models.llm.config, used.budget),
            arguments=system.arguments,
            documents=DocumentsBeside(source.dataset, source.corpus, source.format, cases.held),
            recorded=cases.recorded,
        ) as asked,
        _validator(validator, used.chat("validate")) as (judge, make_validator),
        console.progress(shown=not quiet) as bars,
    ):
        if not quiet:
            cases.say(None if asked.rag is None else asked.name, asked.asked_for)
        yield _Parts(
            source=cases,
            system=asked,
            metrics=metrics,
            operators=_operators(system.operators, asked, used),
            models=used,
            validator=judge,
            make_validator=make_validator,
            watch=watch,
            stopped=stopped,
            bars=bars,
        )


@contextmanager
def _validator(
    choice: ValidatorChoice | None, chat: ChatModel
) -> Generator[tuple[Validator | None, Callable[[], Validator] | None]]:
    """The validator, and what makes it on workers where it may; None without one."""
    if choice is None:
        yield None, None
        return
    with validator_maker(choice, chat) as (make, may_be_many):
        yield make(), make if may_be_many else None


def _operators(file: Path | None, system: System, models: ModelsInUse) -> PostRetrieval | None:
    if file is None:
        return system.post_retrieval
    from ragbench.post.build import Resources, load_post_retrieval
    from ragbench.stages.rag import chunk_service

    chat = models.chat("post_retrieve")
    service = None if system.rag is None else chunk_service(system.rag)
    return load_post_retrieval(file, Resources(service=service, chat=chat))


def _run_name(
    source: SourceChoice,
    choice: SystemChoice,
    system: System,
    selection: Selection,
    top_k: int | None,
) -> str:
    """What distinguishes this command's run from others of the same dataset and system."""
    identity = (
        choice.named(system),
        selection,
        top_k,
        *([source.identity] if source.identity else []),
        *([str(choice.operators)] if choice.operators is not None else []),
    )
    digest = fingerprint((source.dataset, identity))
    return run_name(dataset_name(source.dataset), system.name, digest)


def _run(
    parts: _Parts,
    folder: Path,
    measuring: Measuring,
    asking: Asking,
    keeping: Keeping,
    workers: Workers | None,
) -> Report:
    """Asks as often as is wanted, scores, and puts canaries to the judge."""
    system, source, models = parts.system, parts.source, parts.models
    settings = EvalSettings(
        name=dataset_name(source.choice.dataset),
        source=source.choice.dataset,
        notes=(*(() if source.choice.ask_again else source.source.info.notes), *system.notes),
        rag_name=system.name,
        rag_description=system.description,
        top_k=asking.top_k,
        selection=measuring.selection,
        limits=asking.limits(system),
        matching=measuring.matching,
        corpus=system.documents,
        locator=system.locator,
        trust_stored=keeping.reuse,
        retry_failed=keeping.retry_failed,
    )
    once = partial(
        evaluate_entries,
        rag=system.rag,
        metrics=parts.metrics,
        post_retrieval=parts.operators,
        validator=parts.validator,
        judging=models.judging,
        settings=settings,
        workers=workers,
        fresh=keeping.fresh,
        advance=parts.bars,
        watch=parts.watch,
        stopped=parts.stopped,
    )
    report = evaluate_repeatedly(
        lambda cases, place: once(cases, out=place), source.entries(), folder, asking.repeats
    )
    if not measuring.canaries or models.judging is None:
        return report
    seed = measuring.selection.seed
    return with_canaries(report, models, folder, measuring.canaries, seed, parts.stopped)


def _workers(asking: Asking, system: SystemChoice, parts: _Parts, *, quiet: bool) -> Workers | None:
    if asking.engine == "local":
        if asking.workers is not None:
            raise ConfigError("--workers needs --engine processes or --engine ray")
        return None
    from ragbench.rag.load import load_rag, may_be_on_workers
    from ragbench.stages.on_workers import Workers
    from ragbench.workers.engines import check_engine

    check_engine(asking.engine)
    make_rag, rag = None, system.rag
    if rag is not None and may_be_on_workers(rag):
        make_rag = partial(load_rag, rag, system.arguments)
    elif rag is not None and not quiet:
        console.say(
            "the RAG is asked by this process; on_workers = True on its class or factory has it "
            "built on workers"
        )
    return Workers(
        engine=asking.engine,
        count=asking.workers,
        make_rag=make_rag,
        make_validator=parts.make_validator,
    )
