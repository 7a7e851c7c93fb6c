"""How long a query takes: every reranker that uses no model, and the cross-encoder's curve.

    python -m tests.benchmarks.rerank_latency free [--queries 200] [--candidates 100] [--words 150]
    python -m tests.benchmarks.rerank_latency curve --models FOLDER --cache FOLDER
        [--limit 40] COLLECTION...

``free``: candidates of words from a Zipf-like vocabulary of 20,000, a question of eight of them,
embeddings of 384 numbers, links to three others; each query has candidates of its own that were
not seen before. Beside it networkx on the same graph and LangChain's MMR on the same embeddings.
``curve``: quality of the first five against time, over BM25's first 10 or 20 chunks; what stands
behind them keeps its order.

Wall time is what a user waits; on a shared machine processor time says more. Two threads share a
cross-encoder's work, so that half of its processor time is what it takes on two free cores.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.postretrieval.apply import rerank
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.ranked import RankedChunk, ranked
from ragbench.postretrieval.registry import build_reranker
from ragbench.records.corpus import Chunk
from tests.benchmarks.rerank_data import Embedder, load, retrieve
from tests.benchmarks.rerank_gain import TOP, Order, mean

FREE: dict[str, object] = {
    "semantic": "semantic",
    "time_weighted": "time_weighted",
    "ppr, links and neighbours": "ppr",
    "ppr, links": {"name": "ppr", "neighbours": 0},
    "weighted": {
        "name": "weighted",
        "factors": [{"field": "score"}, {"field": "recency"}, {"field": "likes"}],
    },
    "lexical": "lexical",
    "rrf given+semantic+lexical": {
        "name": "rrf",
        "rerankers": ["semantic", "lexical"],
        "given_weight": 1,
    },
    "linear given+semantic": {"name": "linear", "rerankers": ["semantic"], "given_weight": 1},
    "mmr, embeddings": "mmr",
    "mmr, words": {"name": "mmr", "similarity": "lexical", "relevance": "score"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    query: Query
    chunks: list[RankedChunk]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["free", "curve"])
    parser.add_argument("collections", nargs="*")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--limit", type=int, default=40)
    options = parser.parse_intermixed_args()
    if options.command == "free":
        free(options.queries, options.candidates, options.words)
    else:
        for path in options.collections:
            curve(path, options.models, options.cache, options.limit)


def free(queries: int, candidates: int, words: int) -> None:
    print(f"{candidates} candidates of {words} words, {queries} queries after 20 to warm up; ms")
    for lists in (False, True):
        print("embeddings as", "lists in the metadata" if lists else "arrays beside the query")
        cases = made_up(queries + 20, candidates, words, lists=lists)
        for name, settings in FREE.items():
            if (
                lists and "lexical" not in name and ("semantic" in name or "embeddings" in name)
            ) or not lists:
                show(name, settings, cases)
        if not lists:
            show_call("  networkx, the same links", [networkx_call(case) for case in cases[:60]])
            show_call("  LangChain's MMR", [langchain_call(case) for case in cases])


def show(name: str, settings: object, cases: Sequence[Case]) -> None:
    reranker = build_reranker(settings)
    calls = [
        lambda case=case: rerank(case.query, case.chunks, reranker, on_error="raise", top_k=TOP)
        for case in cases
    ]
    show_call(name, calls)


def show_call(name: str, calls: Sequence[Callable[[], object]]) -> None:
    wall: list[float] = []
    work: list[float] = []
    for call in calls:
        started, used = time.perf_counter(), time.process_time()
        call()
        wall.append(1000 * (time.perf_counter() - started))
        work.append(1000 * (time.process_time() - used))
    print(
        f"  {name:28} wall {percentiles(wall[20:])}  processor {percentiles(work[20:])}", flush=True
    )


def percentiles(times: Sequence[float]) -> str:
    return f"p50 {np.percentile(times, 50):8.2f} p95 {np.percentile(times, 95):8.2f}"


def made_up(queries: int, candidates: int, words: int, *, lists: bool) -> list[Case]:
    draw = random.Random(7)
    numbers = np.random.default_rng(7)
    letters = "etaoinshrdlucmfwypvbgk"
    vocabulary = ["".join(draw.choices(letters, k=draw.randint(3, 10))) for _ in range(20_000)]
    odds = [1 / (rank + 3) for rank in range(len(vocabulary))]
    cases: list[Case] = []
    for _ in range(queries):
        drawn = draw.choices(vocabulary, odds, k=candidates * words)
        vectors = numbers.standard_normal((candidates, 384)).astype(np.float32)
        chunks = [
            Chunk(
                id=str(at),
                text=sentences(drawn[at * words : (at + 1) * words]),
                score=1 / (at + 1),
                metadata={
                    "timestamp": f"2024-05-{at % 28 + 1:02}T10:00:00Z",
                    "likes": at % 7 / 7,
                    "links": [str(draw.randrange(candidates)) for _ in range(3)],
                    **({"embedding": vectors[at].tolist()} if lists else {}),
                },
            )
            for at in range(candidates)
        ]
        by_id: Any = None if lists else {str(at): vector for at, vector in enumerate(vectors)}
        query = Query(
            text=" ".join(draw.choices(vocabulary, odds, k=8)) + "?",
            embedding=numbers.standard_normal(384).tolist(),
            chunk_embeddings=by_id,
        )
        cases.append(Case(query=query, chunks=ranked(chunks)))
    return cases


def sentences(words: list[str]) -> str:
    return " ".join(
        " ".join(words[at : at + 15]).capitalize() + "." for at in range(0, len(words), 15)
    )


def networkx_call(case: Case) -> Callable[[], object]:
    networkx = importlib.import_module("networkx")

    def call() -> object:
        graph = networkx.Graph()
        graph.add_nodes_from(one.chunk.id for one in case.chunks)
        for one in case.chunks:
            graph.add_edges_from((one.chunk.id, link) for link in one.chunk.metadata["links"])
        seeds = {one.chunk.id: one.score for one in case.chunks}
        return networkx.pagerank(graph, alpha=0.3, personalization=seeds)

    return call


def langchain_call(case: Case) -> Callable[[], object]:
    peer = importlib.import_module("langchain_core.vectorstores.utils")
    stored = case.query.chunk_embeddings or {}
    vectors = np.array([stored[one.chunk.id] for one in case.chunks])
    query = np.array(case.query.embedding)
    return lambda: peer.maximal_marginal_relevance(query, vectors, k=len(vectors))


def curve(path: str, models: Path, cache: Path, limit: int) -> None:
    collection = load(path, 200)
    pools = retrieve(collection, Embedder(models / "bge_small_en", cache), 20)
    questions = collection.questions[:limit]
    found = pools.stages["sparse"][:limit]
    base = mean(questions, [[chunk.id for chunk in chunks] for chunks in found])
    print(f"\n{collection.name}, BM25, {len(found)} questions")
    print(f"  {'as retrieved':24} relevance@5 {base.relevance:.4f}  nDCG@5 {base.ndcg:.4f}")
    for settings in CURVE:
        reranker = build_reranker(
            {
                "name": "cross_encoder",
                "model": str(models / "reranker_en"),
                **{key: value for key, value in settings.items() if key != "depth"},
            }
        )
        depth = int(str(settings["depth"]))
        orders: list[Order] = []
        wall: list[float] = []
        work: list[float] = []
        for query, chunks in zip(pools.queries[:limit], found, strict=True):
            read = ranked(chunks[:depth])
            started, used = time.perf_counter(), time.process_time()
            done = rerank(query, read, reranker, on_error="raise").chunks
            wall.append(1000 * (time.perf_counter() - started))
            work.append(1000 * (time.process_time() - used) / 2)
            orders.append([one.chunk.id for one in done] + [one.id for one in chunks[depth:]])
        quality = mean(questions, orders)
        name = f"{depth} x " + (
            "whole"
            if settings["passages"] == "whole"
            else f"{settings.get('windows', 1)} x {settings['words']} words"
        )
        print(
            f"  {name:24} relevance@5 {quality.relevance:.4f}  nDCG@5 {quality.ndcg:.4f}  "
            f"wall {percentiles(wall[2:])}  processor/2 {percentiles(work[2:])}",
            flush=True,
        )


def settings_of(words: int, depth: int, windows: int = 1) -> dict[str, object]:
    return {"passages": "sentences", "words": words, "windows": windows, "depth": depth}


CURVE: list[dict[str, object]] = [
    *(settings_of(words, depth) for depth in (10, 20) for words in (10, 20, 30, 45)),
    settings_of(20, 20, windows=2),
    {"passages": "whole", "depth": 20},
]


if __name__ == "__main__":
    main()
