"""Ablations: JSON, and the document that terminal, Markdown and page draw.

An ablation runs variants of post-retrieval on the stored retrieval of a run, and compares each
with the first one.
"""

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
    """An ablation as the JSON object that ``ragbench ablate --json`` prints.

    Programs read it: a field that changes its meaning needs another ``schema_version``.
    """
    metrics = [metric.name for metric in ablation.metrics]
    return {
        "schema_version": 1,
        **values_of(ablation, "dataset rag cases replayed depth confidence"),
        "counter": {"name": ablation.counter, "is_estimate": ablation.is_estimate},
        "compared_with": ablation.variants[0].name,
        **values_of(ablation, "family keep"),
        # Empty for a run without gold, whose best order is not known.
        "ceiling": dict(zip(metrics, ablation.ceiling, strict=False)),
        "generator": ablation.generator,
        "variants": [_variant_object(variant) for variant in ablation.variants],
        "notes": ablation.notes,
    }


def _variant_object(variant: VariantReport) -> dict[str, Any]:
    """The JSON of one variant of post-retrieval.

    It has figures by metric, costs, and the acts of operators.
    """
    metrics: dict[str, Any] = {}
    for change in variant.changes:
        metrics[change.metric.name] = {
            **values_of(change, "score measured before after difference low high alone"),
            "p": change.p_value,
            "p_corrected": change.p_corrected,
            "significant": change.is_significant,
            **values_of(change, "compared gained lost losses"),
        }
    seconds: dict[str, float] | None = None
    if not variant.reused_scores:  # reused scores come without new times
        seconds = {"p50": variant.seconds_p50, "p95": variant.seconds_p95}
    failures = [{"failure": text, "count": count} for text, count in variant.failures]
    return {
        "name": variant.name,
        "metrics": metrics,
        "chunks": variant.chunks,
        "tokens": {"mean": variant.tokens, "p95": variant.tokens_p95},
        "seconds": seconds,
        **values_of(variant, "reused_scores failed passed_over"),
        "failures": failures,
        **values_of(variant, "acted answers"),
        "post_retrieval": variant.operators,
        "settings": variant.settings,
    }


def _metric_table(ablation: Ablation, position: int) -> Section:
    """The table of one metric: a row per variant, and one for the best order of the same chunks.

    The best order shows how much any reranker could gain.

    Args:
        position: of the metric among those of the ablation.
    """
    changes = [variant.changes[position] for variant in ablation.variants]
    intervals = [(change.difference, change.low, change.high) for change in changes]
    drawings = charts.differences(intervals)
    level = f"{ablation.confidence:.0%} of all"
    columns = ["variant", "score", "difference", "", level, "p", "better", "worse", "n"]
    rows: list[list[object]] = []
    for variant, change, drawing in zip(ablation.variants, changes, drawings, strict=True):
        cells = _effect_cells(change, drawing, acted=variant.acted != 0)
        rows.append([variant.name, *cells])
    ceiling: float | None = None
    if ablation.ceiling:  # empty for a run without gold, whose best order is not known
        ceiling = ablation.ceiling[position]
    if ceiling is not None:
        empty_cells = [""] * (len(columns) - 2)
        rows.append(["best order of the same chunks", f"{ceiling:.3f}", *empty_cells])
    # The first variant's mean over fewer cases is another one than in its own row: then it has a
    # column, so that score and difference add up in each row.
    if any(change.compared < changes[0].measured for change in changes[1:]):
        columns.insert(1, "first")
        for row in rows:
            row.insert(1, "")
        # Not strict: the row of the best order has no change.
        for row, change in zip(rows[1:], changes[1:], strict=False):
            row[1] = number_text(change.before)
    return Section(title=ablation.metrics[position].name, columns=columns, rows=rows)


def _effect_cells(change: VariantEffect, drawing: Markup, *, acted: bool) -> tuple[str, ...]:
    """The cells of a variant in a metric's table, from the score on.

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
    if change.p_corrected is not None and change.p_corrected < 0.001:  # would be printed as 0
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
    """The table of what post-retrieval costs per case.

    These are its time, and the tokens that generation then reads. A variant that reuses scores of
    an earlier one was not timed.
    """
    rows: list[Sequence[object]] = []
    for variant in ablation.variants:
        # The time of the earlier variant whose scores are reused would be a figure of other work.
        times = ("reused", "reused")
        if not variant.reused_scores:
            times = (_time_text(variant.seconds_p50), _time_text(variant.seconds_p95))
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
    hint = f"Tokens counted by {ablation.counter}"
    # Exact counters need the model's own tokenizer.
    if ablation.is_estimate:
        hint += ", an estimate"
    return Section(title="cost per case", columns=columns, rows=rows, hint=f"{hint}.")


def _answer_table(ablation: Ablation) -> Section:
    """The table of how generation answered with each variant, and its cost.

    It is empty where no generation was asked.
    """
    columns = ["variant", "answered", "declined", "failed", "time p50", "time p95"]
    answers = [variant.answers for variant in ablation.variants if variant.answers is not None]
    # One column for all variants, so that a variant without a cost has a dash.
    has_cost = any(answer.cost is not None for answer in answers)
    if has_cost:
        unit = ablation.currency or "cost"
        columns.append(f"{unit} / 1,000")
    rows: list[Sequence[object]] = []
    for variant in ablation.variants:
        answer = variant.answers
        # A variant that generation was not asked about.
        if answer is None:
            continue
        row = [
            variant.name,
            f"{answer.answered:,}",
            f"{answer.declined:,}",
            f"{answer.failed:,}",
            _time_text(answer.seconds_p50),
            _time_text(answer.seconds_p95),
        ]
        if has_cost:
            cost = "-"
            if answer.cost is not None:
                # Of 1,000 answers: that of one has too many zeros to be read.
                cost = f"{answer.cost * 1000:.3g}"
            row.append(cost)
        rows.append(row)
    return Section(title=f"answers of {ablation.generator}", columns=columns, rows=rows)


_MOST_REMARKS = 4
"""Remarks on operators that are shown for each variant."""
_MOST_FAILURES = 3
"""Kinds of failures of each variant."""
_MOST_LOST_CASES = 3
"""Cases that each variant lost most on."""
_LONGEST_FAILURE = 200
"""Letters of a failure's message."""


