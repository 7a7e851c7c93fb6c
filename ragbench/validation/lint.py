"""What is wrong with a dump, besides what its chunks say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragbench.records.corpus import Chunk
from ragbench.records.dumps import DumpWarning, RetrievalDump, WarningKind
from ragbench.text.language import tell_language

__all__ = ["lint"]

_EXAMPLES = 5
_DAMAGE = re.compile("[\ufffd\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]|Ã[\x80-\xbf¤¶¼Ÿ©¨]|â€[™œ“”˜]")
"""What a wrong encoding leaves behind: replacement characters, control characters, and UTF-8 that
was read as Latin-1 or Windows-1252."""
_READ = 400
"""Letters of a chunk that are enough to tell its language by."""
_SHORTEST = 80
"""Letters below which an unfinished text is rather a heading, a table cell or a list item."""
_CUT = re.compile(r"(?:[\w,;:(\[/&+-]|\.\.\.|…|\[(?:truncated|cut|\.\.\.|…)\])\s*\Z", re.IGNORECASE)
_ENDS = re.compile(r"[.!?。！？]")
_WORD = re.compile(r"\w")


def lint(dump: RetrievalDump) -> tuple[DumpWarning, ...]:
    """Everything that is wrong with a query's chunks; what was found in reading comes first.

    Each check is a rule that can be read here, and none of them changes a verdict.

    Args:
        dump: one query with its chunks.
    """
    return (*dump.warnings, *_about_query(dump), *_about_texts(dump), *_about_scores(dump.chunks))


def _about_query(dump: RetrievalDump) -> Iterator[DumpWarning]:
    if not _WORD.search(dump.query):
        message = "the query has no words"
        yield DumpWarning(kind=WarningKind.EMPTY_QUERY, message=message, count=1)
    if not dump.chunks:
        message = "nothing was retrieved"
        yield DumpWarning(kind=WarningKind.NO_CHUNKS, message=message, count=1)


def _about_texts(dump: RetrievalDump) -> Iterator[DumpWarning]:
    chunks = dump.chunks
    empty = [chunk for chunk in chunks if not chunk.text.strip()]
    with_metadata = sum(bool(chunk.metadata) for chunk in empty)
    told = f", {with_metadata} of them with metadata" if with_metadata else ""
    yield from _warning(WarningKind.EMPTY_TEXT, f"without text{told}", empty)
    written = [chunk for chunk in chunks if chunk.text.strip()]
    damaged = [chunk for chunk in written if _DAMAGE.search(chunk.text)]
    what = "with letters that only a wrong encoding or binary data leaves behind"
    yield from _warning(WarningKind.DAMAGED_TEXT, what, damaged)
    what = "with the text of an earlier chunk"
    yield from _warning(WarningKind.DUPLICATE_TEXT, what, _repeated(written))
    what = "that end in the middle of a sentence"
    yield from _warning(WarningKind.TRUNCATED_TEXT, what, list(filter(_is_cut, written)))
    asked = tell_language(dump.query, least=1)
    if asked is not None:
        others = [
            chunk
            for chunk in written
            if (language := tell_language(chunk.text[:_READ])) is not None and language != asked
        ]
        what = f"in another language than the query ({asked})"
        yield from _warning(WarningKind.OTHER_LANGUAGE, what, others)


def _repeated(chunks: Sequence[Chunk]) -> list[Chunk]:
    seen: set[str] = set()
    found: list[Chunk] = []
    for chunk in chunks:
        text = " ".join(chunk.text.split()).casefold()
        if text in seen:
            found.append(chunk)
        seen.add(text)
    return found


def _is_cut(chunk: Chunk) -> bool:
    """Whether a text of sentences stops before the end of its last one."""
    text = chunk.text
    if len(text) < _SHORTEST or not _CUT.search(text[-20:]):
        return False
    return _ENDS.search(text) is not None


def _about_scores(chunks: Sequence[Chunk]) -> Iterator[DumpWarning]:
    scores = [chunk.score for chunk in chunks if chunk.score is not None]
    if not scores:
        return
    lacking = [chunk for chunk in chunks if chunk.score is None]
    yield from _warning(WarningKind.MISSING_SCORE, "without a score, others have one", lacking)
    steps = [after - before for before, after in pairwise(scores)]
    if not any(step > 0 for step in steps):
        return
    if all(step >= 0 for step in steps):
        message = "the best score comes last here, unlike elsewhere in the dump"
        kind = WarningKind.MIXED_SCORE_DIRECTIONS
    else:
        message = "the chunks do not stand in the order of their scores"
        kind = WarningKind.UNORDERED_SCORES
    yield DumpWarning(kind=kind, message=message, count=len(scores))


def _warning(kind: WarningKind, what: str, chunks: Sequence[Chunk]) -> Iterator[DumpWarning]:
    if chunks:
        number = "1 chunk" if len(chunks) == 1 else f"{len(chunks)} chunks"
        ids = tuple(chunk.id for chunk in chunks[:_EXAMPLES])
        yield DumpWarning(kind=kind, message=f"{number} {what}", count=len(chunks), chunk_ids=ids)
