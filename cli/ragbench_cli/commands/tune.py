"""``ragbench tune-search``: how a collection should be searched."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from ragbench.core.record import Record
from ragbench.io.read import read_cases
from ragbench.verbs.tune import Tuning, tune
from ragbench.views.document import number_text, range_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option, takes_records
from ragbench_cli.output import draw, show, table
from ragbench_cli.stores import CollectionChoice, SearchChoice, search_settings


class Asked(Record):
    store: Annotated[str, argument("STORE")]
    """Address of the store, such as qdrant+http://HOST:6333."""
    questions: Annotated[str, option("FILE")]
    """Dataset with questions and their relevant documents, in any format."""
    top_k: Annotated[int, option("-k")] = 10
    """How many chunks count."""
    measure: Annotated[Literal["ndcg", "recall", "mrr"], option("NAME")] = "ndcg"
    """Metric to optimise: ndcg, recall or mrr."""
    margin: float = 0.01
    """How much of the measure a cheaper setting may lose."""
    quiet: Annotated[bool, option("-q")] = False
    """No progress."""


@takes_records
def command(asked: Asked, where: CollectionChoice, json: JsonOption = False) -> None:
    """Find the fastest search settings within a quality margin.

    Every question is searched by words, by vectors (exactly, and with several efforts of an
    approximate index) and by both with several weights. A setting loses nothing when the 95%
    interval of its difference from the best one lies above minus the margin. Nothing is written to
    the store.

    \b
    Examples:
      ragbench tune-search memory:reports/index --questions cases.jsonl
      ragbench tune-search postgresql://localhost/app --collection docs --field text=body \
        --embedder openai:text-embedding-3-small --questions cases.jsonl --measure recall
    """
    cases = list(read_cases(asked.questions))
    choice = SearchChoice(store=asked.store, where=where, settings=search_settings())
    with choice.opened_to_tune() as opened, console.users_code():
        found = tune(
            opened,
            cases,
            k=asked.top_k,
            measure=asked.measure,
            margin=asked.margin,
            advance=console.searching(quiet=asked.quiet),
        )
    # p50_ms alone differs from run to run
    show(found, partial(_print, found), json=json)


def _print(found: Tuning) -> None:
    heading = f"{found.measure} over {found.questions:,} questions"
    if found.skipped:
        heading += f" ({found.skipped:,} more have no gold that can be compared)"
    typer.echo(f"{heading}\n")
    places = (("best", found.best), ("now", found.present), ("take", found.chosen))
    rows = (
        (
            one.name,
            number_text(one.score.mean),
            range_text(one.score),
            "" if one.name == found.best else range_text(one.difference, sign=True),
            "" if one.overlap is None else number_text(one.overlap.mean),
            f"{one.p50_ms:.1f} ms",
            "+".join(word for word, name in places if one.name == name),
        )
        for one in found.settings
    )
    columns = ("setting", "score", "95% interval", "from the best", "of exact", "p50", "")
    draw([table(columns, rows)])
    why = f"the cheapest that surely loses less than {found.margin:g} against '{found.best}'"
    if found.chosen == found.best:
        why = f"it scores best, and nothing cheaper surely loses less than {found.margin:g}"
    typer.echo(
        f"\nTake '{found.chosen}': {why}. It was chosen by these questions: others will score it a "
        "little lower."
    )
