"""Comparisons in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.core.comparison import (
    CaseDifference,
    CaseKind,
    ComparedRun,
    Comparison,
    MetricComparison,
)
from ragbench.safe_text import shown_line
from ragbench.views.comparison import counts_text, family_text, p_text, span_text, what_changed
from ragbench.views.gate import number_text
from ragbench.views.run_words import flow_text
from ragbench.views.system_change import change_lines, change_title
from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, paragraph, print_block, styled

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


_WAYS = 12
"""How many ways from cause to cause are listed."""


_RAISED = str.maketrans("abcdefghijklmnop", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ")
_MISSED = ("cases", "interval", "p")
"""Columns that a narrow terminal goes without, in this order."""


def print_comparison(comparison: Comparison, *, cases: int) -> None:
    """Prints a comparison to stdout: metrics first, then cases, newly failing ones first."""
    console = data_console()
    for block in _comparison_blocks(comparison, console, cases):
        print_block(console, block)


def _comparison_blocks(
    comparison: Comparison, console: Console, cases: int
) -> Iterator[RenderableType]:
    for run in comparison.runs:
        yield styled((f"{run.mark}  ", "bold"), _run(run))
    for pair, change in zip(comparison.pairs, comparison.systems, strict=True):
        lines = ((line, "") for line in change_lines(change))
        yield from paragraph(change_title(pair.first, pair.second), lines)
    yield ""
    yield from _metrics(comparison, console)
    if len(comparison.runs) > 2:
        yield from _differences(comparison)
    for pair in comparison.pairs:
        yield ""
        yield styled((f"{pair.second} against {pair.first}", "bold"), f": {counts_text(pair)}")
        for kind in CaseKind:
            found = [
                case
                for case in comparison.changed
                if case.second == pair.second and case.kind is kind
            ]
            yield from _cases(kind, found, cases, console)
    moved = [flow for flow in comparison.flows if flow.before is not flow.after]
    flows = ((flow_text(flow), "") for flow in moved[:_WAYS])
    yield from paragraph("causes that changed", flows)
    yield from paragraph("notes", ((note, "") for note in _notes(comparison)))


def _run(run: ComparedRun) -> str:
    commit = ""
    if run.commit is not None:
        commit = f", commit {run.commit[:12]}{' with changes' if run.dirty else ''}"
    what = f"{run.rag} on {run.dataset}, {run.cases:,} cases{commit}"
    return shown_line(f"{run.source}  ({what})")


def _metrics(comparison: Comparison, console: Console) -> Iterator[RenderableType]:
    """Columns move together in a narrow terminal; then those go that can best be missed.

    Runs that find no room beside the others follow in a table of their own, with the names of the
    metrics: nothing is cut.
    """
    columns = ["change", "interval", "p", "cases"] if len(comparison.runs) == 2 else []
    raised = _can_show(console, "ᵃ")
    everyone = range(len(comparison.runs))
    table = _table(comparison, everyone, columns, gap=2, raised=raised)
    for missed in ("", *_MISSED):
        if _fits(table, console):
            break
        columns = [column for column in columns if column != missed]
        table = _table(comparison, everyone, columns, gap=1, raised=raised)
    if len(everyone) == 2 or _fits(table, console):
        yield table
        return
    first = 0
    while first < len(everyone):
        last = first + 1
        table = _table(comparison, everyone[first:last], (), gap=2, raised=raised)
        while last < len(everyone):
            wider = _table(comparison, everyone[first : last + 1], (), gap=2, raised=raised)
            if not _fits(wider, console):
                break
            table, last = wider, last + 1
        if first:
            yield ""
        yield table
        first = last


def _fits(table: Table, console: Console) -> bool:
    """Whether nothing is cut; a long name may take several lines of half the width."""
    from rich.measure import Measurement

    table.columns[0].max_width = max(20, console.width // 2)
    wide = console.options.update_width(10_000)
    return Measurement.get(console, wide, table).maximum <= console.width


def _table(
    comparison: Comparison, runs: Sequence[int], columns: Sequence[str], *, gap: int, raised: bool
) -> Table:
    marks = [run.mark for run in comparison.runs]
    change = f"{marks[1]} - {marks[0]}"
    titles = [change if column == "change" else column for column in columns]
    table = bare_table("metric", *(marks[run] for run in runs), *titles, gap=gap)
    scores = _scores(comparison.metrics, raised=raised)
    for group in dict.fromkeys(metric.group for metric in comparison.metrics):
        table.add_row(styled((group, "dim")))
        for metric, figures in zip(comparison.metrics, scores, strict=True):
            if metric.group == group:
                shown = [figures[run] for run in runs]
                cells = [*shown, *(_cell(metric, column) for column in columns)]
                name = shown_line(metric.name)
                table.add_row(styled(f"  {name}"), *(styled(cell) for cell in cells))
    return table


def _scores(metrics: Sequence[MetricComparison], *, raised: bool) -> list[list[str]]:
    """The figures with their marks, padded so that the numbers of a column stand in line."""
    marks = [
        [_marked(figure.better_than, raised=raised) for figure in metric.figures]
        for metric in metrics
    ]
    widths = [max(map(len, column)) for column in zip(*marks, strict=True)] if marks else []
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


def _cell(metric: MetricComparison, column: str) -> str:
    if not metric.differences:
        return "-"
    found = metric.differences[0]
    return {
        "change": number_text(found.difference, metric.unit, sign=True),
        "interval": span_text(found, metric.unit),
        "p": p_text(found),
        "cases": f"{found.cases:,}",
    }[column]


_PAIRS = 30
"""How many differences of more than two runs are listed."""


def _differences(comparison: Comparison) -> Iterator[RenderableType]:
    """Of more than two runs, the differences that are beyond chance."""
    found = [
        (metric, one)
        for metric in comparison.metrics
        for one in metric.differences
        if one.is_significant
    ]
    yield ""
    if not found:
        yield styled(("no difference is beyond chance: --md and --json list them all", "dim"))
        return
    yield styled(("beyond chance", "dim"))
    table = bare_table("  metric", "pair", "change", "p")
    for metric, one in found[:_PAIRS]:
        change = number_text(one.difference, metric.unit, sign=True)
        cells = (f"{one.second} - {one.first}", change, p_text(one))
        table.add_row(styled(f"  {shown_line(metric.name)}"), *(styled(cell) for cell in cells))
    yield table
    if len(found) > _PAIRS:
        yield styled((f"  and {len(found) - _PAIRS:,} more: see --md or --json", "dim"))


_STYLES = {CaseKind.FAILING: "red", CaseKind.MIXED: "yellow", CaseKind.FIXED: "green"}
_TITLES = {CaseKind.MIXED: "failing in one respect, fixed in another"}


def _cases(
    kind: CaseKind, cases: Sequence[CaseDifference], shown: int, console: Console
) -> Iterator[RenderableType]:
    if not cases or not shown:
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


def _notes(comparison: Comparison) -> Iterable[str]:
    yield family_text(comparison)
    if comparison.main:
        names = ", ".join(comparison.main)
        yield (
            f"A case fails when a stage failed, or when {names} lies below "
            f"{comparison.threshold:g} of its scale."
        )
    untested: dict[str, list[str]] = {}
    for metric in comparison.metrics:
        if metric.untested is not None:
            untested.setdefault(metric.untested, []).append(metric.name)
    for reason, metrics in untested.items():
        yield f"{', '.join(metrics)}: not tested, {reason}."
    yield from map(shown_line, comparison.notes)


def _can_show(console: Console, letter: str) -> bool:
    try:
        letter.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
