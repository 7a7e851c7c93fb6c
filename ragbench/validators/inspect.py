"""What is wrong with a retrieval: found once, by rules that can be read here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import rises
from ragbench.core.record import Record
from ragbench.core.validation import DumpWarning, WarningKind
from ragbench.io.chunk_identity import NamedChunks, name_chunks
from ragbench.text.language import recognised_language
from ragbench.text.question import parse_question
from ragbench.text.tables import Patterns

_CLEAR_TOKENS = 2
_VAGUE_TOKENS = 3
_WORDS = Patterns("ragbench.validators", "words", "retrieval", re.IGNORECASE)
_LONG = 40_000
"""Characters from which on a chunk is spoken of: it is more a document than a passage."""
_EXAMPLES = 5
_DAMAGE = re.compile("[\ufffd\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]|Ã[\x80-\xbf¤¶¼Ÿ©¨]|â€[™œ“”˜]")
"""What a wrong encoding leaves behind: replacement characters, control characters, and UTF-8 that
was read as Latin-1 or Windows-1252."""
_READ = 400
"""Letters of a chunk that are enough to recognise its language."""
_SHORTEST = 80
"""Letters below which an unfinished text is rather a heading, a table cell or a list item."""
_ENDS = re.compile(r"[.!?]\s|[。！？]")


class InspectedChunks(Record):
    chunks: tuple[Chunk, ...]
    found: tuple[DumpWarning, ...]


def inspect_chunks(query: str, chunks: Sequence[Chunk]) -> InspectedChunks:
    """Gives every chunk an id of its own and says what is wrong with the retrieval.

    A chunk without an id is called by its place, ``"#3"``. Of chunks with one id and one text the
    first stays; a chunk with another text under a known id is called ``"id#2"``: see
    `ragbench.io.chunk_identity`. Chunks without text stay, so that the verdict names them.
    """
    named_chunks = name_chunks(chunks)
    kept = named_chunks.chunks
    found = [*_about_query(query, len(kept))]
    for kind, what, those in (*_about_ids(named_chunks), *_about_texts(query, kept)):
        if those:
            number = "1 chunk" if len(those) == 1 else f"{len(those)} chunks"
            examples = tuple(chunk.id for chunk in those[:_EXAMPLES])
            message = f"{number} {what}"
            found.append(
                DumpWarning(kind=kind, message=message, count=len(those), chunk_ids=examples)
            )
    scores = [chunk.score for chunk in kept if chunk.score is not None]
    if any(before < after for before, after in pairwise(scores)):
        kind = WarningKind.UNORDERED_SCORES
        message = "the chunks are not in the order of their scores"
        if rises(scores):
            kind = WarningKind.MIXED_SCORE_DIRECTIONS
            message = "the scores rise from the first chunk to the last: the best one comes last"
        found.append(DumpWarning(kind=kind, message=message, count=len(scores)))
    return InspectedChunks(chunks=kept, found=tuple(found))


_Found = tuple[WarningKind, str, Sequence[Chunk]]
"""Of what kind it is, what is said of the chunks, and which they are, if any."""


def _about_query(query: str, chunks: int) -> Iterator[DumpWarning]:
    kind, message = WarningKind.EMPTY_QUERY, ""
    if not query.strip():
        message = "the query is empty: nothing can be relevant to it"
    elif not any(letter.isalnum() for letter in query):
        message = "the query has no words: nothing can be relevant to it"
    else:
        kind, tokens = WarningKind.UNCLEAR_QUERY, len(parse_question(query).tokens)
        if tokens < _CLEAR_TOKENS and not _WORDS["defines"].match(query):
            message = "the query is unclear: it says too little to know what would answer it"
        elif tokens <= _VAGUE_TOKENS and _WORDS["points"].search(query):
            message = "the query is unclear: it points to something that it does not name"
    if message:
        yield DumpWarning(kind=kind, message=message, count=1)
    if not chunks:
        message = "nothing was retrieved"
        yield DumpWarning(kind=WarningKind.NO_CHUNKS, message=message, count=1)


def _about_ids(named_chunks: NamedChunks) -> Iterator[_Found]:
    what = "without an id: called by place, such as '#1'"
    yield WarningKind.MISSING_ID, what, named_chunks.unnamed
    what = "given twice with the same id and text: counted once"
    yield WarningKind.DUPLICATE_ID, what, named_chunks.again
    what = "with the id of another one: called 'id#2' and so on"
    yield WarningKind.DUPLICATE_ID, what, named_chunks.renamed
    what = "with the text of an earlier chunk and no other id: counted once"
    yield WarningKind.DUPLICATE_TEXT, what, named_chunks.same_text


def _about_texts(query: str, chunks: Sequence[Chunk]) -> Iterator[_Found]:
    written = [chunk for chunk in chunks if chunk.text.strip()]
    if len(written) < len(chunks):
        empty = [chunk for chunk in chunks if not chunk.text.strip()]
        what = "without text: nothing to find an answer in"
        yield WarningKind.EMPTY_TEXT, what, [one for one in empty if not one.metadata]
        what = "with metadata and no text: metadata is not read"
        yield WarningKind.EMPTY_TEXT, what, [one for one in empty if one.metadata]
    damaged = [chunk for chunk in written if _DAMAGE.search(chunk.text)]
    what = "with unreadable letters, as a wrong encoding or binary data leaves behind"
    yield WarningKind.DAMAGED_TEXT, what, damaged
    plain = [(chunk, " ".join(chunk.text.split()).casefold()) for chunk in written]
    first = {text: chunk for chunk, text in reversed(plain)}
    repeated = [chunk for chunk, text in plain if first[text] is not chunk]
    yield WarningKind.DUPLICATE_TEXT, "with the text of an earlier chunk", repeated
    long = [chunk for chunk in written if len(chunk.text) > _LONG]
    yield WarningKind.LONG_TEXT, f"longer than {_LONG} characters: read in windows, whole", long
    longer = (chunk for chunk in written if len(chunk.text) >= _SHORTEST)
    cut = [one for one in longer if _WORDS["cut"].search(one.text[-20:]) and _ENDS.search(one.text)]
    yield WarningKind.TRUNCATED_TEXT, "that end in the middle of a sentence", cut
    asked = recognised_language(query)
    if asked is not None:
        known = [(chunk, recognised_language(chunk.text[:_READ])) for chunk in written]
        others = [chunk for chunk, language in known if language not in (None, asked)]
        what = f"in another language than the query ({asked})"
        yield WarningKind.OTHER_LANGUAGE, what, others
    lacking = [chunk for chunk in chunks if chunk.score is None]
    if len(lacking) < len(chunks):
        yield WarningKind.MISSING_SCORE, "without a score, others have one", lacking
