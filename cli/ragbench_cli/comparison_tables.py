"""What gate and compare show on the screen: runs beside each other."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.core.comparison import CaseDifference, CaseKind, Comparison, MetricComparison
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, GateResult
from ragbench.core.record import replace
from ragbench.safe_text import as_line, counted, shown_line
from ragbench.views.comparison import (
    change_lines,
    change_title,
    counts_text,
    difference_cells,
    kinds_text,
    result_lines,
)
from ragbench.views.document import number_text, what_changed
from ragbench.views.gate import after_text, check_cells, refusal_text, unfulfilled_lines
from ragbench.views.run_document import flow_text
from ragbench_cli.console import data_console
from ragbench_cli.output import Blocks, Cell, can_show, fitted_table, paragraph, styled, table
from ragbench_cli.report_tables import corrected_blocks, run_text

if TYPE_CHECKING:
    from rich.table import Table

_ROWS, _PASSED = 5, 2
_FEW = 3
"""How many cases and changes of a system are shown; --md and the page have more."""
_WAYS, _NOTES = 2, 1
_LONGEST, _LONGEST_ID, _LABEL = 150, 24, 8
_RAISED = str.maketrans("abcdefghijklmnop", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ")
_STYLES = {CaseKind.FAILING: "red", CaseKind.MIXED: "yellow", CaseKind.FIXED: "green"}


def gate_blocks(verdict: GateResult) -> Blocks:
    yield styled((verdict.word, f"bold {verdict.colour}"), f": {verdict.headline}")
    yield ""
    yield styled(("run       ", "dim"), run_text(verdict.run))
    if verdict.baseline is not None:
        yield styled(("baseline  ", "dim"), run_text(verdict.baseline))
    if verdict.pair is not None:
        yield styled(("cases     ", "dim"), kinds_text(verdict.pair))
    if passed := [check for check in verdict.checks if check.outcome is GateOutcome.PASSED]:
        yield styled(("passed    ", "dim"), _passed(passed))
    if shown := [check for check in verdict.checks if check.outcome is GateOutcome.NOT_JUDGED]:
        yield styled(("not held  ", "dim"), _not_held(shown))
    refusals = ((refusal_text(one), "yellow") for one in verdict.refusals)
    yield from paragraph("not compared", refusals)
    if against := verdict.against:
        columns = ("check", "", "now", "change", "interval", "limit", "n")
        rows: list[Sequence[Cell]] = [
            (one.label, (one.outcome, one.outcome.colour), *check_cells(one))
            for one in against[:_ROWS]
        ]
        yield ""
        yield fitted_table(columns, rows, missed=("n", "interval"), sparse=True)
        if len(against) > _ROWS:
            yield styled((f"and {len(against) - _ROWS:,} more: see --md or --json", "dim"))
    if corrections := [check.corrected for check in verdict.checks if check.corrected]:
        yield from corrected_blocks(corrections)
    yield from _unfulfilled(verdict)
    if verdict.outcome is GateOutcome.FAILED:
        yield from _lost(verdict)
    else:
        yield from paragraph("why", (f"{check.name} {check.reason}" for check in against[:1]))
    yield from paragraph("notes", verdict.notes)
    if command := _next_step(verdict):
        yield ""
        yield styled(("next      ", "dim"), command)


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


def _not_held(checks: Sequence[GateCheck]) -> str:
    """Metrics of which nothing is demanded: the first ones with their changes."""
    shown = [f"{check.marked} {check_cells(check)[1]}" for check in checks[:_PASSED]]
    rest = len(checks) - len(shown)
    return " and ".join([", ".join(shown), *([f"{rest:,} more"] if rest else [])])


def _lost(verdict: GateResult) -> Blocks:
    if verdict.system is not None and not verdict.refusals:
        title = change_title("the baseline", "this run")
        yield from paragraph(title, change_lines(verdict.system, most=_FEW))
    lost = verdict.lost_cases
    first = f", the first {_FEW}" if len(lost) > _FEW else ""
    cases = (
        f"{one.id}: {one.metric} {number_text(one.before)}, now {after_text(one)}"
        f"{f'; {one.query}' if one.query else ''}"
        for one in lost[:_FEW]
    )
    room = data_console().width - 6
    lines = (shown_line(text, longest=room) for text in cases)
    yield from paragraph(f"cases that lost: {len(lost):,}{first}", lines)


def _unfulfilled(verdict: GateResult) -> Blocks:
    """The first cases with the expectations that do not hold."""
    found = verdict.unfulfilled
    if found is None:
        return
    first = f", the first {_FEW}" if found.total > _FEW else ""
    title = f"expectations that do not hold: {counted(found.total, 'case')}{first}"
    yield from paragraph(
        title,
        [shown_line(text, longest=_LONGEST_NAMES) for text in unfulfilled_lines(found)[:_FEW]],
    )


_LONGEST_NAMES = 400


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


def comparison_blocks(comparison: Comparison, *, named: bool, cases: int) -> Blocks:
    """One screen: the result, the metrics that matter (all where they are named), the cases."""
    for line in result_lines(comparison):
        yield styled((line, "bold"))
    yield ""
    for run in comparison.runs:
        yield styled((f"{run.mark}  ", "bold"), run_text(run))
    shown = comparison if named else _main(comparison)
    yield ""
    yield _metrics(shown)
    rest = len(comparison.metrics) - len(shown.metrics)
    parts = ["p: two-sided, corrected"]
    if any(figure.better_than for each in shown.metrics for figure in each.figures):
        parts.append("a letter: better than that run")
    if rest:
        parts.append(f"{rest:,} more: -m, --md")
    yield styled(("; ".join(parts), "dim"))
    if comparison.corrections:
        yield from corrected_blocks(comparison.corrections)
    yield from _pairs(comparison, cases)
    yield from _behind(comparison)
    if comparison.changed and not cases:
        worst = max(comparison.pairs, key=lambda pair: (pair.newly_failing, pair.newly_fixed))
        sources = {run.mark: run.source for run in comparison.runs}
        pair = shlex.join([sources[worst.first], sources[worst.second]])
        yield ""
        yield styled(("next     ", "dim"), f"ragbench compare {pair} --cases 5")


def _main(comparison: Comparison) -> Comparison:
    """With the metrics that say whether a case passes, and those that differ beyond chance."""
    metrics = comparison.metrics
    main = [each for each in metrics if each.name in comparison.main]
    differing = [each for each in metrics if any(one.is_significant for one in each.differences)]
    kept = [*main, *(each for each in differing if each not in main)][:_ROWS] or metrics[:_ROWS]
    return replace(comparison, metrics=tuple(each for each in metrics if each in kept))


def _pairs(comparison: Comparison, cases: int) -> Blocks:
    yield ""
    for pair in comparison.pairs:
        mine = [case for case in comparison.changed if case.second == pair.second]
        if not mine and len(comparison.pairs) > 1:
            continue
        counts = counts_text(pair) if cases else f"{kinds_text(pair)} cases"
        yield styled((f"{pair.second} against {pair.first}", "bold"), f": {counts}")
        for kind in CaseKind:
            found = [case for case in mine if case.kind is kind]
            if cases:
                yield from _spelled_out(kind, found, cases)
            elif found and kind is not CaseKind.MIXED and len(comparison.pairs) == 1:
                ids = [shown_line(case.id, longest=_LONGEST_ID) for case in found]
                yield styled("  ", (kind.value, _STYLES[kind]), f": {as_line(ids, _FEW)}")


def _behind(comparison: Comparison) -> Blocks:
    """Causes; what changed in the systems, together where it is the same; what to mind."""
    moved = [flow for flow in comparison.flows if flow.before is not flow.after]
    if moved and len(comparison.pairs) == 1:
        yield styled(("causes   ", "dim"), "; ".join(map(flow_text, moved[:_WAYS])))
    groups: dict[str, list[str]] = {}
    for pair, change in zip(comparison.pairs, comparison.systems, strict=True):
        groups.setdefault("; ".join(change_lines(change, most=_FEW)), []).append(pair.second)
    for line, marks in groups.items():
        of = f"{', '.join(marks)}: " if len(groups) > 1 else ""
        yield styled(("changed  ", "dim"), f"{of}{line}")
    for note in comparison.notes[:_NOTES]:
        yield styled(("note     ", "dim"), shown_line(note, longest=_LONGEST))


def _metrics(comparison: Comparison) -> Table:
    """Two runs next to each other; more of them a line each, so that however many, none is cut."""
    raised = can_show("ᵃ")
    marks = [run.mark for run in comparison.runs]
    names = [shown_line(metric.name) for metric in comparison.metrics]
    scores = _scores(comparison.metrics, raised=raised)
    if len(marks) > 2:
        found = table(("run", *names), zip(marks, *scores, strict=True))
        for column in found.columns[1:]:
            column.no_wrap = False
        return found
    found = fitted_table(
        ("metric", *marks, f"{marks[1]} - {marks[0]}", "interval", "p", "cases"),
        [
            (name, *figures, *difference_cells(next(iter(one.differences), None), one.unit))
            for name, one, figures in zip(names, comparison.metrics, scores, strict=True)
        ],
        missed=("cases", "interval", "p"),
        spare=max(0, max(map(len, names)) - _LONGEST_ID),
    )
    found.columns[0].max_width = _LONGEST_ID
    return found


def _scores(metrics: Sequence[MetricComparison], *, raised: bool) -> list[list[str]]:
    """The figures with their marks; of two runs padded, so that the numbers stand in line."""
    marks = [
        [
            "".join(f.better_than).translate(_RAISED)
            if raised
            else "".join(f"^{m}" for m in f.better_than)
            for f in metric.figures
        ]
        for metric in metrics
    ]
    columns = list(zip(*marks, strict=True))
    widths = [max(map(len, column)) if len(columns) == 2 else 0 for column in columns]
    return [
        [
            f"{number_text(figure.score, metric.unit)}{mark:<{width}}"
            for figure, mark, width in zip(metric.figures, row, widths, strict=True)
        ]
        for metric, row in zip(metrics, marks, strict=True)
    ]


def _spelled_out(kind: CaseKind, cases: Sequence[CaseDifference], shown: int) -> Blocks:
    if not cases:
        return
    yield ""
    yield styled((f"{kind.heading.lower()}: {len(cases):,}", _STYLES[kind]))
    for case in cases[:shown]:
        yield styled(f"  {shown_line(case.id)}")
        for label, line in what_changed(case):
            yield styled(_hanging(label, line))
    if len(cases) > shown:
        yield styled((f"  and {len(cases) - shown:,} more: see --cases, --md or --json", "dim"))


def _hanging(label: str, line: str) -> str:
    first = f"    {label:<{_LABEL}}" if label else "    "
    room = max(20, data_console().width - _LABEL - 4)
    lines = textwrap.wrap(line, room, break_on_hyphens=False) or [""]
    return f"\n{'':{len(first)}}".join([f"{first}{lines[0]}", *lines[1:]])
