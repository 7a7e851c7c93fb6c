"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragbench_cli import console
from ragbench_cli.console import invocation_of
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
    FieldOption,
    FormatOption,
    FreshOption,
    GiveUpAfterOption,
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
from ragbench_cli.eval_source import SourceChoice
from ragbench_cli.llm_options import (
    ConfigOption,
    LLMBaseUrlOption,
    LLMChoice,
    LLMKeyFileOption,
    LLMKeyVariableOption,
    LLMModelOption,
    PanelOption,
)
from ragbench_cli.models import ModelChoice
from ragbench_cli.options import (
    EncodingOption,
    EngineOption,
    EngineWorkersOption,
    JsonOption,
    mapping,
    one_of,
)
from ragbench_cli.validator_options import CalibrationOption, ValidatorArgsOption, ValidatorChoice

if TYPE_CHECKING:
    from ragbench.core.metric import Metric
    from ragbench.metrics.matching import Matching


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
    give_up_after: GiveUpAfterOption = 100,
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
    from ragbench.io.read import Selection
    from ragbench_cli.eval_end import end, show
    from ragbench_cli.evaluation import Asking, Keeping, Measuring, evaluated
    from ragbench_cli.systems import SystemChoice

    _check_limits(timeout, max_error_rate)
    _check_repeats(rag_repeats, rag=rag, dry_run=dry_run)
    cases = SourceChoice(
        dataset=dataset, format=format, fields=mapping(field, "--field") or {}, split=split,
        encoding=encoding, corpus=corpus, queries=queries, qrels=qrels, answers=answers,
        answers_format=answers_format, ask_again=ask_again,
    )  # fmt: skip
    system = SystemChoice(rag=rag, pipeline=pipeline, rag_args=rag_args, operators=post_retrieval)
    models = ModelChoice(
        llm=LLMChoice(
            model=llm_model, base_url=llm_base_url, api_key_env=llm_api_key_env,
            api_key_file=llm_api_key_file, config=config,
        ),
        panel=panel, repeats=repeats, max_cost=max_cost,
        max_cost_run=max_cost_run, preflight=not no_preflight,
    )  # fmt: skip
    judge = _validator(validate, validator_args, calibration)
    measuring = Measuring(
        metrics=_metrics(metrics), matching=_matching(matching), canaries=canaries,
        selection=Selection(limit=limit, sample=sample, seed=seed),
    )  # fmt: skip
    asking = Asking(
        top_k=top_k, batch_size=batch_size, concurrency=concurrency, timeout=timeout,
        engine=engine, workers=workers, repeats=rag_repeats, give_up_after=give_up_after,
    )  # fmt: skip
    keeping = Keeping(out=out, fresh=fresh, reuse=reuse, retry_failed=retry_failed)
    done = evaluated(
        cases, system, models, judge, measuring, asking, keeping, dry_run=dry_run, quiet=quiet
    )
    show(done, invocation_of(context), as_json=json, quiet=quiet)
    end(done, 1.0 if max_error_rate is None else max_error_rate)


def _metrics(spelled: str | None) -> tuple[Metric, ...]:
    from ragbench.errors import ConfigError
    from ragbench.metrics.registry import default_metrics, parse_metrics

    with console.users_code():  # a file of the user's own may print
        chosen = default_metrics() if spelled is None else parse_metrics(spelled)
    if not chosen:
        raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
    return tuple(chosen)


def _matching(name: str) -> Matching:
    from ragbench.metrics.matching import Matching

    return Matching(one_of(name, MATCHINGS, "--matching"))


def _validator(
    name: str | None, settings: str | None, calibration: Path | None
) -> ValidatorChoice | None:
    """What the options say of the validator; None without one."""
    from ragbench.errors import ConfigError

    if name is not None:
        return ValidatorChoice(name=name, settings=settings, calibration=calibration)
    for option, given in (("--calibration", calibration), ("--validator-args", settings)):
        if given is not None:
            raise ConfigError(f"{option} is for a validator: name one with --validate")
    return None


def _check_limits(timeout: float | None, max_error_rate: float | None) -> None:
    """Refuses a time that is none, and a share that is none."""
    from ragbench.errors import ConfigError

    if timeout is not None and not timeout > 0:
        raise ConfigError(f"--timeout must be more than 0 seconds, not {timeout:g}")
    if max_error_rate is not None and not 0 <= max_error_rate <= 1:
        raise ConfigError(f"--max-error-rate must be between 0 and 1, not {max_error_rate:g}")


def _check_repeats(count: int, *, rag: str | None, dry_run: bool) -> None:
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
