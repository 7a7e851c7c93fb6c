"""What a collection would find if it were indexed otherwise: tried in memory on its texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragbench.core.chunk import Chunk, Document
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.pipeline.agreement import weight_of
from ragbench.pipeline.documents import ChunkSize, document_chunks, make_chunker
from ragbench.text.token_counter import APPROXIMATE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GAP = " "
"""Stands for what no chunk of a document holds: white space, as chunkers cut."""


class VectorIndex:
    """Chunks ranked by the vectors of an embedder that did not fill the collection."""

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        self._chunks = chunks
        self._embedder = embedder
        texts = [readable_text(chunk.text) for chunk in chunks]
        self._rows: NDArray[np.float32] = embedder.embed_passages(texts)
        known = weight_of(chunks, [*self._rows], embedder)
        self.weight = embedder.hybrid_weight if known is None else known
        """Of its rankings beside those by words."""

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        """The chunks of the highest cosines for each query."""
        import numpy as np

        asked = self._embedder.embed_queries([readable_text(query) for query in queries])
        found: list[list[Chunk]] = []
        for row in asked:
            cosines = self._rows @ row
            best: list[int] = np.argsort(-cosines, kind="stable")[:k].tolist()
            found.append([replace(self._chunks[at], score=float(cosines[at])) for at in best])
        return found


def usual_tokens(chunks: Sequence[Chunk]) -> int:
    """How long nine of ten chunks are at most, in estimated tokens."""
    counts = sorted(APPROXIMATE.count(chunk.text) for chunk in chunks)
    return counts[9 * len(counts) // 10] if counts else 0


def resized(chunks: Iterable[Chunk], tokens: int) -> list[Chunk]:
    """The same texts in chunks of another size.

    Documents are put together again where chunks say where they stand in them; any other chunk is
    cut as a text of its own.
    """
    chunker = make_chunker("tokens", ChunkSize(tokens=tokens))
    return [one for text in _documents(chunks) for one in document_chunks(text, chunker)]


def _documents(chunks: Iterable[Chunk]) -> list[Document]:
    parts: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        placed = chunk.document_id is not None and chunk.start is not None
        parts.setdefault((chunk.document_id if placed else None) or chunk.id, []).append(chunk)
    documents: list[Document] = []
    for id_, held in parts.items():
        text = ""
        for chunk in sorted(held, key=lambda one: one.start or 0):
            start = chunk.start or 0
            text = (
                text[:start]
                + _GAP * (start - len(text))
                + chunk.text
                + text[start + len(chunk.text) :]
            )
        title = held[0].metadata.get("title")
        documents.append(
            Document(id=id_, text=text, title=title if isinstance(title, str) else None)
        )
    return documents
