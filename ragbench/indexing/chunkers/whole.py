"""Documents that are chunks already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragbench.indexing.pieces import Piece
from ragbench.records.corpus import Document

__all__ = ["WholeChunker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeChunker:
    """Cuts nothing."""

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.indexing.pieces.Chunker`."""
        return {"chunker": "whole"}

    def pieces(self, document: Document) -> list[Piece]:
        """See `ragbench.indexing.pieces.Chunker`."""
        text = document.text
        end = len(text.rstrip())
        start = len(text) - len(text.lstrip())
        return [Piece(start=start, end=end)] if start < end else []
