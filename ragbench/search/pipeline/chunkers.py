"""The five chunkers: by tokens, Markdown, either of these, by sentences, and whole documents.

Each cuts a document into pieces, which are stretches of its text. Those with limits count tokens
with the counter of their `ChunkSize`. `ragbench.search.pipeline.documents` makes the one that a
configuration names.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from ragbench.core.chunk import Document
from ragbench.io.converted import MARKDOWN
from ragbench.search.pipeline.documents import ChunkSize, Piece
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences

_VERSION = 1
"""A part of a chunker's identity; raise it when the same texts are cut otherwise."""
_PART = 100_000
"""Characters that are cut at once, so that the time grows with the text and not faster."""
_LONGEST_WORD = 200
"""Characters in which a space is looked for, so that a part does not end within a word."""
_BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedChunker:
    """What chunkers with limits have in common: the limit, and an identity that names it."""

    form: ClassVar[Mapping[str, object]]
    """The chunker's name and version: all that its cuts depend on beside the size."""

    size: ChunkSize = field(default_factory=ChunkSize)

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the chunker's cuts depend on; with another identity an index is out of date.

        An indexing compares it with the collection's.
        """
        return {**self.form, **self.size.identity}


class TokenChunker(SizedChunker):
    """Cuts at the largest gap near by: blank lines, lines, sentences, clauses, words.

    It is the chunker for text whose form is not known.
    """

    __slots__ = ()
    form: ClassVar[Mapping[str, object]] = {"chunker": "tokens", "version": _VERSION}

    def pieces(self, document: Document) -> list[Piece]:
        """The pieces of a document, each as full as the token limit allows.

        For text whose form is not known. Stored chunks depend on the cuts: others raise `_VERSION`.
        """
        text = document.text
        return _spans_as_pieces(token_spans(text, Span(0, len(text)), self.size))


def _spans_as_pieces(
    spans: Sequence[Span], metadata: Mapping[str, Any] | None = None
) -> list[Piece]:
    """Spans of a document as pieces, the form in which every chunker returns its cuts.

    `document_chunks` makes chunks of them.

    Args:
        metadata: of each piece; only the Markdown chunker has any, the headings of a section.
    """
    if metadata is None:
        metadata = {}
    return [Piece(start=span.start, end=span.end, metadata=metadata) for span in spans]


def token_spans(text: str, within: Span, size: ChunkSize) -> list[Span]:
    """A stretch of a text cut into spans of limited tokens, without white space around them.

    Cuts are at the largest gaps near by: blank lines, lines, sentences, clauses, words.

    Args:
        within: the stretch.
        size: the limit, and how far neighbours overlap.
    """
    # Imported by its name, so that its types are not checked: they are of packages for which it has
    # options that are not used here.
    semchunk: Any = importlib.import_module("semchunk")
    # Not memoized: that memo belongs to the process, has no limit, and would keep every text.
    split = semchunk.chunkerify(size.counter.count, size.tokens, memoize=False)
    overlap = size.overlap or None  # the package takes None for no overlap
    spans: list[Span] = []
    for part in _parts_of_stretch(text, within):
        part_text = text[part.start : part.end]
        _, offsets = split(part_text, offsets=True, overlap=overlap)
        # Offsets are those in the part: they are moved to where the part begins in the text.
        for start_in_part, end_in_part in offsets:
            start = part.start + start_in_part
            end = part.start + end_in_part
            span = _stripped(text, start, end)
            if span is not None:
                spans.append(span)
    return spans


def _parts_of_stretch(text: str, within: Span) -> list[Span]:
    """A long stretch of a text in parts of limited length, cut at blank lines where there are any.

    The package that cuts a part into chunks takes more than twice as long for a text of twice the
    length. Other parts would give other chunks, and so raise `_VERSION`.
    """
    parts: list[Span] = []
    start = within.start
    while within.end - start > _PART:
        middle = start + _PART // 2
        end = start + _PART
        # Only the second half is looked through, so that no part is small.
        blank_lines = list(_BLANK_LINE.finditer(text, middle, end))
        if blank_lines:
            last_blank_line = blank_lines[-1]
            end = last_blank_line.end()
        else:
            search_end = min(end + _LONGEST_WORD, within.end)
            end = _next_space(text, end, search_end)
        parts.append(Span(start, end))
        start = end
    parts.append(Span(start, within.end))
    return parts


def _next_space(text: str, start: int, end: int) -> int:
    """The offset of the first white space in a stretch, or of its start where there is none.

    A text is cut there, so that no word is.
    """
    for position in range(start, end):
        if text[position].isspace():
            return position
    return start


# --- neighbours joined

_SPARE = (0, 1, 2, 4, 8)
"""Tokens that a counter may find in two joined texts beyond those of each; room is left for the
first of these numbers that suffices."""
_LONELY_SHARE = 8
"""Text that takes at most this part (an eighth) of a chunk, such as a heading, is not one alone."""


class _CountedSpan(NamedTuple):
    """A span of a text with its tokens, so that it is counted once."""

    span: Span
    tokens: int


class _Packer:
    """Joins neighbouring spans, such as sentences, for as long as they fit into a chunk.

    Unlike `token_spans`, it cuts no span that fits by itself: a sentence or a table stays whole.
    """

    def __init__(self, text: str, size: ChunkSize) -> None:
        """A packer for the spans of one text, such as sentences, into chunks of limited size.

        A packer is for one text: it keeps the finished chunks and the open one.
        """
        self.text = text
        self.size = size
        self.chunks: list[Span] = []
        """The chunks that are finished, as stretches of the text."""
        self.open: list[_CountedSpan] = []
        """The spans of the chunk that is being filled."""

    def pack(self, spans: Sequence[Span]) -> list[Span]:
        """The spans joined into chunks, in order: neighbours together for as long as they fit.

        A chunker gives its sentences or blocks, and gets the stretches of text that become chunks.
        """
        for span in spans:
            self._add_span(span)
        self._close_chunk()
        return self.chunks

    def _add_span(self, span: Span) -> None:
        """Puts a span into the open chunk, the one being filled, or begins a new one with it.

        A span too long by itself is cut; a few words before it, such as a heading, go with its
        first piece. The cases are tried in this order: stored chunks depend on it.
        """
        limit = self.size.tokens
        tokens = self._tokens(span)
        open_tokens = sum(part.tokens for part in self.open)
        exceeds = open_tokens + tokens > limit

        # A few words, such as a heading, are no chunk: they go with what follows them.
        is_lonely = open_tokens * _LONELY_SHARE <= limit
        if self.open and is_lonely and exceeds:
            # The open words lead the first piece of the span, or are a chunk before its pieces.
            self.chunks += self._led_by_open(span, open_tokens)
            self.open = []
            return

        if tokens > limit:  # too long by itself: it is cut
            self._close_chunk()
            self.chunks += token_spans(self.text, span, self.size)
            return

        if self.open and (exceeds or not self._fits_with(span)):
            # Repeated spans and the new one have to fit into one chunk.
            room = min(self.size.overlap, limit - tokens)
            overlap = self._spans_to_repeat(room)
            self._close_chunk()
            self.open = overlap
            if overlap and not self._fits_with(span):
                self.open = []  # rather no overlap than a chunk that is too long
        self.open.append(_CountedSpan(span, tokens))

    def _tokens(self, span: Span) -> int:
        """How many tokens a span has, by the counter that the limit of a chunk is meant for.

        Every limit of the packer is compared with this number.
        """
        return self.size.counter.count(self.text[span.start : span.end])

    def _open_span(self) -> Span:
        """The stretch of text that the open chunk, the one being filled, covers so far.

        The stretch goes from the chunk's first span to its last, with the text between them.
        """
        return Span(self.open[0].span.start, self.open[-1].span.end)

    def _close_chunk(self) -> None:
        """Finishes the open chunk, the one being filled, if there is one.

        Called when the next span does not fit, and at the end of the text.
        """
        if self.open:
            self.chunks.append(self._open_span())
        self.open = []

    def _fits_with(self, span: Span) -> bool:
        """Whether the open chunk, the one being filled, has room for one more span.

        The sum of both token counts is not enough: a counter may find more tokens in a joined text.
        """
        return self._fits_alone(Span(self._open_span().start, span.end))

    def _fits_alone(self, span: Span) -> bool:
        """Whether a span fits into one chunk as a whole.

        A few open words are joined with a long span only as far as this holds.
        """
        return self._tokens(span) <= self.size.tokens

    def _led_by_open(self, span: Span, open_tokens: int) -> list[Span]:
        """The pieces of a span too long for a chunk, led by the few open words before it.

        So a heading stays with its text. Where both do not fit, the words are a chunk of their own.

        Args:
            span: the long one.
            open_tokens: the tokens of the open words.
        """
        open_words = self._open_span()
        # Cut anew with less room, until the joined text fits: a counter may find more in it.
        for spare in _SPARE:
            smaller = self.size.less(open_tokens + spare)
            pieces = token_spans(self.text, span, smaller)
            joined = Span(open_words.start, pieces[0].end)
            if self._fits_alone(joined):
                return [joined, *pieces[1:]]
        return [open_words, *token_spans(self.text, span, self.size)]

    def _spans_to_repeat(self, room: int) -> list[_CountedSpan]:
        """The last spans of the open chunk that fit into `room` tokens; never all of its spans.

        The next chunk begins with them, so that a sentence is found beside the ones before it.
        """
        overlap: list[_CountedSpan] = []
        if room <= 0:  # asked before the loop, because a span may have no tokens
            return overlap
        # The first span is left out: with all of them the chunk would begin where the last one did.
        for part in reversed(self.open[1:]):
            room -= part.tokens
            if room < 0:
                # The run has to reach the chunk's end: a span left out would be a gap.
                break
            overlap.insert(0, part)
        return overlap


class MarkdownChunker(SizedChunker):
    """Never joins two sections; within one, paragraphs, lists, tables and code stay whole.

    Only a block that does not fit by itself is cut. A chunk's metadata hold the headings that it
    stands under as ``headings``, joined by `` > ``.
    """

    __slots__ = ()
    form: ClassVar[Mapping[str, object]] = {"chunker": "markdown", "version": _VERSION}

    def pieces(self, document: Document) -> list[Piece]:
        """The pieces of a Markdown document, section by section, each with its headings.

        Sections are never joined: a chunk speaks of one subject, and its headings name it.
        """
        pieces: list[Piece] = []
        for headings, blocks in _sections(document.text):
            # A packer for each section: an open chunk must not go on into the next.
            spans = _Packer(document.text, self.size).pack(blocks)
            metadata: dict[str, str] = {}
            if headings:
                metadata["headings"] = " > ".join(headings)
            pieces += _spans_as_pieces(spans, metadata)
        return pieces


def _sections(text: str) -> Iterator[tuple[list[str], list[Span]]]:
    """The sections of a Markdown text: the headings above each, its own last, and its blocks.

    A section is all that follows a heading, up to the next one; the heading is its first block.
    Chunks never join two of them.
    """
    headings: list[tuple[int, str]] = []
    blocks: list[Span] = []
    for span, heading in _blocks(text):
        if heading is not None:
            if blocks:  # of the section before, under the headings that still hold
                yield [title for _, title in headings], blocks
            # A heading ends the sections of its own level and below.
            level, _ = heading
            while headings and headings[-1][0] >= level:
                headings.pop()
            headings.append(heading)
            blocks = []
        blocks.append(span)
    if blocks:
        yield [title for _, title in headings], blocks


def _blocks(text: str) -> Iterator[tuple[Span, tuple[int, str] | None]]:
    """The top-level blocks of a Markdown text, such as paragraphs, each as a span of the text.

    A heading comes with its level and its title, any other block with None. Text that the parser
    leaves out, such as link definitions, comes as a block, too, so that no chunk loses it.
    """
    # Imported late: only Markdown needs the parser.
    from markdown_it import MarkdownIt

    # Lines as the parser counts them: "\n", "\r" and "\r\n" each end one. A space stands in for the
    # "\r" of a pair, so that offsets stay those of the text.
    spaced_text = text.replace("\r\n", " \n")
    lines = spaced_text.replace("\r", "\n").split("\n")
    line_starts = [0, *accumulate(len(line) + 1 for line in lines)]
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)

    next_line = 0
    for position, token in enumerate(tokens):
        # Parts of a block, its end, and what knows no lines are passed over.
        if token.level > 0 or token.nesting < 0 or token.map is None:
            continue
        start_line, end_line = token.map
        heading = None
        if token.type == "heading_open":
            level = int(token.tag.removeprefix("h"))
            title = tokens[position + 1].content.strip()  # the text is a token of its own
            heading = (level, title)
        # What the parser leaves out, such as link definitions, is text as well.
        end_of_left_out = max(next_line, start_line)
        between = _span_of_lines(text, line_starts, next_line, end_of_left_out)
        if between is not None:
            yield between, None
        block = _span_of_lines(text, line_starts, start_line, max(start_line, end_line))
        if block is not None:
            yield block, heading
        next_line = max(next_line, end_line)
    remainder = _stripped(text, min(line_starts[next_line], len(text)), len(text))
    if remainder is not None:
        yield remainder, None


def _span_of_lines(
    text: str, line_starts: Sequence[int], start_line: int, end_line: int
) -> Span | None:
    """The span of some lines of a text without white space around it; None where they are blank.

    A Markdown parser names lines, and chunks are offsets in the text.

    Args:
        line_starts: the offset of each line, and of the end.
        start_line: the first line, from 0.
        end_line: the line behind the last one.
    """
    start = line_starts[start_line]
    # The last line has no line end, and the sums count one.
    end = min(line_starts[end_line], len(text))
    return _stripped(text, start, end)


def _stripped(text: str, start: int, end: int) -> Span | None:
    """A stretch of a text without the white space around it; None where nothing else is in it.

    Chunks begin and end with a character that a reader sees: `Chunker.pieces` promises it.
    """
    stretch = text[start:end]
    if not stretch.strip():
        return None
    leading_space = len(stretch) - len(stretch.lstrip())
    text_start = start + leading_space
    return Span(text_start, text_start + len(stretch.strip()))


_MARKDOWN_ENDINGS = (".md", ".markdown", *MARKDOWN)
"""How the ids of documents end that are Markdown, or were converted to it."""


class AutoChunker(SizedChunker):
    """Markdown by `MarkdownChunker`, others by tokens; known by the end of the document's id.

    It serves folders of mixed files. HTML and Word documents are Markdown once they are converted.
    """

    __slots__ = ()

    @property
    def identity(self) -> Mapping[str, object]:
        """The identities of both chunkers that may cut a document.

        An index that was made with another identity is out of date. Which of the two chunkers cuts
        is known only document by document.
        """
        return {
            "chunker": "auto",
            "markdown": MarkdownChunker(size=self.size).identity,
            "other": TokenChunker(size=self.size).identity,
        }

    def pieces(self, document: Document) -> list[Piece]:
        """The pieces of a document: by the end of its id (``guide.md``) Markdown or text.

        So a folder with files of both kinds needs no setting.
        """
        if document.id.lower().endswith(_MARKDOWN_ENDINGS):
            return MarkdownChunker(size=self.size).pieces(document)
        return TokenChunker(size=self.size).pieces(document)


class SentenceChunker(SizedChunker):
    """As many sentences as fit into a chunk; only one that does not fit by itself is cut.

    So a chunk begins and ends with whole sentences, which a reader or a model can quote.
    """

    __slots__ = ()
    form: ClassVar[Mapping[str, object]] = {"chunker": "sentences", "sentences": SENTENCES_VERSION}

    def pieces(self, document: Document) -> list[Piece]:
        """Runs of whole sentences of a document, in order.

        A sentence that is longer than a chunk may be is cut by tokens. All other chunks begin and
        end with whole sentences, which a model can quote.
        """
        sentences = split_sentences(document.text)
        chunks = _Packer(document.text, self.size).pack(sentences)
        return _spans_as_pieces(chunks)


class WholeChunker:
    """A document is one chunk, without the white space around it: for texts that are short."""

    identity: ClassVar[Mapping[str, object]] = {"chunker": "whole"}

    def pieces(self, document: Document) -> list[Piece]:
        """The whole document as one piece; none where it holds only white space.

        For texts that are short by themselves, such as answers to frequent questions.
        """
        whole = _stripped(document.text, 0, len(document.text))
        if whole is None:
            return []
        return _spans_as_pieces([whole])
