"""Why a case ended as it did: the stage that lost the answer, as records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.record import Labelled, Record


class Cause(Labelled):
    """What became of a case: one of these each."""

    NOT_IN_CORPUS = "not_in_corpus", "not in the corpus"
    NOT_RETRIEVED = "not_retrieved", "not retrieved"
    PART_MISSING = "part_not_retrieved", "a part was not retrieved"
    """All gold contexts are needed (``needs: all``), and not all of them were retrieved."""
    NOT_SEEN = "not_seen", "not seen in the chunks, by words"
    """Only a reference answer is known, and no chunk seems to hold it; the answer is not right."""
    DROPPED = "dropped", "retrieved, then dropped"
    """It was retrieved, and post-retrieval dropped it."""
    NOT_USED = "not_used", "shown, answered wrongly"
    """It was shown to generation, and the answer is wrong."""
    DECLINED = "declined", "shown, declined"
    ANSWERED_WITHOUT = "answered_without", "answered though nothing was there"
    FAILED = "failed", "failed"
    UNKNOWN = "cannot_tell", "unknown"
    """Too little is known of the case."""
    SHOWN = "shown", "shown, answer not checked"
    """It was shown; there is no answer, or no reference to check it with."""
    RIGHT_WITHOUT = "right_without_evidence", "right without evidence"
    RIGHT = "right", "right"
    """The answer is right; or there is none, and the system declined."""


LOSSES = frozenset(Cause) - {Cause.UNKNOWN, Cause.SHOWN, Cause.RIGHT_WITHOUT, Cause.RIGHT}
"""Those of cases that came to no good end."""


class Basis(StrEnum):
    """What shows whether the gold was there."""

    IDS = "ids"
    """Gold ids, compared with the ids of the chunks or of their documents."""
    TEXTS = "texts"
    """Evidence spans or gold texts, looked for in the chunks."""
    REFERENCE = "reference"
    """Only the reference answer, looked for in the chunks: an estimate."""
    VALIDATOR = "validator"
    """A validator's verdict on the shown chunks: an estimate, with its probability."""
    LABEL = "label"
    """The case itself says that there is no answer."""
    NONE = "none"
    """Nothing was needed, or nothing is known."""


ESTIMATES = frozenset({Basis.REFERENCE, Basis.VALIDATOR})
"""Those that may be wrong of a case."""


class Answer(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    DECLINED = "declined"
    UNCHECKED = "unchecked"
    """There is no reference."""
    NONE = "none"
    """Generation was not part of the run, or was not reached."""


class Attribution(Record):
    """The cause of one case, and what it rests on."""

    cause: Cause
    basis: Basis
    answer: Answer
    detail: str
    """The cause in a sentence, with what is particular of this case."""
    stage: str | None = None
    """The operator or stage that lost the gold, or failed."""
    rank: int | None = None
    """The best rank of the gold where it was seen last, from 1."""
    shown: int | None = None
    """How many of the gold contexts were shown; None when unknown."""
    golds: int | None = None
    supported: bool | None = None
    """Of a wrong answer: whether a shown chunk that is not gold holds it; None when unknown."""
    probability: float | None = None
    """The validator's, that the shown chunks hold the answer; None where no verdict was used."""
    right: float | None = None
    """How likely the case ended well: 1 or 0 where that is known, else what words say; None where
    nothing says anything."""
    by_words: bool = False
    """Whether words say so."""
    is_long: bool = False
    """Whether its reference is more than one fact, which words tell less of."""


class Reliability(Record):
    """Of so many labelled cases that were called so by words, so many were."""

    held: int
    of: int
    source: str


class RightShare(Record):
    """The share of cases that ended well."""

    share: float
    """Expected, of the cases of which something is known."""
    low: float | None
    """The interval of 95 % holds the error of the sample and that of the probabilities; None where
    it cannot be estimated."""
    high: float | None
    known: int
    untold: int
    """Cases of which it cannot be told one by one: words are not sure, or nothing is known."""
    by_words: int
    """Cases whose answer words judged."""
    total: int


class CauseCount(Record):
    """How many cases have a cause."""

    cause: Cause
    cases: int
    estimated: int = 0
    """Of those, how many rest on an estimate; see `ESTIMATES`."""
    by_words: int = 0
    """Of those, in how many words judged the answer."""
    reliability: Reliability | None = None
    """How often that held on labelled sets; None where it is not needed, or was not measured."""
    stages: tuple[tuple[str, int], ...] = ()
    """By the operator or stage that lost the gold, most frequent first."""
    examples: tuple[str, ...] = ()


class CauseFlow(Record):
    """How many cases went from one cause to another between two runs."""

    first: str
    second: str
    before: Cause
    after: Cause
    cases: int
    examples: tuple[str, ...] = ()


class CorpusGold(Record):
    """Which gold the searched documents hold."""

    documents: int
    absent: Mapping[str, tuple[str, ...]]
    """By case id: the gold that no document holds, where it is all of the case's gold."""
