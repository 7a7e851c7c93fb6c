"""How often is the gate red, yellow and green of a noisy system, unchanged or changed?

A world is a dataset: each question has its own chance of being retrieved, answered and refused,
some have no answer, one to eight share a document, each has a tag. A run asks all of them once:
answers vary in their words, numbers and citations, and one in a hundred fails. A change takes a
share of what was found, of right answers, or of answers, or finds more. The gate judges a run at
its defaults, or with three metrics named, beside one run or the mean of five.

    PYTHONPATH=. python benchmarks/gate_noise.py [--pairs 200] [--only noise]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.gate_tables import Table, print_tables
from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.case_table import CaseTable, ScoredCase
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.gate import gate
from ragbench.gate.main_runs import baseline_of

Generator = np.random.Generator

SIZES = (30, 80, 200, 500)
SYSTEM = {"dataset": "d", "rag": "r", "settings": "s"}
FAILS = 0.01
UNANSWERABLE = 0.1
DECLINED, SKIPPED, FAILED = (
    Cell.abstained(""),
    Cell.skipped(""),
    Cell(status=Status.FAILED, reason=""),
)
GROUPS = {
    "retriever": ("recall@5", "hit_rate@5", "MRR@10", "nDCG@10"),
    "generator": (
        *("answer_correct", "token_f1", "exact_match"),
        *("numbers_supported", "citation_validity", "citation_coverage"),
    ),
    "overall": ("abstention_accuracy", "abstention_recall", "answer_rate"),
}
NAMES = [name for names in GROUPS.values() for name in names]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is true of a question, whichever run asks it."""

    is_answerable: bool
    retrieved: float
    """Chance that its chunk is found."""
    right: float
    """Chance that the answer is right where it is found."""
    declined: float
    """Chance that it is declined though it is found."""
    has_number: bool
    document: str
    tag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Shares of what is lost, or of what is found in addition."""

    retrieval: float = 0.0
    generation: float = 0.0
    refusals: float = 0.0
    better: float = 0.0


UNCHANGED = Change()
CHANGES = {
    "nothing": UNCHANGED,
    "better by .10": Change(better=0.1),
    "retrieval -.10": Change(retrieval=0.1),
    "retrieval -.15": Change(retrieval=0.15),
    "refusals +.15": Change(refusals=0.15),
    "generation -.15": Change(generation=0.15),
    "generation -.20": Change(generation=0.2),
}


def world(rng: Generator, count: int) -> list[Question]:
    found: list[Question] = []
    while len(found) < count:
        document = f"d{len(found)}"
        for _ in range(int(rng.choice([1, 1, 1, 2, 3, 5, 8]))):
            found.append(
                Question(
                    is_answerable=bool(rng.random() >= UNANSWERABLE),
                    retrieved=float(rng.beta(4.0, 1.0)),
                    right=float(rng.beta(3.0, 1.0)),
                    declined=float(rng.beta(1.0, 9.0)),
                    has_number=bool(rng.random() < 0.6),
                    document=document,
                    tag=f"t{int(rng.integers(8))}",
                )
            )
    return found[:count]


def asked(question: Question, change: Change, rng: Generator) -> dict[str, Cell]:
    """What the metrics of a run say of a question."""
    if rng.random() < FAILS:
        failed = dict.fromkeys(NAMES, FAILED)
        if not question.is_answerable:
            failed |= dict.fromkeys(GROUPS["retriever"], SKIPPED)
        return failed
    is_found = question.is_answerable and bool(rng.random() < question.retrieved)
    if is_found and rng.random() < change.retrieval:
        is_found = False
    if question.is_answerable and not is_found and rng.random() < change.better / 0.2:
        is_found = True
    chance = question.declined
    if not is_found:
        chance = 0.5 if question.is_answerable else 0.75
    is_declined = bool(rng.random() < chance)
    if question.is_answerable and rng.random() < change.refusals:
        is_declined = True
    is_right = is_found and bool(rng.random() < question.right)
    if is_right and rng.random() < change.generation:
        is_right = False
    return {
        **_of_retrieval(question, is_found, rng),
        **_of_answer(question, is_found, is_declined, is_right, rng),
        **_of_refusal(question, is_declined),
    }


def _of_retrieval(question: Question, is_found: bool, rng: Generator) -> dict[str, Cell]:
    if not question.is_answerable:
        return dict.fromkeys(GROUPS["retriever"], SKIPPED)
    rank = int(rng.choice([1, 1, 2, 3, 4]))
    hit = Cell.measured(float(is_found))
    return {
        "recall@5": hit,
        "hit_rate@5": hit,
        "MRR@10": Cell.measured(is_found / rank),
        "nDCG@10": Cell.measured(is_found / float(np.log2(rank + 1))),
    }


def _of_answer(
    question: Question, is_found: bool, is_declined: bool, is_right: bool, rng: Generator
) -> dict[str, Cell]:
    if is_declined:
        return dict.fromkeys(GROUPS["generator"], DECLINED)
    cells = dict.fromkeys(GROUPS["generator"], SKIPPED)
    if question.is_answerable:
        sure = float(rng.beta(9.0, 1.0))
        words = float(rng.beta(3.0, 2.0) if is_right else rng.beta(1.0, 5.0))
        cells["answer_correct"] = Cell.measured(sure if is_right else 1.0 - sure)
        cells["token_f1"] = Cell.measured(words)
        cells["exact_match"] = Cell.measured(float(is_right and rng.random() < 0.15))
    if question.has_number and rng.random() < 0.8:
        cells["numbers_supported"] = Cell.measured(float(is_found and rng.random() < 0.9))
    if rng.random() < 0.15:
        cells["citation_validity"] = Cell.measured(float(rng.random() < 0.9))
        cells["citation_coverage"] = Cell.measured(float(rng.random() < 0.7))
    return cells


def _of_refusal(question: Question, is_declined: bool) -> dict[str, Cell]:
    accuracy = Cell.measured(float(is_declined is not question.is_answerable))
    return {
        "abstention_accuracy": accuracy,
        "abstention_recall": SKIPPED if question.is_answerable else accuracy,
        "answer_rate": accuracy if question.is_answerable else SKIPPED,
    }


def run_of(questions: Sequence[Question], change: Change, rng: Generator) -> RunScores:
    """A run of the system after a change."""
    cases = [
        ScoredCase(
            id=f"q{place}",
            fingerprint=f"f{place}",
            scores=asked(question, change, rng),
            cluster=question.document,
            tags=(question.tag,),
        )
        for place, question in enumerate(questions)
    ]
    table = CaseTable.of(cases)
    columns: list[MetricColumn] = []
    for group, names in GROUPS.items():
        for name in names:
            values = table.cells[name].values
            column = MetricColumn(
                name=name, version=1, group=group, direction=Direction.HIGHER, low=0.0, high=1.0,
                score=None if np.isnan(values).all() else float(np.nanmean(values)),
            )  # fmt: skip
            columns.append(column)
    return RunScores(
        source="run", dataset="d", rag="r", fingerprints=SYSTEM, matching="id",
        commit=None, dirty=False, metrics=tuple(columns), cases=table,
    )  # fmt: skip


def baseline_for(questions: Sequence[Question], runs: int, rng: Generator) -> RunScores:
    """A run, or the mean of several."""
    found = [
        replace(run_of(questions, UNCHANGED, rng), date=f"2026-03-{day + 1:02}T10:00:00+00:00")
        for day in range(runs)
    ]
    return found[0] if runs == 1 else baseline_of(found)


NAMED = ("recall@5", "answer_correct", "abstention_accuracy")


def config_of(*, is_named: bool) -> GateConfig:
    if not is_named:
        return GateConfig()
    wanted = MetricGate(limits=FigureLimits(max_drop=0.02))
    return GateConfig(metrics=dict.fromkeys(NAMED, wanted))


def colours(
    count: int, change: Change, rng: Generator, *, pairs: int, runs: int, is_named: bool = False
) -> Counter[str]:
    """How often the gate has each colour: a world for each pair."""
    config, found = config_of(is_named=is_named), Counter[str]()
    for _ in range(pairs):
        questions = world(rng, count)
        baseline = baseline_for(questions, runs, rng)
        found[gate(run_of(questions, change, rng), baseline, config).colour] += 1
    return found


def shares(found: Counter[str]) -> list[str]:
    return [f"{found[colour] / found.total():.1%}" for colour in ("red", "yellow", "green")]


def noise(rng: Generator, pairs: int, *, is_named: bool) -> Iterator[list[str]]:
    """Rows of what should be green."""
    for count in SIZES:
        for runs in (1, 5):
            for name in ("nothing", "better by .10"):
                found = colours(
                    count, CHANGES[name], rng, pairs=pairs, runs=runs, is_named=is_named
                )
                yield [f"{count}", "one run" if runs == 1 else "mean of 5", name, *shares(found)]


def power(rng: Generator, pairs: int) -> Iterator[list[str]]:
    """Rows of losses, by their cause."""
    for name, change in CHANGES.items():
        if name in ("nothing", "better by .10"):
            continue
        for runs in (1, 5):
            row = [name, "one run" if runs == 1 else "mean of 5"]
            for count in (80, 200, 500):
                found = colours(count, change, rng, pairs=pairs, runs=runs)
                seen = found["red"] + found["yellow"]
                row.append(f"{found['red'] / pairs:.0%} / {seen / pairs:.0%}")
            yield row


_HEADER = ("cases", "baseline", "change", "red", "yellow", "green")
TABLES: dict[str, Table] = {
    "noise": ("Unchanged and better, at the defaults", _HEADER, partial(noise, is_named=False)),
    "named": ("Unchanged and better, three metrics named", _HEADER, partial(noise, is_named=True)),
    "power": (
        "Losses by cause: red / red or yellow",
        ("change", "baseline", "80 cases", "200 cases", "500 cases"),
        power,
    ),
}


if __name__ == "__main__":
    print_tables(__doc__, TABLES, drawn="--pairs", default=200)
