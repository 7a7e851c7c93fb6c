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
    """A chunk of this id, whose text says whose it is where none is set."""
    return Chunk(id=id_, text=text or f"Text of {id_}.", score=score, metadata=metadata)


def query(text: str = "question", embedding: Vector | None = None, **stored: Vector) -> Query:
    """A query, with the embeddings of chunks by their ids."""
    return Query(text=text, embedding=embedding, chunk_embeddings=stored or None)


Settings = str | Mapping[str, Any]
"""A reranker as a document names it: its name, or its name and its settings."""


def scored(reranker: Settings | Reranker, question: Query, chunks: Sequence[Chunk]) -> NotedScores:
    """The scores that a reranker gives the chunks, with its notes."""
    scores = build_reranker(reranker).score(question, chunks)
    if isinstance(scores, NotedScores):
        return scores
    return NotedScores(tuple(scores))


def order(reranker: Settings | Reranker, question: Query, chunks: Sequence[Chunk]) -> list[str]:
    """The ids of the chunks as a reranker orders them."""
    done = rerank(question, chunks, build_reranker(reranker), on_error="raise")
    return [entry.chunk.id for entry in done.chunks]


def applied(
    operator: object,
    *chunks: Chunk,
    question: str | Query = "Which?",
    service: Any = None,
    answers: Sequence[str] = (),
) -> PostRetrieved:
    """What an operator makes of the chunks.

    Args:
        operator: built, or as a mapping whose first key is its action, with its type for a value:
            {"filter": "top_k", "k": 3}.
        service: where it finds further chunks.
        answers: what its language model says, in turn.
    """
    if isinstance(operator, Mapping):
        operator = _with_action_and_type(operator)
    resources = Resources(service=service, chat=Scripted(*answers))
    stage = PostRetrieval(operators=(build_operator(operator, resources),), on_error="raise")
    return stage.run(question, chunks)


def _with_action_and_type(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping of an operators document; an action of one type alone names none."""
    action, kind = next(iter(settings.items()))
    document: dict[str, Any] = {"action": action}
    if kind:
        document["type"] = kind
    for key, value in settings.items():
        if key != action:
            document[key] = value
    return document


def ids(done: PostRetrieved | Sequence[RankedChunk]) -> list[str]:
    entries = done.chunks if isinstance(done, PostRetrieved) else done
    return [entry.chunk.id for entry in entries]


def texts(done: PostRetrieved) -> list[str]:
    return [entry.chunk.text for entry in done.chunks]


def notes(done: PostRetrieved) -> tuple[str, ...]:
    """Of its first step."""
    return done.steps[0].notes


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
    """A reranker that gives these scores, whatever the chunks are."""

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
    requests: list[list[str]] = field(
        default_factory=list[list[str]], compare=False, metadata=APART
    )
    """The ids of the chunks, request by request."""
    money: list[int] = field(default_factory=lambda: [10**6], compare=False, metadata=APART)
    name: str = "paid"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        self.money[0] -= 1
        if self.money[0] < 0:
            raise LLMStoppedError("the cap is reached")
        self.requests.append([chunk.id for chunk in chunks])
        scores = [float(self.factor * len(chunk.text)) for chunk in chunks]
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
