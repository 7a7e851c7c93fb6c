"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from ragbench.core.attribution import LOSSES
from ragbench_cli import console
from ragbench_cli.console import ExitCode, Invocation
from ragbench_cli.eval_options import EvalOptions
from ragbench_cli.options import JsonOption, takes_records

if TYPE_CHECKING:
    from ragbench.core.report import FailureGroup, Report
    from ragbench_cli.evaluation import Evaluated


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
    from ragbench_cli.evaluation import evaluated
    from ragbench_cli.report_tables import print_report

    _check(asked)
    book = asked.labelled.book  # labels that cannot be read are an error before anything is asked
    with CaseFiles() as files:
        done = evaluated(asked, files.begin)
        if book is not None and done.estimate is None:
            from ragbench.verbs.label import corrected_report

            done = replace(done, report=corrected_report(done.report, done.folder, book))
        # Where no case was told, the run stood as it was.
        if done.estimate is None and (files.count or not are_written(done.report, done.folder)):
            write_reports(done.report, done.folder, files)
    if done.estimate is not None:
        from ragbench_cli.costs import show_estimate

        show_estimate(done.estimate.estimate(), done.estimate.cases, as_json=json)
        return
    report, folder = done.report, done.folder
    invocation = context.find_object(Invocation) or Invocation()
    if json:
        console.print_file(folder / "report.json")
    else:
        print_report(report, is_full=False)
    is_empty = all(stage.measured + stage.abstained == 0 for stage in report.stages)
    if not asked.quiet:
        console.say("")
        console.say(f"report  {folder / 'report.html'} (also report.md, report.json, cases.csv)")
        if (report.failures and done.is_asked) or not is_empty:
            _say_next(done, invocation)
    if is_empty:
        console.say("Error: no call succeeded, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
    _end(report, asked.asking.max_error_rate, invocation)


def _check(asked: EvalOptions) -> None:
    from ragbench.errors import ConfigError

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


def _say_next(done: Evaluated, invocation: Invocation) -> None:
    report, place = done.report, shlex.quote(str(done.folder))
    again = partial(invocation.with_options, without=("--fresh",))
    if _without_value(report):
        return  # the error holds it
    if report.failures and (done.is_asked or _failed_scoring(report)):
        console.say(f"retry   {invocation.again('--retry-failed', without=('--fresh',))}")
    elif _lacks_gold(report):
        console.say("Nothing to compare with: no case has a reference answer or relevant contexts.")
        supported = ("-m", "support", "--llm-model", "MODEL", "--dry-run")
        options = ("--validate", "lexical") if report.validation is None else supported
        console.say(f"next    {again(*options)}")
    elif any(count.cause in LOSSES for count in report.causes):
        console.say(f"next    ragbench explain {place}")
    else:
        console.say(f"next    ragbench report {place}")


def _failed_scoring(report: Report) -> list[FailureGroup]:
    return [group for group in report.failures if group.stage == "score"]


def _without_value(report: Report) -> list[str]:
    """Metrics that gave nothing, since each of their cells failed."""
    return [
        one.metric.name
        for one in report.summaries
        if one.failed and not one.measured + one.abstained + one.unproved
    ] * bool(_failed_scoring(report))


def _lacks_gold(report: Report) -> bool:
    """Whether no metric that compares with gold has a value, because no case has any."""
    from ragbench.core.metric import Need

    free = {
        *(Need.QUERY, Need.RETRIEVED_CONTEXTS, Need.RETRIEVED_CONTEXT_IDS, Need.SCORES),
        *(Need.CONTEXT_METADATA, Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE),
        *(Need.RETRIEVAL_LATENCY, Need.GENERATION_LATENCY, Need.TOKENS),
    }
    wanted = [one for one in report.summaries if not one.metric.definition.needs <= free]
    if not wanted or any(one.measured for one in wanted):
        return False
    return not any(
        row.reference is not None
        or row.reference_ids
        or (row.story is not None and (row.story.gold_ids or row.story.gold_texts))
        for row in report.find([case.id for case in report.index(None, None)])
    )


def _end(report: Report, most: float | None, invocation: Invocation) -> None:
    """Ends with the exit code that says how far the numbers can be used.

    Args:
        most: the largest share of cases in which a stage may fail.
    """
    from ragbench.metrics.matching import NOT_COMPARABLE

    dead = [
        one.stage
        for one in report.stages
        if one.failed > one.recorded and not one.measured + one.abstained
    ]
    if dead:
        console.say(f"Error: no call of {' and '.join(dead)} succeeded.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
    if lost := _without_value(report):
        worst = max(_failed_scoring(report), key=lambda group: group.count)
        console.say(
            f"Error: {', '.join(lost)} failed for every case, so that there is no value. "
            f"{worst.type}, {worst.count:,} times: {worst.message.rstrip('.')}. Once that is "
            f"mended: {invocation.again('--retry-failed', without=('--fresh',))}"
        )
        raise typer.Exit(ExitCode.CANNOT_RUN)
    cases = report.manifest["dataset"]["cases"]
    failing = [one for one in report.stages if most is not None and one.failed > most * cases]
    if failing:
        counts = ", ".join(f"{one.stage} {one.failed:,} of {cases:,}" for one in failing)
        console.say(f"Error: too many cases failed: {counts} (--max-error-rate {most:g}).")
        raise typer.Exit(ExitCode.FAILED)
    # A metric that was asked for needed the gold contexts, and could not be computed.
    reasons = {reason for summary in report.summaries for reason, _ in summary.reasons}
    if not report.is_comparable and NOT_COMPARABLE in reasons:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
