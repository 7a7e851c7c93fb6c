"""How often does the interval of a score hold what is true of the system? A seeded simulation.

Prints two tables as Markdown. The first is of questions that share gold passages, which make them
easy or hard together: each question alone, those with the same gold, those that a chain of shared
passages connects, and those that share the passage which most do, as ragbench groups them. The
second is of values that are probabilities of a right answer: with their spread alone, and with the
variance of the answers around them.

    PYTHONPATH=. python benchmarks/interval_coverage.py [--trials 1000] [--seed 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ragbench import Case
from ragbench.core.case_table import clusters_among
from ragbench.stats.mean import Label, MeanInterval, mean_interval

Gold = tuple[str, ...]
Generator = np.random.Generator
BOUNDS = (0.0, 1.0)
EASE, SPREAD = 0.8, 2.0
"""Log odds of a right answer: of the average passage, and by how much passages differ."""


def one_passage(passages: int, each: int) -> Callable[[Generator], list[Gold]]:
    return lambda _: [(f"{at}",) for at in range(passages) for _ in range(each)]


def overlapping(rng: Generator) -> list[Gold]:
    """The gold lies in a chunk, in the next one, or where both overlap."""
    ways = [("a",), ("b",), ("a", "b")]
    return [
        tuple(f"{page}{part}" for part in ways[rng.choice(3, p=(0.4, 0.2, 0.4))])
        for page in range(20)
        for _ in range(5)
    ]


def hops(rng: Generator) -> list[Gold]:
    return [tuple(map(str, rng.choice(100, 2, replace=False))) for _ in range(100)]


def many(rng: Generator) -> list[Gold]:
    return [tuple(map(str, rng.choice(500, 10, replace=False))) for _ in range(100)]


WORLDS: Mapping[str, Callable[[Generator], list[Gold]]] = {
    "1 of 5 passages, 4 questions each": one_passage(5, 4),
    "1 of 20 passages, 5 questions each": one_passage(20, 5),
    "1 of 100 passages, 5 questions each": one_passage(100, 5),
    "1 or 2 overlapping chunks of 20 pages": overlapping,
    "2 of 100 passages, 100 questions": hops,
    "10 of 500 passages, 100 questions": many,
}


def connected(golds: Sequence[Gold]) -> Sequence[Label]:
    above: dict[str, str] = {}

    def top(one: str) -> str:
        while (over := above.setdefault(one, one)) != one:
            one = over
        return one

    for first, *others in golds:
        for other in others:
            above[top(other)] = top(first)
    return [top(first) for first, *_ in golds]


def as_ragbench(golds: Sequence[Gold]) -> Sequence[Label]:
    cases = [Case(id="", query="", reference_context_ids=gold) for gold in golds]
    return clusters_among(cases)


WAYS: Mapping[str, Callable[[Sequence[Gold]], Sequence[Label]]] = {
    "alone": lambda golds: [None] * len(golds),
    "same gold": lambda golds: [" ".join(sorted(gold)) for gold in golds],
    "connected": connected,
    "as ragbench": as_ragbench,
}


def answers(rng: Generator, golds: Sequence[Gold]) -> list[float]:
    ease = {one: rng.normal(0.0, SPREAD) for gold in golds for one in gold}
    odds = [EASE + sum(ease[one] for one in gold) / len(gold) ** 0.5 for gold in golds]
    chance = 1.0 / (1.0 + np.exp(-np.array(odds)))
    return [float(one) for one in rng.random(len(golds)) < chance]


def cell(found: Sequence[MeanInterval], true: Sequence[float]) -> str:
    """Coverage, with three decimals as on a screen, and mean width; without an interval, none."""
    held, wide = list[bool](), list[float]()
    for one, truth in zip(found, true, strict=True):
        if one.low is None or one.high is None:
            held.append(False)
            continue
        held.append(round(one.low, 3) <= round(truth, 3) <= round(one.high, 3))
        wide.append(one.high - one.low)
    return f"{np.mean(held):.1%}" + (f", {np.mean(wide):.2f} wide" if wide else "")


def shared_gold(rng: Generator, trials: int) -> None:
    print("| gold of a question |", " | ".join(WAYS), "|")
    print("|---|" + "---|" * len(WAYS))
    odds = EASE + SPREAD * rng.standard_normal(1_000_000)
    true = [float((1.0 / (1.0 + np.exp(-odds))).mean())] * trials
    for name, world in WORLDS.items():
        draws = [(golds, answers(rng, golds)) for golds in (world(rng) for _ in range(trials))]
        cells = [
            cell([mean_interval(v, way(golds), bounds=BOUNDS) for golds, v in draws], true)
            for way in WAYS.values()
        ]
        print(f"| {name} |", " | ".join(cells), "|")


CHANCES: Mapping[str, Callable[[Generator], np.ndarray]] = {
    "20 answers at .007": lambda rng: rng.uniform(0.0065, 0.0075, 20),
    "20 answers at .6": lambda rng: rng.uniform(0.58, 0.62, 20),
    "100 answers at .9": lambda rng: rng.uniform(0.85, 0.95, 100),
    "100 answers, half at .05, half at .95": lambda rng: rng.choice((0.05, 0.95), 100),
    "100 answers, evenly from 0 to 1": lambda rng: rng.random(100),
}


def chances(rng: Generator, trials: int) -> None:
    print("| probabilities | their spread | and the answers around them |")
    print("|---|---|---|")
    for name, draw in CHANCES.items():
        drawn = [draw(rng) for _ in range(trials)]
        right = [float((rng.random(len(one)) < one).mean()) for one in drawn]
        cells = [
            cell([mean_interval(v.tolist(), bounds=BOUNDS, probability=p) for v in drawn], right)
            for p in (False, True)
        ]
        print(f"| {name} |", " | ".join(cells), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    shared_gold(rng, asked.trials)
    print()
    chances(rng, asked.trials)


if __name__ == "__main__":
    main()
