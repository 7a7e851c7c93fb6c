"""``ragbench tune-search``: how a collection should be searched."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from ragbench.core.record import Record
from ragbench.io.read import read_cases
from ragbench.safe_text import counted
from ragbench.verbs.tune import Tuning, tune
from ragbench.views.document import number_text, range_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option, takes_records
from ragbench_cli.output import draw, show, table
from ragbench_cli.stores import CollectionChoice, SearchChoice, names_strategy, search_settings


class TuneOptions(Record):
    """Which questions a store is searched for, and what counts."""

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
def command(options: TuneOptions, where: CollectionChoice, json: JsonOption = False) -> None:
    """When search is slow: find faster settings that lose little.

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
    # Read before the store is opened: a mistake in the file costs no connection.
    cases = list(read_cases(options.questions))
    choice = SearchChoice(
        store=options.store,
        where=where,
        settings=search_settings(),
        names_strategy=names_strategy(),
    )
    with choice.opened_to_tune() as opened, console.users_code():
        tuning = tune(
            opened,
            cases,
            k=options.top_k,
            measure=options.measure,
            margin=options.margin,
            advance=console.searching(quiet=options.quiet),
        )
    show(tuning, partial(_print_tuning, tuning), json=json)


def _print_tuning(tuning: Tuning) -> None:
    """Prints every setting of the search that was tried, and the one to take.

    The setting in use is marked "now". The best is compared with cheaper ones, which may lose up to
    the margin.
    """
    heading = f"{tuning.measure} over {counted(tuning.questions, 'question')}"
    if tuning.skipped:
        heading += f" ({tuning.skipped:,} more have no gold that can be compared)"
    typer.echo(f"{heading}\n")
    # A setting may have several of the marks.
    marks = (("best", tuning.best), ("now", tuning.present), ("take", tuning.chosen))
    rows: list[list[str]] = []
    for setting in tuning.settings:
        difference = ""
        # The best differs from itself by nothing.
        if setting.name != tuning.best:
            difference = range_text(setting.difference, sign=True)
        # Only an approximate search has an overlap with the exact one.
        overlap = "" if setting.overlap is None else number_text(setting.overlap.mean)
        setting_marks = [mark for mark, name in marks if name == setting.name]
        rows.append(
            [
                setting.name,
                number_text(setting.score.mean),
                range_text(setting.score),
                difference,
                overlap,
                f"{setting.p50_ms:.1f} ms",
                "+".join(setting_marks),
            ]
        )
    columns = ("setting", "score", "95% interval", "from the best", "of exact", "p50", "")
    draw([table(columns, rows)])
    if tuning.chosen == tuning.best:
        why = f"it scores best, and nothing cheaper surely loses less than {tuning.margin:g}"
    else:
        why = f"the cheapest that surely loses less than {tuning.margin:g} against '{tuning.best}'"
    typer.echo(
        f"\nTake '{tuning.chosen}': {why}. It was chosen by these questions: others will score it "
        "a little lower."
    )
