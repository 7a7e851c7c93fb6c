"""Rankings and their scores: several made into one by the same formula everywhere; direction."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ragbench.core.chunk import Chunk
from ragbench.core.record import replace

RRF_K = 60
"""How little the first ranks count more than the next ones, as the authors chose it."""

IdT = TypeVar("IdT", bound=Hashable)


def best_ranks(ids: Sequence[IdT]) -> dict[IdT, int]:
    """Ranks from 1, best first; of an id that stands there twice the best one."""
    ranks: dict[IdT, int] = {}
    for rank, id_ in enumerate(ids, start=1):
        ranks.setdefault(id_, rank)
    return ranks


def reciprocal_rank_scores(
    rankings: Sequence[Sequence[IdT]],
    *,
    weights: Sequence[float] | None = None,
    rrf_k: float = RRF_K,
) -> dict[IdT, float]:
    """Weighted reciprocal rank fusion (Cormack, Clarke and Buettcher 2009).

    The score of an id is the sum, over the rankings that hold it, of ``weight / (rrf_k + rank)``
    with ranks from 1. The order of the rankings does not matter.
    """
    parts: dict[IdT, list[float]] = {}
    for weight, ranking in zip(weights or [1.0] * len(rankings), rankings, strict=True):
        for id_, rank in best_ranks(ranking).items():
            parts.setdefault(id_, []).append(weight / (rrf_k + rank))
    return {id_: math.fsum(shares) for id_, shares in parts.items()}


def min_max(scores: Sequence[float]) -> list[float]:
    """Maps the lowest score to 0 and the highest to 1; equal scores all become 0.5.

    Equal scores say nothing: 0.5 neither lifts nor sinks their list beside others.
    """
    if not scores:
        return []
    low, high = min(scores), max(scores)
    # Halves: the difference of two finite numbers may be infinite.
    spread = high / 2 - low / 2
    if spread == 0:
        return [0.5] * len(scores)
    return [(score / 2 - low / 2) / spread for score in scores]


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Chunk]],
    *,
    weights: Sequence[float] | None = None,
    rrf_k: int = RRF_K,
    top_k: int | None = None,
) -> list[Chunk]:
    """Fuses rankings of chunks by `reciprocal_rank_scores`.

    The scores that the chunks came with do not matter, nor that they are on different scales.
    """
    ids = [[chunk.id for chunk in ranking] for ranking in rankings]
    totals = reciprocal_rank_scores(ids, weights=weights, rrf_k=rrf_k)
    chunks: dict[str, Chunk] = {}
    for ranking in rankings:
        for chunk in ranking:
            chunks.setdefault(chunk.id, chunk)
    order = sorted(totals, key=lambda id_: (-totals[id_], id_))[:top_k]
    return [replace(chunks[id_], score=totals[id_]) for id_ in order]


# --- whether scores fall, as similarities do, or rise, as distances do
#
# A retriever hands over the best chunk first. So the direction of its scores says what they are,
# whatever their name: Milvus, for one, calls both a distance.

_SHARE = 0.9
"""Of the lists with different scores: two chunks in any order rise half of the time."""


def rises(scores: Sequence[float]) -> bool | None:
    """Whether scores rise from the first chunk to the last. None where they do neither or both."""
    steps = [after - before for before, after in pairwise(scores)]
    up, down = any(step > 0 for step in steps), any(step < 0 for step in steps)
    return None if up is down else up


@dataclass(slots=True)
class ScoreOrders:
    rising: int = 0
    falling: int = 0
    mixed: int = 0

    def add(self, scores: Sequence[float]) -> None:
        """Counts a list; one whose scores are all the same says nothing."""
        risen = rises(scores)
        if risen is not None:
            self.rising += risen
            self.falling += not risen
        elif len(set(scores)) > 1:
            self.mixed += 1

    def note(self) -> str | None:
        """What a reader must know where nine of ten lists rise; None where they do not."""
        lists = self.rising + self.falling + self.mixed
        if not lists or self.rising < _SHARE * lists:
            return None
        return (
            f"In {self.rising:,} of {lists:,} retrievals with different scores these rise from the "
            "first chunk to the last, as distances do. Ranks are those of the list, but "
            "post-retrieval takes a higher score for a better one: have the RAG give minus the "
            "distance."
        )
