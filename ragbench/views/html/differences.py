"""Two texts beside each other: what they share, and what each has alone."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any

LONGEST = 20_000
"""Letters of one text in a page."""
_WORDS = 400
"""Words up to which two texts are compared word by word."""
_WORD = re.compile(r"\s*\S+\s*")
Parts = list[dict[str, Any]]
"""A text in parts: ``text``, and whether it is the ``same`` in the other."""


def compared_texts(first: str | None, second: str | None) -> tuple[Parts | None, Parts | None]:
    """Both texts in parts: those that the other has too, and those that it lacks."""
    if first is None or second is None or first == second:
        return _whole(first), _whole(second)
    first, second = cut(first, LONGEST), cut(second, LONGEST)
    ours, theirs = _WORD.findall(first), _WORD.findall(second)
    if len(ours) > _WORDS or len(theirs) > _WORDS:
        return _whole(first), _whole(second)
    matcher = SequenceMatcher(None, [*map(_plain, ours)], [*map(_plain, theirs)], autojunk=False)
    left: Parts = []
    right: Parts = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if b > a:
            left.append({"text": "".join(ours[a:b]), "same": kind == "equal"})
        if d > c:
            right.append({"text": "".join(theirs[c:d]), "same": kind == "equal"})
    return left, right


def cut(text: str, longest: int) -> str:
    """A text, or its start and how much is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text) - longest:,} more letters: see ragbench explain)"


def _plain(word: str) -> str:
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _whole(text: str | None) -> Parts | None:
    return None if text is None else [{"text": cut(text, LONGEST), "same": True}]
