"""Chunks that are as full as they may be, cut where it hurts least; by the package semchunk."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.indexing.chunkers.size import ChunkSize
from ragbench.indexing.pieces import Piece
from ragbench.records.corpus import Document
from ragbench.text.sentences import Span

__all__ = ["TokenChunker", "token_spans"]

_VERSION = 1
_PART = 100_000
"""Characters that are cut at once: a text of any length takes time in proportion to it."""
_BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenChunker:
    """Cuts at the largest gap near by: blank lines, lines, sentences, clauses, words."""

    size: ChunkSize = field(default_factory=ChunkSize)

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.indexing.pieces.Chunker`."""
        return {"chunker": "tokens", "version": _VERSION, **self.size.identity}

    def pieces(self, document: Document) -> list[Piece]:
        """See `ragbench.indexing.pieces.Chunker`."""
        text = document.text
        return [
            Piece(start=span.start, end=span.end)
            for span in token_spans(text, Span(0, len(text)), self.size)
        ]


def token_spans(text: str, within: Span, size: ChunkSize) -> list[Span]:
    """The spans of chunks of a stretch of a text."""
    # By name: the package has types for callers that it does not need here.
    split: Any = importlib.import_module("semchunk").chunkerify(
        size.counter.count, size.tokens, memoize=False
    )
    spans: list[Span] = []
    for part in _parts(text, within):
        piece = text[part.start : part.end]
        _, offsets = split(piece, offsets=True, overlap=size.overlap or None)
        for start, end in offsets:
            _append(spans, text, part.start + start, part.start + end)
    return spans


def _parts(text: str, within: Span) -> list[Span]:
    """The stretch in parts of limited length, cut at blank lines where there are any."""
    parts: list[Span] = []
    start = within.start
    while within.end - start > _PART:
        gaps = list(_BLANK_LINE.finditer(text, start + _PART // 2, start + _PART))
        end = gaps[-1].end() if gaps else _word_end(text, start + _PART, within.end)
        parts.append(Span(start, end))
        start = end
    return [*parts, Span(start, within.end)]


def _word_end(text: str, at: int, end: int) -> int:
    """A place near by that is not within a word."""
    for near in range(at, min(at + 200, end)):
        if text[near].isspace():
            return near
    return at


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        first = start + len(piece) - len(piece.lstrip())
        spans.append(Span(first, first + len(stripped)))
