"""Gate results in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    GateCheck,
    GateOutcome,
    GateResult,
    JudgedRun,
)
from ragbench.views.gate import (
    after_text,
    change_text,
    detectable_text,
    interval_text,
    limit_text,
    number_text,
    observed_text,
)
from ragbench.views.system_change import change_lines, change_title
from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, paragraph, print_block, printable, styled

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_CASES = 5
_CHECKS = 40
_LONGEST = 120
_WORDS = {
    GateOutcome.PASSED: ("passed", "green"),
    GateOutcome.FAILED: ("failed", "red"),
    GateOutcome.INCONCLUSIVE: ("cannot tell", "yellow"),
}
_COLUMNS: tuple[str, ...] = ("now", "change", "interval", "held against", "n", "detectable")
_MISSED = ("detectable", "n", "interval")
"""Columns that a narrow terminal goes without, in this order."""


def print_verdict(verdict: GateResult) -> None:
    """Prints a verdict to standard output: the decision first, then what it rests on."""
    console = data_console()
    for block in _blocks(verdict, console):
        print_block(console, block)


def _blocks(verdict: GateResult, console: Console) -> Iterator[RenderableType]:
    word, style = _WORDS[verdict.outcome]
    yield styled((word, f"bold {style}"), f": {verdict.headline}")
    yield ""
    yield styled(("run       ", "dim"), _run(verdict.run))
    if verdict.baseline is not None:
        yield styled(("baseline  ", "dim"), _run(verdict.baseline))
    yield from paragraph("not compared", _refusals(verdict))
    if verdict.system is not None:
        lines = ((line, "") for line in change_lines(verdict.system))
        yield from paragraph(change_title("the baseline", "this run"), lines)
    yield ""
    yield _checks(verdict, console)
    if len(verdict.checks) > _CHECKS:
        yield styled((f"and {len(verdict.checks) - _CHECKS:,} more: see --json", "dim"))
    yield from paragraph("cannot tell", _undecided(verdict))
    yield from paragraph(_lost_title(verdict), _lost(verdict))
    yield from paragraph("notes", ((note, "") for note in verdict.notes))


def _run(run: JudgedRun) -> str:
    commit = ""
    if run.commit is not None:
        commit = f", commit {run.commit[:12]}{' with changes' if run.dirty else ''}"
    runs = f", mean of {run.runs} runs" if run.runs > 1 else ""
    return f"{run.source}  ({run.rag} on {run.dataset}, {run.cases:,} cases{commit}{runs})"


def _refusals(verdict: GateResult) -> Iterator[tuple[str, str]]:
    for refusal in verdict.refusals:
        yield f"{refusal.reason}. To go on, {refusal.remedy}", "yellow"


def _undecided(verdict: GateResult) -> Iterator[tuple[str, str]]:
    for check in verdict.checks:
        is_open = check.outcome is GateOutcome.INCONCLUSIVE and not check.informational
        if is_open and check.kind is not CheckKind.SLICE:
            yield f"{check.name} {check.reason}", ""


def _lost_title(verdict: GateResult) -> str:
    count = len(verdict.lost)
    return f"cases that lost: {count:,}{f', the first {_CASES}' if count > _CASES else ''}"


def _lost(verdict: GateResult) -> Iterator[tuple[str, str]]:
    for change in verdict.lost[:_CASES]:
        yield _change(change), ""


def _change(change: CaseChange) -> str:
    now = after_text(change)
    text = f"{change.id}: {change.metric} {number_text(change.before)}, now {now}"
    line = printable(f"{text}; {change.query}" if change.query else text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _checks(verdict: GateResult, console: Console) -> Table:
    """Columns that say nothing here are left out, and in a narrow terminal those least missed."""
    from rich.measure import Measurement

    checks = verdict.checks[:_CHECKS]
    rows = [dict(zip(_COLUMNS, _cells(check), strict=True)) for check in checks]
    columns = [name for name in _COLUMNS if any(row[name] != "-" for row in rows)]
    table = _table(checks, rows, columns)
    wide = console.options.update_width(10_000)
    for missed in _MISSED:
        if Measurement.get(console, wide, table).maximum <= console.width:
            break
        columns = [name for name in columns if name != missed]
        table = _table(checks, rows, columns)
    return table


def _table(
    checks: Sequence[GateCheck], rows: Sequence[dict[str, str]], columns: Sequence[str]
) -> Table:
    table = bare_table("check", "", *columns)
    for check, row in zip(checks, rows, strict=True):
        word, style = _WORDS[check.outcome]
        shown = (f"({word})", "dim") if check.informational else (word, style)
        table.add_row(styled(check.name), styled(shown), *(styled(row[name]) for name in columns))
    return table


def _cells(check: GateCheck) -> Sequence[str]:
    return (
        observed_text(check),
        change_text(check.drop, check.unit),
        interval_text(check),
        limit_text(check),
        f"{check.cases:,}",
        detectable_text(check),
    )
