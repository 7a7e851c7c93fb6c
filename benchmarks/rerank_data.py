"""Labelled collections and first stages for the benchmarks of rerankers.

A collection is a folder in BEIR format, or the common beginning of the names of
PREFIX.passages.jsonl (pid, text, perhaps title) and PREFIX.questions.jsonl (question, gold or pid,
perhaps answerable). Questions without a relevant text are left out.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench import Chunk, Query
from ragbench.search.pipeline.baseline import Bm25Index

Vectors = NDArray[np.float32]

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
"""What the bge models want before a question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    text: str
    gains: dict[str, float]
    """Chunk id to its grade, above 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    name: str
    chunks: list[Chunk]
    questions: list[Question]


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load(path: str, limit: int, seed: int = 7) -> Collection:
    """A collection with at most ``limit`` questions, drawn at random."""
    collection = from_beir(Path(path)) if Path(path).is_dir() else from_pair(path)
    questions = [one for one in collection.questions if one.gains]
    if len(questions) > limit:
        questions = random.Random(seed).sample(questions, limit)
    return replace(collection, questions=questions)


def corpus_file(path: str) -> str:
    """The file that holds the collection's texts."""
    return str(Path(path) / "corpus.jsonl") if Path(path).is_dir() else f"{path}.passages.jsonl"


def from_beir(folder: Path) -> Collection:
    chunks = [
        Chunk(id=row["_id"], text=row["text"], metadata={"title": row.get("title")})
        for row in rows(folder / "corpus.jsonl")
    ]
    gains: dict[str, dict[str, float]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            gains.setdefault(query, {})[document] = float(grade)
    questions = [
        Question(text=row["text"], gains=gains.get(row["_id"], {}))
        for row in rows(folder / "queries.jsonl")
    ]
    return Collection(name=folder.name, chunks=chunks, questions=questions)


def from_pair(prefix: str) -> Collection:
    chunks = [
        Chunk(id=row["pid"], text=row["text"], metadata={"title": row.get("title")})
        for row in rows(Path(f"{prefix}.passages.jsonl"))
    ]
    questions = [
        Question(
            text=row["question"],
            gains=dict.fromkeys(row.get("gold") or [row["pid"]], 1.0)
            if row.get("answerable", True)
            else {},
        )
        for row in rows(Path(f"{prefix}.questions.jsonl"))
    ]
    return Collection(name=Path(prefix).name, chunks=chunks, questions=questions)


class Embedder:
    """A sentence encoder of the BERT family in a folder: model.onnx and tokenizer.json."""

    def __init__(self, folder: Path, cache: Path, threads: int = 2) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: Any = onnxruntime.InferenceSession(folder / "model.onnx", options)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(512)
        self._cache = cache
        self._threads = threads

    def embed(self, texts: Sequence[str], name: str) -> Vectors:
        """Unit vectors of the first token's last state; kept in the cache folder."""
        digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]
        stored = self._cache / f"{name}-{digest}.npy"
        if not stored.exists():
            self._cache.mkdir(parents=True, exist_ok=True)
            with ThreadPoolExecutor(self._threads) as pool:
                np.save(stored, np.stack(list(pool.map(self._one, texts))))
        vectors: Vectors = np.load(stored)
        return vectors

    def _one(self, text: str) -> Vectors:
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        state = self._session.run(
            None,
            {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0},
        )[0][0, 0]
        vector: Vectors = (state / np.linalg.norm(state)).astype(np.float32)
        return vector


@dataclass(frozen=True, kw_only=True, slots=True)
class Pools:
    """What three first stages found for the same questions, each ``depth`` chunks deep."""

    queries: list[Query]
    """With their embeddings and those of all chunks."""
    stages: dict[str, list[list[Chunk]]]
    """``sparse`` (BM25), ``dense`` (cosine) and ``hybrid`` (their reciprocal-rank fusion)."""


def retrieve(collection: Collection, embedder: Embedder, depth: int) -> Pools:
    texts = [question.text for question in collection.questions]
    titled = [
        f"{chunk.metadata['title']}\n{chunk.text}" if chunk.metadata.get("title") else chunk.text
        for chunk in collection.chunks
    ]
    chunk_vectors = embedder.embed(titled, f"{collection.name}-chunks")
    query_vectors = embedder.embed([QUERY_PREFIX + text for text in texts], f"{collection.name}-q")
    by_id = {chunk.id: row for chunk, row in zip(collection.chunks, chunk_vectors, strict=True)}
    queries = [
        Query(text=text, embedding=vector.tolist(), chunk_embeddings=by_id)  # pyright: ignore[reportArgumentType]  # arrays are sequences of numbers
        for text, vector in zip(texts, query_vectors, strict=True)
    ]
    similarity = query_vectors @ chunk_vectors.T
    orders = np.argsort(-similarity, axis=1, kind="stable")[:, :100]
    dense = [
        [replace(collection.chunks[at], score=float(row[at])) for at in order]
        for row, order in zip(similarity, orders, strict=True)
    ]
    sparse = Bm25Index(collection.chunks).batch_search(texts, 100)
    hybrid = [fused(pair) for pair in zip(sparse, dense, strict=True)]
    stages = {"sparse": sparse, "dense": dense, "hybrid": hybrid}
    return Pools(
        queries=queries,
        stages={name: [found[:depth] for found in all_] for name, all_ in stages.items()},
    )


def fused(lists: Sequence[Sequence[Chunk]], k: int = 60) -> list[Chunk]:
    scores: dict[str, float] = {}
    chunks: dict[str, Chunk] = {}
    for found in lists:
        for rank, chunk in enumerate(found, start=1):
            scores[chunk.id] = scores.get(chunk.id, 0.0) + 1 / (k + rank)
            chunks.setdefault(chunk.id, chunk)
    ordered = sorted(scores, key=lambda id_: -scores[id_])
    return [replace(chunks[id_], score=scores[id_]) for id_ in ordered]
