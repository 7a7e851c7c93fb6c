"""The RAG that ragbench brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ragbench.core.chunk import Chunk, Document
from ragbench.pipeline.bm25 import Bm25Index
from ragbench.pipeline.documents import (
    Documents,
    Indexing,
    chunks_digest,
    document_chunks,
    whole_documents,
)
from ragbench.pipeline.extractive import DEFAULT_THRESHOLD, ExtractiveGenerator
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.pipeline.stages import (
    BatchRetrieval,
    RetrievalStage,
    Searching,
    Stages,
    WordWeights,
)
from ragbench.post.operator import Checked, NotNegative, Positive, Share, Weight


class BaselineRAG(BatchRetrieval):
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
        retrieval = Bm25Retrieval(top_k=top_k, k1=k1, b=b, title_weight=title_weight)
        opened = retrieval.open(Documents(given=lambda: documents), Indexing())
        generator = ExtractiveGenerator(
            threshold=threshold, max_candidates=max_candidates, weight=opened.word_weights.weight
        )
        super().__init__(
            Stages(
                searching=Searching(retriever=opened),
                generator=generator,
                top_k=top_k,
                generation_context={"word_weights": opened.word_weights.identity},
            )
        )

    @classmethod
    def from_corpus(cls, source: str | Path, **settings: Any) -> Self:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25Retrieval(Checked, RetrievalStage):
    """BM25 in memory, over whole documents or what ``indexing.chunker`` makes of them."""

    top_k: Positive = 5
    """How many documents are retrieved."""
    k1: Weight = 1.2
    """How slowly repeated words stop counting, at least 0."""
    b: Share = 0.75
    """How much long documents are held down, in [0, 1]."""
    title_weight: NotNegative = 2
    """How often the title is counted; 0 leaves it out."""

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
