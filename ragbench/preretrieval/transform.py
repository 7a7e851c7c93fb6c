"""What a transform is given, what it gives back, and the one method between the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ragbench.preretrieval.search_query import SearchQuery
from ragbench.records.cells import Failure

__all__ = ["QueryTransform", "Transformed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transformed:
    """What a transform made of a query."""

    queries: tuple[SearchQuery, ...]
    """What is searched for in its place; the query itself is among them or is not."""
    failures: tuple[Failure, ...] = ()
    """What went wrong inside and was made up for."""


@runtime_checkable
class QueryTransform(Protocol):
    """One step between a question and retrieval: a frozen dataclass whose fields are settings."""

    @property
    def name(self) -> str:
        """How results and reports call it, such as ``"multi_query"``."""
        ...

    def transform(self, query: SearchQuery) -> Transformed:
        """Makes one or more queries of a query.

        Args:
            query: a query of the kind ``"query"``; its text may be empty.

        Returns:
            At least one query. What weighs half as much as the query given has half its weight.

        Raises:
            RagbenchError: it cannot be done.
        """
        ...
