"""The inspection of a retrieval: warnings about its query, its ids, texts and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import rises
from ragbench.core.record import Record
from ragbench.core.validation import DumpWarning, WarningKind
from ragbench.io.chunk_identity import NamedChunks, name_chunks
from ragbench.safe_text import counted
from ragbench.text.language import recognised_language
from ragbench.text.question import function_tokens, parse_question
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import tokenise
from ragbench.validators.parts import named_words

_CLEAR_TOKENS = 2
"""Tokens to look for from which on a query is clear, even if it is no question or says "it"."""
_WORDS = Patterns("ragbench.validators", "words", "retrieval", re.IGNORECASE)
_QUESTION = Patterns("ragbench.validators", "words", "question", re.IGNORECASE)
_LEAST_LONG = 40_000
"""Characters from which on a chunk is spoken of: it is more a document than a passage."""
_EXAMPLES = 5
"""Chunks that a warning names."""
_DAMAGE = re.compile("[\ufffd\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]|Ã[\x80-\xbf¤¶¼Ÿ©¨]|â€[™œ“”˜]")
"""What a wrong encoding leaves behind: replacement characters, control characters, and UTF-8 that
was read as Latin-1 or Windows-1252."""
_LANGUAGE_LETTERS = 400
"""Letters of a chunk that are enough to recognise its language."""
_SHORTEST = 80
"""Letters below which an unfinished text is rather a heading, a table cell or a list item."""
_ENDS = re.compile(r"[.!?]\s|[。！？]")
"""The end of a sentence within a text: one without any has no whole sentences."""


class InspectedChunks(Record):
    """The chunks of a retrieval, each with an id of its own, and what is wrong with them."""

    chunks: tuple[Chunk, ...]
    warnings: tuple[DumpWarning, ...]


def inspect_chunks(
    query: str, chunks: Sequence[Chunk], *, in_conversation: bool = False
) -> InspectedChunks:
    """Gives each chunk an id of its own, and warns of mistakes in the query and the retrieval.

    Verdicts name chunks by id, so that each needs one. A chunk without an id is called by its
    place, ``"#3"``. Of chunks with one id and one text the first stays; a chunk with another text
    under a known id is called ``"id#2"``: see `ragbench.io.chunk_identity`. Chunks without text
    stay, so that the verdict names them.

    Args:
        in_conversation: earlier turns may say what the query points to.
    """
    identity = name_chunks(chunks)
    warnings: list[DumpWarning] = []
    # What a query points to may be named in the turns before.
    for warning in _about_query(query, len(identity.chunks)):
        is_unclear = warning.kind is WarningKind.UNCLEAR_QUERY
        if not (is_unclear and in_conversation):
            warnings.append(warning)
    for suspicion in (*_about_ids(identity), *_about_texts(query, identity.chunks)):
        if suspicion.chunks:
            warnings.append(_warning(suspicion))
    # Last: the order is about the chunks as a whole.
    warnings += _about_order(identity.chunks)
    return InspectedChunks(chunks=identity.chunks, warnings=tuple(warnings))


class _Suspicion(NamedTuple):
    """Something that may be wrong with chunks, and those of which it is true."""

    kind: WarningKind
    message: str
    """Follows the number of the chunks: "without a score, others have one"."""
    chunks: Sequence[Chunk]
    """Those that it is true of; empty where all is well."""


def _warning(suspicion: _Suspicion) -> DumpWarning:
    """The warning of a suspicion, with its number of chunks and a few of their ids as examples.

    A suspicion is a mistake that some chunks show, such as a missing score.
    """
    count = len(suspicion.chunks)
    number = counted(count, "chunk")
    return DumpWarning(
        kind=suspicion.kind,
        message=f"{number} {suspicion.message}",
        count=count,
        chunk_ids=tuple([chunk.id for chunk in suspicion.chunks[:_EXAMPLES]]),
    )


def _about_query(query: str, chunks: int) -> Iterator[DumpWarning]:
    """Warnings of a query that no text can answer, and of a retrieval without chunks.

    A verdict on such a query would only seem to say something of the retrieval.

    Args:
        chunks: how many were retrieved.
    """
    kind = WarningKind.EMPTY_QUERY
    # From the surest sign to the least; one message for each query.
    if not query.strip():
        message = "the query is empty: nothing can be relevant to it"
    elif not any(letter.isalnum() for letter in query):
        message = "the query has no words: nothing can be relevant to it"
    else:
        kind = WarningKind.UNCLEAR_QUERY
        message = _why_unclear(query)
    if message:
        yield DumpWarning(kind=kind, message=message, count=1)
    if not chunks:
        message = "nothing was retrieved"
        yield DumpWarning(kind=WarningKind.NO_CHUNKS, message=message, count=1)


def _why_unclear(query: str) -> str:
    """The reason why no text can be known to answer a query; empty where one can.

    An unclear query, such as "more information", would else get an answer by accident.
    """
    # "What is caching?" is clear, though it has one word to look for.
    if _WORDS["defines"].match(query):
        return ""
    tokens = _tokens_to_look_for(query)
    too_little = "the query is unclear: it says too little to know what would answer it"
    if not tokens:
        return too_little
    # Two words, or a name, say what it is about.
    if len(tokens) >= _CLEAR_TOKENS or named_words(query):
        return ""
    # "How does it work?" has a question's form and nothing that it is about.
    if _WORDS["points"].search(query):
        return "the query is unclear: it points to something that it does not name"
    # "How does caching work?" asks something of its one word; "caching" alone does not.
    if _QUESTION["whole"].search(query):
        return ""
    return too_little


def _tokens_to_look_for(query: str) -> frozenset[str]:
    """The words of a query that a text can be about, as tokens: no "the", no "more information".

    A query without any is unclear: any text would answer it.
    """
    question = parse_question(query)
    vague_words = table("ragbench.validators", "words", "retrieval")["vague"]
    tokens = frozenset(question.tokens) - function_tokens(question.language)
    # "Information", "details" and the like could be about anything.
    return tokens.difference(tokenise(vague_words))


def _about_ids(identity: NamedChunks) -> Iterator[_Suspicion]:
    """Suspicions about ids of chunks: missing or repeated ones, with the names used instead.

    A user looks such a chunk up under the name that a verdict gives it.
    """
    message = "without an id: called by place, such as '#1'"
    yield _Suspicion(WarningKind.MISSING_ID, message, identity.unnamed)
    message = "given twice with the same id and text: counted once"
    yield _Suspicion(WarningKind.DUPLICATE_ID, message, identity.again)
    message = "with the id of another one: called 'id#2' and so on"
    yield _Suspicion(WarningKind.DUPLICATE_ID, message, identity.renamed)
    message = "with the text of an earlier chunk and no other id: counted once"
    yield _Suspicion(WarningKind.DUPLICATE_TEXT, message, identity.same_text)


def _about_texts(query: str, chunks: Sequence[Chunk]) -> Iterator[_Suspicion]:
    """Suspicions about chunks' texts: missing, damaged, repeated, long, cut or in another language.

    A retrieval step has usually gone wrong there, which no answer can mend. Missing scores count,
    too.
    """
    written = [chunk for chunk in chunks if chunk.text.strip()]
    empty = [chunk for chunk in chunks if not chunk.text.strip()]
    message = "without text: nothing to find an answer in"
    # With metadata, the text was perhaps stored there by mistake.
    bare = [chunk for chunk in empty if not chunk.metadata]
    yield _Suspicion(WarningKind.EMPTY_TEXT, message, bare)
    message = "with metadata and no text: metadata is not read"
    described = [chunk for chunk in empty if chunk.metadata]
    yield _Suspicion(WarningKind.EMPTY_TEXT, message, described)
    message = "with unreadable letters, as a wrong encoding or binary data leaves behind"
    damaged = [chunk for chunk in written if _DAMAGE.search(chunk.text)]
    yield _Suspicion(WarningKind.DAMAGED_TEXT, message, damaged)
    message = "with the text of an earlier chunk"
    yield _Suspicion(WarningKind.DUPLICATE_TEXT, message, _repeated(written))
    message = f"longer than {_LEAST_LONG} characters: read in windows, whole"
    long = [chunk for chunk in written if len(chunk.text) > _LEAST_LONG]
    yield _Suspicion(WarningKind.LONG_TEXT, message, long)
    message = "that end in the middle of a sentence"
    truncated = [chunk for chunk in written if _is_truncated(chunk.text)]
    yield _Suspicion(WarningKind.TRUNCATED_TEXT, message, truncated)
    query_language = recognised_language(query)
    # A query in an unknown language can be compared with none.
    if query_language is not None:
        foreign: list[Chunk] = []
        for chunk in written:
            # The beginning is enough, and a long text takes long.
            language = recognised_language(chunk.text[:_LANGUAGE_LETTERS])
            if language is not None and language != query_language:
                foreign.append(chunk)
        message = f"in another language than the query ({query_language})"
        yield _Suspicion(WarningKind.OTHER_LANGUAGE, message, foreign)
    without_score = [chunk for chunk in chunks if chunk.score is None]
    if len(without_score) < len(chunks):  # where no chunk has one, the store gives none
        message = "without a score, others have one"
        yield _Suspicion(WarningKind.MISSING_SCORE, message, without_score)


def _about_order(chunks: Sequence[Chunk]) -> Iterator[DumpWarning]:
    """The warning of scores that do not fall from chunk to chunk; none where they do.

    Scores that rise mean that either the order or the scores are other than intended: a cut after
    the first chunks would drop the best ones.
    """
    scores = [chunk.score for chunk in chunks if chunk.score is not None]
    if not any(before < after for before, after in pairwise(scores)):
        return
    kind = WarningKind.UNORDERED_SCORES
    message = "the chunks are not in the order of their scores"
    # Distances, which are smallest for the best chunk, rise all the way.
    if rises(scores):
        kind = WarningKind.MIXED_SCORE_DIRECTIONS
        message = "the scores rise from the first chunk to the last: the best one comes last"
    yield DumpWarning(kind=kind, message=message, count=len(scores))


def _repeated(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks that repeat the text of an earlier chunk, apart from spaces and capitals.

    Repeated chunks take the places of chunks that could say more.
    """
    seen: set[str] = set()
    repeated: list[Chunk] = []
    for chunk in chunks:
        # Spaces and capitals make no other text.
        text = " ".join(chunk.text.split()).casefold()
        if text in seen:
            repeated.append(chunk)
        seen.add(text)
    return repeated


def _is_truncated(text: str) -> bool:
    """Whether a text of whole sentences ends in the middle of one, as a bad splitter cuts it.

    The rest of such a sentence, perhaps the answer, is in another chunk or lost.
    """
    # Short texts, such as headings, end without a full stop by right.
    if len(text) < _SHORTEST:
        return False
    # The last word and what follows it tell: the end alone is searched.
    if not _WORDS["cut"].search(text[-20:]):
        return False
    # A text without any end of a sentence, such as a table, is not cut.
    return _ENDS.search(text) is not None
