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
    """The spans of a text's sentences, in their order, without the white space between them.

    Chunks, judges and validators count sentences by it. Another result for any text needs another
    `SENTENCES_VERSION`.
    """
    spans: list[Span] = []
    start = 0
    for match in _possible_ends(text):
        # The start goes into the decision: a period soon behind it may be a list's number.
        if _ends_sentence(text, start, match):
            _append_stripped(spans, text, start, match.end())
            start = match.end()
    # The rest, which no mark ends.
    _append_stripped(spans, text, start, len(text))
    return spans


def _possible_ends(text: str) -> Iterator[re.Match[str]]:
    """The marks and line breaks of a text that may end a sentence, as ``_END.finditer`` gives them.

    In a fraction of the time: few characters can begin a match, and only there one is tried.
    """
    mark = _MARK.search(text)
    while mark is not None:
        match = _END.match(text, mark.start())
        # Of a run of marks ("...") only the last can end a sentence: go on behind it.
        if match is None:
            run = _RUN.match(text, mark.start())
            position = mark.end() if run is None else run.end()
        else:
            yield match
            position = match.end()
        mark = _MARK.search(text, position)


def _append_stripped(spans: list[Span], text: str, start: int, end: int) -> None:
    """Adds a stretch of a text to spans, without white space at its ends, if anything is left.

    White space between sentences belongs to none.

    Args:
        start: where the stretch begins.
        end: the position behind it.
    """
    without_end = text[start:end].rstrip()
    stripped = without_end.lstrip()
    if stripped:
        stripped_end = start + len(without_end)
        spans.append(Span(stripped_end - len(stripped), stripped_end))


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a mark or line break ends the sentence that begins at ``start``.

    A mark ends none where the next word is in small letters, or the period is an abbreviation's.
    Another rule gives other sentences: see `SENTENCES_VERSION`.

    Args:
        match: of `_END`.
    """
    # A wide mark, as in Chinese, is never a part of an abbreviation.
    if match.lastgroup == "wide":
        return True
    if match.lastgroup == "line":
        return _breaks_line(text, match.start())
    following = _next_character(text, match.end())
    # Before the look for abbreviations, which costs more.
    if following.islower():
        return False
    return match["period"] is None or not _is_inner_period(text, start, match)


def _next_character(text: str, position: int) -> str:
    """The next character of a text that is neither white space nor opens a quotation; or nothing.

    A small letter there shows that the sentence goes on. Another result gives other sentences: see
    `SENTENCES_VERSION`.
    """
    # The common case needs no loop.
    if text[position : position + 1] == " " and text[position + 1 : position + 2].isalnum():
        return text[position + 1]
    while position < len(text) and text[position] in _OPENING:
        position += 1
    return text[position : position + 1]


def _is_inner_period(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a period belongs to the word before it ("Dr.", "z.B.", "3.") and ends no sentence.

    Abbreviations, initials and numbers of lists and ordinals have one. Another rule gives other
    sentences: see `SENTENCES_VERSION`.

    Args:
        start: where the sentence begins.
        match: of `_END`, the period.
    """
    period = match.start()
    search_start = max(start, period - _LONGEST_WORD_BEFORE)
    _, _, word = text[search_start:period].rpartition(" ")
    if not word.isalpha():  # the common case costs no search
        word_match = _WORD_BEFORE.search(text, search_start, period)
        if word_match is None:
            return False
        word = word_match.group()
    if word.isdecimal():
        return _is_number_with_period(text, start, period - len(word), match.end())
    # "z.B" and "U.S" hold a period, an initial is one letter.
    if "." in word or len(word) == 1:
        return True
    lower_word = word.lower()
    if lower_word in _ABBREVIATIONS:
        return True
    return lower_word in _BEFORE_NUMBER and _next_character(text, match.end()).isdigit()


