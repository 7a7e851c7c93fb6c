"""Comparisons in a terminal: of runs, and of an ablation's variants."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from ragbench.core.comparison import (
    CaseDifference,
    CaseKind,
    ComparedRun,
    Comparison,
    MetricComparison,
)
from ragbench.safe_text import shown_line
from ragbench.views.ablation import ablation_notes, answer_table, cost_table, metric_table
from ragbench.views.comparison import change_lines, counts_text, kinds_text, p_text, result_lines
from ragbench.views.document import Section, number_text, range_text, what_changed
from ragbench.views.run_document import flow_text, operator_remarks
from ragbench_cli.console import data_console
from ragbench_cli.report_tables import corrected_blocks
from ragbench_cli.tables import can_show, draw, fitted_table, paragraph, styled, table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from ragbench.core.ablation import Ablation, VariantReport

_ROWS = 5
_FEW = 3
"""How many changes of a system and cases of a kind are named; the page has all of them."""
_WAYS, _NOTES = 2, 1
_LONGEST = 150
_LONGEST_ID = 24
_RAISED = str.maketrans("abcdefghijklmnop", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ")
_MISSED = ("cases", "interval", "p")
"""Columns that a narrow terminal goes without, in this order."""
_REMARKS = 4
"""How many remarks on operators are shown for each variant."""
_KINDS = 3
"""How many kinds of failure are spelled out for each variant."""


def print_comparison(comparison: Comparison, *, named: bool, cases: int) -> None:
    """Prints a comparison on one screen: the result, the metrics that matter, the cases.

    Args:
        named: the user named the metrics, so that all of them are shown.
    """
    console = data_console()
    draw(console, _blocks(comparison, console, named=named, cases=cases))


def _blocks(
    comparison: Comparison, console: Console, *, named: bool, cases: int
) -> Iterator[RenderableType]:
    for line in result_lines(comparison):
        yield styled((line, "bold"))
    yield ""
    for run in comparison.runs:
        yield styled((f"{run.mark}  ", "bold"), _run(run))
    shown = comparison if named else _main(comparison)
    yield ""
    yield _metrics(shown, console)
    rest = len(comparison.metrics) - len(shown.metrics)
    parts = ["p: two-sided, corrected"]
    if any(figure.better_than for each in shown.metrics for figure in each.figures):
        parts.append("a letter: better than that run")
    if rest:
        parts.append(f"{rest:,} more: -m, --md")
    yield styled(("; ".join(parts), "dim"))
    if comparison.corrections:
        yield from corrected_blocks(comparison.corrections, console)
    yield from _pairs(comparison, console, cases)
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


def _pairs(comparison: Comparison, console: Console, cases: int) -> Iterator[RenderableType]:
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
                yield from _spelled_out(kind, found, cases, console)
            elif found and kind is not CaseKind.MIXED and len(comparison.pairs) == 1:
                ids = ", ".join(shown_line(case.id, longest=_LONGEST_ID) for case in found[:_FEW])
                more = f" and {len(found) - _FEW:,} more" if len(found) > _FEW else ""
                yield styled("  ", (kind.value, _STYLES[kind]), f": {ids}{more}")


def _behind(comparison: Comparison) -> Iterator[RenderableType]:
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


def _run(run: ComparedRun) -> str:
    commit = ""
    if run.commit is not None:
        commit = f", commit {run.commit[:12]}{' with changes' if run.dirty else ''}"
    what = f"{run.rag} on {run.dataset}, {run.cases:,} cases{commit}"
    return shown_line(f"{run.source}  ({what})")


def _metrics(comparison: Comparison, console: Console) -> Table:
    """Two runs next to each other; more of them a line each, so that however many, none is cut."""
    raised = can_show(console, "ᵃ")
    marks = [run.mark for run in comparison.runs]
    names = [shown_line(metric.name) for metric in comparison.metrics]
    scores = _scores(comparison.metrics, raised=raised)
    if len(marks) > 2:
        found = table(("run", *names), zip(marks, *scores, strict=True))
        for column in found.columns[1:]:
            column.no_wrap = False
        return found
    found = fitted_table(
        console,
        ("metric", *marks, f"{marks[1]} - {marks[0]}", "interval", "p", "cases"),
        [
            (name, *figures, *_difference(metric))
            for name, metric, figures in zip(names, comparison.metrics, scores, strict=True)
        ],
        missed=_MISSED,
        spare=max(0, max(map(len, names)) - _LONGEST_ID),
    )
    found.columns[0].max_width = _LONGEST_ID
    return found


def _scores(metrics: Sequence[MetricComparison], *, raised: bool) -> list[list[str]]:
    """The figures with their marks; of two runs padded, so that the numbers stand in line."""
    marks = [
        [_marked(figure.better_than, raised=raised) for figure in metric.figures]
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


def _marked(marks: Sequence[str], *, raised: bool) -> str:
    if not marks:
        return ""
    text = "".join(marks)
    return text.translate(_RAISED) if raised else f"^{text}"


def _difference(metric: MetricComparison) -> Sequence[str]:
    if not metric.differences:
        return ("-",) * 4
    found = metric.differences[0]
    change = number_text(found.difference, metric.unit, sign=True)
    interval = range_text(found, metric.unit, sign=True)
    return change, interval, p_text(found), f"{found.cases:,}"


_STYLES = {CaseKind.FAILING: "red", CaseKind.MIXED: "yellow", CaseKind.FIXED: "green"}
_TITLES = {CaseKind.MIXED: "failing in one respect, fixed in another"}


def _spelled_out(
    kind: CaseKind, cases: Sequence[CaseDifference], shown: int, console: Console
) -> Iterator[RenderableType]:
    if not cases:
        return
    yield ""
    yield styled((f"{_TITLES.get(kind, kind.value)}: {len(cases):,}", _STYLES[kind]))
    for case in cases[:shown]:
        yield styled(f"  {shown_line(case.id)}")
        for label, line in what_changed(case):
            yield styled(_hanging(label, line, console.width))
    if len(cases) > shown:
        yield styled((f"  and {len(cases) - shown:,} more: see --cases, --md or --json", "dim"))


_LABEL = 8
"""Columns that the labels of what changed take."""


def _hanging(label: str, line: str, width: int) -> str:
    room = max(20, width - _LABEL - 4)
    lines = textwrap.wrap(line, room, break_on_hyphens=False) or [""]
    if not label:
        return "\n".join(f"    {text}" for text in lines)
    first = f"    {label:<{_LABEL}}{lines[0]}"
    return "\n".join([first, *(f"{'':{_LABEL + 4}}{text}" for text in lines[1:])])


def print_ablation(ablation: Ablation) -> None:
    draw(data_console(), _ablation_blocks(ablation))


def _ablation_blocks(ablation: Ablation) -> Iterator[RenderableType]:
    yield styled(
        (ablation.rag, "bold"),
        " on ",
        (ablation.dataset, "bold"),
        f": {ablation.replayed:,} of {ablation.cases:,} cases replayed, "
        f"{ablation.depth} chunks each",
    )
    for at in range(len(ablation.metrics)):
        yield ""
        yield _drawn(metric_table(ablation, at))
    yield ""
    yield styled((ablation.keep, "bold"))
    for section in (cost_table(ablation), answer_table(ablation)):
        if section.rows:
            yield ""
            yield _drawn(section)
    yield from paragraph("not acted", _idle(ablation))
    yield from paragraph("operators", _operator_remarks(ablation.variants))
    yield from paragraph("lost cases", _lost(ablation))
    yield from paragraph("failed", _failures(ablation.variants))
    yield from paragraph("notes", ablation_notes(ablation))


def _drawn(section: Section) -> Table:
    places = [place for place, name in enumerate(section.columns) if name][1:]
    rows = ((f"  {row[0]}", *(str(row[place]) for place in places)) for row in section.rows)
    return table((section.title, *(section.columns[place] for place in places)), rows)


def _idle(ablation: Ablation) -> Iterator[str]:
    """Why variants left what the first one left."""
    for variant in ablation.variants[1:]:
        if not variant.acted:
            text = f"{variant.name} left the same as {ablation.variants[0].name} in every case."
            yield "".join([text, *(f" Its note: {note}." for note in _notes(variant))])


def _notes(variant: VariantReport) -> Iterable[str]:
    """The notes of its operators, each once."""
    operators = () if variant.operators is None else variant.operators.operators
    return dict.fromkeys(note for one in operators for note, _ in one.notes[:_REMARKS])


def _operator_remarks(variants: Iterable[VariantReport]) -> Iterator[str]:
    """What each variant's operators lost and noted."""
    for variant in variants:
        found = variant.operators
        if found is not None and variant.acted != 0:
            for remark in islice(operator_remarks(found), len(found.losers[:_REMARKS])):
                yield f"{variant.name}: {remark}"
            for note in _notes(variant):
                yield f"{variant.name}: {note}."


def _lost(ablation: Ablation) -> Iterator[str]:
    """By the first metric, the cases that lost most; --json lists all."""
    for variant in ablation.variants[1:]:
        losses = variant.changes[0].losses
        if losses:
            shown = ", ".join(
                f"{loss.case} ({loss.before:.2f} to {loss.after:.2f})" for loss in losses[:3]
            )
            name = ablation.metrics[0].name
            yield f"{variant.name}, {len(losses):,} by {name}: {shown}"


def _failures(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    for variant in variants:
        for text, count in variant.failures[:_KINDS]:
            yield f"{variant.name}, {count:,} times: {' '.join(text.split())[:200]}", "red"
