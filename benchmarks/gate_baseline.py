"""What does a baseline made of several runs change? A simulation.

Each row draws a system, k runs of main and one run that is judged, and decides as the gate does.
Prints, as Markdown: how often an unchanged system is called worse, and how often by flips of signs
alone, which a mean of several runs does not allow; how often a true drop is; how often a run that
is added is wrongly, and rightly, said to be of another system; how often ``ragbench history`` marks
a change over twelve merges.

    PYTHONPATH=. python benchmarks/gate_baseline.py [--trials 400] [--only level]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.gate_tables import Table, percent, print_tables
from ragbench import RegressionQuestion, pair
from ragbench.core.case_table import CaseTable, ScoredCase
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.stats.decide import ChangeKind, decide_family

Array = NDArray[np.float64]
Generator = np.random.Generator
Draw = Callable[[Generator, int, int, float], Array]
"""Scores by run, case and metric: k runs of main, then one that lost the last argument."""
KEPT = (1, 3, 5)


def chances(rng: Generator, chance: Array, runs: int, drop: float) -> Array:
    found = (rng.random((runs + 1, len(chance))) < chance).astype(float)
    lost = min(1.0, drop / float(chance.mean()))
    found[-1] *= rng.random(len(chance)) >= lost
    return found[:, :, None]


def own_chance(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    return chances(rng, rng.random(cases), runs, drop)


def rarely_right(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    return chances(rng, np.full(cases, 0.05), runs, drop)


def mostly_right(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    return chances(rng, np.full(cases, 0.95), runs, drop)


def partly_steady(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    """Seven of ten cases always come out alike, the others by their own chance."""
    fixed = (rng.random(cases) < 0.6).astype(float)
    return chances(rng, np.where(rng.random(cases) < 0.7, fixed, rng.random(cases)), runs, drop)


def continuous(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    level = rng.uniform(0.3, 0.7, (1, cases, 1))
    found = level + rng.normal(0.0, 0.15 / math.sqrt(2.0), (runs + 1, cases, 1))
    found[-1] -= drop
    return found.clip(0, 1)


def clustered(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    """Five questions a document rise and fall together."""
    documents = -(-cases // 5)
    level = np.repeat(rng.uniform(0.3, 0.7, documents), 5)[:cases]
    shared = np.repeat(rng.normal(0.0, 0.1, (runs + 1, documents)), 5, axis=1)[:, :cases]
    found = level + shared + rng.normal(0.0, 0.06, (runs + 1, cases))
    found[-1] -= drop
    return found.clip(0, 1)[:, :, None]


def eight(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    """Eight 0/1 metrics that are right together nine times in ten."""
    chance = rng.random((1, cases, 1))
    shared = (rng.random((runs + 1, cases, 1)) < chance).astype(float)
    own = (rng.random((runs + 1, cases, 8)) < chance).astype(float)
    found = np.where(rng.random((runs + 1, cases, 8)) < 0.9, shared, own)
    found[-1] *= rng.random((cases, 1)) >= 2.0 * drop
    return found


def churning(rng: Generator, cases: int, runs: int, drop: float) -> Array:
    """No noise; the change makes as many of the cases better as worse, one in ten each."""
    before = (rng.random(cases) < 0.5).astype(float)
    after = np.where(rng.random(cases) < 0.2, 1.0 - before, before)
    after *= rng.random(cases) >= 2.0 * drop
    return np.stack([*[before] * runs, after])[:, :, None]


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A noisy system."""

    name: str
    draw: Draw
    cluster_size: int = 1


WORLDS = (
    World(name="0/1, each question by its own chance", draw=own_chance),
    World(name="0/1, right once in twenty", draw=rarely_right),
    World(name="0/1, right 19 times in twenty", draw=mostly_right),
    World(name="0/1, seven of ten questions steady", draw=partly_steady),
    World(name="continuous, sd of a difference 0.15", draw=continuous),
    World(name="5 questions a document, labelled", draw=clustered, cluster_size=5),
    World(name="8 metrics, correlated", draw=eight),
    World(name="no noise, as many better as worse", draw=churning),
)