def _is_number_with_period(text: str, start: int, number_start: int, end: int) -> bool:
    """Whether a number and a period are a list item ("3. Press"), or an ordinal before its noun.

    "It was 1998. He left" ends a sentence with such a number, and is told apart by what is around
    it. Another result gives other sentences: see `SENTENCES_VERSION`.

    Args:
        start: where the sentence begins.
        number_start: where the number begins.
        end: the position behind its period.
    """
    is_near_start = number_start - start < _NEAR
    # At the beginning of a sentence a number and a period are a list's.
    if is_near_start and not text[start:number_start].strip():
        return True
    text_behind = text[end : end + _NEAR].lstrip()
    return _AFTER_ORDINAL.match(text_behind) is not None


_LONGEST_WORD_BEFORE = 20
"""Characters before a period that are looked at: no abbreviation is longer."""
_NEAR = 40
"""Characters before and behind a number that are looked at."""
_WRAPPED = 60
"""A line shorter than this was broken on purpose, not wrapped."""


def _breaks_line(text: str, position: int) -> bool:
    """Whether a line break ends a sentence: before an item, or behind a line that was not wrapped.

    Texts of PDFs and e-mails wrap their lines: a long line goes on in the next one. Another result
    gives other sentences: see `SENTENCES_VERSION`.

    Args:
        position: of the line break.
    """
    if _BLOCK.match(text, position + 1):
        return True
    line_start = text.rfind("\n", 0, position) + 1
    line = text[line_start:position]
    # Headings and table rows are sentences of their own; a list item may go on in the next line.
    if _BLOCK.match(line) and line.lstrip()[:1] in "#|=":
        return True
    if len(line.rstrip()) >= _WRAPPED:
        return False
    return not _next_character(text, position + 1).islower()


def touched(sentences: Iterable[Span], stretch: Span) -> Span | None:
    """The span from the first to the last of the sentences that a stretch touches, or None.

    Half a sentence of a quotation is read with its other half.
    """
    overlapping = [
        sentence
        for sentence in sentences
        if sentence.start < stretch.end and stretch.start < sentence.end
    ]
    if not overlapping:
        return None
    # The sentences are in order, so that the first and the last one bound the rest.
    return Span(overlapping[0].start, overlapping[-1].end)


def windows_of(text: str, *, characters: int = 1800) -> tuple[Span, ...]:
    """Runs of whole sentences, each up to a length, that together hold every word of a text.

    A model reads a long text window by window. Neighbouring windows share a sentence, so that two
    sentences which belong together are in one window. A single sentence that is too long is cut at
    white space, or where there is none, at the limit.

    Args:
        characters: of the longest window.
    """
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end <= start:
        return ()
    if end - start <= characters:
        return (Span(start, end),)
    pieces: list[Span] = []
    for span in split_sentences(text):
        pieces += _parts_of_sentence(text, span, characters)
    windows: list[Span] = []
    first = 0
    while first < len(pieces):
        window_start = pieces[first].start
        last = first
        # As many of the next sentences as fit.
        while last + 1 < len(pieces) and pieces[last + 1].end - window_start <= characters:
            last += 1
        windows.append(Span(window_start, pieces[last].end))
        if last + 1 == len(pieces):
            break
        # The next window begins with this one's last sentence, unless that is all of it.
        first = max(first + 1, last)
    return tuple(windows)


def _parts_of_sentence(text: str, span: Span, characters: int) -> list[Span]:
    """The spans of a sentence's parts of at most so many characters, cut at blanks if possible.

    A model would leave the end of a longer one unread.

    Args:
        span: of the sentence.
    """
    parts: list[Span] = []
    start = span.start
    while span.end - start > characters:
        # From `start + 1`, since a part that is empty would never end the loop.
        blank = text.rfind(" ", start + 1, start + characters)
        if blank >= 0:
            parts.append(Span(start, blank))
            start = blank + 1
        # A word longer than a part, or a language without blanks.
        else:
            end = start + characters
            parts.append(Span(start, end))
            start = end
    parts.append(Span(start, span.end))
    return parts
