"""Texts as every embedder can take them."""

from __future__ import annotations

__all__ = ["readable_text"]


def readable_text(text: str) -> str:
    """The text without NUL characters and lone surrogates, which tokenizers stop at.

    Each is replaced by one character, so that words stay apart.
    """
    if "\0" in text:
        text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
