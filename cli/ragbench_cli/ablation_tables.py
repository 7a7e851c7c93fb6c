"""Ablations in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ragbench.views.ablation import (
    family_text,
    frontier_columns,
    frontier_rows,
    frontier_text,
    seconds_text,
    variant_cells,
)
from ragbench.views.operators import operator_remarks
from ragbench.views.space_search import (
    CANDIDATE_COLUMNS,
    CHOICE_COLUMNS,
    GAIN_COLUMNS,
    candidate_rows,
    choice_rows,
    gain_rows,
    search_notes,
)
from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, paragraph, print_block, styled

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ragbench.core.ablation import Ablation, Frontier, VariantReport
    from ragbench.core.space_search import SpaceSearch

_REMARKS = 4
"""How many remarks on operators are shown for each variant."""
_KINDS = 3
"""How many kinds of failure are spelled out for each variant."""


def print_ablation(ablation: Ablation) -> None:
    console = data_console()
    for block in _ablation_blocks(ablation):
        print_block(console, block)


def print_search(search: SpaceSearch) -> None:
    """Prints a search over a space to standard output."""
    console = data_console()
    for block in _search_blocks(search):
        print_block(console, block)


def _search_blocks(search: SpaceSearch) -> Iterator[RenderableType]:
    yield styled(
        (search.rag, "bold"),
        " on ",
        (search.dataset, "bold"),
        f": {len(search.candidates):,} candidates, {search.cases:,} cases, by {search.metric.name}",
    )
    yield ""
    yield styled((search.sentence, "bold"))
    yield ""
    yield _rows(GAIN_COLUMNS, gain_rows(search))
    yield ""
    yield _rows(CHOICE_COLUMNS, choice_rows(search))
    yield ""
    # Names are long: they stand behind their numbers, so that the figures have room.
    shown = list(candidate_rows(search))
    numbered = [(str(at), *cells) for at, (_, *cells) in enumerate(shown, 1)]
    yield _rows(("  #", *CANDIDATE_COLUMNS), numbered)
    yield from paragraph(
        "candidates", ((f"{at}  {name}", "") for at, (name, *_) in enumerate(shown, 1))
    )
    yield from paragraph("notes", ((note, "") for note in search_notes(search)))


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = bare_table(*columns)
    for name, *cells in rows:
        table.add_row(styled(f"  {name}"), *map(styled, cells))
    return table


def _ablation_blocks(ablation: Ablation) -> Iterator[RenderableType]:
    yield styled(
        (ablation.rag, "bold"),
        " on ",
        (ablation.dataset, "bold"),
        f": {ablation.replayed:,} of {ablation.cases:,} cases replayed, "
        f"{ablation.depth} chunks each",
    )
    for at in range(len(ablation.metrics)):
        yield ""
        yield _metric(ablation, at)
    yield ""
    yield styled((ablation.keep, "bold"))
    yield ""
    yield _costs(ablation)
    if ablation.generator is not None:
        yield ""
        yield _answers(ablation)
    if ablation.frontier is not None:
        yield ""
        yield _frontier(ablation.frontier)
    yield from paragraph("not acted", _idle(ablation))
    yield from paragraph("operators", _operator_remarks(ablation.variants))
    yield from paragraph("lost cases", _lost(ablation))
    yield from paragraph("failed", _failures(ablation.variants))
    notes = (*family_text(ablation), *frontier_text(ablation), *ablation.notes)
    yield from paragraph("notes", ((note, "") for note in notes))


def _metric(ablation: Ablation, at: int) -> Table:
    table = bare_table(
        ablation.metrics[at].name, "score", "difference", f"{ablation.confidence:.0%} of all",
        "p", "better", "worse", "n",
    )  # fmt: skip
    for variant in ablation.variants:
        name, *cells = variant_cells(variant, at)
        table.add_row(styled(f"  {name}"), *map(styled, cells))
    ceiling = ablation.ceiling[at] if ablation.ceiling else None
    if ceiling is not None:
        table.add_row(styled(("  best order of the same chunks", "dim")), styled(f"{ceiling:.3f}"))
    return table


def _idle(ablation: Ablation) -> Iterator[tuple[str, str]]:
    """Why variants left what the first one left."""
    for variant in ablation.variants[1:]:
        if variant.acted:
            continue
        text = f"{variant.name} left the same as {ablation.variants[0].name} in every case."
        notes = "".join(f" It said: {note}." for note in _said(variant))
        yield f"{text}{notes}", ""


def _said(variant: VariantReport) -> Iterator[str]:
    """What its operators said, each note once."""
    known: set[str] = set()
    for one in () if variant.operators is None else variant.operators.operators:
        for note, _ in one.notes[:_REMARKS]:
            if note not in known:
                known.add(note)
                yield note


def _operator_remarks(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    """What each variant's operators lost and said."""
    for variant in variants:
        table = variant.operators
        if table is not None and variant.acted != 0:
            for remark in islice(operator_remarks(table), len(table.losers[:_REMARKS])):
                yield f"{variant.name}: {remark}", ""
            for note in _said(variant):
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


def _costs(ablation: Ablation) -> Table:
    table = bare_table("cost per case", "chunks", "tokens", "tokens p95", "time p50", "time p95")
    for variant in ablation.variants:
        cells = (
            f"  {variant.name}",
            f"{variant.chunks:.1f}",
            f"{variant.tokens:,.0f}",
            f"{variant.tokens_p95:,.0f}",
            *(
                ("reused", "reused")
                if variant.reused_scores
                else (seconds_text(variant.seconds_p50), seconds_text(variant.seconds_p95))
            ),
        )
        table.add_row(*map(styled, cells))
    return table


def _answers(ablation: Ablation) -> Table:
    """What generation gave, and took."""
    table = bare_table(
        f"answers of {ablation.generator}", "answered", "declined", "failed", "time p50", "time p95"
    )
    for variant in ablation.variants:
        found = variant.answers
        if found is None:
            continue
        counts = [f"{one:,}" for one in (found.answered, found.declined, found.failed)]
        times = (seconds_text(found.seconds_p50), seconds_text(found.seconds_p95))
        table.add_row(*map(styled, (f"  {variant.name}", *counts, *times)))
    return table


def _frontier(frontier: Frontier) -> Table:
    """Who is beaten in quality, time and money together."""
    name, *columns = frontier_columns(frontier)
    table = bare_table(f"frontier: {name}", *columns)
    for name, *cells in frontier_rows(frontier):
        table.add_row(styled(f"  {name}"), *map(styled, cells))
    return table


def _failures(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    for variant in variants:
        for text, count in variant.failures[:_KINDS]:
            yield f"{variant.name}, {count:,} times: {' '.join(text.split())[:200]}", "red"
