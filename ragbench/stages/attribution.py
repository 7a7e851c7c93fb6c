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
from ragbench.core.outcome import Cell, Status
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
            first = matches.get("retrieve")
            basis = Basis.IDS if last.is_by_id else Basis.TEXTS
            total = sum(grade > 0 for grade in last.grades)
            return cls(basis, total, *((_held(one)) for one in (first, last)))
        texts = map(normalised, trace.case.references)
        answers = tuple(dict.fromkeys(text for text in texts if is_telling(text)))
        if not answers:
            return None
        after = _answering(shown, answers)
        before = after if retrieved is shown else _answering(retrieved, answers)
        return cls(Basis.REFERENCE, 1, before, after)

    @property
    def shown_count(self) -> int:
        return len(_NOTHING.union(*self.shown))


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
    failed = _failed_stage(trace)
    if failed is not None:
        stage, message = failed
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
    if by_gold is not None and (by_gold.basis is not Basis.REFERENCE or _is_shown(by_gold)):
        return by_gold
    verdict = None if trace.validation is None else trace.validation.value
    if verdict is not None and (by_gold is None or verdict.answer_present):
        return _by_verdict(verdict, answer)
    return by_gold or _without_gold(answer)


def _is_shown(attribution: Attribution) -> bool:
    return bool(attribution.shown)


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


def _failed_stage(trace: Trace) -> tuple[str, str] | None:
    for name, outcome in trace.stages:
        if name not in ("locate", "validate") and outcome.status is Status.FAILED:
            failure = outcome.failure
            return name, "" if failure is None else f"{failure.type}: {failure.message}"
    return None


def _by_gold(
    trace: Trace,
    found: FoundGold,
    answer: Answer,
    biography: Biography | None,
    corpus: CorpusGold | None,
) -> Attribution:
    known = Attribution(
        cause=Cause.SHOWN,
        basis=found.basis,
        answer=answer,
        detail="",
        shown=found.shown_count,
        golds=found.total,
    )
    if found.shown_count:
        return _of_shown(trace, found, known)
    is_by_words = found.basis is Basis.REFERENCE
    if answer is Answer.RIGHT and not is_by_words:
        detail = "The answer is right, and the gold was not among the shown chunks."
        return replace(known, cause=Cause.RIGHT_WITHOUT, detail=detail)
    rank = _best_rank(found.retrieved)
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
        cause, rest = _BY_WORDS[answer]
        detail = f"No shown chunk seems to hold the reference, by its words; {rest}."
        return replace(known, cause=cause, detail=detail)
    size = 0 if trace.retrieval.value is None else len(trace.retrieval.value)
    where = "The corpus holds it; it" if corpus is not None else "It"
    detail = f"{where} is not among the {size:,} retrieved chunks."
    return replace(known, cause=Cause.NOT_RETRIEVED, stage="retrieve", detail=detail)


_BY_WORDS = {
    Answer.RIGHT: (Cause.RIGHT, "the answer is right"),
    Answer.WRONG: (Cause.NOT_SEEN, "the answer is wrong"),
    Answer.DECLINED: (Cause.NOT_SEEN, "the system declined"),
    Answer.UNCHECKED: (Cause.UNKNOWN, "the answer cannot be checked by words"),
    Answer.NONE: (Cause.UNKNOWN, "there is no answer to check"),
}
"""Other words may say the same: that retrieval missed it is not known."""

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


def _best_rank(places: Sequence[frozenset[int]]) -> int | None:
    return next((rank for rank, held in enumerate(places, 1) if held), None)


def _of_shown(trace: Trace, found: FoundGold, known: Attribution) -> Attribution:
    rank = _best_rank(found.shown)
    missing = found.total - found.shown_count
    rest = f"; {missing} of {found.total} gold contexts were not shown" if missing else ""
    begin, supported = f"Shown at rank {rank}", None
    stage: str | None = None
    if known.answer is Answer.RIGHT:
        cause, detail = Cause.RIGHT, f"{begin}, and the answer is right."
    elif known.answer is Answer.DECLINED:
        cause, stage = Cause.DECLINED, "generate"
        detail = f"{begin}, and the system declined{rest}."
    elif known.answer is Answer.WRONG:
        supported = _is_supported_elsewhere(trace, found)
        other = "another shown chunk holds it" if supported else "no other shown chunk holds it"
        other_one = "" if supported is None else f"; {other}"
        cause, stage = Cause.NOT_USED, "generate"
        detail = f"{begin}, and the answer is wrong{other_one}{rest}."
    else:
        is_there = known.answer is Answer.UNCHECKED
        why = "its answer cannot be checked by words" if is_there else "there is no answer to check"
        cause, detail = Cause.SHOWN, f"{begin}; {why}{rest}."
    return replace(known, cause=cause, rank=rank, stage=stage, detail=detail, supported=supported)


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


