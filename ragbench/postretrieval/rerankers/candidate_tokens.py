"""Tokens of the candidates, fast enough to be found anew for every query.

The stretches between white space ("pieces") come again and again, so each is cut into tokens once
and remembered, in both directions: a query then finds its words in a chunk by set operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from ragbench.text.tokens import tokenise

__all__ = ["token_counts", "token_numbers", "wanted_counts"]

_MOST = 1 << 17
"""How many pieces are remembered; then all are forgotten."""


class _Vocabulary:
    """Pieces with their tokens. It only grows, so that threads may share it."""

    def __init__(self) -> None:
        self.tokens: dict[str, tuple[str, ...]] = {}
        self.pieces: dict[str, set[str]] = {}
        """Token to the pieces that hold it."""
        self.numbers: dict[str, int] = {}
        """Token to a number of its own."""
        self.single: dict[str, int] = {}
        """Piece of one token to that token's number."""
        self.uneven: set[str] = set()
        """Pieces of no token or several."""

    def learn(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            tokens = tuple(tokenise(piece))
            for token in tokens:
                self.pieces.setdefault(token, set()).add(piece)
                self.numbers.setdefault(token, len(self.numbers))
            if len(tokens) == 1:
                self.single[piece] = self.numbers[tokens[0]]
            else:
                self.uneven.add(piece)
            # The last step: who finds a piece here finds it everywhere.
            self.tokens[piece] = tokens


_shared = [_Vocabulary()]


def _vocabulary(pieces: Collection[str]) -> _Vocabulary:
    """A vocabulary that holds the pieces; whoever has it may keep using it."""
    known = _shared[0]
    if len(known.tokens) > _MOST:
        known = _shared[0] = _Vocabulary()
    known.learn(set(pieces).difference(known.tokens))
    return known


def token_counts(text: str) -> Counter[str]:
    """How often each token of `ragbench.text.tokens.tokenise` stands in a text."""
    pieces = _pieces(text)
    return Counter(chain.from_iterable(map(_vocabulary(pieces).tokens.__getitem__, pieces)))


def wanted_counts(
    texts: Sequence[str], wanted: Collection[str]
) -> tuple[list[dict[str, int]], list[int]]:
    """How often the wanted tokens stand in each text, and how many tokens each has.

    Args:
        texts: the texts.
        wanted: tokens.

    Returns:
        One mapping a text, of those wanted tokens that it holds; and one length a text.
    """
    cut = [_pieces(text) for text in texts]
    known = _vocabulary(set[str]().union(*cut))
    holding = set[str]().union(*(known.pieces.get(token, ()) for token in wanted))
    counts: list[dict[str, int]] = []
    lengths: list[int] = []
    for pieces in cut:
        distinct = set(pieces)
        count: dict[str, int] = {}
        for piece in distinct & holding:
            times = pieces.count(piece)
            for token in known.tokens[piece]:
                if token in wanted:
                    count[token] = count.get(token, 0) + times
        uneven = distinct & known.uneven
        more = sum((len(known.tokens[piece]) - 1) * pieces.count(piece) for piece in uneven)
        counts.append(count)
        lengths.append(len(pieces) + more)
    return counts, lengths


def token_numbers(texts: Sequence[str]) -> list[list[int]]:
    """Each text's tokens as numbers, the same for the same token, in any order."""
    cut = [_pieces(text) for text in texts]
    known = _vocabulary(set[str]().union(*cut))
    found: list[list[int]] = []
    for pieces in cut:
        if known.uneven.isdisjoint(pieces):
            found.append(list(map(known.single.__getitem__, pieces)))
        else:
            tokens = chain.from_iterable(map(known.tokens.__getitem__, pieces))
            found.append(list(map(known.numbers.__getitem__, tokens)))
    return found


def _pieces(text: str) -> list[str]:
    """Stretches without white space; no token reaches over any."""
    if text.isascii():
        # Fewer pieces to remember: a period or comma before a space belongs to no token.
        text = text.lower().replace(". ", " ").replace(", ", " ")
    return text.split()
