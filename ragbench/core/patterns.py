r"""Users' regular expressions: checked when they are read, searched with a time limit.

The package `regex` has the limit, which `re` lacks: a hostile pattern such as ``(x+x+)+y`` must not
hang a run. It also reads JavaScript's named groups and ``\p{L}``, as other tools write them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

SECONDS = 1.0
"""Time limit of a search. An ordinary one takes less than a thousandth of it."""
_LONGEST = 2000
"""Letters that a pattern may have."""
_LARGEST = 1_000_000
"""Limit of a pattern's length times its repetitions: `regex` writes these out in memory."""
_REPETITION = re.compile(r"\{\s*(\d+)?\s*,?\s*(\d+)?\s*\}")


class PatternProblem(ValueError):
    """A regular expression that cannot be used."""


@lru_cache(maxsize=1024)
def checked_pattern(pattern: str) -> Any:
    """The compiled pattern, of the package `regex`.

    Cached: a pattern is checked when a dataset is read, and searched for in many answers.

    Raises:
        PatternProblem: it is no regular expression, or too long, or repeats too much.
    """
    # Late: few datasets have patterns.
    import regex

    size = len(pattern)
    if size > _LONGEST:
        raise PatternProblem(f"the pattern is {size:,} letters long; at most {_LONGEST:,} may be")
    # The repetitions of nested parts multiply; that all parts are nested is the worst case.
    for repetition in _REPETITION.finditer(pattern):
        # Nine digits are enough for a number to be refused, and `int` of thousands is slow.
        counts = [int(digits[:9]) for digits in repetition.groups() if digits]
        size *= max([1, *counts])
    if size > _LARGEST:
        raise PatternProblem("the pattern repeats parts too often: lower the numbers in braces")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise PatternProblem(f"not a regular expression: {error}") from error


def is_found(pattern: str, text: str) -> bool:
    """Whether a user's pattern matches somewhere in an answer.

    Raises:
        TimeoutError: the search takes longer than `SECONDS`.
    """
    try:
        return checked_pattern(pattern).search(text, timeout=SECONDS) is not None
    except TimeoutError:
        message = f"the pattern '{pattern[:80]}' takes longer than {SECONDS:g} s: simplify it"
        raise TimeoutError(message) from None
