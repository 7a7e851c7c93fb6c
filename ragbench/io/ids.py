"""Ids: made from content where a source has none, and unique within a source."""

from __future__ import annotations

import unicodedata
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b

_HASH_BITS = (1 << 60) - 1
_FIRST_SLOTS = 1 << 14


def derived_id(prefix: str, text: str, *, digits: int = 10) -> str:
    """An id that depends on the text alone, not on where it stands in a file.

    Differences of case, white space and Unicode form do not count.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    # A surrogate that text from other programs may hold must not stop the hash.
    normal = " ".join(folded.split()).encode("utf-8", "surrogatepass")
    return f"{prefix}-{blake2b(normal, digest_size=digits // 2).hexdigest()}"


@dataclass(kw_only=True, slots=True)
class IdRegister:
    """Which ids were used, and where, in 12 bytes a slot.

    A dictionary of a million ids takes 150 MB; this takes 24 MB, because it keeps hashes of 60 bits
    in arrays (open addressing, linear probing, at most half full). Two different ids of a million
    share a hash with a probability of 4e-7.
    """

    _hashes: array[int] = field(default_factory=lambda: array("Q", (0,)) * _FIRST_SLOTS)
    _lines: array[int] = field(default_factory=lambda: array("I", (0,)) * _FIRST_SLOTS)
    _used: int = 0
    _repeats: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, identifier: str | int, line: int) -> int | None:
        """Notes an id, or the hash of one; gives the line of the same one before, if there is one.

        Args:
            line: where it stands, from 1.
        """
        hashed = hash(identifier) & _HASH_BITS or 1  # 0 marks a free slot
        hashes, last = self._hashes, len(self._hashes) - 1
        slot = hashed & last
        while found := hashes[slot]:
            if found == hashed:
                return self._lines[slot]
            slot = (slot + 1) & last
        hashes[slot] = hashed
        self._lines[slot] = line
        self._used += 1
        if 2 * self._used > last:
            self._grow()
        return None

    def add_derived(self, identifier: str, line: int) -> str:
        """Notes a derived id under the first free one of ``id``, ``id-2``, ``id-3`` ..."""
        if self.add(identifier, line) is None:
            return identifier
        number = self._repeats.get(identifier, 1) + 1
        while self.add(f"{identifier}-{number}", line) is not None:
            number += 1
        self._repeats[identifier] = number
        return f"{identifier}-{number}"

    def _grow(self) -> None:
        known, size = zip(self._hashes, self._lines, strict=True), 2 * len(self._hashes)
        self._hashes = array("Q", (0,)) * size
        self._lines = array("I", (0,)) * size
        self._used = 0
        for hashed, line in known:
            if hashed:
                self.add(hashed, line)  # a number below 2**61 - 1 is its own hash
