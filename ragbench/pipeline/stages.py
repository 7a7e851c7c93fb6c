"""What a pipeline asks of the stages that have no protocol of their own elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ragbench.generation.support import TermWeight
from ragbench.interface.results import GenerationResult
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.records.corpus import Chunk

__all__ = ["Generator", "Retriever", "WordWeights"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WordWeights:
    """What each word is worth in a corpus."""

    weight: TermWeight
    identity: Mapping[str, object]
    """All that the weights depend on, as JSON."""


class Retriever(Protocol):
    """Stages 1 and 3, open: something that can be searched."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its rankings depend on besides query and number, as JSON; the corpus too."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What every result says of it."""
        ...

    @property
    def takes_batches(self) -> bool:
        """Whether several queries at once cost less than one after the other."""
        ...

    @property
    def word_weights(self) -> WordWeights | None:
        """What words are worth in the corpus; None when it is not known."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What whoever uses it should know of it so far, a line each; it only grows."""
        ...

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """For each query its chunks, best first, at most ``top_k`` of them."""
        ...

    def query_embedding(self, query: str) -> Sequence[float] | None:
        """The vector of a query where results carry those of their chunks; else None."""
        ...

    def close(self) -> None:
        """Lets go of what it opened."""
        ...


class Generator(Protocol):
    """Stage 5: an answer from contexts."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its answers depend on besides query and contexts, as JSON."""
        ...

    def generate(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        """Answers a question from contexts, best first; there may be none."""
        ...
