"""How an ablation looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ragbench_cli.blocks import bare_table, paragraph, print_block, styled
from ragbench_cli.console import data_console

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ragbench.records.ablations import Ablation, Change, VariantReport

__all__ = ["print_ablation"]

_KINDS = 3
"""How many kinds of failure are spelled out for each variant."""


def print_ablation(ablation: Ablation) -> None:
    """Prints an ablation to standard output."""
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
        yield _metric(ablation, at)
    yield ""
    yield _costs(ablation)
    yield from paragraph("failed", _failures(ablation.variants))
    yield from paragraph("notes", ((note, "") for note in ablation.notes))


def _metric(ablation: Ablation, at: int) -> Table:
    table = bare_table(
        ablation.metrics[at].name, "score", "difference", f"{ablation.confidence:.0%} interval",
        "better", "worse", "n",
    )  # fmt: skip
    for variant in ablation.variants:
        table.add_row(*map(styled, _cells(variant.name, variant.changes[at])))
    return table


def _cells(name: str, change: Change) -> tuple[str, ...]:
    score = "-" if change.score is None else f"{change.score:.3f}"
    if change.difference is None:
        return (f"  {name}", score, "", "", "", "", f"{change.measured:,}")
    interval = "-"
    if change.low is not None and change.high is not None:
        interval = f"{change.low:+.3f} .. {change.high:+.3f}"
    return (
        f"  {name}",
        score,
        f"{change.difference:+.3f}",
        interval,
        f"{change.gained:,}",
        f"{change.lost:,}",
        f"{change.compared:,}",
    )


def _costs(ablation: Ablation) -> Table:
    table = bare_table("cost a case", "chunks", "tokens", "tokens p95", "time p50", "time p95")
    for variant in ablation.variants:
        cells = (
            f"  {variant.name}",
            f"{variant.chunks:.1f}",
            f"{variant.tokens:,.0f}",
            f"{variant.tokens_p95:,.0f}",
            _seconds(variant.seconds_p50),
            _seconds(variant.seconds_p95),
        )
        table.add_row(*map(styled, cells))
    return table


def _failures(variants: Iterable[VariantReport]) -> Iterator[tuple[str, str]]:
    for variant in variants:
        for text, count in variant.failures[:_KINDS]:
            yield f"{variant.name}, {count:,} times: {' '.join(text.split())[:200]}", "red"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"
