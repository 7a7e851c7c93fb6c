"""Ablations: JSON, and the document that terminal, Markdown and page draw."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from markupsafe import Markup

from ragbench.core.ablation import Ablation, VariantEffect, VariantReport
from ragbench.safe_text import shown_line
from ragbench.views.document import Document, Section, number_text, range_text
from ragbench.views.html import charts
from ragbench.views.report import values_of
from ragbench.views.run_document import operator_remarks


def ablation_object(ablation: Ablation) -> dict[str, Any]:
    metrics = [metric.name for metric in ablation.metrics]
    return {
        "schema_version": 1,
        **values_of(ablation, "dataset rag cases replayed depth confidence"),
        "counter": {"name": ablation.counter, "is_estimate": ablation.is_estimate},
        "compared_with": ablation.variants[0].name,
        **values_of(ablation, "family keep"),
        "ceiling": dict(zip(metrics, ablation.ceiling, strict=False)),
        "generator": ablation.generator,
        "variants": [
            {
                "name": one.name,
                "metrics": {
                    change.metric.name: {
                        **values_of(change, "score measured difference low high alone"),
                        "p": change.p_value,
                        "p_corrected": change.p_corrected,
                        "significant": change.is_significant,
                        **values_of(change, "compared gained lost losses"),
                    }
                    for change in one.changes
                },
                "chunks": one.chunks,
                "tokens": {"mean": one.tokens, "p95": one.tokens_p95},
                "seconds": None  # where a score was known from before
                if one.reused_scores
                else {"p50": one.seconds_p50, "p95": one.seconds_p95},
                **values_of(one, "reused_scores failed passed_over"),
                "failures": [{"failure": text, "count": count} for text, count in one.failures],
                **values_of(one, "acted answers"),
                "post_retrieval": one.operators,
                "settings": one.settings,
            }
            for one in ablation.variants
        ],
        "notes": ablation.notes,
    }


def _metric_table(ablation: Ablation, at: int) -> Section:
    """One metric: a row per variant, and one for the best order of the same chunks."""
    changes = [variant.changes[at] for variant in ablation.variants]
    drawn = charts.differences([(one.difference, one.low, one.high) for one in changes])
    rows = [
        (variant.name, *_effect_cells(variant.changes[at], forest, acted=variant.acted != 0))
        for variant, forest in zip(ablation.variants, drawn, strict=True)
    ]
    ceiling = ablation.ceiling[at] if ablation.ceiling else None
    if ceiling is not None:
        rows.append(("best order of the same chunks", f"{ceiling:.3f}", *[""] * 7))
    level = f"{ablation.confidence:.0%} of all"
    return Section(
        title=ablation.metrics[at].name,
        columns=("variant", "score", "difference", "", level, "p", "better", "worse", "n"),
        rows=rows,
    )


def _effect_cells(change: VariantEffect, forest: Markup, *, acted: bool) -> tuple[str, ...]:
    score, p_value = number_text(change.score), change.p_corrected
    if change.difference is None or not acted:
        is_first = change.difference is None
        count = change.measured if is_first else change.compared
        return (score, "" if is_first else "did not act", forest, *[""] * 4, f"{count:,}")
    return (
        score,
        number_text(change.difference, sign=True),
        forest,
        range_text(change, sign=True),
        "<0.001" if p_value is not None and p_value < 0.001 else number_text(p_value),
        f"{change.gained:,}",
        f"{change.lost:,}",
        f"{change.compared:,}",
    )


def _cost_table(ablation: Ablation) -> Section:
    """What post-retrieval takes and leaves for generation, per case."""
    rows = [
        (
            one.name,
            f"{one.chunks:.1f}",
            f"{one.tokens:,.0f}",
            f"{one.tokens_p95:,.0f}",
            "reused" if one.reused_scores else _seconds(one.seconds_p50),
            "reused" if one.reused_scores else _seconds(one.seconds_p95),
            f"{one.failed:,}",
        )
        for one in ablation.variants
    ]
    columns = ("variant", "chunks", "tokens", "tokens p95", "time p50", "time p95", "failed")
    hint = f"Tokens counted by {ablation.counter}{', an estimate' * ablation.is_estimate}."
    return Section(title="cost per case", columns=columns, rows=rows, hint=hint)


def _answer_table(ablation: Ablation) -> Section:
    """What generation gave and took; empty where nobody was asked."""
    asked = [(one.name, one.answers) for one in ablation.variants if one.answers is not None]
    rows = [
        [
            name,
            *(f"{count:,}" for count in (one.answered, one.declined, one.failed)),
            _seconds(one.seconds_p50),
            _seconds(one.seconds_p95),
        ]
        for name, one in asked
    ]
    columns = ["variant", "answered", "declined", "failed", "time p50", "time p95"]
    if any(one.cost is not None for _, one in asked):
        columns.append(f"{ablation.currency or 'cost'} / 1,000")
        for row, (_, one) in zip(rows, asked, strict=True):
            row.append("-" if one.cost is None else f"{one.cost * 1000:.3g}")
    return Section(title=f"answers of {ablation.generator}", columns=columns, rows=rows)


_REMARKS, _KINDS, _CASES = 4, 3, 3
"""How many remarks on operators, kinds of failure and lost cases are shown for each variant."""


def _remarks(ablation: Ablation) -> Iterator[Section]:
    first, *others = ablation.variants
    idle = [one.name for one in others if not one.acted]
    same = [f"{name} left the same as {first.name} in every case." for name in idle]
    yield Section(title="Not acted", lines=same)
    said = [f"{one.name}: {text}" for one in ablation.variants for text in _said(one)]
    yield Section(title="Operators", lines=said)
    yield Section(title="Lost cases", lines=[*_lost(ablation)])
    failed = [
        f"{one.name}, {count:,} times: {shown_line(text, longest=200)}"
        for one in ablation.variants
        for text, count in one.failures[:_KINDS]
    ]
    yield Section(title="Failed", lines=failed)


def _said(one: VariantReport) -> Iterator[str]:
    """What its operators lost, and what they said."""
    found = one.operators
    if found is not None:
        most = 0 if one.acted == 0 else len(found.losers[:_REMARKS])
        losses = islice(operator_remarks(found), most)
        notes = dict.fromkeys(note for each in found.operators for note, _ in each.notes[:_REMARKS])
        yield from (*losses, *(f"{note}." for note in notes))


def _lost(ablation: Ablation) -> Iterator[str]:
    """By the first metric, the cases that lost most; --json lists all."""
    for variant in ablation.variants[1:]:
        losses = variant.changes[0].losses
        cases = (f"{one.case} ({one.before:.2f} to {one.after:.2f})" for one in losses[:_CASES])
        if losses:
            name = ablation.metrics[0].name
            yield f"{variant.name}, {len(losses):,} by {name}: {', '.join(cases)}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def ablation_document(ablation: Ablation) -> Document:
    """Variants of post-retrieval: what each gives, and what it costs."""
    together = (
        f"The intervals of all {ablation.family:,} comparisons hold together with "
        f"{ablation.confidence:.0%}, and p is corrected for all of them: the best of several "
        "variants is not taken for more than it is."
    )
    return Document(
        kind="ragbench ablation",
        title=f"{ablation.rag} on {ablation.dataset}",
        headline=(
            f"{ablation.replayed:,} of {ablation.cases:,} cases replayed, {ablation.depth} chunks "
            f"each; {len(ablation.variants)} variants of post-retrieval, compared with "
            f"{ablation.variants[0].name}. {ablation.keep}"
        ),
        sections=(
            *(_metric_table(ablation, at) for at in range(len(ablation.metrics))),
            _cost_table(ablation),
            _answer_table(ablation),
            *_remarks(ablation),
        ),
        notes=(*([together] if ablation.family > 1 else ()), *ablation.notes),
    )
