"""One chunk of those with the same, or nearly the same text."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragbench.post.operator import (
    OperatorInput,
    OperatorOutput,
    RankedChunk,
    at_least,
    between,
    in_order,
    refuse,
)
from ragbench.text.tokens import WHITE_SPACE, hash_words, normalise, tokenise


@dataclass(frozen=True, kw_only=True, slots=True)
class Dedup:
    """Keeps the first of the chunks that share an id or a text.

    Texts are compared in Unicode NFKC, with runs of white space as one space.
    """

    @property
    def name(self) -> str:
        return "filter.dedup"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        kept: list[RankedChunk] = []
        ids: set[str] = set()
        texts: set[str] = set()
        for entry in context.chunks:
            text = _plain(entry.chunk.text)
            if entry.chunk.id not in ids and text not in texts:
                kept.append(entry)
            ids.add(entry.chunk.id)
            texts.add(text)
        return OperatorOutput(chunks=in_order(kept))


def _plain(text: str) -> str:
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(normal.split())


_UNSPACED = 12
"""Words longer than this on average: the script has no spaces."""
_BITS = 16
"""Of a shingle's hash that are looked at: where two share them, it costs a closer look."""


def shingle_words(text: str) -> list[str]:
    """What shingles are made of: words without regard to case, or tokens where no spaces are."""
    words = normalise(text).split()
    return tokenise(text) if _is_unspaced(text, words) else words


def _is_unspaced(text: str, words: Sequence[str]) -> bool:
    return len(text) > _UNSPACED * len(words)


def may_resemble(texts: Sequence[str], *, size: int, similarity: float) -> list[bool]:
    """Tells for each text whether the Jaccard index with another one may reach a similarity.

    Of the n places of a text where a shingle begins, let r be those whose shingle stands at another
    place, too. The text shares at most r shingles and has at least n - r more; so where its index
    reaches s, r >= s * (r + n - r) = s * n. Hashes of shingles can only make r larger.

    Args:
        similarity: s, in [0, 1].
    """
    import numpy as np

    if not texts:
        return []
    # What normalising may change is normalised first.
    plain = [text if text.isascii() else " ".join(shingle_words(text)) for text in texts]
    words = hash_words(plain, separators=WHITE_SPACE)
    lengths = np.bincount(words.owners, minlength=len(texts))
    if (np.array(list(map(len, plain))) > _UNSPACED * lengths)[lengths > 0].any():
        # The shingles of an unspaced text are of other words.
        return [True] * len(texts)
    count = max(0, len(words.hashes) - size + 1)
    shingles = np.zeros(count, dtype=np.uint64)
    for at in range(size):
        # Odd factors, so that the order of the words counts.
        shingles += words.hashes[at : at + count] * np.uint64(2 * at + 1)
    owners = words.owners[:count]
    inside = owners == words.owners[size - 1 :]
    owners, shingles = owners[inside], shingles[inside]
    buckets = (shingles >> np.uint64(64 - _BITS)).astype(np.intp)
    again = np.bincount(buckets, minlength=1 << _BITS)[buckets] > 1
    places = np.bincount(owners, minlength=len(texts))
    repeated = np.bincount(owners[again], minlength=len(texts))
    # The sum keeps rounding from hiding one.
    found: list[bool] = (repeated >= similarity * places - 1e-9).tolist()
    return found


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
        refuse(between("similarity", self.similarity, 0, 1), at_least("shingle", self.shingle, 1))

    @property
    def name(self) -> str:
        return "filter.dedup_near"

    def apply(self, context: OperatorInput) -> OperatorOutput:
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
