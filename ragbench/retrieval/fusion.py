"""Several rankings of chunks made into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.records.corpus import Chunk

__all__ = ["reciprocal_rank_fusion"]


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Chunk]],
    *,
    weights: Sequence[float] | None = None,
    rrf_k: int = 60,
    top_k: int | None = None,
) -> list[Chunk]:
    """Weighted reciprocal rank fusion (Cormack, Clarke and Buettcher 2009).

    A chunk's score is the sum, over the rankings that hold it, of ``weight / (rrf_k + rank)`` with
    ranks from 1. The scores that it came with do not matter, nor that they are on different scales.

    Args:
        rankings: chunks, best first, each at most once in a ranking.
        weights: one a ranking, at least 0; all equal by default.
        rrf_k: how little the first ranks count more than the next ones.
        top_k: how many chunks to return; None for all.

    Returns:
        Each chunk once, as the first ranking gave it, with its new score; highest score first, and
        of equal scores the lower id.
    """
    totals: dict[str, float] = {}
    chunks: dict[str, Chunk] = {}
    for weight, ranking in zip(weights or [1.0] * len(rankings), rankings, strict=True):
        for rank, chunk in enumerate(ranking, start=1):
            totals[chunk.id] = totals.get(chunk.id, 0.0) + weight / (rrf_k + rank)
            chunks.setdefault(chunk.id, chunk)
    order = sorted(totals, key=lambda id_: (-totals[id_], id_))[:top_k]
    return [replace(chunks[id_], score=totals[id_]) for id_ in order]
