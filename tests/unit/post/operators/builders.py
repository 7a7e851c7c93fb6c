"""Chunks, a service and a language model for the tests of operators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ragbench import Chunk, Query
from ragbench.core.chat import Message
from ragbench.post.operator import Operator, OperatorInput, OperatorOutput, RankedChunk, ranked


def chunk(id: str, text: str = "", score: float | None = None, **metadata: Any) -> Chunk:
    return Chunk(id=id, text=text or f"Text of {id}.", score=score, metadata=metadata)


def apply(operator: Operator, *chunks: Chunk, question: str = "Which?") -> OperatorOutput:
    given = OperatorInput(query=Query(text=question), chunks=tuple(ranked(chunks)))
    output = operator.apply(given)
    assert isinstance(output, OperatorOutput)
    return output


def ids(entries: OperatorOutput | Sequence[RankedChunk]) -> list[str]:
    found = entries.chunks if isinstance(entries, OperatorOutput) else entries
    return [entry.chunk.id for entry in found]


def texts(output: OperatorOutput) -> list[str]:
    return [entry.chunk.text for entry in output.chunks]


@dataclass(frozen=True, slots=True)
class Shelf:
    """A store in memory that counts what it is asked."""

    found: Mapping[str, Sequence[Chunk]] = field(default_factory=dict[str, Sequence[Chunk]])
    linked: Mapping[str, Sequence[Chunk]] = field(default_factory=dict[str, Sequence[Chunk]])
    asked: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        self.asked.append(("search", query, top_k))
        return self.found.get(query, ())

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        self.asked.append(("neighbours", chunk_id, top_k))
        return self.linked.get(chunk_id, ())


@dataclass(frozen=True, slots=True)
class Scripted:
    """A language model that says what it was told to, in turn."""

    answers: list[str]
    heard: list[str] = field(default_factory=list[str])
    name: str = "scripted"

    def complete(self, messages: Sequence[Message]) -> str:
        self.heard.append(messages[-1].content)
        return self.answers.pop(0)


_WORDS = [
    *("Leave", "is", "27", "days.", "Ask", "HR!", "Why", "not?", "A.B.", "3.14", "über", "你好。"),
    *("\n\n", "<&\"'>", "{x}", "\x00", "\r\t", "]]>", "user:"),
]
TEXTS = st.lists(st.sampled_from(_WORDS), max_size=30).map(" ".join)
SCORES = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def chunk_lists(draw: st.DrawFn, max_size: int = 8) -> list[Chunk]:
    size = draw(st.integers(0, max_size))
    return [
        Chunk(
            id=str(at),
            text=draw(TEXTS),
            score=draw(SCORES),
            document_id=draw(st.sampled_from([None, "a", "b"])),
            metadata=draw(
                st.dictionaries(
                    st.sampled_from(["title", "role", "timestamp"]),
                    TEXTS | st.integers(),
                    max_size=3,
                )
            ),
        )
        for at in range(size)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """Counts words and marks: what a budget does can then be seen from the texts."""

    name: str = "pieces"
    approximate: bool = True

    def count(self, text: str) -> int:
        return len(re.findall(r"\w+|[^\w\s]", text))


PIECES = Pieces()
