"""Whether the scores of ranked chunks fall, as similarities do, or rise, as distances do.

A retriever hands over the best chunk first. So the direction of its scores says what they are,
whatever their name: Milvus, for one, calls both a distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_SHARE = 0.9
"""Of the lists with different scores: two chunks in any order rise half of the time."""


def rises(scores: Sequence[float]) -> bool | None:
    """Whether scores rise from the first chunk to the last. None where they do neither or both."""
    steps = [after - before for before, after in pairwise(scores)]
    up, down = any(step > 0 for step in steps), any(step < 0 for step in steps)
    return None if up is down else up


@dataclass(slots=True)
class ScoreOrders:
    """Counts the directions of many lists."""

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
