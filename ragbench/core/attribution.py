"""Why a case went right or wrong: the stage that lost the answer, as records.

`ragbench.stages.attribution` finds the cause of each case, views and the gate read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from ragbench.core.record import Record


class Cause(StrEnum):
    """Why a case went right or wrong; each case has one.

    This is the one table of causes: tables, pages, files, options and docs take name, meaning and
    remedy from here. The label is the name in words.
    """

    label: str
    """The name in words."""
    meaning: str
    """What became of the case, in a sentence."""
    remedy: str
    """What to change, in a sentence; empty where nothing is wrong."""

    NOT_IN_CORPUS = (
        "not_in_corpus",
        "None of your documents holds the answer.",
        "Add documents that hold it, or mend your labels of these cases.",
    )
    NOT_RETRIEVED = (
        "not_retrieved",
        "Search did not return the relevant text.",
        "Change your chunks, embedder, query or top_k: ragbench why tries them.",
    )
    PART_NOT_RETRIEVED = (
        "part_not_retrieved",
        "The case needs several texts (needs: all), and search did not return all of them.",
        "Raise top_k, or search once for each part of the question.",
    )
    NOT_SEEN = (
        "not_seen",
        "Only a reference answer is known, no chunk seems to hold it, and the answer is not right.",
        "Add relevant documents to these cases, to separate search from generation.",
    )
    DROPPED = (
        "dropped",
        "Search returned the relevant text, and an operator dropped it.",
        "Change the limit or threshold of your operator.",
    )
    WRONG_PASSAGE = (
        "wrong_passage",
        "Search returned the right document, and the answer is not in the chunks of it.",
        "Change your chunks: another size, an overlap, no chunk that is a heading alone.",
    )
    NOT_USED = (
        "not_used",
        "Generation was given the relevant text, and answered wrongly.",
        "Change your prompt or model, or give it fewer contexts.",
    )
    PARTLY_RIGHT = (
        "partly_right",
        "People or a judge call the answer partly right, and no earlier stage lost the text.",
        "Ask for a complete answer in your prompt, or give it more contexts.",
    )
    DECLINED = (
        "declined",
        "Generation was given the relevant text, and declined to answer.",
        "Change your prompt: it declines too soon.",
    )
    ANSWERED_WITHOUT_EVIDENCE = (
        "answered_without_evidence",
        "Your documents hold no answer, and the system answered.",
        "Ask it in your prompt to decline if no context holds the answer.",
    )
    UNEXPLAINED = (
        "unexplained",
        "The answer is wrong, and the stage that lost it is not known.",
        "Record the retrieved chunks, or add relevant documents to these cases.",
    )
    FAILED = (
        "failed",
        "A stage raised an error.",
        "Mend the error: ragbench report RUN shows it.",
    )
    UNCHECKED = (
        "unchecked",
        "Too little is known of the case.",
        "Add a reference answer or relevant documents to these cases.",
    )
    SHOWN = (
        "shown",
        "Generation was given the relevant text; its answer was not checked, or there is none.",
        "Add a reference answer, or a judge: --judge MODEL.",
    )
    RIGHT_WITHOUT_EVIDENCE = (
        "right_without_evidence",
        "The answer is right, and generation was not given the relevant text.",
        "Check the relevant documents of these cases, or whether the model knew the answer.",
    )
    RIGHT = (
        "right",
        "The answer is right; or the case has none, and the system declined.",
        "",
    )

    def __new__(cls, name: str, meaning: str = "", remedy: str = "") -> Self:
        """Makes a cause that is equal to its name, such as ``"not_retrieved"``.

        Files and options hold that name: a renamed cause needs its old name in `_FORMER_NAMES`. The
        label is the name with spaces in place of underscores.
        """
        member = str.__new__(cls, name)
        member._value_ = name
        member.label = name.replace("_", " ")
        member.meaning = meaning
        member.remedy = remedy
        return member

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        """The cause of a label such as "not retrieved", or of a name from an earlier release.

        Python calls this for a text that is no cause's value; None makes it raise ValueError. By
        this users may write a label in an option, and runs of earlier releases stay readable.
        """
        text = str(value).strip().casefold()
        # A label is the name with spaces in place of underscores.
        name = _FORMER_NAMES.get(text, text.replace(" ", "_"))
        for cause in cls:
            if cause.value == name:
                return cause
        return None


_FORMER_NAMES = {
    "a part was not retrieved": "part_not_retrieved",
    "answered in part": "partly_right",
    "answered though nothing was there": "answered_without_evidence",
    "answered_without": "answered_without_evidence",
    "cannot_tell": "unchecked",
    "not in the corpus": "not_in_corpus",
    "not seen in the chunks, by words": "not_seen",
    "retrieved, then dropped": "dropped",
    "shown, answer not checked": "shown",
    "shown, answered wrongly": "not_used",
    "shown, declined": "declined",
    "unknown": "unchecked",
}
"""Names and labels of causes before 0.1.0, which runs of that time and scripts have: they are
understood for one more release."""


LOSSES = frozenset(Cause) - {
    Cause.UNCHECKED,
    Cause.SHOWN,
    Cause.RIGHT_WITHOUT_EVIDENCE,
    Cause.RIGHT,
}
"""The causes of cases that went wrong."""


class Basis(StrEnum):
    """The data by which it was decided whether the gold was there."""

    IDS = "ids"
    """Gold ids, compared with the ids of the chunks or of their documents."""
    TEXTS = "texts"
    """Evidence spans or gold texts, searched for in the chunks."""
    REFERENCE = "reference"
    """The reference answer, searched for in the chunks: an estimate."""
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
    WRONG = "wrong"
    DECLINED = "declined"
    PARTLY = "partly"
    """A judge or people call it partly right."""
    UNCHECKED = "unchecked"
    """There is no reference, or the words of the answer do not decide."""
    NONE = "none"
    """Generation was not part of the run, or was not reached."""


class Decider(StrEnum):
    """What decided how an answer compares with the right one.

    People take precedence over a judge, and a judge over words.
    """

    LABEL = "label"
    """A label of people on this very answer."""
    JUDGE = "judge"
    """A language model, by a metric of the run."""
    WORDS = "words"
    """The words of answer and reference, by `answer_correct`."""
    DATA = "data"
    """Nothing had to be judged: the system declined or failed, or the case has no answer."""
    NONE = "none"
    """There is no answer, or nothing to compare it with."""


JUDGING = (Decider.LABEL, Decider.JUDGE, Decider.WORDS)
"""What decides about an answer, the one that takes precedence first."""


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
    decided_by: Decider = Decider.NONE
    """What decided ``answer``."""
    reason: str = ""
    """Why ``answer`` is so: what a judge says of it, or what was compared. Empty where people
    decided, and where only the words were weighed."""

    @property
    def explanation(self) -> str:
        """The case's cause in a sentence, and why its answer is right or wrong where that is known.

        With a reason, the decider (a person, a judge or words) is named before it.
        """
        if not self.reason:
            return self.detail
        return f"{self.detail} By {self.decided_by.value}: {self.reason}"


class AnswerCounts(Record):
    """The cases of a run by how their answers compare with the right ones.

    They are counts of this run's answers. The share of right answers that people would find is
    another question: words alone do not tell it (docs/intervals.md).
    """

    cases: int
    right: int = 0
    """Answers that are right."""
    partly: int = 0
    """Answers that a judge or people call partly right."""
    wrong: int = 0
    """Answers that are wrong."""
    declined: int = 0
    """Cases that the system declined to answer, though they may have an answer."""
    declined_rightly: int = 0
    """Cases without an answer that the system declined."""
    answered_without_evidence: int = 0
    """Cases without an answer that the system answered."""
    undecided: int = 0
    """Answers whose words do not decide."""
    unchecked: int = 0
    """Answers with nothing to compare them with."""
    no_answer: int = 0
    """Cases whose answer is not part of the run."""
    failed: int = 0
    """Cases in which a stage failed."""
    by_label: int = 0
    """Answers that labels of people decided."""
    by_judge: int = 0
    """Answers that a judge decided."""
    by_words: int = 0
    """Answers that were compared by their words, those that words do not decide included."""

    @property
    def answers(self) -> int:
        """The number of answers that people, a judge or words compared with the right answer.

        If it equals one of the three, that one decided all, and a report names it once.
        """
        return self.by_label + self.by_judge + self.by_words


class CauseCount(Record):
    """The number of cases with one cause."""

    cause: Cause
    cases: int
    estimated: int = 0
    """Of those, how many were found by an estimate; see `ESTIMATES`."""
    deciders: tuple[tuple[Decider, int], ...] = ()
    """Of those, for how many people, a judge and words decided about the answer; in this order."""
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
    """The ids of its first cases."""
    questions: tuple[str, ...] = ()
    """The questions of these cases, in the same order; empty where a run holds no texts."""


class CorpusGold(Record):
    """The gold of a dataset, searched for in the documents of a corpus."""

    documents: int
    """Number of documents that were searched."""
    absent: Mapping[str, tuple[str, ...]]
    """By case id: the case's gold, of cases for which no document contains any of it."""
