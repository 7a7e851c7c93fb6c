"""Short ways to write chunks and to ask rerankers."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench import Chunk, Query, rerank
from ragbench.core.chat import Message
from ragbench.post.operator import ranked
from ragbench.post.rerank import NotedScores, Reranker

Vector = Sequence[float]


def chunk(id_: str, text: str = "", score: float | None = None, **metadata: object) -> Chunk:
    return Chunk(id=id_, text=text or f"text of {id_}", score=score, metadata=metadata)


def query(text: str = "question", embedding: Vector | None = None, **stored: Vector) -> Query:
    """A query; embeddings of chunks by id."""
    return Query(text=text, embedding=embedding, chunk_embeddings=stored or None)


def order(reranker: Reranker, asked: Query, chunks: Sequence[Chunk]) -> list[str]:
    """Ids, best first."""
    done = rerank(asked, ranked(chunks), reranker, on_error="raise")
    return [one.chunk.id for one in done.chunks]


def notes(reranker: Reranker, asked: Query, chunks: Sequence[Chunk]) -> tuple[str, ...]:
    scores = reranker.score(asked, chunks)
    assert isinstance(scores, NotedScores)
    return scores.notes


class ScriptedChat:
    """A language model that gives prepared answers in turn and keeps what it was asked."""

    name = "scripted"

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def complete(self, messages: Sequence[Message]) -> str:
        self.asked.append(messages[-1].content)
        return self._answers.pop(0)


class FixedScores:
    """A reranker with given scores."""

    def __init__(self, *scores: float, name: str = "fixed") -> None:
        self._scores = scores
        self.name = name

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        return self._scores
