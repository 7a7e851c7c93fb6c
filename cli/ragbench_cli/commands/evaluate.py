"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragbench_cli import console
from ragbench_cli.eval_options import (
    MATCHINGS,
    BatchSizeOption,
    ConcurrencyOption,
    CorpusOption,
    DatasetArgument,
    DryRunOption,
    FieldOption,
    FormatOption,
    FreshOption,
    LimitOption,
    MatchingOption,
    MaxCostOption,
    MetricsOption,
    NoPreflightOption,
    OutOption,
    PipelineOption,
    PostRetrievalOption,
    QuietOption,
    RagArgsOption,
    RagOption,
    RepeatsOption,
    RetryFailedOption,
    SampleOption,
    SeedOption,
    TimeoutOption,
    TopKOption,
    ValidateOption,
)
from ragbench_cli.exit_codes import ExitCode
from ragbench_cli.invocation import Invocation, invocation_of
from ragbench_cli.llm_options import (
    ConfigOption,
    LLMBaseUrlOption,
    LLMKeyFileOption,
    LLMKeyVariableOption,
    LLMModelOption,
)
from ragbench_cli.options import JsonOption
from ragbench_cli.validator_options import (
    CalibrationOption,
    ValidatorArgsOption,
    ValidatorChoice,
    validator_maker,
)

if TYPE_CHECKING:
    from ragbench.evaluation.dry_run import DryRun
    from ragbench.llm.chat import ChatModel
    from ragbench.records.reports import Report
    from ragbench.validation.validator import Validator
    from ragbench_cli.models_in_use import ModelsInUse
    from ragbench_cli.systems import System

__all__ = ["command"]


