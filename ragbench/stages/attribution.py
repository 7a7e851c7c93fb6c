"""Which stage lost the answer: one cause for each case, from its stored outcomes alone.

Nothing is asked and nothing is drawn at random: the same outcomes have the same cause. Where no
gold is known, the reference answer is looked for in the chunks, then a validator's verdict is
taken; both are marked as estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.core.attribution import Answer, Attribution, Basis, Cause, CorpusGold, Decider
from ragbench.core.biography import POST_RETRIEVE, Biography
from ragbench.core.case import Case
from ragbench.core.matched import GoldCause, Matched, MatchedBy
from ragbench.core.outcome import Cell
from ragbench.core.record import replace
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.core.validation import Verdict
from ragbench.metrics.answer import declined, holds_answer, is_telling
from ragbench.metrics.correct import sure_verdict, verdict
from ragbench.metrics.matching import Matching, match, normalised
from ragbench.metrics.passage import is_heading, lacks_answer, states_any
from ragbench.metrics.plan import Compared
from ragbench.safe_text import counted
from ragbench.stages.biography import biography_of

_PARTLY = 0.5
"""The value of an answer that is partly right: above it, people or a judge call it right."""
_NO_GOLD: frozenset[int] = frozenset()
"""The gold of a chunk that holds none, as most do."""


# --- where the gold stood


def matches_of(trace: Trace, matching: Matching) -> dict[str, Compared]:
    """A case's chunks compared with its gold (relevant contexts), by the stage that gave them.

    The keys are ``"retrieve"`` and, where the run has that stage, ``"post_retrieve"``: two
    comparisons show whether search missed the gold or an operator dropped it. Metrics of the
    retriever read the last entry, so the order of the keys counts.
    """
    outcomes = {"retrieve": trace.retrieval}
    if trace.post_retrieval is not None:
        outcomes[POST_RETRIEVE] = trace.post_retrieval
    matches: dict[str, Compared] = {}
    # A stage that failed or was not run keeps its key with None: a missing key means "no such
    # stage".
    for stage, outcome in outcomes.items():
        if outcome.value is None:
            matches[stage] = None
        else:
            matches[stage] = match(trace.case, outcome.value, matching)
    return matches


class FoundGold(NamedTuple):
    """Where the gold stood, from retrieval to what was shown."""

    basis: Basis
    total: int
    """How many gold contexts there are; alternative answers are one."""
    retrieved: Sequence[frozenset[int]]
    """Which of them each chunk holds, as positions, in the chunks' order."""
    shown: Sequence[frozenset[int]]
    """The same of the chunks that generation was given."""
    is_by_document: bool = False
    """Whether the shown gold is known by its document alone, of which a chunk is a part."""

    @classmethod
    def of(cls, trace: Trace, matches: Mapping[str, Compared]) -> FoundGold | None:
        """Follows a case's gold (what holds its answer) from retrieval to the shown chunks.

        The gold is the case's labelled contexts or, without labels that count, the words of its
        reference answers. None where a case has neither: its cause then rests on a validator or on
        the answer alone.
        """
        before = matches.get("retrieve")
        after = before
        if trace.post_retrieval is not None:
            after = matches.get(POST_RETRIEVE)
        if isinstance(after, Matched):
            total = sum(grade > 0 for grade in after.grades)
            # Without a grade above 0 the labels name no gold: the reference's words are followed
            # below.
            if total:
                # Named by how the shown chunks were matched: what was shown decides the cause.
                basis = Basis.TEXTS
                if after.is_by_id:
                    basis = Basis.IDS
                retrieved: list[frozenset[int]] = []
                if isinstance(before, Matched):
                    retrieved = _gold_by_chunk(before)
                shown = retrieved
                if after is not before:
                    shown = _gold_by_chunk(after)
                # The trace is handed over for the ids of its shown chunks, which `Matched` does not
                # hold.
                return cls(basis, total, retrieved, shown, _is_gold_by_document(trace, after))
        return cls._by_reference(trace)

    @classmethod
    def _by_reference(cls, trace: Trace) -> FoundGold | None:
        """Follows the words of the reference answers through the chunks of an unlabelled case.

        So the stage that lost the answer can be named even where nobody labelled the relevant
        chunks, as an estimate. None where no reference is telling ("yes" may stand in any chunk by
        chance), or where the chunks are ids without texts.
        """
        texts = [normalised(reference) for reference in trace.case.references]
        answers = tuple(dict.fromkeys(text for text in texts if is_telling(text)))
        context = trace.context.value
        # No result at all goes on: then `shown` is empty, and the gold counts as not found.
        if not answers or (context is not None and context.is_ids_alone):
            return None
        shown = _gold_by_answer(context, answers)
        # Without post-retrieval both are the same object: its texts are long, and compared once.
        if trace.retrieval.value is context:
            retrieved = shown
        else:
            retrieved = _gold_by_answer(trace.retrieval.value, answers)
        return cls(Basis.REFERENCE, 1, retrieved, shown)


