"""Tokens of the candidates, and what they weigh.

The same words come again and again, so each is cut into tokens once. What a text holds is then
looked up for all words of all candidates at once, by their hashes, in arrays.
"""

from __future__ import annotations

import math
import string
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from ragbench.text.tokens import WHITE_SPACE, HashedWords, hash_words, tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_JOINING = b"-_/.:,"
"""What may stand within a token, but never at its end."""
_UNKNOWN = -(1 << 31)


class _Vocabulary:
    """Words with the numbers of their tokens. It only grows, so that threads may share it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Token to a number of its own."""
        self.tokens: list[str] = []
        """The tokens by these numbers."""
        self.uneven: list[tuple[int, ...]] = []
        """The tokens' numbers of the words with the codes -1, -2, and so on."""
        self.size = 0
        """How many words there are."""
        self._table = _empty_table(1 << 16)
        self._lock = threading.Lock()

    def codes(self, words: HashedWords) -> NDArray[np.int32]:
        """The number of each word's token; below 0 for a word of no token or several."""
        import numpy as np

        codes = _looked_up(self._table, words.hashes)
        unknown = np.flatnonzero(codes == _UNKNOWN)
        if len(unknown):
            self._learn(words, unknown)
            codes[unknown] = _looked_up(self._table, words.hashes[unknown])
        return codes

    def _learn(self, words: HashedWords, places: NDArray[np.intp]) -> None:
        import numpy as np

        new, first = np.unique(words.hashes[places], return_index=True)
        with self._lock:
            if 2 * (self.size + len(new)) > len(self._table[0]):
                self._table = _enlarged(self._table, 4 * (self.size + len(new)))
            hashes, codes = self._table
            for hash_, place in zip(new.tolist(), places[first].tolist(), strict=True):
                slot = _free_slot(hashes, hash_)
                if slot is not None:
                    word = words.data[words.starts[place] : words.ends[place]]
                    # The hash comes last: who finds it finds the code.
                    codes[slot] = self._code(word.decode("utf-8", "surrogatepass"))
                    hashes[slot] = hash_
                    self.size += 1

    def _code(self, word: str) -> int:
        found = tuple(map(self._number, tokenise(word)))
        if len(found) == 1:
            return found[0]
        self.uneven.append(found)
        return -len(self.uneven)

    def _number(self, token: str) -> int:
        number = self.numbers.get(token)
        if number is None:
            number = len(self.tokens)
            self.tokens.append(token)
            self.numbers[token] = number
        return number


_Table = tuple["NDArray[np.uint64]", "NDArray[np.int32]"]
"""Hashes, each at the place that its highest bits name or the next free one, and codes there; as
many places as a power of two, and a hash of 0 where nothing is."""


def _empty_table(size: int) -> _Table:
    import numpy as np

    places = 1 << (size - 1).bit_length()
    return np.zeros(places, dtype=np.uint64), np.zeros(places, dtype=np.int32)


def _enlarged(table: _Table, size: int) -> _Table:
    larger = _empty_table(size)
    for hash_, code in zip(*(column[table[0] != 0].tolist() for column in table), strict=True):
        slot = _free_slot(larger[0], hash_)
        larger[0][slot], larger[1][slot] = hash_, code
    return larger


def _free_slot(hashes: NDArray[np.uint64], hash_: int) -> int | None:
    slot = hash_ >> (65 - len(hashes).bit_length())
    while held := int(hashes[slot]):
        if held == hash_:
            return None
        slot = (slot + 1) % len(hashes)
    return slot


