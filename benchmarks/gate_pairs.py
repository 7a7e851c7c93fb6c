"""What does the gate do with two runs of one noisy system, and with a true drop? A simulation.

Each row draws pairs of runs and hands them to the gate as it stands: level, slices, coverage and
all. Prints, as Markdown: how often an unchanged system is red (exit 1 or 3) by default, with
``--strict``, and how often anything is called worse; how often a true drop blocks; the same for
rare large gains, for slices, and for many nearly equal metrics beside Holm's correction; and how
often following the gate's advice settles what was undecided.

    PYTHONPATH=. python benchmarks/gate_pairs.py [--pairs 1000] [--only red]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.gate_tables import Table, percent, print_tables
from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.case_table import CaseTable, ScoredCase
from ragbench.core.gate_result import GateOutcome, GateResult
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import SliceGate
from ragbench.gate.gate import gate

Array = NDArray[np.float64]
Generator = np.random.Generator
Pair = tuple[Array, Array]
Draw = Callable[[Generator, int, float], Pair]
"""Scores of all metrics (a column each) of the baseline and of the run, by cases and true drop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A noisy system."""

    name: str
    draw: Draw
    cluster_size: int = 1
    abstains: float = 0.0
    """Share of cells that are declined, at random, in both runs."""


def noisy_binary(rng: Generator, cases: int, drop: float) -> Pair:
    """Each question has its own chance of a right answer; the change loses some right answers."""
    chance = rng.random(cases)
    before, after = rng.random(cases) < chance, rng.random(cases) < chance
    after &= rng.random(cases) >= 2.0 * drop
    return before.astype(float)[:, None], after.astype(float)[:, None]


def continuous(rng: Generator, cases: int, drop: float) -> Pair:
    """Two runs around each question's own level."""
    level = rng.uniform(0.3, 0.7, (cases, 1))
    both = [level + rng.normal(0.0, 0.15 / math.sqrt(2.0), (cases, 1)) for _ in range(2)]
    return both[0].clip(0, 1), (both[1] - drop).clip(0, 1)