def _gold_by_chunk(matched: Matched) -> list[frozenset[int]]:
    """For each chunk, in order, the positions of the gold contexts that the chunk holds.

    Attribution reads from these sets at which rank the gold was, and which of it was shown. A
    context that the case grades 0 is judged not relevant, and is no gold.
    """
    # All positions share one empty set: `|=` makes a new frozenset for a chunk and changes no
    # other.
    chunks = [_NO_GOLD] * matched.chunks
    for chunk_match in matched.matches:
        if matched.grades[chunk_match.gold] > 0:
            chunks[chunk_match.rank - 1] |= {chunk_match.gold}
    return chunks


def _is_gold_by_document(trace: Trace, matched: Matched) -> bool:
    """Whether the shown gold is known by document ids alone, not by the chunk with the answer.

    A document may be shown by a chunk that lacks the answer: only then is it worth a look at the
    text of the chunks. An id that several chunks of a retrieval share is taken as their document's.
    """
    ids: Sequence[str | None] = ()
    if trace.context.value is not None and trace.context.value.context_ids is not None:
        ids = trace.context.value.context_ids
    for chunk_match in matched.matches:
        if matched.grades[chunk_match.gold] <= 0 or chunk_match.by is MatchedBy.DOCUMENT:
            continue
        # Matched by its text, or by an id that cannot be counted: the chunk itself is the gold.
        if chunk_match.by is not MatchedBy.ID or not ids:
            return False
        if ids.count(ids[chunk_match.rank - 1]) == 1:
            return False
    # Without any match no gold is shown, and there is no passage to look at.
    return bool(matched.matches)


def _gold_by_answer(
    result: RetrievalResult[Any] | None, answers: Sequence[str]
) -> list[frozenset[int]]:
    """For each chunk the gold that it holds, where no gold is known but reference answers are.

    A chunk with the words of an answer counts as gold context 0, so that attribution follows such a
    chunk like any labelled gold. The answers mean the same in other words: there is one gold
    context.
    """
    if result is None:
        return []
    chunks: list[frozenset[int]] = []
    for context in result.contexts:
        text = normalised(context)
        if any(holds_answer(text, answer) for answer in answers):
            chunks.append(frozenset((0,)))
        else:
            chunks.append(_NO_GOLD)
    return chunks


# --- what the answer is


class _CheckedAnswer(NamedTuple):
    """How an answer compares with the right one, and what decided it."""

    answer: Answer
    """The verdict."""
    decided_by: Decider
    reason: str = ""
    """Why, in the judge's words or by the words compared; empty otherwise."""


def _checked_answer(
    trace: Trace, label: float | None, correctness: Cell | None, judge_reason: str
) -> _CheckedAnswer:
    """How an answer compares with the right one: by people, or else a judge, or else by its words.

    The surest source decides, and is named beside the verdict, so that a reader of the cause sees
    how far to trust it. An answer that declines is found by its text before a judge is heard.
    """
    outcome = trace.generation
    if outcome.value is None:
        return _CheckedAnswer(Answer.NONE, Decider.NONE)
    has_declined = declined(outcome)
    if label is not None:
        answer = _answer_by_value(label)
        if answer is Answer.WRONG and has_declined:
            answer = Answer.DECLINED  # people say that there was something to answer
        return _CheckedAnswer(answer, Decider.LABEL)
    if has_declined:
        return _CheckedAnswer(Answer.DECLINED, Decider.DATA)
    if correctness is not None and correctness.value is not None:
        return _CheckedAnswer(_answer_by_value(correctness.value), Decider.JUDGE, judge_reason)
    references = trace.case.references
    if not references:
        return _CheckedAnswer(Answer.UNCHECKED, Decider.NONE)
    by_words = verdict(trace.case.query, outcome.value.response, references)
    answer = _ANSWER_BY_WORDS[sure_verdict(by_words.probability)]
    return _CheckedAnswer(answer, Decider.WORDS, by_words.reason)


