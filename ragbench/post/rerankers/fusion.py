"""Rerankers of rerankers: weighted sum, RRF."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import RRF_K, min_max, reciprocal_rank_scores
from ragbench.post.operator import Query, at_least, refuse
from ragbench.post.rerank import NotedScores, Reranker, checked_scores


def given_scores(chunks: Sequence[Chunk], default: float) -> list[float]:
    """Each chunk's present score, or the default where it has none (0 is a score)."""
    return [default if chunk.score is None else chunk.score for chunk in chunks]


def unscored_note(chunks: Sequence[Chunk], default: float) -> tuple[str, ...]:
    """What to say about chunks without a score; nothing when all have one."""
    unscored = sum(chunk.score is None for chunk in chunks)
    if not unscored:
        return ()
    return (f"{unscored} of {len(chunks)} chunks had no score: {default:g} was taken",)


def member_scores(
    rerankers: Sequence[Reranker], query: Query, chunks: Sequence[Chunk]
) -> tuple[list[Sequence[float]], tuple[str, ...]]:
    """Each reranker's scores, and all their notes with the reranker's name before each."""
    given = [checked_scores(reranker, query, chunks) for reranker in rerankers]
    notes = [
        f"{reranker.name}: {note}"
        for reranker, scores in zip(rerankers, given, strict=True)
        for note in scores.notes
    ]
    return [scores.values for scores in given], tuple(dict.fromkeys(notes))


def check_weights(
    members: int, weights: Sequence[float] | None, given_weight: float
) -> Iterator[str | None]:
    """What is wrong with the weights of several rerankers, for `refuse`."""
    if not members:
        yield "rerankers must not be empty"
    elif weights is not None and len(weights) != members:
        yield f"weights are {len(weights)} numbers for {members} rerankers"
    every = [*(weights or [1.0] * members), given_weight]
    yield from (at_least("weights", weight, 0) for weight in every)
    yield None if any(every) else "weights must hold a number above 0"


def standard(scores: Sequence[float]) -> list[float]:
    """Subtracts the mean and divides by the standard deviation; equal scores all become 0."""
    scaled = min_max(scores)
    mean = math.fsum(scaled) / len(scaled)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scaled) / len(scaled))
    if deviation == 0:
        return [0.0] * len(scores)
    return [(score - mean) / deviation for score in scaled]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearFusionReranker:
    """Sum over rerankers of weight * score, each list normalised among the candidates first.

    Unlike ranks, scores keep how far the candidates lie apart (Bruch, Gai and Ingber 2023, "An
    Analysis of Fusion Functions for Hybrid Retrieval").
    """

    name = "linear"

    rerankers: Sequence[Reranker]
    """Whose scores are added up; at least one."""
    weights: Sequence[float] | None = None
    """One a reranker, at least 0; None for 1 each."""
    given_weight: float = 0.0
    """The weight of the given scores, at least 0."""
    normalise: Literal["min_max", "standard"] = "standard"
    """``"min_max"``: to [0, 1]. ``"standard"``: to mean 0 and standard deviation 1."""

    def __post_init__(self) -> None:
        refuse(*check_weights(len(self.rerankers), self.weights, self.given_weight))

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The weighted means of the normalised scores."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ReciprocalRankFusionReranker:
    """Sum over rerankers of weight / (k + rank) (Cormack, Clarke and Büttcher 2009).

    It needs no common scale. The present order of the candidates can take part as one more list.
    """

    name = "rrf"

    rerankers: Sequence[Reranker]
    """Whose orders are fused; at least one."""
    weights: Sequence[float] | None = None
    """One a reranker, at least 0; None for 1 each."""
    given_weight: float = 0.0
    """The weight of the present order, at least 0."""
    k: float = float(RRF_K)
    """How little the first places differ from those behind them, at least 0."""

    def __post_init__(self) -> None:
        refuse(
            *check_weights(len(self.rerankers), self.weights, self.given_weight),
            at_least("k", self.k, 0),
        )

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        lists, notes = member_scores(self.rerankers, query, chunks)
        present = range(len(chunks))
        # sorted() is stable: equal scores are ranked in their present order.
        orders = [sorted(present, key=[-score for score in scores].__getitem__) for scores in lists]
        weights = [self.given_weight, *(self.weights or [1.0] * len(lists))]
        totals = reciprocal_rank_scores([present, *orders], weights=weights, rrf_k=self.k)
        return NotedScores(tuple(totals[at] for at in present), notes)