_BY_PRESENT = {
    Answer.RIGHT: (Cause.RIGHT, "the answer is right"),
    Answer.WRONG: (Cause.NOT_USED, "the answer is wrong"),
    Answer.DECLINED: (Cause.DECLINED, "the system declined"),
    Answer.UNCHECKED: (Cause.SHOWN, "the answer cannot be checked by words"),
    Answer.NONE: (Cause.SHOWN, "there is no answer to check"),
}
_BY_ABSENT = {
    Answer.RIGHT: (Cause.RIGHT_WITHOUT, "the answer is right"),
    Answer.WRONG: (Cause.ANSWERED_WITHOUT, "the system answered, wrongly"),
    Answer.UNCHECKED: (Cause.ANSWERED_WITHOUT, "the system answered"),
    Answer.DECLINED: (Cause.UNKNOWN, "the system declined; what the corpus holds is unknown"),
    Answer.NONE: (Cause.UNKNOWN, "there is no answer to check"),
}


def _by_verdict(verdict: Verdict, answer: Answer) -> Attribution:
    cause, rest = (_BY_PRESENT if verdict.answer_present else _BY_ABSENT)[answer]
    probability = verdict.answer_probability
    said = f"{verdict.validator} gives {probability:.2f} that the shown chunks hold the answer"
    return Attribution(
        cause=cause,
        basis=Basis.VALIDATOR,
        answer=answer,
        detail=f"{said}; {rest}.",
        stage="generate" if cause in (Cause.NOT_USED, Cause.DECLINED) else None,
        probability=probability,
    )


def _without_gold(answer: Answer) -> Attribution:
    if answer is Answer.RIGHT:
        detail = "The answer is right; whether its evidence was shown is unknown."
        return Attribution(cause=Cause.RIGHT, basis=Basis.NONE, answer=answer, detail=detail)
    detail = {
        Answer.WRONG: "The answer is wrong; where its evidence stands is unknown.",
        Answer.DECLINED: "The system declined; whether there is an answer is unknown.",
        Answer.UNCHECKED: "The answer cannot be checked by words, and no gold is known.",
        Answer.NONE: "Neither an answer nor gold is known.",
    }[answer]
    return Attribution(cause=Cause.UNKNOWN, basis=Basis.NONE, answer=answer, detail=detail)


@dataclass(slots=True)
class CauseTally:
    """Counts causes as the cases come."""

    _cases: Counter[Cause] = field(default_factory=Counter[Cause])
    _estimated: Counter[Cause] = field(default_factory=Counter[Cause])
    _stages: dict[Cause, Counter[str]] = field(default_factory=dict[Cause, Counter[str]])
    _examples: dict[Cause, list[str]] = field(default_factory=dict[Cause, list[str]])

    def add(self, case: str, attribution: Attribution) -> None:
        cause = attribution.cause
        self._cases[cause] += 1
        self._estimated[cause] += attribution.basis.is_estimate
        if attribution.stage is not None:
            self._stages.setdefault(cause, Counter())[attribution.stage] += 1
        examples = self._examples.setdefault(cause, [])
        if len(examples) < _EXAMPLES:
            examples.append(case)

    def counts(self) -> tuple[CauseCount, ...]:
        """Every cause that occurred, in the order of a case's way through the stages."""
        return tuple(
            CauseCount(
                cause=cause,
                cases=self._cases[cause],
                estimated=self._estimated[cause],
                stages=_ordered(self._stages.get(cause, {})),
                examples=tuple(self._examples.get(cause, ())),
            )
            for cause in Cause
            if self._cases[cause]
        )


def _ordered(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
