"""The page of an ablation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from markupsafe import Markup

from ragbench.core.ablation import Ablation, Frontier, VariantEffect, VariantReport
from ragbench.core.metric import Direction, Metric
from ragbench.views.ablation import (
    frontier_columns,
    frontier_rows,
    frontier_text,
    seconds_text,
)
from ragbench.views.gate import number_text
from ragbench.views.html import charts
from ragbench.views.html.facts import Page, facts_page, section


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
            f"{ablation.variants[0].name}. {ablation.keep}"
        ),
        notes=ablation.notes,
        sections=[
            *([] if ablation.frontier is None else [_frontier(ablation, ablation.frontier)]),
            *(_metric(ablation, at, metric) for at, metric in enumerate(ablation.metrics)),
            cost,
        ],
    )


def _frontier(ablation: Ablation, frontier: Frontier) -> dict[str, Any]:
    """Who is beaten in quality, time and money together: a table, and quality over each price."""
    return section(
        f"Frontier of {frontier.metric.name}",
        ["Variant", *frontier_columns(frontier)[1:]],
        [list(row) for row in frontier_rows(frontier)],
        hint=" ".join(frontier_text(ablation)),
        charts=list(_drawn(frontier)),
    )


_PRICES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("time p50", seconds_text),
    "cost": ("cost of 1,000 cases", lambda value: f"{value * 1000:.3g}"),
    "tokens": ("tokens for generation", lambda value: f"{value:,.0f}"),
}
"""What an axis of a frontier is called, and how its values are written."""


def _drawn(frontier: Frontier) -> Iterator[dict[str, Any]]:
    named = "; ".join(f"{at} {one.variant}" for at, one in enumerate(frontier.points, 1))
    better = "down" if frontier.metric.definition.direction is Direction.LOWER else "up"
    for axis in frontier.axes:
        points = [
            (at, charts.Point(one.variant, price, one.quality, one.beaten_by is not None))
            for at, one in enumerate(frontier.points, 1)
            if one.quality is not None and (price := getattr(one, axis)) is not None
        ]
        if axis == "quality" or len(points) < 2:
            continue
        across, shown = _PRICES[axis]
        yield {
            "drawn": charts.frontier(
                points,
                label=f"{frontier.metric.name} by {across}: {named}",
                across=across,
                up=frontier.metric.name,
                shown=shown,
            ),
            "caption": f"{named}. To the left is cheaper, {better} is better; hollow: another "
            "variant is no worse on any axis.",
        }


def _metric(ablation: Ablation, at: int, metric: Metric) -> dict[str, Any]:
    changes = [variant.changes[at] for variant in ablation.variants]
    drawn = charts.differences([(one.difference, one.low, one.high) for one in changes])
    return section(
        metric.name,
        ("Variant", "score", "difference", "", "interval", "better", "worse", "n"),
        [
            _change(variant.name, change, forest)
            for variant, change, forest in zip(ablation.variants, changes, drawn, strict=True)
        ],
    )


def _change(name: str, change: VariantEffect, forest: Markup) -> list[object]:
    interval = ""
    if change.low is not None and change.high is not None:
        interval = f"{change.low:+.3f} – {change.high:+.3f}"
    return [
        name,
        number_text(change.score),
        "" if change.difference is None else f"{change.difference:+.3f}",
        forest,
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