def run_of(scores: Array, world: World, day: int) -> RunScores:
    """A run with these scores, a column a metric."""
    names = [f"m{number}" for number in range(scores.shape[1])]
    cases = tuple(
        ScoredCase(
            id=f"q{row:05}",
            fingerprint="f",
            scores={name: Cell.measured(v) for name, v in zip(names, line, strict=True)},
            cluster=str(row // world.cluster_size) if world.cluster_size > 1 else None,
        )
        for row, line in enumerate(scores.tolist())
    )
    means = scores.mean(axis=0).tolist()
    columns = tuple(
        MetricColumn(name=name, version=1, group="retriever", direction=Direction.HIGHER, low=0.0,
                     high=1.0, score=mean)
        for name, mean in zip(names, means, strict=True)
    )  # fmt: skip
    return RunScores(
        source="run", dataset="d", rag="r", fingerprints={"rag": "r", "settings": "s"},
        matching="id", commit=f"{day}", dirty=False, metrics=columns, cases=CaseTable.of(cases),
        date=f"2026-01-01T00:{day:02}:00+00:00",
    )  # fmt: skip


def runs_of(world: World, cases: int, kept: int, drop: float, rng: Generator) -> list[RunScores]:
    scores = world.draw(rng, cases, kept, drop)
    return [run_of(one, world, day) for day, one in enumerate(scores)]


def is_blocked(scores: Array, world: World, tolerance: float, *, flips_alone: bool = False) -> bool:
    """Whether any metric is called worse: what the gate fails on, without the rest of it."""
    questions: list[RegressionQuestion] = []
    ids = [f"q{row}" for row in range(scores.shape[1])]
    labels: dict[str, str | None] = {
        id_: str(row // world.cluster_size) if world.cluster_size > 1 else None
        for row, id_ in enumerate(ids)
    }
    for metric in range(scores.shape[2]):
        rows = scores[:, :, metric].T.tolist()
        means = scores[:-1, :, metric].mean(axis=0).tolist()
        repeats = {id_: ((row[-1],), tuple(row[:-1])) for id_, row in zip(ids, rows, strict=True)}
        sample = pair(
            dict(zip(ids, means, strict=True)),
            {id_: row[-1] for id_, row in zip(ids, rows, strict=True)},
            clusters=labels,
            repeats=None if flips_alone or len(scores) == 2 else repeats,
        )
        questions.append(RegressionQuestion(sample=sample, tolerance=tolerance, largest_drop=1.0))
    decisions = decide_family(questions, resamples=1000)
    return any(decision.change is ChangeKind.WORSE for decision in decisions)


def level(rng: Generator, trials: int) -> Iterator[list[str]]:
    for world in WORLDS:
        for cases, tolerance in ((20, 0.02), (50, 0.0), (200, 0.0), (200, 0.02)):
            row, flips = [world.name, str(cases), f"{tolerance:g}"], ""
            for kept in KEPT:
                drawn = [world.draw(rng, cases, kept, 0.0) for _ in range(trials)]
                row.append(percent(is_blocked(each, world, tolerance) for each in drawn))
                flips = percent(is_blocked(e, world, tolerance, flips_alone=True) for e in drawn)
            yield [*row, flips]


def power(rng: Generator, trials: int) -> Iterator[list[str]]:
    for world in WORLDS:
        for cases, drop in ((50, 0.1), (200, 0.05), (200, 0.1)):
            row = [world.name, str(cases), f"{drop:g}"]
            for kept in KEPT:
                drawn = (world.draw(rng, cases, kept, min(drop, 0.9)) for _ in range(trials))
                row.append(percent(is_blocked(each, world, 0.02) for each in drawn))
            yield row


def added(rng: Generator, trials: int) -> Iterator[list[str]]:
    for world in WORLDS[:-1]:
        for drop in (0.0, 0.1):
            row = [world.name, "200", f"{drop:g}"]
            for kept in KEPT:
                hits: list[bool] = []
                for _ in range(trials):
                    *main, present = runs_of(world, 200, kept, drop, rng)
                    hits.append(bool(with_run(baseline_of(main), present).changes))
                row.append(percent(hits))
            yield row


COUNTS = tuple(f"k = {kept}" for kept in KEPT)
TABLES: dict[str, Table] = {
    "level": (
        "Blocked though nothing changed, against the mean of k runs",
        ("system", "cases", "tolerance", *COUNTS, "k = 5, flips of signs alone"),
        level,
    ),
    "power": (
        "A true drop blocks, tolerance 0.02",
        ("system", "cases", "true drop", *COUNTS),
        power,
    ),
    "added": (
        "A run of main is said to be of another system than the k before",
        ("system", "cases", "true drop", *COUNTS),
        added,
    ),
}


if __name__ == "__main__":
    print_tables(__doc__, TABLES, drawn="--trials", default=400)