def _answer_by_value(value: float) -> Answer:
    """The verdict that a score of an answer, from 0 to 1 by people or a judge, comes to.

    Exactly one half is partly right; the cause of a case needs such a word, not a number.
    """
    if value == _PARTLY:
        return Answer.PARTLY
    if value > _PARTLY:
        return Answer.RIGHT
    return Answer.WRONG


_ANSWER_BY_WORDS = {True: Answer.RIGHT, False: Answer.WRONG, None: Answer.UNCHECKED}
"""By whether words agree with the reference for sure, contradict it for sure, or neither."""


class _AnswerMeaning(NamedTuple):
    """What an answer says of a case: a sentence, and the cause by where the gold was."""

    sentence: str
    gold_shown: Cause
    """The cause where the gold was shown."""
    gold_absent: Cause
    """A validator says that no shown chunk holds it."""
    gold_unseen: Cause
    """No shown chunk holds the words of the reference: others may say the same."""


_MEANINGS = {
    Answer.RIGHT: _AnswerMeaning(
        "the answer is right",
        gold_shown=Cause.RIGHT,
        gold_absent=Cause.RIGHT_WITHOUT_EVIDENCE,
        gold_unseen=Cause.RIGHT,
    ),
    Answer.WRONG: _AnswerMeaning(
        "the answer is wrong",
        gold_shown=Cause.NOT_USED,
        gold_absent=Cause.ANSWERED_WITHOUT_EVIDENCE,
        gold_unseen=Cause.NOT_SEEN,
    ),
    Answer.PARTLY: _AnswerMeaning(
        "the answer is partly right",
        gold_shown=Cause.PARTLY_RIGHT,
        gold_absent=Cause.PARTLY_RIGHT,
        gold_unseen=Cause.PARTLY_RIGHT,
    ),
    Answer.DECLINED: _AnswerMeaning(
        "the system declined",
        gold_shown=Cause.DECLINED,
        gold_absent=Cause.UNCHECKED,
        gold_unseen=Cause.NOT_SEEN,
    ),
    Answer.UNCHECKED: _AnswerMeaning(
        "the answer cannot be checked by words",
        gold_shown=Cause.SHOWN,
        gold_absent=Cause.ANSWERED_WITHOUT_EVIDENCE,
        gold_unseen=Cause.UNCHECKED,
    ),
    Answer.NONE: _AnswerMeaning(
        "there is no answer to check",
        gold_shown=Cause.SHOWN,
        gold_absent=Cause.UNCHECKED,
        gold_unseen=Cause.UNCHECKED,
    ),
}


# --- the cause


def attribute(
    trace: Trace,
    *,
    matches: Mapping[str, Compared] | None = None,
    biography: Biography | None = None,
    corpus: CorpusGold | None = None,
    label: float | None = None,
    correctness: Cell | None = None,
    judge_reason: str = "",
) -> Attribution:
    """The cause of a case: why it went right or wrong, and the stage that lost the answer.

    What is sure comes first: a stage that failed, a label that there is no answer, gold contexts.
    Then the estimates: the words of the reference in the chunks, and a validator's verdict.

    Args:
        matches: the chunks compared with the gold, by stage, as `matches_of` gives them; None:
            they are compared here.
        biography: what post-retrieval did to the chunks, where one ran.
        corpus: the gold that no document holds, where the corpus was searched for it.
        label: people's value of the answer, from 0 (wrong) to 1 (right).
        correctness: a judge's value of the answer, on the same scale. Without a value of either,
            the words of response and reference decide.
        judge_reason: the judge's reason, in its own words.
    """
    checked = _checked_answer(trace, label, correctness, judge_reason)
    attribution = _attribution(trace, checked, matches, biography, corpus)
    if checked.reason:
        return replace(attribution, reason=checked.reason)
    return attribution


