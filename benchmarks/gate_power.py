"""What slices cost the metrics, what a loss without a test costs the level: a seeded simulation.

Prints, as Markdown: how often a true drop of all cases is found without slices and next to them,
as one family (as before) and with a level of their own; how often two runs of one noisy system are
red; how often a total loss on few documents passes.

    PYTHONPATH=.:benchmarks python benchmarks/gate_power.py [--pairs 400] [--only power|red|few]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.gate_pairs import CONTINUOUS, Array, Generator, World, config_of, run_of
from benchmarks.gate_tables import Table, percent, print_tables
from ragbench.core.gate_result import GateOutcome, GateResult
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError
from ragbench.gate.gate import gate
from ragbench.stats.decide import ChangeKind, RegressionQuestion, decide_family
from ragbench.stats.paired import pair

Pair = tuple[Array, Array]


def by_chance(
    rng: Generator, cases: int, chance: Array, drop: float = 0.0, documents: int = 0
) -> Pair:
    """Two runs of 0 and 1, each case by its own chance; cases of one document all or nothing."""
    size = documents or cases
    rows = np.arange(cases) * size // cases
    before, after = (rng.random(size) < chance for _ in range(2))
    kept = rng.random(cases) >= drop / max(chance.mean(), 1e-9)
    return before[rows].astype(float)[:, None], (after[rows] & kept).astype(float)[:, None]


def runs_of(both: Pair, rng: Generator, tags: int, documents: int = 0) -> tuple[RunScores, ...]:
    cases = len(both[0])
    size = -(-cases // documents) if documents else 1
    world = World(name="", draw=CONTINUOUS.draw, cluster_size=size)
    named = [f"t{row % tags}" for row in range(cases)] if tags else []
    return tuple(run_of(scores, world, rng, named) for scores in both)


def judged(both: Pair, rng: Generator, *, tolerance: float, tags: int, docs: int = 0) -> GateResult:
    before, after = runs_of(both, rng, tags, docs)
    wanted = config_of(tolerance, both[0].shape[1], slices=bool(tags))
    return gate(after, before, replace(wanted, min_common=0.0))


def metric_found(verdict: GateResult) -> bool:
    return any(c.slice is None and c.outcome is GateOutcome.FAILED for c in verdict.checks)


def any_found(verdict: GateResult) -> bool:
    return verdict.outcome is GateOutcome.FAILED


def one_family_found(both: Pair, tolerance: float, tags: int) -> bool:
    """What the metric has left where it and its slices are one family, as they were."""
    rows = np.arange(len(both[0]))
    parts = [rows, *(rows[rows % tags == tag] for tag in range(tags))]
    samples = [
        pair(*({str(row): float(scores[row, 0]) for row in part} for scores in both))
        for part in parts
    ]
    asked = [RegressionQuestion(sample=s, tolerance=tolerance, largest_drop=1.0) for s in samples]
    return decide_family(asked, resamples=2000)[0].change is ChangeKind.WORSE


def power(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for cases, drop, tags in ((240, 0.15, 12), (240, 0.1, 12), (1000, 0.08, 12), (1000, 0.08, 50)):
        drawn = [by_chance(rng, cases, rng.uniform(0.4, 1.0, cases), drop) for _ in range(pairs)]
        bare = [judged(both, rng, tolerance=0.05, tags=0) for both in drawn]
        sliced = [judged(both, rng, tolerance=0.05, tags=tags) for both in drawn]
        yield [
            f"{cases:,}",
            f"{drop:g}",
            str(tags),
            percent(map(metric_found, bare)),
            percent(one_family_found(both, 0.05, tags) for both in drawn),
            percent(map(metric_found, sliced)),
            percent(map(any_found, sliced)),
        ]


def collapses(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for cases, tags in ((240, 12), (1000, 12), (1000, 50), (60, 12)):
        hits: list[bool] = []
        for _ in range(pairs):
            before, after = by_chance(rng, cases, rng.uniform(0.7, 1.0, cases))
            after[np.arange(cases) % tags == 0] = 0.0
            hits.append(any_found(judged((before, after), rng, tolerance=0.05, tags=tags)))
        yield [f"{cases:,}", str(tags), str(cases // tags), percent(hits)]


SHAPES: tuple[tuple[str, float, float, int], ...] = (
    ("chances of 0 to 1", 1.0, 1.0, 1),
    ("chances around .5, all alike", 500.0, 500.0, 1),
    ("chances around .25, all alike", 250.0, 750.0, 1),
    ("chances around .1, all alike", 100.0, 900.0, 1),
    ("low chances (beta .5, 2.5)", 0.5, 2.5, 1),
    ("5 questions a document, all or nothing", 1.0, 1.0, 5),
    ("5 a document, all or nothing, around .25", 250.0, 750.0, 5),
)


def red(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for name, a, b, each in SHAPES:
        for tags in (0, 10):
            cells: list[str] = []
            for cases in (20, 50, 200, 1000):
                documents = cases // each if each > 1 else 0
                found: list[bool] = []
                for _ in range(pairs if cases < 1000 else pairs // 4):
                    both = by_chance(
                        rng, cases, rng.beta(a, b, documents or cases), documents=documents
                    )
                    one = judged(both, rng, tolerance=0.02, tags=tags, docs=documents)
                    found.append(one.outcome is not GateOutcome.PASSED)
                cells.append(percent(found))
            yield [name, str(tags), *cells]
    for name, a, b, _ in (SHAPES[0], SHAPES[2], SHAPES[4]):
        cells = []
        for cases in (20, 50, 200, 1000):
            found = []
            for _ in range(pairs if cases < 1000 else pairs // 4):
                columns = [by_chance(rng, cases, rng.beta(a, b, cases)) for _ in range(8)]
                stacked = [np.hstack([one[side] for one in columns]) for side in (0, 1)]
                one = judged((stacked[0], stacked[1]), rng, tolerance=0.02, tags=0)
                found.append(one.outcome is not GateOutcome.PASSED)
            cells.append(percent(found))
        yield [f"{name}, 8 metrics, independent", "0", *cells]


def few(rng: Generator, pairs: int) -> Iterator[list[str]]:
    """So many documents had been right, everything is wrong now; 1 and 75 questions each."""
    for documents in range(1, 9):
        codes: list[str] = []
        for right in (1, 2, documents):
            found: list[str] = []
            for each in (1, 75):
                before = np.repeat(np.arange(documents) < right, each).astype(float)[:, None]
                for metrics in (1, 9):
                    scores = np.repeat(before, metrics, axis=1)
                    earlier, now = runs_of((scores, scores * 0.0), rng, 0, documents)
                    try:
                        verdict = gate(now, earlier, config_of(0.02, metrics))
                        found.append(str(verdict.outcome.exit_code))
                    except ConfigError:
                        found.append("2")
            codes.append(", ".join(found) if right <= documents else "-")
        yield [str(documents), *codes]


def few_unchanged(rng: Generator, pairs: int) -> Iterator[list[str]]:
    """What an unchanged noisy system on so few documents ends with: 1, and 2 or 3."""
    for documents in (3, 4, 5, 6, 8):
        cells: list[str] = []
        for a, b in ((1.0, 1.0), (250.0, 750.0), (750.0, 250.0)):
            for cases in (documents, 20 * documents):
                codes: list[int] = []
                for _ in range(pairs):
                    chance = rng.beta(a, b, documents)
                    both = by_chance(rng, cases, chance, documents=documents)
                    verdict = judged(both, rng, tolerance=0.02, tags=0, docs=documents)
                    codes.append(verdict.outcome.exit_code)
                red, open_ = (percent(code == one for code in codes) for one in (1, 3))
                cells.append(f"{red}, {open_}")
        yield [str(documents), *cells]


TABLES: dict[str, Table] = {
    "power": (
        "A true drop of all cases is found, tolerance 0.05",
        ("cases", "drop", "tags", "metric, no slices", "metric, one family (before)",
         "metric, level of its own", "metric or a slice"),
        power,
    ),
    "collapses": (
        "One tag of several loses everything, tolerance 0.05",
        ("cases", "tags", "cases of the tag", "blocked"),
        collapses,
    ),
    "red": (
        "Two runs of one system are red (exit 1 or 3), tolerance 0.02",
        ("system", "tags", "20 cases", "50", "200", "1,000"),
        red,
    ),
    "few": (
        "Exit codes of a total loss: 1 and 75 questions each, 1 and 9 equal metrics",
        ("documents", "1 had been right", "2 had been right", "all had been"),
        few,
    ),
    "unchanged": (
        "Two runs of one system on few documents, all or nothing: failed, cannot tell",
        ("documents", "chances 0 to 1", "20 each", "around .25", "20 each", "around .75",
         "20 each"),
        few_unchanged,
    ),
}  # fmt: skip


if __name__ == "__main__":
    print_tables(__doc__, TABLES, drawn="--pairs", default=400)
