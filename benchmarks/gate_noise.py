"""The gate at its defaults on systems that vary as chat answers do: red, yellow and green.

A world has cases of different difficulty in clusters of 1 to 8, with tags, gold for some of them,
and no answer for others. A run of it draws chunks, answers, numbers, citations, refusals and
failures anew. Runs are made as `evaluate` leaves them, with the cells of its default metrics, and
each pair goes through the shipped gate. ``--command N`` writes answers to files instead, and sends
N pairs of each kind through ``ragbench.evaluate`` and ``gate_run``: slower, and the same picture.

    PYTHONPATH=. nice python benchmarks/gate_noise.py --sizes 200 --worlds 20
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.core.case_table import CaseTable, Cells
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate.config import FigureLimits, GateConfig, MetricGate
from ragbench.gate.gate import gate
from ragbench.gate.main_runs import baseline_of
from ragbench.verbs.evaluate import evaluate
from ragbench.verbs.gate import gate_run

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What another system does differently; shares of the cases that it is a matter of."""

    retrieval: float = 0.0
    """So many cases more lose the gold chunk."""
    generation: float = 0.0
    """So many answers more are wrong."""
    refusals: float = 0.0
    """So many cases more are declined though they have an answer."""
    hallucination: float = 0.0
    """So many cases without an answer more are answered."""
    failures: float = 0.0
    better: float = 0.0
    """So many cases more are retrieved, and so many answers more are right."""


CHANGES: Mapping[str, Change] = {
    "unchanged": Change(),
    "improved .08": Change(better=0.08),
    "retrieval -.10": Change(retrieval=0.10),
    "retrieval -.15": Change(retrieval=0.15),
    "retrieval -.20": Change(retrieval=0.20),
    "refusals +.15": Change(refusals=0.15),
    "generation -.15": Change(generation=0.15),
    "generation -.20": Change(generation=0.20),
    "failures +.08": Change(failures=0.08),
}


@dataclass(frozen=True, kw_only=True)
class World:
    """What stays the same from run to run."""

    clusters: Sequence[str | None]
    tags: Sequence[tuple[str, ...]]
    found: Floats
    """Chance that the gold chunk is retrieved, a case."""
    right: Floats
    """Chance that the answer is right where it was."""
    declines: Floats
    """Chance to decline, with an answer."""
    has_gold: Flags
    is_answerable: Flags
    is_labelled: bool
    """Whether the dataset says which cases have an answer."""
    steadiness: float
    """Share of the cases of which retrieval gives the same each time."""
    is_steady: Flags
    steady_draw: Floats
    style: Mapping[str, float]
    """How the system words: shares of answers with numbers and with citations; and how sure words
    are of a right answer."""


def world_of(size: int, seed: int) -> World:
    rng = np.random.default_rng([7, size, seed])
    largest = int(rng.integers(1, 9))
    sizes: list[int] = []
    while sum(sizes) < size:
        sizes.append(int(rng.integers(1, largest + 1)))
    cluster = np.repeat(np.arange(len(sizes)), sizes)[:size]
    shared = rng.normal(0.0, rng.uniform(0.0, 1.0), len(sizes))[cluster]
    spread = rng.uniform(0.5, 2.5)

    def chances(mean: float) -> Floats:
        odds = np.log(mean / (1.0 - mean)) + shared + rng.normal(0.0, spread, size)
        shares: Floats = 1.0 / (1.0 + np.exp(-odds))
        return shares

    steadiness = float(rng.uniform(0.3, 1.0))
    tags = [f"t{number}" for number in range(int(rng.integers(5, 13)))]
    return World(
        clusters=[f"c{number}" if largest > 1 else None for number in cluster.tolist()],
        tags=[(str(rng.choice(tags)),) for _ in range(size)],
        found=chances(rng.uniform(0.6, 0.92)),
        right=chances(rng.uniform(0.55, 0.9)),
        declines=np.clip(chances(rng.uniform(0.02, 0.12)), 0.0, 0.9),
        has_gold=rng.random(size) < rng.choice([1.0, 0.8]),
        is_answerable=rng.random(size) > rng.choice([0.0, 0.1, 0.2]),
        is_labelled=bool(rng.random() < 0.7),
        steadiness=steadiness,
        is_steady=rng.random(size) < steadiness,
        steady_draw=rng.random(size),
        style={
            "numbers": float(rng.uniform(0.2, 0.7)),
            "citations": float(rng.choice([0.0, 0.6])),
            "sure": float(rng.uniform(0.6, 1.0)),
        },
    )