def _looked_up(table: _Table, wanted: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The codes of hashes, or that they are unknown."""
    import numpy as np

    hashes, codes = table
    slots = (wanted >> np.uint64(65 - len(hashes).bit_length())).astype(np.intp)
    there = hashes[slots]
    found = np.where(there == wanted, codes[slots], np.int32(_UNKNOWN))
    # Where another one has the place, the next places are looked at.
    left = np.flatnonzero((there != wanted) & (there != 0))
    while len(left):
        slots[left] = (slots[left] + 1) % len(hashes)
        there = hashes[slots[left]]
        hit = there == wanted[left]
        found[left[hit]] = codes[slots[left[hit]]]
        left = left[~hit & (there != 0)]
    return found


_shared: list[_Vocabulary] = []


_MOST = 1 << 17
"""How many words are remembered; then all are forgotten."""


def _vocabulary() -> _Vocabulary:
    """The vocabulary that is in use; whoever has it may keep using it."""
    known = _shared[-1] if _shared else None
    if known is None or known.size > _MOST:
        known = _Vocabulary()
        _shared[:] = [known]
    return known


@dataclass(frozen=True, slots=True, eq=False)
class CandidateTokens:
    """The tokens of several texts as numbers, the same for the same token."""

    numbers: NDArray[np.int32]
    """In an order that follows the texts alone."""
    rows: NDArray[np.intp]
    """The place of each token's text."""
    texts: Sequence[str]
    _words: HashedWords
    _codes: NDArray[np.int32]
    _known: _Vocabulary

    @property
    def lengths(self) -> NDArray[np.intp]:
        import numpy as np

        return np.bincount(self.rows, minlength=len(self.texts))

    def counts(self, wanted: Sequence[str]) -> NDArray[np.intp]:
        """How often each of the wanted tokens, each named once, stands in each text."""
        import numpy as np

        columns = self._columns(wanted)[self.numbers]
        held = columns >= 0
        places = self.rows[held] * len(wanted) + columns[held]
        size = len(self.texts) * len(wanted)
        return np.bincount(places, minlength=size).reshape(len(self.texts), len(wanted))

    def words_of(self, places: Sequence[int]) -> list[str]:
        """The tokens of some texts, each once, in alphabetical order."""
        import numpy as np

        numbers = np.unique(self.numbers[np.isin(self.rows, places)]).tolist()
        return sorted(map(self._known.tokens.__getitem__, numbers))

    def hits(self, wanted: Sequence[str]) -> list[tuple[list[int], list[int]] | None]:
        """Where the wanted tokens, each named once, stand.

        Returns:
            only a part of a word, or where the word is not of ASCII characters and may reach over
        """
        import numpy as np

        columns = self._columns(wanted)
        codes, words = self._codes, self._words
        found = np.where(codes >= 0, columns[codes], -1)
        at = np.flatnonzero(found >= 0)
        owners, starts, ends = words.owners[at], words.starts[at], words.ends[at]
        offsets = starts - words.offsets[owners]
        edges = np.searchsorted(owners, np.arange(len(self.texts) + 1)).tolist()
        hits: list[tuple[list[int], list[int]] | None] = [
            (offsets[first:last].tolist(), found[at[first:last]].tolist())
            for first, last in pairwise(edges)
        ]
        for row, text in enumerate(self.texts):
            if not text.isascii():
                first, last = edges[row], edges[row + 1]
                held = zip(starts[first:last].tolist(), ends[first:last].tolist(), strict=True)
                hits[row] = self._counted_in_characters(row, list(held), hits[row])
        for row in self._rows_of_parts(columns):
            hits[row] = None
        return hits

    def _counted_in_characters(
        self,
        row: int,
        words: list[tuple[int, int]],
        hits: tuple[list[int], list[int]] | None,
    ) -> tuple[list[int], list[int]] | None:
        """A text's hits with offsets of characters, not bytes; None for words not of ASCII."""
        data, origin = self._words.data, self._words.offsets[row]
        if hits is None or not all(data[start:end].isascii() for start, end in words):
            return None
        offsets = [len(data[origin:start].decode("utf-8", "surrogatepass")) for start, _ in words]
        return offsets, hits[1]

    def _rows_of_parts(self, columns: NDArray[np.intp]) -> set[int]:
        """The texts with a word of several tokens of which one is wanted."""
        import numpy as np

        uneven = np.flatnonzero(self._codes < 0)
        codes: list[int] = self._codes[uneven].tolist()
        rows: list[int] = self._words.owners[uneven].tolist()
        return {
            row
            for row, code in zip(rows, codes, strict=True)
            if any(columns[number] >= 0 for number in self._known.uneven[~code])
        }

    def _columns(self, wanted: Sequence[str]) -> NDArray[np.intp]:
        """For each number the place of its token among the wanted, or -1."""
        import numpy as np

        columns = np.full(len(self._known.numbers) + 1, -1)
        columns[[self._known.numbers.get(token, -1) for token in wanted]] = range(len(wanted))
        # Where the unknown ones went.
        columns[-1] = -1
        return columns


_APART = WHITE_SPACE + bytes(set(string.punctuation.encode()) - set(_JOINING))
"""What stands within no token."""


def candidate_tokens(texts: Sequence[str]) -> CandidateTokens:
    """The tokens of `ragbench.text.tokens.tokenise` in each text."""
    import numpy as np

    known = _vocabulary()
    words = hash_words(texts, separators=_APART, trailing=_JOINING)
    codes = known.codes(words)
    uneven = codes < 0
    uneven_codes: list[int] = codes[uneven].tolist()
    parts = [known.uneven[~code] for code in uneven_codes]
    more = np.fromiter(chain.from_iterable(parts), dtype=np.int32)
    rows = np.repeat(words.owners[uneven], list(map(len, parts)) if parts else 0)
    return CandidateTokens(
        np.concatenate([codes[~uneven], more]),
        np.concatenate([words.owners[~uneven], rows]),
        texts,
        words,
        codes,
        known,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QueryWeights:
    """The query's tokens with what each is worth among the candidates."""

    tokens: Sequence[str]
    """Each once."""
    weights: Sequence[float]
    """``ln(1 + (N - n + 0.5) / (n + 0.5))`` for each, with n of the N candidates holding it
    (Robertson and Zaragoza 2009)."""
    texts: Sequence[str]
    """The candidates."""
    candidates: Sequence[float]
    """What each whole candidate is worth."""
    _hits: Sequence[tuple[list[int], list[int]] | None]

    def held(self, place: int, start: int, end: int) -> set[int]:
        """Which tokens, by their place, stand in a stretch of a candidate's text."""
        hits = self._hits[place]
        if hits is None:
            held = set(tokenise(self.texts[place][start:end]))
            return {at for at, token in enumerate(self.tokens) if token in held}
        offsets, tokens = hits
        first = bisect_left(offsets, start)
        return set(tokens[first : bisect_left(offsets, end, first)])

    def worth(self, tokens: Iterable[int]) -> float:
        """What different tokens are worth together; 0 for none.

        Rounded once, whatever their order: a part never weighs more than its whole.
        """
        return math.fsum([self.weights[token] for token in tokens])


def query_weights(query: str, texts: Sequence[str]) -> QueryWeights:
    tokens = list(dict.fromkeys(tokenise(query)))
    found = candidate_tokens(texts)
    holding = found.counts(tokens) > 0
    weights = [
        math.log1p((len(texts) - count + 0.5) / (count + 0.5))
        for count in holding.sum(axis=0).tolist()
    ]
    return QueryWeights(
        tokens=tokens,
        weights=weights,
        texts=texts,
        candidates=list(map(math.fsum, (holding * weights).tolist())),
        _hits=found.hits(tokens),
    )
