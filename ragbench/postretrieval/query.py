"""The question that chunks were retrieved for, with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Query"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One question, as post-retrieval sees it. Embeddings are given, never computed here."""

    text: str
    """The question."""
    embedding: Sequence[float] | None = None
    """Its embedding, by the model that embedded the chunks; None when unknown."""
    chunk_embeddings: Mapping[str, Sequence[float]] | None = None
    """Embeddings of chunks by id; None when unknown. A chunk may also carry its own under
    ``metadata["embedding"]``."""
    now: datetime | None = None
    """The point in time that ages are counted from; None for the newest time among the chunks, so
    that the same input gives the same output."""
