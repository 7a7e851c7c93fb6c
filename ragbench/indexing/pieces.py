"""A document cut into pieces, and the pieces as chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

from ragbench.records.corpus import Chunk, Document

__all__ = ["Chunker", "Piece", "document_chunks"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A stretch of a document's text that becomes a chunk."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the chunk's metadata get besides the document's, such as the headings above it."""


class Chunker(Protocol):
    """Cuts texts into pieces that are worth finding by themselves."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its cuts depend on, as JSON."""
        ...

    def pieces(self, document: Document) -> Sequence[Piece]:
        """Pieces in reading order.

        Each begins and ends with a character that is not white space; together they hold every
        such character of the text. Neighbours overlap only where the chunker was told so.
        """
        ...


def document_chunks(document: Document, chunker: Chunker) -> list[Chunk]:
    """The chunks of a document, each an exact slice of its text.

    A chunk's id is made of the document's id, the number of the piece and a digest of its text, so
    that the same document always gives the same ids and a changed passage gets a new one. A
    document that stays whole keeps its own id. The title becomes ``metadata["title"]``.
    """
    pieces = chunker.pieces(document)
    shared = dict(document.metadata)
    if document.title:
        shared.setdefault("title", document.title)
    return [
        Chunk(
            id=_chunk_id(document, number, piece, whole=len(pieces) == 1),
            text=document.text[piece.start : piece.end],
            document_id=document.id,
            start=piece.start,
            end=piece.end,
            metadata={**shared, **piece.metadata},
        )
        for number, piece in enumerate(pieces)
    ]


def _chunk_id(document: Document, number: int, piece: Piece, *, whole: bool) -> str:
    if whole:
        return document.id
    text = document.text[piece.start : piece.end].encode("utf-8", "surrogatepass")
    return f"{document.id}#{number}-{blake2b(text, digest_size=5).hexdigest()}"
