"""Retrieval by meaning and by words together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench.records.corpus import Chunk
from ragbench.retrieval.fusion import reciprocal_rank_fusion
from ragbench.retrieval.strategies.base import Search, Strategy

__all__ = ["HybridStrategy"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HybridStrategy:
    """Weighted reciprocal rank fusion of a dense and a sparse ranking.

    The threshold holds for each of the two before they are fused: what is fused is a sum of
    reciprocal ranks and says only which chunk comes before which.
    """

    dense: Strategy
    sparse: Strategy
    weights: tuple[float, float] = (1.0, 1.0)
    """Of the dense and of the sparse ranking, each at least 0."""
    rrf_k: int = 60
    """See `reciprocal_rank_fusion`."""
    candidates: int = 100
    """How many chunks of each ranking are fused; never fewer than are asked for."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """See `ragbench.retrieval.strategies.base.Strategy`."""
        wider = replace(search, k=max(search.k, self.candidates))
        legs = [leg.retrieve(queries, wider) for leg in (self.dense, self.sparse)]
        return [
            reciprocal_rank_fusion(rankings, weights=self.weights, rrf_k=self.rrf_k, top_k=search.k)
            for rankings in zip(*legs, strict=True)
        ]
