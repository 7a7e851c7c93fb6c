"""Ablations as JSON and Markdown, unstable cases as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ragbench.core.ablation import Ablation, Frontier, FrontierPoint, VariantEffect, VariantReport
from ragbench.core.gate_result import Flakiness
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.operators import operator_object


def ablation_object(ablation: Ablation) -> dict[str, Any]:
    """Everything that an ablation says, as plain values."""
    return {
        "schema_version": 1,
        "dataset": ablation.dataset,
        "rag": ablation.rag,
        "cases": ablation.cases,
        "replayed": ablation.replayed,
        "depth": ablation.depth,
        "confidence": ablation.confidence,
        "counter": {"name": ablation.counter, "is_estimate": ablation.is_estimate},
        "compared_with": ablation.variants[0].name,
        "family": ablation.family,
        "keep": ablation.keep,
        "ceiling": {
            metric.name: score
            for metric, score in zip(ablation.metrics, ablation.ceiling, strict=False)
        },
        "generator": ablation.generator,
        "variants": [_variant(variant) for variant in ablation.variants],
        "frontier": None if ablation.frontier is None else _frontier(ablation.frontier),
        "notes": list(ablation.notes),
    }


def _variant(variant: VariantReport) -> dict[str, Any]:
    return {
        "name": variant.name,
        "metrics": {change.metric.name: _change(change) for change in variant.changes},
        "chunks": variant.chunks,
        "tokens": {"mean": variant.tokens, "p95": variant.tokens_p95},
        "seconds": None
        if variant.reused_scores
        else {"p50": variant.seconds_p50, "p95": variant.seconds_p95},
        "reused_scores": variant.reused_scores,
        "failed": variant.failed,
        "passed_over": variant.passed_over,
        "failures": [{"failure": text, "count": count} for text, count in variant.failures],
        "acted": variant.acted,
        "answers": None if variant.answers is None else asdict(variant.answers),
        "post_retrieval": None if variant.operators is None else operator_object(variant.operators),
        "settings": variant.settings,
    }


def _change(change: VariantEffect) -> dict[str, Any]:
    return {
        "score": change.score,
        "measured": change.measured,
        "difference": change.difference,
        "low": change.low,
        "high": change.high,
        "alone": None if change.alone is None else list(change.alone),
        "p": change.p_value,
        "p_corrected": change.p_corrected,
        "significant": change.is_significant,
        "compared": change.compared,
        "gained": change.gained,
        "lost": change.lost,
        "losses": [
            {"case": loss.case, "before": loss.before, "after": loss.after}
            for loss in change.losses
        ],
    }


def _frontier(frontier: Frontier) -> dict[str, Any]:
    return {
        "metric": frontier.metric.name,
        "axes": list(frontier.axes),
        "currency": frontier.currency,
        "points": [asdict(point) for point in frontier.points],
    }


def family_text(ablation: Ablation) -> Iterator[str]:
    """What the intervals of several comparisons mean together."""
    if ablation.family > 1:
        yield (
            f"The intervals of all {ablation.family:,} comparisons hold together with "
            f"{ablation.confidence:.0%}, and p is corrected for all of them: the best of several "
            "variants is not taken for more than it is."
        )


def frontier_columns(frontier: Frontier) -> list[str]:
    """The heads of a table of the frontier, the metric's name first."""
    money = f"{frontier.currency} / 1,000" if "cost" in frontier.axes else "tokens"
    return [frontier.metric.name, "score", "time p50", money, "on the frontier"]


def frontier_rows(frontier: Frontier) -> Iterator[tuple[str, ...]]:
    """A row a variant: its name, what it gives and takes, and who beats it."""
    for one in frontier.points:
        yield (
            one.variant,
            "-" if one.quality is None else f"{one.quality:.3f}",
            "-" if one.seconds is None else seconds_text(one.seconds),
            _money(one, frontier),
            _standing(one),
        )


def _money(one: FrontierPoint, frontier: Frontier) -> str:
    if "cost" not in frontier.axes:
        return f"{one.tokens:,.0f}"
    return "-" if one.cost is None else f"{one.cost * 1000:.3g}"


