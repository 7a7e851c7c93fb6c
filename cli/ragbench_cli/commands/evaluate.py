"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.exit_codes import ExitCode
from ragbench_cli.invocation import Invocation, invocation_of
from ragbench_cli.llm_options import (
    ConfigOption,
    LLMBaseUrlOption,
    LLMKeyFileOption,
    LLMKeyVariableOption,
    LLMModelOption,
)
from ragbench_cli.options import JsonOption, argument, option
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

_MATCHING = ("auto", "id", "document_id", "text")


def _matching(typed: str) -> list[str]:
    return [name for name in _MATCHING if name.startswith(typed)]


def _formats(typed: str) -> list[str]:
    from ragbench.data.formats import READERS

    return [name for name in READERS.targets() if name.startswith(typed)]


def _metrics(typed: str) -> list[str]:
    """Names for the last metric of the list."""
    from ragbench.scoring.registry import definitions

    before, comma, last = typed.rpartition(",")
    return [
        f"{before}{comma}{definition.name}"
        for definition in definitions()
        if definition.name.casefold().startswith(last.casefold())
    ]


def command(
    context: typer.Context,
    dataset: Annotated[
        str,
        argument(
            metavar="DATASET",
            help="File or folder with cases, '-' for standard input, 'hf:OWNER/NAME' for the hub. "
            "See: ragbench show formats.",
        ),
    ],
    rag: Annotated[
        str | None,
        option(
            "--rag",
            help="Your RAG: package.module:attr (a class, a factory or an instance), file.py:attr "
            "or an http(s) address. Without it, the baseline RAG over the dataset's own corpus.",
            metavar="RAG",
        ),
    ] = None,
    pipeline: Annotated[
        Path | None,
        option(
            "--pipeline",
            help="YAML file that describes the stages of a RAG. See docs/pipeline.md.",
            metavar="FILE",
        ),
    ] = None,
    rag_args: Annotated[
        str | None,
        option("--rag-args", help="Arguments for the class or factory, as JSON.", metavar="JSON"),
    ] = None,
    corpus: Annotated[
        str | None,
        option(
            "--corpus",
            help="Documents for the baseline RAG, or for a pipeline that names none, if not those "
            "beside the cases.",
            metavar="PATH",
        ),
    ] = None,
    post_retrieval: Annotated[
        Path | None,
        option(
            "--post-retrieval",
            help="YAML file with operators that stand between the RAG's retrieval and its "
            "generation. See docs/post_retrieval.md.",
            metavar="FILE",
        ),
    ] = None,
    validate: Annotated[
        str | None,
        option(
            "--validate",
            help="Judge what was retrieved, by this validator: lexical, local, llm or cascade. "
            "Adds the answer/abstain matrix to the report. See docs/validate.md.",
            metavar="NAME",
        ),
    ] = None,
    validator_args: ValidatorArgsOption = None,
    calibration: CalibrationOption = None,
    metrics: Annotated[
        str | None,
        option(
            "--metrics",
            "-m",
            help="Metrics by name, separated by commas. See: ragbench show metrics.",
            metavar="LIST",
            complete=_metrics,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "--out",
            "-o",
            help="Folder of the run. By default one under reports/ that this command always "
            "arrives at again.",
            metavar="FOLDER",
        ),
    ] = None,
    limit: Annotated[
        int | None, option("--limit", help="Take only the first N cases.", metavar="N")
    ] = None,
    sample: Annotated[
        int | None, option("--sample", help="Draw N cases at random.", metavar="N")
    ] = None,
    seed: Annotated[
        int, option("--seed", help="Seed of the draw.", metavar="N", show_default=True)
    ] = 0,
    top_k: Annotated[
        int | None,
        option(
            "--top-k",
            help="How many contexts to ask for; the RAG decides when not given.",
            metavar="K",
            min=1,
        ),
    ] = None,
    batch_size: Annotated[
        int,
        option(
            "--batch-size",
            help="Queries a call, for a RAG that takes batches.",
            metavar="N",
            min=1,
            show_default=True,
        ),
    ] = 32,
    concurrency: Annotated[
        int | None,
        option(
            "--concurrency",
            help="Calls in flight, 1 unless a pipeline says more; more than 1 needs a RAG that "
            "allows it.",
            metavar="N",
            min=1,
        ),
    ] = None,
    timeout: Annotated[
        float | None, option("--timeout", help="Seconds allowed for each query.", metavar="SECONDS")
    ] = None,
    matching: Annotated[
        str,
        option(
            "--matching",
            help="How retrieved chunks are matched with the gold: auto, id, document_id or text.",
            metavar="HOW",
            show_default=True,
            complete=_matching,
        ),
    ] = "auto",
    format: Annotated[
        str | None,
        option(
            "--format",
            help="The dataset's format, if not to be recognised.",
            metavar="FORMAT",
            complete=_formats,
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        option(
            "--field",
            help="Where a field of the cases is found, such as query=Frage; repeatable.",
            metavar="TARGET=SOURCE",
        ),
    ] = None,
    llm_model: LLMModelOption = None,
    llm_base_url: LLMBaseUrlOption = None,
    llm_api_key_env: LLMKeyVariableOption = None,
    llm_api_key_file: LLMKeyFileOption = None,
    config: ConfigOption = None,
    dry_run: Annotated[
        bool,
        option(
            "--dry-run",
            help="Judge nothing: render the prompts of metrics that ask models and tell calls, "
            "tokens and price. The RAG is asked, and its answers are kept for the run.",
        ),
    ] = False,
    max_cost: Annotated[
        str | None,
        option(
            "--max-cost",
            help="The most that models may cost in this command; needs a known price.",
            metavar="AMOUNT",
        ),
    ] = None,
    repeats: Annotated[
        int,
        option(
            "--repeats",
            help="How often each case is judged: a score is the mean, and the report tells how far "
            "the judge agrees with itself.",
            metavar="N",
            min=1,
            show_default=True,
        ),
    ] = 1,
    no_preflight: Annotated[
        bool,
        option("--no-preflight", help="Do not try the models before the first judgement."),
    ] = False,
    fresh: Annotated[bool, option("--fresh", help="Start over instead of continuing.")] = False,
    retry_failed: Annotated[
        bool, option("--retry-failed", help="Call again what failed in an earlier run.")
    ] = False,
    quiet: Annotated[bool, option("--quiet", "-q", help="No progress and no hints.")] = False,
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
    how = Matching(one_of(matching, _MATCHING, "--matching"))
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
            pipeline=None if pipeline is None else PipelineFile(pipeline, config, max_cost),
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
