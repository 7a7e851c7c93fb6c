"""Validation: a retrieval to judge, a validator's verdict on it, and the summary of many verdicts.

``ragbench validate`` judges the retrievals of a dump, and a run those of its own retriever.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, field
from ragbench.core.roles import FieldRole


class AnswerWord(StrEnum):
    """How sure it is that the chunks hold the answer; each word has a known worth."""

    YES = "yes"
    LIKELY = "likely"
    PERHAPS = "perhaps"
    PROBABLY_NOT = "probably not"
    NO = "no"
    NOT_JUDGED = "not judged reliably"
    """In place of a Yes, where a Yes is known to be worth little: tables of figures, and questions
    of several sentences."""


class AnswerWorth(Record):
    """How often a word was true: the share of pools with this word that held the answer."""

    share: float
    low: float | None = None
    """The share in the worst of the domains that it was measured on; None after a calibration."""
    high: float | None = None
    """The share in the best of these domains; None after a calibration."""
    labels: int = 0
    """Labels of your own that the share comes from; 0 for the domains that ragbench measured."""

    def __str__(self) -> str:
        """The share of true words for readers, as in ``83 % (70 to 91 by domain)``.

        The text says where the share was measured: without that, readers would take it for a share
        of their own data.
        """
        share = f"{100 * self.share:.0f} %"
        if self.labels:
            return f"{share}, calibrated on {self.labels:,} labels of yours"
        if self.low is not None and self.high is not None:
            share += f" ({100 * self.low:.0f} to {100 * self.high:.0f} by domain)"
        return f"{share}, not calibrated on your data"


class WordCount(Record):
    """How many queries have a word, and how often that word was true."""

    word: AnswerWord
    count: int
    worth: AnswerWorth | None
    """After a calibration on average over these queries; None where it is not known."""


class Share(Record):
    """A share of things that were counted, with its interval."""

    count: int
    total: int
    share: float | None
    """None where the total is 0."""
    low: float | None
    """Lower end of the 95% interval by Clopper and Pearson."""
    high: float | None
    """Upper end of the same interval."""


class WarningCount(Record):
    """How often one kind of warning was given, over a dump."""

    kind: str
    queries: int
    chunks: int
    examples: tuple[str, ...]


class RequiredShare(Record):
    """A share that the user demands of a dump, such as ``--min-answer-present``."""

    name: str
    """The option, without its dashes."""
    wanted: float
    """The smallest share that is allowed; of an option that begins with ``max``, the largest."""
    found: float | None
    """The share in the dump; None where the total is 0."""
    is_met: bool


class ScoreCutoff(Record):
    """A threshold for the retriever's scores, and the share of answers that it would keep."""

    keeps: float
    """Of the queries with an answer, the share whose best chunk has this score or a better one."""
    score: float
    """In the retriever's own direction: a similarity, or a distance, where lower is better."""


class WeakQuery(Record):
    """A query whose chunks most probably do not contain its answer."""

    query_id: str
    query: str
    retrieval_quality: str
    answer_probability: float
    reason: str


class SourceCount(Record):
    """The chunks of one document or source over a dump."""

    source: str
    chunks: int
    relevant: int


class PairedDumps(Record):
    """Two retrievers on the same queries."""

    against: str
    """The dump or file of verdicts of the other retriever."""
    queries: int
    won: int
    """Queries whose answer is in the chunks of this retriever alone."""
    lost: int
    """Queries whose answer is in the chunks of the other retriever alone."""
    p_value: float
    """Two-sided, McNemar's exact test."""


class EarlierRetrieval(Record):
    """The verdict on another retriever's chunks for a query, read from a file of verdicts."""

    answer_present: bool
    answer_probability: float
    quality: str
    chunk_ids: tuple[str, ...]
    relevant_ids: tuple[str, ...]
    quotes: tuple[tuple[str, str], ...]


class DoctorFinding(Record):
    """A problem of a retriever, with advice."""

    text: str
    action: str
    """What to try."""


class RetrievalDoctor(Record):
    """A diagnosis of a retriever, made of the verdicts on a dump."""

    answer_ranks: Mapping[str, int]
    """Number of queries by the rank of the first chunk with the answer: ``1``, ``2-5``, ``6-20``,
    ``21+``, and ``never``."""
    cutoffs: tuple[ScoreCutoff, ...]
    """The strictest first; empty for a dump without scores."""
    duplicates: Share
    sources: tuple[SourceCount, ...]
    """The sources with the most chunks; empty where chunks name no document or source."""
    weakest: tuple[WeakQuery, ...]
    findings: tuple[DoctorFinding, ...]
    compared: PairedDumps | None
    """The comparison with another retriever; None without one."""


class DumpSummary(Record):
    """Counts over the verdicts on a dump. The same dump gives the same summary."""

    dump: str
    mapping: Mapping[str, str | None]
    roles: tuple[FieldRole, ...] = ()
    """The fields from which query and chunks were read, and why from these."""
    validator: str
    identity: str
    """Of the validator with its settings: with another one the same dump may get other verdicts."""
    queries: int
    failed: int
    """Queries for which the validator failed."""
    malformed: int
    """Malformed parts of the dump, which were skipped."""
    repeated_ids: int
    reused: int
    """Verdicts of an earlier run: neither the query, its chunks nor the validator have changed."""
    reused_from: str | None
    """When that run began, in local time; of several, the latest."""
    chunks: int
    relevant_chunks: int
    answer_present: Share
    words: tuple[WordCount, ...] = ()
    """Queries by the word for their probability, the surest first; empty where the validator's
    words were not measured."""
    quality: Mapping[str, int]
    warnings: tuple[WarningCount, ...]
    problems: tuple[str, ...]
    failures: tuple[str, ...]
    details: Mapping[str, float]
    """Counts of the validator, summed, such as escalated queries or fabricated quotes."""
    demands: tuple[RequiredShare, ...]
    doctor: RetrievalDoctor
    is_met: bool
    """Whether all demands are met."""


