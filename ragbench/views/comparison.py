"""A comparison of runs in words and numbers, and as a document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from ragbench.core.comparison import ComparedRun, Comparison, Difference, MetricComparison, RunPair
from ragbench.core.gate_result import JudgedRun
from ragbench.core.metric import Direction
from ragbench.core.origin import SystemChange
from ragbench.core.report import Correction
from ragbench.safe_text import as_line, counted, shown_line
from ragbench.views.document import (
    Document,
    Section,
    changes_of,
    flows_section,
    movement_cells,
    number_text,
    paired_cases_text,
    range_text,
)
from ragbench.views.html import charts
from ragbench.views.labels import corrected_section, corrected_text

_MOST_CASES = 20
"""Cases of a kind in Markdown."""
_MOST_METRICS = 4
"""How many metrics of a kind a result names."""
_MOST_CHANGES = 8
"""How many changes of a system are named."""
_LONGEST = 200
"""Letters of a change of a system that are shown."""
_LEAST_P = 0.001
"""Smaller p-values are printed as "<0.001"."""


def kinds_text(pair: RunPair) -> str:
    """The counts of cases that pass in one of two runs and fail in the other.

    Its form is ``3 lost, 5 won of 40``. "both" are cases that fail by one metric newly, and by
    another no longer.
    """
    kinds = [f"{pair.newly_failing:,} lost", f"{pair.newly_fixed:,} won"]
    if pair.mixed:
        kinds.append(f"{pair.mixed:,} both")
    return f"{', '.join(kinds)} of {pair.cases:,}"


def counts_text(pair: RunPair) -> str:
    """The counts of cases that changed between two runs: by result, by retrieved ids, by response.

    A run that holds no ids or no texts has no such count.
    """
    parts = [kinds_text(pair)]
    # None, and not 0, where the run holds no ids or texts.
    if pair.other_ids is not None:
        parts.append(f"{pair.other_ids:,} with other retrieved ids")
    if pair.other_response is not None:
        parts.append(f"{pair.other_response:,} with another response")
    return "; ".join(parts)


def p_text(difference: Difference) -> str:
    """The corrected p-value of a difference of two runs; ``-`` where nothing could be tested.

    Values smaller than the test resolves are shown as "<0.001" or with that resolution.
    """
    if not difference.cases:
        return "-"
    p_value = difference.p_corrected
    # A test by drawing signs resolves no smaller p-value than its draws allow.
    least = max(difference.resolution, _LEAST_P)
    if p_value < least or p_value <= difference.resolution:
        return f"<{least:.3f}"
    return f"{p_value:.3f}"


class DifferenceCells(NamedTuple):
    """The cells of two runs on a metric, over the cases that both measured."""

    first: str
    second: str
    difference: str
    interval: str
    p_value: str
    cases: str


def difference_cells(metric: MetricComparison, difference: Difference) -> DifferenceCells:
    """The cells of a table that show two runs' means on a metric, and how the runs differ.

    Where the runs measured no case in common, the means are each run's own.
    """
    # Each run's own means, so that the table has figures at all.
    before = difference.before
    after = difference.after
    if not difference.cases:
        before = metric.figure_of(difference.first).score
        after = metric.figure_of(difference.second).score
    first, second, change = movement_cells(before, after, metric.unit)
    if not difference.cases:
        change = "-"  # means over different cases have no difference
    cases = paired_cases_text(
        difference.cases,
        difference.cases_only_first,
        difference.cases_only_second,
        (f"in {difference.first}", f"in {difference.second}"),
    )
    return DifferenceCells(
        first=first,
        second=second,
        difference=change,
        interval=range_text(difference, metric.unit, sign=True),
        p_value=p_text(difference),
        cases=cases,
    )


def result_lines(comparison: Comparison) -> Iterator[str]:
    """The sentences with a comparison's result.

    They say where each run is better or worse than the first one. Only differences beyond chance
    are named. Runs without any share a line, which says of how many metrics nothing could be shown.
    """
    first = comparison.runs[0].mark
    # Labels of people decide the differences that they correct.
    corrections: dict[tuple[str, ...], Correction] = {}
    for correction in comparison.corrections:
        # By metric and runs: a metric may be corrected for one pair only.
        corrections[correction.metric, *correction.runs] = correction
    for correction in corrections.values():
        # A correction of a single run is no difference.
        if len(correction.runs) > 1:
            yield corrected_text(correction)

    alike: list[str] = []
    for run in comparison.runs[1:]:
        parts: list[str] = []
        for way, names in _significant_metrics(comparison, run.mark, corrections).items():
            if names:
                parts.append(f"{way} on {as_line(names, _MOST_METRICS)}")
        if parts:
            yield f"{run.mark} against {first}: {'; '.join(parts)}"
        else:
            alike.append(run.mark)
    if alike:
        # Metrics with a difference that could be tested, significant or not.
        tested = sum(bool(metric.differences) for metric in comparison.metrics)
        metrics = counted(tested, "metric")
        yield f"{', '.join(alike)} against {first}: no significant difference in {metrics}"


def _significant_metrics(
    comparison: Comparison, mark: str, corrections: Collection[tuple[str, ...]]
) -> dict[str, list[str]]:
    """The metrics on which a run differs significantly from the first, by worse, better, different.

    Worse ones come first, as they are what a reader must see.

    Args:
        corrections: metric and runs of the differences that labels decide instead.
    """
    pair = (comparison.runs[0].mark, mark)
    # The worse ones are read first.
    names_by_way: dict[str, list[str]] = {"worse": [], "better": [], "different": []}
    for metric in comparison.metrics:
        # Labels of people decide this metric between the two runs, in a line of its own.
        if (metric.name, *pair) in corrections:
            continue
        for difference in metric.differences:
            is_of_pair = (difference.first, difference.second) == pair
            if is_of_pair and difference.is_significant:
                way = _way_of_difference(metric.direction, difference)
                change = difference_cells(metric, difference).difference
                names_by_way[way].append(f"{shown_line(metric.name)} ({change})")
    return names_by_way


def _way_of_difference(direction: Direction, difference: Difference) -> str:
    """The way in which a run differs from the first on a metric: better, worse or different.

    Of a metric such as the length of an answer neither is: its runs are "different".
    """
    if direction is Direction.NEITHER:
        return "different"
    # An unknown difference counts as none.
    is_up = (difference.difference or 0.0) > 0.0
    up_is_better = direction is Direction.HIGHER
    if is_up is up_is_better:
        return "better"
    return "worse"


def family_text(comparison: Comparison) -> str:
    """A sentence on how the p-values, marks and intervals of a comparison's table are to be read.

    The more metrics and runs are tested, the more often one differs by chance: the p-values are
    corrected for that, the intervals are not.
    """
    settings = comparison.settings
    directions = {metric.direction for metric in comparison.metrics if metric.differences}
    or_larger = ""
    # Of a metric without a better side the mark means "larger".
    if Direction.NEITHER in directions:
        or_larger = " (or larger, where neither side is better)"
    tests = settings["family"]
    corrected = ""
    if tests not in (0, 1):  # of a single test there is nothing to correct
        corrected = f", corrected (jointly) for {tests} tests"
    return (
        f"p: two-sided, by flipping signs of clusters{corrected}. ^ names a run "
        f"that this one is better than{or_larger} at level {settings['alpha']:g}. Intervals: "
        f"{settings['confidence']:.0%}, each for itself."
    )


def change_title(before: str, now: str) -> str:
    """The title above `change_lines`, on the screen and in documents.

    One place words it for all, so that the same part has the same title everywhere.
    """
    return f"what changed between {before} and {now}"


def change_lines(change: SystemChange, *, most: int = _MOST_CHANGES) -> Iterator[str]:
    """What differs between the systems of two runs, as the reason of other scores.

    A line for each thing (code, model, prompt, package), or one that says that nothing does, or
    that it is unknown. Where ragbench cannot see into a part, the last line says so: "nothing
    changed" would be more than it knows.

    Args:
        most: changes that are named.
    """
    # Where one run does not say what its system was made of, no other sentence holds.
    if change.unknown:
        yield f"unknown: {shown_line(change.unknown, longest=_LONGEST)}"
        return
    # That the system is ruled out as a reason, ragbench may only claim where it sees into every
    # part.
    if change.is_ruled_out:
        yield (
            "nothing that was imported, read or set: where scores of the same cases differ, it is "
            "noise"
        )
    for sentence in change.changes[:most]:
        yield shown_line(sentence, longest=_LONGEST)
    unnamed = len(change.changes) - most
    if unnamed > 0:
        yield f"and {unnamed:,} more: see --json"
    if change.unseen:
        # One part is named: which it is shows the user what to look at himself.
        part, *further_parts = change.unseen
        line = f"it cannot see into all: {shown_line(part, longest=_LONGEST)}"
        if further_parts:
            line += f" (and {len(further_parts):,} more)"
        if not change.changes:
            line = f"nothing that ragbench can see; {line}"
        yield line


def source_text(run: JudgedRun | ComparedRun) -> str:
    """The place that a run was read from, with the version of the system that made it, if known.

    Documents of gates and comparisons name their runs so.
    """
    if not run.version:
        return run.source
    return f"{run.source} at {run.version}"


def system_section(before: str, now: str, change: SystemChange | None) -> Section:
    """The section on what differs between the systems of two runs; empty where that is not known.

    It is the first reason to look at for other scores.
    """
    lines: list[str] = []
    if change is not None:
        lines += change_lines(change)
    title = change_title(before, now)
    return Section(title=title.capitalize(), lines=lines)


def comparison_document(comparison: Comparison, *, cases: int = _MOST_CASES) -> Document:
    """Runs side by side: their metrics, what changed in the systems, and the cases that changed.

    Markdown and page draw it; the terminal has tables of its own.

    Args:
        cases: how many cases of each kind Markdown shows.
    """
    # The last mark has an "and" of its own in the title.
    marks = [run.mark for run in comparison.runs]
    return Document(
        kind="ragbench comparison",
        title=f"runs {', '.join(marks[:-1])} and {marks[-1]} on {comparison.runs[0].dataset}",
        headline=". ".join(result_lines(comparison)),
        sections=(
            _runs_section(comparison),
            _metrics_section(comparison, marks),
            corrected_section(comparison.corrections),
            *_system_sections(comparison),
            flows_section(comparison.flows),
            _cases_section(comparison, most=cases),
        ),
        notes=(*comparison.notes, *_notes_on_numbers(comparison)),
    )


def _runs_section(comparison: Comparison) -> Section:
    """The table that explains the marks A, B ... of a comparison's runs: system, dataset, place.

    Other tables have room for a letter only.
    """
    rows: list[Sequence[object]] = []
    for run in comparison.runs:
        rows.append((run.mark, run.rag, run.dataset, source_text(run), f"{run.cases:,}"))
    columns = ("run", "system", "dataset", "read from", "cases")
    return Section(title="Runs", columns=columns, rows=rows)


def _metrics_section(comparison: Comparison, marks: Sequence[str]) -> Section:
    """The table of a comparison with the figures of all runs, and the differences between pairs.

    Its hint says how the p-values were corrected.
    """
    rows: list[Sequence[object]] = []
    for metric in comparison.metrics:
        rows.extend(_metric_rows(metric))
    return Section(
        title="Metrics",
        columns=("metric", *marks, "pair", "difference", "", "interval", "p", "cases"),
        rows=rows,
        hint=family_text(comparison),
    )


def _metric_rows(metric: MetricComparison) -> Iterator[Sequence[object]]:
    """The rows of a metric in a comparison.

    There is one for each pair of runs, over the cases that both measured. A metric of which no
    difference can be computed has one row, with each run's own figure.
    """
    # A dash in each column of a pair; the loop below has nothing to do then.
    if not metric.differences:
        scores = [number_text(figure.score, metric.unit) for figure in metric.figures]
        yield (metric.name, *scores, "-", "-", Markup(), "-", "-", "-")
    ends = [(change.difference, change.low, change.high) for change in metric.differences]
    # Drawn together, since they share one axis.
    drawings = charts.differences(ends)
    for difference, drawing in zip(metric.differences, drawings, strict=True):
        cells = difference_cells(metric, difference)
        mark = difference.first
        other_mark = difference.second
        # A column for each run, empty for those that are not of this pair.
        means = {figure.run: "" for figure in metric.figures}
        means[mark] = cells.first
        means[other_mark] = cells.second
        # The mark of the run that is worse is behind the mean of the better one.
        if other_mark in metric.figure_of(mark).better_than:
            means[mark] += f" ^{other_mark}"
        if mark in metric.figure_of(other_mark).better_than:
            means[other_mark] += f" ^{mark}"
        p_value = cells.p_value
        if difference.is_significant:
            p_value += " *"
        yield (
            metric.name,
            *means.values(),
            f"{other_mark} - {mark}",
            cells.difference,
            drawing,
            cells.interval,
            p_value,
            cells.cases,
        )


def _system_sections(comparison: Comparison) -> Iterator[Section]:
    """The sections on what differs in the system of each run from that of the first one.

    A changed prompt, model or package is the likeliest reason of other scores.
    """
    for pair, change in zip(comparison.pairs, comparison.systems, strict=True):
        yield system_section(pair.first, pair.second, change)


def _cases_section(comparison: Comparison, *, most: int) -> Section:
    """The section of a comparison with the cases that changed between each run and the first one.

    A mean may stay the same while many cases changed, so they are counted and shown.

    Args:
        most: cases of each kind that Markdown spells out.
    """
    lines: list[str] = []
    for pair in comparison.pairs:
        lines.append(f"{pair.second} against {pair.first}: {counts_text(pair)}")
    places = {run.mark: run.source for run in comparison.runs}
    changes = changes_of(comparison.pairs, comparison.changed, places)
    return Section(title="Cases", lines=lines, changes=changes, most=most)


def _notes_on_numbers(comparison: Comparison) -> Iterator[str]:
    """The notes on how a comparison's numbers are to be read.

    They name untested metrics, and say when a case fails.
    """
    for metric in comparison.metrics:
        if metric.untested is not None:
            yield f"{metric.name} is not tested: {metric.untested}"
    rule = "A case fails when a stage failed"
    if comparison.main:
        metrics = ", ".join(comparison.main)
        rule += f", or when {metrics} lies in the lower half of its scale"
    yield rule
