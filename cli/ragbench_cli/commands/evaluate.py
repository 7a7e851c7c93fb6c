"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.console import ExitCode, Invocation
from ragbench_cli.eval_options import EvalOptions, Measuring
from ragbench_cli.options import JsonOption, json_object, mapping, takes_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragbench.core.metric import Metric
    from ragbench.core.report import Report
    from ragbench.io.entries import EntrySource
    from ragbench.io.only import Selection
    from ragbench.ledger.watch import Watch
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.on_workers import Workers
    from ragbench.validators.validator import Validator
    from ragbench.verbs.evaluate import Collect
    from ragbench_cli.console import StageAdvance
    from ragbench_cli.models import ModelsInUse
    from ragbench_cli.systems import System


@takes_records
def command(context: typer.Context, asked: EvalOptions, json: JsonOption = False) -> None:
    """Evaluate a RAG on a dataset, or recorded answers.

    Asks the RAG every question, scores the answers and writes a report. Recorded answers are not
    asked for again. The same command resumes an interrupted run, and computes only the changes.

    \b
    Examples:
      ragbench eval datasets/pellorin
      ragbench eval answers.jsonl
      ragbench eval cases.jsonl --outputs results.json
      ragbench eval cases.jsonl --rag my_module:MyRAG -m recall@5,nDCG@10,token_f1
      ragbench eval squad.json --rag http://localhost:8000 --limit 100 --out run
      ragbench eval cases.jsonl --rag my_module:MyRAG -m ragas:faithfulness --dry-run
    """
    from ragbench.views.write import CaseFiles, are_written, write_reports
    from ragbench_cli.report_tables import print_report

    _check(asked)
    book = asked.labelled.book  # labels that cannot be read are an error before anything is asked
    with CaseFiles() as files:
        report, folder, models, is_asked = _evaluated(asked, files.begin)
        if (counted := models.dry_run) is not None:
            from ragbench_cli.models import show_estimate

            show_estimate(counted.estimate(), counted.cases, as_json=json)
            return
        if book is not None:
            from ragbench.verbs.label import corrected_report

            report = corrected_report(report, folder, book)
        # Where no case was told, the run stood as it was.
        if files.count or not are_written(report, folder):
            write_reports(report, folder, files)
    if json:
        console.print_file(folder / "report.json")
    else:
        print_report(report, is_full=False)
    invocation = context.ensure_object(Invocation)
    again = partial(invocation.again, "--retry-failed", without="--fresh")
    code, problem = _ending(report, asked.asking.max_error_rate, again)
    if not asked.quiet:
        console.say("")
        console.say(f"report  {folder / 'report.html'} (also report.md, report.json, cases.csv)")
        if "--retry-failed" not in problem:
            _say_next(report, shlex.quote(str(folder)), again, is_asked=is_asked)
    if problem:
        console.say(f"Error: {problem}")
    if code:
        raise typer.Exit(code)


def _check(asked: EvalOptions) -> None:
    system, asking, measuring = asked.system, asked.asking, asked.measuring
    refusals = [
        f"{name} and --pipeline cannot be combined: the file describes the whole system"
        for name, value in (
            ("--rag", system.rag),
            ("--rag-args", system.rag_args),
            ("--post-retrieval", system.operators),
        )
        if value is not None and system.pipeline is not None
    ]
    if asking.timeout is not None and not asking.timeout > 0:
        refusals.append(f"--timeout must be more than 0 seconds, not {asking.timeout:g}")
    share = asking.max_error_rate
    if share is not None and not 0 <= share <= 1:
        refusals.append(f"--max-error-rate must be between 0 and 1, not {share:g}")
    if measuring.validate is None:
        refusals += [
            f"{name} is for a validator: name one with --validate"
            for name, value in (
                ("--calibration", measuring.calibration),
                ("--validator-args", measuring.validator_args),
            )
            if value is not None
        ]
    if asking.repeats > 1 and system.rag is None:
        refusals.append(
            "--rag-repeats needs --rag: recorded answers are the same each time, and so are "
            "the cached answers of a pipeline's models"
        )
    elif asking.repeats > 1 and asked.models.dry_run:
        refusals.append(
            "--dry-run cannot be combined with --rag-repeats: estimate one repeat and multiply"
        )
    if refusals:
        raise ConfigError(refusals[0])


