"""Texts in a page: chunks, a row for each place and each text once; and what two texts share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from markupsafe import Markup, escape

from ragbench.core.story import ChunkStory
from ragbench.views.explain import chunk_fate, chunk_ranks
from ragbench.views.html.page import clean

LONGEST = 20_000
"""Letters of one text in a page."""
_WORDS = 400
"""Words up to which two texts are compared word by word."""
_WORD = re.compile(r"\s*\S+\s*")
Parts = list[tuple[str, bool]]
"""A text in parts, and whether each is the same in the other."""
_TEXTS = 12_000_000
"""Letters of chunks that a page holds."""
_AROUND = 40
_QUOTES = 4


def safe(text: str) -> str:
    """A text as HTML, in which none of its letters acts."""
    return str(escape(clean(text)))


class Shelved(NamedTuple):
    """A chunk whose text the page holds."""

    number: int
    """Its anchor is ``k`` and this."""
    id: str
    text: str


class Chunks:
    """Every chunk text once, and the rows that link to it.

    A page has a row for every chunk of every case: they are made here and not by a template, and
    what repeats is escaped once.
    """

    def __init__(self) -> None:
        self._shelf: dict[tuple[str, str], Shelved] = {}
        self._letters = 0

    def rows(self, chunks: Sequence[ChunkStory]) -> Markup:
        return Markup("\n".join(map(self._row, chunks)))

    def listed(self) -> Sequence[Shelved]:
        return [*self._shelf.values()]

    def _row(self, chunk: ChunkStory) -> str:
        key = (chunk.id, chunk.text)
        shelved = self._shelf.get(key)
        if shelved is None:
            text = cut(chunk.text, LONGEST)
            self._letters += len(text)
            if self._letters > _TEXTS:
                text = "(not in this page, which would be too large: see ragbench explain)"
            shelved = self._shelf[key] = Shelved(len(self._shelf), safe(chunk.id), text)
        score = "" if chunk.score is None else f"{chunk.score:.4g}"
        link = f"{chunk_ranks(chunk)}<td><a href=#k{shelved.number}>{shelved.id}</a>"
        if chunk.address is not None:
            link += f' <a class=src rel=noreferrer href="{safe(chunk.address)}">source</a>'
        if not (chunk.is_gold or chunk.moves or chunk.marks):
            return f"<tr><td>{link}<td>{score}"  # most of them
        marks = ";".join(
            f"{_units(shelved.text[: mark.start])},{_units(shelved.text[: mark.end])}"
            for mark in chunk.marks
            if mark.end <= len(shelved.text)
        )
        gold, word = (" class=gold", " <b>gold</b>") if chunk.is_gold else ("", "")
        spans = f" data-m={marks}" if marks else ""
        happened = safe(chunk_fate(chunk)) + "".join(_quotes(chunk))
        return f"<tr{gold}{spans}><td>{link}{word}<td>{score}<td>{happened}"


def _units(text: str) -> int:
    """How long a browser finds a text, once it is made safe: UTF-16 counts some letters twice."""
    shown = clean(text)
    return len(shown) if shown.isascii() else len(shown.encode("utf-16-le", "surrogatepass")) // 2


def _quotes(chunk: ChunkStory) -> Iterator[str]:
    for mark in chunk.marks[:_QUOTES]:
        start, end = max(0, mark.start - _AROUND), mark.end + _AROUND
        before = safe(("…" if start else "") + chunk.text[start : mark.start])
        text = safe(cut(chunk.text[mark.start : mark.end], 400))
        after = safe(chunk.text[mark.end : end] + ("…" if end < len(chunk.text) else ""))
        yield f"<q><small>{mark.kind}</small> {before}<mark>{text}</mark>{after}</q>"


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
            left.append(("".join(ours[a:b]), kind == "equal"))
        if d > c:
            right.append(("".join(theirs[c:d]), kind == "equal"))
    return left, right


def cut(text: str, longest: int) -> str:
    """A text, or its start and how much is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text) - longest:,} more letters: see ragbench explain)"


def _plain(word: str) -> str:
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _whole(text: str | None) -> Parts | None:
    return None if text is None else [(cut(text, LONGEST), True)]
