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
from ragbench.safe_text import counted, listed, shown_line
from ragbench.verbs.why import Change, Reasons, why
from ragbench.views.document import range_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option, takes_records
from ragbench_cli.output import draw, paragraph, show, styled, table
from ragbench_cli.stores import CollectionChoice, SearchChoice, names_strategy, search_settings

_MOST_EXPLAINED = 3
"""Changes for which the screen of a run says how they are made."""


class WhyOptions(Record):
    """Which store is searched, for which questions, and how it is searched now."""

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
    score_threshold: Annotated[float | None, option("SCORE", rare=True)] = None
    """Chunks that score less are left out. By default DEFAULT_SCORE_THRESHOLD, or none."""
    post_retrieval: Annotated[Path | None, option("FILE")] = None
    """The operators between retrieval and generation, a YAML file."""
    quiet: Annotated[bool, option("-q")] = False
    """No progress."""


@takes_records
def command(options: WhyOptions, where: CollectionChoice, json: JsonOption = False) -> None:
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
    cases = _cases_to_explain(options)
    settings = search_settings(options)
    post_retrieval = None
    if options.post_retrieval is not None:
        post_retrieval = load_post_retrieval(options.post_retrieval)
    choice = SearchChoice(
        store=options.store,
        where=where,
        settings=settings,
        names_strategy=names_strategy(options),
    )
    with choice.opened_to_tune() as opened, console.users_code():
        reasons = why(
            opened,
            cases,
            k=settings.top_k,
            post_retrieval=post_retrieval,
            command=_search_command(options.store, where),
            # A single question is searched for quickly: there is nothing to announce.
            advance=console.searching(quiet=options.quiet or len(cases) == 1),
        )
    # Golds are listed for a single question; of a run there are only sums.
    if reasons.golds is None:
        show(reasons, partial(_print_run, reasons), json=json)
    else:
        show(reasons, partial(_print_question, reasons, cases[0]), json=json)


def _search_command(store: str, where: CollectionChoice) -> str:
    """The command line that searches the collection as now, to which advice adds its changes.

    The address of the store is without its password: the command is printed.
    """
    words = ["ragbench", "search", "--store", mask_text(store)]
    if where.collection is not None:
        words += ["--collection", where.collection]
    if where.embedder is not None:
        words += ["--embedder", where.embedder]
    for setting in where.embedder_setting or ():
        words += ["--embedder-setting", setting]
    for field in where.map or ():
        words += ["--field", field]
    return shlex.join(words)


def _cases_to_explain(options: WhyOptions) -> list[Case]:
    """The cases whose gold is looked for: one question, one case of a run, or all of them.

    Gold is the content that answers a question.

    Raises:
        ConfigError: the options do not name one of these, or contradict each other.
    """
    has_question = options.question is not None
    has_run = options.run is not None
    if has_question == has_run:  # neither or both
        raise ConfigError("give a question with --gold ID, or --run RUN")
    if options.question is not None:
        # A question on the command line needs --gold; a case of a run has its own gold.
        if not options.gold or options.case is not None:
            raise ConfigError("name with --gold ID the chunk or document that it should find")
        gold = tuple(options.gold)
        return [Case(id="question", query=options.question, reference_context_ids=gold)]
    if options.gold:
        raise ConfigError("--gold goes with a question; the cases of --run have their own")
    # A run's folder is read as a dataset: its cases are all that is needed.
    cases = list(read_cases(options.run or ""))
    if options.case is None:
        return cases
    chosen = [case for case in cases if case.id == options.case]
    if not chosen:
        ids = listed([case.id for case in cases])
        raise ConfigError(f"{options.run} has no case '{options.case}'. There are: {ids}")
    return chosen


