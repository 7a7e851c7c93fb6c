"""Drift of main: how often an unchanged system is said to have drifted, and how soon a real one.

Prints, as Markdown: of so many histories of an unchanged system, how many are marked at any of 50
looks, with noise of cases and with noise of whole runs that carries over by half (AR(1)); and at
which merge thirteen steps of .02 are marked.

    PYTHONPATH=.:benchmarks python benchmarks/gate_drift.py [--histories 400] [--only level|power]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.gate_tables import Generator, Table, percent, print_tables
from ragbench.stats.bets import LEAST, CaseSums, bet_on_fall, stake

METRICS = 3
ALPHA, TOLERANCE = 0.05, 0.02


def marked_at(
    rng: Generator,
    cases: int,
    steps: Sequence[float],
    *,
    shared: float = 0.0,
    each: int = 1,
    least: float = 0.4,
) -> int:
    """The merge at which a history is marked; 0 where none is.

    Args:
        steps: by how much the chance of a right answer has fallen at each merge.
        shared: standard deviation of what moves all cases of a run, half of it from the one before.
        each: cases of a document, which are right or wrong together.
        least: the lowest chance of a right answer.
    """
    chance = np.repeat(rng.uniform(least, 1.0, -(-cases // each)), each)[:cases]
    labels = [str(row // each) for row in range(cases)] if each > 1 else [None] * cases
    carried, won, fallen, last = 0.0, 0.0, 0.0, np.zeros(cases)
    sums: list[CaseSums] = []
    moved: list[float] = []
    for merge, step in enumerate([0.0, *steps]):
        carried = 0.5 * carried + math.sqrt(0.75) * rng.normal(0.0, shared) if shared else 0.0
        fallen += step
        drawn = np.repeat(rng.random(-(-cases // each)), each)[:cases]
        now = (drawn < chance - fallen + carried).astype(float)
        if not sums:
            sums = [CaseSums.of(0, score) for score in now.tolist()]
        else:
            moved.append(float((now - last).mean()))
            sums = [one.then(merge, score) for one, score in zip(sums, now.tolist(), strict=True)]
        last = now
        look = merge + 2 - LEAST
        if look > 0:
            bet = bet_on_fall(sums, labels, merge, tolerance=TOLERANCE, steps=moved)
            won += stake(look) * bet
        if won >= METRICS / ALPHA:
            return merge
    return 0


def level(rng: Generator, histories: int) -> Iterator[list[str]]:
    for cases in (50, 264, 1000):
        cells = [
            percent(
                marked_at(rng, cases, [0.0] * (50 + LEAST), shared=shared, each=each) > 0
                for _ in range(histories)
            )
            for shared, each in ((0.0, 1), (0.0, 5), (0.01, 1), (0.03, 1), (0.06, 1))
        ]
        yield [f"{cases:,}", *cells]


def power(rng: Generator, histories: int) -> Iterator[list[str]]:
    for cases, least in ((100, 0.4), (264, 0.4), (264, 0.9), (1000, 0.4)):
        for shared in (0.0, 0.01):
            found = [
                marked_at(rng, cases, [0.02] * 13, shared=shared, least=least)
                for _ in range(histories)
            ]
            known = sorted(at or 99 for at in found)
            yield [
                f"{cases:,}",
                f"{least:g} to 1",
                f"{shared:g}",
                *(percent(0 < at <= last for at in found) for last in (6, 8, 10, 13)),
                str(known[len(known) // 2]),
            ]


TABLES: dict[str, Table] = {
    "level": (
        "Unchanged systems that are marked at any of 50 looks, one of three metrics",
        ("cases", "noise of cases", "5 a document", "+ runs .01, AR(1)", "+ .03", "+ .06"),
        level,
    ),
    "power": (
        "Thirteen merges of -.02 are marked",
        ("cases", "chances", "noise of runs", "by the 6th", "8th", "10th", "13th", "median merge"),
        power,
    ),
}  # fmt: skip


if __name__ == "__main__":
    print_tables(__doc__, TABLES, drawn="--histories", default=400)
