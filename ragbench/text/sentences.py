"""Sentences as offsets, so that each is an exact slice of its text.

A rule-based splitter for many languages. A sentence ends

- behind ``。！？`` and their like, wherever they stand;
- behind ``.``, ``!``, ``?`` and their like when white space follows (closing quotes, brackets and
  reference marks such as ``[3]`` belong to the sentence), unless the next word is in lower case
  or the period belongs to an abbreviation, an initial, a list number or an ordinal;
- at a blank line, before a list item, heading or table row, and at a line break that does not
  look like the wrapping of a long line.

White space between sentences belongs to none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["SENTENCES_VERSION", "Span", "split_sentences"]

SENTENCES_VERSION = "1"
"""Changes whenever the same text gives other sentences."""


class Span(NamedTuple):
    """A stretch of a text: ``text[start:end]``."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""


_CLOSING = r"""["'”’»«›)\]}」』】》）〉]"""
_END = re.compile(
    rf"(?P<wide>[。！？｡．]+{_CLOSING}*)"
    rf"|(?P<period>\.)(?:{_CLOSING}|\[\d+\])*(?=\s)"
    rf"|[.!?…؟۔।॥։።]+(?:{_CLOSING}|\[\d+\])*(?=\s)"
    r"|(?P<line>\n)"
)
# A line that starts so is a list item, a heading, a table row or a block mark of its own.
_BLOCK = re.compile(r"[ \t]*(?:[-*+•‣◦▪·–—][ \t]|\d{1,3}[.)][ \t]|[#|>=]|$)", re.MULTILINE)
_WRAPPED = 60
"""A line shorter than this was broken on purpose, not wrapped."""
_WORD_BEFORE = re.compile(r"[\w.]*\w$")
_OPENING = " \t\n\r\"'“‘„«»‹([{*_`"
# What a capital may follow within a sentence ...
_ABBREVIATION = re.compile(
    r"mr|mrs|ms|dr|prof|st|rev|hon|gen|col|capt|lt|sgt|gov|sen|rep|pres|mt|ft|vs|cf|viz|approx|al"
    r"|hr|fr|bzw|ggf|vgl|inkl|zzgl|evtl|sog|ca|resp|tel|str|mme|mlle|env|sra|srta|dra|sig|dott|avv"
)
# ... and what a number may follow.
_BEFORE_NUMBER = re.compile(
    r"no|nos|nr|fig|figs|eq|eqs|vol|vols|pp|ch|sec|art|ed|abs|bd|kap|núm|pág|jan|feb|mar|apr|jun"
    r"|jul|aug|sep|sept|oct|nov|dec"
)
# A number and a period before one of these is an ordinal ("am 3. Oktober", "im 19. Jahrhundert").
_AFTER_ORDINAL = re.compile(
    r"(?:Jan|Jän|Feb|Mär|Apr|Mai|Maj|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahrhundert|Jh|Quartal|Tag|Woche"
    r"|Monat|Jahr|Auflage|Kapitel|Stock|Platz)"
)


def split_sentences(text: str) -> list[Span]:
    """Cuts a text into sentences.

    Args:
        text: anything, also the empty string.

    Returns:
        Spans in reading order that do not overlap, begin and end with a character that is not
        white space, and together hold every such character of the text.
    """
    spans: list[Span] = []
    start = 0
    for match in _END.finditer(text):
        if _ends_sentence(text, start, match):
            _append(spans, text, start, match.end())
            start = match.end()
    _append(spans, text, start, len(text))
    return spans


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        first = start + len(piece) - len(piece.lstrip())
        spans.append(Span(first, first + len(stripped)))


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    if match.lastgroup == "wide":
        return True
    if match.lastgroup == "line":
        return _breaks_line(text, match.start())
    following = _following(text, match.end())
    if following.islower():
        return False
    return match["period"] is None or not _is_inner_period(text, start, match)


def _following(text: str, at: int) -> str:
    """The next character that is neither white space nor opens a quotation."""
    while at < len(text) and text[at] in _OPENING:
        at += 1
    return text[at : at + 1]


def _is_inner_period(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a period belongs to the word before it instead of ending a sentence."""
    at = match.start()
    word = _WORD_BEFORE.search(text, max(start, at - 20), at)
    if word is None:
        return False
    before = word.group()
    if before.isdecimal():
        return _is_number_mark(text, start, word.start(), match.end())
    if "." in before or len(before) == 1 or _ABBREVIATION.fullmatch(before.lower()):
        return True
    following = _following(text, match.end())
    return following.isdigit() and _BEFORE_NUMBER.fullmatch(before.lower()) is not None


def _is_number_mark(text: str, start: int, number_start: int, after: int) -> bool:
    """Whether a number with a period counts a list item or is an ordinal before its noun."""
    if number_start - start < 40 and not text[start:number_start].strip():
        return True
    return _AFTER_ORDINAL.match(text[after : after + 40].lstrip()) is not None


def _breaks_line(text: str, at: int) -> bool:
    """Whether a line break ends a sentence."""
    if _BLOCK.match(text, at + 1):
        return True
    line = text[text.rfind("\n", 0, at) + 1 : at]
    if _BLOCK.match(line) and line.lstrip()[:1] in "#|=":
        return True
    following = _following(text, at + 1)
    return len(line.rstrip()) < _WRAPPED and not following.islower()
