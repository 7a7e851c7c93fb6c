"""Citations in an answer: their marks, and the list of sources behind it."""

from __future__ import annotations

import re

MARKS = re.compile(
    r"\s?(?:[\[【]\^?\d{1,3}(?:\s?[,;–-]\s?\^?\d{1,3})*(?:†[^】\]]{0,80})?[\]】]"
    r"|\((?:doc(?:ument)?|source|chunk|context|passage)s?\.?\s?\d{1,3}(?:\s?,\s?\d{1,3})*\))",
    re.IGNORECASE,
)
"""Citations in brackets: [1], [1, 2], [^1], 【1†source】, (doc 3)."""
NAMED = re.compile(
    r"\s?[\[(](?:doc(?:ument)?|source|chunk|context|passage|ref(?:erence)?|page|p)s?(?![a-z])"
    r"(?=[^\[\]()\n]*[\d:])[^\[\]()\n]{1,60}[\])]",
    re.IGNORECASE,
)
"""[doc_12, p. 3], (source: handbook)."""
_SOURCES = re.compile(
    r"\n[\s#*_]*(?:sources?|references?|citations?)[\s*_]*:.*\Z", re.IGNORECASE | re.DOTALL
)
_MAY_CITE = re.compile(r"[\[【(]|\n")
"""Without one of them nothing is cited."""


def without_citations(answer: str) -> str:
    """An answer without marks and a list of sources, whose numbers are no part of what it says.

    What is nothing but a mark stays.
    """
    if not _MAY_CITE.search(answer):
        return answer
    plain = NAMED.sub("", MARKS.sub("", _SOURCES.sub("", answer)))
    return plain if plain.strip() else answer
