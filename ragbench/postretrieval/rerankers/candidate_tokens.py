"""Tokens of the candidates, fast enough to be found anew for every query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain

from ragbench.text.tokens import tokenise

__all__ = ["token_counts", "wanted_counts"]

_ENDS = tuple(f"{mark} " for mark in ".,;:!?)")
"""What ends a piece of plain text without being part of a token."""


def token_counts(text: str) -> Counter[str]:
    """How often each token of `ragbench.text.tokens.tokenise` stands in a text."""
    return Counter(chain.from_iterable(map(_tokens_of_piece, _pieces(text))))


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
    # Most pieces stand in many texts: each is looked at once.
    known = {piece: _tokens_of_piece(piece) for piece in set[str]().union(*cut)}
    holding = {piece for piece, tokens in known.items() if not _disjoint(tokens, wanted)}
    longer = {piece: len(tokens) - 1 for piece, tokens in known.items() if len(tokens) != 1}
    counts: list[dict[str, int]] = []
    lengths: list[int] = []
    for pieces in cut:
        distinct = set(pieces)
        count: dict[str, int] = {}
        for piece in holding & distinct:
            times = pieces.count(piece)
            for token in known[piece]:
                if token in wanted:
                    count[token] = count.get(token, 0) + times
        counts.append(count)
        more = sum(longer[piece] * pieces.count(piece) for piece in longer.keys() & distinct)
        lengths.append(len(pieces) + more)
    return counts, lengths


def _disjoint(tokens: tuple[str, ...], wanted: Collection[str]) -> bool:
    if len(tokens) == 1:
        return tokens[0] not in wanted
    return not any(token in wanted for token in tokens)


def _pieces(text: str) -> list[str]:
    """Stretches without white space; no token reaches over any."""
    if text.isascii():
        text = text.lower()
        for end in _ENDS:
            text = text.replace(end, " ")
    return text.split()


@lru_cache(maxsize=1 << 17)
def _tokens_of_piece(piece: str) -> tuple[str, ...]:
    return tuple(tokenise(piece))
