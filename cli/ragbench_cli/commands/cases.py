"""``ragbench cases``: the cases of a run that somebody asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, one_of, option

if TYPE_CHECKING:
    from ragbench.core.report import CaseRow, Report

CAUSES = (
    "not_in_corpus", "not_retrieved", "not_seen", "dropped", "not_used", "declined",
    "answered_without", "failed", "cannot_tell", "shown", "right_without_evidence", "right",
)  # fmt: skip


def _causes(typed: str) -> list[str]:
    return [name for name in CAUSES if name.startswith(typed)]


def command(
    run: RunArgument,
    cause: Annotated[
        str | None,
        option(
            "--cause",
            help=f"Only cases with this cause, as tables print it or one of {', '.join(CAUSES)}.",
            metavar="CAUSE",
            complete=_causes,
        ),
    ] = None,
    worst: Annotated[
        str | None,
        option("--worst", help="A metric of the run: its worst cases first.", metavar="METRIC"),
    ] = None,
    tag: Annotated[
        str | None, option("--tag", help="Only cases with this tag.", metavar="TAG")
    ] = None,
    limit: Annotated[
        int, option("--limit", help="How many are listed.", metavar="N", min=1, show_default=True)
    ] = 20,
    json: JsonOption = False,
) -> None:
    """List cases of a run, by cause, tag or metric.

    \b
    Examples:
      ragbench cases reports/pellorin-baseline-1a2b3c4d --cause declined
      ragbench cases reports/pellorin-baseline-1a2b3c4d --worst token_f1 --tag date
    """
    from ragbench.core.attribution import Cause
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.cases import select_cases
    from ragbench.verbs.report import report_of
    from ragbench.views.report import case_object, shown_columns

    printed = {one.label: one.value for one in Cause}  # tables show causes in words
    named = None if cause is None else printed.get(cause, cause)
    wanted = None if named is None else Cause(one_of(named, CAUSES, "--cause"))
    report = report_of(run_around(run))
    count, found = select_cases(report, cause=wanted, tag=tag, worst=worst, limit=limit)
    if json:
        columns = shown_columns(report.metrics)
        cases = [case_object(row, columns) for row in found]
        console.print_json({"schema_version": 1, "found": count, "cases": cases})
    else:
        _print(report, found, count, worst)


def _print(report: Report, found: list[CaseRow], count: int, worst: str | None) -> None:
    from ragbench.safe_text import shown_line
    from ragbench.verbs.cases import worst_metric
    from ragbench.views.explain import score_text
    from ragbench_cli.tables import print_block, styled

    page = console.data_console()
    at = worst_metric(report, worst)
    for row in found:
        label = "" if row.attribution is None else row.attribution.cause.label
        score = ""
        if at is not None:
            cell = row.cells[at]
            score = f"{report.metrics[at].name} {score_text(cell.value, cell.status.value)}"
        head = (f"{shown_line(row.id, longest=80)}", "bold")
        print_block(page, styled(head, f"  {label}", (f"  {score}", "dim")))
        print_block(page, styled(f"  {shown_line(row.query, longest=200)}"))
        if row.attribution is not None:
            detail = shown_line(row.attribution.detail, longest=300)
            print_block(page, styled((f"  {detail}", "dim")))
    more = f", {count - len(found):,} more with --limit" if count > len(found) else ""
    console.say(f"{count:,} {'case' if count == 1 else 'cases'}{more}")
