"""A weighted sum of several rerankers' normalised scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import NotedScores, Reranker
from ragbench.postretrieval.rerankers.given_scores import given_scores, unscored_note
from ragbench.postretrieval.rerankers.members import check_weights, member_scores
from ragbench.postretrieval.rerankers.normalise import min_max, standard
from ragbench.records.corpus import Chunk

__all__ = ["LinearFusionReranker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearFusionReranker:
    """Sum over rerankers of weight * score, each list normalised among the candidates first.

    Unlike ranks, scores keep how far the candidates lie apart (Bruch, Gai and Ingber 2023, "An
    Analysis of Fusion Functions for Hybrid Retrieval").
    """

    rerankers: Sequence[Reranker]
    """Whose scores are added up; at least one."""
    weights: Sequence[float] | None = None
    """One a reranker, at least 0; None for 1 each."""
    given_weight: float = 0.0
    """The weight of the given scores, at least 0."""
    normalise: Literal["min_max", "standard"] = "standard"
    """``"min_max"``: to [0, 1]. ``"standard"``: to mean 0 and standard deviation 1."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        check_weights("linear", len(self.rerankers), self.weights, self.given_weight)

    @property
    def name(self) -> str:
        """``"linear"``."""
        return "linear"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The weighted means of the normalised scores.

        Raises:
            InterfaceError: a reranker's scores cannot be used; what one raises passes through.
        """
        lists, notes = member_scores(self.rerankers, query, chunks)
        weights = list(self.weights or [1.0] * len(lists))
        if self.given_weight:
            scored = [chunk.score for chunk in chunks if chunk.score is not None]
            lowest = min(scored, default=0.0)
            lists.append(given_scores(chunks, lowest))
            notes += unscored_note(chunks, lowest)
            weights.append(self.given_weight)
        normalised = [
            min_max(one) if self.normalise == "min_max" else standard(one) for one in lists
        ]
        whole = sum(weights)
        return NotedScores(
            tuple(
                sum(weight * score for weight, score in zip(weights, column, strict=True)) / whole
                for column in zip(*normalised, strict=True)
            ),
            notes,
        )
