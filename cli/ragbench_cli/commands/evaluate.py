"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragbench_cli import console
from ragbench_cli.console import ExitCode, Invocation, invocation_of
from ragbench_cli.eval_options import (
    MATCHINGS,
    AnswersFormatOption,
    AnswersOption,
    AskAgainOption,
    BatchSizeOption,
    CanariesOption,
    ConcurrencyOption,
    CorpusOption,
    DatasetArgument,
    DryRunOption,
    EncodingOption,
    FieldOption,
    FormatOption,
    FreshOption,
    LimitOption,
    MatchingOption,
    MaxCostOption,
    MaxCostRunOption,
    MaxErrorRateOption,
    MetricsOption,
    NoPreflightOption,
    OutOption,
    PipelineOption,
    PostRetrievalOption,
    QrelsOption,
    QueriesOption,
    QuietOption,
    RagArgsOption,
    RagOption,
    RagRepeatsOption,
    RepeatsOption,
    RetryFailedOption,
    ReuseOption,
    SampleOption,
    SeedOption,
    SplitOption,
    TimeoutOption,
    TopKOption,
    ValidateOption,
)
from ragbench_cli.llm_options import (
    ConfigOption,
    LLMBaseUrlOption,
    LLMKeyFileOption,
    LLMKeyVariableOption,
    LLMModelOption,
    PanelOption,
    PanelVoteOption,
)
from ragbench_cli.options import EngineOption, EngineWorkersOption, JsonOption
from ragbench_cli.validate_options import (
    CalibrationOption,
    ValidatorArgsOption,
    ValidatorChoice,
    validator_maker,
)

if TYPE_CHECKING:
    from ragbench.core.chat import ChatModel
    from ragbench.core.report import Report
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.dry_run import DryRun
    from ragbench.stages.on_workers import Workers
    from ragbench.validators.validator import Validator
    from ragbench_cli.models import ModelsInUse
    from ragbench_cli.systems import System

__all__ = [
    "command",
]