def _attribution(
    trace: Trace,
    checked: _CheckedAnswer,
    matches: Mapping[str, Compared] | None,
    biography: Biography | None,
    corpus: CorpusGold | None,
) -> Attribution:
    """The cause of a case whose answer is compared already, from the surest basis to the least.

    The order of the steps decides the cause where several apply: a failed stage, a case without an
    answer, a case that needs no retrieval, gold, a validator's verdict, and last the answer alone.
    """
    by_failure = _attribution_by_failure(trace, checked.answer)
    if by_failure is not None:
        return by_failure
    case = trace.case
    if is_unanswerable(case):
        return _attribution_of_unanswerable(checked)
    # People looked for relevant chunks and labelled none: retrieval has no part in the answer.
    judgements = case.judgements
    if judgements is not None and not any(judgements.values()):
        return _attribution_without_retrieval(checked)
    if matches is None:
        # The same matching for both: a cause takes ranks from the one and from the other.
        matches = matches_of(trace, Matching.AUTO)
        biography = biography or biography_of(trace, Matching.AUTO)
    by_gold: Attribution | None = None
    if trace.context.value is not None:
        gold = FoundGold.of(trace, matches)
        if gold is not None:
            by_gold = _attribution_by_gold(trace, gold, checked, biography, corpus)
    # A labelled basis is final even where no gold was shown; the words of a reference only if
    # found.
    if by_gold is not None and (by_gold.basis is not Basis.REFERENCE or by_gold.shown):
        return by_gold
    # If no chunk holds the reference's words, the answer may be there in other words: a validator
    # that sees an answer in the chunks knows better.
    evidence = None if trace.validation is None else trace.validation.value
    if evidence is not None and (by_gold is None or evidence.answer_present):
        return _attribution_by_verdict(evidence, checked)
    if by_gold is not None:
        return by_gold
    return _attribution_without_basis(trace, checked)


def _attribution_by_failure(trace: Trace, answer: Answer) -> Attribution | None:
    """The cause of a case in which a stage failed; None where no stage failed.

    A failure comes before all other causes: output that a stage never gave cannot be judged. Stages
    that only look on (`locate`, `validate`) have no part in the answer and do not count.
    """
    for stage, outcome in trace.stages:
        # Neither of the two has a part in the answer.
        if outcome.failure is not None and stage not in ("locate", "validate"):
            return Attribution(
                cause=Cause.FAILED,
                basis=Basis.NONE,
                answer=answer,
                detail=f"{stage} failed: {outcome.failure.type}: {outcome.failure.message}",
                stage=stage,
                decided_by=Decider.DATA,
            )
    return None


def is_unanswerable(case: Case) -> bool:
    """Whether a case is known to have no answer: by its own label, or by an empty list of gold.

    In such a case the right answer is to decline, and no stage can have lost gold. An empty list of
    gold counts only where there is no reference either: an answer may need no document at all.
    """
    if case.answerable is not None:
        return not case.answerable
    has_empty_gold = case.reference_context_ids == () or case.grades == {}
    return has_empty_gold and not case.references


def _attribution_of_unanswerable(checked: _CheckedAnswer) -> Attribution:
    """The cause of a case that has no answer: to decline is right, to answer is a fault.

    The fault is generation's. People's label comes before that: they may call an answer right.
    """
    is_by_label = checked.decided_by is Decider.LABEL
    if is_by_label and checked.answer is Answer.RIGHT:
        cause = Cause.RIGHT
        detail = "The case has no answer, and people call this one right."
    elif checked.answer is Answer.DECLINED:
        cause = Cause.RIGHT
        detail = "There is no answer, and the system declined."
    elif checked.answer is Answer.NONE:
        cause = Cause.UNCHECKED
        detail = "There is no answer, and generation was not run."
    else:
        cause = Cause.ANSWERED_WITHOUT_EVIDENCE
        detail = "There is no answer, and the system answered."
    stage: str | None = None
    if cause is Cause.ANSWERED_WITHOUT_EVIDENCE:
        stage = "generate"
    # The dataset itself declares that there is no answer: no judge is needed for that.
    decided_by = Decider.DATA
    if is_by_label:
        decided_by = Decider.LABEL
    return Attribution(
        cause=cause,
        basis=Basis.LABEL,
        answer=checked.answer,
        detail=detail,
        stage=stage,
        decided_by=decided_by,
    )


