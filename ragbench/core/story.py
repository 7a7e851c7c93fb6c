"""What happened to one case at every hop, as records for whoever shows it."""

from __future__ import annotations

from typing import Any

from ragbench.core.case import Turn
from ragbench.core.outcome import Known, Status
from ragbench.core.record import Record


class Mark(Record):
    """A stretch of a chunk's text that somebody points at: ``text[start:end]``."""

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
    """Its rank in retrieval, from 1; None when it came in later."""
    shown: int | None
    """Its rank in what generation was given; None when it was dropped."""
    score: float | None
    """Retrieval's; an operator's where it came in later."""
    is_gold: bool
    """Whether it is, or holds, a gold context."""
    moves: tuple[str, ...] = ()
    """What each operator did to it, where it did something: ``"top_k: dropped at 6"``."""
    marks: tuple[Mark, ...] = ()
    """By start; they may overlap."""
    address: str | None = None
    """Of its source on the web, where its metadata names one."""


class Hop(Record):
    """How one stage ended for the case."""

    stage: str
    status: Status
    known: Known
    """Asked, reused or recorded."""
    seconds: float | None
    """None when unknown."""
    sharing: int = 1
    """Cases that shared the call; above 1 `seconds` is their mean."""
    reason: str | None = None
    """Why it was skipped, or what failed."""


class JudgedClaim(Record):
    """Something that an answer says, as a judge took it, and whether the contexts support it."""

    text: str
    verdict: str
    """``"supported"``, ``"partially supported"`` or ``"not supported"``; ``"unproved"`` where no
    quote proves what the judge says."""
    reason: str
    quotes: tuple[tuple[str, str | None], ...] = ()
    """What the judge quotes, each with the id of the chunk that holds it; None: no chunk does."""


class JudgedSentence(Record):
    """A sentence of an answer with the claims that a judge found in it."""

    text: str | None
    """As it stands in the answer; None for claims that are of no one sentence."""
    verdict: str
    """That of its claims where they agree; else ``"partially supported"``."""
    claims: tuple[JudgedClaim, ...]


class JudgedAnswer(Record):
    """An answer as one judge found it supported."""

    metric: str
    judge: str
    """Empty where there is one judge alone."""
    sentences: tuple[JudgedSentence, ...]
    """In the answer's order, those with a claim; claims of no one sentence at the end."""


class AnswerNote(Record):
    """What is wrong with a sentence of an answer, seen without a judge."""

    sentence: str
    problem: str


class ExpectationStory(Record):
    """Something that the case expects, and whether it holds."""

    text: str
    """The expectation in words."""
    holds: bool | None
    """None where that cannot be known: without an answer, or without ids of what was retrieved."""
    reason: str = ""
    """Of a source: whether it was retrieved or cited."""

    @property
    def sentence(self) -> str:
        """The expectation in words, with the reason in brackets."""
        return f"{self.text} ({self.reason})" if self.reason else self.text


class SearchStory(Record):
    """One of several searches for an answer."""

    query: str | None
    ids: tuple[str, ...]
    """Of the chunks that it found."""
    new: int | None
    """How many of those no search before it found; None where it does not say what it found."""
    has_gold: bool
    """Whether it is the first that found a relevant chunk."""
    seconds: float | None = None


class CaseStory(Record):
    """One case, from its question to its answer."""

    sent: tuple[str, ...]
    """What was searched for where that is not the question itself."""
    hops: tuple[Hop, ...]
    chunks: tuple[ChunkStory, ...]
    """As retrieved, best first; then those that came in later."""
    operators: tuple[str, ...]
    """What stood between retrieval and generation, in order."""
    written: str | None
    """What a format operator wrote for generation in place of the chunks; None without one."""
    gold_ids: tuple[str, ...]
    gold_texts: tuple[str, ...]
    """Evidence spans, else reference contexts, as they stand in the case."""
    references: tuple[str, ...]
    """Every right answer, the main one first."""
    candidates: tuple[str, ...] = ()
    supported: tuple[JudgedAnswer, ...] = ()
    """What judges said of the answer's claims, a judge and metric each: of several repetitions the
    first; empty where none judged them."""
    notes: tuple[AnswerNote, ...] = ()
    """Numbers of the answer that stand in no chunk, and citations that point nowhere or elsewhere;
    empty where no such metric was measured."""
    expectations: tuple[ExpectationStory, ...] = ()
    """What the case expects; empty where the run does not measure it."""
    history: tuple[Turn, ...] = ()
    """What was said before the question."""
    searches: tuple[SearchStory, ...] = ()
    """Where retrieval says that it searched several times."""
    confidence: float | None = None
    """How sure the system was of its answer, in [0, 1]; None when it did not say."""
    metadata: tuple[tuple[str, Any], ...] = ()
    """What the source said of the case besides, by name."""
