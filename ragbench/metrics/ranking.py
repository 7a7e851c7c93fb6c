"""A retrieval as rank metrics see it: grades in the place of chunks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ragbench.core.matched import Matched


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What a case retrieved, as far as it matters for rank metrics: grades in the place of chunks.

    Equal rankings are one object, as far as they are remembered, so that a metric computes each
    ranking once.

    In most cases each chunk is at most one of the gold contexts, and no two are the same one. Else
    (a chunk holds two gold contexts, two chunks hold the same one) ``grades`` and ``gains`` differ:
    what is relevant by itself is not always something new. Metrics of gain read ``gains`` and
    ``ideal``, so that no ranking can gain more than the ideal one.
    """

    grades: tuple[int, ...]
    """The grade of each retrieved chunk, best first, the highest where it holds several gold
    contexts; `UNJUDGED` where it is none of those that are known. Of a repeated id only the first
    place is kept; of a document, where documents are relevant, only its best chunk's."""
    golds: tuple[int, ...]
    """The grades of all gold contexts, highest first; at least one."""
    gains: tuple[int, ...]
    """The summed grades of the gold contexts that no chunk before it held; `UNJUDGED` where it
    brings none."""
    ideal: tuple[int, ...]
    """The gains of the best order, highest first."""
    ranks: tuple[tuple[int, int], ...] | None = None
    """The grade of each gold context that some chunk holds, with the rank of the first one that
    does, from 1; None where that can be seen from ``grades``."""

    def relevant(self, level: int = 1) -> int:
        """How many gold contexts have a grade of ``level`` or more."""
        if self.golds[-1] >= level:
            return len(self.golds)
        return len([grade for grade in self.golds if grade >= level])

    def found(self, k: int | None = None, level: int = 1) -> int:
        """How many of those the first k chunks hold; all chunks where k is None."""
        if self.ranks is None:
            return len([grade for grade in self.grades[:k] if grade >= level])
        last = len(self.grades) if k is None else k
        return len([rank for grade, rank in self.ranks if grade >= level and rank <= last])

    def judged(self) -> Ranking:
        """The same without the chunks that nobody has judged.

        As in trec_eval, a grade below 0 counts as none here.
        """
        grades = tuple([grade for grade in self.grades if grade >= 0])
        if self.ranks is None:
            return Ranking(grades, self.golds, grades, self.ideal)
        kept = [rank for rank, grade in enumerate(self.grades, 1) if grade >= 0]
        moved = {old: new for new, old in enumerate(kept, 1)}
        # A chunk that repeats a gold context brings nothing, and keeps its place.
        gains = tuple([self.gains[rank - 1] for rank in kept])
        ranks = [(grade, moved[rank]) for grade, rank in self.ranks if rank in moved]
        return Ranking(grades, self.golds, gains, self.ideal, tuple(ranks))


UNJUDGED = -(1 << 31)
"""In the place of a grade: the chunk is none of those whose relevance is known."""


@lru_cache(maxsize=8192)
def _regular(grades: tuple[int, ...], golds: tuple[int, ...]) -> Ranking:
    """A ranking in which each chunk is one gold context at most, and none twice."""
    return Ranking(grades, golds, grades, golds)


@lru_cache(maxsize=8192)
def _of_slots(slots: tuple[tuple[int, ...], ...], grades: tuple[int, ...]) -> Ranking:
    """A ranking by the gold contexts in each chunk, as positions in their grades."""
    ranks: dict[int, int] = {}
    gains: list[int] = []
    for rank, slot in enumerate(slots, 1):
        new = [gold for gold in slot if gold not in ranks]
        ranks.update(dict.fromkeys(new, rank))
        gains.append(sum(grades[gold] for gold in new) if new else UNJUDGED)
    of_chunks = tuple(max((grades[gold] for gold in slot), default=UNJUDGED) for slot in slots)
    golds = tuple(sorted(grades, reverse=True))
    if sum(map(len, slots)) == len(ranks) and all(len(slot) <= 1 for slot in slots):
        return _regular(of_chunks, golds)
    missed = [grade for gold, grade in enumerate(grades) if gold not in ranks]
    ideal = sorted([*missed, *(gain for gain in gains if gain != UNJUDGED)], reverse=True)
    found = tuple((grades[gold], rank) for gold, rank in ranks.items())
    return Ranking(of_chunks, golds, tuple(gains), tuple(ideal), found)


def ranking_of(matched: Matched) -> Ranking:
    """The ranking of a retrieval that was compared with what is relevant."""
    slots: list[tuple[int, ...]] = [()] * matched.chunks
    for match in matched.matches:
        slots[match.rank - 1] += (match.gold,)
    if matched.repeated:
        dropped = set(matched.repeated)
        slots = [slot for rank, slot in enumerate(slots, 1) if rank not in dropped]
    return _of_slots(tuple(slots), matched.grades)
