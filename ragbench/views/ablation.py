"""Ablations: JSON, and the document that terminal, Markdown and page draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from markupsafe import Markup

from ragbench.core.ablation import Ablation, VariantEffect, VariantReport
from ragbench.safe_text import counted, shown_line
from ragbench.views.document import Document, Section, number_text, range_text
from ragbench.views.html import charts
from ragbench.views.report import values_of
from ragbench.views.run_document import operator_remarks


def ablation_object(ablation: Ablation) -> dict[str, Any]:
    """An ablation as a JSON object."""
    metrics = [metric.name for metric in ablation.metrics]
    return {
        "schema_version": 1,
        **values_of(ablation, "dataset rag cases replayed depth confidence"),
        "counter": {"name": ablation.counter, "is_estimate": ablation.is_estimate},
        "compared_with": ablation.variants[0].name,
        **values_of(ablation, "family keep"),
        # Of a run without gold no best order is known.
        "ceiling": dict(zip(metrics, ablation.ceiling, strict=False)),
        "generator": ablation.generator,
        "variants": [_variant_object(variant) for variant in ablation.variants],
        "notes": ablation.notes,
    }


def _variant_object(variant: VariantReport) -> dict[str, Any]:
    """One variant: its figures by metric, what it costs, and what its operators did."""
    metrics: dict[str, Any] = {}
    for change in variant.changes:
        metrics[change.metric.name] = {
            **values_of(change, "score measured before after difference low high alone"),
            "p": change.p_value,
            "p_corrected": change.p_corrected,
            "significant": change.is_significant,
            **values_of(change, "compared gained lost losses"),
        }
    seconds = None
    if not variant.reused_scores:  # whose times were not measured again
        seconds = {"p50": variant.seconds_p50, "p95": variant.seconds_p95}
    return {
        "name": variant.name,
        "metrics": metrics,
        "chunks": variant.chunks,
        "tokens": {"mean": variant.tokens, "p95": variant.tokens_p95},
        "seconds": seconds,
        **values_of(variant, "reused_scores failed passed_over"),
        "failures": [{"failure": text, "count": count} for text, count in variant.failures],
        **values_of(variant, "acted answers"),
        "post_retrieval": variant.operators,
        "settings": variant.settings,
    }


def _metric_table(ablation: Ablation, position: int) -> Section:
    """One metric: a row per variant, and one for the best order of the same chunks."""
    changes = [variant.changes[position] for variant in ablation.variants]
    drawings = charts.differences(
        [(change.difference, change.low, change.high) for change in changes]
    )
    level = f"{ablation.confidence:.0%} of all"
    columns = ["variant", "score", "difference", "", level, "p", "better", "worse", "n"]
    rows: list[list[object]] = []
    for variant, change, drawing in zip(ablation.variants, changes, drawings, strict=True):
        cells = _effect_cells(change, drawing, acted=variant.acted != 0)
        rows.append([variant.name, *cells])
    ceiling = ablation.ceiling[position] if ablation.ceiling else None
    if ceiling is not None:
        rows.append(["best order of the same chunks", f"{ceiling:.3f}", *[""] * 7])
    # The first variant's mean over fewer cases is another one than in its own row.
    if any(change.compared < changes[0].measured for change in changes[1:]):
        columns.insert(1, "first")
        for row in rows:
            row.insert(1, "")
        for row, change in zip(rows[1:], changes[1:], strict=False):
            row[1] = number_text(change.before)
    return Section(title=ablation.metrics[position].name, columns=columns, rows=rows)


def _effect_cells(change: VariantEffect, drawing: Markup, *, acted: bool) -> tuple[str, ...]:
    """The columns of a metric's table from the score on.

    The score is the mean over the cases that the first variant measured, too: the difference
    beside it is of the same cases.
    """
    if change.compared == 0:  # the first variant, or one that shares no measured case with it
        score = number_text(change.score)
        return (score, "", drawing, "", "", "", "", f"{change.measured:,}")
    score = number_text(change.after)
    compared = f"{change.compared:,}"
    if change.compared < change.measured:
        compared += f" of {change.measured:,}"
    if not acted:
        return (score, "did not act", drawing, "", "", "", "", compared)
    p_value = number_text(change.p_corrected)
    if change.p_corrected is not None and change.p_corrected < 0.001:
        p_value = "<0.001"
    return (
        score,
        number_text(change.difference, sign=True),
        drawing,
        range_text(change, sign=True),
        p_value,
        f"{change.gained:,}",
        f"{change.lost:,}",
        compared,
    )


def _cost_table(ablation: Ablation) -> Section:
    """What post-retrieval takes and leaves for generation, per case."""
    rows: list[Sequence[object]] = []
    for variant in ablation.variants:
        times = ("reused", "reused")
        if not variant.reused_scores:
            times = (_seconds(variant.seconds_p50), _seconds(variant.seconds_p95))
        rows.append(
            (
                variant.name,
                f"{variant.chunks:.1f}",
                f"{variant.tokens:,.0f}",
                f"{variant.tokens_p95:,.0f}",
                *times,
                f"{variant.failed:,}",
            )
        )
    columns = ("variant", "chunks", "tokens", "tokens p95", "time p50", "time p95", "failed")
    estimate = ", an estimate" if ablation.is_estimate else ""
    hint = f"Tokens counted by {ablation.counter}{estimate}."
    return Section(title="cost per case", columns=columns, rows=rows, hint=hint)


def _answer_table(ablation: Ablation) -> Section:
    """What generation gave and took; empty where it was not asked."""
    columns = ["variant", "answered", "declined", "failed", "time p50", "time p95"]
    answers = [variant.answers for variant in ablation.variants if variant.answers is not None]
    has_cost = any(answer.cost is not None for answer in answers)
    if has_cost:
        columns.append(f"{ablation.currency or 'cost'} / 1,000")
    rows: list[Sequence[object]] = []
    for variant in ablation.variants:
        answer = variant.answers
        if answer is None:
            continue
        row = [
            variant.name,
            f"{answer.answered:,}",
            f"{answer.declined:,}",
            f"{answer.failed:,}",
            _seconds(answer.seconds_p50),
            _seconds(answer.seconds_p95),
        ]
        if has_cost:
            row.append("-" if answer.cost is None else f"{answer.cost * 1000:.3g}")
        rows.append(row)
    return Section(title=f"answers of {ablation.generator}", columns=columns, rows=rows)


_MOST_REMARKS = 4
"""Remarks on operators that are shown for each variant."""
_MOST_FAILURES = 3
_MOST_LOST_CASES = 3


def _remarks(ablation: Ablation) -> Iterator[Section]:
    """Variants that did nothing, remarks on operators, lost cases, failures."""
    first, *others = ablation.variants
    idle: list[str] = []
    for variant in others:
        if not variant.acted:
            idle.append(f"{variant.name} left the same as {first.name} in every case.")
    yield Section(title="Not acted", lines=idle)

    operators: list[str] = []
    failures: list[str] = []
    for variant in ablation.variants:
        operators.extend(f"{variant.name}: {remark}" for remark in _operator_remarks(variant))
        for text, count in variant.failures[:_MOST_FAILURES]:
            message = shown_line(text, longest=200)
            failures.append(f"{variant.name}, {counted(count, 'time')}: {message}")
    yield Section(title="Operators", lines=operators)
    yield Section(title="Lost cases", lines=[*_lost_cases(ablation)])
    yield Section(title="Failed", lines=failures)


def _operator_remarks(variant: VariantReport) -> Iterator[str]:
    """What the operators of a variant lost, and what they said."""
    table = variant.operators
    if table is None:
        return
    if variant.acted != 0:
        # The first remarks are the losses, one for each loser.
        yield from islice(operator_remarks(table), len(table.losers[:_MOST_REMARKS]))
    notes: dict[str, None] = {}
    for operator in table.operators:
        for note, _ in operator.notes[:_MOST_REMARKS]:
            notes[note] = None
    for note in notes:
        yield f"{note}."


def _lost_cases(ablation: Ablation) -> Iterator[str]:
    """By the first metric, the cases that lost most; --json lists all."""
    metric = ablation.metrics[0].name
    for variant in ablation.variants[1:]:
        losses = variant.changes[0].losses
        if losses:
            cases: list[str] = []
            for loss in losses[:_MOST_LOST_CASES]:
                cases.append(f"{loss.case} ({loss.before:.2f} to {loss.after:.2f})")
            yield f"{variant.name}, {len(losses):,} by {metric}: {', '.join(cases)}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def ablation_document(ablation: Ablation) -> Document:
    """Variants of post-retrieval: what each gives, and what it costs."""
    notes = list(ablation.notes)
    if ablation.family > 1:
        notes.insert(
            0,
            f"The intervals of all {ablation.family:,} comparisons hold together with "
            f"{ablation.confidence:.0%}, and p is corrected for all of them: the best of several "
            "variants is not taken for more than it is.",
        )
    metric_tables: list[Section] = []
    for position in range(len(ablation.metrics)):
        metric_tables.append(_metric_table(ablation, position))
    replayed = f"{ablation.replayed:,} of {counted(ablation.cases, 'case')} replayed"
    variants = f"{counted(len(ablation.variants), 'variant')} of post-retrieval"
    return Document(
        kind="ragbench ablation",
        title=f"{ablation.rag} on {ablation.dataset}",
        headline=(
            f"{replayed}, {counted(ablation.depth, 'chunk')} each; {variants}, compared with "
            f"{ablation.variants[0].name}. {ablation.keep}"
        ),
        sections=(
            *metric_tables,
            _cost_table(ablation),
            _answer_table(ablation),
            *_remarks(ablation),
        ),
        notes=notes,
    )
