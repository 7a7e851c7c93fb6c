"""The five chunkers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar

from ragbench.core.chunk import Document
from ragbench.io.converted import MARKDOWN
from ragbench.search.pipeline.documents import ChunkSize, Piece
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences

_VERSION = 1
_PART = 100_000
"""Characters that are cut at once: a text of any length takes time in proportion to it."""
_BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedChunker:
    """What chunkers with limits have in common."""

    form: ClassVar[Mapping[str, object]]
    """Its name and version."""

    size: ChunkSize = field(default_factory=ChunkSize)

    @property
    def identity(self) -> Mapping[str, object]:
        return {**self.form, **self.size.identity}


class TokenChunker(SizedChunker):
    """Cuts at the largest gap near by: blank lines, lines, sentences, clauses, words."""

    __slots__ = ()
    form: ClassVar[Mapping[str, object]] = {"chunker": "tokens", "version": _VERSION}

    def pieces(self, document: Document) -> list[Piece]:
        text = document.text
        return _pieces(token_spans(text, Span(0, len(text)), self.size))


def _pieces(spans: Sequence[Span], metadata: Mapping[str, Any] | None = None) -> list[Piece]:
    return [Piece(start=span.start, end=span.end, metadata=metadata or {}) for span in spans]


def token_spans(text: str, within: Span, size: ChunkSize) -> list[Span]:
    # By name: the package has types for callers that it does not need here.
    split: Any = importlib.import_module("semchunk").chunkerify(
        size.counter.count, size.tokens, memoize=False
    )
    spans: list[Span] = []
    for part in _parts(text, within):
        piece = text[part.start : part.end]
        _, offsets = split(piece, offsets=True, overlap=size.overlap or None)
        found = (_stripped(text, part.start + start, part.start + end) for start, end in offsets)
        spans += [span for span in found if span is not None]
    return spans


def _parts(text: str, within: Span) -> list[Span]:
    """The stretch in parts of limited length, cut at blank lines where there are any."""
    parts: list[Span] = []
    start = within.start
    while within.end - start > _PART:
        gaps = list(_BLANK_LINE.finditer(text, start + _PART // 2, start + _PART))
        at = start + _PART  # or near by, not within a word
        near = (one for one in range(at, min(at + 200, within.end)) if text[one].isspace())
        end = gaps[-1].end() if gaps else next(near, at)
        parts.append(Span(start, end))
        start = end
    return [*parts, Span(start, within.end)]


# --- neighbours joined

_SPARE = (0, 1, 2, 4, 8)
"""Tokens that two texts may have more together than apart; tried one after another."""
_FEW = 8
"""What takes no more than one part in so many of a chunk does not stand alone."""


def _packed(text: str, spans: Sequence[Span], size: ChunkSize) -> list[Span]:
    """Neighbouring spans joined for as long as they fit."""
    found: list[Span] = []
    taken: list[tuple[Span, int]] = []
    for span in spans:
        cost = size.counter.count(text[span.start : span.end])
        held = sum(each for _, each in taken)
        # A few words, such as a heading, are no chunk: they go with what follows them.
        lonely = bool(taken) and held * _FEW <= size.tokens < held + cost
        if cost > size.tokens or lonely:
            if not lonely:
                _flush(found, taken)
                found.extend(token_spans(text, span, size))
            else:
                found += _led_by(text, taken, span, size)
            taken.clear()
            continue
        if taken and not (
            held + cost <= size.tokens and _fits(text, Span(taken[0][0].start, span.end), size)
        ):
            _flush(found, taken)
            taken = _repeated(taken, min(size.overlap, size.tokens - cost))
            if taken and not _fits(text, Span(taken[0][0].start, span.end), size):
                taken = []
        taken.append((span, cost))
    _flush(found, taken)
    return found


def _fits(text: str, span: Span, size: ChunkSize) -> bool:
    """Whether a span fits as a whole: counters may find more in it than in its parts."""
    return size.counter.count(text[span.start : span.end]) <= size.tokens


def _led_by(
    text: str, taken: Sequence[tuple[Span, int]], span: Span, size: ChunkSize
) -> list[Span]:
    """What a span is cut into, the first piece with the few words before it where both fit."""
    held = sum(cost for _, cost in taken)
    for spare in _SPARE:
        first, *rest = token_spans(text, span, size.less(held + spare))
        joined = Span(taken[0][0].start, first.end)
        if _fits(text, joined, size):
            return [joined, *rest]
    return [Span(taken[0][0].start, taken[-1][0].end), *token_spans(text, span, size)]


def _flush(found: list[Span], taken: Sequence[tuple[Span, int]]) -> None:
    if taken:
        found.append(Span(taken[0][0].start, taken[-1][0].end))


def _repeated(taken: Sequence[tuple[Span, int]], room: int) -> list[tuple[Span, int]]:
    """The last spans that fit into the room; never all of them."""
    kept: list[tuple[Span, int]] = []
    for span, cost in reversed(taken[1:] if room > 0 else []):  # a span may cost nothing
        room -= cost
        if room < 0:
            break
        kept.insert(0, (span, cost))
    return kept


class MarkdownChunker(SizedChunker):
    """Never joins two sections; within one, paragraphs, lists, tables and code stay whole.

    Only a block that does not fit by itself is cut. A chunk's metadata hold the headings that it
    stands under as ``headings``, joined by `` > ``.
    """

    __slots__ = ()
    form: ClassVar[Mapping[str, object]] = {"chunker": "markdown", "version": _VERSION}

    def pieces(self, document: Document) -> list[Piece]:
        text = document.text
        found: list[Piece] = []
        for headings, blocks in _sections(text):
            spans = _packed(text, blocks, self.size)
            found += _pieces(spans, {"headings": " > ".join(headings)} if headings else {})
        return found


def _sections(text: str) -> Iterator[tuple[list[str], list[Span]]]:
    """For each section the headings that it stands under, its own last, and its blocks."""
    above: list[tuple[int, str]] = []
    blocks: list[Span] = []
    for line_span, heading in _blocks(text):
        if heading is not None:
            if blocks:
                yield [title for _, title in above], blocks
            above = [*(one for one in above if one[0] < heading[0]), heading]
            blocks = []
        blocks.append(line_span)
    if blocks:
        yield [title for _, title in above], blocks


def _blocks(text: str) -> Iterator[tuple[Span, tuple[int, str] | None]]:
    """The blocks at the top level, with level and text where one is a heading."""
    from markdown_it import MarkdownIt

    # Lines as the parser counts them: it takes the three ends of lines for one.
    lines = text.replace("\r\n", " \n").replace("\r", "\n").split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    done = 0
    for at, token in enumerate(tokens):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        first, last = token.map
        title = None
        if token.type == "heading_open":
            title = (int(token.tag[1:]), tokens[at + 1].content.strip())
        # What the parser leaves out, such as link definitions, is text as well.
        for start, end, heading in ((done, first, None), (first, last, title)):
            span = _stripped(text, starts[start], min(starts[max(start, end)], len(text)))
            if span is not None:
                yield span, heading
        done = max(done, last)
    if rest := _stripped(text, min(starts[done], len(text)), len(text)):
        yield rest, None


def _stripped(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    first = start + len(piece) - len(piece.lstrip())
    return Span(first, first + len(piece.strip())) if piece.strip() else None


_MARKDOWN = (".md", ".markdown", *MARKDOWN)


class AutoChunker(SizedChunker):
    """Markdown by `MarkdownChunker`, others by tokens; known by the end of the document's id.

    HTML and Word documents are Markdown once they are converted.
    """

    __slots__ = ()

    @property
    def identity(self) -> Mapping[str, object]:
        return {
            "chunker": "auto",
            "markdown": MarkdownChunker(size=self.size).identity,
            "other": TokenChunker(size=self.size).identity,
        }

    def pieces(self, document: Document) -> list[Piece]:
        is_markdown = document.id.lower().endswith(_MARKDOWN)
        return (MarkdownChunker if is_markdown else TokenChunker)(size=self.size).pieces(document)


class SentenceChunker(SizedChunker):
    """As many sentences as fit; only one that does not fit by itself is cut."""

    __slots__ = ()
    form: ClassVar[Mapping[str, object]] = {"chunker": "sentences", "sentences": SENTENCES_VERSION}

    def pieces(self, document: Document) -> list[Piece]:
        text = document.text
        return _pieces(_packed(text, split_sentences(text), self.size))


class WholeChunker:
    identity: ClassVar[Mapping[str, object]] = {"chunker": "whole"}

    def pieces(self, document: Document) -> list[Piece]:
        whole = _stripped(document.text, 0, len(document.text))
        return _pieces([] if whole is None else [whole])
