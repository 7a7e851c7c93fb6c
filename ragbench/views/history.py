"""The runs of main as a JSON object, and as lines."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from ragbench.core.history import FittedLimit, History, MainTrend, MetricHistory
from ragbench.core.run_scores import RunScores
from ragbench.safe_text import counted, shown_line
from ragbench.views.report import values_of

_BLOCKS = "▁▂▃▄▅▆▇█"
_DIGITS = "12345678"
"""The levels of a sparkline, in a terminal that has block signs, and in one that has none."""
_LEAST_SPAN = 0.1
"""Share of a metric's scale that a sparkline spans at least: noise is not to look like a cliff."""


def history_object(history: History) -> dict[str, Any]:
    """The runs of main and their metrics as the JSON of ``ragbench history --json``.

    Programs read it: a field that changes its meaning needs another ``schema_version``.
    """
    return {
        "schema_version": 2,
        **values_of(history, "dataset rag followed"),
        "runs": [values_of(run, "date commit dirty aside people") for run in history.runs],
        "breaks": history.breaks,
        "metrics": [_metric_object(metric) for metric in history.metrics],
    }


def _metric_object(metric: MetricHistory) -> dict[str, Any]:
    """One metric over the runs of main as JSON, with the fall that its figures show, if any.

    A run without the metric has null in its list, so that positions stay those of the runs.
    """
    fall = None
    if metric.fall is not None:
        fall = values_of(metric.fall, "start end runs since p_value")
    return {
        "metric": metric.metric,
        "direction": metric.direction.value,
        "scores": list(metric.figures),
        "fall": fall,
    }


def sparkline(
    figures: Sequence[float | None],
    *,
    scale: float | None,
    breaks: Sequence[int] = (),
    width: int = 60,
    plain: bool = False,
) -> str:
    """A metric's figures over runs as a row of bars, the newest to the right, for lines of text.

    It shows a course in the width of a table's cell. A least span keeps noise from looking like a
    cliff.

    Args:
        figures: None for a run without one, which is a gap.
        scale: the size of the metric's range, such as 1 for a share; None where it has no ends.
        breaks: positions of runs that do not compare with those before, each behind a line.
        width: bars that are shown, the newest ones.
        plain: digits from 1 to 8, where a terminal has no block signs.
    """
    numbers = [figure for figure in figures if figure is not None]
    if not numbers:
        return ""
    low = min(numbers)
    high = max(numbers)
    least_span = 0.0
    if scale is not None:
        least_span = _LEAST_SPAN * scale
    span = max(high - low, least_span)
    # The course is in the middle of a span that is wider than it.
    middle = (low + high) / 2.0
    bottom = middle - span / 2.0
    signs = _DIGITS if plain else _BLOCKS
    highest_level = len(signs) - 1
    bars: list[str] = []
    for position, figure in enumerate(figures):
        # The line is before the bar of the first run that no longer compares.
        if position in breaks:
            bars.append("|")
        if figure is None:
            bars.append(" ")
            continue
        share = 0.5  # all figures are the same
        if span:
            share = (figure - bottom) / span
        # The small summand is for a share that rounding left just below a level.
        level = int(share * len(signs) + 1e-9)
        bars.append(signs[min(highest_level, max(0, level))])
    # Cut at the end, as lines of breaks take a place, too.
    return "".join(bars[-width:])


def span_text(dates: Sequence[str | None]) -> str:
    """The days of the first and last run, to be put behind their number; empty without days.

    It is made to follow a count: "12 runs, 2026-01-02 to 2026-03-04".
    """
    days = [date[:10] for date in dates if date]  # the day of an ISO time
    if not days:
        return ""
    if days[0] == days[-1]:
        return f", {days[0]}"
    return f", {days[0]} to {days[-1]}"


def fall_line(metric: str, fall: MainTrend) -> str:
    """A sentence on a metric that fell on main.

    It says from where to where, since when, and how sure that is. Its p-value is one that holds
    "however often one looks": a test for a single look would raise an alarm sooner or later, when
    it is repeated at every merge.
    """
    runs = counted(fall.runs, "run")
    # The first ten letters are the date.
    if fall.since is not None:
        runs += f" since {fall.since[:10]}"
    return (
        f"{metric} went from {fall.start:.3f} to {fall.end:.3f} over {runs} "
        f"(p = {fall.p_value:.2g}, however often one looks)"
    )


