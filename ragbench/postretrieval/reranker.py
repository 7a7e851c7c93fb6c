"""The one thing that a reranker brings: a score for each (query, chunk) pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragbench.postretrieval.query import Query
from ragbench.records.corpus import Chunk

__all__ = ["IReranker", "Reranker"]


@runtime_checkable
class Reranker(Protocol):
    """Scores chunks for a query. Ordering and cutting are not its job."""

    @property
    def name(self) -> str:
        """How reports and errors call it."""
        ...

    def score(self, query: Query, chunks: Sequence[Chunk]) -> Sequence[float]:
        """Scores chunks for one query.

        Args:
            query: the question, with embeddings and the time where they are known.
            chunks: at least one, in their present order; not to be changed.

        Returns:
            One finite number a chunk, in the order given, higher is better.
        """
        ...


IReranker = Reranker
"""The post-retrieval specification's name for it."""