def _ending(report: Report, most: float | None, again: Callable[[], str]) -> tuple[ExitCode, str]:
    """The exit code that says how far the numbers can be used, and what is wrong with them.

    Args:
        most: the largest share of cases in which a stage may fail.
    """
    from ragbench.metrics.matching import NOT_COMPARABLE

    if all(stage.measured + stage.abstained == 0 for stage in report.stages):
        return ExitCode.CANNOT_RUN, "no call succeeded, so nothing was measured."
    dead = [
        one.stage
        for one in report.stages
        if one.failed > one.recorded and not one.measured + one.abstained
    ]
    if dead:
        return ExitCode.CANNOT_RUN, f"no call of {' and '.join(dead)} succeeded."
    if scoring := [group for group in report.failures if group.stage == "score"]:
        lost = [
            one.metric.name
            for one in report.summaries
            if one.failed and not one.measured + one.abstained + one.unproved
        ]
        worst = max(scoring, key=lambda group: group.count)
        if lost:
            return ExitCode.CANNOT_RUN, (
                f"{', '.join(lost)} failed for every case, so that there is no value. "
                f"{worst.type}, {worst.count:,} times: {worst.message.rstrip('.')}. Once that is "
                f"mended: {again()}"
            )
    cases = report.manifest["dataset"]["cases"]
    failing = [one for one in report.stages if most is not None and one.failed > most * cases]
    if failing:
        counts = ", ".join(f"{one.stage} {one.failed:,} of {cases:,}" for one in failing)
        return ExitCode.FAILED, f"too many cases failed: {counts} (--max-error-rate {most:g})."
    # A metric that was asked for needed the gold contexts, and could not be computed.
    if not report.is_comparable and any(
        reason == NOT_COMPARABLE for summary in report.summaries for reason, _ in summary.reasons
    ):
        return ExitCode.INCONCLUSIVE, ""
    return ExitCode.PASSED, ""


def _say_next(report: Report, place: str, again: Callable[[], str], *, is_asked: bool) -> None:
    from ragbench.core.attribution import LOSSES
    from ragbench.core.metric import Need

    gold = {
        *(Need.JUDGEMENTS, Need.REFERENCE, Need.REFERENCE_CONTEXTS, Need.REFERENCE_CONTEXT_IDS),
        *(Need.GRADES, Need.EVIDENCE, Need.ANSWERABLE, Need.RUBRICS),
    }
    compared = [one for one in report.summaries if one.metric.definition.needs & gold]
    if any(is_asked or group.stage == "score" for group in report.failures):
        console.say(f"retry   {again()}")
    elif report.is_comparable and compared and all(one.skipped == one.total for one in compared):
        console.say("Nothing to compare with: no case has a reference answer or relevant contexts.")
        more = (
            "-m support --llm-model MODEL --dry-run" if report.validation else "--validate lexical"
        )
        console.say(f"next    ragbench eval {place} {more}")
    elif any(count.cause in LOSSES for count in report.causes):
        console.say(f"next    ragbench explain {place}")
    else:
        console.say(f"next    ragbench report {place}")


class _Parts(NamedTuple):
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


def _evaluated(options: EvalOptions, collect: Collect) -> tuple[Report, Path, ModelsInUse, bool]:
    """Opens what the options name, runs it in its folder, and books what it cost.

    Gives the report, the folder, the models, and whether a RAG was asked.
    """
    from ragbench.stages.reuse import project_of
    from ragbench_cli.models import booked_run
    from ragbench_cli.systems import run_folder

    keeping, quiet = options.keeping, options.quiet
    with _opened(options) as parts:
        system = parts.system
        project = partial(
            project_of, system.rag, parts.operators, parts.validator, metrics=parts.metrics,
            watch=parts.watch, leaving_out=[options.cases.dataset],
        )  # fmt: skip
        name, stay = partial(_run_name, options, parts), keeping.fresh or keeping.reuse
        folder = run_folder(keeping.out, name, project, stay=stay, quiet=quiet)
        for info in (parts.source.info, parts.source.info.answers):
            is_run = info is not None and info.form == "run" and folder.exists()
            if info is not None and is_run and folder.samefile(info.path):
                raise ConfigError(f"--out {folder} is the run that is read: choose another folder")
        with booked_run(parts.models, system.chats, folder, quiet=quiet):
            report = _run(parts, options, folder, collect)
    return report, folder, parts.models, system.rag is not None


