"""What a validator says of one retrieval: which chunks are relevant, is the answer there, where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ragbench.records.corpus import Chunk

__all__ = ["Conflict", "Evidence", "Retrieval", "RetrievalQuality", "Validation"]


class RetrievalQuality(StrEnum):
    """How much a retrieval is worth to whoever has to answer from it."""

    GOOD = "Good"
    """The answer is present."""
    PARTIAL = "Partial"
    """Something speaks for an answer, or for a part of it, but not enough for a Yes."""
    POOR = "Poor"
    """Nothing relevant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrieval:
    """What was retrieved for one query: the input of a validator."""

    query_id: str
    """Comes back on the verdict; may be empty."""
    query: str
    """The question."""
    chunks: Sequence[Chunk]
    """In the retriever's order; may be empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A verbatim stretch of a chunk: ``text`` is ``chunk.text[start:end]``."""

    chunk_id: str
    start: int
    """Offset of its first character in the chunk's text."""
    end: int
    """Offset behind its last character."""
    text: str
    """Character for character what stands there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Two pieces of evidence that say different things about the same question."""

    kind: str
    """``"number"``, ``"date"`` or ``"negation"``: what they disagree in."""
    first: Evidence
    second: Evidence
    detail: str
    """The difference in words, such as ``"1995 against 1997"``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """The verdict on one retrieval."""

    query_id: str
    """The query's; empty where none was given."""
    relevant_chunk_ids: tuple[str, ...]
    """The chunks that hold an answer or a part of one, most probable first."""
    relevance: Mapping[str, float]
    """Each chunk's probability of holding an answer, in the order of the chunks."""
    answer_present: bool
    """Whether the answer is there, said only when it is nearly certain."""
    answer_probability: float
    """Calibrated probability that at least one chunk holds the answer, in [0, 1]."""
    evidence: tuple[Evidence, ...]
    """Where it stands; empty unless the answer is present or a part of it may be."""
    retrieval_quality: RetrievalQuality
    message: str
    """The verdict in a sentence: "No relevant information found in retrieved data." when no chunk
    is relevant."""
    validator: str
    """Who says so."""
    reasons: tuple[str, ...] = ()
    """What the verdict rests on, in sentences."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the input, in sentences."""
    conflicts: tuple[Conflict, ...] = ()
    """Evidence that contradicts other evidence."""
    details: Mapping[str, float] = field(default_factory=dict[str, float])
    """Counts by name, such as ``fabricated_quotes`` or ``escalated``."""
