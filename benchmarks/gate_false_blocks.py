"""How often is an innocent change blocked, and a real one found? A seeded simulation.

Prints, as Markdown: false blocks of three rules on data where nothing changed; false "not worse"
where the drop is exactly what is tolerated; power at the printed detectable drop and at the
printed sample size; coverage of the intervals; and the time for 10 000 cases x 8 metrics.

    PYTHONPATH=. python benchmarks/gate_false_blocks.py [--trials 2000] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragbench import RegressionQuestion, decide
from ragbench.stats.decide import ChangeKind, Decision, decide_family
from ragbench.stats.mean import MeanInterval, mean_interval, student_p_value
from ragbench.stats.paired import PairedSample
from ragbench.stats.power import Spread, clusters_to_rule_out, detectable

Array = NDArray[np.float64]
Generator = np.random.Generator
Draw = Callable[[Generator, int, float], Array]
RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A way in which paired differences come about; the last argument is the true drop."""

    name: str
    draw: Draw
    cluster_size: int = 1

    def sample(self, rng: Generator, cases: int, drop: float = 0.0) -> PairedSample:
        differences = np.clip(self.draw(rng, cases, drop), -1.0, 1.0)
        return paired(differences, self.cluster_size)


def paired(differences: Array, cluster_size: int) -> PairedSample:
    cases = len(differences)
    return PairedSample(
        differences=differences,
        clusters=tuple(position // cluster_size for position in range(cases)),
    )


def noisy_binary(rng: Generator, cases: int, drop: float) -> Array:
    """Each question has its own chance of a right answer; the change loses some right answers."""
    chance = rng.random(cases)
    before, after = rng.random(cases) < chance, rng.random(cases) < chance
    return (after & (rng.random(cases) >= 2.0 * drop)).astype(float) - before


def clustered_binary(rng: Generator, cases: int, drop: float) -> Array:
    """As above, but a run gets all five questions of a document right, or none."""
    return np.repeat(noisy_binary(rng, -(-cases // 5), drop), 5)[:cases]


def continuous(rng: Generator, cases: int, drop: float) -> Array:
    return rng.normal(-drop, 0.15, cases)


def clustered(rng: Generator, cases: int, drop: float) -> Array:
    shared = np.repeat(rng.normal(0.0, 0.15, -(-cases // 5)), 5)[:cases]
    return shared + rng.normal(-drop, 0.08, cases)


def tied(rng: Generator, cases: int, drop: float) -> Array:
    """Nine of ten cases do not change; the others move by a half or by one."""
    moves = rng.choice([-1.0, -0.5, 0.5, 1.0], cases) * (rng.random(cases) < 0.1)
    return np.where(rng.random(cases) < drop, -1.0, moves)


def rare_break(rng: Generator, cases: int, drop: float) -> Array:
    """Nothing changes, except that a few cases break completely."""
    return -(rng.random(cases) < drop).astype(float)


def mostly_up(rng: Generator, cases: int, drop: float) -> Array:
    """Most cases gain a little, a few break completely."""
    gain = 0.03
    breaks = rng.random(cases) < (drop + gain) / (1.0 + gain)
    return np.where(breaks, -1.0, gain)


BINARY = World(name="noisy 0/1 metric", draw=noisy_binary)
CONTINUOUS = World(name="continuous, sd 0.15", draw=continuous)
CLUSTERED = World(name="5 questions a document, shared shift", draw=clustered, cluster_size=5)
CLUSTERED_BINARY = World(name="5 questions a document, 0/1", draw=clustered_binary, cluster_size=5)
TIED = World(name="heavily tied", draw=tied)
RARE = World(name="rare breaks, nothing else moves", draw=rare_break)
MOSTLY_UP = World(name="small gains, rare breaks", draw=mostly_up)

NULL_ROWS = (
    (BINARY, 20),
    (BINARY, 50),
    (BINARY, 150),
    (CONTINUOUS, 10),
    (CLUSTERED, 50),
    (CLUSTERED, 150),
    (CLUSTERED_BINARY, 50),
    (CLUSTERED_BINARY, 150),
    (TIED, 20),
    (TIED, 150),
    (CONTINUOUS, 3),
    (BINARY, 5),
    (CONTINUOUS, 6),
)
LIMIT_ROWS = (
    (BINARY, 50),
    (BINARY, 150),
    (CONTINUOUS, 10),
    (CONTINUOUS, 50),
    (CLUSTERED, 50),
    (CLUSTERED, 150),
    (TIED, 150),
    (RARE, 60),
    (RARE, 150),
    (MOSTLY_UP, 60),
    (MOSTLY_UP, 150),
)
POWER_ROWS = (
    (BINARY, 50),
    (BINARY, 150),
    (CONTINUOUS, 10),
    (CONTINUOUS, 50),
    (CLUSTERED, 50),
    (CLUSTERED, 150),
    (CLUSTERED_BINARY, 150),
    (TIED, 150),
)


def share(hits: Iterable[bool]) -> float:
    seen = list(hits)
    return sum(seen) / len(seen)


def percent(value: float) -> str:
    return f"{100.0 * value:.1f}%"


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(header)} |")
    print(f"|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def bootstrap_blocks(rng: Generator, differences: Array, smallest: float) -> bool:
    """A percentile bootstrap over cases: p < 0.05 and a drop of at least ``smallest``."""
    if differences.mean() >= -smallest:
        return False
    draws = rng.integers(0, len(differences), size=(RESAMPLES, len(differences)))
    return bool((differences[draws].mean(axis=1) >= 0.0).mean() < 0.05)


def change(sample: PairedSample, tolerance: float) -> ChangeKind:
    question = RegressionQuestion(sample=sample, tolerance=tolerance, largest_drop=1.0)
    return decide(question, resamples=RESAMPLES).change


def false_blocks(rng: Generator, trials: int) -> Iterator[list[str]]:
    for world, cases in NULL_ROWS:
        samples = [world.sample(rng, cases) for _ in range(trials)]
        arrays = [np.array(sample.differences) for sample in samples]
        yield [
            world.name,
            str(cases),
            percent(share(bool(each.mean() < -0.05) for each in arrays)),
            percent(share(bootstrap_blocks(rng, each, 0.02) for each in arrays)),
            percent(share(change(each, 0.02) is ChangeKind.WORSE for each in samples)),
            percent(share(change(each, 0.0) is ChangeKind.WORSE for each in samples)),
        ]


def false_passes(rng: Generator, trials: int) -> Iterator[list[str]]:
    tolerance = 0.05
    for world, cases in LIMIT_ROWS:
        samples = [world.sample(rng, cases, tolerance) for _ in range(trials)]
        student = [
            1.0 if not (totals := each.totals()).standard_error else student_p_value(totals, -0.05)
            for each in samples
        ]
        yield [
            world.name,
            str(cases),
            percent(share(p_value <= 0.05 for p_value in student)),
            percent(share(change(each, tolerance) is ChangeKind.NOT_WORSE for each in samples)),
        ]


def design(
    world: World, cases: int, rng: Generator, *, tolerance: float, alpha: float
) -> tuple[float, Spread]:
    """The true drop that ``detectable`` promises to find, from the spread in the long run."""
    drop = tolerance
    spread = Spread(per_cluster=1.0, cluster_size=1.0)
    for _ in range(6):
        many = world.sample(rng, 100_000, drop).totals()
        seen = Spread.of(many, -tolerance)
        assert seen is not None
        spread = seen
        found = detectable(spread, cases // world.cluster_size, alpha=alpha)
        assert found is not None
        drop = tolerance + found
    return drop, spread


def power(rng: Generator, trials: int) -> Iterator[list[str]]:
    for world, cases in POWER_ROWS:
        for tolerance in (0.0, 0.02):
            drop, _ = design(world, cases, rng, tolerance=tolerance, alpha=0.05)
            decisions = [
                decide(
                    RegressionQuestion(
                        sample=world.sample(rng, cases, drop),
                        tolerance=tolerance,
                        largest_drop=1.0,
                    ),
                    resamples=RESAMPLES,
                )
                for _ in range(trials)
            ]
            yield [
                world.name,
                str(cases),
                f"{tolerance:g}",
                f"{drop:.3f}",
                f"{mean_printed(decisions):.3f}",
                percent(share(each.change is ChangeKind.WORSE for each in decisions)),
            ]


def mean_printed(decisions: Sequence[Decision]) -> float:
    printed = [each.detectable_drop for each in decisions if each.detectable_drop is not None]
    return math.fsum(printed) / len(printed)


def sample_sizes(rng: Generator, trials: int) -> Iterator[list[str]]:
    tolerance = 0.05
    for world in (CONTINUOUS, CLUSTERED, BINARY, TIED):
        spread = Spread.of(world.sample(rng, 100_000).totals())
        assert spread is not None
        needed = clusters_to_rule_out(tolerance, spread, reach=1.0 - tolerance)
        assert needed is not None
        cases = needed * world.cluster_size
        passed = [
            change(world.sample(rng, cases), tolerance) is ChangeKind.NOT_WORSE
            for _ in range(max(trials // 2, 1))
        ]
        yield [world.name, str(needed), str(cases), percent(share(passed))]


def correlated(rng: Generator, cases: int, drops: Sequence[float]) -> list[Array]:
    shared = rng.normal(0.0, 0.10, cases)
    return [shared + rng.normal(-drop, 0.15, cases) for drop in drops]


def family(rng: Generator, trials: int) -> Iterator[list[str]]:
    cases = 100
    hits: dict[str, int] = {"bare": 0, "boot": 0, "ours": 0, "ours 0.02": 0}
    for _ in range(trials):
        metrics = correlated(rng, cases, [0.0] * 8)
        hits["bare"] += any(each.mean() < -0.02 for each in metrics)
        hits["boot"] += any(bootstrap_blocks(rng, each, 0.0) for each in metrics)
        hits["ours"] += family_blocks(metrics, 0.0)
        hits["ours 0.02"] += family_blocks(metrics, 0.02)
    yield ["any false block", *(percent(count / trials) for count in hits.values())]


def family_blocks(metrics: Sequence[Array], tolerance: float) -> bool:
    questions = [
        RegressionQuestion(sample=paired(each, 1), tolerance=tolerance, largest_drop=2.0)
        for each in metrics
    ]
    return any(
        each.change is ChangeKind.WORSE for each in decide_family(questions, resamples=RESAMPLES)
    )


def family_power(rng: Generator, trials: int) -> Iterator[list[str]]:
    cases = 100
    spread = Spread(per_cluster=math.hypot(0.10, 0.15), cluster_size=1.0)
    found = detectable(spread, cases, alpha=0.05 / 8)
    assert found is not None
    hits = 0
    for _ in range(trials):
        metrics = correlated(rng, cases, [found, *[0.0] * 7])
        questions = [
            RegressionQuestion(sample=paired(each, 1), largest_drop=2.0) for each in metrics
        ]
        # More draws: a level of 0.05 / 8 needs a finer p-value.
        hits += decide_family(questions, resamples=10_000)[0].change is ChangeKind.WORSE
    yield ["one of eight drops", str(cases), f"{found:.3f}", percent(hits / trials)]


def coverage(rng: Generator, trials: int) -> Iterator[list[str]]:
    rows = ((BINARY, 20), (BINARY, 150), (CONTINUOUS, 10), (CLUSTERED, 50), (CLUSTERED, 150))
    for world, cases in (*rows, (TIED, 50), (TIED, 150), (MOSTLY_UP, 60), (MOSTLY_UP, 150)):
        totals = [world.sample(rng, cases, 0.05).totals() for _ in range(trials)]
        student = [mean_interval(each, bounds=(-1.0, 1.0)) for each in totals]
        yield [
            world.name,
            str(cases),
            percent(share(map(holds, student))),
        ]


def holds(interval: MeanInterval) -> bool:
    if interval.low is None or interval.high is None:
        return False
    return interval.low <= -0.05 <= interval.high


def timing(rng: Generator) -> Iterator[list[str]]:
    scores = rng.random(10_000)
    questions = [
        RegressionQuestion(
            sample=paired(np.clip(scores + rng.normal(0.0, 0.2, 10_000), 0, 1) - scores, 1),
            tolerance=0.02,
            largest_drop=1.0,
        )
        for _ in range(8)
    ]
    yield ["decisions (sign flips)", *seconds(lambda: decide_family(questions, resamples=10_000))]


def seconds(work: Callable[[], object]) -> list[str]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return [f"{time.perf_counter() - wall:.2f} s", f"{time.process_time() - cpu:.2f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="print tables whose title holds this")
    options = parser.parse_args()
    trials: int = options.trials
    parts: list[tuple[str, list[str], Callable[[Generator], Iterator[list[str]]]]] = [
        (
            "False blocks where nothing changed",
            [
                "data",
                "cases",
                "mean drop > 0.05",
                "bootstrap p < .05, drop > .02",
                "ragbench, tolerance 0.02",
                "ragbench, tolerance 0",
            ],
            lambda rng: false_blocks(rng, trials),
        ),
        (
            "Eight correlated metrics, 100 cases, nothing changed",
            [
                "",
                "mean drop > 0.02",
                "bootstrap p < .05",
                "ragbench, tolerance 0",
                "ragbench, tolerance 0.02",
            ],
            lambda rng: family(rng, trials),
        ),
        (
            "False 'not worse' where the true drop is the tolerated one (0.05)",
            ["data", "cases", "Student-t", "ragbench"],
            lambda rng: false_passes(rng, trials),
        ),
        (
            "Power at the detectable drop (goal 80%)",
            ["data", "cases", "tolerance", "true drop", "mean of the printed drops", "found"],
            lambda rng: power(rng, trials),
        ),
        (
            "Power in a family of eight (goal 80%)",
            ["data", "cases", "true drop", "found"],
            lambda rng: family_power(rng, trials),
        ),
        (
            "'Not worse' at the predicted sample size, nothing changed, tolerance 0.05 (goal 80%)",
            ["data", "clusters", "cases", "shown"],
            lambda rng: sample_sizes(rng, trials),
        ),
        (
            "Coverage of 95% intervals",
            ["data", "cases", "Student-t"],
            lambda rng: coverage(rng, trials),
        ),
        ("Time for 10 000 cases x 8 metrics x 10 000 resamples", ["", "wall", "CPU"], timing),
    ]
    error = percent(math.sqrt(0.05 * 0.95 / trials))
    print(f"{trials} trials a row, seed {options.seed}; standard error of a 5% cell: {error}")
    for number, (title, header, rows) in enumerate(parts):
        if options.only in title:
            table(title, header, rows(np.random.default_rng([options.seed, number])))


if __name__ == "__main__":
    main()
