"""Which stage lost the answer: one cause for each case, from its stored outcomes alone.

Nothing is asked and nothing is drawn at random: the same outcomes have the same cause. Where no
gold is known, the reference answer is looked for in the chunks, then a validator's verdict is
taken; both are marked as estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ragbench.core.attribution import (
    Answer,
    Attribution,
    Basis,
    Cause,
    CauseCount,
    CorpusGold,
)
from ragbench.core.biography import Biography
from ragbench.core.case import Case
from ragbench.core.matched import GoldCause, Matched, SearchedGold
from ragbench.core.outcome import Cell
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.core.validation import Verdict
from ragbench.metrics.abstention import declined
from ragbench.metrics.answer import holds_answer, is_telling
from ragbench.metrics.correct import people_agree
from ragbench.metrics.matching import Matching, match, normalised
from ragbench.metrics.window import Compared
from ragbench.post.stage import POST_RETRIEVE
from ragbench.stages.biography import biography_of
from ragbench.stats.mean import most_frequent

_CORRECT = 0.5
"""What a judge has to give, of 1, for an answer to count as right."""
_EXAMPLES = 5


_NOTHING: frozenset[int] = frozenset()


def matches_of(trace: Trace, matching: Matching) -> dict[str, Compared]:
    """The chunks of a case compared with the gold, by the stage that gave them.

    ``"retrieve"``, and ``"post_retrieve"`` where the run has that stage. Metrics of the retriever
    read the last of them.
    """
    outcomes = {"retrieve": trace.retrieval}
    if trace.post_retrieval is not None:
        outcomes[POST_RETRIEVE] = trace.post_retrieval
    return {
        stage: None if outcome.value is None else match(trace.case, outcome.value, matching)
        for stage, outcome in outcomes.items()
    }


class FoundGold(NamedTuple):
    """Where the gold stood, from retrieval to what was shown."""

    basis: Basis
    total: int
    """How many gold contexts there are; alternative answers are one."""
    retrieved: Sequence[frozenset[int]]
    """Which of them each chunk holds, as positions, in the chunks' order."""
    shown: Sequence[frozenset[int]]

    @classmethod
    def of(cls, trace: Trace, matches: Mapping[str, Compared]) -> FoundGold | None:
        """None where nothing is known of where the answer stands."""
        shown, retrieved = trace.context.value, trace.retrieval.value
        last = matches.get("retrieve" if trace.post_retrieval is None else POST_RETRIEVE)
        if isinstance(last, Matched) and any(grade > 0 for grade in last.grades):
            basis = Basis.IDS if last.is_by_id else Basis.TEXTS
            total = sum(grade > 0 for grade in last.grades)
            return cls(basis, total, _held(matches.get("retrieve")), _held(last))
        texts = map(normalised, trace.case.references)
        answers = tuple(dict.fromkeys(text for text in texts if is_telling(text)))
        if not answers:
            return None
        after = _answering(shown, answers)
        before = after if retrieved is shown else _answering(retrieved, answers)
        return cls(Basis.REFERENCE, 1, before, after)


def _held(matched: Compared) -> list[frozenset[int]]:
    if not isinstance(matched, Matched):
        return []
    held = [_NOTHING] * matched.chunks
    for one in matched.matches:
        if matched.grades[one.gold] > 0:
            held[one.rank - 1] |= {one.gold}
    return held


def _answering(result: RetrievalResult[Any] | None, answers: Sequence[str]) -> list[frozenset[int]]:
    """The chunks that hold one of the normalised reference answers."""
    return [
        frozenset((0,)) if any(holds_answer(text, answer) for answer in answers) else _NOTHING
        for text in map(normalised, () if result is None else result.contexts)
    ]