def _print_question(reasons: Reasons, case: Case) -> None:
    """Prints where a question's gold is by each way of searching, and what brings it in.

    What became of each gold chunk comes first, then its rank by each way: the way that finds it
    tells what is wrong with the others.
    """
    # `command` calls this only for a single question, whose reasons always have golds.
    assert reasons.golds is not None
    draw([styled((shown_line(case.query, longest=160), "bold"))])
    fates = reasons.golds.golds
    for fate in fates:
        text = f"{shown_line(fate.gold, longest=80)}: {fate.cause.replace('_', ' ')}"
        if fate.rank is not None:
            text += f", rank {fate.rank}"
        draw([styled(text)])
    columns = ["rank of the gold"]
    for fate in fates:
        columns.append(shown_line(fate.gold, longest=24))
    rows: list[list[str]] = []
    for search in reasons.ranks:
        row = [search.way]
        for rank in search.ranks:
            # A search looks only so far down: a gold below is not known to be missing.
            if rank is None:
                row.append(f"not in {search.looked_at}")
            else:
                row.append(str(rank))
        rows.append(row)
    draw(["", table(columns, rows)])
    # All gold is in the context: nothing to bring in.
    if not reasons.lost:
        typer.echo(f"\nThe context ({counted(reasons.k, 'chunk')}) has it.")
        return
    lines: list[str] = []
    for change in _best_of_each(reasons.changes):
        lines += _change_lines(change)
    if not lines:
        lines = ["nothing that was tried: it is not in the store, or cut, or worded otherwise"]
    draw(paragraph("brings it into the context, the cheapest first", lines))
    _print_notes(reasons)


def _change_lines(change: Change) -> list[str]:
    """The lines on a change of the search.

    They are its name, and below it the command or setting that makes it.
    """
    name = change.name
    if change.is_estimate:
        name += " (estimated)"
    return [name, f"  {change.how}"]


def _print_run(reasons: Reasons) -> None:
    """Prints why the questions of a run lack gold, and what each change of the search would gain.

    The recall as it is now comes first, then the causes, then the gains, and how to get them.
    """
    # None where no question has gold.
    recall = reasons.recall.mean or 0.0
    questions = counted(reasons.questions, "question")
    if reasons.skipped:
        questions += f" ({reasons.skipped:,} more have no gold)"
    typer.echo(f"recall@{reasons.k} {recall:.3f} over {questions}, searched by {reasons.now}")
    # The most frequent first; equal ones stay in the order of the causes.
    causes = sorted(reasons.lost.items(), key=lambda cause_and_count: -cause_and_count[1])
    lines: list[str] = []
    for cause, count in causes:
        cause_in_words = cause.replace("_", " ")
        lines.append(f"{count:,} {cause_in_words}")
    draw(paragraph("questions that lack gold", lines))
    typer.echo()
    rows = [_change_row(change) for change in _best_of_each(reasons.changes)]
    if not rows:
        typer.echo("Nothing that was tried finds more.")
        return
    draw([table((f"change of recall@{reasons.k}", "gain", "interval", ""), rows)])
    together = reasons.together
    if together is not None:
        mean_gain = together.gain.mean or 0.0
        gain = f"{mean_gain:+.3f} ({range_text(together.gain, sign=True)})"
        names = "; ".join(together.changes)
        typer.echo(
            f"\n{len(together.changes)} of them together: {gain}: {names}. They were chosen by "
            "these questions: others will gain a little less."
        )
    # A change may cost recall: only gains are explained.
    gaining = [change for change in reasons.changes if change.mean > 0]
    how: list[str] = []
    for change in gaining[:_MOST_EXPLAINED]:
        how += _change_lines(change)
    draw(paragraph("how", how))
    _print_notes(reasons)


def _change_row(change: Change) -> list[str]:
    """The row of a change of the search: its gain, the interval, and how far it can be trusted.

    "sure": its gain is beyond chance; "estimated": it was not tried on the store itself.
    """
    # A change may have both remarks: an estimate can be beyond chance.
    remarks: list[str] = []
    if change.is_sure:
        remarks.append("sure")
    if change.is_estimate:
        remarks.append("estimated")
    interval = range_text(change.gain, sign=True)
    return [change.name, f"{change.mean:+.3f}", interval, ", ".join(remarks)]


def _best_of_each(changes: Sequence[Change]) -> Iterator[Change]:
    """The best change of each kind, without further weights and efforts of the same strategy.

    Changes are sorted, the best first; a dozen rows of one strategy would hide the others. --json
    has all.
    """
    shown_kinds: set[str] = set()
    for change in changes:
        kind = change.name
        if kind.startswith("search by "):
            # The strategy is the third word, its weight or effort comes after.
            kind = " ".join(kind.split()[:3])
        if kind not in shown_kinds:
            shown_kinds.add(kind)
            yield change


def _print_notes(reasons: Reasons) -> None:
    """Reports how estimated changes were tried, and what could not be estimated.

    A gain that was estimated on the store's texts is less certain than one that was tried.
    """
    if any(change.is_estimate for change in reasons.changes):
        console.say(
            "estimated: tried on the store's own texts, in memory; nothing was indexed anew"
        )
    for note in reasons.notes:
        console.say(note)
