"""The page of a comparison."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from ragbench.core.comparison import ComparedRun, Comparison, MetricComparison
from ragbench.views.comparison import counts_text, family_text, p_text, span_text
from ragbench.views.gate import change_lines, change_title, number_text
from ragbench.views.html import charts
from ragbench.views.html.changes import change_groups, flow_rows
from ragbench.views.html.facts import Page
from ragbench.views.html.page import render

_PAIR = ("pair", "difference", "", "interval", "p", "cases")


def comparison_page(comparison: Comparison) -> Page:
    """Runs side by side: the cases that changed first."""
    first = comparison.runs[0]
    marks = ", ".join(run.mark for run in comparison.runs)
    pairs = [
        f"{pair.second} against {pair.first}: {counts_text(pair)}." for pair in comparison.pairs
    ]
    values = {
        "marks": f"Runs {marks}",
        "dataset": first.dataset,
        "headline": " ".join(pairs),
        "systems": [
            [change_title(pair.first, pair.second).capitalize(), list(change_lines(change))]
            for pair, change in zip(comparison.pairs, comparison.systems, strict=True)
        ],
        "notes": comparison.notes,
        "groups": list(change_groups(comparison.pairs, comparison.changed)),
        "flows": flow_rows(comparison.flows),
        "columns": ["Metric", *(run.mark for run in comparison.runs), *_PAIR],
        "metrics": [row for metric in comparison.metrics for row in _metric_rows(metric)],
        "family": family_text(comparison),
        "runs": list(map(_run, comparison.runs)),
    }
    return Page(
        title=f"Runs {marks} on {first.dataset}",
        body=[render("comparison.html.jinja", values)],
    )


def _run(run: ComparedRun) -> list[str]:
    commit = "–" if run.commit is None else run.commit[:12] + " with changes" * run.dirty
    return [run.mark, run.rag, run.dataset, run.source, commit, f"{run.cases:,}"]


def _metric_rows(metric: MetricComparison) -> Iterator[list[object]]:
    figures = [
        Markup("{}<sup>{}</sup>").format(
            number_text(figure.score, metric.unit), "".join(f" {run}" for run in figure.better_than)
        )
        for figure in metric.figures
    ]
    if not metric.differences:
        why = f" ({metric.untested})" if metric.untested else ""
        yield [f"{metric.name}{why}", *figures, "–", "–", "", "–", "–", "–"]
    drawn = charts.differences(
        [(found.difference, found.low, found.high) for found in metric.differences]
    )
    for at, (found, forest) in enumerate(zip(metric.differences, drawn, strict=True)):
        yield [
            metric.name,
            *(figures if at == 0 else [""] * len(figures)),
            f"{found.second} − {found.first}",
            number_text(found.difference, metric.unit, sign=True),
            forest,
            span_text(found, metric.unit),
            p_text(found) + (" *" if found.is_significant else ""),
            f"{found.cases:,}",
        ]
