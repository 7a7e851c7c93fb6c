"""Which texts share enough shingles with others that a closer look is worth it."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.text.tokens import normalise, tokenise
from ragbench.text.word_hashes import WHITE_SPACE, hash_words

__all__ = ["may_resemble", "shingle_words"]

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
        texts: any number.
        size: words a shingle, at least 1.
        similarity: s, in [0, 1].

    Returns:
        False only where no other text reaches it; also true for texts shorter than a shingle.
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
