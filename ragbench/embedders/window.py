"""Embedders that read only the beginning of a long text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Windowed(Protocol):
    """An embedder whose vector of a long text says nothing of the text's end."""

    @property
    def window(self) -> int | None:
        """How many tokens it reads, special ones included; None where nothing is cut off."""
        ...

    def passage_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """How many tokens each passage has, with the prefix and special ones."""
        ...


def too_long(embedder: object, texts: Sequence[str]) -> int:
    """How many passages are longer than what an embedder reads."""
    if not isinstance(embedder, Windowed) or (window := embedder.window) is None:
        return 0
    # A token has a byte at least, so that most chunks need no tokenizer.
    long = [text for text in texts if len(text.encode()) * 2 > window]
    return sum(count > window for count in embedder.passage_tokens(long)) if long else 0