def _attribution_without_retrieval(checked: _CheckedAnswer) -> Attribution:
    """The cause of a case whose judged contexts are all irrelevant, but which has an answer.

    In a turn of a conversation that gives thanks, for example, retrieval has no part in the answer:
    only generation can be at fault.
    """
    meaning = _MEANINGS[checked.answer]
    cause = meaning.gold_shown
    if checked.answer is Answer.UNCHECKED:
        cause = Cause.UNCHECKED
    return Attribution(
        cause=cause,
        basis=Basis.NONE,
        detail=f"Nothing had to be retrieved, and {meaning.sentence}.",
        stage=_stage_at_fault(cause),
        answer=checked.answer,
        decided_by=checked.decided_by,
    )


def _attribution_without_basis(trace: Trace, checked: _CheckedAnswer) -> Attribution:
    """The cause of a case without gold, without a reference in the chunks and without a verdict.

    The answer alone may still be compared, as with labels of people: then the case is right, partly
    right, or wrong for an unknown reason. Any other case stays unchecked.
    """
    # Generation's own reason is more exact than that no gold is known.
    if trace.context.value is None and trace.generation.reason:
        detail = f"{trace.generation.reason}."
    else:
        detail = f"{_MEANINGS[checked.answer].sentence}, and no gold is known."
    return Attribution(
        cause=_CAUSES_WITHOUT_BASIS.get(checked.answer, Cause.UNCHECKED),
        basis=Basis.NONE,
        detail=f"{detail[0].upper()}{detail[1:]}",
        answer=checked.answer,
        decided_by=checked.decided_by,
    )


_CAUSES_WITHOUT_BASIS = {
    Answer.RIGHT: Cause.RIGHT,
    Answer.PARTLY: Cause.PARTLY_RIGHT,
    Answer.WRONG: Cause.UNEXPLAINED,
}
"""Causes that are known from the answer alone; a case with any other answer is unchecked."""


def _attribution_by_verdict(verdict: Verdict, checked: _CheckedAnswer) -> Attribution:
    """The cause of a case by a validator's verdict on whether its shown chunks hold the answer.

    An estimate, for cases without gold and without a reference in the chunks, of which nothing
    surer is known.
    """
    meaning = _MEANINGS[checked.answer]
    cause = meaning.gold_absent
    if verdict.answer_present:
        cause = meaning.gold_shown
    return Attribution(
        cause=cause,
        basis=Basis.VALIDATOR,
        detail=(
            f"{verdict.validator} gives {verdict.answer_probability:.2f} that the shown chunks "
            f"hold the answer; {meaning.sentence}."
        ),
        stage=_stage_at_fault(cause),
        probability=verdict.answer_probability,
        answer=checked.answer,
        decided_by=checked.decided_by,
    )


def _stage_at_fault(cause: Cause) -> str | None:
    """The stage at fault where the answer was shown, and the system did not give it: generation.

    None for every other cause, which is either no fault or is given its stage elsewhere.
    """
    if cause in (Cause.NOT_USED, Cause.DECLINED):
        return "generate"
    return None


# --- by the gold


class _Finding(NamedTuple):
    """The parts of an attribution that follow from where the gold was shown or lost."""

    cause: Cause
    detail: str
    stage: str | None = None
    """The one to be mended; None where none is at fault."""
    rank: int | None = None
    """Where the gold was met, or last seen; None where it was nowhere."""
    supported: bool | None = None
    """Of a wrong answer, whether another shown chunk contains it; None where that is not known."""
    is_by_reference: bool = False
    """Whether the reference answer was searched for in the chunks, whatever the gold rests on."""


