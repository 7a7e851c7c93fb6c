"""The protocol of an operator: what it is given and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ragbench.core.chunk import Chunk
from ragbench.core.outcome import Failure
from ragbench.core.record import Record, replace


class Query(Record):
    """One question, as post-retrieval sees it. Embeddings are given, never computed here."""

    text: str
    """The question."""
    embedding: Sequence[float] | None = None
    """Its embedding, by the model that embedded the chunks; None when unknown."""
    chunk_embeddings: Mapping[str, Sequence[float]] | None = None
    """Embeddings of chunks by id; None when unknown. A chunk may also carry its own under
    ``metadata["embedding"]``."""
    now: datetime | None = None
    """The point in time that ages are counted from; None when it is not known."""


class RankedChunk(Record):
    """A chunk with its present rank and score and those of retrieval; the chunk never changes."""

    chunk: Chunk
    """The same object that retrieval gave."""
    score: float | None
    """Its present score, higher is better; None when nothing scored it."""
    rank: int
    """Its present place, from 1."""
    initial_score: float | None
    """The score that retrieval gave."""
    initial_rank: int | None
    """The place that retrieval gave, from 1; None for a chunk that was added later."""


def as_query(query: Query | str) -> Query:
    """A question as operators see it: a bare text has no embedding and no time.

    Callers may give either.
    """
    if isinstance(query, str):
        return Query(text=query)
    return query


def ranked(chunks: Sequence[Chunk | RankedChunk]) -> list[RankedChunk]:
    """Retrieval's chunks as they enter post-retrieval: in the order given, ranks from 1.

    Each keeps its score and place from retrieval, so that a report can show how it moved. Chunks
    that have entered already stay as they are.
    """
    entries: list[RankedChunk] = []
    for rank, chunk in enumerate(chunks, start=1):
        # The chunk has entered already: its score and place from retrieval must not be set anew.
        if isinstance(chunk, RankedChunk):
            entries.append(chunk)
            continue
        score = chunk.score
        entry = RankedChunk(
            chunk=chunk, score=score, rank=rank, initial_score=score, initial_rank=rank
        )
        entries.append(entry)
    return entries


class OperatorInput(Record):
    """The query and the chunks before an operator."""

    query: Query
    """The question that the chunks were retrieved for."""
    chunks: tuple[RankedChunk, ...]
    """The chunks in their present order, ranks from 1."""
    history_text: str | None = None
    """The text for generation, where a format operator has already written it."""


class OperatorOutput(Record):
    """The result of an operator."""

    chunks: tuple[RankedChunk, ...]
    """The chunks in their new order; their ranks are set anew."""
    history_text: str | None = None
    """The text for generation; None leaves what was there."""
    notes: tuple[str, ...] = ()
    """What a reader must know to understand the result, such as "3 chunks have no score"."""
    failures: tuple[Failure, ...] = ()
    """What went wrong inside and was made up for."""


@runtime_checkable
class Operator(Protocol):
    """One step between retrieval and generation: a frozen dataclass whose fields are settings."""

    @property
    def name(self) -> str:
        """The operator's name in results and settings, such as ``filter.top_k``.

        Stored steps have it, so another name parts a run from earlier ones in reports.
        """
        ...

    def apply(self, context: OperatorInput) -> OperatorOutput | Sequence[RankedChunk]:
        """Does the operator's step between retrieval and generation.

        What it returns is the chunks that are left, in their new order: a sequence, or an
        `OperatorOutput` where there is more to say.

        It computes no embedding, writes nowhere, and leaves the chunks that it is given as they
        are. A chunk whose text it changes is a new one that says where it came from; see
        `ragbench.post.chunks`.
        """
        ...


def in_order(chunks: Iterable[RankedChunk]) -> tuple[RankedChunk, ...]:
    """The chunks in their order with new ranks from 1, after some were dropped, added or moved.

    A chunk whose rank is right already stays the same object.
    """
    entries: list[RankedChunk] = []
    for rank, entry in enumerate(chunks, start=1):
        if entry.rank != rank:
            entry = replace(entry, rank=rank)
        entries.append(entry)
    return tuple(entries)


Found: TypeAlias = Chunk | Mapping[str, Any]
"""What a service returns: a chunk, or a mapping with ``text``, an id (``id``, ``entry_id`` or
``node_id``), and where they are known ``score`` and ``metadata``."""


@runtime_checkable
class ChunkSearch(Protocol):
    """Finds chunks by a query."""

    def search(self, query: str, top_k: int) -> Sequence[Found]:
        """Finds the best chunks for a query, best first, at most ``top_k``.

        A user's service has this method, by which operators bring in more chunks.
        """
        ...


@runtime_checkable
class ChunkNeighbours(Protocol):
    """Finds chunks by a chunk."""

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Found]:
        """Finds chunks that are linked with a chunk, or come before or behind it in its document.

        A user's service has this method, by which operators widen a chunk or follow links.
        """
        ...
