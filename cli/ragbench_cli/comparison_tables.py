"""Comparisons and ablations in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
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
from ragbench.views.causes import flow_text
from ragbench.views.comparison import counts_text, family_text, p_text, span_text, what_changed
from ragbench.views.gate import number_text
from ragbench.views.operators import operator_remarks
from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, paragraph, print_block, styled

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from ragbench.core.comparison import Ablation, VariantEffect, VariantReport

__all__ = [
    "print_ablation",
    "print_comparison",
]

_WAYS = 12
"""How many ways from cause to cause are listed."""
_REMARKS = 4
"""How many remarks on operators are shown for each variant."""
_KINDS = 3
"""How many kinds of failure are spelled out for each variant."""


def print_ablation(ablation: Ablation) -> None:
    """Prints an ablation to standard output."""
    console = data_console()
    for block in _ablation_blocks(ablation):
        print_block(console, block)


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
        yield _metric(ablation, at)
    yield ""
    yield styled((ablation.keep, "bold"))
    yield ""
    yield _costs(ablation)
    yield from paragraph("not acted", _idle(ablation))
    yield from paragraph("operators", _operator_remarks(ablation.variants))
    yield from paragraph("lost cases", _lost(ablation))
    yield from paragraph("failed", _failures(ablation.variants))
    notes = (*_family(ablation), *ablation.notes)
    yield from paragraph("notes", ((note, "") for note in notes))


def _metric(ablation: Ablation, at: int) -> Table:
    table = bare_table(
        ablation.metrics[at].name, "score", "difference", f"{ablation.confidence:.0%} of all",
        "p", "better", "worse", "n",
    )  # fmt: skip
    for variant in ablation.variants:
        table.add_row(*map(styled, _cells(variant, variant.changes[at])))
    ceiling = ablation.ceiling[at] if ablation.ceiling else None
    if ceiling is not None:
        table.add_row(styled(("  best order of the same chunks", "dim")), styled(f"{ceiling:.3f}"))
    return table


def _cells(variant: VariantReport, change: VariantEffect) -> tuple[str, ...]:
    name = variant.name
    score = "-" if change.score is None else f"{change.score:.3f}"
    if change.difference is None:
        return (f"  {name}", score, "", "", "", "", "", f"{change.measured:,}")
    if variant.acted == 0:
        return (f"  {name}", score, "did not act", "", "", "", "", f"{change.compared:,}")
    interval = "-"
    if change.low is not None and change.high is not None:
        interval = f"{change.low:+.3f} .. {change.high:+.3f}"
    return (
        f"  {name}",
        score,
        f"{change.difference:+.3f}",
        interval,
        "-" if change.p_corrected is None else f"{change.p_corrected:.3f}",
        f"{change.gained:,}",
        f"{change.lost:,}",
        f"{change.compared:,}",
    )


def _family(ablation: Ablation) -> Iterator[str]:
    if ablation.family > 1:
        yield (
            f"The intervals of all {ablation.family:,} comparisons hold together with "
            f"{ablation.confidence:.0%}, and p is corrected for all of them: the best of several "
            "variants is not taken for more than it is."
        )


def _idle(ablation: Ablation) -> Iterator[tuple[str, str]]:
    """Why variants left what the first one left."""
    for variant in ablation.variants[1:]:
        if variant.acted:
            continue
        text = f"{variant.name} left the same as {ablation.variants[0].name} in every case."
        notes = "".join(f" It said: {note}." for note in _said(variant))
        yield f"{text}{notes}", ""


def _said(variant: VariantReport) -> Iterator[str]:
    """What its operators said, each note once."""
    known: set[str] = set()
    for one in () if variant.operators is None else variant.operators.operators:
        for note, _ in one.notes[:_REMARKS]:
            if note not in known:
                known.add(note)
                yield note


def _operator_remarks(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    """What each variant's operators lost and said."""
    for variant in variants:
        table = variant.operators
        if table is not None and variant.acted != 0:
            for remark in islice(operator_remarks(table), len(table.losers[:_REMARKS])):
                yield f"{variant.name}: {remark}", ""
            for note in _said(variant):
                yield f"{variant.name}: {note}.", ""


def _lost(ablation: Ablation) -> Iterator[tuple[str, str]]:
    """By the first metric, the cases that lost most; --json lists all."""
    for variant in ablation.variants[1:]:
        losses = variant.changes[0].losses
        if losses:
            shown = ", ".join(
                f"{loss.case} ({loss.before:.2f} to {loss.after:.2f})" for loss in losses[:3]
            )
            name = ablation.metrics[0].name
            yield f"{variant.name}, {len(losses):,} by {name}: {shown}", ""


def _costs(ablation: Ablation) -> Table:
    table = bare_table("cost per case", "chunks", "tokens", "tokens p95", "time p50", "time p95")
    for variant in ablation.variants:
        cells = (
            f"  {variant.name}",
            f"{variant.chunks:.1f}",
            f"{variant.tokens:,.0f}",
            f"{variant.tokens_p95:,.0f}",
            *(
                ("reused", "reused")
                if variant.reused_scores
                else (_seconds(variant.seconds_p50), _seconds(variant.seconds_p95))
            ),
        )
        table.add_row(*map(styled, cells))
    return table


def _failures(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    for variant in variants:
        for text, count in variant.failures[:_KINDS]:
            yield f"{variant.name}, {count:,} times: {' '.join(text.split())[:200]}", "red"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


_RAISED = str.maketrans("abcdefghijklmnop", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ")
_MISSED = ("cases", "interval", "p")
"""Columns that a narrow terminal goes without, in this order."""


def print_comparison(comparison: Comparison, *, cases: int) -> None:
    """Prints a comparison to standard output: metrics first, then cases, newly failing ones first.

    Args:
        comparison: what was compared.
        cases: how many cases of a kind are spelled out, for each pair of runs.
    """
    console = data_console()
    for block in _comparison_blocks(comparison, console, cases):
        print_block(console, block)


def _comparison_blocks(
    comparison: Comparison, console: Console, cases: int
) -> Iterator[RenderableType]:
    for run in comparison.runs:
        yield styled((f"{run.mark}  ", "bold"), _run(run))
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
    """The figures of some of the runs, by their place."""
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
