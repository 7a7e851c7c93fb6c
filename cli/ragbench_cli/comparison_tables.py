"""What gate and compare show on the screen: runs beside each other.

A screen is one of 24 lines, so each part of it is cut to its first rows; Markdown (``--md``) and
the page (``--html``) have everything.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.core.comparison import (
    CaseDifference,
    CaseKind,
    Comparison,
    MetricComparison,
    RunFigure,
)
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, GateResult
from ragbench.safe_text import counted, shown_line
from ragbench.views.comparison import (
    change_lines,
    change_title,
    counts_text,
    difference_cells,
    kinds_text,
    result_lines,
)
from ragbench.views.document import cases_in_short, cause_text, number_text, what_changed
from ragbench.views.explain import case_name
from ragbench.views.gate import after_text, check_cells, refusal_text, unfulfilled_lines
from ragbench.views.run_document import flow_text
from ragbench_cli.console import data_console
from ragbench_cli.output import Blocks, Cell, can_show, fitted_table, paragraph, styled, table
from ragbench_cli.report_tables import corrected_blocks, run_text

if TYPE_CHECKING:
    from rich.table import Table

_ROWS = 4
"""How many metrics a table shows."""
_PASSED = 2
"""How many metrics are named that passed, or of which nothing is demanded."""
_FEW = 3
"""How many cases and changes of a system are shown; --md and the page have more."""
_FLOWS = 2
"""How many ways are shown by which cases went from one cause to another."""
_NOTES = 1
"""How many notes are shown; --md and the page have all."""
_LONGEST_NOTE = 150
"""Letters of a note that are shown: about two lines."""
_LONGEST_ID = 24
"""Letters of an id or of a metric's name that are shown at least."""
_LONGEST_EXPECTATION = 400
"""Letters of an expectation that are shown: it may list several accepted answers."""
_LEAST_ROOM = 20
"""Columns that a text has at least, however narrow the terminal is."""
_CASE_INDENT = 4
"""Columns by which the lines of a case are moved to the right."""
_LABEL_WIDTH = 8
"""Columns of the label that a case's lines begin with."""
_RAISED = str.maketrans("abcdefghijklmnop", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ")
"""Raised letters for the marks of runs. There is none for q in most fonts: a seventeenth run and
those behind it have the plain letter."""
_KIND_LABELS = {CaseKind.FAILING: "lost", CaseKind.FIXED: "won"}
"""As the line above the cases counts them."""
_KIND_WIDTH = 6
"""Columns of these labels."""
MOST_NAMED = 2
"""How many cases of a kind are named where nobody asked for them: the screen has 24 lines."""
_STYLES = {CaseKind.FAILING: "red", CaseKind.MIXED: "yellow", CaseKind.FIXED: "green"}
"""The colours of the kinds of changed cases."""


def gate_blocks(verdict: GateResult) -> Blocks:
    """The blocks of the screen of ``gate run``: the verdict, its checks, why, and the next step.

    The order is that of a reader who decides whether to merge: the verdict first, then what it was
    reached from, and only for a run that did not pass the cases or the reason to look at.
    """
    yield styled((verdict.word, f"bold {verdict.colour}"), f": {verdict.headline}")
    yield ""
    yield styled(("run       ", "dim"), run_text(verdict.run))
    if verdict.baseline is not None:
        yield styled(("baseline  ", "dim"), run_text(verdict.baseline))
    if verdict.pair is not None:
        yield styled(("cases     ", "dim"), kinds_text(verdict.pair))

    # Passed and not judged checks take one line each: neither asks for anything.
    passed = [check for check in verdict.checks if check.outcome is GateOutcome.PASSED]
    if passed:
        yield styled(("passed    ", "dim"), _passed_text(passed))
    not_judged = [check for check in verdict.checks if check.outcome is GateOutcome.NOT_JUDGED]
    if not_judged:
        yield styled(("not held  ", "dim"), _not_judged_text(not_judged))
    # What could not be compared is no check, and explains why one is missing.
    refusals: list[Cell] = [(refusal_text(refusal), "yellow") for refusal in verdict.refusals]
    yield from paragraph("not compared", refusals)

    if verdict.against:
        yield from _check_table(verdict.against)
        if verdict.shared is not None:
            yield styled(verdict.shared.text)
    corrections = [check.corrected for check in verdict.checks if check.corrected]
    if corrections:
        yield from corrected_blocks(corrections)
    yield from _unfulfilled_blocks(verdict)

    # A failed gate lists lost cases here; for any other outcome one reason at most is shown.
    if verdict.outcome is GateOutcome.FAILED:
        yield from _lost_blocks(verdict)
    else:
        # The first alone: the screen has few lines, and --md has all.
        reasons = [f"{check.name} {check.reason}" for check in verdict.against[:1]]
        yield from paragraph("why", reasons)
    yield from paragraph("notes", verdict.notes)
    next_step = _next_step(verdict)
    if next_step:
        yield ""
        yield styled(("next      ", "dim"), next_step)


def _check_table(checks: Sequence[GateCheck]) -> Blocks:
    """The table of checks that speak against a run, on the screen of a gate.

    In a narrow terminal the number of cases goes first, then the interval: the verdict follows
    from the change and its limit, which stay.
    """
    columns = ("check", "", "before", "now", "change", "interval", "limit", "n")
    rows: list[Sequence[Cell]] = []
    for check in checks[:_ROWS]:
        outcome = (check.outcome, check.outcome.colour)
        cells = check_cells(check)
        if check.drop is not None:
            drop = check.drop
            cases = cases_in_short(check.cases, drop.cases_only_before, drop.cases_only_now)
            cells = cells._replace(cases=cases)
        rows.append((check.label, outcome, *cells))
    yield ""
    yield fitted_table(columns, rows, missed=("n", "interval", "before"), sparse=True)
    hidden = len(checks) - _ROWS
    if hidden > 0:
        yield styled((f"and {hidden:,} more: see --md or --json", "dim"))


def _passed_text(checks: Sequence[GateCheck]) -> str:
    """The line of a gate's screen with the first metrics that passed, and the number of the others.

    A metric has several checks (a limit, a change, slices), of which one line needs one figure.
    Checks of how many cases failed or were measured have no metric, and are only counted.
    """
    checks_by_metric: dict[str, list[GateCheck]] = {}
    for check in checks:
        if check.kind is not CheckKind.COVERAGE:
            checks_by_metric.setdefault(check.marked, []).append(check)
    texts: list[str] = []
    # All checks less those of the metrics that are named: the rest is counted as "more".
    unnamed = len(checks)
    for name, checks_of_metric in islice(checks_by_metric.items(), _PASSED):
        texts.append(f"{name} {_passed_figure(checks_of_metric)}")
        unnamed -= len(checks_of_metric)
    # All passed checks are coverage, which has no metric to name.
    if not texts:
        return f"{unnamed:,} checks of how many cases failed or were measured"
    text = ", ".join(texts)
    if unnamed:
        text += f" and {unnamed:,} more"
    return text


def _passed_figure(checks: Sequence[GateCheck]) -> str:
    """The figure of a metric that passed its gate, with its change where a check of it passed.

    A limit is judged on all cases of the run, a change on those that the baseline measured too:
    beside its change a metric has the mean that the change is of.
    """
    # The check with a change tells more than a limit.
    for check in checks:
        if check.drop is not None:
            cells = check_cells(check)
            return f"{cells.now} ({cells.change})"
    return check_cells(checks[0]).now


def _not_judged_text(checks: Sequence[GateCheck]) -> str:
    """The line of a gate's screen with metrics of which nothing is demanded, and their changes.

    They are named so that a reader does not take them for passed.
    """
    texts: list[str] = []
    # The first ones, in the order of the gate.
    for check in checks[:_PASSED]:
        change = check_cells(check).change
        texts.append(f"{check.marked} {change}")
    text = ", ".join(texts)
    unnamed = len(checks) - len(texts)
    if unnamed:
        text += f" and {unnamed:,} more"
    return text


def _lost_blocks(verdict: GateResult) -> Blocks:
    """The part of a failed gate's screen on where to look: changes, and the first lost cases.

    A screen has room for `_FEW` of each; Markdown and the page have all.
    """
    # Of runs that cannot be compared, a change of the system explains nothing.
    if verdict.system is not None and not verdict.refusals:
        title = change_title("the baseline", "this run")
        yield from paragraph(title, change_lines(verdict.system, most=_FEW))
    # Each case stays on one line: below its title it is indented by 2, and " ..." may end it.
    room = data_console().width - 2 - len(" ...")
    lines: list[str] = []
    for case in verdict.lost_cases[:_FEW]:
        name = case.id
        if case.query:  # a baseline file holds no questions
            name = case_name(case.id, case.query)
        text = f"{case.metric} {number_text(case.before)}, now {after_text(case)}: {name}"
        lines.append(shown_line(text, longest=room))
    count = len(verdict.lost_cases)
    # Not "lost": a case can score less in one metric and pass as before.
    yield from paragraph(f"cases with a lower score: {count:,}{_first_few(count)}", lines)


def _unfulfilled_blocks(verdict: GateResult) -> Blocks:
    """The part of a gate's screen with the first cases whose expectations do not hold.

    An expectation is what a case's author demands of its answer.
    """
    unfulfilled = verdict.unfulfilled
    if unfulfilled is None:
        return
    cases = counted(unfulfilled.total, "case")
    title = f"expectations that do not hold: {cases}{_first_few(unfulfilled.total)}"
    lines: list[str] = []
    for line in unfulfilled_lines(unfulfilled)[:_FEW]:
        lines.append(shown_line(line, longest=_LONGEST_EXPECTATION))
    yield from paragraph(title, lines)


def _first_few(count: int) -> str:
    """The end of a list's title where the list is cut; empty where all of it is shown.

    A reader must not take the first cases of a list for all.
    """
    if count > _FEW:
        return f", the first {_FEW}"
    return ""


def _next_step(verdict: GateResult) -> str:
    """The command to run next after a gate that did not pass; empty for none.

    Of runs that cannot be compared there is none: the refusals say what to mend.
    """
    if verdict.outcome is GateOutcome.PASSED or verdict.refusals:
        return ""
    if verdict.outcome is GateOutcome.INCONCLUSIVE:
        if any(check.can_settle for check in verdict.checks):
            return "the same command with --rerun-inconclusive asks both systems again"
        return ""
    run = shlex.quote(verdict.run.source)
    # Checks are sorted, those that failed first. A drop is explained by both runs side by side, a
    # limit by the cases of this one.
    worst = verdict.checks[0]
    if worst.drop is not None and verdict.baseline is not None:
        baseline = shlex.quote(verdict.baseline.source)
        return f"ragbench compare {baseline} {run} --cases 5"
    # explain reads a run's folder, and not a file of scores.
    if Path(verdict.run.source).is_dir():
        return f"ragbench explain {run}"
    return ""


def comparison_blocks(comparison: Comparison, *, named: bool, cases: int) -> Blocks:
    """The blocks of the screen of ``compare``: the result, the metrics that matter, the cases.

    It fits 24 lines where there are two runs; Markdown and the page have everything.

    Args:
        named: whether the user named the metrics: all of them are then shown.
        cases: how many cases of each kind are spelled out.
    """
    for line in result_lines(comparison):
        yield styled((line, "bold"))
    yield ""
    # Marks stand for the runs in all tables below.
    for run in comparison.runs:
        yield styled((f"{run.mark}  ", "bold"), run_text(run))
    metrics: Sequence[MetricComparison] = comparison.metrics
    if not named:
        metrics = _main_metrics(comparison)
    # Metrics that are left out: the legend counts them, and names the option that shows them.
    hidden = len(comparison.metrics) - len(metrics)
    yield ""
    yield _metric_table(comparison, metrics)
    yield styled((_legend_text(metrics, hidden=hidden), "dim"))
    if comparison.corrections:
        yield from corrected_blocks(comparison.corrections)
    yield from _pair_blocks(comparison, cases)
    yield from _reason_blocks(comparison)
    # With --cases the changed cases are spelled out above already.
    if comparison.changed and not cases:
        yield ""
        yield styled(("next     ", "dim"), _cases_command(comparison))


def _cases_command(comparison: Comparison) -> str:
    """The command that spells out the changed cases of the pair of runs with most lost ones.

    These runs are the pair whose difference matters most.
    """
    worst = max(comparison.pairs, key=lambda pair: (pair.newly_failing, pair.newly_fixed))
    sources = {run.mark: run.source for run in comparison.runs}
    runs = shlex.join([sources[worst.first], sources[worst.second]])
    return f"ragbench compare {runs} --cases 5"


def _main_metrics(comparison: Comparison) -> Sequence[MetricComparison]:
    """The metrics that a comparison's screen shows where the user named none.

    Those that say whether a case passes come before those that differ beyond chance, and both keep
    the order of the comparison. Without any, its first metrics are shown.
    """
    candidates: list[MetricComparison] = []
    for metric in comparison.metrics:
        is_measured = any(score is not None for score in metric.scores)
        # Of the metrics that decide, those with a value in any run.
        if metric.name in comparison.main and is_measured:
            candidates.append(metric)
    for metric in comparison.metrics:
        is_significant = any(difference.is_significant for difference in metric.differences)
        if is_significant and metric not in candidates:
            candidates.append(metric)
    if not candidates:
        return comparison.metrics[:_ROWS]
    # Cut before the order is restored: the main ones go first.
    shown = candidates[:_ROWS]
    return [metric for metric in comparison.metrics if metric in shown]


def _legend_text(metrics: Sequence[MetricComparison], *, hidden: int) -> str:
    """The line below a comparison's table: how to read it, and how many metrics it leaves out.

    Letters behind scores are explained only where there are any.
    """
    parts = ["p: two-sided, corrected"]
    has_letters = False
    for metric in metrics:
        # One letter anywhere is enough to need the explanation.
        has_letters = has_letters or any(figure.better_than for figure in metric.figures)
    if has_letters:
        parts.append("a letter: better than that run")
    if hidden:
        parts.append(f"{hidden:,} more: -m, --md")
    return "; ".join(parts)


def _pair_blocks(comparison: Comparison, cases: int) -> Blocks:
    """The part of a comparison's screen on each run against the first.

    It says how many cases changed, and which.

    Args:
        cases: how many cases of each kind are spelled out. For none, the first ones are named in
            a line each, where there are two runs: of more, the screen has no room.
    """
    is_only_pair = len(comparison.pairs) == 1
    yield ""
    for pair in comparison.pairs:
        changed = [case for case in comparison.changed if case.second == pair.second]
        # Of several runs, one without a changed case needs no line.
        if not changed and not is_only_pair:
            continue
        if cases:
            counts = counts_text(pair)
        else:
            noun = "case" if pair.cases == 1 else "cases"
            counts = f"{kinds_text(pair)} {noun}"
        yield styled((f"{pair.second} against {pair.first}", "bold"), f": {counts}")
        for kind in CaseKind:
            cases_of_kind = [case for case in changed if case.kind is kind]
            if cases:
                yield from _spelled_out_blocks(kind, cases_of_kind, cases)
            # Of the kinds without a label, such as equal cases, no case is named.
            elif is_only_pair and kind in _KIND_LABELS:
                yield from _named_cases(kind, cases_of_kind)


def _named_cases(kind: CaseKind, cases: Sequence[CaseDifference]) -> Blocks:
    """The lines that name the first changed cases of a kind: the question, and its causes.

    The question is cut to what the line has room for, so that its cause stays in view.
    """
    label = f"  {_KIND_LABELS[kind]:<{_KIND_WIDTH}}"
    for case in cases[:MOST_NAMED]:
        cause = f": {cause_text(case)}"
        room = data_console().width - len(label) - len(cause) - len(" ...")
        # A baseline file holds no questions.
        name = case.query or case.id
        question = shown_line(name, longest=max(room, _LONGEST_ID))
        yield styled((label, _STYLES[kind]), question, cause)
        # The label is written once, before the first case.
        label = " " * len(label)


def _reason_blocks(comparison: Comparison) -> Blocks:
    """The lines of a comparison's screen on possible reasons.

    They name causes, changes of the systems, and the first note. A change that several runs have in
    common is printed once, with the marks of these runs.
    """
    moved = [flow for flow in comparison.flows if flow.before is not flow.after]
    if moved and len(comparison.pairs) == 1:
        flows = [flow_text(flow) for flow in moved[:_FLOWS]]
        yield styled(("causes   ", "dim"), "; ".join(flows))
    marks_by_change: dict[str, list[str]] = {}
    # Pairs and changes of systems are made in the same order, one for each later run.
    for pair, change in zip(comparison.pairs, comparison.systems, strict=True):
        line = "; ".join(change_lines(change, most=_FEW))
        marks_by_change.setdefault(line, []).append(pair.second)
    for line, marks in marks_by_change.items():
        # With one line for all runs, marks would only repeat them.
        if len(marks_by_change) > 1:
            line = f"{', '.join(marks)}: {line}"
        yield styled(("changed  ", "dim"), line)
    for note in comparison.notes[:_NOTES]:
        yield styled(("note     ", "dim"), shown_line(note, longest=_LONGEST_NOTE))


def _metric_table(comparison: Comparison, metrics: Sequence[MetricComparison]) -> Table:
    """The table of a comparison's scores: of two runs as columns, of more runs as rows.

    Of three runs or more each has a line instead: a table grows downwards without end, but to the
    right only as far as the terminal is wide.
    """
    marks = [run.mark for run in comparison.runs]
    names = [shown_line(metric.name) for metric in metrics]
    scores = _score_rows(metrics, raised=can_show("ᵃ"))
    # The table of three or more runs: its rows are the runs, so scores are turned.
    if len(marks) > 2:
        wide_table = table(("run", *names), zip(marks, *scores, strict=True))
        # Scores of many metrics are folded rather than cut.
        for column in wide_table.columns[1:]:
            column.no_wrap = False
        return wide_table
    rows: list[Sequence[Cell]] = []
    for name, metric, figures in zip(names, metrics, scores, strict=True):
        # No case in common, or a metric that cannot be tested.
        if not metric.differences:
            rows.append((name, *figures, "-", "-", "-", "-"))
            continue
        difference = metric.differences[0]
        cells = difference_cells(metric, difference)
        cases = cases_in_short(
            difference.cases, difference.cases_only_first, difference.cases_only_second
        )
        rows.append((name, *figures, cells.difference, cells.interval, cells.p_value, cases))
    mark, other_mark = marks
    longest_name = max(len(name) for name in names)
    metric_table = fitted_table(
        ("metric", mark, other_mark, f"{other_mark} - {mark}", "interval", "p", "in both"),
        rows,
        missed=("in both", "interval", "p"),
        # So many letters of a long name may be cut before a column of figures is left out.
        spare=max(0, longest_name - _LONGEST_ID),
    )
    metric_table.columns[0].max_width = _LONGEST_ID
    return metric_table


def _score_rows(metrics: Sequence[MetricComparison], *, raised: bool) -> list[list[str]]:
    """The cells of a comparison's table: each score with the marks of the runs that it beats.

    The marks of two runs are padded, so that the numbers of a column are in line.
    """
    marks: list[list[str]] = []
    for metric in metrics:
        marks.append([_marks_text(figure, raised=raised) for figure in metric.figures])
    # Turned from rows to columns: the width is that of a run's whole column.
    marks_by_run = list(zip(*marks, strict=True))
    widths = [0] * len(marks_by_run)
    # Of three and more runs the marks vary too much: padding would cost the screen's width.
    if len(marks_by_run) == 2:
        widths = [max(map(len, marks_of_run)) for marks_of_run in marks_by_run]
    rows: list[list[str]] = []
    for metric, marks_of_metric in zip(metrics, marks, strict=True):
        row: list[str] = []
        scores = _score_texts(metric)
        for score, mark, width in zip(scores, marks_of_metric, widths, strict=True):
            row.append(f"{score}{mark:<{width}}")
        rows.append(row)
    return rows


def _score_texts(metric: MetricComparison) -> list[str]:
    """The figures of a metric in a comparison, one for each run.

    Those of two runs are of the cases that both measured, so that their difference is the one in
    the same line of the table. Of more runs each has the figure of all its cases.
    """
    if len(metric.figures) == 2 and metric.differences:
        cells = difference_cells(metric, metric.differences[0])
        return [cells.first, cells.second]
    return [number_text(figure.score, metric.unit) for figure in metric.figures]


def _marks_text(figure: RunFigure, *, raised: bool) -> str:
    """The marks (letters) of the runs that a run is better than, which follow its score.

    They save a column for each pair of runs.

    Args:
        raised: as raised letters; else, for a terminal whose encoding lacks them, each behind a ^.
    """
    if raised:
        return "".join(figure.better_than).translate(_RAISED)
    return "".join(f"^{mark}" for mark in figure.better_than)


def _spelled_out_blocks(kind: CaseKind, cases: Sequence[CaseDifference], most: int) -> Blocks:
    """The lines that spell out changed cases of a kind: question, scores, cause, both answers.

    The same lines are in Markdown and on the page.

    Args:
        most: how many cases ``--cases`` asks for.
    """
    if not cases:
        return
    yield ""
    yield styled((f"{kind.heading.lower()}: {len(cases):,}", _STYLES[kind]))
    for case in cases[:most]:
        yield styled(f"  {shown_line(case.id)}")
        for label, line in what_changed(case):
            yield styled(_hanging_text(label, line))
    hidden = len(cases) - most
    if hidden > 0:
        yield styled((f"  and {hidden:,} more: see --cases, --md or --json", "dim"))


def _hanging_text(label: str, text: str) -> str:
    """A label and a text wrapped beside it, for the lines of a changed case.

    Rich would fold the text below the label, and the labels could not be read down the page.
    """
    head = " " * _CASE_INDENT
    if label:
        head += f"{label:<{_LABEL_WIDTH}}"
    # A very narrow terminal still gets lines that can be read.
    room = max(_LEAST_ROOM, data_console().width - _CASE_INDENT - _LABEL_WIDTH)
    lines = textwrap.wrap(text, room, break_on_hyphens=False)
    indent = " " * len(head)
    return head + f"\n{indent}".join(lines)
