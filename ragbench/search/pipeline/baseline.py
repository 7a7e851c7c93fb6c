"""The RAG that ragbench brings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import orjson

from ragbench.core.checked import Checked, NotNegative, Positive, Share, Weight
from ragbench.core.chunk import Chunk, Document
from ragbench.core.record import replace
from ragbench.core.search_query import SearchQuery
from ragbench.search.pipeline.documents import Documents, Indexing, document_chunks, whole_documents
from ragbench.search.pipeline.extractive import DEFAULT_THRESHOLD, ExtractiveGenerator
from ragbench.search.pipeline.sparse_index import Bm25Scores
from ragbench.search.pipeline.stages import (
    BatchRetrieval,
    RetrievalStage,
    Searching,
    Stages,
    WordWeights,
)
from ragbench.text.tokens import TOKENISER_VERSION, chunk_tokens, tokenise


class Bm25Index:
    """An index in memory that ranks chunks by BM25; see `pipeline.stages.Retriever`.

    The formula is Lucene's: a query token ``t`` adds to the score of a chunk ``d``::

        ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * |d| / average |d|))

    with ``tf`` the times that ``t`` stands in ``d``, ``df`` the number of chunks that hold it, and
    ``N`` the number of all chunks (Robertson and Zaragoza 2009, "The Probabilistic Relevance
    Framework: BM25 and Beyond"; variants: Kamphuis et al. 2020, "Which BM25 Do You Mean?").
    Scores are above 0 and have no upper limit. They compare within one query only.

    A chunk's title, ``metadata["title"]``, counts as text that stands in it ``title_weight`` times.
    """

    takes_batches = True
    """Searches need no waiting for a model or a store: a batch is one call."""
    notes: Sequence[str] = ()
    metadata: Mapping[str, Any] = MappingProxyType({"retriever": "bm25"})

    def __init__(
        self, chunks: Iterable[Chunk], *, k1: float = 1.2, b: float = 0.75, title_weight: int = 2
    ) -> None:
        """Cuts the chunks' texts into tokens and indexes them in memory, once.

        The formula is in the class; rankings that were stored depend on it.

        Args:
            chunks: those that searches rank.
            k1: how slowly repeated words stop counting, at least 0.
            b: how much long chunks are held down, in [0, 1].
            title_weight: how often a chunk's title counts.
        """
        self.k1 = k1
        self.b = b
        self.title_weight = title_weight
        self._chunks = tuple(chunks)
        tokens: list[list[str]] = []
        for chunk in self._chunks:
            tokens.append(chunk_tokens(chunk.text, chunk.metadata.get("title"), title_weight))
        # By position: the scores of a query are in the order of `_chunks`.
        self._scores = Bm25Scores.build(tokens, k1=k1, b=b)

    def __len__(self) -> int:
        """How many chunks the index searches.

        The number of documents, unless a chunker cut them.
        """
        return len(self._chunks)

    @cached_property
    def corpus(self) -> str:
        """SHA-256 over the ids, texts and metadata of the chunks, in their order.

        Results of a search are stored with it: with another digest they count as out of date.
        """
        digest = hashlib.sha256()
        # Keys sorted and one line a chunk: the digest is compared with that of another process.
        form = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
        for chunk in self._chunks:
            fields = [chunk.id, chunk.text, dict(chunk.metadata)]
            digest.update(orjson.dumps(fields, default=repr, option=form))
        return digest.hexdigest()

    @property
    def identity(self) -> dict[str, object]:
        """All that the rankings depend on: chunks, formula, words and settings.

        Stored results are used again only while it is the same; a change of its fields makes all of
        them out of date.
        """
        return {
            "corpus": self.corpus,
            # These keys cannot change: stored results are compared with them.
            "method": "bm25-lucene",
            "tokeniser": TOKENISER_VERSION,
            "k1": self.k1,
            "b": self.b,
            "title_weight": self.title_weight,
        }

    @property
    def word_weights(self) -> WordWeights:
        """How rare each word is in the index' corpus; quoted answers are chosen by it.

        The identity of the weights says how titles count among the words, and holds no `k1` and
        `b`, on which rarity does not depend.
        """
        # Titles count among the words; k1 and b change scores, not how rare a word is.
        identity = {"corpus": self.corpus, "title_weight": self.title_weight}
        return WordWeights(weight=self.idf, identity=identity)

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """The chunks that share a word with each query, best first.

        Only the queries' texts count. A pipeline's retriever takes queries of several kinds, and
        BM25 has no use for the kind.
        """
        return self.batch_search([query.text for query in queries], top_k)

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        """For each query the chunks that share a token with it, best first, at most `k`.

        Scores are BM25; they compare within one query only.
        """
        rankings: list[list[Chunk]] = []
        for query in queries:
            ranking: list[Chunk] = []
            scores = self._scores.scores(tokenise(query))
            if scores is not None:  # None where no token of the query is in any chunk
                for position, score in Bm25Scores.best(scores, k):
                    ranking.append(replace(self._chunks[position], score=score))
            rankings.append(ranking)
        return rankings

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token in the index; the highest for an unknown token.

        The frequency says how rare a token is. BM25 weighs words by it, and so does the generator
        that quotes answers from passages.
        """
        return self._scores.idf(token)

    def query_embedding(self, query: str) -> None:
        """None: an index of words has no vectors that a reranker could compare.

        Every retriever of a pipeline can be asked for one.
        """
        return None

    def close(self) -> None:
        """Closes nothing: the index is in memory alone.

        Every retriever of a pipeline is closed at its end; one over a store has a connection.
        """


class BaselineRAG(BatchRetrieval):
    """A plain RAG to compare with: it needs no model, no key and no network.

    Each document is retrieved whole, by BM25 (`Bm25Index`). The answer is the
    sentence that the question's words support best, the date, number or name in it where that is
    asked for, or "I don't know." (`ragbench.search.pipeline.extractive`).

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
        """Indexes the documents in memory.

        Args:
            documents: each is retrieved whole.
            top_k: how many are retrieved when a call does not say.
            k1: how slowly repeated words stop counting.
            b: how much long documents are held down, in [0, 1].
            title_weight: how often the title is counted.
            threshold: with less support than this, the answer is "I don't know."
            max_candidates: how many different answers are given at most.
        """
        # The stage checks the settings, as it does for a pipeline's file.
        retrieval = Bm25Retrieval(top_k=top_k, k1=k1, b=b, title_weight=title_weight)
        opened = retrieval.open(Documents(load=lambda: documents), Indexing())
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
    embeddings: ClassVar[bool] = False

    def open(self, documents: Documents, indexing: Indexing) -> Bm25Index:
        """An index of all documents in memory, made anew for each run.

        Documents stay whole unless a chunker is named. A baseline has to rank what is in the corpus
        now, and building the index takes little time.
        """
        corpus = documents.read()
        # A baseline without settings ranks what the dataset has, uncut.
        if indexing.chunker is None:
            chunks = whole_documents(corpus)
        else:
            chunks = list[Chunk]()
            for document in corpus:
                chunks += document_chunks(document, indexing.chunker)
        return Bm25Index(chunks, k1=self.k1, b=self.b, title_weight=self.title_weight)
