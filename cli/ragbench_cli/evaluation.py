"""An evaluation put together: which cases, which system, which models, and the run over them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.core.metric import Metric
from ragbench.core.report import Report
from ragbench.errors import ConfigError
from ragbench.io.entries import EntrySource, SourceInfo
from ragbench.io.only import Only
from ragbench.io.read import Selection
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import run_name
from ragbench.ledger.watch import Watch
from ragbench.metrics.matching import Matching
from ragbench.post.stage import PostRetrieval
from ragbench.stages.reuse import project_of
from ragbench.stages.stage import CallSettings
from ragbench.stages.system import EvalSettings
from ragbench.validators.validator import Validator
from ragbench.verbs.evaluate import (
    Collect,
    dataset_name,
    evaluate_entries,
    evaluate_repeatedly,
)
from ragbench_cli import console
from ragbench_cli.console import StageAdvance
from ragbench_cli.eval_options import MATCHINGS, EvalOptions, Measuring, SourceChoice, SystemChoice
from ragbench_cli.models import ModelsInUse, booked_run, models_in_use, with_canaries
from ragbench_cli.options import json_object, mapping, one_of
from ragbench_cli.systems import DocumentsBeside, System, chosen_system, run_folder
from ragbench_cli.validator_options import CalibratedChoice, validator_maker

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


def evaluated(options: EvalOptions, collect: Collect | None = None) -> Evaluated:
    """Opens what the options name, runs it in its folder, and books what it cost."""
    keeping, quiet = options.keeping, options.quiet
    with _opened(options) as parts:
        folder = run_folder(
            keeping.out,
            lambda: _run_name(options, parts),
            partial(
                project_of,
                parts.system.rag,
                parts.operators,
                parts.validator,
                metrics=parts.metrics,
                watch=parts.watch,
                leaving_out=[options.cases.dataset],
            ),
            stay=keeping.fresh or keeping.reuse,
            quiet=quiet,
        )
        _check_out(parts.source.info, folder)
        with booked_run(parts.models, parts.system.chats, folder, quiet=quiet):
            report = _run(parts, options, folder, collect)
    return Evaluated(
        report=report,
        folder=folder,
        estimate=parts.models.dry_run,
        is_asked=parts.system.rag is not None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    source: EntrySource
    selection: Selection
    system: System
    metrics: Sequence[Metric]
    operators: PostRetrieval | None
    models: ModelsInUse
    validator: Validator | None
    make_validator: Callable[[], Validator] | None
    """Makes one more on a worker; None where there may be one only."""
    watch: Watch
    stopped: Callable[[], bool]
    bars: StageAdvance | None


@contextmanager
def _opened(options: EvalOptions) -> Generator[_Parts]:
    cases, system, measuring = options.cases, options.system, options.measuring
    selection = Selection(limit=measuring.limit, sample=measuring.sample, seed=measuring.seed)
    with ExitStack() as stack:
        stack.enter_context(console.users_code())  # a file of the user's own may print
        metrics = _metrics(measuring.spelled)
        watch = stack.enter_context(Watch())
        stopped = stack.enter_context(console.stop_on_signal())
        source = stack.enter_context(_opened_source(cases, system, options.taken.only))
        models = stack.enter_context(models_in_use(options.models, metrics))
        chosen = chosen_system(
            rag=system.rag,
            pipeline=system.pipeline,
            arguments=json_object(system.rag_args, "--rag-args"),
            documents=DocumentsBeside(cases.dataset, cases.corpus, cases.format, source.info),
            recorded=_recorded(source, cases),
            config=options.models.llm.config,
            budget=models.budget,
        )
        asked = stack.enter_context(chosen)
        operators, judge, make_judge = asked.post_retrieval, None, None
        if system.operators is not None:
            operators = _operators(system.operators, asked, models)
        if measuring.validate is not None:
            judge, make_judge = _validator(measuring, measuring.validate, models, stack)
        bars = stack.enter_context(console.progress(shown=not options.quiet))
        if not options.quiet:
            _say_source(source.info, cases, asked)
        yield _Parts(
            source=source,
            selection=selection,
            system=asked,
            metrics=metrics,
            operators=operators,
            models=models,
            validator=judge,
            make_validator=make_judge,
            watch=watch,
            stopped=stopped,
            bars=bars,
        )


def _metrics(spelled: str | None) -> Sequence[Metric]:
    from ragbench.metrics.registry import default_metrics, parse_metrics

    if spelled is None:
        return default_metrics()
    if not (chosen := parse_metrics(spelled)):
        raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
    return chosen


def _operators(file: Path, system: System, models: ModelsInUse) -> PostRetrieval:
    from ragbench.post.build import Resources, load_post_retrieval
    from ragbench.stages.rag import chunk_service

    chat = models.chat("post_retrieve")
    service = None if system.rag is None else chunk_service(system.rag)
    return load_post_retrieval(file, Resources(service=service, chat=chat))


def _validator(
    measuring: Measuring, name: str, models: ModelsInUse, stack: ExitStack
) -> tuple[Validator, Callable[[], Validator] | None]:
    """The validator, and what makes it on workers where it may."""
    choice = CalibratedChoice(
        name=name, validator_args=measuring.validator_args, calibration=measuring.calibration
    )
    make, may_be_many = stack.enter_context(validator_maker(choice, models.chat("validate")))
    return make(), make if may_be_many else None


_ANSWERS = ("outputs.", "answers.")
"""Before a field in --field: it is one of the file of outputs. The second is the old name."""


@contextmanager
def _opened_source(
    choice: SourceChoice, system: SystemChoice, only: Only | None
) -> Generator[EntrySource]:
    from ragbench.io.joined import join_answers
    from ragbench.io.sources import open_source

    fields = mapping(choice.field, "--field") or {}
    own = {n: v for n, v in fields.items() if not n.startswith(_ANSWERS)}
    other = {n.partition(".")[2]: v for n, v in fields.items() if n not in own}
    if choice.answers is None and choice.answers_format is not None:
        raise ConfigError("--outputs-format needs --outputs")
    if choice.answers is None and other:
        raise ConfigError(f"--field {_ANSWERS[0]}...: there is no file of outputs (--outputs FILE)")
    with ExitStack() as stack:
        source = open_source(
            choice.dataset,
            form=choice.format,
            fields=own,
            split=choice.split if choice.answers is None else None,
            corpus=choice.corpus,
            queries=choice.queries,
            qrels=choice.qrels,
            encoding=choice.encoding,
            only=only,
        )
        stack.enter_context(source)
        if choice.answers is not None:
            answers = open_source(
                choice.answers,
                form=choice.answers_format,
                fields=other,
                split=choice.split,
                corpus=choice.corpus or (choice.dataset if Path(choice.dataset).is_dir() else None),
                encoding=choice.encoding,
                is_join=True,
            )
            source = stack.enter_context(join_answers(source, answers))
        if not source.info.looked:
            next(iter(source), None)  # says what is wrong with it
        if choice.corpus is not None and system.pipeline is None:
            _check_corpus(source, choice, system)
        yield source


def _recorded(source: EntrySource, choice: SourceChoice) -> tuple[str, dict[str, object]] | None:
    """What recorded answers are called in reports; None where there are none to score."""
    if not source.info.recorded or choice.ask_again:
        return None
    if choice.answers is None:
        return "recorded", {"spec": "recorded"}
    name = Path(choice.answers).name.split(".")[0]
    return name, {"spec": "recorded", "answers": choice.answers}


def _check_corpus(source: EntrySource, choice: SourceChoice, system: SystemChoice) -> None:
    """Refuses documents that nobody reads."""
    used = source.info.answers or source.info
    if used.uses_corpus:
        return
    if system.rag is not None:
        raise ConfigError("--corpus is for the baseline RAG: leave it out or leave out --rag")
    if _recorded(source, choice) is not None:
        raise ConfigError(
            f"--corpus is not used: {used.path} has recorded answers, and no RAG is called. "
            "To call the built-in baseline, add --ask-again"
        )


def _check_out(source: SourceInfo, folder: Path) -> None:
    for info in (source, source.answers):
        read = Path(info.path) if info is not None and info.form == "run" else None
        if read is not None and folder.exists() and read.exists() and folder.samefile(read):
            raise ConfigError(f"--out {folder} is the run that is read: choose another folder")


def _say_source(source: SourceInfo, choice: SourceChoice, system: System) -> None:
    for line in source.lines():
        console.say(line)
    recorded, looked = source.recorded, source.looked
    if system.rag is None:
        console.say("no RAG is asked: what is not recorded is skipped (--rag names one)")
        return
    families = {"retrieval": "retrieve", "generation": "generate"}
    stages = [stage for family, stage in families.items() if family in system.rag.families]
    if not recorded:
        what = " and ".join(stages)
    elif choice.ask_again:
        what = "everything: what is recorded is not used (--ask-again)"
    else:
        missing = [
            stage + (f" of {left:,}" if recorded.get(stage) else "")
            for stage in stages
            if (left := looked - recorded.get(stage, 0))
        ]
        wanted = " and ".join(missing) or "nothing so far"
        what = f"{wanted}: what is recorded is taken (--ask-again asks anew)"
    console.say(f"asking {system.name} for {what}")


def _run_name(options: EvalOptions, parts: _Parts) -> str:
    """What distinguishes this command's run from others of the same dataset and system.

    An edited pipeline is another version of the same system.
    """
    choice, source = options.system, options.cases
    named: object = (
        parts.system.description if choice.rag is None else (choice.rag, choice.rag_args)
    )
    fields = mapping(source.field, "--field") or {}
    paths = [None if path is None else str(path) for path in (source.queries, source.qrels)]
    of_source = (
        *(source.format, sorted(fields.items()), source.split, *paths),
        *(source.answers, source.answers_format, source.ask_again),
        *(options.taken.since, options.taken.until, *(options.taken.where or ())),
    )
    given = tuple(value for value in of_source if value)
    identity = (
        named if choice.pipeline is None else str(choice.pipeline),
        parts.selection,
        options.asking.top_k,
        *([given] if given else []),
        *([options.asking.turns] if options.asking.turns != "recorded" else []),
        *([str(choice.operators)] if choice.operators is not None else []),
    )
    digest = fingerprint((source.dataset, identity))
    return run_name(dataset_name(source.dataset), parts.system.name, digest)


def _run(parts: _Parts, options: EvalOptions, folder: Path, collect: Collect | None) -> Report:
    """Asks as often as is wanted, scores, and puts canaries to the judge."""
    system, source, models = parts.system, parts.source, parts.models
    cases, asking, measuring, keeping = (
        options.cases,
        options.asking,
        options.measuring,
        options.keeping,
    )
    settings = EvalSettings(
        name=dataset_name(cases.dataset),
        source=cases.dataset,
        notes=(*(() if cases.ask_again else source.info.notes), *system.notes),
        rag_name=system.name,
        rag_description=system.description,
        top_k=asking.top_k,
        turns=asking.turns,
        selection=parts.selection,
        limits=CallSettings(
            batch_size=asking.batch_size,
            concurrency=asking.concurrency or system.concurrency,
            timeout=asking.timeout,
            give_up_after=asking.give_up_after,
        ),
        matching=Matching(one_of(measuring.matched, MATCHINGS, "--matching")),
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
        workers=None if asking.on.engine == "local" else _workers(parts, options),
        fresh=keeping.fresh,
        advance=parts.bars,
        watch=parts.watch,
        stopped=parts.stopped,
        collect=collect if asking.repeats == 1 else None,
    )
    entries = (entry.case for entry in source) if cases.ask_again else source
    report = evaluate_repeatedly(
        lambda cases, place: once(cases, out=place), entries, folder, asking.repeats
    )
    if not measuring.canaries or models.judging is None:
        return report
    return with_canaries(report, models, folder, measuring.canaries, measuring.seed, parts.stopped)


def _workers(parts: _Parts, options: EvalOptions) -> Workers:
    from ragbench.rag.load import load_rag, may_be_on_workers
    from ragbench.stages.on_workers import Workers
    from ragbench.workers.engines import check_engine

    check_engine(options.asking.on.engine)
    make_rag, rag = None, options.system.rag
    if rag is not None and may_be_on_workers(rag):
        arguments = json_object(options.system.rag_args, "--rag-args")
        make_rag = partial(load_rag, rag, arguments)
    elif rag is not None and not options.quiet:
        console.say(
            "the RAG is asked by this process; on_workers = True on its class or factory has it "
            "built on workers"
        )
    return Workers(
        engine=options.asking.on.engine,
        count=options.asking.on.workers,
        make_rag=make_rag,
        make_validator=parts.make_validator,
    )