def command(
    context: typer.Context,
    dataset: DatasetArgument,
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
    matching: MatchingOption = "auto",
    format: FormatOption = None,
    field: FieldOption = None,
    llm_model: LLMModelOption = None,
    llm_base_url: LLMBaseUrlOption = None,
    llm_api_key_env: LLMKeyVariableOption = None,
    llm_api_key_file: LLMKeyFileOption = None,
    config: ConfigOption = None,
    dry_run: DryRunOption = False,
    max_cost: MaxCostOption = None,
    repeats: RepeatsOption = 1,
    no_preflight: NoPreflightOption = False,
    fresh: FreshOption = False,
    retry_failed: RetryFailedOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Evaluate a RAG on a dataset.

    It is asked every question, what it says is scored, and a report is written. The same command
    again continues an interrupted run, and computes only what has changed.

    \b
    Examples:
      ragbench eval datasets/pellorin
      ragbench eval cases.jsonl --rag my_module:MyRAG -m recall@5,nDCG@10,token_f1
      ragbench eval datasets/pellorin --pipeline rag.yaml
      ragbench eval squad.json --rag http://localhost:8000 --limit 100 --out run
      ragbench eval cases.jsonl --rag my_module:MyRAG -m ragas:faithfulness --dry-run
    """
    from ragbench.data.read import read_cases
    from ragbench.errors import ConfigError
    from ragbench.evaluation.evaluate import evaluate
    from ragbench.evaluation.rag_service import chunk_service
    from ragbench.evaluation.selection import Selection
    from ragbench.evaluation.stage import Limits
    from ragbench.postretrieval.build import Resources
    from ragbench.postretrieval.config import load_post_retrieval
    from ragbench.reports.write import write_reports
    from ragbench.scoring.matching import Matching
    from ragbench.scoring.registry import default_metrics, parse_metrics
    from ragbench_cli.models_in_use import ModelChoice, models_in_use
    from ragbench_cli.naming import dataset_name, default_folder
    from ragbench_cli.progress import progress
    from ragbench_cli.systems import DocumentsBeside, PipelineFile, chosen_system
    from ragbench_cli.values import json_object, mapping, one_of

    _check(
        timeout=timeout,
        pipeline=pipeline,
        rag=rag,
        others={"--corpus": corpus, "--rag-args": rag_args, "--post-retrieval": post_retrieval},
    )
    chosen = default_metrics() if metrics is None else parse_metrics(metrics)
    if not chosen:
        raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
    selection = Selection(limit=limit, sample=sample, seed=seed)
    how = Matching(one_of(matching, MATCHINGS, "--matching"))
    fields = mapping(field, "--field")
    arguments = json_object(rag_args, "--rag-args")
    choice = ModelChoice(
        model=llm_model,
        base_url=llm_base_url,
        api_key_env=llm_api_key_env,
        api_key_file=llm_api_key_file,
        config=config,
        max_cost=max_cost,
        repeats=repeats,
        preflight=not no_preflight,
    )
    with (
        console.stop_on_signal() as stopped,
        console.stdout_for_data(),
        progress(shown=not quiet) as bars,
        models_in_use(choice, chosen, dry_run=dry_run) as models,
        chosen_system(
            rag=rag,
            pipeline=None if pipeline is None else PipelineFile(pipeline, config, models.budget),
            arguments=arguments,
            documents=DocumentsBeside(dataset=dataset, corpus=corpus, format=format),
        ) as system,
        _validator(validate, validator_args, calibration, models.chat("validate")) as judge,
    ):
        stage = system.post_retrieval
        if post_retrieval is not None:
            resources = Resources(
                service=chunk_service(system.rag), chat=models.chat("post_retrieve")
            )
            stage = load_post_retrieval(post_retrieval, resources)
        # Files by their names: an edited file finds its retrievals again.
        described: object = system.description if pipeline is None else str(pipeline)
        identity: tuple[object, ...] = (described, selection, top_k)
        if post_retrieval is not None:
            identity = (*identity, str(post_retrieval))
        folder = out or default_folder(dataset, system.name, identity)
        with _accounted(models, system, folder, quiet=quiet):
            report = evaluate(
                read_cases(dataset, format=format, fields=fields),
                system.rag,
                out=folder,
                post_retrieval=stage,
                validator=judge,
                metrics=chosen,
                name=dataset_name(dataset),
                source=dataset,
                rag_name=system.name,
                rag_description=system.description,
                top_k=top_k,
                selection=selection,
                limits=Limits(
                    batch_size=batch_size,
                    concurrency=concurrency or system.concurrency,
                    timeout=timeout,
                ),
                matching=how,
                judging=models.judging,
                fresh=fresh,
                retry_failed=retry_failed,
                stopped=stopped,
                advance=bars,
            )
    if models.dry_run is not None:
        _show_estimate(models.dry_run, as_json=json)
        return
    write_reports(report, folder)
    _show(report, folder, as_json=json)
    if not quiet:
        _hint(report, folder, invocation_of(context))
    if _nothing_succeeded(report):
        console.say("Error: no call succeeded, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)


@contextmanager
def _validator(
    name: str | None, settings: str | None, calibration: Path | None, chat: ChatModel
) -> Generator[Validator | None]:
    """The validator of a name; None without one."""
    from ragbench.errors import ConfigError

    if name is None:
        for option, given in (("--calibration", calibration), ("--validator-args", settings)):
            if given is not None:
                raise ConfigError(f"{option} is for a validator: name one with --validate")
        yield None
        return
    choice = ValidatorChoice(name=name, settings=settings, calibration=calibration)
    with validator_maker(choice, chat) as (make, _):
        yield make()


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
        if rag is not None and others["--corpus"] is not None:
            raise ConfigError("--corpus is for the baseline RAG: leave it out or leave out --rag")
        return
    for name, value in {"--rag": rag, **others}.items():
        if value is not None and name != "--corpus":
            raise ConfigError(f"{name} has no use with --pipeline: its file says all of that")


@contextmanager
def _accounted(
    models: ModelsInUse, system: System, folder: Path, *, quiet: bool
) -> Generator[None]:
    """Whatever ends a run, its folder is named and what was spent is told."""
    from ragbench.errors import InterruptedRunError, LLMStoppedError
    from ragbench.llm.ledger import Receipt
    from ragbench.reports.receipts import append_receipt
    from ragbench_cli.cost_tables import say_receipt

    try:
        yield
    except InterruptedRunError as error:
        raise InterruptedRunError(
            f"what is finished is stored in {folder}. The same command continues"
        ) from error
    except LLMStoppedError as error:
        told = f"{error}\nWhat is finished is stored in {folder}: ragbench report {folder}"
        raise type(error)(told, status=error.status) from error
    finally:
        receipt = Receipt.of([models.session.receipt(), *system.receipts()])
        if receipt.lines and folder.is_dir():
            append_receipt(receipt, folder)
        if not quiet:
            say_receipt(receipt)


def _show_estimate(counted: DryRun, *, as_json: bool) -> None:
    from ragbench_cli.cost_tables import estimate_object, print_estimate

    if as_json:
        console.print_json(estimate_object(counted.estimate(), counted.cases))
    else:
        print_estimate(counted.estimate(), counted.cases)


def _hint(report: Report, folder: Path, invocation: Invocation) -> None:
    """Says where everything is and what may come next."""
    import shlex

    place = shlex.quote(str(folder))
    console.say("")
    console.say(f"report  {folder / 'report.md'} (also report.json, cases.csv)")
    if report.failures:
        again = invocation.again("--retry-failed", without=("--fresh",))
        console.say(f"retry   {again}")
    if not _nothing_succeeded(report):
        console.say(f"export  ragbench export {place} --to ragas")


def _nothing_succeeded(report: Report) -> bool:
    return all(stage.measured + stage.abstained == 0 for stage in report.stages)