@contextmanager
def _opened(options: EvalOptions) -> Generator[_Parts]:
    from ragbench.io.only import Selection
    from ragbench.ledger.watch import Watch
    from ragbench.metrics.registry import default_metrics, parse_metrics
    from ragbench_cli.models import models_in_use
    from ragbench_cli.systems import DocumentsBeside, chosen_system, opened_source, say_source

    cases, system, measuring = options.cases, options.system, options.measuring
    with ExitStack() as stack:
        stack.enter_context(console.users_code())  # a file of the user's own may print
        spelled = measuring.spelled
        metrics = default_metrics() if spelled is None else parse_metrics(spelled)
        if not metrics:
            raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
        watch = stack.enter_context(Watch())
        stopped = stack.enter_context(console.stop_on_signal())
        source = stack.enter_context(opened_source(cases, system, options.taken.only))
        models = stack.enter_context(models_in_use(options.models, metrics))
        chosen = chosen_system(
            rag=system.rag,
            pipeline=system.pipeline,
            arguments=json_object(system.rag_args, "--rag-args") if system.rag_args else {},
            documents=DocumentsBeside(cases.dataset, cases.corpus, cases.format, source.info),
            recorded=cases.answers or "" if source.info.recorded and not cases.ask_again else None,
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
            say_source(source.info, cases, asked)
        selection = Selection(limit=measuring.limit, sample=measuring.sample, seed=measuring.seed)
        yield _Parts(
            source, selection, asked, metrics, operators, models, judge, make_judge, watch, stopped,
            bars,
        )  # fmt: skip


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
    from ragbench.validators.validator import default_validator
    from ragbench_cli.validator_options import DEFAULT_VALIDATOR, CalibratedChoice, validator_maker

    choice = CalibratedChoice(
        name=default_validator() if name == DEFAULT_VALIDATOR else name,
        validator_args=measuring.validator_args,
        calibration=measuring.calibration,
    )
    make, may_be_many = stack.enter_context(validator_maker(choice, models.chat("validate")))
    return make(), make if may_be_many else None


def _run_name(options: EvalOptions, parts: _Parts) -> str:
    """What distinguishes this command's run from others of the same dataset and system.

    An edited pipeline is another version of the same system.
    """
    from ragbench.ledger.fingerprint import fingerprint
    from ragbench.ledger.folder import run_name
    from ragbench.verbs.evaluate import dataset_name

    choice, source = options.system, options.cases
    named: object = (
        parts.system.description if choice.rag is None else (choice.rag, choice.rag_args)
    )
    fields = mapping(source.field or (), "--field")
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


def _run(parts: _Parts, options: EvalOptions, folder: Path, collect: Collect) -> Report:
    """Asks as often as is wanted, scores, and puts canaries to the judge."""
    from ragbench.metrics.matching import Matching
    from ragbench.stages.stage import CallSettings
    from ragbench.stages.system import EvalSettings
    from ragbench.verbs.evaluate import dataset_name, evaluate_entries, evaluate_repeatedly

    system, source, models = parts.system, parts.source, parts.models
    cases, asking, measuring = options.cases, options.asking, options.measuring
    keeping = options.keeping
    settings = EvalSettings(
        name=dataset_name(cases.dataset), source=cases.dataset, rag_name=system.name,
        rag_description=system.description, top_k=asking.top_k, turns=asking.turns,
        notes=(*(() if cases.ask_again else source.info.notes), *system.notes),
        selection=parts.selection, matching=Matching(measuring.matched), corpus=system.documents,
        locator=system.locator, trust_stored=keeping.reuse, retry_failed=keeping.retry_failed,
        limits=CallSettings(
            batch_size=asking.batch_size, concurrency=asking.concurrency or system.concurrency,
            timeout=asking.timeout, give_up_after=asking.give_up_after,
        ),
    )  # fmt: skip
    once = partial(
        evaluate_entries, rag=system.rag, metrics=parts.metrics, post_retrieval=parts.operators,
        validator=parts.validator, judging=models.judging, settings=settings, fresh=keeping.fresh,
        workers=None if asking.on.engine == "local" else _workers(parts, options),
        advance=parts.bars, watch=parts.watch, stopped=parts.stopped,
        collect=collect if asking.repeats == 1 else None,
    )  # fmt: skip
    entries = (entry.case for entry in source) if cases.ask_again else source
    report = evaluate_repeatedly(
        lambda cases, place: once(cases, out=place), entries, folder, asking.repeats
    )
    if not measuring.canaries or models.judging is None:
        return report
    from ragbench_cli.models import with_canaries

    return with_canaries(report, models, folder, measuring.canaries, measuring.seed, parts.stopped)


def _workers(parts: _Parts, options: EvalOptions) -> Workers:
    from ragbench.rag.load import load_rag, may_be_on_workers
    from ragbench.stages.on_workers import Workers
    from ragbench.workers.engines import check_engine

    check_engine(options.asking.on.engine)
    make_rag, rag = None, options.system.rag
    if rag is not None and may_be_on_workers(rag):
        arguments = json_object(options.system.rag_args or "{}", "--rag-args")
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
