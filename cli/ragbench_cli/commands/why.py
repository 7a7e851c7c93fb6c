"""``ragbench why``: what keeps the gold out of the context, over a live store."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragbench.core.case import Case
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.read import read_cases
from ragbench.masking import mask_text
from ragbench.post.build import load_post_retrieval
from ragbench.safe_text import listed, shown_line
from ragbench.verbs.why import Change, Reasons, why
from ragbench.views.document import range_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option, takes_records
from ragbench_cli.output import draw, paragraph, show, styled, table
from ragbench_cli.stores import CollectionChoice, SearchChoice, search_settings


class Asked(Record):
    store: Annotated[str, argument("STORE")]
    """Address of the store, such as qdrant+http://HOST:6333."""
    question: Annotated[str | None, argument("[QUESTION]")] = None
    """One question; needs --gold."""
    gold: Annotated[list[str] | None, option("ID")] = None
    """Id of a chunk or document that the question should find; repeatable."""
    run: Annotated[str | None, option("RUN")] = None
    """A run, or a dataset, whose questions are asked."""
    case: Annotated[str | None, option("CASE")] = None
    """One case of --run, by its id."""
    strategy: Annotated[Literal["dense", "sparse", "hybrid"] | None, option("NAME")] = None
    """How it is searched now: dense, sparse or hybrid. By default RETRIEVAL_STRATEGY, or hybrid."""
    top_k: Annotated[int | None, option("-k")] = None
    """How many chunks are retrieved. By default DEFAULT_TOP_K, or 4."""
    score_threshold: Annotated[float | None, option("SCORE")] = None
    """Chunks that score less are left out. By default DEFAULT_SCORE_THRESHOLD, or none."""
    post_retrieval: Annotated[Path | None, option("FILE")] = None
    """The operators between retrieval and generation, a YAML file."""
    quiet: Annotated[bool, option("-q")] = False
    """No progress."""


@takes_records
def command(asked: Asked, where: CollectionChoice, json: JsonOption = False) -> None:
    """Show why a live store does not find the gold.

    For one question: where the gold is by words, by vectors, exactly, without threshold and filter,
    and after each operator; and the changes that bring it into the context, the cheapest first. For
    a run: every change with its gain in recall and an interval, and the best of them together.
    Changes that need another index (chunk size, a static embedder, BM25) are estimated on the
    store's own texts. Nothing is written to the store.

    \b
    Examples:
      ragbench why memory:reports/index "When is rent due?" --gold lease.md
      ragbench why memory:reports/index --run reports/nightly --case rent-due
      ragbench why memory:reports/index --run reports/nightly -k 5
    """
    cases = _cases(asked)
    settings = search_settings(asked)
    stage = None if asked.post_retrieval is None else load_post_retrieval(asked.post_retrieval)
    choice = SearchChoice(
        store=asked.store, where=where, settings=settings, strategy=asked.strategy,
        score_threshold=asked.score_threshold,
    )  # fmt: skip
    with choice.opened_to_tune() as opened, console.users_code():
        found = why(
            opened,
            cases,
            k=settings.top_k,
            post_retrieval=stage,
            command=_command(asked.store, where),
            advance=console.searching(quiet=asked.quiet or len(cases) == 1),
        )
    of_one = partial(_print_question, found, cases[0])
    show(found, partial(_print_run, found) if found.golds is None else of_one, json=json)


def _command(store: str, where: CollectionChoice) -> str:
    """How the collection is searched, without a password."""
    given = [("--collection", where.collection), ("--embedder", where.embedder)]
    given += [("--embedder-setting", one) for one in where.embedder_setting or ()]
    given += [("--field", one) for one in where.map or ()]
    named = [f" {name} {shlex.quote(value)}" for name, value in given if value is not None]
    return f"ragbench search --store {shlex.quote(mask_text(store))}{''.join(named)}"


