"""What a chunker does, how large chunks are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Protocol, cast

from ragbench.core.chunk import Chunk, Document
from ragbench.errors import ConfigError
from ragbench.plugins import Registry
from ragbench.text.sentences import Span
from ragbench.text.token_counter import APPROXIMATE, TokenCounter


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A stretch of a document's text that becomes a chunk."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the chunk's metadata get besides the document's, such as the headings above it."""


class Chunker(Protocol):
    """Cuts texts into pieces that are worth finding by themselves."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its cuts depend on, as JSON."""
        ...

    def pieces(self, document: Document) -> Sequence[Piece]:
        """Pieces in reading order.

        Each begins and ends with a character that is not white space; together they hold every
        such character of the text. Neighbours overlap only where the chunker's settings ask for it.
        """
        ...


def document_chunks(document: Document, chunker: Chunker) -> list[Chunk]:
    """The chunks of a document, each an exact slice of its text.

    A chunk's id is made of the document's id, the number of the piece and a digest of its text, so
    that the same document always gives the same ids and a changed passage gets a new one. A
    document that stays whole keeps its own id. The title becomes ``metadata["title"]``.
    """
    pieces = chunker.pieces(document)
    shared = dict(document.metadata)
    if document.title:
        shared.setdefault("title", document.title)
    return [
        Chunk(
            id=_chunk_id(document, number, piece, whole=len(pieces) == 1),
            text=document.text[piece.start : piece.end],
            document_id=document.id,
            start=piece.start,
            end=piece.end,
            metadata={**shared, **piece.metadata},
        )
        for number, piece in enumerate(pieces)
    ]


def _chunk_id(document: Document, number: int, piece: Piece, *, whole: bool) -> str:
    if whole:
        return document.id
    text = document.text[piece.start : piece.end].encode("utf-8", "surrogatepass")
    return f"{document.id}#{number}-{blake2b(text, digest_size=5).hexdigest()}"


_LEAST = 8
_SPARE = (0, 1, 2, 4, 8)
"""Tokens that two texts may have more together than apart; tried one after another."""
_FEW = 8
"""What takes no more than one part in so many of a chunk does not stand alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkSize:
    """Limits in tokens."""

    tokens: int = 256
    """The most tokens that a chunk has, at least 8."""
    overlap: int = 0
    """About how many tokens a chunk repeats from the one before it; less than half of `tokens`."""
    counter: TokenCounter = APPROXIMATE
    """What counts tokens."""

    def __post_init__(self) -> None:
        if self.tokens < _LEAST:
            raise ConfigError(f"a chunk has at least {_LEAST} tokens, not {self.tokens}")
        if not 0 <= self.overlap * 2 < self.tokens:
            raise ConfigError(
                f"the overlap must be at least 0 and less than half of {self.tokens} tokens, "
                f"not {self.overlap}"
            )

    @property
    def identity(self) -> dict[str, object]:
        return {"tokens": self.tokens, "overlap": self.overlap, "counter": self.counter.name}

    def less(self, tokens: int) -> ChunkSize:
        """The same with room for so many tokens less."""
        left = max(self.tokens - tokens, _LEAST)
        return replace(self, tokens=left, overlap=min(self.overlap, (left - 1) // 2))


def packed(
    text: str,
    spans: Sequence[Span],
    size: ChunkSize,
    *,
    cut: Callable[[Span, ChunkSize], Sequence[Span]],
) -> list[Span]:
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
                found.extend(cut(span, size))
            else:
                found += _led_by(text, taken, span, size, cut)
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
    text: str,
    taken: Sequence[tuple[Span, int]],
    span: Span,
    size: ChunkSize,
    cut: Callable[[Span, ChunkSize], Sequence[Span]],
) -> list[Span]:
    """What a span is cut into, the first piece with the few words before it where both fit."""
    held = sum(cost for _, cost in taken)
    for spare in _SPARE:
        first, *rest = cut(span, size.less(held + spare))
        joined = Span(taken[0][0].start, first.end)
        if _fits(text, joined, size):
            return [joined, *rest]
    return [Span(taken[0][0].start, taken[-1][0].end), *cut(span, size)]


def _flush(found: list[Span], taken: Sequence[tuple[Span, int]]) -> None:
    if taken:
        found.append(Span(taken[0][0].start, taken[-1][0].end))


def _repeated(taken: Sequence[tuple[Span, int]], room: int) -> list[tuple[Span, int]]:
    """The last spans that fit into the room; never all of them."""
    kept: list[tuple[Span, int]] = []
    if room <= 0:
        return kept
    for span, cost in reversed(taken[1:]):
        room -= cost
        if room < 0:
            break
        kept.insert(0, (span, cost))
    return kept


CHUNKERS = Registry(
    kind="chunkers",
    builtin={
        "auto": "ragbench.pipeline.chunkers:AutoChunker",
        "tokens": "ragbench.pipeline.chunkers:TokenChunker",
        "sentences": "ragbench.pipeline.chunkers:SentenceChunker",
        "markdown": "ragbench.pipeline.chunkers:MarkdownChunker",
        "whole": "ragbench.pipeline.chunkers:WholeChunker",
    },
)


def make_chunker(name: str = "auto", size: ChunkSize | None = None) -> Chunker:
    """The chunker of a name; ``whole`` has no use for a size."""
    make = CHUNKERS.load(name)
    return cast("Chunker", make() if name == "whole" else make(size=size or ChunkSize()))
