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
_LEAST_SPAN = 0.1
"""Share of a metric's scale that a sparkline spans at least: noise is not to look like a cliff."""


def history_object(history: History) -> dict[str, Any]:
    """The runs of main and their metrics as a JSON object."""
    return {
        "schema_version": 2,
        **values_of(history, "dataset rag followed"),
        "runs": [values_of(run, "date commit dirty aside people") for run in history.runs],
        "breaks": history.breaks,
        "metrics": [_metric_object(metric) for metric in history.metrics],
    }


def _metric_object(metric: MetricHistory) -> dict[str, Any]:
    """One metric over the runs, and the fall that its figures show."""
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
    """The figures as a row of bars, newest to the right.

    Args:
        plain: digits from 1 to 8, where a terminal has no block signs.
    """
    numbers = [figure for figure in figures if figure is not None]
    if not numbers:
        return ""
    low = min(numbers)
    high = max(numbers)
    span = max(high - low, _LEAST_SPAN * (scale or 0.0))
    bottom = (low + high) / 2.0 - span / 2.0
    signs = _DIGITS if plain else _BLOCKS
    bars: list[str] = []
    for position, figure in enumerate(figures):
        if position in breaks:
            bars.append("|")
        if figure is None:
            bars.append(" ")
            continue
        share = (figure - bottom) / span if span else 0.5
        level = int(share * 8.0 + 1e-9)  # a share that rounding left just below
        bars.append(signs[min(7, max(0, level))])
    return "".join(bars[-width:])


def span_text(dates: Sequence[str | None]) -> str:
    """From which day to which; empty where none is known."""
    days = [date[:10] for date in dates if date]
    if not days:
        return ""
    if days[0] == days[-1]:
        return f", {days[0]}"
    return f", {days[0]} to {days[-1]}"


def fall_line(metric: str, fall: MainTrend) -> str:
    day = "" if fall.since is None else f" since {fall.since[:10]}"
    runs = counted(fall.runs, "run")
    return (
        f"{metric} went from {fall.start:.3f} to {fall.end:.3f} over {runs}{day} "
        f"(p = {fall.p_value:.2g}, however often one looks)"
    )


def name_of(history: History, position: int) -> str:
    """A run, by its commit and its day."""
    run = history.runs[position]
    parts: list[str] = []
    if run.commit:
        parts.append(run.commit[:12])
    if run.date:
        parts.append(run.date[:10])
    return ", ".join(parts) or f"run {position + 1}"


def people_lines(history: History) -> Iterator[str]:
    """What labels of people made of a run's figures, beside its own."""
    for position, run in enumerate(history.runs):
        for metric, (corrected, low, high, labels) in run.people.items():
            judged = run.scores.get(metric, 0.0)
            yield (
                f"{metric} at {name_of(history, position)}: {corrected:.3f} ({low:.3f} .. "
                f"{high:.3f}), from {counted(round(labels), 'label')}; uncorrected {judged:.3f}"
            )


def remarks(history: History) -> Iterator[str]:
    """What a reader must know to read the table right."""
    for gap in history.breaks:
        yield f"{name_of(history, gap.at)}: {gap.reason}; runs before it are not compared with it"
    edited: list[str] = []
    lower: list[str] = []
    for position, run in enumerate(history.runs):
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
        later = f", and {len(lower) - 1} later" if len(lower) > 1 else ""
        yield f"shown to be lower than the runs before: {lower[0]}{later}"
    if history.followed < history.least:
        runs = counted(history.followed, "comparable run is", "comparable runs are")
        yield f"{runs} followed: a fall shows in {history.least} or more"


def limits_yaml(
    limits: Sequence[FittedLimit], runs: Sequence[RunScores], command: Sequence[str], baseline: str
) -> str:
    """A section ``gate`` that `ragbench.gate.config.read_gate_config` reads."""
    number = len(runs)
    cases = len(runs[0].cases)
    lines = [
        f"# Written by: {shown_line(shlex.join(['ragbench', *command]))}",
        f"# from {number} runs of the unchanged system on {cases:,} cases. Run it again when the",
        "# dataset has changed. max_drop is the noise of one run against their mean, rounded up;",
        "# a larger drop blocks when it is shown. With more cases or more runs it can be smaller.",
        "gate:",
        f"  baseline: {json.dumps(baseline)}",
        "  metrics:",
    ]
    for limit in limits:
        key = limit.metric
        if not re.fullmatch(r"[A-Za-z_][\w@.]*", key):
            key = json.dumps(key, ensure_ascii=False)
        lines.append(f"    # {limit_line(limit)}")
        lines.append(f"    {key}: {{max_drop: {limit.tolerance:g}}}")
    return "\n".join(lines) + "\n"


def limit_line(limit: FittedLimit) -> str:
    """What a fitted limit rests on: cases, noise, and the drop that it can show."""
    cases = counted(limit.cases, "case")
    if limit.clusters < limit.cases:
        cases += f" in {counted(limit.clusters, 'cluster')}"
    if limit.noise == 0.0:
        return f"{cases}, all alike in all runs: what changes is not noise"
    power = "too few to show any drop"
    if limit.seen is not None:
        power = f"a true drop of {limit.seen:.3f} is shown in 4 of 5 runs"
    return f"{cases}, noise {limit.noise:.3f}; {power}"
