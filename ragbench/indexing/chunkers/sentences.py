"""Chunks of whole sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragbench.indexing.chunkers.size import ChunkSize, packed
from ragbench.indexing.chunkers.tokens import token_spans
from ragbench.indexing.pieces import Piece
from ragbench.records.corpus import Document
from ragbench.text.sentences import SENTENCES_VERSION, split_sentences

__all__ = ["SentenceChunker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceChunker:
    """As many sentences as fit; only one that does not fit by itself is cut."""

    size: ChunkSize = field(default_factory=ChunkSize)

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.indexing.pieces.Chunker`."""
        return {"chunker": "sentences", "sentences": SENTENCES_VERSION, **self.size.identity}

    def pieces(self, document: Document) -> list[Piece]:
        """See `ragbench.indexing.pieces.Chunker`."""
        text = document.text
        spans = packed(
            text,
            split_sentences(text),
            self.size,
            cut=lambda span, size: token_spans(text, span, size),
        )
        return [Piece(start=span.start, end=span.end) for span in spans]