def _cases(asked: Asked) -> list[Case]:
    if (asked.question is None) == (asked.run is None):
        raise ConfigError("give a question with --gold ID, or --run RUN")
    if asked.question is not None:
        if not asked.gold or asked.case is not None:
            raise ConfigError("name with --gold ID the chunk or document that it should find")
        return [Case(id="question", query=asked.question, reference_context_ids=(*asked.gold,))]
    if asked.gold:
        raise ConfigError("--gold goes with a question; the cases of --run have their own")
    cases = list(read_cases(asked.run or ""))
    if asked.case is None:
        return cases
    chosen = [one for one in cases if one.id == asked.case]
    if not chosen:
        known = listed([one.id for one in cases])
        raise ConfigError(f"{asked.run} has no case '{asked.case}'. There are: {known}")
    return chosen


def _print_question(found: Reasons, case: Case) -> None:
    assert found.golds is not None
    draw([styled((shown_line(case.query, longest=160), "bold"))])
    fates = found.golds.golds
    for fate in fates:
        rank = "" if fate.rank is None else f", rank {fate.rank}"
        draw([styled(f"{shown_line(fate.gold, longest=80)}: {fate.cause.replace('_', ' ')}{rank}")])
    names = [shown_line(fate.gold, longest=24) for fate in fates]
    rows = [
        [one.way, *(f"not in {one.looked_at}" if rank is None else str(rank) for rank in one.ranks)]
        for one in found.ranks
    ]
    draw(["", table(("rank of the gold", *names), rows)])
    if not found.lost:
        typer.echo(f"\nThe context ({found.k} chunks) has it.")
        return
    lines = [line for change in _best_of_each(found.changes) for line in _change(change)]
    none = ["nothing that was tried: it is not in the store, or cut, or worded otherwise"]
    draw(paragraph("brings it into the context, the cheapest first", lines or none))
    _print_notes(found)


def _change(change: Change) -> Iterator[str]:
    yield f"{change.name}{' (estimated)' if change.is_estimate else ''}"
    yield f"  {change.how}"


def _print_run(found: Reasons) -> None:
    skipped = f" ({found.skipped:,} more have no gold)" if found.skipped else ""
    typer.echo(
        f"recall@{found.k} {found.recall.mean or 0.0:.3f} over {found.questions:,} questions"
        f"{skipped}, searched by {found.now}"
    )
    lost = sorted(found.lost.items(), key=lambda one: -one[1])
    draw(
        paragraph("questions that lack gold", (f"{n:,} {one.replace('_', ' ')}" for one, n in lost))
    )
    rows = [
        (
            change.name,
            f"{change.mean:+.3f}",
            range_text(change.gain, sign=True),
            ", ".join(["sure"] * change.is_sure + ["estimated"] * change.is_estimate),
        )
        for change in _best_of_each(found.changes)
    ]
    typer.echo()
    if not rows:
        typer.echo("Nothing that was tried finds more.")
        return
    draw([table((f"change of recall@{found.k}", "gain", "interval", ""), rows)])
    if found.together is not None:
        names = "; ".join(found.together.changes)
        number, gain = len(found.together.changes), found.together.gain
        gained = f"{gain.mean or 0.0:+.3f} ({range_text(gain, sign=True)})"
        typer.echo(
            f"\n{number} of them together: {gained}: {names}. They were chosen by these questions: "
            "others will gain a little less."
        )
    best = [one for one in found.changes if one.mean > 0][:3]
    draw(paragraph("how", (line for one in best for line in _change(one))))
    _print_notes(found)


def _best_of_each(changes: Sequence[Change]) -> Iterator[Change]:
    """Of the weights and efforts of one strategy the first alone; --json has all."""
    seen: set[str] = set()
    for change in changes:
        searched = change.name.startswith("search by ")
        kind = " ".join(change.name.split()[:3]) if searched else change.name
        if kind not in seen:
            seen.add(kind)
            yield change


def _print_notes(found: Reasons) -> None:
    if any(change.is_estimate for change in found.changes):
        console.say(
            "estimated: tried on the store's own texts, in memory; nothing was indexed anew"
        )
    for note in found.notes:
        console.say(note)
