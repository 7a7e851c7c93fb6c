"""Several rankings of chunks, made one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Literal

from ragbench.errors import InterfaceError
from ragbench.postretrieval.contract import in_order
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.records.corpus import Chunk

__all__ = ["FUSIONS", "RRF_K", "Fusion", "fuse", "newcomers"]

Fusion = Literal["concat", "interleave", "weighted", "rrf"]
FUSIONS = ("concat", "interleave", "weighted", "rrf")

RRF_K = 60
"""The constant of reciprocal rank fusion, as its authors chose it."""

Rankings = Sequence[Sequence[RankedChunk]]


def newcomers(chunks: Sequence[Chunk]) -> list[RankedChunk]:
    """What a service gave, as chunks that retrieval did not give.

    Raises:
        InterfaceError: one of them is no chunk, or has a score that is not finite.
    """
    found: list[RankedChunk] = []
    for chunk in chunks:
        if not isinstance(chunk, Chunk):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
            raise InterfaceError(f"the chunk service gave {type(chunk).__name__}, not a Chunk")
        if chunk.score is not None and not math.isfinite(chunk.score):
            raise InterfaceError(f"the chunk service gave chunk '{chunk.id}' score {chunk.score}")
        found.append(
            RankedChunk(
                chunk=chunk,
                score=chunk.score,
                rank=len(found) + 1,
                initial_score=chunk.score,
                initial_rank=None,
            )
        )
    return found


def fuse(rankings: Rankings, fusion: Fusion, weights: Sequence[float]) -> tuple[RankedChunk, ...]:
    """Makes one ranking of several. Each chunk id appears once; the first record of it stays.

    - ``concat``: the first ranking whole, then what is new in the second, and so on. Scores stay.
    - ``interleave``: the first of each ranking, then the second of each ... Scores stay.
    - ``weighted``: by the sum of weight times score, scores brought to [0, 1] within each ranking
      by its smallest and largest (Lee 1997; Fox & Shaw 1994, CombSUM). A ranking in which a chunk
      has no score counts by places instead: 1 for the first of n, 1/n for the last.
    - ``rrf``: by the sum of weight / (60 + rank) (Cormack, Clarke & Buettcher 2009).

    Args:
        rankings: best first; the first one is what stood before.
        fusion: how.
        weights: a weight a ranking; only ``weighted`` and ``rrf`` look at them.

    Returns:
        The union, ranks from 1. Equal sums stay in the order of ``interleave``.
    """
    if fusion == "concat":
        return in_order(_first_of_each(entry for ranking in rankings for entry in ranking))
    taken = _first_of_each(
        entry for turn in zip_longest(*rankings) for entry in turn if entry is not None
    )
    if fusion == "interleave":
        return in_order(taken)
    shares = _reciprocal_ranks if fusion == "rrf" else _scaled_scores
    sums = _weighted_sums(rankings, weights, shares)
    scored = [replace(entry, score=sums[entry.chunk.id]) for entry in taken]
    return in_order(sorted(scored, key=lambda entry: -sums[entry.chunk.id]))


def _first_of_each(entries: Iterable[RankedChunk]) -> list[RankedChunk]:
    known: dict[str, RankedChunk] = {}
    for entry in entries:
        known.setdefault(entry.chunk.id, entry)
    return list(known.values())


def _weighted_sums(
    rankings: Rankings,
    weights: Sequence[float],
    shares: Callable[[Sequence[RankedChunk]], list[float]],
) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        met: set[str] = set()
        for entry, share in zip(ranking, shares(ranking), strict=True):
            if entry.chunk.id not in met:  # a repeated id counts where it stands best
                met.add(entry.chunk.id)
                sums.setdefault(entry.chunk.id, []).append(weight * share)
    return {id: math.fsum(parts) for id, parts in sums.items()}


def _reciprocal_ranks(ranking: Sequence[RankedChunk]) -> list[float]:
    return [1.0 / (RRF_K + rank) for rank in range(1, len(ranking) + 1)]


def _scaled_scores(ranking: Sequence[RankedChunk]) -> list[float]:
    scores = [entry.score for entry in ranking if entry.score is not None]
    if len(scores) < len(ranking):
        return [1.0 - place / len(ranking) for place in range(len(ranking))]
    if not scores:
        return []
    low, high = min(scores), max(scores)
    # Halves, because the difference of two finite numbers need not be finite.
    width = high / 2 - low / 2
    return [1.0 if width == 0 else (score / 2 - low / 2) / width for score in scores]
