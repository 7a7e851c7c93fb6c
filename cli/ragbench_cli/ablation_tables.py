"""Ablations in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ragbench.views.ablation import (
    ablation_notes,
    answer_table,
    cost_table,
    metric_table,
)
from ragbench.views.document import Section
from ragbench.views.run_words import operator_remarks
from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, paragraph, print_block, styled

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ragbench.core.ablation import Ablation, VariantReport

_REMARKS = 4
"""How many remarks on operators are shown for each variant."""
_KINDS = 3
"""How many kinds of failure are spelled out for each variant."""


def print_ablation(ablation: Ablation) -> None:
    console = data_console()
    for block in _blocks(ablation):
        print_block(console, block)


def _blocks(ablation: Ablation) -> Iterator[RenderableType]:
    yield styled(
        (ablation.rag, "bold"),
        " on ",
        (ablation.dataset, "bold"),
        f": {ablation.replayed:,} of {ablation.cases:,} cases replayed, "
        f"{ablation.depth} chunks each",
    )
    for at in range(len(ablation.metrics)):
        yield ""
        yield _drawn(metric_table(ablation, at))
    yield ""
    yield styled((ablation.keep, "bold"))
    for table in (cost_table(ablation), answer_table(ablation)):
        if table.rows:
            yield ""
            yield _drawn(table)
    yield from paragraph("not acted", _idle(ablation))
    yield from paragraph("operators", _operator_remarks(ablation.variants))
    yield from paragraph("lost cases", _lost(ablation))
    yield from paragraph("failed", _failures(ablation.variants))
    yield from paragraph("notes", ((note, "") for note in ablation_notes(ablation)))


def _drawn(section: Section) -> Table:
    places = [place for place, name in enumerate(section.columns) if name][1:]
    table = bare_table(section.title, *(section.columns[place] for place in places))
    for row in section.rows:
        table.add_row(styled(f"  {row[0]}"), *(styled(str(row[place])) for place in places))
    return table


def _idle(ablation: Ablation) -> Iterator[tuple[str, str]]:
    """Why variants left what the first one left."""
    for variant in ablation.variants[1:]:
        if variant.acted:
            continue
        text = f"{variant.name} left the same as {ablation.variants[0].name} in every case."
        notes = "".join(f" Its note: {note}." for note in _notes(variant))
        yield f"{text}{notes}", ""


def _notes(variant: VariantReport) -> Iterable[str]:
    """The notes of its operators, each once."""
    operators = () if variant.operators is None else variant.operators.operators
    return dict.fromkeys(note for one in operators for note, _ in one.notes[:_REMARKS])


def _operator_remarks(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    """What each variant's operators lost and noted."""
    for variant in variants:
        table = variant.operators
        if table is not None and variant.acted != 0:
            for remark in islice(operator_remarks(table), len(table.losers[:_REMARKS])):
                yield f"{variant.name}: {remark}", ""
            for note in _notes(variant):
                yield f"{variant.name}: {note}.", ""


def _lost(ablation: Ablation) -> Iterator[tuple[str, str]]:
    """By the first metric, the cases that lost most; --json lists all."""
    for variant in ablation.variants[1:]:
        losses = variant.changes[0].losses
        if losses:
            shown = ", ".join(
                f"{loss.case} ({loss.before:.2f} to {loss.after:.2f})" for loss in losses[:3]
            )
            name = ablation.metrics[0].name
            yield f"{variant.name}, {len(losses):,} by {name}: {shown}", ""


def _failures(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    for variant in variants:
        for text, count in variant.failures[:_KINDS]:
            yield f"{variant.name}, {count:,} times: {' '.join(text.split())[:200]}", "red"
