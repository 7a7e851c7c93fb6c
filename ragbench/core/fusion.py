"""Rankings: several fused into one, and whether their scores are similarities or distances.

Pipelines, stores and operators all fuse by these functions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ragbench.core.chunk import Chunk
from ragbench.core.record import replace

RRF_K = 60
"""The larger it is, the less the first ranks count more than the next ones. The authors' value."""

IdT = TypeVar("IdT", bound=Hashable)


def best_ranks(ids: Sequence[IdT]) -> dict[IdT, int]:
    """The rank of each id in a ranking, from 1; of an id that is there twice the better rank.

    A retriever may return a chunk twice, and fusion must not count it twice.
    """
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

    The score of an id is the sum, over the rankings that contain it, of ``weight / (rrf_k + rank)``
    with ranks from 1. The order of the rankings does not matter.
    Stores, pipelines and operators all fuse by it: a change moves the results of each.
    """
    if not weights:
        weights = [1.0] * len(rankings)
    terms: dict[IdT, list[float]] = {}
    for weight, ranking in zip(weights, rankings, strict=True):
        for id_, rank in best_ranks(ranking).items():
            terms.setdefault(id_, []).append(weight / (rrf_k + rank))
    # fsum, so that the order of the rankings does not change the last digit either.
    return {id_: math.fsum(terms_of_id) for id_, terms_of_id in terms.items()}


def min_max(scores: Sequence[float]) -> list[float]:
    """Maps the lowest score of a list to 0 and its highest to 1; equal scores all become 0.5.

    Lists of different scales can be added up so. Equal scores do not rank their chunks: 0.5 neither
    lifts nor sinks these among other lists. Stored outcomes of fused rankings rest on this mapping.
    """
    if not scores:
        return []
    low = min(scores)
    high = max(scores)
    # Halved first: the difference of two finite numbers may be infinite.
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

    Only ranks count, so the chunks' own scores may be on different scales. A chunk of several
    rankings is that of the first one; equal totals are in the order of the ids.
    Hybrid searches, and searches by several queries, fuse by it.
    """
    ids: list[list[str]] = []
    chunk_of: dict[str, Chunk] = {}
    for ranking in rankings:
        ids.append([chunk.id for chunk in ranking])
        for chunk in ranking:
            chunk_of.setdefault(chunk.id, chunk)
    totals = reciprocal_rank_scores(ids, weights=weights, rrf_k=rrf_k)
    # By the id behind the total, so that equal totals are in the same order each time.
    best_ids = sorted(totals, key=lambda id_: (-totals[id_], id_))[:top_k]
    return [replace(chunk_of[id_], score=totals[id_]) for id_ in best_ids]


# --- whether scores fall, as similarities do, or rise, as distances do
#
# A retriever returns the best chunk first. So the direction of its scores shows what they are,
# whatever their name: Milvus, for one, calls both a distance.

_SHARE_OF_DISTANCES = 0.9
"""Share of rising lists from which on scores are taken for distances. It is far above a half: in
lists of two chunks without any order, scores rise half of the time."""


def rises(scores: Sequence[float]) -> bool | None:
    """Whether a retrieval's scores rise from the first chunk to the last, as distances do.

    None where all are the same, and where some rise and some fall.
    """
    has_rise = False
    has_fall = False
    for score, next_score in pairwise(scores):
        if next_score > score:
            has_rise = True
        elif next_score < score:
            has_fall = True
    # Scores that rise and fall, or do neither, have no single direction.
    if has_rise == has_fall:
        return None
    return has_rise


@dataclass(slots=True)
class ScoreOrders:
    """Counts the directions of a system's lists of scores, over all cases."""

    rising: int = 0
    falling: int = 0
    mixed: int = 0

    def add(self, scores: Sequence[float]) -> None:
        """Counts whether one retrieval's scores rise, fall or do both.

        Scores that are all the same have no direction, and are not counted.
        """
        is_rising = rises(scores)
        if is_rising:
            self.rising += 1
        elif is_rising is False:
            self.falling += 1
        elif len(set(scores)) > 1:
            self.mixed += 1

    def note(self) -> str | None:
        """A warning that a system's scores are distances, if nine of ten of its lists rise.

        Operators would take the worst chunks for the best ones. The share is far above a half, as
        lists of two chunks without any order rise half of the time. None without such a sign.
        """
        lists = self.rising + self.falling + self.mixed
        # Without any list that has a direction nothing can be said.
        if not lists or self.rising < _SHARE_OF_DISTANCES * lists:
            return None
        return (
            f"In {self.rising:,} of {lists:,} retrievals with different scores these rise from the "
            "first chunk to the last, as distances do. Ranks are those of the list, but "
            "post-retrieval takes a higher score for a better one: have the RAG give minus the "
            "distance."
        )
