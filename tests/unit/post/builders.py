"""Chunks, services, language models and rerankers for the tests of post-retrieval."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ragbench import Chunk, PostRetrieval, Query, build_operator, build_reranker, rerank
from ragbench.core.chat import Message
from ragbench.errors import LLMStoppedError
from ragbench.post.build import Resources
from ragbench.post.operator import Found, RankedChunk
from ragbench.post.rerank import NotedScores, Reranker
from ragbench.post.stage import PostRetrieved

Vector = Sequence[float]


def chunk(id_: str, text: str = "", score: float | None = None, **metadata: Any) -> Chunk:
    return Chunk(id=id_, text=text or f"Text of {id_}.", score=score, metadata=metadata)


def query(text: str = "question", embedding: Vector | None = None, **stored: Vector) -> Query:
    return Query(text=text, embedding=embedding, chunk_embeddings=stored or None)


def scored(
    given: str | Mapping[str, Any] | Reranker, asked: Query, chunks: Sequence[Chunk]
) -> NotedScores:
    scores = build_reranker(given).score(asked, chunks)
    return scores if isinstance(scores, NotedScores) else NotedScores(tuple(scores))


def order(
    given: str | Mapping[str, Any] | Reranker, asked: Query, chunks: Sequence[Chunk]
) -> list[str]:
    done = rerank(asked, chunks, build_reranker(given), on_error="raise")
    return [one.chunk.id for one in done.chunks]


def applied(
    given: object,
    *chunks: Chunk,
    question: str | Query = "Which?",
    service: Any = None,
    answers: Sequence[str] = (),
) -> PostRetrieved:
    if isinstance(given, Mapping):
        action, kind = next(iter(given.items()))
        rest = {key: value for key, value in given.items() if key != action}
        given = {"action": action, **({"type": kind} if kind else {}), **rest}
    operator = build_operator(given, Resources(service=service, chat=Scripted(*answers)))
    return PostRetrieval(operators=(operator,), on_error="raise").run(question, chunks)


def ids(found: PostRetrieved | Sequence[RankedChunk]) -> list[str]:
    entries = found.chunks if isinstance(found, PostRetrieved) else found
    return [entry.chunk.id for entry in entries]


def texts(found: PostRetrieved) -> list[str]:
    return [entry.chunk.text for entry in found.chunks]


def notes(found: PostRetrieved) -> tuple[str, ...]:
    return found.steps[0].notes


@dataclass(frozen=True, slots=True)
class Shelf:
    """A store in memory that keeps what it is asked."""

    found: Mapping[str, Sequence[Found]] = field(default_factory=dict[str, Sequence[Found]])
    linked: Mapping[str, Sequence[Found]] = field(default_factory=dict[str, Sequence[Found]])
    asked: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def search(self, query: str, top_k: int) -> Sequence[Found]:
        self.asked.append(("search", query, top_k))
        return self.found.get(query, ())

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Found]:
        self.asked.append(("neighbours", chunk_id, top_k))
        return self.linked.get(chunk_id, ())


class Scripted:
    """A language model with prepared answers, in turn; it keeps what it was asked."""

    name = "scripted"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[Message]] = []

    @property
    def heard(self) -> list[str]:
        return [messages[-1].content for messages in self.asked]

    def complete(self, messages: Sequence[Message]) -> str:
        self.asked.append(messages)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class FixedScores:
    def __init__(self, *scores: Any, name: str = "fixed") -> None:
        self._scores = scores
        self.name = name

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        return self._scores


APART = {"setting": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class Paid:
    """A score is the length of the text, times a factor; it stops once its money is spent."""

    scores_alone: ClassVar[bool] = True
    asks_elsewhere: ClassVar[bool] = True

    factor: int = 1
    asked: list[list[str]] = field(default_factory=list[list[str]], compare=False, metadata=APART)
    money: list[int] = field(default_factory=lambda: [10**6], compare=False, metadata=APART)
    name: str = "paid"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        self.money[0] -= 1
        if self.money[0] < 0:
            raise LLMStoppedError("the cap is reached")
        self.asked.append([chunk.id for chunk in chunks])
        scores = (float(self.factor * len(chunk.text)) for chunk in chunks)
        return NotedScores(scores, (f"{len(chunks)} were asked",))


class PaidTogether(Paid):
    scores_alone: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """Counts words and marks: what a budget does can then be seen from the texts."""

    name: str = "pieces"
    approximate: bool = True

    def count(self, text: str) -> int:
        return len(re.findall(r"\w+|[^\w\s]", text))


PIECES = Pieces()
