"""What a retriever handed over for one query, read from a file, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ragbench.records.corpus import Chunk

__all__ = ["DumpWarning", "RetrievalDump", "WarningKind"]


class WarningKind(StrEnum):
    """What can be wrong with a dump without keeping it from being judged."""

    NO_CHUNKS = "no_chunks"
    """Nothing was retrieved."""
    EMPTY_QUERY = "empty_query"
    """The query has no words."""
    MALFORMED_CHUNK = "malformed_chunk"
    """An entry is no chunk, and was left out."""
    EMPTY_TEXT = "empty_text"
    """A chunk has no text, such as one with metadata alone."""
    DAMAGED_TEXT = "damaged_text"
    """A text holds letters that only a wrong encoding or binary data leaves behind."""
    MISSING_ID = "missing_id"
    """A chunk has no id; its place in the list stands for it."""
    DUPLICATE_ID = "duplicate_id"
    """Two chunks have one id; the later one was given another."""
    DUPLICATE_TEXT = "duplicate_text"
    """Two chunks have the same text but for case and white space."""
    TRUNCATED_TEXT = "truncated_text"
    """A chunk ends in the middle of a sentence."""
    OTHER_LANGUAGE = "other_language"
    """A chunk is in another language than the query."""
    INVALID_SCORE = "invalid_score"
    """A score is no finite number."""
    MISSING_SCORE = "missing_score"
    """Some chunks have a score and others have none."""
    UNORDERED_SCORES = "unordered_scores"
    """The chunks stand neither in the order of rising scores nor of falling ones."""
    MIXED_SCORE_DIRECTIONS = "mixed_score_directions"
    """The best chunk has the highest score here and the lowest elsewhere in the dump."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpWarning:
    """One thing that is wrong with one query's chunks."""

    kind: WarningKind
    message: str
    """What is wrong, in one sentence."""
    count: int
    """How many chunks it is wrong with; 1 where it is wrong with the query."""
    chunk_ids: tuple[str, ...] = ()
    """The first of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalDump:
    """One query with its chunks, in the order in which they were retrieved."""

    query_id: str
    query: str
    """As it stands in the dump; empty when it says nothing."""
    chunks: tuple[Chunk, ...]
    """Their ids are unique; their scores are higher for better ones."""
    warnings: tuple[DumpWarning, ...] = ()
    """What was wrong already when it was read."""
    answer_present: bool | None = None
    """Label: whether the answer is in the chunks; None where nobody said."""
    relevant_ids: frozenset[str] | None = None
    """Label: ids of the relevant chunks; None where nobody said."""
    answers: tuple[str, ...] = ()
    """Right answers, where the dump has them."""
