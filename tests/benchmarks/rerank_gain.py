"""What each reranker gains over each first stage, with the ceiling beside it.

    python -m tests.benchmarks.rerank_gain --models FOLDER --cache FOLDER [--depth 20]
        [--limit 200] [--cross-encoder-limit 60] [--stages sparse,dense,hybrid]
        [--no-whole] [--rows] COLLECTION...

A COLLECTION is as in rerank_data.py; --models holds bge_small_en/ and reranker_en/ with
model.onnx and tokenizer.json each (`make models` brings them).

``relevance`` is the mean grade of the first five chunks; nDCG@5 takes grades as gains and all
judged chunks for the ideal. The ceiling is the best order of the same candidates. Rows with a star
have settings learned on one half of the questions and are measured on the other, both ways round.
The cross-encoder is measured on fewer questions, beside a baseline over the same ones.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragbench.postretrieval.apply import rerank
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.ranked import RankedChunk, ranked
from ragbench.postretrieval.registry import build_reranker
from ragbench.postretrieval.reranker import Reranker
from ragbench.postretrieval.rerankers.normalise import standard
from ragbench.records.corpus import Chunk
from tests.benchmarks.rerank_data import Collection, Embedder, Question, load, retrieve

TOP = 5

Order = list[str]
"""Chunk ids, best first."""

LINEAR: dict[str, object] = {"name": "linear", "rerankers": ["semantic"], "given_weight": 1.0}
MODEL_FREE: dict[str, list[object]] = {
    "lexical": ["lexical"],
    "semantic": ["semantic"],
    "mmr 0.7": [{"name": "mmr", "balance": 0.7}],
    "ppr": ["ppr"],
    "ppr by similarity": [{"name": "ppr", "seeds": "similarity"}],
    "rrf given+semantic": [{"name": "rrf", "rerankers": ["semantic"], "given_weight": 1.0}],
    "rrf given+semantic+lexical": [
        {"name": "rrf", "rerankers": ["semantic", "lexical"], "given_weight": 1.0}
    ],
    "linear given+semantic": [LINEAR],
    "linear given+semantic, then ppr": [LINEAR, "ppr"],
}
"""Rerankers one behind the other: each builds on the scores of the one before it."""
LEARNED = ("given", "lexical", "semantic", "ppr", "linear given+semantic, then ppr")


@dataclass(frozen=True, slots=True)
class Stored:
    """A reranker whose scores were computed before."""

    name: str
    table: Mapping[str, Mapping[str, float]]

    def score(self, query: Query, chunks: Sequence[Chunk]) -> list[float]:
        known = self.table[query.text]
        return [known[chunk.id] for chunk in chunks]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    relevance: float
    ndcg: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--cross-encoder-limit", type=int, default=60)
    parser.add_argument("--no-whole", action="store_true", help="no cross-encoder of whole chunks")
    parser.add_argument("--stages", default="sparse,dense,hybrid")
    parser.add_argument("--rows", action="store_true", help="one JSON object a row instead")
    options = parser.parse_args()
    embedder = Embedder(options.models / "bge_small_en", options.cache)
    for path in options.collections:
        collection = load(path, options.limit)
        pools = retrieve(collection, embedder, options.depth)
        for stage in options.stages.split(","):
            found = pools.stages[stage]
            report = Report(collection, stage, options.depth, as_rows=options.rows)
            measure(report, collection, pools.queries, found)
            few = options.cross_encoder_limit
            if few:
                part = Collection(
                    name=collection.name, chunks=[], questions=collection.questions[:few]
                )
                measure_cross_encoder(
                    report,
                    part,
                    pools.queries[:few],
                    found[:few],
                    options.models / "reranker_en",
                    whole=not options.no_whole,
                )


class Report:
    """Prints rows: a name, quality, and its gain over a baseline."""

    def __init__(self, collection: Collection, stage: str, depth: int, *, as_rows: bool) -> None:
        self._collection = collection.name
        self._stage = stage
        self._depth = depth
        self._as_rows = as_rows
        self._base = Quality(relevance=0, ndcg=0)

    def base(self, name: str, quality: Quality, ceiling: Quality, questions: int) -> None:
        self._base = quality
        if not self._as_rows:
            print(f"\n{self._collection}, {self._stage}, top {self._depth}, {questions} questions")
        self.row(name, quality)
        self.row("ceiling", ceiling)

    def row(self, name: str, quality: Quality, seconds: float | None = None) -> None:
        gains = [
            100 * (new / old - 1) if old else math.nan
            for new, old in (
                (quality.relevance, self._base.relevance),
                (quality.ndcg, self._base.ndcg),
            )
        ]
        if self._as_rows:
            row = {"collection": self._collection, "stage": self._stage, "depth": self._depth}
            row |= {"reranker": name, "relevance": quality.relevance, "ndcg": quality.ndcg}
            print(json.dumps(row), flush=True)
            return
        took = "" if seconds is None else f"  {1000 * seconds:7.1f} ms/query"
        print(
            f"  {name:34} relevance@5 {quality.relevance:.4f} {gains[0]:+6.1f}%  "
            f"nDCG@5 {quality.ndcg:.4f} {gains[1]:+6.1f}%{took}",
            flush=True,
        )


def measure(
    report: Report, collection: Collection, queries: list[Query], found: list[list[Chunk]]
) -> None:
    questions = collection.questions
    start_report(report, questions, found)
    tables: dict[str, Mapping[str, Mapping[str, float]]] = {"given": given_table(queries, found)}
    for name, settings in MODEL_FREE.items():
        rerankers = [build_reranker(one) for one in settings]
        started = time.perf_counter()
        tables[name] = score_table(rerankers, queries, found)
        seconds = (time.perf_counter() - started) / len(queries)
        report.row(name, quality_of(Stored(name, tables[name]), questions, queries, found), seconds)
    members = {name: tables[name] for name in LEARNED}
    report.row("linear, learned weights *", learned(members, questions, queries, found))
    report.row("linear, then ppr, tuned *", tuned(questions, queries, found))


def measure_cross_encoder(
    report: Report,
    collection: Collection,
    queries: list[Query],
    found: list[list[Chunk]],
    model: Path,
    *,
    whole: bool,
) -> None:
    questions = collection.questions
    start_report(report, questions, found)
    tables: dict[str, Mapping[str, Mapping[str, float]]] = {"given": given_table(queries, found)}
    for name in LEARNED[1:]:
        rerankers = [build_reranker(one) for one in MODEL_FREE[name]]
        tables[name] = score_table(rerankers, queries, found)
    kinds: dict[str, dict[str, object]] = {
        "cross-encoder, best 30 words": {"passages": "sentences", "words": 30}
    }
    if whole:
        kinds["cross-encoder, whole chunks"] = {"passages": "whole"}
    for name, settings in kinds.items():
        reranker = build_reranker({"name": "cross_encoder", "model": str(model), **settings})
        started = time.perf_counter()
        tables[name] = score_table([reranker], queries, found)
        seconds = (time.perf_counter() - started) / len(queries)
        stored = Stored(name, tables[name])
        report.row(name, quality_of(stored, questions, queries, found), seconds)
        fused = build_reranker(
            {
                "name": "rrf",
                "rerankers": [stored, Stored("semantic", tables["semantic"])],
                "given_weight": 1.0,
            }
        )
        report.row("  rrf given+semantic+it", quality_of(fused, questions, queries, found))
    report.row("linear, learned weights *", learned(tables, questions, queries, found))


def start_report(report: Report, questions: list[Question], found: list[list[Chunk]]) -> None:
    ceiling = [
        sorted(
            [chunk.id for chunk in chunks],
            key=lambda id_, gains=question.gains: -gains.get(id_, 0),  # type: ignore[misc]  # a default of a lambda has no type
        )
        for question, chunks in zip(questions, found, strict=True)
    ]
    before = [[chunk.id for chunk in chunks] for chunks in found]
    report.base("as retrieved", mean(questions, before), mean(questions, ceiling), len(questions))


def given_table(
    queries: list[Query], found: list[list[Chunk]]
) -> Mapping[str, Mapping[str, float]]:
    return {
        query.text: {chunk.id: chunk.score or 0.0 for chunk in chunks}
        for query, chunks in zip(queries, found, strict=True)
    }


def score_table(
    rerankers: Sequence[Reranker], queries: list[Query], found: list[list[Chunk]]
) -> Mapping[str, Mapping[str, float]]:
    table: dict[str, Mapping[str, float]] = {}
    for query, chunks in zip(queries, found, strict=True):
        current: Sequence[RankedChunk] = ranked(chunks)
        for reranker in rerankers:
            current = rerank(query, current, reranker, on_error="raise").chunks
        table[query.text] = {one.chunk.id: one.score or 0.0 for one in current}
    return table


def quality_of(
    reranker: Reranker,
    questions: list[Question],
    queries: list[Query],
    found: list[list[Chunk]],
) -> Quality:
    orders = [
        [
            one.chunk.id
            for one in rerank(query, ranked(chunks), reranker, on_error="raise", top_k=TOP).chunks
        ]
        for query, chunks in zip(queries, found, strict=True)
    ]
    return mean(questions, orders)


def mean(questions: list[Question], orders: list[Order]) -> Quality:
    pairs = list(zip(questions, orders, strict=True))
    return Quality(
        relevance=sum(relevance(one, order) for one, order in pairs) / len(pairs),
        ndcg=sum(ndcg(one, order) for one, order in pairs) / len(pairs),
    )


def relevance(question: Question, order: Order) -> float:
    return math.fsum(question.gains.get(id_, 0.0) for id_ in order[:TOP]) / TOP


def ndcg(question: Question, order: Order) -> float:
    def discounted(gains: Sequence[float]) -> float:
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))

    ideal = sorted(question.gains.values(), reverse=True)[:TOP]
    return discounted([question.gains.get(id_, 0.0) for id_ in order[:TOP]]) / discounted(ideal)


def learned(
    tables: Mapping[str, Mapping[str, Mapping[str, float]]],
    questions: list[Question],
    queries: list[Query],
    found: list[list[Chunk]],
    tries: int = 400,
) -> Quality:
    """Weights of standardised scores: random search on one half, measured on the other."""
    draw = np.random.default_rng(7)
    usable = [at for at, chunks in enumerate(found) if chunks]
    columns = {
        at: np.array(
            [
                standard([tables[name][queries[at].text][chunk.id] for chunk in found[at]])
                for name in tables
            ]
        )
        for at in usable
    }
    candidates = draw.dirichlet([0.6] * len(tables), tries)

    def order(at: int, weights: NDArray[np.float64]) -> Order:
        best = np.argsort(-(weights @ columns[at]), kind="stable")[:TOP]
        return [found[at][place].id for place in best]

    def value(places: Sequence[int], weights: NDArray[np.float64]) -> float:
        return sum(relevance(questions[at], order(at, weights)) for at in places)

    orders: list[Order] = [[] for _ in questions]
    for trained, tested in halves(usable):
        best = max(candidates, key=lambda weights: value(trained, weights))
        for at in tested:
            orders[at] = order(at, best)
    return mean(questions, orders)


def tuned(questions: list[Question], queries: list[Query], found: list[list[Chunk]]) -> Quality:
    """The fusion's weight, the walk's damping and neighbours: chosen on one half, measured on the
    other."""
    tried: list[list[Order]] = []
    for given, damping, neighbours in itertools.product((0.5, 1, 2), (0.2, 0.4), (3, 5, 8)):
        chain = [
            build_reranker({**LINEAR, "given_weight": given}),
            build_reranker({"name": "ppr", "damping": damping, "neighbours": neighbours}),
        ]
        table = score_table(chain, queries, found)
        tried.append([list(table[query.text]) for query in queries])
    orders: list[Order] = [[] for _ in questions]
    for trained, tested in halves(range(len(questions))):
        best = max(
            tried, key=lambda given: sum(relevance(questions[at], given[at]) for at in trained)
        )
        for at in tested:
            orders[at] = best[at]
    return mean(questions, orders)


def halves(places: Sequence[int]) -> list[tuple[Sequence[int], Sequence[int]]]:
    return [(places[::2], places[1::2]), (places[1::2], places[::2])]


if __name__ == "__main__":
    main()