def _standing(one: FrontierPoint) -> str:
    if one.quality is None:
        return "not measured"
    return "yes" if one.beaten_by is None else f"no: {one.beaten_by} is no worse"


def frontier_text(ablation: Ablation) -> Iterator[str]:
    frontier = ablation.frontier
    if frontier is None:
        return
    said = {"seconds": "time", "cost": "cost", "tokens": "tokens"}
    named = " and ".join(said[axis] for axis in frontier.axes[1:])
    left_out = ""
    if "seconds" not in frontier.axes:
        left_out = " Time is left out: scores were known from before, so it is not a query's."
    yield (
        f"On the frontier no other variant is at least as good in {frontier.metric.name}, {named}, "
        "and better in one; figures are compared as they are, and times within a tenth of one "
        f"another count as equal.{left_out}"
    )


def seconds_text(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def ablation_markdown(ablation: Ablation) -> str:
    """The ablation for people, as report.md is for a run."""
    return "\n".join(_markdown(ablation)) + "\n"


def _markdown(ablation: Ablation) -> Iterator[str]:
    yield f"# Ablation of {markdown_text(ablation.rag)} on {markdown_text(ablation.dataset)}"
    yield ""
    yield (
        f"{ablation.replayed:,} of {ablation.cases:,} cases replayed, {ablation.depth} chunks "
        f"each; compared with {markdown_text(ablation.variants[0].name)}."
    )
    yield ""
    yield f"**{markdown_text(ablation.keep)}**"
    for at in range(len(ablation.metrics)):
        yield ""
        yield from _metric_markdown(ablation, at)
    if ablation.frontier is not None:
        name, *columns = frontier_columns(ablation.frontier)
        rows = (tuple(map(markdown_text, row)) for row in frontier_rows(ablation.frontier))
        yield ""
        yield "## Frontier"
        yield ""
        yield from markdown_table((markdown_text(name), *columns), rows)
    yield ""
    for note in (*family_text(ablation), *frontier_text(ablation), *ablation.notes):
        yield f"- {markdown_text(note)}"


def _metric_markdown(ablation: Ablation, at: int) -> Iterator[str]:
    yield f"## {markdown_text(ablation.metrics[at].name)}"
    yield ""
    columns = (
        "variant", "score", "difference", f"{ablation.confidence:.0%} of all", "p", "better",
        "worse", "n",
    )  # fmt: skip
    rows = [tuple(map(markdown_text, variant_cells(one, at))) for one in ablation.variants]
    ceiling = ablation.ceiling[at] if ablation.ceiling else None
    if ceiling is not None:
        rows.append(("best order of the same chunks", f"{ceiling:.3f}", *[""] * 6))
    yield from markdown_table(columns, rows)


def variant_cells(variant: VariantReport, at: int) -> tuple[str, ...]:
    """A variant's row of one metric's table, as `ablation_markdown` has it."""
    change = variant.changes[at]
    score = "-" if change.score is None else f"{change.score:.3f}"
    if change.difference is None:
        return (variant.name, score, "", "", "", "", "", f"{change.measured:,}")
    if variant.acted == 0:
        return (variant.name, score, "did not act", "", "", "", "", f"{change.compared:,}")
    interval = "-"
    if change.low is not None and change.high is not None:
        interval = f"{change.low:+.3f} .. {change.high:+.3f}"
    return (
        variant.name,
        score,
        f"{change.difference:+.3f}",
        interval,
        _p_value(change),
        f"{change.gained:,}",
        f"{change.lost:,}",
        f"{change.compared:,}",
    )


def _p_value(change: VariantEffect) -> str:
    if change.p_corrected is None:
        return "-"
    return "<0.001" if change.p_corrected < 0.001 else f"{change.p_corrected:.3f}"


SCHEMA_VERSION = 1


def flakiness_object(flakiness: Flakiness) -> dict[str, Any]:
    """What several runs say of the noise, as a JSON object: the same runs give the same object."""
    found = asdict(flakiness)
    found["fingerprints"] = dict(flakiness.fingerprints)
    return {"schema_version": SCHEMA_VERSION, **found}
