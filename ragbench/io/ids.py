"""Ids: made from content where a source has none, and unique within a source."""

from __future__ import annotations

import unicodedata
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b

_HASH_BITS = (1 << 64) - 1
_FIRST_SLOTS = 1 << 10


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

    A dictionary of a million ids takes 150 MB; this takes 24 MB, because it keeps 64-bit hashes in
    arrays (open addressing, linear probing, at most half full). Two different ids of a million
    share a hash with a probability of 3e-8.
    """

    _hashes: array[int] = field(default_factory=lambda: array("Q", (0,)) * _FIRST_SLOTS)
    _lines: array[int] = field(default_factory=lambda: array("I", (0,)) * _FIRST_SLOTS)
    _used: int = 0
    _repeats: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, identifier: str, line: int) -> int | None:
        """Notes an id.

        Args:
            line: where it stands, from 1.
        """
        slot, hashed = self._slot(hash(identifier))
        if self._hashes[slot]:
            return self._lines[slot]
        self._hashes[slot] = hashed
        self._lines[slot] = line
        self._used += 1
        if 2 * self._used > len(self._hashes):
            self._grow()
        return None

    def __contains__(self, identifier: str) -> bool:
        return bool(self._hashes[self._slot(hash(identifier))[0]])

    def add_derived(self, identifier: str, line: int) -> str:
        """Notes a derived id under the first free one of ``id``, ``id-2``, ``id-3`` ..."""
        if self.add(identifier, line) is None:
            return identifier
        number = self._repeats.get(identifier, 1) + 1
        while self.add(f"{identifier}-{number}", line) is not None:
            number += 1
        self._repeats[identifier] = number
        return f"{identifier}-{number}"

    def _slot(self, hashed: int) -> tuple[int, int]:
        # 0 marks a free slot.
        hashed = hashed & _HASH_BITS or 1
        hashes = self._hashes
        last = len(hashes) - 1
        slot = hashed & last
        while (found := hashes[slot]) and found != hashed:
            slot = (slot + 1) & last
        return slot, hashed

    def _grow(self) -> None:
        old_hashes, old_lines = self._hashes, self._lines
        size = 2 * len(old_hashes)
        self._hashes = array("Q", (0,)) * size
        self._lines = array("I", (0,)) * size
        for hashed, line in zip(old_hashes, old_lines, strict=True):
            if hashed:
                slot, _ = self._slot(hashed)
                self._hashes[slot] = hashed
                self._lines[slot] = line
