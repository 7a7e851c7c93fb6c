"""Retrieval by words, in memory: what the baseline does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragbench.errors import ConfigError
from ragbench.indexing.pieces import document_chunks
from ragbench.pipeline.corpus import chunks_digest, whole_documents
from ragbench.pipeline.documents import Documents
from ragbench.pipeline.indexing import Indexing
from ragbench.pipeline.stages import WordWeights
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.records.corpus import Chunk
from ragbench.retrieval.bm25 import Bm25Index

__all__ = ["Bm25Retrieval"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25Retrieval:
    """BM25 in memory, over whole documents or what ``indexing.chunker`` makes of them.

    Raises:
        ConfigError: a setting is out of its range.
    """

    uses_store: ClassVar[bool] = False
    gives_embeddings: ClassVar[bool] = False

    top_k: int = 5
    """How many documents are retrieved."""
    k1: float = 1.2
    """How slowly repeated words stop counting, at least 0."""
    b: float = 0.75
    """How much long documents are held down, in [0, 1]."""
    title_weight: int = 2
    """How often the title is counted; 0 leaves it out."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        if self.top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {self.top_k}")
        Bm25Index((), k1=self.k1, b=self.b, title_weight=self.title_weight)

    def open(self, documents: Documents, indexing: Indexing) -> _OpenBm25:
        """Reads and indexes the documents.

        Raises:
            DataError: the corpus has problems.
            ConfigError: there is no corpus.
        """
        read = documents.read()
        chunker = indexing.chunker
        chunks = (
            whole_documents(read)
            if chunker is None
            else [chunk for document in read for chunk in document_chunks(document, chunker)]
        )
        index = Bm25Index(chunks, k1=self.k1, b=self.b, title_weight=self.title_weight)
        return _OpenBm25(index=index, corpus=chunks_digest(chunks))


@dataclass(frozen=True, kw_only=True, slots=True)
class _OpenBm25:
    """The index; see `ragbench.pipeline.stages.Retriever`."""

    index: Bm25Index
    corpus: str
    takes_batches: bool = True
    notes: Sequence[str] = ()

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"retriever": "bm25"}

    @property
    def identity(self) -> dict[str, object]:
        return {"corpus": self.corpus, **self.index.identity}

    @property
    def word_weights(self) -> WordWeights:
        identity = {"corpus": self.corpus, "title_weight": self.index.title_weight}
        return WordWeights(weight=self.index.idf, identity=identity)

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        return self.index.batch_search([query.text for query in queries], top_k)

    def query_embedding(self, query: str) -> None:
        return None

    def close(self) -> None:
        """Nothing is open."""
