"""BM25 over the candidates alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragbench.errors import ConfigError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.rerankers.candidate_tokens import token_counts
from ragbench.records.corpus import Chunk

__all__ = ["LexicalReranker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalReranker:
    """Scores by words shared with the query; what is rare among the candidates counts more.

    Each token of the query adds its weight, ln(1 + N / n) with n of the N candidates holding it,
    times

    - ``bm25``: tf / (tf + k1 * (1 - b + b * length / mean length)), tf its number in the chunk
      (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond");
    - ``idf``: 1 when the chunk holds it.

    Candidates that were themselves found by these words all hold the best of them, which then
    weigh least: over a sparse first stage this reranker loses quality and is for fusions with
    others; over a dense one it can gain. The weight never falls below ln 2 for that reason.
    """

    method: Literal["bm25", "idf"] = "bm25"
    """``"bm25"``, or ``"idf"`` for the weight of the query that the chunk covers."""
    k1: float = 1.2
    """How slowly repeated tokens stop counting, at least 0."""
    b: float = 0.75
    """How much long chunks are held down, in [0, 1]."""
    title_weight: int = 2
    """How often ``metadata["title"]`` counts as text of the chunk; 0 leaves it out."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        if not 0 <= self.k1 < math.inf:
            raise ConfigError(f"lexical: k1 must be at least 0, not {self.k1:g}")
        if not 0 <= self.b <= 1:
            raise ConfigError(f"lexical: b must lie in [0, 1], not {self.b:g}")
        if self.title_weight < 0:
            raise ConfigError(f"lexical: title_weight must be at least 0, not {self.title_weight}")

    @property
    def name(self) -> str:
        """``"lexical"``."""
        return "lexical"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> tuple[float, ...]:
        """Numbers of at least 0; 0 for a chunk that shares no token with the query."""
        wanted = token_counts(query.text)
        counts = [self._counts(chunk) for chunk in chunks]
        weights = {token: times * _rarity(token, counts) for token, times in wanted.items()}
        if self.method == "idf":
            return tuple(
                math.fsum(weight for token, weight in weights.items() if token in count)
                for count in counts
            )
        lengths = [count.total() for count in counts]
        mean = sum(lengths) / len(lengths) or 1.0
        return tuple(
            self._bm25(weights, count, length / mean)
            for count, length in zip(counts, lengths, strict=True)
        )

    def _bm25(self, weights: dict[str, float], count: Counter[str], length: float) -> float:
        slope = self.k1 * (1 - self.b + self.b * length)
        return math.fsum(
            weight * count[token] / (count[token] + slope)
            for token, weight in weights.items()
            if token in count
        )

    def _counts(self, chunk: Chunk) -> Counter[str]:
        counts = token_counts(chunk.text)
        title = chunk.metadata.get("title")
        if self.title_weight and isinstance(title, str):
            for token, times in token_counts(title).items():
                counts[token] += self.title_weight * times
        return counts


def _rarity(token: str, counts: Sequence[Counter[str]]) -> float:
    holding = sum(token in count for count in counts)
    return math.log(1 + len(counts) / max(1, holding))
