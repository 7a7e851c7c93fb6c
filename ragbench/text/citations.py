"""Citations in an answer: their marks, and the list of sources behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    """An answer without its citation marks and its list of sources.

    Their numbers are no part of what the answer says: ``[3]`` would count as an amount. An answer
    that is nothing but a mark stays.
    """
    # A cheap look first: most answers have no mark.
    if not _MAY_CITE.search(answer):
        return answer
    # The list of sources first: its own marks would else be taken out of its lines.
    plain = NAMED.sub("", MARKS.sub("", without_sources(answer)))
    if not plain.strip():
        return answer
    return plain


def without_sources(answer: str) -> str:
    """An answer without the list of sources at its end, which states nothing.

    It stays where it is the whole answer, and where nothing in it looks like a source: "Sources:
    wind and sun" may be the answer.
    """
    plain = _SOURCES.sub(lambda match: "" if _PLACES.search(match[0]) else match[0], answer)
    if not plain.strip():
        return answer
    return plain


_IN_BRACKETS = re.compile(
    r"[\[【]([^\[\]【】\n]{1,200})[\]】]|(?<=\])\(([^()\s]{1,500})\)"
    r"|\(((?:doc(?:ument)?|source|ref(?:erence)?|file|see)s?\b[^()\n]{1,200})\)",
    re.IGNORECASE,
)
"""``[returns.md]``, the target of a link, ``(source: returns.md)``."""
_SOURCE_LABEL = re.compile(
    r"(?:^|[\s(*_])(?:sources?|references?|citations?)[ \t*_]*:[ \t*_]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
"""``Source: returns.md`` at the end of a line."""
_PARTS = re.compile(r"[,;|†\n()\[\]]")
_LEAD = re.compile(
    r"(?:doc(?:ument)?|source|ref(?:erence)?|file|see)s?\b[ \t]*:?[ \t]*", re.IGNORECASE
)
_EDGES = " \t.,;:*_`\"'<>()[]【】-•"


def bracketed_names(answer: str) -> Iterator[str]:
    """What an answer has in brackets, or links to, if it is no mark such as ``[1]``.

    Any of it may be the name of a cited document. Whether it is one, only a comparison with such
    names shows.
    """
    for match in _IN_BRACKETS.finditer(answer):
        place = next(part for part in match.groups() if part)
        if not _IS_MARK.fullmatch(place):
            yield from _possible_names(place)


def listed_sources(answer: str) -> Iterator[str]:
    """The possible names of documents behind ``Source:`` in an answer, and in its list of sources.

    Answers cite documents by name there, without any mark in their sentences.
    """
    for match in _SOURCE_LABEL.finditer(answer):
        yield from _possible_names(match[1])
    for match in _SOURCES.finditer(answer):
        yield from _possible_names(match[0])


def _possible_names(place: str) -> Iterator[str]:
    """The possible names in a citation: its parts, with and without "source:", and its words.

    In ``[source: returns.md page 3]`` the name is one word of several, and which one is not known.

    Args:
        place: the text between the brackets, or behind the label.
    """
    # First each whole part, then its words: a name may hold blanks itself.
    for part in _PARTS.split(place):
        whole = part.strip(_EDGES)
        plain = _LEAD.sub("", whole, count=1) if _LEAD.match(whole) else whole
        words = [word.strip(_EDGES) for word in plain.split()]
        for name in dict.fromkeys([whole, plain, *words]):
            if name:
                yield name


_IS_MARK = re.compile(r"[\d\s,;^†–-]+")
