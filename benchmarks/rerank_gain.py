"""What each reranker gains over each first stage, with the ceiling beside it.

    python -m benchmarks.rerank_gain --models FOLDER --cache FOLDER [--depth 20]
        [--limit 225] [--stages sparse,dense,hybrid] [--no-cross-encoder] [--whole N]
        COLLECTION...

A COLLECTION is as in rerank_data.py; --models holds bge_small_en/ and reranker_en/ with
model.onnx and tokenizer.json each (`make models` brings them). --cache keeps embeddings and the
cross-encoder's logits. --whole measures the cross-encoder over whole chunks, too, on N questions.

Printed are gains in relevance@5, the mean grade of the first five chunks, and in nDCG@5. The
ceiling is the best order of the same candidates. Rows with a star have weights or settings chosen
on four fifths of the questions and are measured on the fifth, five times.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from benchmarks.kept_logits import kept_logits
from benchmarks.rerank_data import Embedder, corpus_file, load, retrieve
from benchmarks.rerank_learning import chosen, learned
from benchmarks.rerank_quality import Pool, Quality, Table

LINEAR: dict[str, object] = {"name": "linear", "rerankers": ["semantic"], "given_weight": 1.0}
BY_EMBEDDINGS: dict[str, object] = {"name": "feedback", "by": "embeddings"}
CROSS_ENCODER: dict[str, object] = {"name": "cross_encoder", "passages": "words", "words": 24}


def rows(corpus: str) -> dict[str, list[object]]:
    """Rerankers one behind the other: each builds on the scores of the one before it."""
    by_words = {"name": "feedback", "by": "words", "corpus": corpus}
    return {
        "lexical": ["lexical"],
        "lexical, corpus": [{"name": "lexical", "corpus": corpus}],
        "semantic": ["semantic"],
        "mmr 0.7": [{"name": "mmr", "balance": 0.7}],
        "ppr": ["ppr"],
        "feedback, words": [{"name": "feedback", "by": "words"}],
        "feedback, words, corpus": [by_words],
        "feedback, embeddings": [BY_EMBEDDINGS],
        "rrf given+semantic": [{"name": "rrf", "rerankers": ["semantic"], "given_weight": 1.0}],
        "linear": [LINEAR],
        "linear, ppr": [LINEAR, "ppr"],
        "linear, feedback words": [LINEAR, by_words],
        "linear, feedback emb.": [LINEAR, BY_EMBEDDINGS],
    }


def chains(corpus: str) -> dict[str, list[object]]:
    """What a user may try without a model: fusion, then feedback with several settings."""
    by_words = {"name": "feedback", "by": "words", "corpus": corpus}
    found: dict[str, list[object]] = {
        "words": [by_words],
        "linear, words": [LINEAR, by_words],
        "linear, words, emb.": [LINEAR, by_words, BY_EMBEDDINGS],
        "linear, emb., words": [LINEAR, BY_EMBEDDINGS, by_words],
        "linear, ppr": [LINEAR, "ppr"],
    }
    for examples, share in ((3, 0.4), (3, 0.6), (5, 0.4), (5, 0.5), (10, 0.4)):
        settings = {**BY_EMBEDDINGS, "examples": examples, "query_weight": share}
        found[f"linear, emb. {examples}, {share}"] = [LINEAR, settings]
    return found


LEARNED = (
    "lexical, corpus",
    "semantic",
    "ppr",
    "feedback, words, corpus",
    "feedback, embeddings",
    "linear, feedback words",
    "linear, feedback emb.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--limit", type=int, default=225)
    parser.add_argument("--stages", default="sparse,dense,hybrid")
    parser.add_argument("--no-cross-encoder", action="store_true")
    parser.add_argument("--whole", type=int, default=0, metavar="N")
    options = parser.parse_args()
    embedder = Embedder(options.models / "bge_small_en", options.cache)
    model = None if options.no_cross_encoder else str(options.models / "reranker_en")
    with kept_logits(options.cache / "logits.sqlite") if model else nullcontext():
        for path in options.collections:
            collection = load(path, options.limit)
            pools = retrieve(collection, embedder, options.depth)
            for stage in options.stages.split(","):
                print(f"\n{collection.name}, {stage}, top {options.depth}", end="")
                pool = Pool(
                    questions=collection.questions,
                    queries=pools.queries,
                    found=pools.stages[stage],
                )
                measure(pool, corpus_file(path), model, options.whole)


def measure(pool: Pool, corpus: str, model: str | None, whole: int) -> None:
    base = pool.retrieved()
    print(f", {len(pool.found)} questions: {base.relevance:.4f}, nDCG@5 {base.ndcg:.4f}")
    show("ceiling", pool.ceiling(), base)
    tables: dict[str, Table] = {"given": pool.given()}
    for name, settings in rows(corpus).items():
        tables[name] = pool.scores(settings)
        show(name, pool.quality(tables[name]), base)
    parts = {name: tables[name] for name in ("given", *LEARNED)}
    show_learned("learned, no model *", pool, parts, base)
    settings_tables = {name: pool.scores(chain) for name, chain in chains(corpus).items()}
    quality, names = chosen(pool, settings_tables)
    show("chosen settings *", quality, base, f"  ({', '.join(dict.fromkeys(names))})")
    if model is None:
        return
    reader = {**CROSS_ENCODER, "model": model}
    with_model: dict[str, list[object]] = {
        "cross-encoder": [reader],
        "linear given+sem+ce": [fusion(reader)],
        "linear, ce, feedback": [fusion(reader), BY_EMBEDDINGS],
    }
    for name, settings in with_model.items():
        tables[name] = parts[name] = pool.scores(settings)
        show(name, pool.quality(tables[name]), base)
    show_learned("learned with ce *", pool, parts, base)
    if whole:
        few = pool.first(whole)
        for name, one in (
            (f"ce, whole, {whole} q.", {**reader, "passages": "whole"}),
            (f"ce, 24 words, {whole} q.", reader),
        ):
            table = few.scores([one])
            show(name, few.quality(table), few.retrieved())


def fusion(other: object) -> dict[str, object]:
    return {"name": "linear", "rerankers": ["semantic", other], "given_weight": 1.0}


def show(name: str, quality: Quality, base: Quality, more: str = "") -> None:
    pairs = ((quality.relevance, base.relevance), (quality.ndcg, base.ndcg))
    gains = [100 * (new / old - 1) for new, old in pairs]
    print(f"  {name:26} relevance@5 {gains[0]:+6.1f}%  nDCG@5 {gains[1]:+6.1f}%{more}", flush=True)


def show_learned(name: str, pool: Pool, tables: dict[str, Table], base: Quality) -> None:
    quality, weights = learned(pool, tables)
    told = ", ".join(f"{one} {weight:.2f}" for one, weight in weights.items() if weight >= 0.05)
    show(name, quality, base, f"  ({told})")


if __name__ == "__main__":
    main()
