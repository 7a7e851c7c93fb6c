"""The one thing that a reranker brings: a score for each (query, chunk) pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, overload, runtime_checkable

from ragbench.postretrieval.query import Query
from ragbench.records.corpus import Chunk

__all__ = ["IReranker", "NotedScores", "Reranker"]


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
            chunks: at least one, in their present order; not to be changed. The ``score`` of each
                is its present one: an earlier step's, else retrieval's.

        Returns:
            One finite number a chunk, in the order given, higher is better; as `NotedScores` where
            there is something to say about them.
        """
        ...


IReranker = Reranker
"""The post-retrieval specification's name for it."""


@dataclass(frozen=True, slots=True)
class NotedScores(Sequence[float]):
    """Scores with what a reader should know about them, such as that embeddings were missing."""

    values: tuple[float, ...]
    """One number a chunk, in the order given."""
    notes: tuple[str, ...] = ()
    """Sentences for the user; they end up on the result of the reranking."""

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        """The score at a place, or the scores of a slice."""
        return self.values[index]

    def __len__(self) -> int:
        """How many scores there are."""
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        """The scores in order."""
        return iter(self.values)