def _remark_sections(ablation: Ablation) -> Iterator[Section]:
    """The sections below the tables of an ablation: idle variants, operators, lost cases, failures.

    A variant that left every case as it was must not read as one that changes nothing for the
    better.
    """
    # The first variant is what the others are compared with.
    base, *other_variants = ablation.variants
    idle: list[str] = []
    for variant in other_variants:
        if not variant.acted:
            idle.append(f"{variant.name} left the same as {base.name} in every case.")
    yield Section(title="Not acted", lines=idle)

    operators: list[str] = []
    failures: list[str] = []
    for variant in ablation.variants:
        for remark in _operator_remarks(variant):
            operators.append(f"{variant.name}: {remark}")
        for text, count in variant.failures[:_MOST_FAILURES]:
            message = shown_line(text, longest=_LONGEST_FAILURE)
            failures.append(f"{variant.name}, {counted(count, 'time')}: {message}")
    yield Section(title="Operators", lines=operators)
    yield Section(title="Lost cases", lines=list(_lost_case_lines(ablation)))
    yield Section(title="Failed", lines=failures)


def _operator_remarks(variant: VariantReport) -> Iterator[str]:
    """Sentences on a variant's operators: the gold that they lost, then their notes, each once.

    Gold is the content that answers a question: an operator that drops it explains a worse score.
    """
    table = variant.operators
    if table is None:
        return
    if variant.acted != 0:
        # The first remarks are the losses, one for each loser.
        losers = table.losers[:_MOST_REMARKS]
        yield from islice(operator_remarks(table), len(losers))
    notes: dict[str, None] = {}  # a set that keeps the order
    for operator in table.operators:
        for note, _ in operator.notes[:_MOST_REMARKS]:
            notes[note] = None
    for note in notes:
        yield f"{note}."


def _lost_case_lines(ablation: Ablation) -> Iterator[str]:
    """A line per variant with the cases that lost most by the first metric.

    --json lists all cases.
    """
    metric = ablation.metrics[0].name
    for variant in ablation.variants[1:]:
        # Changes are in the order of the metrics, and losses begin with the largest.
        losses = variant.changes[0].losses
        if not losses:
            continue
        cases: list[str] = []
        for loss in losses[:_MOST_LOST_CASES]:
            cases.append(f"{loss.case} ({loss.before:.2f} to {loss.after:.2f})")
        yield f"{variant.name}, {len(losses):,} by {metric}: {', '.join(cases)}"


def _time_text(value: float) -> str:
    """A time of post-retrieval with two places.

    Operators are too quick for `number_text`'s places.
    """
    if value < 1:
        milliseconds = value * 1e3
        return f"{milliseconds:.2f} ms"
    return f"{value:.2f} s"


def ablation_document(ablation: Ablation) -> Document:
    """The document of an ablation.

    It sets variants of post-retrieval side by side, with their gains and costs.
    """
    notes = list(ablation.notes)
    if ablation.family > 1:
        # First among the notes: without it the intervals would be misread.
        notes.insert(
            0,
            f"The intervals of all {ablation.family:,} comparisons hold together with "
            f"{ablation.confidence:.0%}, and p is corrected for all of them: the best of several "
            "variants is not taken for more than it is.",
        )
    metric_tables: list[Section] = []
    for position in range(len(ablation.metrics)):
        metric_tables.append(_metric_table(ablation, position))
    cases = counted(ablation.cases, "case")
    chunks = counted(ablation.depth, "chunk")
    variants = counted(len(ablation.variants), "variant")
    return Document(
        kind="ragbench ablation",
        title=f"{ablation.rag} on {ablation.dataset}",
        headline=(
            f"{ablation.replayed:,} of {cases} replayed, {chunks} each; {variants} of "
            f"post-retrieval, compared with {ablation.variants[0].name}. {ablation.keep}"
        ),
        sections=(
            *metric_tables,
            _cost_table(ablation),
            _answer_table(ablation),
            *_remark_sections(ablation),
        ),
        notes=notes,
    )