class WarningKind(StrEnum):
    """A problem of a dump with which it can still be judged."""

    NO_CHUNKS = "no_chunks"
    EMPTY_QUERY = "empty_query"
    UNCLEAR_QUERY = "unclear_query"
    MALFORMED_CHUNK = "malformed_chunk"
    EMPTY_TEXT = "empty_text"
    DAMAGED_TEXT = "damaged_text"
    """A text contains characters that come of a wrong encoding or of binary data."""
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
    """A problem of one retrieval of a dump."""

    kind: WarningKind
    message: str
    count: int
    """Number of chunks with this problem; 1 where the query has it."""
    chunk_ids: tuple[str, ...] = ()
    """Ids of such chunks, as examples."""

    def __str__(self) -> str:
        """The warning in a line: its kind, the message, and ids of such chunks.

        A run stores the problems of a retrieval in this form.
        """
        text = f"{self.kind.value}: {self.message}"
        if self.chunk_ids:
            text += f" ({', '.join(self.chunk_ids)})"
        return text


class RetrievalDump(Record):
    """A query with the chunks that a retriever returned for it, as a validator gets it."""

    query_id: str
    query: str
    """As it is in the dump; empty when the dump has none."""
    chunks: tuple[Chunk, ...]
    """Their ids are unique; a higher score is better."""
    warnings: tuple[DumpWarning, ...] = ()
    answer_present: bool | None = None
    """Label: whether the answer is in the chunks; None where it is not labelled."""
    relevant_ids: frozenset[str] | None = None
    """Label: ids of the relevant chunks; None where these are not labelled."""
    answers: tuple[str, ...] = ()
    """Label: right answers to the query."""


class RetrievalQuality(StrEnum):
    """The worth of a retrieval for generating an answer from it."""

    GOOD = "Good"
    PARTIAL = "Partial"
    """The chunks may contain an answer, or a part of one, but not certainly enough for a Yes."""
    POOR = "Poor"


class EvidenceQuote(Record):
    """A verbatim part of a chunk: ``text`` is ``chunk.text[start:end]``."""

    chunk_id: str
    start: int
    end: int
    text: str


class Conflict(Record):
    """Two pieces of evidence that contradict each other about the same question."""

    kind: str
    """What they disagree in: ``"number"``, ``"date"`` or ``"negation"``."""
    first: EvidenceQuote
    second: EvidenceQuote
    detail: str


class Verdict(Record):
    """A validator's verdict on one retrieval: whether its chunks contain the answer."""

    query_id: str
    relevant_chunk_ids: tuple[str, ...]
    """The chunks that contain an answer or a part of one, most probable first."""
    relevance: Mapping[str, float]
    """Each chunk's probability of containing an answer, in the order of the chunks."""
    answer_present: bool
    """Whether the answer is in the chunks; true only when that is nearly certain."""
    answer_probability: float
    """Calibrated probability that at least one chunk contains the answer, in [0, 1]."""
    answer_word: AnswerWord | None = None
    """The probability in a word; None where nobody has measured what the validator's words are
    worth."""
    answer_worth: AnswerWorth | None = None
    """How often that word was true; None where that is not known."""
    evidence: tuple[EvidenceQuote, ...]
    """The parts of the chunks with the answer; empty unless it is present or partly present."""
    retrieval_quality: RetrievalQuality
    message: str
    """The verdict in a sentence: "No relevant information found in retrieved data." when no chunk
    is relevant."""
    validator: str
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Problems of the input, in sentences; in a run all problems, each as ``kind: sentence``."""
    inspection: tuple[DumpWarning, ...] | None = None
    """The warnings that `ragbench.validators.inspect` gave; None where the validator did not use
    it."""
    conflicts: tuple[Conflict, ...] = ()
    details: Mapping[str, float] = field(default_factory=dict[str, float])
    """Counts by name, such as ``fabricated_quotes`` or ``escalated``."""


class MatrixCell(Record):
    """One of the four cells of a table: the answer is present or not, and was given or declined."""

    answer_present: bool
    answered: bool
    rate: Share
    """Of the cases with this verdict, those that the system answered, or declined."""

    @property
    def meaning(self) -> str:
        """The cell of the table in words, such as ``answered from evidence``.

        Reports head the cell with it.
        """
        if self.answer_present and self.answered:
            return "answered from evidence"
        if self.answer_present:
            return "declined though it was there"
        if self.answered:
            return "answered, no evidence shown"
        return "declined, none shown"


class ValidationTable(Record):
    """The verdicts of a run, counted, and compared with how the system dealt with its cases."""

    validator: str
    verdicts: int
    quality: Mapping[str, int]
    answer_present: Share
    words: tuple[WordCount, ...] = ()
    """Cases by the word for their probability, the surest first."""
    matrix: tuple[MatrixCell, ...]
    """Four cells: present and answered, present and abstained, absent and answered, absent and
    abstained."""
    unmatched: int
    """Cases with a verdict whose generation failed or was skipped: they are in no cell."""