def _attribution_by_gold(
    trace: Trace,
    gold: FoundGold,
    checked: _CheckedAnswer,
    biography: Biography | None,
    corpus: CorpusGold | None,
) -> Attribution:
    """The cause of a case whose gold is known, by labelled contexts or by the reference's words.

    With enough gold shown, generation is looked at (or the passage, where only the right document
    is known); else the stage that lost the missing gold. A case that needs all its gold has enough
    only with every part shown, unless its answer is right anyway.
    """
    # Gold is a position; the union counts a gold context once, however many chunks hold it.
    shown = _NO_GOLD.union(*gold.shown)
    # A right answer needed nothing that was not shown.
    needs_all = trace.case.needs_all and checked.answer is not Answer.RIGHT
    if shown and (len(shown) == gold.total or not needs_all):
        finding = _finding_of_wrong_passage(trace, gold, checked.answer, biography)
        if finding is None:
            finding = _finding_of_shown_gold(trace, gold, checked.answer, len(shown))
    else:
        finding = _finding_of_missing_gold(trace, gold, checked.answer, shown, biography, corpus)
    basis = gold.basis
    if finding.is_by_reference:
        basis = Basis.REFERENCE
    return Attribution(
        cause=finding.cause,
        basis=basis,
        detail=finding.detail,
        stage=finding.stage,
        rank=finding.rank,
        shown=len(shown),
        golds=gold.total,
        supported=finding.supported,
        answer=checked.answer,
        decided_by=checked.decided_by,
    )


_NOT_LOST = frozenset({Answer.RIGHT, Answer.PARTLY})
"""Answers that needed nothing but what was shown."""


def _finding_of_wrong_passage(
    trace: Trace, gold: FoundGold, answer: Answer, biography: Biography | None
) -> _Finding | None:
    """The cause of a case that was shown the right document, but no chunk of it with the answer.

    Without this, generation would be blamed for an answer that it never saw. None where the gold is
    a chunk or a text and not a document, and where a chunk has the answer, or may have it in other
    words.
    """
    context = trace.context.value
    case = trace.case
    # An answer that is right needs no other passage; ids without texts cannot be read.
    if not gold.is_by_document or answer in _NOT_LOST or context is None or context.is_ids_alone:
        return None
    passages: list[str] = []
    for text, golds in zip(context.contexts, gold.shown, strict=True):
        if golds:
            # Chunks of the right document are judged more strictly below: here others may end the
            # question.
            passages.append(text)
        elif states_any(text, case.references):
            return None
    for passage in passages:
        if not lacks_answer(case.query, case.references, passage):
            return None
    dropped = _finding_of_dropped_passage(trace, gold, biography)
    if dropped is not None:
        return dropped
    # At least one chunk holds gold, or the caller would have looked for missing gold instead.
    rank = next(rank for rank, golds in enumerate(gold.shown, 1) if golds)
    return _Finding(
        cause=Cause.WRONG_PASSAGE,
        detail=(
            f"The right document is shown at rank {rank}, and {_passages_phrase(passages)} not "
            f"hold the answer, by words; {_MEANINGS[answer].sentence}."
        ),
        stage="retrieve",
        rank=rank,
        is_by_reference=True,
    )


def _passages_phrase(passages: Sequence[str]) -> str:
    """The chunks of the right document with their sizes: ``its 2 shown chunks (4 to 9 words) do``.

    The subject and verb of the sentence ``... not hold the answer``: the sizes show whether the
    chunks were too short, or headings alone, to hold an answer.
    """
    # Sorted: the first is the shortest, the last the longest.
    sizes = sorted(len(passage.split()) for passage in passages)
    headings = sum(map(is_heading, passages))
    if len(passages) == 1:
        remark = ", a heading alone" if headings else ""
        return f"its only shown chunk ({counted(sizes[0], 'word')}{remark}) does"
    remark = ""
    if headings == len(passages):
        remark = ", all headings"
    elif headings:
        remark = f", {headings} of them a heading alone"
    return f"its {len(passages)} shown chunks ({sizes[0]} to {sizes[-1]} words{remark}) do"


