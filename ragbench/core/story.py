"""The story of one case, from its question to its answer, as records for the views.

`ragbench.stages.story` tells it of a stored run; ``ragbench explain`` and the pages show it.
"""

from __future__ import annotations

from typing import Any

from ragbench.core.case import Turn
from ragbench.core.outcome import Known, Status
from ragbench.core.record import Record


class Mark(Record):
    """A part of a chunk's text that views highlight: ``text[start:end]``."""

    start: int
    end: int
    kind: str
    """``"gold"``: an evidence span of the case; ``"evidence"``: a validator's quote; ``"quote"``: a
    judge's."""


class ChunkStory(Record):
    """One chunk on its way from retrieval to generation."""

    id: str
    text: str
    retrieved: int | None
    """Its rank in retrieval, from 1; None when an operator added it."""
    shown: int | None
    """Its rank among the chunks that generation was given; None when it was dropped."""
    score: float | None
    """Its score in retrieval; of a chunk that an operator added, that of the operator."""
    is_gold: bool
    """Whether it is, or contains, a gold context."""
    moves: tuple[str, ...] = ()
    """One per operator that changed it or its rank: ``"top_k: dropped at 6"``."""
    marks: tuple[Mark, ...] = ()
    """Sorted by start; they may overlap."""
    address: str | None = None
    """The address of its source on the web; None where its metadata have none."""


class Hop(Record):
    """The outcome of one stage for the case, without its value."""

    stage: str
    status: Status
    known: Known
    """Asked, reused or recorded."""
    seconds: float | None
    """None when unknown."""
    sharing: int = 1
    """Cases that shared the call; above 1 `seconds` is their mean."""
    reason: str | None = None
    """Why it was skipped, or the failure."""


class JudgedClaim(Record):
    """A statement of an answer, as a judge extracted it, with its verdict on it."""

    text: str
    verdict: str
    """Whether the contexts support it: ``"supported"``, ``"partially supported"`` or ``"not
    supported"``; ``"unproved"`` where no quote proves the verdict."""
    reason: str
    quotes: tuple[tuple[str, str | None], ...] = ()
    """The judge's quotes, each with the id of the chunk that contains it; None: no chunk does."""


class JudgedSentence(Record):
    """A sentence of an answer with the claims that a judge found in it."""

    text: str | None
    """As it is in the answer; None for claims that belong to no single sentence."""
    verdict: str
    """The verdict on its claims if it is the same for all; else ``"partially supported"``."""
    claims: tuple[JudgedClaim, ...]


class JudgedAnswer(Record):
    """The verdicts of one judge on the claims of an answer."""

    metric: str
    judge: str
    """Empty where there is a single judge."""
    sentences: tuple[JudgedSentence, ...]
    """The sentences with a claim, in the answer's order; at the end the claims that belong to no
    single sentence."""


class AnswerNote(Record):
    """A problem of a sentence of an answer that a metric detects without a judge."""

    sentence: str
    problem: str


class ExpectationStory(Record):
    """An expectation of the case, and whether the answer fulfils it."""

    text: str
    """The expectation in words."""
    holds: bool | None
    """None where that is unknown: without an answer, or without ids of the retrieved chunks."""
    reason: str = ""
    """Of an expected source: whether it was retrieved or cited."""

    @property
    def sentence(self) -> str:
        """The expectation in words; of a source, with whether it was retrieved or cited.

        Reports show it as a line of the case.
        """
        if self.reason:
            return f"{self.text} ({self.reason})"
        return self.text


class SearchStory(Record):
    """One of several searches of a RAG for one answer."""

    query: str | None
    ids: tuple[str, ...]
    """Of the chunks that it returned."""
    new: int | None
    """Number of chunks that no earlier search returned; None where its chunks are unknown."""
    has_gold: bool
    """Whether it is the first search that returned a relevant chunk."""
    seconds: float | None = None


class CaseStory(Record):
    """One case, from its question to its answer."""

    sent: tuple[str, ...]
    """The texts that were searched for, where these are not the question itself."""
    hops: tuple[Hop, ...]
    chunks: tuple[ChunkStory, ...]
    """As retrieved, best first; then those that operators added."""
    operators: tuple[str, ...]
    """The operators between retrieval and generation, in order."""
    written: str | None
    """The text that a format operator wrote for generation; None without such an operator."""
    gold_ids: tuple[str, ...]
    gold_texts: tuple[str, ...]
    """Evidence spans, else reference contexts, as the case has them."""
    references: tuple[str, ...]
    """Every right answer, the main one first."""
    candidates: tuple[str, ...] = ()
    supported: tuple[JudgedAnswer, ...] = ()
    """The verdicts on the answer's claims, one record per judge and metric; of several repetitions
    the first. Empty where no judge judged claims."""
    notes: tuple[AnswerNote, ...] = ()
    """Numbers of the answer that are in no chunk, and citations without a chunk that proves them;
    empty where no such metric was measured."""
    expectations: tuple[ExpectationStory, ...] = ()
    """The expectations of the case; empty where the run does not measure them."""
    history: tuple[Turn, ...] = ()
    """The messages before the question."""
    searches: tuple[SearchStory, ...] = ()
    """Empty unless the retrieval records several searches."""
    confidence: float | None = None
    """The system's confidence in its answer, in [0, 1]; None when it gave none."""
    metadata: tuple[tuple[str, Any], ...] = ()
    """Further fields of the case in its source, by name."""