def command(
    context: typer.Context,
    dataset: DatasetArgument,
    answers: AnswersOption = None,
    rag: RagOption = None,
    pipeline: PipelineOption = None,
    rag_args: RagArgsOption = None,
    corpus: CorpusOption = None,
    post_retrieval: PostRetrievalOption = None,
    validate: ValidateOption = None,
    validator_args: ValidatorArgsOption = None,
    calibration: CalibrationOption = None,
    metrics: MetricsOption = None,
    out: OutOption = None,
    limit: LimitOption = None,
    sample: SampleOption = None,
    seed: SeedOption = 0,
    top_k: TopKOption = None,
    batch_size: BatchSizeOption = 32,
    concurrency: ConcurrencyOption = None,
    timeout: TimeoutOption = None,
    max_error_rate: MaxErrorRateOption = None,
    engine: EngineOption = "local",
    workers: EngineWorkersOption = None,
    matching: MatchingOption = "auto",
    format: FormatOption = None,
    answers_format: AnswersFormatOption = None,
    field: FieldOption = None,
    split: SplitOption = None,
    queries: QueriesOption = None,
    qrels: QrelsOption = None,
    encoding: EncodingOption = None,
    ask_again: AskAgainOption = False,
    llm_model: LLMModelOption = None,
    llm_base_url: LLMBaseUrlOption = None,
    llm_api_key_env: LLMKeyVariableOption = None,
    llm_api_key_file: LLMKeyFileOption = None,
    config: ConfigOption = None,
    dry_run: DryRunOption = False,
    max_cost: MaxCostOption = None,
    max_cost_run: MaxCostRunOption = None,
    rag_repeats: RagRepeatsOption = 1,
    repeats: RepeatsOption = 1,
    panel: PanelOption = None,
    panel_vote: PanelVoteOption = None,
    canaries: CanariesOption = 0,
    no_preflight: NoPreflightOption = False,
    fresh: FreshOption = False,
    reuse: ReuseOption = False,
    retry_failed: RetryFailedOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Evaluate a RAG on a dataset, or recorded answers.

    Runs every question through the RAG, scores the answers and writes a report. What a file has
    already recorded is not asked again. The same command continues an interrupted run, and
    computes only what has changed.

    \b
    Examples:
      ragbench eval datasets/pellorin
      ragbench eval answers.jsonl
      ragbench eval cases.jsonl --answers results.json
      ragbench eval cases.jsonl --rag my_module:MyRAG -m recall@5,nDCG@10,token_f1
      ragbench eval datasets/pellorin --pipeline rag.yaml
      ragbench eval squad.json --rag http://localhost:8000 --limit 100 --out run
      ragbench eval cases.jsonl --rag my_module:MyRAG -m ragas:faithfulness --dry-run
    """
    from functools import partial

    from ragbench.errors import ConfigError
    from ragbench.io.read import Selection
    from ragbench.ledger.watch import Watch
    from ragbench.metrics.matching import Matching
    from ragbench.metrics.registry import default_metrics, parse_metrics
    from ragbench.stages.stage import CallSettings
    from ragbench.verbs.evaluate import evaluate
    from ragbench.verbs.rag_repeats import evaluate_repeatedly
    from ragbench.views.write import write_reports
    from ragbench_cli.console import progress
    from ragbench_cli.eval_source import SourceChoice, opened_source, say_lines
    from ragbench_cli.models import ModelChoice, booked_run, models_in_use, with_canaries
    from ragbench_cli.options import json_object, mapping, one_of
    from ragbench_cli.systems import (
        DocumentsBeside,
        PipelineFile,
        chosen_system,
        dataset_name,
        default_folder,
    )

    _check(
        timeout=timeout,
        pipeline=pipeline,
        rag=rag,
        others={"--corpus": corpus, "--rag-args": rag_args, "--post-retrieval": post_retrieval},
    )
    _check_repeats(rag_repeats, rag=rag, dry_run=dry_run)
    if max_error_rate is not None and not 0 <= max_error_rate <= 1:
        raise ConfigError(f"--max-error-rate must be between 0 and 1, not {max_error_rate:g}")
    with console.stdout_for_data():
        chosen = default_metrics() if metrics is None else parse_metrics(metrics)
    if not chosen:
        raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
    selection = Selection(limit=limit, sample=sample, seed=seed)
    how = Matching(one_of(matching, MATCHINGS, "--matching"))
    reading = SourceChoice(
        dataset=dataset,
        format=format,
        fields=mapping(field, "--field") or {},
        split=split,
        encoding=encoding,
        corpus=corpus,
        queries=None if queries is None else str(queries),
        qrels=None if qrels is None else str(qrels),
        answers=answers,
        answers_format=answers_format,
        ask_again=ask_again,
    )
    arguments = json_object(rag_args, "--rag-args")
    choice = ModelChoice(
        model=llm_model,
        base_url=llm_base_url,
        api_key_env=llm_api_key_env,
        api_key_file=llm_api_key_file,
        config=config,
        max_cost=max_cost,
        max_cost_run=max_cost_run,
        panel=panel,
        panel_vote=panel_vote,
        repeats=repeats,
        preflight=not no_preflight,
    )
    with (
        Watch() as watch,
        console.stop_on_signal() as stopped,
        console.stdout_for_data(),
        opened_source(
            reading, has_rag=rag is not None, has_pipeline=pipeline is not None
        ) as source,
        models_in_use(choice, chosen, dry_run=dry_run) as models,
        chosen_system(
            rag=rag,
            pipeline=None if pipeline is None else PipelineFile(pipeline, config, models.budget),
            arguments=arguments,
            documents=DocumentsBeside(dataset, corpus, format, source.held),
            recorded=source.recorded,
        ) as system,
        _validator(validate, validator_args, calibration, models.chat("validate")) as (
            judge,
            make_validator,
        ),
        progress(shown=not quiet) as bars,
    ):
        if not quiet:
            say_lines(source, None if system.rag is None else system.name, system.asked_for)
        stage = system.post_retrieval
        if post_retrieval is not None:
            stage = _operators(post_retrieval, system, models)
        # By names: an edited file is another version of the same command's run.
        said: object = system.description if rag is None else (rag, rag_args)
        identity = (
            str(pipeline) if pipeline is not None else said,
            selection,
            top_k,
            *([reading.identity] if reading.identity else []),
            *([str(post_retrieval)] if post_retrieval is not None else []),
        )
        folder = out or _version(
            default_folder(dataset, system.name, identity),
            dataset,
            stay=fresh or reuse,
            quiet=quiet,
        )
        source.check_out(folder)
        with booked_run(models, system.receipts, folder, quiet=quiet):
            once = partial(
                evaluate,
                rag=system.rag,
                post_retrieval=stage,
                validator=judge,
                locator=system.locator,
                metrics=chosen,
                name=dataset_name(dataset),
                source=dataset,
                notes=(*source.notes, *system.notes),
                rag_name=system.name,
                rag_description=system.description,
                top_k=top_k,
                selection=selection,
                limits=CallSettings(
                    batch_size=batch_size,
                    concurrency=concurrency or system.concurrency,
                    timeout=timeout,
                ),
                matching=how,
                judging=models.judging,
                corpus=system.documents,
                workers=_workers(engine, workers, rag, arguments, make_validator, quiet=quiet),
                fresh=fresh,
                trust_stored=reuse,
                watch=watch,
                retry_failed=retry_failed,
                stopped=stopped,
                advance=bars,
            )
            report = evaluate_repeatedly(
                lambda cases, place: once(cases, out=place), source.entries(), folder, rag_repeats
            )
            if canaries and models.judging is not None:
                report = with_canaries(report, models, folder, canaries, seed, stopped)
    if models.dry_run is not None:
        _show_estimate(models.dry_run, as_json=json)
        return
    write_reports(report, folder)
    _show(report, folder, as_json=json)
    if not quiet:
        _hint(report, folder, invocation_of(context), is_asked=system.rag is not None)
    _end(report, 1.0 if max_error_rate is None else max_error_rate)


def _check_repeats(count: int, *, rag: str | None, dry_run: bool) -> None:
    """Refuses repeats that would not be any."""
    from ragbench.errors import ConfigError

    if count == 1:
        return
    if rag is None:
        raise ConfigError(
            "--rag-repeats needs --rag: recorded answers are the same each time, and so are the "
            "kept answers of a pipeline's models"
        )
    if dry_run:
        raise ConfigError("--dry-run estimates one time: multiply it, and leave --rag-repeats out")


def _version(folder: Path, dataset: str, *, stay: bool, quiet: bool) -> Path:
    """The folder of this command's run: a new one where something changed since the last."""
    from ragbench.stages.reuse import run_version

    version = run_version(folder, leaving_out=[dataset])
    if version.earlier is None or stay:
        return version.earlier or version.folder
    if not quiet:
        reasons = [*version.because[:3], *(["..."] if len(version.because) > 3 else [])]
        known = "changed since" if version.is_changed else "no telling what changed since"
        console.say(f"{known} {version.earlier}: {'; '.join(reasons)}")
        console.say(f"This run goes to {version.folder}; --reuse keeps the stored answers instead.")
        console.say(f"Compare them with: ragbench compare {version.earlier} {version.folder}")
    return version.folder


def _operators(file: Path, system: System, models: ModelsInUse) -> PostRetrieval:
    """The operators of a file."""
    from ragbench.post.build import Resources, load_post_retrieval
    from ragbench.stages.rag import chunk_service

    chat = models.chat("post_retrieve")
    service = None if system.rag is None else chunk_service(system.rag)
    return load_post_retrieval(file, Resources(service=service, chat=chat))


@contextmanager
def _validator(
    name: str | None, settings: str | None, calibration: Path | None, chat: ChatModel
) -> Generator[tuple[Validator | None, Callable[[], Validator] | None]]:
    """The validator of a name, and what makes it on workers where it may; None without one."""
    from ragbench.errors import ConfigError

    if name is None:
        for option, given in (("--calibration", calibration), ("--validator-args", settings)):
            if given is not None:
                raise ConfigError(f"{option} is for a validator: name one with --validate")
        yield None, None
        return
    choice = ValidatorChoice(name=name, settings=settings, calibration=calibration)
    with validator_maker(choice, chat) as (make, may_be_many):
        yield make(), make if may_be_many else None


def _workers(
    engine: str,
    count: int | None,
    rag: str | None,
    arguments: Mapping[str, object],
    make_validator: Callable[[], Validator] | None,
    *,
    quiet: bool,
) -> Workers | None:
    """Where the work is done; None for this process.

    Raises:
        ConfigError: no such engine, or workers for this process.
    """
    from functools import partial

    from ragbench.errors import ConfigError
    from ragbench.rag.load import load_rag, may_be_on_workers
    from ragbench.stages.on_workers import Workers
    from ragbench.workers.open import check_engine

    if check_engine(engine) == "local":
        if count is not None:
            raise ConfigError("--workers needs --engine processes or --engine ray")
        return None
    make_rag = None
    if rag is not None and may_be_on_workers(rag):
        make_rag = partial(load_rag, rag, dict(arguments))
    elif rag is not None and not quiet:
        console.say(
            "the RAG is asked by this process; on_workers = True on its class or factory has it "
            "built on workers"
        )
    return Workers(engine=engine, count=count, make_rag=make_rag, make_validator=make_validator)


def _show(report: Report, folder: Path, *, as_json: bool) -> None:
    from ragbench_cli.tables import print_report

    if as_json:
        console.print_file(folder / "report.json")
    else:
        print_report(report)


def _check(
    *,
    timeout: float | None,
    pipeline: Path | None,
    rag: str | None,
    others: Mapping[str, object],
) -> None:
    """Refuses options that say the same thing in two ways, and a time that is none."""
    from ragbench.errors import ConfigError

    if timeout is not None and not timeout > 0:
        raise ConfigError(f"--timeout must be more than 0 seconds, not {timeout:g}")
    if pipeline is None:
        return
    for name, value in {"--rag": rag, **others}.items():
        if value is not None and name != "--corpus":
            raise ConfigError(f"{name} has no use with --pipeline: its file says all of that")


def _show_estimate(counted: DryRun, *, as_json: bool) -> None:
    from ragbench_cli.costs import estimate_object, print_estimate

    if as_json:
        console.print_json(estimate_object(counted.estimate(), counted.cases))
    else:
        print_estimate(counted.estimate(), counted.cases)


def _hint(report: Report, folder: Path, invocation: Invocation, *, is_asked: bool) -> None:
    """Says where everything is and what may come next."""
    import shlex

    from ragbench_cli.without_gold import without_gold

    place = shlex.quote(str(folder))
    console.say("")
    console.say(f"report  {folder / 'report.html'} (also report.md, report.json, cases.csv)")
    if report.failures and is_asked:
        again = invocation.again("--retry-failed", without=("--fresh",))
        console.say(f"retry   {again}")
    if not _nothing_succeeded(report):
        console.say(f"export  ragbench export {place} --to ragas")
        for line in without_gold(report, folder, invocation, is_asked=is_asked):
            console.say(line)


def _end(report: Report, most: float) -> None:
    """Ends with the exit code that says how far the numbers can be used.

    Args:
        report: the run.
        most: the largest share of cases in which a stage may fail.
    """
    if _nothing_succeeded(report):
        console.say("Error: no call succeeded, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
    dead = [
        one.stage
        for one in report.stages
        if one.failed > one.recorded and not one.measured + one.abstained
    ]
    if dead:
        console.say(f"Error: no call of {' and '.join(dead)} succeeded.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
    cases = report.manifest["dataset"]["cases"]
    failing = [one for one in report.stages if one.failed > most * cases]
    if failing:
        told = ", ".join(f"{one.stage} {one.failed:,} of {cases:,}" for one in failing)
        console.say(f"Error: too many cases failed: {told} (--max-error-rate {most:g}).")
        raise typer.Exit(ExitCode.FAILED)
    if not report.is_comparable and _lacks_a_comparison(report):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _lacks_a_comparison(report: Report) -> bool:
    """Whether a metric that was asked for needed the gold contexts, and could not be told."""
    from ragbench.metrics.matching import NOT_COMPARABLE

    reasons = (reason for summary in report.summaries for reason, _ in summary.reasons)
    return NOT_COMPARABLE in reasons


def _nothing_succeeded(report: Report) -> bool:
    return all(stage.measured + stage.abstained == 0 for stage in report.stages)