def _finding_of_dropped_passage(
    trace: Trace, gold: FoundGold, biography: Biography | None
) -> _Finding | None:
    """The cause of a case whose chunk with the answer was retrieved, and dropped by an operator.

    Looked for where another chunk of the same document was shown, which hides the loss. None where
    no retrieved chunk of the document quotes the answer, or no operator ran.
    """
    # Positions in `gold.retrieved` are those of this retrieval's contexts: both are of one result.
    retrieval = trace.retrieval.value
    if retrieval is None or trace.post_retrieval is None:
        return None
    for position, golds in enumerate(gold.retrieved):
        if not golds or not states_any(retrieval.contexts[position], trace.case.references):
            continue
        # Only this chunk is followed: other chunks of the document may have been shown.
        followed = [_NO_GOLD] * len(gold.retrieved)
        followed[position] = golds
        stage, last_rank = _dropping_operator(trace, followed, biography)
        rank = position + 1
        detail = (
            f"The chunk with the answer was retrieved at rank {rank} and dropped by {stage}; "
            "another chunk of its document was shown."
        )
        # Without an operator's record, the rank of retrieval is the last one known.
        return _Finding(Cause.DROPPED, detail, stage, last_rank or rank, is_by_reference=True)
    return None


def _finding_of_shown_gold(
    trace: Trace, gold: FoundGold, answer: Answer, shown_count: int
) -> _Finding:
    """The cause of a case whose gold was shown: generation's use of it, and the gold's rank.

    Of a wrong answer the detail also says whether another shown chunk contains it: then that chunk
    has misled the system, and else the system has made the answer up.
    """
    rank = next(rank for rank, golds in enumerate(gold.shown, 1) if golds)
    meaning = _MEANINGS[answer]
    detail = f"Shown at rank {rank}, and {meaning.sentence}"
    supported: bool | None = None
    if answer is Answer.WRONG:
        # Three values: None leaves the sentence without a remark on other chunks.
        supported = _is_wrong_answer_supported(trace, gold)
    if supported is True:
        detail += "; another shown chunk contains that answer"
    elif supported is False:
        detail += "; no other shown chunk contains that answer"
    missing_count = gold.total - shown_count
    if missing_count:
        detail += f"; {missing_count} of {gold.total} gold contexts were not shown"
    return _Finding(
        cause=meaning.gold_shown,
        detail=f"{detail}.",
        stage=_stage_at_fault(meaning.gold_shown),
        rank=rank,
        supported=supported,
    )


def _is_wrong_answer_supported(trace: Trace, gold: FoundGold) -> bool | None:
    """Whether a shown chunk that is not gold contains a wrong answer, and so misled the system.

    None where the words decide nothing: there are no texts, no answer, or an answer such as "yes"
    that any chunk may contain by chance.
    """
    context = trace.context.value
    answer = trace.generation.value
    if context is None or context.is_ids_alone or answer is None:
        return None
    response = normalised(answer.response)
    if not is_telling(response):
        return None
    for text, golds in zip(context.contexts, gold.shown, strict=True):
        # Gold may quote the wrong answer beside the right one: that misleads no reader of it.
        if not golds and holds_answer(normalised(text), response):
            return True
    return False


