"""``ragbench fidelity``: do made-up questions rank retrievers as real ones do?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.record import Record
from ragbench.io.read import read_cases, read_documents
from ragbench.verbs.fidelity import Fidelity, Worth, fidelity, rank
from ragbench.views.document import number_text, range_text
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import JsonOption, Panel, argument, option, takes_records
from ragbench_cli.output import draw, entry, show, table


class Asked(Record):
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
def command(asked: Asked, json: JsonOption = False) -> None:
    """Measure how far made-up questions rank as real ones.

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
    made, real = list(read_cases(asked.made)), list(read_cases(asked.real))
    documents = list(read_documents(asked.corpus))
    with console.users_code():
        searching = console.searching(quiet=asked.quiet)
        found = fidelity(rank(made, real, documents, asked.embedder, searching), asked.seed)
    show({**asdict(found), "verdict": _verdict(found)}, partial(_print, found), json=json)
    codes = {Worth.DO_NOT_USE: ExitCode.FAILED, Worth.CANNOT_TELL: ExitCode.INCONCLUSIVE}
    raise typer.Exit(codes.get(found.worth, ExitCode.PASSED))


def _print(found: Fidelity) -> None:
    half = found.draws[-1]
    retrievers = ((one.name, f"{one.real:.3f}", f"{one.made:.3f}") for one in found.retrievers)
    draw([table((f"MRR@{found.k}", "real", "made-up"), retrievers), ""])
    rows = (
        (
            f"{one.questions:,}{' (half)' * (one is half)}",
            *(f"{figure:.2f}" for figure in (one.tau, one.made_tau)),
            f"{one.better:.0%}",
            *(f"{figure:.3f}" for figure in (one.cost, one.made_cost)),
        )
        for one in found.draws
    )
    columns = ("real questions drawn", "tau", "made-up", "better", "MRR lost", "made-up")
    draw([table(columns, rows), ""])
    for name, text in _figures(found):
        typer.echo(entry(name, text, width=14, indent=0))
    typer.echo(f"\n{_verdict(found)}")


def _figures(found: Fidelity) -> Iterator[tuple[str, str]]:
    real, made, tau = found.real, found.made, found.tau
    for name, one in (("real", real), ("made-up", made)):
        skipped = f", {one.skipped:,} more have no gold in the corpus" * bool(one.skipped)
        yield name, f"{one.questions:,} questions, compared by {one.matching}{skipped}"
    half = f"halves of the real questions reach {found.draws[-1].tau:.2f}"
    yield "tau", f"{number_text(tau.value)} ({range_text(tau)}); {half}"
    first, *others = found.chosen
    named = f"'{first}'" + f" or {len(others):,} more, as good to them," * bool(others)
    lost = f"loses {number_text(found.cost.mean)} of real MRR ({range_text(found.cost)})"
    is_same = found.chosen == (found.best,)
    yield "choice", f"{named} by both" if is_same else f"{named} instead of '{found.best}' {lost}"
    gap = f"{number_text(found.inflation.value, sign=True)} of MRR"
    yield "inflation", f"{gap} ({range_text(found.inflation, sign=True)}), mean of all retrievers"
    copies = f"{found.shared:,} made-up ones have the words of a real one"
    yield "duplicates", f"{made.duplicates:,} made-up, {real.duplicates:,} real; {copies}"
    shares = [number_text(one.copied, "share") for one in (made, real)]
    yield "copied words", f"{shares[0]} of a made-up question's are in its gold, real {shares[1]}"
    yield from (("note", text) for text in found.notes)


def _verdict(found: Fidelity) -> str:
    made, half = f"these {found.made.questions:,}", found.draws[-1]
    if found.tau.value is None:
        return "Cannot tell: one of the sets finds every retriever equally good."
    if found.worth is Worth.CANNOT_TELL:
        return (
            f"Cannot tell: halves of the {found.real.questions:,} real questions do not agree on "
            f"these retrievers themselves (tau {half.tau:.2f}). Collect more real ones."
        )
    if found.equals is None:
        return f"{half.questions:,} real questions, half of yours, rank no better than {made}."
    if found.worth is Worth.SOME:
        return f"{found.equals:,} real questions rank retrievers as well as {made}."
    few = next(one for one in reversed(found.draws) if one.questions <= 10 and one.better > 0.5)
    number = {5: "Five", 10: "Ten"}[few.questions]
    return (
        f"{number} real questions rank retrievers better than {made} ({few.better:.0%} of draws). "
        "Do not choose by them: label thirty real ones."
    )
