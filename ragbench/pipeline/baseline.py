"""The RAG that ragbench brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypedDict

from typing_extensions import Unpack

from ragbench.core.chunk import Chunk, Document
from ragbench.core.config import RAGConfig
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import ConfigError
from ragbench.pipeline.bm25 import Bm25Index
from ragbench.pipeline.documents import (
    Documents,
    Indexing,
    chunks_digest,
    document_chunks,
    whole_documents,
    with_origin,
)
from ragbench.pipeline.extractive import DEFAULT_THRESHOLD, ExtractiveGenerator
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.pipeline.stages import RetrievalStage, WordWeights
from ragbench.rag.interface import RAGInterface


class BaselineSettings(TypedDict, total=False):
    """The settings of `BaselineRAG`; each has a default."""

    top_k: int
    k1: float
    b: float
    title_weight: int
    threshold: float
    max_candidates: int


class BaselineRAG(RAGInterface):
    """A plain RAG to compare with: it needs no model, no key and no network.

    Each document is retrieved whole, by BM25 (`ragbench.pipeline.bm25`). The answer is the
    sentence that the question's words support best, the date, number or name in it where that is
    asked for, or "I don't know." (`ragbench.pipeline.extractive`).

    Example:
        >>> rag = BaselineRAG([Document(id="fr", text="Paris is the capital of France.")])
        >>> found = rag.retrieve_with_metadata("What is the capital of France?")
        >>> found.context_ids
        ['fr']
        >>> rag.generate("What is the capital of France?", list(found.contexts))
        'Paris is the capital of France.'
    """

    def __init__(
        self,
        documents: Iterable[Document],
        top_k: int = 5,
        *,
        k1: float = 1.2,
        b: float = 0.75,
        title_weight: int = 2,
        threshold: float = DEFAULT_THRESHOLD,
        max_candidates: int = 3,
    ) -> None:
        super().__init__(RAGConfig(top_k=_checked_top_k(top_k)))
        self._chunks = whole_documents(documents)
        self._index = Bm25Index(self._chunks, k1=k1, b=b, title_weight=title_weight)
        self._generator = ExtractiveGenerator(
            threshold=threshold, max_candidates=max_candidates, weight=self._index.idf
        )

    @classmethod
    def from_corpus(cls, source: str | Path, **settings: Unpack[BaselineSettings]) -> Self:
        """Builds the RAG from a corpus on disk.

        Args:
            source: a file or folder in any of the corpus formats that ragbench reads.
            **settings: as for the constructor.

        Raises:
            DataError: the corpus has problems.
            ConfigError: a setting is out of its range.
        """
        from ragbench.io.read import read_documents

        return cls(read_documents(source), **settings)

    @cached_property
    def corpus_digest(self) -> str:
        """SHA-256 over the documents in their order: ids, texts, titles and metadata."""
        return chunks_digest(self._chunks)

    def stage_identity(self, stage: str) -> object:
        """The corpus and the settings that a stage's results depend on.

        The generator's settings are not part of the identity of ``"retrieve"``: a change of them
        never retrieves again. The corpus is part of both, because the weight of a word in the
        answer is its rarity in the corpus, titles included.
        """
        if stage == "retrieve":
            return {
                "rag": "baseline",
                "corpus": self.corpus_digest,
                "top_k": self.config.top_k,
                **self._index.identity,
            }
        return {
            "rag": "baseline",
            "corpus": self.corpus_digest,
            "title_weight": self._index.title_weight,
            **self._generator.identity,
        }

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        """See `RAGInterface.retrieve_with_metadata`.

        Returns:
            Documents with their ids and BM25 scores (above 0, without upper limit), none when no
            document shares a word with the question; the metadata of a context is that of its
            document, with its ``title`` where it has one.
        """
        return self.batch_retrieve_with_metadata([query], top_k)[0]

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        """See `RAGInterface.batch_retrieve_with_metadata`."""
        metadata = {"retriever": "bm25"}
        return [
            RetrievalResult.from_chunks([*map(with_origin, chunks)], metadata=metadata)
            for chunks in self._search(queries, top_k)
        ]

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        """See `RAGInterface.generate_with_metadata` and `ExtractiveGenerator.generate`."""
        return self._generator.generate(query, contexts)

    def _search(self, queries: Sequence[str], top_k: int | None) -> list[list[Chunk]]:
        k = self.config.top_k if top_k is None else _checked_top_k(top_k)
        return self._index.batch_search(queries, k)


def _checked_top_k(top_k: int) -> int:
    if top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {top_k}")
    return top_k


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25Retrieval(RetrievalStage):
    """BM25 in memory, over whole documents or what ``indexing.chunker`` makes of them."""

    top_k: int = 5
    """How many documents are retrieved."""
    k1: float = 1.2
    """How slowly repeated words stop counting, at least 0."""
    b: float = 0.75
    """How much long documents are held down, in [0, 1]."""
    title_weight: int = 2
    """How often the title is counted; 0 leaves it out."""

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {self.top_k}")
        Bm25Index((), k1=self.k1, b=self.b, title_weight=self.title_weight)

    @property
    def gives_embeddings(self) -> bool:
        return False

    def open(self, documents: Documents, indexing: Indexing) -> _OpenBm25:
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

    def close(self) -> None: ...