def attribute(
    trace: Trace,
    *,
    matches: Mapping[str, Compared] | None = None,
    biography: Biography | None = None,
    corpus: CorpusGold | None = None,
    correctness: Cell | None = None,
) -> Attribution:
    """The cause of a case.

    Args:
        matches: what `matches_of` gives of it, where that is known.
        biography: what post-retrieval did, where one ran.
        correctness: what a judge made of the answer; from 0.5 on it is right. Without a value, the
            words of response and reference decide.
    """
    answer = _answer(trace, correctness)
    for stage, outcome in trace.stages:
        if outcome.failure is not None and stage not in ("locate", "validate"):
            message = f"{outcome.failure.type}: {outcome.failure.message}"
            return Attribution(
                cause=Cause.FAILED,
                basis=Basis.NONE,
                answer=answer,
                stage=stage,
                detail=f"{stage} failed: {message}",
            )
    if is_unanswerable(trace.case):
        return _of_unanswerable(answer)
    if matches is None:
        matches = matches_of(trace, Matching.AUTO)
        biography = biography or biography_of(trace, Matching.AUTO)
    found = None if trace.context.value is None else FoundGold.of(trace, matches)
    by_gold = None if found is None else _by_gold(trace, found, answer, biography, corpus)
    if by_gold is not None and (by_gold.basis is not Basis.REFERENCE or by_gold.shown):
        return by_gold
    verdict = None if trace.validation is None else trace.validation.value
    if verdict is not None and (by_gold is None or verdict.answer_present):
        return _by_verdict(verdict, answer)
    if by_gold is not None:
        return by_gold
    cause = Cause.RIGHT if answer is Answer.RIGHT else Cause.UNKNOWN
    return Attribution(cause=cause, basis=Basis.NONE, answer=answer, detail=_WITHOUT_GOLD[answer])


_SAID = {
    Answer.RIGHT: "the answer is right",
    Answer.WRONG: "the answer is wrong",
    Answer.DECLINED: "the system declined",
    Answer.UNCHECKED: "the answer cannot be checked by words",
    Answer.NONE: "there is no answer to check",
}
_OF_SHOWN = {
    Answer.RIGHT: Cause.RIGHT,
    Answer.WRONG: Cause.NOT_USED,
    Answer.DECLINED: Cause.DECLINED,
    Answer.UNCHECKED: Cause.SHOWN,
    Answer.NONE: Cause.SHOWN,
}
_OF_ABSENT = {
    Answer.RIGHT: Cause.RIGHT_WITHOUT,
    Answer.WRONG: Cause.ANSWERED_WITHOUT,
    Answer.DECLINED: Cause.UNKNOWN,  # so is what the corpus holds
    Answer.UNCHECKED: Cause.ANSWERED_WITHOUT,
    Answer.NONE: Cause.UNKNOWN,
}
_OF_UNSEEN = {
    Answer.RIGHT: Cause.RIGHT,
    Answer.WRONG: Cause.NOT_SEEN,
    Answer.DECLINED: Cause.NOT_SEEN,
    Answer.UNCHECKED: Cause.UNKNOWN,
    Answer.NONE: Cause.UNKNOWN,
}
"""Where no shown chunk holds the words of the reference: other words may say the same."""
_WITHOUT_GOLD = {
    Answer.RIGHT: "The answer is right; whether its evidence was shown is unknown.",
    Answer.WRONG: "The answer is wrong; where its evidence stands is unknown.",
    Answer.DECLINED: "The system declined; whether there is an answer is unknown.",
    Answer.UNCHECKED: "The answer cannot be checked by words, and no gold is known.",
    Answer.NONE: "Neither an answer nor gold is known.",
}
_OF_GENERATION = (Cause.NOT_USED, Cause.DECLINED)
"""What the stage that generates does with what it is shown."""


def is_unanswerable(case: Case) -> bool:
    """Whether a case is known to have no answer."""
    if case.answerable is not None:
        return not case.answerable
    nothing = case.reference_context_ids == () or case.grades == {}
    return nothing and not case.references


def _of_unanswerable(answer: Answer) -> Attribution:
    cause, detail = {
        Answer.DECLINED: (Cause.RIGHT, "There is no answer, and the system declined."),
        Answer.NONE: (Cause.UNKNOWN, "There is no answer, and generation was not run."),
    }.get(answer, (Cause.ANSWERED_WITHOUT, "There is no answer, and the system answered."))
    stage = "generate" if cause is Cause.ANSWERED_WITHOUT else None
    return Attribution(cause=cause, basis=Basis.LABEL, answer=answer, detail=detail, stage=stage)


