"""A gate's result in a terminal, on one screen: the decision, then what stands against it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    GateCheck,
    GateOutcome,
    GateResult,
    JudgedRun,
)
from ragbench.safe_text import shown_line
from ragbench.views.comparison import change_lines, change_title, kinds_text
from ragbench.views.document import number_text
from ragbench.views.gate import after_text, check_cells
from ragbench_cli.console import data_console
from ragbench_cli.report_tables import corrected_blocks
from ragbench_cli.tables import draw, fitted_table, paragraph, styled

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from ragbench_cli.tables import Cell

_ROWS = 5
_PASSED = 2
_FEW = 3
"""How many cases and changes of the system are shown; --md and the page have more."""
_WORDS = {
    GateOutcome.PASSED: ("passed", "green"),
    GateOutcome.FAILED: ("failed", "red"),
    GateOutcome.INCONCLUSIVE: ("inconclusive", "yellow"),
}


def print_verdict(verdict: GateResult) -> None:
    console = data_console()
    draw(console, _blocks(verdict, console))


def _blocks(verdict: GateResult, console: Console) -> Iterator[RenderableType]:
    word, style = _WORDS[verdict.outcome]
    if verdict.outcome is GateOutcome.PASSED and verdict.colour == "yellow":
        word, style = "passed with a warning", "yellow"
    yield styled((word, f"bold {style}"), f": {verdict.headline}")
    yield ""
    yield styled(("run       ", "dim"), _run(verdict.run))
    if verdict.baseline is not None:
        yield styled(("baseline  ", "dim"), _run(verdict.baseline))
    if verdict.pair is not None:
        yield styled(("cases     ", "dim"), kinds_text(verdict.pair))
    if passed := [check for check in verdict.checks if check.outcome is GateOutcome.PASSED]:
        yield styled(("passed    ", "dim"), _passed(passed))
    refusals = [(f"{one.reason}. To go on, {one.remedy}", "yellow") for one in verdict.refusals]
    yield from paragraph("not compared", refusals)
    if against := [check for check in verdict.checks if _is_shown(check)]:
        yield ""
        yield _checks(against[:_ROWS], console)
        if len(against) > _ROWS:
            yield styled((f"and {len(against) - _ROWS:,} more: see --md or --json", "dim"))
    if corrections := [check.corrected for check in verdict.checks if check.corrected]:
        yield from corrected_blocks(corrections, console)
    if verdict.outcome is GateOutcome.FAILED:
        yield from _behind(verdict, console)
    else:
        yield from paragraph("why", (f"{check.name} {check.reason}" for check in against[:1]))
    yield from paragraph("notes", verdict.notes)
    if command := _next_step(verdict):
        yield ""
        yield styled(("next      ", "dim"), command)


def _run(run: JudgedRun) -> str:
    commit = ""
    if run.commit is not None:
        commit = f", commit {run.commit[:12]}{' with changes' if run.dirty else ''}"
    runs = f", mean of {run.runs} runs" if run.runs > 1 else ""
    return f"{run.source}  ({run.rag} on {run.dataset}, {run.cases:,} cases{commit}{runs})"


def _passed(checks: Sequence[GateCheck]) -> str:
    metrics = [check for check in checks if check.kind is not CheckKind.COVERAGE]
    shown = [
        f"{check.marked} {now}{'' if check.drop is None else f' ({change})'}"
        for check in metrics[:_PASSED]
        for now, change, *_ in [check_cells(check)]
    ]
    rest = len(checks) - len(shown)
    more = f"{rest:,} {'more' if shown else 'checks of how many cases failed or were measured'}"
    return " and ".join(filter(None, (", ".join(shown), more if rest else "")))


def _is_shown(check: GateCheck) -> bool:
    """Slices that are too small to say anything are most of them, and do not count."""
    return check.outcome is GateOutcome.FAILED or (
        check.outcome is GateOutcome.INCONCLUSIVE and check.kind is not CheckKind.SLICE
    )


def _behind(verdict: GateResult, console: Console) -> Iterator[RenderableType]:
    """What changed in the system, and the cases that lost most."""
    if verdict.system is not None and not verdict.refusals:
        title = change_title("the baseline", "this run")
        yield from paragraph(title, change_lines(verdict.system, most=_FEW))
    lost = verdict.lost_cases
    first = f", the first {_FEW}" if len(lost) > _FEW else ""
    cases = [_case(change, console.width - 6) for change in lost[:_FEW]]
    yield from paragraph(f"cases that lost: {len(lost):,}{first}", cases)


def _case(change: CaseChange, longest: int) -> str:
    text = f"{change.id}: {change.metric} {number_text(change.before)}, now {after_text(change)}"
    return shown_line(f"{text}; {change.query}" if change.query else text, longest=longest)


def _next_step(verdict: GateResult) -> str:
    if verdict.outcome is GateOutcome.PASSED or verdict.refusals:
        return ""
    if verdict.outcome is GateOutcome.INCONCLUSIVE:
        if any(check.can_settle for check in verdict.checks):
            return "the same command with --rerun-inconclusive asks both systems again"
        return ""
    run = shlex.quote(verdict.run.source)
    first = verdict.checks[0]
    if first.drop is not None and verdict.baseline is not None:
        return f"ragbench compare {shlex.quote(verdict.baseline.source)} {run} --cases 5"
    return f"ragbench explain {run}" if Path(verdict.run.source).is_dir() else ""


def _checks(checks: Sequence[GateCheck], console: Console) -> Table:
    columns = ("check", "", "now", "change", "interval", "limit", "n")
    rows: list[Sequence[Cell]] = [
        (check.label, _WORDS[check.outcome], *check_cells(check)) for check in checks
    ]
    return fitted_table(console, columns, rows, missed=("n", "interval"), sparse=True)
