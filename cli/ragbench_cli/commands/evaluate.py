"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.console import ExitCode, Invocation, invocation_of
from ragbench_cli.eval_options import Asking, Keeping, Measuring, SystemChoice
from ragbench_cli.eval_source import SourceChoice
from ragbench_cli.models import ModelChoice
from ragbench_cli.options import OUTPUT, JsonOption, option, takes_records

if TYPE_CHECKING:
    from ragbench.core.report import CaseRow, Report
    from ragbench_cli.evaluation import Evaluated


@takes_records
def command(
    context: typer.Context,
    system: SystemChoice,
    cases: SourceChoice,
    measuring: Measuring,
    asking: Asking,
    models: ModelChoice,
    keeping: Keeping,
    quiet: Annotated[
        bool, option("--quiet", "-q", help="Show no progress and no hints.", panel=OUTPUT)
    ] = False,
    json: JsonOption = False,
) -> None:
    """Evaluate a RAG on a dataset, or recorded answers.

    Asks the RAG every question, scores the answers and writes a report. Recorded answers are not
    asked for again. The same command resumes an interrupted run, and computes only what changed.

    \b
    Examples:
      ragbench eval datasets/pellorin
      ragbench eval answers.jsonl
      ragbench eval cases.jsonl --answers results.json
      ragbench eval cases.jsonl --rag my_module:MyRAG -m recall@5,nDCG@10,token_f1
      ragbench eval squad.json --rag http://localhost:8000 --limit 100 --out run
      ragbench eval cases.jsonl --rag my_module:MyRAG -m ragas:faithfulness --dry-run
    """
    from ragbench_cli.evaluation import evaluated

    asking.check(system, dry_run=models.dry_run)
    done = evaluated(cases, system, models, measuring, asking, keeping, quiet=quiet)
    _show(done, invocation_of(context), as_json=json, quiet=quiet)
    _end(done, 1.0 if asking.max_error_rate is None else asking.max_error_rate)


def _show(done: Evaluated, invocation: Invocation, *, as_json: bool, quiet: bool) -> None:
    """Writes a run's reports and prints what came of it; of a dry run what judging would take."""
    from ragbench.views.write import write_reports
    from ragbench_cli.costs import estimate_object, print_estimate
    from ragbench_cli.report_tables import print_report

    if done.estimate is not None:
        estimate, cases = done.estimate.estimate(), done.estimate.cases
        if as_json:
            console.print_json(estimate_object(estimate, cases))
        else:
            print_estimate(estimate, cases)
        return
    write_reports(done.report, done.folder)
    if as_json:
        console.print_file(done.folder / "report.json")
    else:
        print_report(done.report, is_full=False)
    if not quiet:
        console.say("")
        console.say(
            f"report  {done.folder / 'report.html'} (also report.md, report.json, cases.csv)"
        )
        for line in _next(done, invocation):
            console.say(line)


def _next(done: Evaluated, invocation: Invocation) -> Iterator[str]:
    """The one command that says most now."""
    report, place = done.report, shlex.quote(str(done.folder))
    again = partial(invocation.with_options, without=("--fresh",))
    if report.failures and done.is_asked:
        yield f"retry   {invocation.again('--retry-failed', without=('--fresh',))}"
    elif _nothing_succeeded(report):
        return
    elif _lacks_gold(report):
        yield "Nothing to compare with: no case has a reference answer or relevant contexts."
        if report.validation is None:
            yield f"next    {again('--validate', 'lexical')}"
        else:
            yield f"next    {again('-m', 'support', '--llm-model', 'MODEL', '--dry-run')}"
    elif any(count.cause.is_loss for count in report.causes):
        yield f"next    ragbench explain {place}"
    else:
        yield f"next    ragbench report {place}"


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
    cases = report.find([case.id for case in report.index(None, None)])
    return not any(map(_has_gold, cases))


def _has_gold(row: CaseRow) -> bool:
    story = row.story
    ids = row.reference_ids or (story is not None and story.gold_ids)
    return row.reference is not None or bool(ids) or bool(story is not None and story.gold_texts)


def _end(done: Evaluated, most: float) -> None:
    """Ends with the exit code that says how far the numbers can be used.

    Args:
        most: the largest share of cases in which a stage may fail.
    """
    if done.estimate is not None:
        return
    report = done.report
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
        counts = ", ".join(f"{one.stage} {one.failed:,} of {cases:,}" for one in failing)
        console.say(f"Error: too many cases failed: {counts} (--max-error-rate {most:g}).")
        raise typer.Exit(ExitCode.FAILED)
    if not report.is_comparable and _lacks_a_comparison(report):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _lacks_a_comparison(report: Report) -> bool:
    """Whether a metric that was asked for needed the gold contexts, and could not be computed."""
    from ragbench.metrics.matching import NOT_COMPARABLE

    reasons = (reason for summary in report.summaries for reason, _ in summary.reasons)
    return NOT_COMPARABLE in reasons


def _nothing_succeeded(report: Report) -> bool:
    return all(stage.measured + stage.abstained == 0 for stage in report.stages)