def _answer(trace: Trace, correctness: Cell | None) -> Answer:
    outcome = trace.generation
    if outcome.value is None:
        return Answer.NONE
    if declined(outcome):
        return Answer.DECLINED
    if correctness is not None and correctness.value is not None:
        return Answer.RIGHT if correctness.value >= _CORRECT else Answer.WRONG
    references = trace.case.references
    if not references:
        return Answer.UNCHECKED
    is_right = people_agree(trace.case.query, outcome.value.response, references)
    return {True: Answer.RIGHT, False: Answer.WRONG, None: Answer.UNCHECKED}[is_right]


def _by_gold(
    trace: Trace,
    found: FoundGold,
    answer: Answer,
    biography: Biography | None,
    corpus: CorpusGold | None,
) -> Attribution:
    known = Attribution(
        cause=_OF_SHOWN[answer],
        basis=found.basis,
        answer=answer,
        detail="",
        shown=len(_NOTHING.union(*found.shown)),
        golds=found.total,
    )
    if known.shown:
        return _of_shown(trace, found, known)
    is_by_words = found.basis is Basis.REFERENCE
    if answer is Answer.RIGHT and not is_by_words:
        detail = "The answer is right, and the gold was not among the shown chunks."
        return replace(known, cause=Cause.RIGHT_WITHOUT, detail=detail)
    rank = next((rank for rank, held in enumerate(found.retrieved, 1) if held), None)
    if rank is not None:
        stage, at = _dropped_by(trace, found.retrieved, biography)
        detail = f"Retrieved at rank {rank}; dropped by {stage} at rank {at or rank}."
        return replace(known, cause=Cause.DROPPED, stage=stage, rank=at or rank, detail=detail)
    if corpus is not None and corpus.absent.get(trace.case.id):
        detail = f"None of the {corpus.documents:,} documents holds it."
        return replace(known, cause=Cause.NOT_IN_CORPUS, detail=detail)
    fate = None if trace.location is None else trace.location.value
    if fate is not None and fate.cause in _LOST:
        return _located(known, fate.nearest, is_in_corpus=corpus is not None)
    if is_by_words:
        detail = f"No shown chunk seems to hold the reference, by its words; {_SAID[answer]}."
        return replace(known, cause=_OF_UNSEEN[answer], detail=detail)
    size = 0 if trace.retrieval.value is None else len(trace.retrieval.value)
    where = "The corpus holds it; it" if corpus is not None else "It"
    detail = f"{where} is not among the {size:,} retrieved chunks."
    return replace(known, cause=Cause.NOT_RETRIEVED, stage="retrieve", detail=detail)


_LOST = {
    GoldCause.RANKED_LOWER: ("ranking", "The same search has it at rank {rank}."),
    GoldCause.LOST_BY_THRESHOLD: ("threshold", "The score threshold left it out, at rank {rank}."),
    GoldCause.LOST_BY_INDEX: (
        "index",
        "The store's index missed it; exact search: rank {rank}.",
    ),
    GoldCause.LOST_BY_FILTER: ("filter", "The filter excludes it."),
    GoldCause.NOT_RANKED: ("ranking", "The collection holds it, ranked too low to be looked at."),
    GoldCause.CUT: ("chunking", "It was cut: no chunk holds all of it."),
    GoldCause.NOT_INDEXED: ("indexing", "No chunk of the collection holds it."),
}
"""What lost the gold, and the sentence that says so."""


def _located(known: Attribution, fate: SearchedGold, *, is_in_corpus: bool) -> Attribution:
    """What looking into the collection says of gold that was not retrieved."""
    stage, sentence = _LOST[fate.cause]
    missing = fate.cause is GoldCause.NOT_INDEXED and not is_in_corpus
    cause = Cause.NOT_IN_CORPUS if missing else Cause.NOT_RETRIEVED
    detail = sentence.format(rank=fate.rank)
    return replace(known, cause=cause, stage=stage, rank=fate.rank, detail=detail)


