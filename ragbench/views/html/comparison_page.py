"""The page of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ragbench.core.attribution import CauseFlow
from ragbench.core.comparison import (
    CaseDifference,
    CaseKind,
    ComparedRun,
    Comparison,
    MetricComparison,
    RunPair,
)
from ragbench.views.comparison import (
    counts_text,
    family_text,
    flip_text,
    ids_text,
    p_text,
    span_text,
)
from ragbench.views.gate import change_lines, change_title, number_text
from ragbench.views.html import charts
from ragbench.views.html.case import anchor
from ragbench.views.html.chunks import compared_texts
from ragbench.views.html.page import Page, render

_MOST = 500
_WORDS = {
    CaseKind.FAILING: ("Newly failing", "fails"),
    CaseKind.MIXED: ("Failing in one respect, fixed in another", "undecided"),
    CaseKind.FIXED: ("Newly fixed", "passes"),
}
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


def flow_rows(flows: Sequence[CauseFlow]) -> list[list[str]]:
    """From which cause to which, how many cases, of which run, and some of them."""
    return [
        [
            flow.before.label,
            flow.after.label,
            f"{flow.cases:,}",
            flow.second,
            ", ".join(flow.examples),
        ]
        for flow in flows
        if flow.before is not flow.after
    ]


def change_groups(
    pairs: Sequence[RunPair], changed: Sequence[CaseDifference]
) -> Iterator[dict[str, Any]]:
    """The cases by pair of runs and kind, newly failing ones first, with both answers."""
    for pair in pairs:
        for kind, (title, tone) in _WORDS.items():
            cases = [case for case in changed if case.second == pair.second and case.kind is kind]
            if cases:
                more = len(cases) - _MOST
                yield {
                    "title": f"{title}: {len(cases):,} ({pair.second} against {pair.first})",
                    "cases": [_case(case, title, tone) for case in cases[:_MOST]],
                    "more": f"... and {more:,} more" if more > 0 else "",
                }


def _case(case: CaseDifference, word: str, tone: str) -> dict[str, Any]:
    before, after = compared_texts(case.response_before, case.response_after)
    return {
        "id": case.id,
        "anchor": anchor(case.id),
        "kind": tone,
        "word": word,
        "query": case.query or "",
        "flips": [
            f"{'fails' if flip.newly_fails else 'passes'}: {flip_text(flip)}" for flip in case.flips
        ],
        "first": f"Answer in {case.first}",
        "second": f"Answer in {case.second}",
        "before": before,
        "after": after,
        "before_status": _status(case.stages_before),
        "after_status": _status(case.stages_after),
        "ids": ids_text(case.ids),
    }


def _status(stages: Mapping[str, Any]) -> str:
    return str(stages.get("generate", "unknown"))
