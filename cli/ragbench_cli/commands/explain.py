"""``ragbench explain``: which stage lost the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.console import Invocation
from ragbench_cli.options import JsonOption, RunArgument, argument, option, takes_records
from ragbench_cli.replay import Replaying, replayed

if TYPE_CHECKING:
    from ragbench.core.report import CaseRow, Report


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    run: RunArgument
    case: Annotated[str | None, argument("[CASE]")] = None
    """Id of one case; all of them by default."""
    each: Annotated[int, option("--cases", min=0, envvar="RAGBENCH_EXPLAIN_EACH")] = 1
    """How many cases are listed per cause."""
    full: Annotated[bool, option("--all")] = False
    """For a case: show every stage, chunk, score and judgement."""


@takes_records
def command(
    context: typer.Context, asked: Asked, replaying: Replaying, json: JsonOption = False
) -> None:
    """Show which stage lost the answer.

    For a run: how its cases ended (not in the corpus, not retrieved, dropped by an operator, shown
    and not used ...), with the worst case of each loss. For a case: the stage that lost the answer,
    the relevant contexts, the chunks with their ranks, and the answer. Nothing is recomputed, and
    no RAG or model is called; with --replay the RAG is, once for each change of its context.

    \b
    Examples:
      ragbench explain reports/pellorin-baseline-1a2b3c4d
      ragbench explain reports/pellorin-baseline-1a2b3c4d pto-carryover
      ragbench explain reports/pellorin-baseline-1a2b3c4d pto-carryover --replay
    """  # fmt: skip
    from ragbench.ledger.folder import run_around
    from ragbench.verbs.cases import find_case
    from ragbench.verbs.report import report_of
    from ragbench.views.explain import case_story_object

    if replaying.replay:
        replayed(run_around(asked.run), asked.case, replaying, as_json=json)
        return
    report = report_of(run_around(asked.run))
    if asked.case is None:
        _run(report, asked.each, as_json=json)
        return
    row = find_case(report, asked.case)
    if json:
        console.print_json(case_story_object(row, report.metrics))
    else:
        _case(row, report, is_full=asked.full)
        if not asked.full:
            console.say(f"more: {(context.find_object(Invocation) or Invocation()).again('--all')}")


def _run(report: Report, each: int, *, as_json: bool) -> None:
    import msgspec

    from ragbench.verbs.cases import worst_by_cause
    from ragbench_cli.tables import causes_table, draw, paragraph

    worst = dict(worst_by_cause(report, each))
    if as_json:
        counts = msgspec.to_builtins(report.causes)
        listed = {cause.value: [row.id for row in rows] for cause, rows in worst.items()}
        console.print_json({"schema_version": 1, "causes": counts, "worst": listed})
        return
    page = console.data_console()
    draw(page, [causes_table(report.causes)])
    for cause, rows in worst.items():
        draw(page, paragraph(cause.label, (line for row in rows for line in _short(row))))


def _short(row: CaseRow) -> Iterator[tuple[str, str]]:
    from ragbench.safe_text import shown_line

    yield f"{shown_line(row.id, longest=60)}: {shown_line(row.query, longest=160)}", ""
    if row.attribution is not None:
        yield f"  {shown_line(row.attribution.detail, longest=300)}", "dim"


def _case(row: CaseRow, report: Report, *, is_full: bool) -> None:
    from rich.table import Table

    from ragbench.safe_text import shown_line
    from ragbench.views.explain import case_story_lines, short_story_lines
    from ragbench_cli.tables import draw, styled

    page = console.data_console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    before = ""
    lines = (
        case_story_lines(row, report.metrics)
        if is_full
        else short_story_lines(row, report.metrics, width=page.width - 11)
    )
    for label, line in lines:
        table.add_row(styled("" if label == before else label), styled(line))
        before = label
    draw(page, [styled((shown_line(row.id), "bold")), table])
