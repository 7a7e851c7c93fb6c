"""One chunk of those with nearly the same text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, in_order, refuse
from ragbench.postretrieval.filter.shared_shingles import may_resemble, shingle_words
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.settings import at_least, between

__all__ = ["DedupNear"]

_Shingles = set[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupNear:
    """Leaves out chunks that resemble one that stands before them and is kept.

    The resemblance of two texts is the Jaccard index of their sets of shingles: runs of
    ``shingle`` words, without regard to case (Broder 1997, "On the resemblance and containment of
    documents"). It is computed exactly: among a query's candidates there is no need to estimate
    it by MinHash. Most texts resemble none, and hashes tell which these are.

    Raises:
        ConfigError: a setting is out of its range.
    """

    similarity: float = 0.8
    """The resemblance in [0, 1] from which on a chunk is left out; 1 takes equal sets only."""
    shingle: int = 3
    """Words a shingle, at least 1."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(between("similarity", self.similarity, 0, 1), at_least("shingle", self.shingle, 1))

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "filter.dedup_near"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        kept: list[RankedChunk] = []
        known = _Known(similarity=self.similarity)
        texts = [entry.chunk.text for entry in context.chunks]
        sharing = may_resemble(texts, size=self.shingle, similarity=self.similarity)
        for entry, is_sharing in zip(context.chunks, sharing, strict=True):
            if not is_sharing:
                kept.append(entry)
                continue
            shingles = _shingles(entry.chunk.text, self.shingle)
            if not known.resembles(shingles):
                known.add(shingles)
                kept.append(entry)
        return OperatorOutput(chunks=in_order(kept))


@dataclass(kw_only=True, slots=True)
class _Known:
    """The shingles of the chunks that are kept."""

    similarity: float
    each: list[_Shingles] = field(default_factory=list[_Shingles])
    union: set[str] = field(default_factory=set[str])

    def add(self, shingles: _Shingles) -> None:
        self.each.append(shingles)
        self.union |= shingles

    def resembles(self, shingles: _Shingles) -> bool:
        # A text shares at least similarity * its size with one that it resembles, and so with the
        # union: most texts are done with after one look. The sum keeps rounding from hiding one.
        if len(shingles & self.union) < self.similarity * len(shingles) - 1e-9:
            return False
        return any(self._resemble(shingles, other) for other in self.each)

    def _resemble(self, one: _Shingles, other: _Shingles) -> bool:
        shared = len(one & other)
        total = len(one) + len(other) - shared
        if total == 0:  # two texts without a word
            return True
        return shared / total >= self.similarity or math.isclose(shared / total, self.similarity)


def _shingles(text: str, size: int) -> _Shingles:
    words = shingle_words(text)
    # Texts and not tuples: thousands of tuples would keep the garbage collector busy.
    if len(words) < size:
        return {" ".join(words)} if words else set()
    return set(map(" ".join, zip(*(words[at:] for at in range(size)), strict=False)))
