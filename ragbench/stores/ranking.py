"""The same order of results from every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

__all__ = ["Fetch", "Ranked", "similarity", "top_k"]


class Ranked(Protocol):
    """A chunk, or what becomes one."""

    @property
    def id(self) -> str:
        """What decides between equal scores."""
        ...

    @property
    def score(self) -> float | None:
        """Higher is better."""
        ...


RankedT = TypeVar("RankedT", bound=Ranked)

Fetch: TypeAlias = Callable[[Sequence[int], int], list[list[RankedT]]]
"""Asks the engine: for these queries (by position), at most so many chunks each, with scores."""


def similarity(score: float) -> float:
    """A score as stores give it out: within [-1, 1], to six decimals, never -0.0."""
    rounded = round(score, 6)
    if -1.0 <= rounded <= 1.0:
        return rounded + 0.0
    return 1.0 if rounded > 0 else -1.0


def top_k(
    fetch: Fetch[RankedT], queries: int, k: int, *, most: int | None = None
) -> list[list[RankedT]]:
    """The first `k` chunks of each query by score, then by id.

    Engines order ties as they like, and cut anywhere within them. So one chunk more than `k` is
    asked for: when it ties with the last, more are, until the tie is whole.

    Args:
        fetch: asks the engine.
        queries: how many queries there are.
        k: how many chunks to return for each.
        most: the most chunks that the engine gives for one query; a tie that is longer is cut
            where the engine cuts it.
    """
    limit = _within(k + 1, most)
    found = fetch(range(queries), limit)
    for query, chunks in enumerate(found):
        chunks.sort(key=_order)
        asked = limit
        while len(chunks) >= asked and chunks[-1].score == chunks[k - 1].score:
            if asked == most:
                break
            asked = _within(4 * asked, most)
            chunks = fetch([query], asked)[0]
            chunks.sort(key=_order)
        found[query] = chunks[:k]
    return found


def _within(limit: int, most: int | None) -> int:
    return limit if most is None else min(limit, most)


def _order(chunk: Ranked) -> tuple[float, str]:
    return -(chunk.score or 0.0), chunk.id
