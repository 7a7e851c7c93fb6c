"""Reciprocal-rank fusion of several rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import NotedScores, Reranker
from ragbench.postretrieval.rerankers.members import check_weights, member_scores
from ragbench.records.corpus import Chunk

__all__ = ["ReciprocalRankFusionReranker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReciprocalRankFusionReranker:
    """Sum over rerankers of weight / (k + rank) (Cormack, Clarke and Büttcher 2009).

    It needs no common scale. The present order of the candidates can take part as one more list.
    """

    rerankers: Sequence[Reranker]
    """Whose orders are fused; at least one."""
    weights: Sequence[float] | None = None
    """One a reranker, at least 0; None for 1 each."""
    given_weight: float = 0.0
    """The weight of the present order, at least 0."""
    k: float = 60.0
    """How little the first places differ from those behind them, at least 0."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        check_weights("rrf", len(self.rerankers), self.weights, self.given_weight)
        if not 0 <= self.k < float("inf"):
            raise ConfigError(f"rrf: k must be at least 0, not {self.k:g}")

    @property
    def name(self) -> str:
        """``"rrf"``."""
        return "rrf"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Numbers above 0.

        Raises:
            InterfaceError: a reranker's scores cannot be used; what one raises passes through.
        """
        lists, notes = member_scores(self.rerankers, query, chunks)
        totals = [self.given_weight / (self.k + rank) for rank in range(1, len(chunks) + 1)]
        weights = self.weights or [1.0] * len(lists)
        for weight, scores in zip(weights, lists, strict=True):
            # sorted() is stable: equal scores are ranked in their present order.
            order = sorted(range(len(chunks)), key=[-score for score in scores].__getitem__)
            for rank, at in enumerate(order, start=1):
                totals[at] += weight / (self.k + rank)
        return NotedScores(tuple(totals), notes)
