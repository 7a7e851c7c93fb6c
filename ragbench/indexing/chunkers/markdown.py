"""Chunks along the structure of Markdown; by the package markdown-it-py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from ragbench.indexing.chunkers.size import ChunkSize, packed
from ragbench.indexing.chunkers.tokens import token_spans
from ragbench.indexing.pieces import Piece
from ragbench.records.corpus import Document
from ragbench.text.sentences import Span

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = ["MarkdownChunker"]

_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownChunker:
    """Never joins two sections; within one, paragraphs, lists, tables and code stay whole.

    Only a block that does not fit by itself is cut. A chunk's metadata hold the headings that it
    stands under as ``headings``, joined by `` > ``.
    """

    size: ChunkSize = field(default_factory=ChunkSize)

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.indexing.pieces.Chunker`."""
        return {"chunker": "markdown", "version": _VERSION, **self.size.identity}

    def pieces(self, document: Document) -> list[Piece]:
        """See `ragbench.indexing.pieces.Chunker`."""
        text = document.text
        found: list[Piece] = []
        for headings, blocks in _sections(text):
            spans = packed(
                text, blocks, self.size, cut=lambda span, size: token_spans(text, span, size)
            )
            metadata = {"headings": " > ".join(headings)} if headings else {}
            found += [Piece(start=span.start, end=span.end, metadata=metadata) for span in spans]
        return found


def _sections(text: str) -> Iterator[tuple[list[str], list[Span]]]:
    """For each section the headings that it stands under, its own last, and its blocks."""
    above: list[tuple[int, str]] = []
    blocks: list[Span] = []
    for line_span, heading in _blocks(text):
        if heading is not None:
            if blocks:
                yield [title for _, title in above], blocks
            level, title = heading
            above = [one for one in above if one[0] < level]
            above.append((level, title))
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
        # What the parser leaves out, such as link definitions, is text as well.
        for start, end, heading in (
            (done, first, None),
            (first, last, _heading(tokens, at)),
        ):
            span = _stripped(text, starts[start], min(starts[max(start, end)], len(text)))
            if span is not None:
                yield span, heading
        done = max(done, last)
    rest = _stripped(text, min(starts[done], len(text)), len(text))
    if rest is not None:
        yield rest, None


def _heading(tokens: Sequence[Token], at: int) -> tuple[int, str] | None:
    token = tokens[at]
    if token.type != "heading_open":
        return None
    return int(token.tag[1:]), tokens[at + 1].content.strip()


def _stripped(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    stripped = piece.strip()
    if not stripped:
        return None
    first = start + len(piece) - len(piece.lstrip())
    return Span(first, first + len(stripped))
