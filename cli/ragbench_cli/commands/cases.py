"""``ragbench cases``: the cases of a run that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, one_of, option, takes_records

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragbench.core.report import CaseRow, Report

CAUSES = (
    "not_in_corpus", "not_retrieved", "not_seen", "dropped", "not_used", "declined",
    "answered_without", "failed", "cannot_tell", "shown", "right_without_evidence", "right",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    run: RunArgument
    cause: Annotated[
        str | None,
        option(
            "CAUSE",
            help=f"Only cases with this cause, as tables print it or one of {', '.join(CAUSES)}.",
            complete=CAUSES,
        ),
    ] = None
    worst: Annotated[str | None, option("METRIC")] = None
    """A metric of the run: its worst cases first."""
    tag: Annotated[str | None, option("TAG")] = None
    """Only cases with this tag."""
    limit: Annotated[int, option(min=1)] = 20
    """How many are listed."""


@takes_records
def command(asked: Asked, json: JsonOption = False) -> None:
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
    named = None if asked.cause is None else printed.get(asked.cause, asked.cause)
    wanted = None if named is None else Cause(one_of(named, CAUSES, "--cause"))
    report = report_of(run_around(asked.run))
    count, found = select_cases(
        report, cause=wanted, tag=asked.tag, worst=asked.worst, limit=asked.limit
    )
    if json:
        columns = shown_columns(report.metrics)
        cases = [case_object(row, columns) for row in found]
        console.print_json({"schema_version": 1, "found": count, "cases": cases})
    else:
        _print(report, found, count, asked.worst)


def _print(report: Report, found: list[CaseRow], count: int, worst: str | None) -> None:
    from ragbench.verbs.cases import worst_metric
    from ragbench_cli.tables import draw

    draw(console.data_console(), _lines(report, found, worst_metric(report, worst)))
    more = f", {count - len(found):,} more with --limit" if count > len(found) else ""
    console.say(f"{count:,} {'case' if count == 1 else 'cases'}{more}")


def _lines(report: Report, found: list[CaseRow], at: int | None) -> Iterator[RenderableType]:
    from ragbench.safe_text import shown_line
    from ragbench.views.explain import score_text
    from ragbench_cli.tables import styled

    for row in found:
        label = "" if row.attribution is None else row.attribution.cause.label
        score = ""
        if at is not None:
            cell = row.cells[at]
            score = f"{report.metrics[at].name} {score_text(cell.value, cell.status.value)}"
        head = (shown_line(row.id, longest=80), "bold")
        yield styled(head, f"  {label}", (f"  {score}", "dim"))
        yield styled(f"  {shown_line(row.query, longest=200)}")
        if row.attribution is not None:
            yield styled((f"  {shown_line(row.attribution.detail, longest=300)}", "dim"))