def _finding_of_missing_gold(
    trace: Trace,
    gold: FoundGold,
    answer: Answer,
    shown: frozenset[int],
    biography: Biography | None,
    corpus: CorpusGold | None,
) -> _Finding:
    """The cause of a case whose gold, or a needed part of it, was not shown: who lost it.

    The causes are tried in this order, and the first that applies counts: right all the same,
    dropped by an operator, absent from the corpus, what a search for the gold says of the
    retriever, and last that the retriever did not return it.

    Args:
        shown: positions of the gold contexts that were shown.
    """
    is_by_words = gold.basis is Basis.REFERENCE
    if answer is Answer.RIGHT and not is_by_words:
        detail = "The answer is right, and the gold was not among the shown chunks."
        return _Finding(Cause.RIGHT_WITHOUT_EVIDENCE, detail)
    for rank, golds in enumerate(gold.retrieved, 1):
        # Gold that an operator kept in another chunk is in `shown`, and is not lost.
        if golds - shown:
            stage, last_rank = _dropping_operator(trace, gold.retrieved, biography)
            last_rank = last_rank or rank
            detail = f"Retrieved at rank {rank}; dropped by {stage} at rank {last_rank}."
            return _Finding(Cause.DROPPED, detail, stage, last_rank)
    if corpus is not None and corpus.absent.get(trace.case.id):
        detail = f"None of the {counted(corpus.documents, 'document')} holds it."
        return _Finding(Cause.NOT_IN_CORPUS, detail)
    search = None if trace.location is None else trace.location.value
    if search is not None:
        # Of all searches of the case, the one that came nearest to the gold.
        nearest = search.nearest
        if nearest.cause in _LOST_BY:
            stage, sentence = _LOST_BY[nearest.cause]
            # Where the corpus was searched, it does hold the gold: only the index lacks it.
            is_missing = nearest.cause is GoldCause.NOT_INDEXED and corpus is None
            cause = Cause.NOT_IN_CORPUS if is_missing else Cause.NOT_RETRIEVED
            return _Finding(cause, sentence.format(rank=nearest.rank), stage, nearest.rank)
    meaning = _MEANINGS[answer]
    if is_by_words:
        detail = f"No shown chunk seems to hold the reference, by its words; {meaning.sentence}."
        return _Finding(meaning.gold_unseen, detail)
    size = 0 if trace.retrieval.value is None else len(trace.retrieval.value.contexts)
    if shown:
        detail = (
            f"{len(shown)} of {gold.total} gold contexts are among the {size:,} retrieved chunks, "
            f"and the case needs all; {meaning.sentence}."
        )
        return _Finding(Cause.PART_NOT_RETRIEVED, detail, "retrieve")
    subject = "It" if corpus is None else "The corpus contains it; it"
    chunks = "the only retrieved chunk" if size == 1 else f"the {size:,} retrieved chunks"
    return _Finding(Cause.NOT_RETRIEVED, f"{subject} is not in {chunks}.", "retrieve")


_LOST_BY = {
    GoldCause.RANKED_LOWER: ("ranking", "The same search has it at rank {rank}."),
    GoldCause.LOST_BY_THRESHOLD: ("threshold", "The score threshold left it out, at rank {rank}."),
    GoldCause.LOST_BY_INDEX: ("index", "The store's index missed it; exact search: rank {rank}."),
    GoldCause.LOST_BY_FILTER: ("filter", "The filter excludes it."),
    GoldCause.NOT_RANKED: ("ranking", "The collection holds it, ranked too low to be looked at."),
    GoldCause.CUT: ("chunking", "It was cut: no chunk holds all of it."),
    GoldCause.NOT_INDEXED: ("indexing", "No chunk of the collection holds it."),
}
"""What of a retriever lost the gold, and the sentence that says so."""


def _dropping_operator(
    trace: Trace, retrieved: Sequence[frozenset[int]], biography: Biography | None
) -> tuple[str, int | None]:
    """The operator that dropped the gold last, and the rank that the gold had before that operator.

    The detail of a lost case names both, so that its reader knows which operator to loosen. Only
    the stage's name, without a rank, where the operators left no record.
    """
    before = trace.retrieval.value
    if before is None or biography is None:
        return POST_RETRIEVE, None
    losses: list[tuple[int, tuple[int | None, ...]]] = []
    for fate in biography.gold:
        if fate.lost_by is not None:
            losses.append((fate.lost_by, fate.ranks))
    if not losses:
        # Only reference answers are known: the chunks that hold one are followed.
        gold_ids: set[str] = set()
        for chunk, golds in zip(before.to_chunks(), retrieved, strict=True):
            if golds:
                gold_ids.add(chunk.id)
        for life in biography.lives:
            if life.id in gold_ids and life.dropped_by is not None:
                losses.append((life.dropped_by, life.ranks))
    if not losses:
        # Operators that merge chunks may leave no life of the chunk: the last step is named then.
        return biography.step(len(biography.operators) - 1), None
    position, ranks = max(losses, key=lambda loss: loss[0])
    # The ranks begin with retrieval's: this is the one before the operator.
    return biography.step(position), ranks[position]
