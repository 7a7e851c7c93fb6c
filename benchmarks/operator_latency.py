"""How long each operator takes for one question with 100 candidates of 150 words.

    python -m benchmarks.operator_latency [--queries 60] [--repeats 3]

Prints p50 and p95 of the wall time and of the processor time a question, in milliseconds, of the
repeat that took the least processor time. Texts are drawn anew for every question and repeat, so
that nothing is found in a cache but words; the first 20 questions are for warming up. Operators
that ask a language model are left out: their time is the model's. Those that ask a service are
given one in memory.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench import Chunk, Query, build_operator
from ragbench.post.build import Resources
from ragbench.post.operator import Operator, OperatorInput, ranked

CANDIDATES, WORDS, WARM_UP = 100, 150, 20
OPERATORS: list[dict[str, Any]] = [
    {"action": "none"},
    {"action": "rerank", "type": "lexical"},
    {"action": "filter", "type": "threshold", "min_score": 0.3},
    {"action": "filter", "type": "top_k", "k": 5},
    {"action": "filter", "type": "token_budget", "budget": 2000},
    {"action": "filter", "type": "token_budget", "budget": 2000, "policy": "truncate"},
    {"action": "filter", "type": "dedup"},
    {"action": "filter", "type": "dedup_near"},
    {"action": "merge", "type": "link_expand", "fusion": "rrf"},
    {"action": "merge", "type": "multi_query", "fusion": "weighted", "queries": [{"query": "q"}]},
    {"action": "augment", "type": "context"},
    {"action": "augment", "type": "metadata", "fields": ["title", "time"]},
    {"action": "augment", "type": "temporal", "field": "time"},
    {"action": "augment", "type": "neighbours"},
    {"action": "compress", "type": "extractive", "budget": 500},
    {"action": "format", "type": "template"},
    {"action": "format", "type": "structured"},
    {"action": "format", "type": "chat"},
    {"action": "format", "type": "xml"},
    {"action": "format", "type": "long_context"},
]


@dataclass(slots=True)
class Texts:
    """Words by Zipf's law, in sentences of 8 to 22 words."""

    draw: random.Random
    words: list[str] = field(default_factory=list[str])
    weights: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        letters = "etaoinshrdlu"
        self.words = [
            "".join(self.draw.choices(letters, k=self.draw.randint(2, 9))) for _ in range(20_000)
        ]
        shares = [1 / rank for rank in range(1, len(self.words) + 1)]
        self.weights = list(itertools.accumulate(shares))

    def passage(self, size: int) -> str:
        words = self.draw.choices(self.words, cum_weights=self.weights, k=size)
        at = 0
        while at < size:
            end = min(size, at + self.draw.randint(8, 22))
            words[at] = words[at].title()
            words[end - 1] += "."
            at = end
        return " ".join(words)

    def question(self) -> str:
        return " ".join(self.draw.choices(self.words, cum_weights=self.weights, k=8)) + "?"


@dataclass(slots=True)
class Memory:
    """A service that knows five chunks."""

    chunks: Sequence[Chunk]

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        return self.chunks[:top_k]

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        return self.chunks[:top_k]


def contexts(texts: Texts, count: int) -> list[OperatorInput]:
    found: list[OperatorInput] = []
    for number in range(count):
        chunks = [
            Chunk(
                id=f"{number}-{at}",
                text=texts.passage(WORDS),
                score=1 - at / CANDIDATES,
                document_id=f"d{at % 20}",
                start=at * 1000,
                end=at * 1000 + 900,
                metadata={"title": f"Title {at}", "time": f"2024-0{at % 9 + 1}-15T08:00:00Z"},
            )
            for at in range(CANDIDATES)
        ]
        found.append(
            OperatorInput(query=Query(text=texts.question()), chunks=tuple(ranked(chunks)))
        )
    return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] * 1e3


def measure(operator: Operator, given: Sequence[OperatorInput]) -> tuple[list[float], list[float]]:
    wall: list[float] = []
    processor: list[float] = []
    for context in given:
        started, started_processor = time.perf_counter(), time.process_time()
        operator.apply(context)
        processor.append(time.process_time() - started_processor)
        wall.append(time.perf_counter() - started)
    return wall[WARM_UP:], processor[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    texts = Texts(random.Random(1))
    service = Memory([Chunk(id=f"new-{at}", text=texts.passage(WORDS)) for at in range(5)])
    runs = [contexts(texts, options.queries + WARM_UP) for _ in range(options.repeats)]
    print(f"{CANDIDATES} candidates of {WORDS} words, {options.queries} questions, milliseconds")
    print(f"{'operator':<34}{'wall p50':>9}{'p95':>8}{'cpu p50':>10}{'p95':>8}")
    for settings in OPERATORS:
        operator = build_operator(settings, Resources(service=service))
        measured = [measure(operator, given) for given in runs]
        wall, processor = min(measured, key=lambda pair: percentile(pair[1], 0.95))
        label = operator.name + (", truncate" if settings.get("policy") else "")
        print(
            f"{label:<34}{percentile(wall, 0.5):9.2f}{percentile(wall, 0.95):8.2f}"
            f"{percentile(processor, 0.5):10.2f}{percentile(processor, 0.95):8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
