"""``ragbench fidelity``: do made-up questions rank retrievers as real ones do?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.core.record import Record
from ragbench.io.read import read_cases, read_documents
from ragbench.safe_text import counted
from ragbench.verbs.fidelity import Fidelity, Questions, Worth, fidelity, rank
from ragbench.views.document import number_text, range_text
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import JsonOption, Panel, argument, option, takes_records
from ragbench_cli.output import draw, entry, show, table

if TYPE_CHECKING:
    from rich.table import Table


class FidelityOptions(Record):
    """The two sets of questions, their documents, and the embedder."""

    made: Annotated[str, argument("MADE")]
    """Dataset of made-up questions with their gold, in any format: of ragas, RAGET, DeepEval or
    your own generator."""
    real: Annotated[str, option("FILE", panel=Panel.CASES)]
    """Dataset of real questions with their gold: at least 20, better 30 or more. See
    docs/real_questions.md."""
    corpus: Annotated[Path, option("PATH", panel=Panel.CASES)]
    """File or folder with the documents that both are about."""
    embedder: str | None = None
    """Embedder of the dense and hybrid retrievers; by default english or multilingual, by the
    language of the documents. none leaves them out."""
    seed: int = 0
    """Seed of the draws and of the intervals."""
    quiet: Annotated[bool, option("-q", panel=Panel.OUTPUT)] = False
    """No progress."""


@takes_records
def command(options: FidelityOptions, json: JsonOption = False) -> None:
    """When questions are made up: check how real ones would rank.

    Built-in retrievers (BM25 with several settings and sizes of chunks, by vectors, hybrid) are
    ranked by both sets. Shown are Kendall's tau of the two orders beside that of real questions
    among themselves, the real MRR that a choice by the made-up questions loses, and how much
    easier they are. No language model is asked. Questions that ten real ones beat are exit code
    1; real ones that do not rank the retrievers either are 3.

    \b
    Examples:
      ragbench fidelity generated.jsonl --real real.jsonl --corpus docs/
      ragbench fidelity testset.csv --real real.jsonl --corpus corpus.jsonl --json
    """
    made = list(read_cases(options.made))
    real = list(read_cases(options.real))
    documents = list(read_documents(options.corpus))
    # An embedder may be the user's own code.
    with console.users_code():
        say_search = console.searching(quiet=options.quiet)
        ranked = rank(made, real, documents, options.embedder, say_search)
        result = fidelity(ranked, options.seed)
    show(
        {**asdict(result), "verdict": _verdict_text(result)},
        partial(_print_fidelity, result),
        json=json,
    )
    if result.worth is Worth.DO_NOT_USE:
        raise typer.Exit(ExitCode.FAILED)
    if result.worth is Worth.CANNOT_TELL:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _print_fidelity(result: Fidelity) -> None:
    """Prints how far made-up questions rank retrievers like real ones: tables, figures, verdict.

    The verdict comes last, where the eye ends.
    """
    draw([_retriever_table(result), "", _draw_table(result), ""])
    for name, text in _figure_rows(result):
        typer.echo(entry(name, text, width=14, indent=0))
    typer.echo(f"\n{_verdict_text(result)}")


def _retriever_table(result: Fidelity) -> Table:
    """The table of retrievers with their MRR by real and by made-up questions.

    MRR is the mean of one over the rank of the first relevant chunk; equal orders in both columns
    are the aim.
    """
    rows: list[tuple[str, str, str]] = []
    for retriever in result.retrievers:
        rows.append((retriever.name, f"{retriever.real:.3f}", f"{retriever.made:.3f}"))
    return table((f"MRR@{result.k}", "real", "made-up"), rows)


def _draw_table(result: Fidelity) -> Table:
    """The table of how well draws of fewer real questions rank the retrievers, beside made-up ones.

    It answers how many real questions the made-up ones are worth.
    """
    half = result.draws[-1]  # the largest draw
    rows: list[list[str]] = []
    for draw_of_size in result.draws:
        size = f"{draw_of_size.questions:,}"
        if draw_of_size is half:
            size += " (half)"
        rows.append(
            [
                size,
                f"{draw_of_size.tau:.2f}",
                f"{draw_of_size.made_tau:.2f}",
                f"{draw_of_size.better:.0%}",
                f"{draw_of_size.cost:.3f}",
                f"{draw_of_size.made_cost:.3f}",
            ]
        )
    columns = ("real questions drawn", "tau", "made-up", "better", "MRR lost", "made-up")
    return table(columns, rows)


def _figure_rows(result: Fidelity) -> Iterator[tuple[str, str]]:
    """The figures below the tables of ``ragbench fidelity``: the name of each, and its sentence.

    Each has its interval, since thirty real questions leave much to chance.
    """
    real = result.real
    made = result.made
    yield "real", _questions_text(real)
    yield "made-up", _questions_text(made)

    tau = f"{number_text(result.tau.value)} ({range_text(result.tau)})"
    # The last draw has the most questions: halves of all.
    half_tau = result.draws[-1].tau
    yield "tau", f"{tau}; halves of the real questions reach {half_tau:.2f}"

    yield "choice", _choice_text(result)

    inflation = result.inflation
    gap = f"{number_text(inflation.value, sign=True)} of MRR"
    yield "inflation", f"{gap} ({range_text(inflation, sign=True)}), mean of all retrievers"

    copies = f"{result.shared:,} made-up ones have the words of a real one"
    yield "duplicates", f"{made.duplicates:,} made-up, {real.duplicates:,} real; {copies}"

    made_share = number_text(made.copied, "share")
    real_share = number_text(real.copied, "share")
    yield "copied words", f"{made_share} of a made-up question's are in its gold, real {real_share}"

    for note in result.notes:
        yield "note", note


def _questions_text(questions: Questions) -> str:
    """A text on a set of questions.

    It says how many there are, how their gold is matched, and how many were left out. Gold is the
    content that answers a question.
    """
    text = f"{counted(questions.questions, 'question')}, compared by {questions.matching}"
    if questions.skipped:
        text += f", {questions.skipped:,} more have no gold in the corpus"
    return text


def _choice_text(result: Fidelity) -> str:
    """A text on the retriever that made-up questions choose, and on what that choice costs.

    It is the price of trusting made-up questions: the MRR that real users lose.
    """
    # Several may be as good: the first is named, the others are counted.
    retriever, *equally_good = result.chosen
    choice = f"'{retriever}'"
    if equally_good:
        choice += f" or {len(equally_good):,} more, as good to them,"
    # Made-up and real questions choose the same single retriever: nothing is lost.
    if result.chosen == (result.best,):
        return f"{choice} by both"
    cost = number_text(result.cost.mean)
    interval = range_text(result.cost)
    return f"{choice} instead of '{result.best}' loses {cost} of real MRR ({interval})"


def _verdict_text(result: Fidelity) -> str:
    """The verdict on made-up questions in a sentence or two: how many real ones they are worth.

    ``--json`` has the same sentence. The figures that decide are those of `Fidelity.worth`.
    """
    made = f"these {result.made.questions:,}"
    half = result.draws[-1]
    # Without any difference between retrievers there is no order to compare.
    if result.tau.value is None:
        return "Cannot tell: one of the sets finds every retriever equally good."
    if result.worth is Worth.CANNOT_TELL:
        return (
            f"Cannot tell: halves of the {result.real.questions:,} real questions do not agree on "
            f"these retrievers themselves (tau {half.tau:.2f}). Collect more real ones."
        )
    # None: even the largest draw of real questions is no better.
    if result.equals is None:
        return f"{half.questions:,} real questions, half of yours, rank no better than {made}."
    if result.worth is Worth.SOME:
        return f"{result.equals:,} real questions rank retrievers as well as {made}."
    # The set is worth nothing: so few real questions rank better in most draws of their number.
    few_and_better = [
        draw_of_size
        for draw_of_size in result.draws
        if draw_of_size.questions <= 10 and draw_of_size.better > 0.5
    ]
    largest = few_and_better[-1]
    # Draws of up to ten questions have these two sizes.
    number = {5: "Five", 10: "Ten"}[largest.questions]
    return (
        f"{number} real questions rank retrievers better than {made} ({largest.better:.0%} of "
        "draws). Do not choose by them: label thirty real ones."
    )
