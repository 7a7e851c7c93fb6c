"""Each document by the chunker that suits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragbench.indexing.chunkers.markdown import MarkdownChunker
from ragbench.indexing.chunkers.size import ChunkSize
from ragbench.indexing.chunkers.tokens import TokenChunker
from ragbench.indexing.pieces import Piece
from ragbench.records.corpus import Document

__all__ = ["AutoChunker"]

_MARKDOWN = (".md", ".markdown")


@dataclass(frozen=True, kw_only=True, slots=True)
class AutoChunker:
    """Markdown files, known by the end of their id, by `MarkdownChunker`, others by tokens."""

    size: ChunkSize = field(default_factory=ChunkSize)

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.indexing.pieces.Chunker`."""
        return {
            "chunker": "auto",
            "markdown": MarkdownChunker(size=self.size).identity,
            "other": TokenChunker(size=self.size).identity,
        }

    def pieces(self, document: Document) -> list[Piece]:
        """See `ragbench.indexing.pieces.Chunker`."""
        if document.id.lower().endswith(_MARKDOWN):
            return MarkdownChunker(size=self.size).pieces(document)
        return TokenChunker(size=self.size).pieces(document)