def _of_shown(trace: Trace, found: FoundGold, known: Attribution) -> Attribution:
    rank = next(rank for rank, held in enumerate(found.shown, 1) if held)
    missing = found.total - (known.shown or 0)
    rest = f"; {missing} of {found.total} gold contexts were not shown" if missing else ""
    supported = None
    if known.answer is Answer.WRONG:
        supported = _is_supported_elsewhere(trace, found)
        if supported is not None:
            rest = f"; {'another' if supported else 'no other'} shown chunk holds it{rest}"
    return replace(
        known,
        rank=rank,
        stage="generate" if known.cause in _OF_GENERATION else None,
        detail=f"Shown at rank {rank}, and {_SAID[known.answer]}{rest}.",
        supported=supported,
    )


def _is_supported_elsewhere(trace: Trace, found: FoundGold) -> bool | None:
    shown, generated = trace.context.value, trace.generation.value
    if shown is None or generated is None or not is_telling(normalised(generated.response)):
        return None
    said = normalised(generated.response)
    others = zip(shown.contexts, found.shown, strict=True)
    return any(holds_answer(normalised(text), said) for text, held in others if not held)


def _dropped_by(
    trace: Trace, retrieved: Sequence[frozenset[int]], biography: Biography | None
) -> tuple[str, int | None]:
    """The operator that lost the gold, and its best rank before."""
    before = trace.retrieval.value
    if before is None or biography is None:
        return POST_RETRIEVE, None
    lost = [gold for gold in biography.gold if gold.is_lost]
    if lost:
        last = max(lost, key=lambda gold: gold.lost_by or 0)
        return biography.lost_by(last) or POST_RETRIEVE, last.lost_at
    # Only reference answers are known: the chunks that hold one are followed.
    ids = [chunk.id for chunk in before.to_chunks()]
    wanted = {id for id, held in zip(ids, retrieved, strict=True) if held}
    lives = [life for life in biography.lives if life.id in wanted and life.dropped_by is not None]
    if not lives:
        return biography.step(len(biography.operators) - 1), None
    last_life = max(lives, key=lambda life: life.dropped_by or 0)
    at = last_life.dropped_by or 0
    return biography.step(at), last_life.ranks[at]


def _by_verdict(verdict: Verdict, answer: Answer) -> Attribution:
    cause = (_OF_SHOWN if verdict.answer_present else _OF_ABSENT)[answer]
    said = f"{verdict.validator} gives {verdict.answer_probability:.2f}"
    return Attribution(
        cause=cause,
        basis=Basis.VALIDATOR,
        answer=answer,
        detail=f"{said} that the shown chunks hold the answer; {_SAID[answer]}.",
        stage="generate" if cause in _OF_GENERATION else None,
        probability=verdict.answer_probability,
    )


@dataclass(slots=True)
class CauseTally:
    """Counts causes as the cases come."""

    _found: dict[Cause, tuple[Counter[str], Counter[str], list[str]]] = field(
        default_factory=dict[Cause, tuple[Counter[str], Counter[str], list[str]]]
    )
    """Cases, and of them those estimated; the stages that lost the gold; examples."""

    def add(self, case: str, attribution: Attribution) -> None:
        found = self._found.setdefault(attribution.cause, (Counter(), Counter(), []))
        counts, stages, examples = found
        counts["cases"] += 1
        counts["estimated"] += attribution.basis.is_estimate
        if attribution.stage is not None:
            stages[attribution.stage] += 1
        if len(examples) < _EXAMPLES:
            examples.append(case)

    def counts(self) -> tuple[CauseCount, ...]:
        """Every cause that occurred, in the order of a case's way through the stages."""
        found = [(cause, *self._found[cause]) for cause in Cause if cause in self._found]
        return tuple(
            CauseCount(
                cause=cause,
                cases=counts["cases"],
                estimated=counts["estimated"],
                stages=most_frequent(stages),
                examples=tuple(examples),
            )
            for cause, counts, stages, examples in found
        )
