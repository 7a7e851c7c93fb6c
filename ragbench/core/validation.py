"""A validator's verdict on a retrieval, its warnings, the summary of many."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, field
from ragbench.core.roles import FieldRole


class Share(Record):
    count: int
    total: int
    share: float | None
    """None of nothing."""
    low: float | None
    """95% interval by Clopper and Pearson."""
    high: float | None


class WarningCount(Record):
    kind: str
    queries: int
    chunks: int
    examples: tuple[str, ...]


class RequiredShare(Record):
    name: str
    """The option, without its dashes."""
    wanted: float
    found: float | None
    is_met: bool


class ScoreCutoff(Record):
    """A score that a share of the answers reaches."""

    keeps: float
    """Of the queries with an answer, the share whose best chunk scores so or better."""
    score: float
    """As the retriever's: higher for better, or a distance, lower for better."""


class WeakQuery(Record):
    query_id: str
    query: str
    retrieval_quality: str
    answer_probability: float
    reason: str


class SourceCount(Record):
    source: str
    chunks: int
    relevant: int


class PairedDumps(Record):
    against: str
    queries: int
    won: int
    """Queries whose answer is present here and was not there."""
    lost: int
    p_value: float
    """Two-sided, McNemar's exact test."""


class EarlierRetrieval(Record):
    """What another retriever's chunks came to for a query, as a file of verdicts has it."""

    answer_present: bool
    answer_probability: float
    quality: str
    chunk_ids: tuple[str, ...]
    relevant_ids: tuple[str, ...]
    quotes: tuple[tuple[str, str], ...]


class DoctorFinding(Record):
    text: str
    action: str


class RetrievalDoctor(Record):
    """What the verdicts on a dump say of the retriever."""

    answer_ranks: Mapping[str, int]
    """Queries by the rank of the first chunk that holds the answer: ``1``, ``2-5``, ``6-20``,
    ``21+``, and ``never``."""
    cutoffs: tuple[ScoreCutoff, ...]
    """The strictest first; empty for a dump without scores."""
    duplicates: Share
    sources: tuple[SourceCount, ...]
    """Those with most chunks, where chunks name their document or source."""
    weakest: tuple[WeakQuery, ...]
    findings: tuple[DoctorFinding, ...]
    compared: PairedDumps | None


class DumpSummary(Record):
    """Counts over the verdicts on a dump. The same dump gives the same summary."""

    dump: str
    mapping: Mapping[str, str | None]
    roles: tuple[FieldRole, ...] = ()
    """Where the query and the chunks were read from, and why."""
    validator: str
    identity: str
    """Changes whenever the same dump could get other verdicts."""
    queries: int
    failed: int
    malformed: int
    repeated_ids: int
    reused: int
    """Verdicts of an earlier run: neither the query, its chunks nor the validator have changed."""
    reused_from: str | None
    """When that run began, the latest of several; local time."""
    chunks: int
    relevant_chunks: int
    answer_present: Share
    quality: Mapping[str, int]
    warnings: tuple[WarningCount, ...]
    problems: tuple[str, ...]
    failures: tuple[str, ...]
    details: Mapping[str, float]
    """Sums of what the validator counts, such as escalated queries or fabricated quotes."""
    demands: tuple[RequiredShare, ...]
    doctor: RetrievalDoctor
    is_met: bool
    """Whether all demands are."""


class WarningKind(StrEnum):
    """What can be wrong with a dump without keeping it from being judged."""

    NO_CHUNKS = "no_chunks"
    EMPTY_QUERY = "empty_query"
    UNCLEAR_QUERY = "unclear_query"
    MALFORMED_CHUNK = "malformed_chunk"
    EMPTY_TEXT = "empty_text"
    DAMAGED_TEXT = "damaged_text"
    """A text holds letters that only a wrong encoding or binary data leaves behind."""
    MISSING_ID = "missing_id"
    DUPLICATE_ID = "duplicate_id"
    """Two chunks have one id: the later one was given another, or dropped as the same chunk."""
    DUPLICATE_TEXT = "duplicate_text"
    LONG_TEXT = "long_text"
    """A chunk is more a document than a passage."""
    TRUNCATED_TEXT = "truncated_text"
    OTHER_LANGUAGE = "other_language"
    INVALID_SCORE = "invalid_score"
    MISSING_SCORE = "missing_score"
    UNORDERED_SCORES = "unordered_scores"
    MIXED_SCORE_DIRECTIONS = "mixed_score_directions"
    """The best chunk has the highest score here and the lowest elsewhere in the dump."""


