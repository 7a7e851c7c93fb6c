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
    r"(?=[^\[\]()\n]{0,60}[\d:])[^\[\]()\n]{1,60}[\])]|\s?【\d+:\d+†[^】\n]{0,80}】",
    re.IGNORECASE,
)
"""[doc_12, p. 3], (source: handbook), 【4:0†source】."""
_SOURCES = re.compile(
    r"\n[ \t#*_]*(?:sources?|references?|citations?)[ \t*_]*(?::.*|(?=\n))"
    r"(?:\n(?=.*\S).*|\n\n(?=[ \t]*(?:[-*•\[【(]|\d+[.)])).*)*",
    re.IGNORECASE,
)
"""Up to the next paragraph that is no item of a list."""
_MAY_CITE = re.compile(r"[\[【(]|\n")
"""Without one of them nothing is cited."""
_PLACES = re.compile(r"\d|https?:|\.\w{2,4}\b")
"""What a list of sources has in it; "Sources: wind and sun" may be the answer."""


def without_citations(answer: str) -> str:
    """An answer without marks and a list of sources, whose numbers are no part of what it says.

    What is nothing but a mark stays.
    """
    if not _MAY_CITE.search(answer):
        return answer
    plain = NAMED.sub("", MARKS.sub("", without_sources(answer)))
    return plain if plain.strip() else answer


def without_sources(answer: str) -> str:
    """An answer without the list of its sources, which states nothing, where there is more."""
    plain = _SOURCES.sub(lambda found: "" if _PLACES.search(found[0]) else found[0], answer)
    return plain if plain.strip() else answer
