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
    """Whatever else the source holds of it."""


class Chunk(Record):
    """A passage of a document, as a retriever hands it over."""

    id: str
    """Unique within its store."""
    text: str
    """The passage itself."""
    score: float | None = None
    """How well it fits the query, higher is better; None when the source gave no score."""
    document_id: str | None = None
    """The document that it was cut from, where that is known."""
    start: int | None = None
    """Offset of its first character in the document's text."""
    end: int | None = None
    """Offset behind its last character in the document's text."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Whatever else the source holds of it."""


def origin_of(chunk: Chunk) -> dict[str, Any]:
    """A chunk's document and its place there, as far as they are known."""
    places = ((name, getattr(chunk, name)) for name in ("document_id", "start", "end"))
    return {name: value for name, value in places if value is not None}


Node = Chunk
"""The retrieval specification's word for a chunk."""


def stored_chunk(values: Mapping[str, Any], score: float | None) -> Chunk:
    """A chunk of the fields that a store keeps; those that are not there are empty."""
    get = values.get
    return Chunk(
        id=values["chunk_id"],
        text=values["text"],
        score=score,
        document_id=get("document_id"),
        start=get("start"),
        end=get("end"),
        metadata=get("metadata") or {},
    )


def scored_chunk(chunk: Chunk, score: float | None) -> Chunk:
    """The same chunk with a score, and with metadata of its own, which may be changed."""
    return replace(chunk, score=score, metadata=_copied({**chunk.metadata}))


def _copied(value: Any) -> Any:
    # A tenth of the time of copy.deepcopy: every hit of a search in memory comes through here.
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in cast("list[object]", value)]
    return value
