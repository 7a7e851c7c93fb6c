"""Retrieval from a collection that another program has filled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ragbench.errors import ConfigError
from ragbench.pipeline.both_sides import BothSides
from ragbench.pipeline.indexing import Indexing
from ragbench.pipeline.stages import WordWeights
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.records.corpus import Chunk
from ragbench.retrieval.foreign import foreign_strategy
from ragbench.retrieval.strategies.base import Search
from ragbench.stores.foreign.collection import ForeignCollection
from ragbench.stores.foreign.registry import open_foreign

__all__ = ["ForeignRetriever", "open_foreign_retriever"]


def open_foreign_retriever(indexing: Indexing, score_threshold: float | None) -> ForeignRetriever:
    """Opens the collection that the file names, as it is.

    Args:
        indexing: names it, its fields and its embedder.
        score_threshold: chunks that score less are left out; None leaves out none.

    Raises:
        ConfigError: the mapping or the embedder does not fit.
        StoreError: the store cannot be used.
        LLMError: the embedder's endpoint gives no vectors.
    """
    embedder = indexing.embedder
    if embedder is None:
        raise ConfigError("dense retrieval needs an embedder")
    with ExitStack() as stack:
        stack.callback(embedder.close)
        collection = stack.enter_context(
            open_foreign(indexing.store, indexing.collection, indexing.mapping)
        )
        strategy = foreign_strategy(collection, embedder, embedder_name=indexing.embedder_name)
        return ForeignRetriever(
            collection=collection,
            sides=BothSides.of(strategy),
            threshold=score_threshold,
            made_by=dict(embedder.identity),
            rows=collection.count(),
            closing=stack.pop_all(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignRetriever:
    """See `ragbench.pipeline.stages.Retriever`."""

    collection: ForeignCollection
    sides: BothSides
    threshold: float | None
    made_by: Mapping[str, object]
    """The embedder's identity."""
    rows: int
    """How many there were when it was opened."""
    closing: ExitStack
    takes_batches: bool = True

    @property
    def word_weights(self) -> WordWeights | None:
        """Words are not looked at."""
        return None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """See `Retriever`."""
        return {"retriever": "dense"}

    @property
    def identity(self) -> Mapping[str, object]:
        """See `Retriever`. Of the rows their number alone is known."""
        return {
            "method": "dense",
            "store": self.collection.address,
            "collection": self.collection.name,
            "rows": self.rows,
            "read_as": self.collection.described(),
            "score_threshold": self.threshold,
            "embedder": dict(self.made_by),
        }

    @property
    def notes(self) -> Sequence[str]:
        """See `Retriever`."""
        read = f"read as: {self.collection.described()}"
        warnings = [f"Warning: {line}" for line in self.collection.warnings()]
        return [read, *self.collection.guesses(), *warnings]

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """See `Retriever`."""
        threshold = -math.inf if self.threshold is None else self.threshold
        return self.sides.retrieve(queries, Search(k=top_k, threshold=threshold))

    def query_embedding(self, query: str) -> Sequence[float] | None:
        """Results carry no vectors."""
        return None

    def close(self) -> None:
        """See `Retriever`."""
        self.closing.close()