def answers_of(world: World, change: Change, seed: Sequence[int]) -> _Answers:
    """What the system gives when all cases are asked once."""
    rng, size = np.random.default_rng([11, *seed]), len(world.clusters)
    draw = np.where(world.is_steady, world.steady_draw, rng.random(size))
    found = draw < world.found
    found &= ~(rng.random(size) < change.retrieval / world.found.mean())
    found |= rng.random(size) < 2.0 * change.better
    right = (rng.random(size) < world.right) & (found | (rng.random(size) < 0.15))
    wronged = change.generation / max(0.2, float((world.right * world.found).mean()))
    right &= ~(rng.random(size) < wronged)
    right |= rng.random(size) < 2.0 * change.better
    declined = rng.random(size) < np.where(found, world.declines, 0.25)
    declined = np.where(world.is_answerable, declined, rng.random(size) < 0.8)
    declined |= world.is_answerable & (rng.random(size) < change.refusals)
    failed = rng.random(size) < 0.01 + change.failures
    return _Answers(world, rng, found, right, declined, failed)


def run_of(world: World, change: Change, seed: Sequence[int], *, day: int = 1) -> RunScores:
    """One run of the system, with the cells that `evaluate` gives."""
    made, size = answers_of(world, change, seed), len(world.clusters)
    columns, cells = zip(*made.metrics(), strict=True)
    return RunScores(
        source=f"run {seed}", dataset="noise", rag="rag", matching="id", commit=None, dirty=False,
        fingerprints={"dataset": "d", "rag": "r", "settings": "s"},
        date=f"2026-03-{day:02}T10:00:00+00:00",
        metrics=columns,
        cases=CaseTable(
            ids=[f"q{place}" for place in range(size)],
            fingerprints=np.array([f"f{place}".encode() for place in range(size)], np.bytes_),
            facts={
                "cluster": world.clusters, "tags": world.tags,
                "stages": [made.stages(place) for place in range(size)],
            },
            cells=dict(zip((column.name for column in columns), cells, strict=True)),
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class _Answers:
    """What the system gave, as cells of metrics."""

    world: World
    rng: np.random.Generator
    found: Flags
    right: Flags
    declined: Flags
    failed: Flags

    def stages(self, place: int) -> dict[str, Status]:
        ending = Status.MEASURED
        if self.failed[place]:
            ending = Status.FAILED
        elif self.declined[place]:
            ending = Status.ABSTAINED
        return {"retrieve": Status.MEASURED, "generate": ending}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The answers as a file of recorded rows has them."""
        for place, (found, right) in enumerate(zip(self.found, self.right, strict=True)):
            row: dict[str, Any] = {
                "id": f"q{place}",
                "query": f"How many days does rule {place} give?",
                "tags": list(self.world.tags[place]),
                "retrieved_context_ids": [f"c{place}" if found else f"x{place}", "other"],
                "retrieved_contexts": [f"Rule {place} gives {place + 20} days.", "Another text."],
            }
            if self.world.clusters[place] is not None:
                row["cluster"] = self.world.clusters[place]
            if self.world.is_answerable[place]:
                row["reference"] = f"{place + 20} days"
                if self.world.has_gold[place]:
                    row["reference_context_ids"] = [f"c{place}"]
            if self.world.is_labelled or not self.world.is_answerable[place]:
                row["answerable"] = bool(self.world.is_answerable[place])
            if self.failed[place]:
                row["error"] = "timeout"
            elif self.declined[place]:
                row["response"] = "I could not find this in the documents."
            else:
                row["response"] = f"Rule {place} gives {place + (20 if right else 7)} days."
            yield row

    def metrics(self) -> Iterator[tuple[MetricColumn, Cells]]:
        world, rng, size = self.world, self.rng, len(self.found)
        rank = rng.integers(1, 6, size)
        recall = np.where(world.has_gold & world.is_answerable, self.found.astype(float), np.nan)
        yield _metric("recall@5", "retriever", recall)
        yield _metric("hit_rate@5", "retriever", recall)
        yield _metric("MRR@10", "retriever", recall / rank)
        yield _metric("nDCG@10", "retriever", recall / np.log2(1.0 + rank))
        sure = world.style["sure"]
        blur = rng.beta(1.0, 6.0, size) * (1.0 - sure)
        correct = np.where(self.right, 1.0 - blur, blur)
        f1 = np.clip(np.where(self.right, rng.beta(5, 3, size), rng.beta(2, 6, size)), 0, 1)
        has_reference = world.is_answerable
        yield self._of_answers("answer_correct", np.where(has_reference, correct, np.nan), True)
        yield self._of_answers("token_f1", np.where(has_reference, f1, np.nan))
        exact = np.where(self.right & (rng.random(size) < 0.3), 1.0, 0.0)
        yield self._of_answers("exact_match", np.where(has_reference, exact, np.nan))
        has_number = rng.random(size) < world.style["numbers"]
        supported = np.where(has_number, (rng.random(size) < 0.9).astype(float), np.nan)
        yield self._of_answers("numbers_supported", supported)
        cites = rng.random(size) < world.style["citations"]
        valid = np.where(cites, (rng.random(size) < 0.95).astype(float), np.nan)
        yield self._of_answers("citation_validity", valid)
        whole = np.where(self.declined, ~world.is_answerable, f1 * world.is_answerable)
        yield self._of_all("end_to_end_f1", whole.astype(float))
        label = np.ones(size, bool) if world.is_labelled else ~world.is_answerable
        agrees = (self.declined != world.is_answerable).astype(float)
        yield self._of_all("abstention_accuracy", np.where(label, agrees, np.nan))
        rate = np.where(label & world.is_answerable, (~self.declined).astype(float), np.nan)
        yield self._of_all("answer_rate", rate)
        recalled = np.where(~world.is_answerable, self.declined.astype(float), np.nan)
        yield self._of_all("abstention_recall", recalled)

    def _of_answers(
        self, name: str, values: Floats, is_probability: bool = False
    ) -> tuple[MetricColumn, Cells]:
        """A metric of answers: none where the system declined, whatever is known of the case."""
        states = _states(values)
        values = np.where(self.declined | self.failed, np.nan, values)
        states = np.where(self.declined, ord("a"), states)
        return _metric(name, "generator", values, self._with_failed(states), is_probability)

    def _of_all(self, name: str, values: Floats) -> tuple[MetricColumn, Cells]:
        states = self._with_failed(_states(values))
        return _metric(name, "overall", np.where(self.failed, np.nan, values), states)

    def _with_failed(self, states: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.where(self.failed, ord("f"), states).astype(np.uint8)


def _states(values: Floats) -> NDArray[np.uint8]:
    return np.where(np.isnan(values), ord("s"), ord("m")).astype(np.uint8)


def _metric(
    name: str,
    group: str,
    values: Floats,
    states: NDArray[np.uint8] | None = None,
    is_probability: bool = False,
) -> tuple[MetricColumn, Cells]:
    known = values[~np.isnan(values)]
    column = MetricColumn(
        name=name, version=1, group=group, direction=Direction.HIGHER, low=0.0, high=1.0,
        score=float(known.mean()) if len(known) else None, probability=is_probability,
    )  # fmt: skip
    return column, Cells.packed(values, _states(values) if states is None else states)


NAMED = ("recall@5", "answer_correct", "abstention_accuracy")


@dataclass
class Counts:
    colours: Counter[str] = field(default_factory=Counter[str])
    causes: Counter[str] = field(default_factory=Counter[str])


def settings_of(kind: str) -> GateConfig:
    """At its defaults, or with three metrics named."""
    if kind == "default":
        return GateConfig(baseline="main")
    demand = MetricGate(limits=FigureLimits(max_drop=0.02))
    return GateConfig(baseline="main", metrics=dict.fromkeys(NAMED, demand))


def simulate(
    size: int, worlds: int, *, pairs: int, kind: str, mean_of: int, seed: int, only: Sequence[str]
) -> dict[str, Counts]:
    """Pairs of a baseline and a run of each changed system, in worlds of their own."""
    config = settings_of(kind)
    counts = {name: Counts() for name in only}
    for number in range(worlds):
        world = world_of(size, 1000 * seed + number)
        if kind == "named":  # what somebody names is measured
            world = replace(world, is_labelled=True)
        for name in only:
            for pair in range(pairs):
                base = (seed, number, pair)
                runs = [run_of(world, Change(), (*base, 0, k), day=k + 1) for k in range(mean_of)]
                baseline: Any = runs[0] if mean_of == 1 else baseline_of(runs)
                kind_number = list(CHANGES).index(name)
                now = run_of(world, CHANGES[name], (*base, 1, kind_number), day=20)
                try:
                    verdict = gate(now, baseline, config)
                except ConfigError:  # a named metric that hardly a case has
                    counts[name].colours["refused"] += 1
                    continue
                counts[name].colours[verdict.colour] += 1
                for check in verdict.checks:
                    if check.outcome.value == "failed":
                        counts[name].causes[f"red: {check.subject}"] += 1
                    elif check.is_warning:
                        counts[name].causes[f"yellow: {check.subject}"] += 1
    return counts


def through_command(size: int, pairs: int, *, seed: int, only: Sequence[str]) -> dict[str, Counts]:
    """Pairs of files of answers through `evaluate` and `gate_run`."""
    counts = {name: Counts() for name in only}
    for number in range(pairs):
        world = world_of(size, 1000 * seed + number)
        for at, name in enumerate(only):
            with TemporaryDirectory() as folder:
                sides = (("before", Change()), ("now", CHANGES[name]))
                for side, (label, change) in enumerate(sides):
                    made = answers_of(world, change, (seed, number, at, side))
                    file = Path(folder, f"{label}.jsonl")
                    file.write_text("\n".join(map(json.dumps, made.rows())), "utf-8")
                    evaluate(file, out=Path(folder, label))
                config = GateConfig(baseline=str(Path(folder, "before")))
                verdict = gate_run(Path(folder, "now"), config)
                counts[name].colours[verdict.colour] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="how often the gate is red, yellow, green")
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 80, 200, 500])
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=3, help="of each world and change")
    parser.add_argument("--kind", choices=["default", "named"], default="default")
    parser.add_argument("--mean-of", type=int, default=1, help="runs in the baseline")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[*CHANGES], default=[*CHANGES])
    parser.add_argument("--command", type=int, default=0, help="pairs through the whole command")
    parser.add_argument("--causes", action="store_true", help="also which checks were no pass")
    asked = parser.parse_args()
    print("| system | cases | pairs | red | yellow | green |\n|---|---|---|---|---|---|")
    for size in asked.sizes:
        if asked.command:
            found = through_command(size, asked.command, seed=asked.seed, only=asked.only)
        else:
            found = simulate(
                size, asked.worlds, pairs=asked.pairs, kind=asked.kind, mean_of=asked.mean_of,
                seed=asked.seed, only=asked.only,
            )  # fmt: skip
        for name, counts in found.items():
            total = counts.colours.total()
            shares = " | ".join(
                f"{counts.colours[colour] / total:.1%}" for colour in ("red", "yellow", "green")
            )
            print(f"| {name} | {size} | {total} | {shares} |", flush=True)
            if asked.causes:
                for cause, number in counts.causes.most_common():
                    print(f"|   {cause} | | {number} | | | |", flush=True)


if __name__ == "__main__":
    main()