def name_of(history: History, position: int) -> str:
    """A run of the history by its commit and day, in words.

    Where neither is known, its number names it.
    """
    run = history.runs[position]
    parts: list[str] = []
    if run.commit:
        parts.append(run.commit[:12])  # enough to find it by
    if run.date:
        parts.append(run.date[:10])
    if not parts:
        return f"run {position + 1}"
    return ", ".join(parts)


def people_lines(history: History) -> Iterator[str]:
    """A line for each figure of a run that labels of people correct, beside the metric's own.

    Where people labelled answers, their figure is the one to trust.
    """
    for position, run in enumerate(history.runs):
        # Labels of a run: the corrected figure, its interval and the number of labels, in this
        # order.
        for metric, (corrected, low, high, labels) in run.people.items():
            label_count = counted(round(labels), "label")
            # A run may have labels of a metric that it has no score of.
            uncorrected = run.scores.get(metric, 0.0)
            yield (
                f"{metric} at {name_of(history, position)}: {corrected:.3f} ({low:.3f} .. "
                f"{high:.3f}), from {label_count}; uncorrected {uncorrected:.3f}"
            )


def remarks(history: History) -> Iterator[str]:
    """The sentences below the table of runs, without which its figures would be misread.

    They say where runs do not compare, where the dataset was edited, which runs were lower, and
    that there are too few of them to show a fall.
    """
    for gap in history.breaks:
        yield f"{name_of(history, gap.at)}: {gap.reason}; runs before it are not compared with it"
    edited: list[str] = []
    lower: list[str] = []
    for position, run in enumerate(history.runs):
        # Runs before the start are behind a break, whose own sentence is above.
        if run.linked and position > history.start:
            edited.append(name_of(history, position))
        if run.aside:
            lower.append(name_of(history, position))
    if edited:
        yield (
            f"the dataset was edited at {'; '.join(edited)}: runs "
            "before are shown at the level of the newest cases, linked by what neighbours share"
        )
    if lower:
        # The first one is named: that is where to look.
        line = f"shown to be lower than the runs before: {lower[0]}"
        if len(lower) > 1:
            line += f", and {len(lower) - 1} later"
        yield line
    # Below that number even a real fall could not be told from chance.
    if history.followed < history.least:
        runs = counted(history.followed, "comparable run is", "comparable runs are")
        yield f"{runs} followed: a fall shows in {history.least} or more"


def limits_yaml(
    limits: Sequence[FittedLimit], runs: Sequence[RunScores], command: Sequence[str], baseline: str
) -> str:
    """The file of limits that ``ragbench baseline`` and ``init`` fit to the noise of runs.

    `ragbench.gate.config.read_gate_config` reads its section ``gate``. Each limit has a comment
    with what it rests on, because people edit the file.

    Args:
        runs: of the unchanged system on the same cases.
        command: that wrote the file, without ``ragbench``.
        baseline: which baseline the gate compares with.
    """
    number = len(runs)
    cases = len(runs[0].cases)
    command_line = shlex.join(["ragbench", *command])
    lines = [
        f"# Written by: {shown_line(command_line)}",
        f"# from {number} runs of the unchanged system on {cases:,} cases. Run it again when the",
        "# dataset has changed. max_drop is the noise of one run against their mean, rounded up;",
        "# a larger drop blocks when it is shown. With more cases or more runs it can be smaller.",
        "gate:",
        f"  baseline: {json.dumps(baseline)}",
        "  metrics:",
    ]
    for limit in limits:
        key = limit.metric
        # A name that YAML could read as anything else is quoted.
        if not re.fullmatch(r"[A-Za-z_][\w@.]*", key):
            key = json.dumps(key, ensure_ascii=False)
        lines.append(f"    # {limit_line(limit)}")
        lines.append(f"    {key}: {{max_drop: {limit.tolerance:g}}}")
    return "\n".join(lines) + "\n"


def limit_line(limit: FittedLimit) -> str:
    """A text on the basis of a fitted limit: its cases, their noise, and the drop that it can show.

    It is the comment above the limit in a YAML file that people edit.
    """
    cases = counted(limit.cases, "case")
    # Equal numbers: each case is a cluster of its own, and clusters say nothing.
    if limit.clusters < limit.cases:
        cases += f" in {counted(limit.clusters, 'cluster')}"
    # Without any noise there is no power to name.
    if limit.noise == 0.0:
        return f"{cases}, all alike in all runs: what changes is not noise"
    power = "too few to show any drop"
    if limit.seen is not None:
        power = f"a true drop of {limit.seen:.3f} is shown in 4 of 5 runs"
    return f"{cases}, noise {limit.noise:.3f}; {power}"
