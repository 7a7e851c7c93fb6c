"""Sentences as offsets.

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
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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
_MARK = re.compile("[。！？｡．.!?…؟۔।॥։።\\n]")
_RUN = re.compile("[.!?…؟۔।॥։።]+")
# A line that starts so is a list item, a heading, a table row or a block mark of its own.
_BLOCK = re.compile(r"[ \t]*(?:[-*+•‣◦▪·–—][ \t]|\d{1,3}[.)][ \t]|[#|>=]|$)", re.MULTILINE)
_WORD_BEFORE = re.compile(r"[\w.]*\w$")
_OPENING = " \t\n\r\"'“‘„«»‹([{*_`"
# What a capital may follow within a sentence ...
_CAPITAL_FOLLOWS = (
    "mr mrs ms dr prof st rev hon gen col capt lt sgt gov sen rep pres mt ft vs cf viz approx al "
    "hr fr bzw ggf vgl inkl zzgl evtl sog ca resp tel str mme mlle env sra srta dra sig dott avv"
)
_ABBREVIATIONS = frozenset(_CAPITAL_FOLLOWS.split())
# ... and what a number may follow.
_NUMBER_FOLLOWS = (
    "no nos nr fig figs eq eqs vol vols pp ch sec art ed abs bd kap núm pág "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
_BEFORE_NUMBER = frozenset(_NUMBER_FOLLOWS.split())
# A number and a period before one of these is an ordinal ("am 3. Oktober", "im 19. Jahrhundert").
_AFTER_ORDINAL = re.compile(
    r"(?:Jan|Jän|Feb|Mär|Apr|Mai|Maj|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahrhundert|Jh|Quartal|Tag|Woche"
    r"|Monat|Jahr|Auflage|Kapitel|Stock|Platz)"
)


def split_sentences(text: str) -> list[Span]:
    spans: list[Span] = []
    start = 0
    for match in _ends(text):
        if _ends_sentence(text, start, match):
            _append(spans, text, start, match.end())
            start = match.end()
    _append(spans, text, start, len(text))
    return spans


def _ends(text: str) -> Iterator[re.Match[str]]:
    """What ``_END.finditer`` gives, in a fraction of the time: few characters can begin a match."""
    at = 0
    while (mark := _MARK.search(text, at)) is not None:
        match = _END.match(text, mark.start())
        if match is None:  # nothing within the run can end a sentence that its end does not
            run = _RUN.match(text, mark.start())
            at = mark.end() if run is None else run.end()
        else:
            yield match
            at = match.end()


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end].rstrip()
    stripped = piece.lstrip()
    if stripped:
        end = start + len(piece)
        spans.append(Span(end - len(stripped), end))


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
    if text[at : at + 1] == " " and text[at + 1 : at + 2].isalnum():
        return text[at + 1]
    while at < len(text) and text[at] in _OPENING:
        at += 1
    return text[at : at + 1]


def _is_inner_period(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a period belongs to the word before it instead of ending a sentence."""
    at = match.start()
    before = text[max(start, at - 20) : at].rpartition(" ")[2]
    if not before.isalpha():  # the common case costs no search
        word = _WORD_BEFORE.search(text, max(start, at - 20), at)
        if word is None:
            return False
        before = word.group()
    word_start = at - len(before)
    if before.isdecimal():  # it counts a list item, or is an ordinal before its noun
        counts = word_start - start < 40 and not text[start:word_start].strip()
        after = text[match.end() : match.end() + 40].lstrip()
        return counts or _AFTER_ORDINAL.match(after) is not None
    if "." in before or len(before) == 1 or before.lower() in _ABBREVIATIONS:
        return True
    return before.lower() in _BEFORE_NUMBER and _following(text, match.end()).isdigit()


_WRAPPED = 60
"""A line shorter than this was broken on purpose, not wrapped."""


def _breaks_line(text: str, at: int) -> bool:
    if _BLOCK.match(text, at + 1):
        return True
    line = text[text.rfind("\n", 0, at) + 1 : at]
    if _BLOCK.match(line) and line.lstrip()[:1] in "#|=":
        return True
    following = _following(text, at + 1)
    return len(line.rstrip()) < _WRAPPED and not following.islower()


def touched(sentences: Iterable[Span], stretch: Span) -> Span | None:
    """From the first to the last of the sentences that a stretch touches; None where none is."""
    held = [one for one in sentences if one.start < stretch.end and stretch.start < one.end]
    return Span(held[0].start, held[-1].end) if held else None


def windows_of(text: str, *, characters: int = 1800) -> tuple[Span, ...]:
    """Runs of whole sentences that together hold every word of a text.

    Neighbouring windows share a sentence, so that two sentences which belong together stand in one
    window. A single sentence that is too long is cut at white space, or where there is none, at
    the limit.
    """
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end - start <= characters:
        return (Span(start, end),) if end > start else ()
    pieces = [part for span in split_sentences(text) for part in _cut(text, span, characters)]
    found: list[Span] = []
    first = 0
    while first < len(pieces):
        last = first
        while last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= characters:
            last += 1
        found.append(Span(pieces[first].start, pieces[last].end))
        if last + 1 == len(pieces):
            break
        first = max(first + 1, last)
    return tuple(found)


def _cut(text: str, span: Span, characters: int) -> list[Span]:
    parts: list[Span] = []
    start = span.start
    while span.end - start > characters:
        cut = text.rfind(" ", start + 1, start + characters)
        end = cut if cut > start else start + characters
        parts.append(Span(start, end))
        start = end + 1 if cut > start else end
    parts.append(Span(start, span.end))
    return parts
