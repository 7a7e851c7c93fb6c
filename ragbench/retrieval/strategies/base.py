"""What every strategy of retrieval does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ragbench.records.corpus import Chunk
from ragbench.records.filters import Filter

__all__ = ["Search", "Strategy"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What is looked for, besides the queries."""

    k: int
    """How many chunks at most, at least 1."""
    threshold: float
    """Chunks that score less are left out."""
    filters: Filter | None = None
    """What the chunks' metadata must pass."""


class Strategy(Protocol):
    """Ranks the chunks of one collection."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query its chunks with their scores, best first.

        Of equal scores the lower id (by code points) comes first. A query without a character that
        is not white space finds nothing.
        """
        ...
