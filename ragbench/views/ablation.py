"""Ablations: JSON, and the document that terminal, Markdown and page draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import msgspec
from markupsafe import Markup

from ragbench.core.ablation import Ablation, VariantAnswers, VariantEffect, VariantReport
from ragbench.views.document import Document, Section
from ragbench.views.html import charts


def ablation_object(ablation: Ablation) -> dict[str, Any]:
    """The whole ablation as plain values."""
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
        "post_retrieval": None
        if variant.operators is None
        else msgspec.to_builtins(variant.operators),
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
        "losses": [asdict(loss) for loss in change.losses],
    }


def metric_table(ablation: Ablation, at: int) -> Section:
    """One metric: a row per variant, and one for the best order of the same chunks."""
    rows = [_metric_row(one, at) for one in ablation.variants]
    ceiling = ablation.ceiling[at] if ablation.ceiling else None
    if ceiling is not None:
        rows.append(("best order of the same chunks", f"{ceiling:.3f}", *[""] * 6))
    level = f"{ablation.confidence:.0%} of all"
    name = ablation.metrics[at].name
    changes = [variant.changes[at] for variant in ablation.variants]
    drawn = charts.differences([(one.difference, one.low, one.high) for one in changes])
    forests = [*drawn, *[Markup()] * (len(rows) - len(drawn))]
    return Section(
        title=name,
        columns=("variant", "score", "difference", "", level, "p", "better", "worse", "n"),
        rows=[(*row[:3], forest, *row[3:]) for row, forest in zip(rows, forests, strict=True)],
    )


def _metric_row(variant: VariantReport, at: int) -> tuple[str, ...]:
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


def cost_table(ablation: Ablation) -> Section:
    """What post-retrieval takes and leaves for generation, per case."""
    rows = [
        (
            one.name,
            f"{one.chunks:.1f}",
            f"{one.tokens:,.0f}",
            f"{one.tokens_p95:,.0f}",
            *(
                ("reused", "reused")
                if one.reused_scores
                else (_seconds(one.seconds_p50), _seconds(one.seconds_p95))
            ),
            f"{one.failed:,}",
        )
        for one in ablation.variants
    ]
    columns = ("variant", "chunks", "tokens", "tokens p95", "time p50", "time p95", "failed")
    hint = f"Tokens counted by {ablation.counter}{', an estimate' * ablation.is_estimate}."
    return Section(title="cost per case", columns=columns, rows=rows, hint=hint)


def answer_table(ablation: Ablation) -> Section:
    """What generation gave and took; empty where nobody was asked."""
    asked = [(one.name, one.answers) for one in ablation.variants if one.answers is not None]
    columns = ["variant", "answered", "declined", "failed", "time p50", "time p95"]
    has_cost = any(answers.cost is not None for _, answers in asked)
    if has_cost:
        columns.append(f"{ablation.currency} / 1,000" if ablation.currency else "cost / 1,000")
    rows = [(name, *_answer_cells(answers, has_cost=has_cost)) for name, answers in asked]
    return Section(title=f"answers of {ablation.generator}", columns=columns, rows=rows)


def _answer_cells(answers: VariantAnswers, *, has_cost: bool) -> Iterator[str]:
    yield from (f"{one:,}" for one in (answers.answered, answers.declined, answers.failed))
    yield _seconds(answers.seconds_p50)
    yield _seconds(answers.seconds_p95)
    if has_cost:
        yield "-" if answers.cost is None else f"{answers.cost * 1000:.3g}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def ablation_notes(ablation: Ablation) -> Iterator[str]:
    """What a reader must know to read the numbers right."""
    if ablation.family > 1:
        yield (
            f"The intervals of all {ablation.family:,} comparisons hold together with "
            f"{ablation.confidence:.0%}, and p is corrected for all of them: the best of several "
            "variants is not taken for more than it is."
        )
    yield from ablation.notes


def ablation_document(ablation: Ablation) -> Document:
    """Variants of post-retrieval: what each gives, and what it costs."""
    return Document(
        kind="ragbench ablation",
        title=f"{ablation.rag} on {ablation.dataset}",
        headline=(
            f"{len(ablation.variants)} variants of post-retrieval on {ablation.replayed:,} of "
            f"{ablation.cases:,} cases, {ablation.depth} chunks each; compared with "
            f"{ablation.variants[0].name}. {ablation.keep}"
        ),
        sections=(
            *(metric_table(ablation, at) for at in range(len(ablation.metrics))),
            answer_table(ablation),
            cost_table(ablation),
        ),
        notes=list(ablation_notes(ablation)),
    )
