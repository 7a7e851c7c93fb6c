"""How long a query takes with every reranker that uses no model.

    python -m benchmarks.rerank_latency [--queries 100] [--candidates 100] [--words 150]
        [--repeats 3]

Candidates of words from a Zipf-like vocabulary of 20,000, a question of eight of them, embeddings
of 384 numbers, links to three others; each query has candidates of its own that were not seen
before, after 20 to warm up. Beside it networkx and igraph on the same graph and LangChain's MMR on
the same embeddings.

Wall time is what a user waits; on a shared machine processor time says more, and the best of
several repeats says most. Libraries for matrices use one thread here (OPENBLAS_NUM_THREADS=1, set
before they are loaded): for matrices this small more of them only wait for each other.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rerank_quality import TOP
from ragbench import Chunk, Query, build_reranker, rerank
from ragbench.post.operator import RankedChunk, ranked

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
    "feedback, words": {"name": "feedback", "by": "words"},
    "feedback, embeddings": {"name": "feedback", "by": "embeddings"},
}
WITH_EMBEDDINGS = (
    "semantic",
    "ppr, links and neighbours",
    "mmr, embeddings",
    "feedback, embeddings",
)
WARM_UP = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    query: Query
    chunks: list[RankedChunk]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{options.candidates} candidates of {options.words} words, {options.queries} queries; ms"
    )
    for lists in (False, True):
        print("embeddings as", "lists in the metadata" if lists else "arrays beside the query")
        # Other texts at each repeat, of the same words: what was seen stays unseen.
        runs = [
            made_up(
                options.queries + WARM_UP, options.candidates, options.words, lists=lists, seed=seed
            )
            for seed in range(options.repeats)
        ]
        for name, settings in FREE.items():
            if not lists or name in WITH_EMBEDDINGS:
                show(name, [reranking(settings, cases) for cases in runs])
        if not lists:
            for name, peer in PEERS.items():
                show(f"  {name}", [[peer(case) for case in cases] for cases in runs])


def reranking(settings: object, cases: Sequence[Case]) -> list[Callable[[], object]]:
    reranker = build_reranker(settings)

    def call(case: Case) -> object:
        return rerank(case.query, case.chunks, reranker, on_error="raise", top_k=TOP)

    return [partial(call, case) for case in cases]


def show(name: str, runs: Sequence[Sequence[Callable[[], object]]]) -> None:
    """Prints the times of the repeat that took the least processor time."""
    measured: list[tuple[list[float], list[float]]] = []
    for calls in runs:
        wall: list[float] = []
        work: list[float] = []
        for call in calls:
            started, used = time.perf_counter(), time.process_time()
            call()
            work.append(1000 * (time.process_time() - used))
            wall.append(1000 * (time.perf_counter() - started))
        measured.append((wall[WARM_UP:], work[WARM_UP:]))
    wall, work = min(measured, key=lambda pair: np.percentile(pair[1], 95))
    print(f"  {name:28} wall {percentiles(wall)}  processor {percentiles(work)}", flush=True)


def percentiles(times: Sequence[float]) -> str:
    return f"p50 {np.percentile(times, 50):8.2f} p95 {np.percentile(times, 95):8.2f}"


def made_up(queries: int, candidates: int, words: int, *, lists: bool, seed: int) -> list[Case]:
    draw = random.Random(7)
    numbers = np.random.default_rng(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    vocabulary = ["".join(draw.choices(letters, k=draw.randint(3, 10))) for _ in range(20_000)]
    draw.seed(seed)
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


def igraph_call(case: Case) -> Callable[[], object]:
    igraph = importlib.import_module("igraph")

    def call() -> object:
        places = {one.chunk.id: at for at, one in enumerate(case.chunks)}
        edges = {
            (min(at, places[link]), max(at, places[link]))
            for at, one in enumerate(case.chunks)
            for link in one.chunk.metadata["links"]
        }
        graph = igraph.Graph(n=len(places), edges=sorted(edges))
        seeds = [one.score for one in case.chunks]
        return graph.personalized_pagerank(damping=0.3, reset=seeds)

    return call


def langchain_call(case: Case) -> Callable[[], object]:
    peer = importlib.import_module("langchain_core.vectorstores.utils")
    stored = case.query.chunk_embeddings or {}
    vectors = np.array([stored[one.chunk.id] for one in case.chunks])
    query = np.array(case.query.embedding)
    return lambda: peer.maximal_marginal_relevance(query, vectors, k=len(vectors))


PEERS = {
    "networkx, the same links": networkx_call,
    "igraph, the same links": igraph_call,
    "LangChain's MMR": langchain_call,
}


if __name__ == "__main__":
    main()
