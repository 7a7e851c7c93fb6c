"""A cross-encoder's quality against its time: what it reads of each chunk, and of how many.

    python -m benchmarks.rerank_curve --models FOLDER --cache FOLDER [--stage hybrid]
        [--limit 100] [--timed 25] COLLECTION...

Quality is that of the first five over the first stage's 20 chunks; what stands behind the chunks
that are read keeps its order. "fused" is the linear fusion with the first stage's and the stored
embeddings' scores. Times are of --timed questions whose pairs are read anew. Two threads share the
work: half of the processor time is what a question takes on two free cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.kept_logits import kept_logits
from benchmarks.rerank_data import Embedder, load, retrieve
from benchmarks.rerank_quality import Pool
from ragbench import build_reranker, rerank
from ragbench.post.operator import ranked

CANDIDATES = 20
WORDS: list[object] = [12, 16, 24, 32, 48]
CURVE: list[dict[str, object]] = [
    *({"passages": "words", "words": words, "first": 10} for words in WORDS),
    *({"passages": "words", "words": words, "first": 20} for words in WORDS),
    {"passages": "sentences", "words": 24, "first": 20},
    {"passages": "words", "words": 16, "windows": 2, "first": 20},
    {"passages": "whole", "first": 10},
    {"passages": "whole", "first": 20},
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--stage", default="hybrid")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--timed", type=int, default=25)
    options = parser.parse_args()
    for path in options.collections:
        collection = load(path, 225)
        pools = retrieve(
            collection, Embedder(options.models / "bge_small_en", options.cache), CANDIDATES
        )
        pool = Pool(
            questions=collection.questions,
            queries=pools.queries,
            found=pools.stages[options.stage],
        ).first(options.limit)
        print(f"\n{collection.name}, {options.stage}, {len(pool.found)} questions", flush=True)
        model = str(options.models / "reranker_en")
        curve(pool, model, options.cache / "logits.sqlite", options.timed)


def curve(pool: Pool, model: str, kept: Path, timed: int) -> None:
    base = pool.retrieved()
    print(f"  as retrieved: relevance@5 {base.relevance:.4f}, nDCG@5 {base.ndcg:.4f}")
    print(f"  {'':26}{'alone':>16}{'fused':>18}{'wall':>16}{'processor/2':>17}")
    print(f"  {'reads':26}{'rel@5':>8}{'nDCG@5':>8}{'rel@5':>10}{'nDCG@5':>8}", end="")
    print(f"{'p50':>8}{'p95':>8}{'p50':>9}{'p95':>8}")
    for settings in CURVE:
        reranker = {"name": "cross_encoder", "model": model, **settings}
        fusion = {"name": "linear", "rerankers": ["semantic", reranker], "given_weight": 1.0}
        with kept_logits(kept):
            told = ""
            for one, width in ((reranker, 8), (fusion, 10)):
                quality = pool.quality(pool.scores([one]))
                gains = [quality.relevance / base.relevance, quality.ndcg / base.ndcg]
                told += f"{gains[0] - 1:{width}.1%}{gains[1] - 1:8.1%}"
        wall, work = times(pool.first(timed), reranker)
        told += "".join(
            f"{np.percentile(values, share):8.0f}" for values in (wall, work) for share in (50, 95)
        )
        print(f"  {label(settings):26}{told}", flush=True)


def times(pool: Pool, settings: object) -> tuple[list[float], list[float]]:
    """Milliseconds of wall and of half the processor time, after two questions to warm up."""
    reranker = build_reranker(settings)
    wall: list[float] = []
    work: list[float] = []
    for query, chunks in zip(pool.queries, pool.found, strict=True):
        given = ranked(chunks)
        started, used = time.perf_counter(), time.process_time()
        rerank(query, given, reranker, on_error="raise")
        wall.append(1000 * (time.perf_counter() - started))
        work.append(500 * (time.process_time() - used))
    return wall[2:], work[2:]


def label(settings: Mapping[str, object]) -> str:
    if settings["passages"] == "whole":
        return f"{settings['first']} whole"
    windows = settings.get("windows", 1)
    many = f"{windows} x " if windows != 1 else ""
    kind = "words" if settings["passages"] == "words" else "words, sentences"
    return f"{settings['first']} x {many}{settings['words']} {kind}"


if __name__ == "__main__":
    main()
