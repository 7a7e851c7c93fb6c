"""Texts: a document, and a passage of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.core.record import Record, field, replace


class Document(Record):
    """A source text."""

    id: str
    """Unique within its corpus."""
    text: str
    """The whole text."""
    title: str | None = None
    """Its title, where it has one."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the source."""


class Chunk(Record):
    """A passage of a document, as a retriever returns it."""

    id: str
    """Unique within its store."""
    text: str
    """The passage itself."""
    score: float | None = None
    """How well it fits the query, higher is better; None when the source gave no score.

    A search of ragbench gives a dense one's cosine on the embedder's scale (0 is unrelated), a
    sparse one's BM25 as a share of the question's words, or a hybrid one's fused rank, which only
    orders; the cosine and the BM25 of a fused chunk are in ``metadata["ranked_by"]``.
    """
    document_id: str | None = None
    """The document that it was cut from; None when unknown."""
    start: int | None = None
    """Offset of its first character in the document's text."""
    end: int | None = None
    """Offset behind its last character in the document's text."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the source: title, page, time ..."""


def origin_of(chunk: Chunk) -> dict[str, Any]:
    """A chunk's document and its offsets there, without those that are unknown, ready to be stored.

    The keys are those of stored records and dumps, from which chunks are read again.
    """
    origin: dict[str, Any] = {}
    for name in ("document_id", "start", "end"):
        value = getattr(chunk, name)
        if value is not None:
            origin[name] = value
    return origin


Node = Chunk
"""The retrieval specification's word for a chunk."""


def stored_chunk(values: Mapping[str, Any], score: float | None) -> Chunk:
    """A chunk made of the fields that a vector store has of it; only id and text must be there.

    The names are those of the stores' own tables and collections: a change makes old ones
    unreadable.
    """
    return Chunk(
        id=values["chunk_id"],
        text=values["text"],
        score=score,
        document_id=values.get("document_id"),
        start=values.get("start"),
        end=values.get("end"),
        # Stores that leave out empty fields give none for empty metadata.
        metadata=values.get("metadata") or {},
    )


def scored_chunk(chunk: Chunk, score: float | None) -> Chunk:
    """The same chunk with a score, and with a copy of its metadata, which the caller may change.

    A search in memory returns it: the store's own chunk must not change with what callers do.
    """
    return replace(chunk, score=score, metadata=_copied({**chunk.metadata}))


def _copied(value: Any) -> Any:
    """A copy of a value of JSON, with new lists and objects; nothing else is copied.

    Every hit of a search in memory is copied: this takes a tenth of the time of ``copy.deepcopy``.
    """
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_copied(item) for item in cast("list[object]", value)]
    return value