class DumpWarning(Record):
    kind: WarningKind
    message: str
    count: int
    """How many chunks it is wrong with; 1 where it is wrong with the query."""
    chunk_ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        examples = f" ({', '.join(self.chunk_ids)})" if self.chunk_ids else ""
        return f"{self.kind.value}: {self.message}{examples}"


class RetrievalDump(Record):
    query_id: str
    query: str
    """As it stands in the dump; empty when it says nothing."""
    chunks: tuple[Chunk, ...]
    """Their ids are unique; their scores are higher for better ones."""
    warnings: tuple[DumpWarning, ...] = ()
    answer_present: bool | None = None
    """Label: whether the answer is in the chunks; None where nobody said."""
    relevant_ids: frozenset[str] | None = None
    """Label: ids of the relevant chunks; None where nobody said."""
    answers: tuple[str, ...] = ()


class RetrievalQuality(StrEnum):
    """How much a retrieval is worth to whoever has to answer from it."""

    GOOD = "Good"
    PARTIAL = "Partial"
    """Something speaks for an answer, or for a part of it, but not enough for a Yes."""
    POOR = "Poor"


class EvidenceQuote(Record):
    """A verbatim stretch of a chunk: ``text`` is ``chunk.text[start:end]``."""

    chunk_id: str
    start: int
    end: int
    text: str


class Conflict(Record):
    """Two pieces of evidence that say different things about the same question."""

    kind: str
    """``"number"``, ``"date"`` or ``"negation"``: what they disagree in."""
    first: EvidenceQuote
    second: EvidenceQuote
    detail: str


class Verdict(Record):
    query_id: str
    relevant_chunk_ids: tuple[str, ...]
    """The chunks that hold an answer or a part of one, most probable first."""
    relevance: Mapping[str, float]
    """Each chunk's probability of holding an answer, in the order of the chunks."""
    answer_present: bool
    """Whether the answer is there, said only when it is nearly certain."""
    answer_probability: float
    """Calibrated probability that at least one chunk holds the answer, in [0, 1]."""
    evidence: tuple[EvidenceQuote, ...]
    """Where it stands; empty unless the answer is present or a part of it may be."""
    retrieval_quality: RetrievalQuality
    message: str
    """The verdict in a sentence: "No relevant information found in retrieved data." when no chunk
    is relevant."""
    validator: str
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is wrong with the input, in sentences; in a run all that is, each as
    ``kind: sentence``."""
    inspection: tuple[DumpWarning, ...] | None = None
    """Those of the warnings that `ragbench.validators.inspect` found; None where a validator did
    not use it."""
    conflicts: tuple[Conflict, ...] = ()
    details: Mapping[str, float] = field(default_factory=dict[str, float])
    """Counts by name, such as ``fabricated_quotes`` or ``escalated``."""


class MatrixCell(Record):
    answer_present: bool
    answered: bool
    rate: Share
    """Of the cases with this verdict, how many the system dealt with so."""

    @property
    def meaning(self) -> str:
        if self.answer_present:
            return "answered from evidence" if self.answered else "declined though it was there"
        return "answered, no evidence shown" if self.answered else "declined, none shown"


class ValidationTable(Record):
    validator: str
    verdicts: int
    quality: Mapping[str, int]
    answer_present: Share
    matrix: tuple[MatrixCell, ...]
    """Four cells: present and answered, present and abstained, absent and answered, absent and
    abstained."""
    unmatched: int
    """Cases with a verdict whose generation failed or was skipped: in no cell."""
