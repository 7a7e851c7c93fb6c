"""The page of an ablation."""

from __future__ import annotations

from typing import Any

from ragbench.core.ablation import Ablation
from ragbench.views.ablation import (
    FactTable,
    ablation_notes,
    answer_table,
    cost_table,
    metric_table,
)
from ragbench.views.html import charts
from ragbench.views.html.page import Page, facts_page, section


def ablation_page(ablation: Ablation) -> Page:
    """Variants of post-retrieval: what each gives, and what it costs."""
    title = f"{ablation.rag} on {ablation.dataset}"
    hint = f"Tokens counted by {ablation.counter}{', an estimate' * ablation.is_estimate}."
    answers = answer_table(ablation)
    return facts_page(
        kind="ragbench ablation",
        title=title,
        tab=f"Ablation of {title}",
        headline=(
            f"{len(ablation.variants)} variants of post-retrieval on {ablation.replayed:,} of "
            f"{ablation.cases:,} cases, {ablation.depth} chunks each; compared with "
            f"{ablation.variants[0].name}. {ablation.keep}"
        ),
        notes=list(ablation_notes(ablation)),
        sections=[
            *(_metric(ablation, at) for at in range(len(ablation.metrics))),
            *([] if answers is None else [_section(answers)]),
            _section(cost_table(ablation), hint),
        ],
    )


def _section(table: FactTable, hint: str = "") -> dict[str, Any]:
    title, *columns = table.columns
    return section(title, ("variant", *columns), table.rows, hint=hint)


def _metric(ablation: Ablation, at: int) -> dict[str, Any]:
    """The table of a metric, with its differences drawn on one scale."""
    table = metric_table(ablation, at)
    changes = [variant.changes[at] for variant in ablation.variants]
    drawn = charts.differences([(one.difference, one.low, one.high) for one in changes])
    title, score, difference, *rest = table.columns
    forests = [*drawn, *[""] * (len(table.rows) - len(drawn))]
    rows = [[*row[:3], forest, *row[3:]] for row, forest in zip(table.rows, forests, strict=True)]
    return section(title, ("variant", score, difference, "", *rest), rows)