def clustered(rng: Generator, cases: int, drop: float) -> Pair:
    """Five questions a document rise and fall together."""
    documents = -(-cases // 5)
    level = np.repeat(rng.uniform(0.3, 0.7, documents), 5)[:cases, None]
    runs: list[Array] = []
    for _ in range(2):
        shared = np.repeat(rng.normal(0.0, 0.1, documents), 5)[:cases, None]
        runs.append(level + shared + rng.normal(0.0, 0.06, (cases, 1)))
    return runs[0].clip(0, 1), (runs[1] - drop).clip(0, 1)


def eight(rng: Generator, cases: int, drop: float) -> Pair:
    """Eight metrics of one retrieval, correlated at about .9 within a run."""
    level = rng.uniform(0.3, 0.7, (cases, 1))
    runs: list[Array] = []
    for _ in range(2):
        shared = rng.normal(0.0, 0.1, (cases, 1))
        runs.append(level + shared + rng.normal(0.0, 0.03, (cases, 8)))
    return runs[0].clip(0, 1), (runs[1] - drop).clip(0, 1)


def rare_gains(share: float, gain: float, mean: float) -> Draw:
    """A few cases gain much, all others lose a little; the mean moves by ``mean``."""
    loss = (mean - share * gain) / (1.0 - share)

    def draw(rng: Generator, cases: int, drop: float) -> Pair:
        before = np.full((cases, 1), 0.3)
        moved = np.where(rng.random((cases, 1)) < share, gain, loss)
        return before, before + moved - drop

    return draw


BINARY = World(name="0/1, each question by its own chance", draw=noisy_binary)
CONTINUOUS = World(name="continuous, sd of a difference 0.15", draw=continuous)
CLUSTERED = World(name="5 questions a document, labelled", draw=clustered, cluster_size=5)
EIGHT = World(name="8 metrics, correlated .9", draw=eight)
DECLINES = World(name="continuous, every tenth answer declined", draw=continuous, abstains=0.1)

ROWS = (
    (BINARY, 50), (BINARY, 200), (BINARY, 1000), (CONTINUOUS, 20), (CONTINUOUS, 50),
    (CONTINUOUS, 200), (CLUSTERED, 50), (CLUSTERED, 200), (EIGHT, 50), (EIGHT, 400),
    (DECLINES, 200),
)  # fmt: skip


def run_of(scores: Array, world: World, rng: Generator, tags: Sequence[str] = ()) -> RunScores:
    """A run with these scores, a column a metric."""
    declined = rng.random(scores.shape) < world.abstains
    names = [f"m{number}" for number in range(scores.shape[1])]
    cases = tuple(
        ScoredCase(
            id=f"q{row:05}",
            fingerprint="f",
            scores={
                name: Cell.abstained("") if declined[row, place] else Cell.measured(value)
                for place, (name, value) in enumerate(zip(names, line, strict=True))
            },
            cluster=str(row // world.cluster_size) if world.cluster_size > 1 else None,
            tags=(tags[row],) if tags else (),
        )
        for row, line in enumerate(scores.tolist())
    )
    columns = tuple(
        MetricColumn(
            name=name, version=1, group="retriever", direction=Direction.HIGHER, low=0.0, high=1.0,
            score=0.5,
        )
        for name in names
    )  # fmt: skip
    return RunScores(
        source="run", dataset="d", rag="r", fingerprints={}, matching="id", commit=None,
        dirty=False, metrics=columns, cases=CaseTable.of(cases),
    )  # fmt: skip


def config_of(tolerance: float, metrics: int, *, slices: bool = False) -> GateConfig:
    pieces = (SliceGate(by="tag", value=None),) if slices else ()
    wanted = MetricGate(limits=FigureLimits(max_drop=tolerance), slices=pieces)
    return GateConfig(metrics={f"m{number}": wanted for number in range(metrics)})


def judged(world: World, cases: int, drop: float, tolerance: float, rng: Generator) -> GateResult:
    before, after = world.draw(rng, cases, drop)
    runs = [run_of(scores, world, rng) for scores in (before, after)]
    return gate(runs[1], runs[0], config_of(tolerance, before.shape[1]))


def is_strict_red(verdict: GateResult) -> bool:
    return verdict.outcome is not GateOutcome.PASSED or any(
        check.is_open_drop for check in verdict.checks
    )


def red(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for world, cases in ROWS:
        for tolerance in (0.0, 0.02):
            found = [judged(world, cases, 0.0, tolerance, rng) for _ in range(pairs)]
            yield [
                world.name,
                str(cases),
                f"{tolerance:g}",
                percent(each.outcome is not GateOutcome.PASSED for each in found),
                percent(map(is_strict_red, found)),
            ]


def power(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for world, cases in ROWS:
        blocked: list[str] = []
        for drop in (0.05, 0.1):
            found = (judged(world, cases, drop, 0.02, rng) for _ in range(pairs // 2))
            blocked.append(percent(each.outcome is GateOutcome.FAILED for each in found))
        yield [world.name, str(cases), *blocked]


def gains(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for share, tolerance in ((0.02, 0.0), (0.05, 0.02)):
        name = f"{share:.0%} gain .6, the rest loses; mean {-tolerance:+g}"
        world = World(name=name, draw=rare_gains(share, 0.6, -tolerance))
        for cases in (20, 50, 100, 200):
            found = (judged(world, cases, 0.0, tolerance, rng) for _ in range(pairs))
            failed = percent(each.outcome is GateOutcome.FAILED for each in found)
            yield [name, str(cases), f"{tolerance:g}", failed]


def slices(rng: Generator, pairs: int) -> Iterator[list[str]]:
    for count in (25, 130):
        for collapses in (False, True):
            hits: list[bool] = []
            for _ in range(max(1, pairs // 50)):
                cases = count * 40
                level = rng.uniform(0.6, 1.0, (cases, 1))
                before, after = (
                    (level + rng.normal(0, 0.1, (cases, 4))).clip(0, 1) for _ in range(2)
                )
                if collapses:
                    after[:40] = 0.04
                tags = [f"t{row // 40}" for row in range(cases)]
                runs = [run_of(scores, CONTINUOUS, rng, tags) for scores in (before, after)]
                wanted = replace(config_of(0.02, 4, slices=True), max_unmeasured=0.05)
                verdict = gate(runs[1], runs[0], wanted)
                hits.append(verdict.outcome is GateOutcome.FAILED)
            what = "one tag falls to .04" if collapses else "nothing changed"
            yield [f"4 metrics x {count} tags of 40 cases", what, str(len(hits)), percent(hits)]


def holm_blocks(p_values: Sequence[float], alpha: float = 0.05) -> bool:
    return min(p_values) <= alpha / len(p_values)


def joint_power(rng: Generator, pairs: int) -> Iterator[list[str]]:
    from ragbench import pair
    from ragbench.stats.family import family_test

    for drop in (0.0, 0.03, 0.05):
        joint: list[bool] = []
        holm: list[bool] = []
        for _ in range(pairs):
            before, after = eight(rng, 50, drop)
            samples = [
                pair(
                    {str(row): float(v) for row, v in enumerate(before[:, place])},
                    {str(row): float(v) for row, v in enumerate(after[:, place])},
                )
                for place in range(8)
            ]
            found = family_test(samples, null_means=[0.0] * 8)
            joint.append(min(found.p_values) <= 0.05)
            holm.append(holm_blocks([test.p_value for test in found.tests]))
        yield [f"{drop:g}", percent(joint), percent(holm)]


TABLES: dict[str, Table] = {
    "red": (
        "Red though nothing changed (exit 1 or 3)",
        ("system", "cases", "tolerance", "by default", "with --strict"),
        red,
    ),
    "power": (
        "A true drop blocks, tolerance 0.02",
        ("system", "cases", "drop 0.05", "drop 0.10"),
        power,
    ),
    "gains": (
        "Rare large gains: the mean moves by what is tolerated",
        ("system", "cases", "tolerance", "blocked"),
        gains,
    ),
    "slices": ("Slices", ("family", "what happens", "pairs", "blocked"), slices),
    "joint": (
        "Eight correlated metrics, 50 cases, tolerance 0",
        ("true drop of all", "joint", "Holm"),
        joint_power,
    ),
}  # fmt: skip


if __name__ == "__main__":
    print_tables(__doc__, TABLES, drawn="--pairs", default=1000)
