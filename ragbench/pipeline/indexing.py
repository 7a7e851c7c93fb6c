"""Stage 1 as a pipeline file describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.embedders.base import Embedder
from ragbench.indexing.pieces import Chunker
from ragbench.stores.foreign.mapping import FieldMapping

__all__ = ["Indexing", "IndexingSettings"]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexingSettings:
    """The settings as they stand in the file; see docs/pipeline.md."""

    corpus: str | None = None
    """A file or folder with documents, relative to the pipeline's file. None takes those of the
    dataset that is evaluated."""
    chunker: str | Mapping[str, Any] | None = None
    """How documents are cut: a name, or ``name`` with ``tokens``, ``overlap``, ``counter``."""
    embedder: str | Mapping[str, Any] | None = "multilingual"
    """What makes vectors: a name, or ``name`` with the embedder's settings."""
    store: str = "memory:"
    """Address of the store; in memory by default, and gone with the process."""
    collection: str | None = None
    """Name of the collection in the store; that of the corpus by default."""
    map: FieldMapping | None = None
    """What is where in the rows of a collection that ragbench did not fill and only reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexing:
    """Which documents are searched, how they are cut and embedded, and where chunks are kept."""

    corpus: str | None = None
    chunker: Chunker | None = None
    """None leaves it to the retrieval."""
    embedder: Embedder | None = None
    embedder_name: str = ""
    """What opens the embedder again."""
    embedder_settings: Mapping[str, Any] | None = None
    store: str = "memory:"
    collection: str | None = None
    mapping: FieldMapping | None = None
    """Of a collection that ragbench did not fill; None for its own."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the store is this process's own, and gone with it."""
        return self.store == "memory:"
