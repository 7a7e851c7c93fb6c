"""The page of an ablation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from ragbench.core.ablation import Ablation, VariantReport
from ragbench.core.metric import Direction, Metric
from ragbench.views.ablation import frontier_columns, frontier_rows, frontier_text
from ragbench.views.gate import number_text
from ragbench.views.html import charts
from ragbench.views.html.facts import Page, facts_page, section

__all__ = [
    "ablation_page",
]


def ablation_page(ablation: Ablation) -> Page:
    """Variants of post-retrieval: what each gives, and what it costs."""
    title = f"{ablation.rag} on {ablation.dataset}"
    cost = section(
        "Cost per case",
        ("Variant", "chunks", "tokens", "tokens p95", "time p50", "time p95", "failed"),
        [_cost(variant) for variant in ablation.variants],
        hint=f"Tokens counted by {ablation.counter}{', an estimate' * ablation.is_estimate}.",
    )
    return facts_page(
        kind="ragbench ablation",
        title=title,
        tab=f"Ablation of {title}",
        headline=(
            f"{len(ablation.variants)} variants of post-retrieval on {ablation.replayed:,} of "
            f"{ablation.cases:,} cases, {ablation.depth} chunks each; compared with "
            f"{ablation.variants[0].name}."
        ),
        notes=ablation.notes,
        sections=[
            *(_metric(ablation, at, metric) for at, metric in enumerate(ablation.metrics)),
            cost,
            *_frontier(ablation),
        ],
    )


def _frontier(ablation: Ablation) -> Iterator[dict[str, Any]]:
    """Who is beaten in quality, time and money together."""
    if ablation.frontier is not None:
        columns = ["Variant", *frontier_columns(ablation.frontier)[1:]]
        rows = [list(row) for row in frontier_rows(ablation.frontier)]
        title = f"Frontier of {ablation.frontier.metric.name}"
        yield section(title, columns, rows, hint=" ".join(frontier_text(ablation)))


def _metric(ablation: Ablation, at: int, metric: Metric) -> dict[str, Any]:
    """A metric over all variants, drawn over the tokens that each costs."""
    points = [
        (variant.name, variant.tokens, variant.changes[at].score or 0.0)
        for variant in ablation.variants
        if variant.changes[at].score is not None
    ]
    named = "; ".join(f"{number} {name}" for number, (name, _, _) in enumerate(points, 1))
    best = "lower" if metric.definition.direction is Direction.LOWER else "higher"
    drawn = [
        {
            "drawn": charts.frontier(
                points,
                label=f"{metric.name} by tokens: {named}",
                across="tokens for generation",
                up=metric.name,
            ),
            "caption": f"{named}. To the left is cheaper, {best} is better.",
        }
    ]
    return section(
        metric.name,
        ("Variant", "score", "difference", "", "interval", "better", "worse", "n"),
        [_variant(variant, at) for variant in ablation.variants],
        charts=drawn if len(points) > 1 else (),
    )


def _variant(variant: VariantReport, at: int) -> list[object]:
    change = variant.changes[at]
    drawn, interval = Markup(""), ""
    if change.difference is not None:
        edge = max(abs(v) for v in (change.difference, change.low or 0.0, change.high or 0.0))
        drawn = charts.forest(
            change.difference, change.low, change.high, least=-(edge or 1), most=edge or 1
        )
    if change.low is not None and change.high is not None:
        interval = f"{change.low:+.3f} – {change.high:+.3f}"
    return [
        variant.name,
        number_text(change.score),
        "" if change.difference is None else f"{change.difference:+.3f}",
        drawn,
        interval,
        f"{change.gained:,}",
        f"{change.lost:,}",
        f"{change.measured:,}",
    ]


def _cost(variant: VariantReport) -> list[object]:
    return [
        variant.name,
        f"{variant.chunks:.1f}",
        f"{variant.tokens:,.0f}",
        f"{variant.tokens_p95:,.0f}",
        f"{variant.seconds_p50 * 1e3:.2f} ms",
        f"{variant.seconds_p95 * 1e3:.2f} ms",
        f"{variant.failed:,}",
    ]
