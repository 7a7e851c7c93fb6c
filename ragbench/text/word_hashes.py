"""Hashes of all words of many texts at once: arrays instead of a loop over words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["WHITE_SPACE", "HashedWords", "hash_words"]

WHITE_SPACE = bytes(range(9, 14)) + bytes(range(28, 33))
"""What separates words in ASCII."""
_FACTOR = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse modulo 2**64."""
_SEPARATOR, _TRAILING = 1, 2


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HashedWords:
    """Words in reading order, those of the first text first."""

    data: bytes
    """The texts in UTF-8."""
    starts: NDArray[np.intp]
    """Where each word begins in the data."""
    ends: NDArray[np.intp]
    """The place behind each word."""
    owners: NDArray[np.intp]
    """The place of each word's text."""
    hashes: NDArray[np.uint64]
    """Equal for equal words, whatever the case of their ASCII letters; never 0. Two of a hundred
    thousand different words share one with a probability of about 1 to a thousand million."""
    offsets: NDArray[np.intp]
    """Where each text begins in the data."""


def hash_words(texts: Sequence[str], *, separators: bytes, trailing: bytes = b"") -> HashedWords:
    """Cuts texts into words and hashes these.

    The hash of the bytes b0, b1, ... is the sum of b_i * factor**i modulo 2**64, found for all
    words by one cumulative sum.

    Args:
        texts: at least one.
        separators: the ASCII characters that stand between words.
        trailing: those that do so before a separator.
    """
    import numpy as np

    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    data = b" ".join(encoded)
    offsets = np.cumsum([0, *(len(one) + 1 for one in encoded)])[:-1]
    # One separator more at each end.
    kinds = (b" %b " % data).translate(_kinds(separators, trailing))
    kind = np.frombuffer(kinds, dtype=np.uint8)
    apart = kind == _SEPARATOR
    apart[:-1] |= (kind[:-1] == _TRAILING) & apart[1:]
    # Words begin and end in turn.
    edges = np.flatnonzero(apart[1:] != apart[:-1])
    starts, ends = edges[::2], edges[1::2]
    powers, inverses = _powers(max(12, len(kinds).bit_length()))
    letters = np.frombuffer(data.lower(), dtype=np.uint8)
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum(np.multiply(letters, powers[: len(data)], dtype=np.uint64), out=sums[1:])
    hashes = (sums[ends] - sums[starts]) * inverses[starts]
    hashes[hashes == 0] = 1
    firsts = np.searchsorted(starts, offsets)
    return HashedWords(
        data=data,
        starts=starts,
        ends=ends,
        owners=np.repeat(np.arange(len(texts)), np.diff(firsts, append=len(starts))),
        hashes=hashes,
        offsets=offsets,
    )


@lru_cache(maxsize=8)
def _kinds(separators: bytes, trailing: bytes) -> bytes:
    """For each byte whether it is a separator, or one before a separator."""
    return bytes(
        _SEPARATOR if byte in separators else _TRAILING if byte in trailing else 0
        for byte in range(256)
    )


@lru_cache(maxsize=2)
def _powers(bits: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The factor's powers and their inverses, from 0 to below 2**bits."""
    import numpy as np

    found: list[NDArray[np.uint64]] = []
    for factor in (_FACTOR, pow(_FACTOR, -1, 1 << 64)):
        powers = np.full(1 << bits, factor, dtype=np.uint64)
        powers[0] = 1
        found.append(np.cumprod(powers, dtype=np.uint64))
    return found[0], found[1]
