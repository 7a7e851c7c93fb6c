"""Why a case went right or wrong: the stage that lost the answer, as records.

`ragbench.stages.attribution` finds the cause of each case, views and the gate read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.record import Labelled, Record


class Cause(Labelled):
    """Why a case went right or wrong; each case has one. The label is for reports."""

    NOT_IN_CORPUS = "not_in_corpus", "not in the corpus"
    NOT_RETRIEVED = "not_retrieved", "not retrieved"
    PART_MISSING = "part_not_retrieved", "a part was not retrieved"
    """All gold contexts are needed (``needs: all``), and not all of them were retrieved."""
    NOT_SEEN = "not_seen", "not seen in the chunks, by words"
    """Only a reference answer is known, no chunk seems to contain it, and the answer is wrong."""
    DROPPED = "dropped", "retrieved, then dropped"
    """The gold was retrieved, and post-retrieval dropped it."""
    NOT_USED = "not_used", "shown, answered wrongly"
    """The gold was given to generation, and the answer is wrong."""
    DECLINED = "declined", "shown, declined"
    """The gold was given to generation, and the system declined to answer."""
    ANSWERED_WITHOUT = "answered_without", "answered though nothing was there"
    FAILED = "failed", "failed"
    UNKNOWN = "cannot_tell", "unknown"
    """Too little is known of the case."""
    SHOWN = "shown", "shown, answer not checked"
    """The gold was given to generation; there is no answer, or no reference to check it with."""
    RIGHT_WITHOUT = "right_without_evidence", "right without evidence"
    RIGHT = "right", "right"
    """The answer is right; or the question has none, and the system declined."""


LOSSES = frozenset(Cause) - {Cause.UNKNOWN, Cause.SHOWN, Cause.RIGHT_WITHOUT, Cause.RIGHT}
"""The causes of cases that went wrong."""


class Basis(StrEnum):
    """The data by which it was decided whether the gold was there."""

    IDS = "ids"
    """Gold ids, compared with the ids of the chunks or of their documents."""
    TEXTS = "texts"
    """Evidence spans or gold texts, searched for in the chunks."""
    REFERENCE = "reference"
    """Only the reference answer, searched for in the chunks: an estimate."""
    VALIDATOR = "validator"
    """A validator's verdict on the chunks that generation was given: an estimate, with its
    probability."""
    LABEL = "label"
    """The case's own label that it has no answer."""
    NONE = "none"
    """No such data were needed, or there are none."""


ESTIMATES = frozenset({Basis.REFERENCE, Basis.VALIDATOR})
"""The bases that may be wrong for a single case."""


class Answer(StrEnum):
    """How the answer of a case compares with the right one."""

    RIGHT = "right"
    PARTLY = "partly"
    """A judge calls it partly right: neither right nor wrong."""
    WRONG = "wrong"
    DECLINED = "declined"
    UNCHECKED = "unchecked"
    """There is no reference."""
    NONE = "none"
    """Generation was not part of the run, or was not reached."""


class Attribution(Record):
    """The cause of one case, with the facts that it was found by."""

    cause: Cause
    basis: Basis
    answer: Answer
    detail: str
    """The cause in a sentence, with the facts of this case."""
    stage: str | None = None
    """The operator or stage that lost the gold, or failed."""
    rank: int | None = None
    """The best rank of the gold, from 1, in the last list of chunks that contains it."""
    shown: int | None = None
    """Number of gold contexts that generation was given; None when unknown."""
    golds: int | None = None
    """Number of gold contexts of the case."""
    supported: bool | None = None
    """Of a wrong answer: whether a chunk that generation was given, and that is not gold, contains
    it; None when unknown."""
    probability: float | None = None
    """The validator's probability that the chunks contain the answer; None where no verdict was
    used."""
    right: float | None = None
    """Probability that the case is right: 1 or 0 where that is known, else estimated by the words
    of the answer; None where there is nothing to estimate it by."""
    by_words: bool = False
    """Whether it was estimated by the words of the answer."""
    is_long: bool = False
    """Whether its reference states more than one fact: words decide less reliably then."""


class Reliability(Record):
    """How reliable a cause by words is: on labelled cases, the number for which it was right."""

    held: int
    """Labelled cases with this cause by words, for which people agree."""
    of: int
    """Labelled cases with this cause by words."""
    source: str


class RightShare(Record):
    """The share of cases that are right."""

    share: float
    """Its expected value, over the cases that can be judged or estimated."""
    low: float | None
    """Lower end of the 95% interval, which covers the error of the sample and that of the
    probabilities; None where it cannot be estimated."""
    high: float | None
    """Upper end of the same interval."""
    known: int
    """Cases that can be judged or estimated."""
    untold: int
    """Cases that cannot be called right or wrong one by one: the words of their answer are not
    clear, or there is nothing to judge them by."""
    by_words: int
    """Cases whose answer was judged by its words."""
    total: int


class CauseCount(Record):
    """The number of cases with one cause."""

    cause: Cause
    cases: int
    estimated: int = 0
    """Of those, how many were found by an estimate; see `ESTIMATES`."""
    by_words: int = 0
    """Of those, for how many the answer was judged by its words."""
    reliability: Reliability | None = None
    """How often this cause by words is right on labelled sets; None where words judged no case, and
    where it was not measured."""
    stages: tuple[tuple[str, int], ...] = ()
    """The operators or stages that lost the gold, with counts, the most frequent first."""
    examples: tuple[str, ...] = ()


class CauseFlow(Record):
    """The number of cases that had one cause in one run, and another in the second run."""

    first: str
    second: str
    before: Cause
    after: Cause
    cases: int
    examples: tuple[str, ...] = ()


class CorpusGold(Record):
    """The gold of a dataset, searched for in the documents of a corpus."""

    documents: int
    """Number of documents that were searched."""
    absent: Mapping[str, tuple[str, ...]]
    """By case id: the case's gold, of cases for which no document contains any of it."""
