"""Tokens of the candidates, fast enough to be counted anew for every query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from ragbench.text.tokens import tokenise

__all__ = ["token_counts"]


def token_counts(text: str) -> Counter[str]:
    """How often each token of `ragbench.text.tokens.tokenise` stands in a text."""
    return Counter(_tokens(text))


def _tokens(text: str) -> Iterable[str]:
    # No token reaches over white space, and most pieces come again and again.
    return chain.from_iterable(map(_tokens_of_piece, text.split()))


@lru_cache(maxsize=1 << 17)
def _tokens_of_piece(piece: str) -> tuple[str, ...]:
    return tuple(tokenise(piece))
