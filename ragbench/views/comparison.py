"""A comparison of runs in words and numbers, and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ragbench.core.comparison import ComparedRun, Comparison, Difference, MetricComparison, RunPair
from ragbench.core.gate_result import JudgedRun
from ragbench.core.metric import Direction
from ragbench.core.origin import SystemChange
from ragbench.safe_text import as_line, counted, shown_line
from ragbench.views.document import (
    Document,
    Section,
    changes_of,
    flows_section,
    number_text,
    range_text,
)
from ragbench.views.html import charts
from ragbench.views.labels import corrected_section, corrected_text

_COMPARED = 20
"""Cases of a kind in Markdown."""


def kinds_text(pair: RunPair) -> str:
    """How many cases pass in one of the runs and fail in the other."""
    kinds = [f"{pair.newly_failing:,} lost", f"{pair.newly_fixed:,} won"]
    if pair.mixed:
        kinds.append(f"{pair.mixed:,} both")
    return f"{', '.join(kinds)} of {pair.cases:,}"


def counts_text(pair: RunPair) -> str:
    parts = [kinds_text(pair)]
    if pair.other_ids is not None:
        parts.append(f"{pair.other_ids:,} with other retrieved ids")
    if pair.other_response is not None:
        parts.append(f"{pair.other_response:,} with another response")
    return "; ".join(parts)


def p_text(found: Difference) -> str:
    """The corrected p-value; ``-`` where nothing could be tested."""
    if not found.cases:
        return "-"
    p_value = found.p_corrected
    least = max(found.resolution, 0.001)
    return f"<{least:.3f}" if p_value < least or p_value <= found.resolution else f"{p_value:.3f}"


def difference_cells(found: Difference | None, unit: str) -> tuple[str, str, str, str]:
    """The difference, its interval, its p-value, and the cases that it is of."""
    if found is None:
        return "-", "-", "-", "-"
    change = number_text(found.difference, unit, sign=True)
    return change, range_text(found, unit, sign=True), p_text(found), f"{found.cases:,}"


_NAMED = 4
"""How many metrics of a kind a result names."""


def result_lines(comparison: Comparison) -> Iterator[str]:
    """What is beyond chance of each run against the first one."""
    first = comparison.runs[0].mark
    decided = {(one.metric, *one.runs): one for one in comparison.corrections}
    yield from (corrected_text(one) for one in decided.values() if len(one.runs) > 1)
    alike: list[str] = []
    for run in comparison.runs[1:]:
        ways: dict[str, list[str]] = {"worse": [], "better": [], "different": []}
        for metric in comparison.metrics:
            for one in metric.differences:
                pair = (one.first, one.second)
                if pair != (first, run.mark) or (metric.name, *pair) in decided:
                    continue  # or people decide it
                if one.is_significant:
                    change = number_text(one.difference, metric.unit, sign=True)
                    name = f"{shown_line(metric.name)} ({change})"
                    is_up = (one.difference or 0.0) > 0.0
                    way = "better" if is_up is (metric.direction is Direction.HIGHER) else "worse"
                    ways["different" if metric.direction is Direction.NEITHER else way].append(name)
        found = [f"{way} on {as_line(names, _NAMED)}" for way, names in ways.items() if names]
        if found:
            yield f"{run.mark} against {first}: {'; '.join(found)}"
        else:
            alike.append(run.mark)
    if alike:
        tested = sum(bool(metric.differences) for metric in comparison.metrics)
        metrics = counted(tested, "metric")
        yield f"{', '.join(alike)} against {first}: no significant difference in {metrics}"


def family_text(comparison: Comparison) -> str:
    """How the p-values and the marks are to be read."""
    settings = comparison.settings
    sides = {metric.direction for metric in comparison.metrics if metric.differences}
    or_larger = " (or larger, where neither side is better)" if Direction.NEITHER in sides else ""
    tests = settings["family"]
    corrected = f", corrected (jointly) for {tests} tests" if tests not in (0, 1) else ""
    return (
        f"p: two-sided, by flipping signs of clusters{corrected}. ^ names a run "
        f"that this one is better than{or_larger} at level {settings['alpha']:g}. Intervals: "
        f"{settings['confidence']:.0%}, each for itself."
    )


_CHANGES = 8
"""How many changes of a system are named."""
_LONGEST = 200


def change_title(before: str, now: str) -> str:
    return f"what changed between {before} and {now}"


def change_lines(change: SystemChange, *, most: int = _CHANGES) -> Iterator[str]:
    """A line for each thing that differs, or one that says that nothing does, or is unknown."""
    if change.unknown:
        yield f"unknown: {shown_line(change.unknown, longest=_LONGEST)}"
        return
    if change.is_ruled_out:
        yield (
            "nothing that was imported, read or set: where scores of the same cases differ, it is "
            "noise"
        )
    for sentence in change.changes[:most]:
        yield shown_line(sentence, longest=_LONGEST)
    if len(change.changes) > most:
        yield f"and {len(change.changes) - most:,} more: see --json"
    if change.unseen:
        first, *others = change.unseen
        more = f" (and {len(others):,} more)" if others else ""
        begin = "" if change.changes else "nothing that ragbench can see; "
        yield f"{begin}it cannot see into all: {shown_line(first, longest=_LONGEST)}{more}"


def source_text(run: JudgedRun | ComparedRun) -> str:
    return f"{run.source}{f' at {run.version}' if run.version else ''}"


def system_section(before: str, now: str, change: SystemChange | None) -> Section:
    lines = [] if change is None else list(change_lines(change))
    return Section(title=change_title(before, now).capitalize(), lines=lines)


def comparison_document(comparison: Comparison, *, cases: int = _COMPARED) -> Document:
    """Runs side by side.

    Args:
        cases: how many cases of each kind Markdown shows.
    """
    marks = [run.mark for run in comparison.runs]
    pairs, places = comparison.pairs, {run.mark: run.source for run in comparison.runs}
    return Document(
        kind="ragbench comparison",
        title=f"runs {', '.join(marks[:-1])} and {marks[-1]} on {comparison.runs[0].dataset}",
        headline=". ".join(result_lines(comparison)),
        sections=(
            Section(
                title="Runs",
                columns=("run", "system", "dataset", "read from", "cases"),
                rows=[
                    (run.mark, run.rag, run.dataset, source_text(run), f"{run.cases:,}")
                    for run in comparison.runs
                ],
            ),
            Section(
                title="Metrics",
                columns=("metric", *marks, "pair", "difference", "", "interval", "p", "cases"),
                rows=[row for metric in comparison.metrics for row in _metric_rows(metric)],
                hint=family_text(comparison),
            ),
            corrected_section(comparison.corrections),
            *(
                system_section(pair.first, pair.second, change)
                for pair, change in zip(pairs, comparison.systems, strict=True)
            ),
            flows_section(comparison.flows),
            Section(
                title="Cases",
                lines=[f"{one.second} against {one.first}: {counts_text(one)}" for one in pairs],
                changes=changes_of(pairs, comparison.changed, places),
                most=cases,
            ),
        ),
        notes=(*comparison.notes, *_readings(comparison)),
    )


def _metric_rows(metric: MetricComparison) -> Iterator[Sequence[object]]:
    figures = [
        " ".join((number_text(figure.score, metric.unit), *(f"^{r}" for r in figure.better_than)))
        for figure in metric.figures
    ]
    if not metric.differences:
        yield (metric.name, *figures, "-", "-", Markup(), "-", "-", "-")
    drawn = charts.differences([(one.difference, one.low, one.high) for one in metric.differences])
    for at, (found, forest) in enumerate(zip(metric.differences, drawn, strict=True)):
        change, ends, p_value, cases = difference_cells(found, metric.unit)
        shown = [metric.name, *(figures if at == 0 else [""] * len(figures))]
        p_value += " *" * found.is_significant
        yield (*shown, f"{found.second} - {found.first}", change, forest, ends, p_value, cases)


def _readings(comparison: Comparison) -> Iterator[str]:
    """How the numbers are to be read."""
    for metric in comparison.metrics:
        if metric.untested is not None:
            yield f"{metric.name} is not tested: {metric.untested}"
    main = ", ".join(comparison.main)
    lies = f", or when {main} lies in the lower half of its scale" if main else ""
    yield f"A case fails when a stage failed{lies}"
