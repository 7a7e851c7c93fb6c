"""Which stage lost the answer: one cause for each case, from its stored outcomes alone.

Nothing is asked and nothing is drawn at random: the same outcomes have the same cause. Where no
gold is known, the reference answer is looked for in the chunks, then a validator's verdict is
taken; both are marked as estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.core.attribution import Answer, Attribution, Basis, Cause, CorpusGold
from ragbench.core.biography import POST_RETRIEVE, Biography
from ragbench.core.case import Case
from ragbench.core.matched import GoldCause, Matched
from ragbench.core.outcome import Cell
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.core.validation import Verdict
from ragbench.metrics.answer import declined, holds_answer, is_telling
from ragbench.metrics.correct import SAME, answer_correct, is_long, sure_verdict
from ragbench.metrics.matching import Matching, match, normalised
from ragbench.metrics.plan import Compared
from ragbench.stages.biography import biography_of

_CORRECT = 0.5
"""What a judge has to give, of 1, for an answer to count as right."""
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
        last = matches.get("retrieve" if trace.post_retrieval is None else POST_RETRIEVE)
        if isinstance(last, Matched) and (total := sum(grade > 0 for grade in last.grades)):
            held: dict[str, list[frozenset[int]]] = {"retrieve": []}
            for stage, matched in matches.items():
                if isinstance(matched, Matched):
                    chunks = held[stage] = [_NOTHING] * matched.chunks
                    for one in matched.matches:
                        if matched.grades[one.gold] > 0:
                            chunks[one.rank - 1] |= {one.gold}
            basis = Basis.IDS if last.is_by_id else Basis.TEXTS
            return cls(basis, total, held["retrieve"], held.get(POST_RETRIEVE, held["retrieve"]))
        texts = map(normalised, trace.case.references)
        answers = tuple(dict.fromkeys(text for text in texts if is_telling(text)))
        shown = trace.context.value
        if not answers or (shown is not None and shown.is_ids_alone):
            return None
        retrieved = trace.retrieval.value
        after = _answering(shown, answers)
        before = after if retrieved is shown else _answering(retrieved, answers)
        return cls(Basis.REFERENCE, 1, before, after)


def _answering(result: RetrievalResult[Any] | None, answers: Sequence[str]) -> list[frozenset[int]]:
    return [
        frozenset((0,)) if any(holds_answer(text, answer) for answer in answers) else _NOTHING
        for text in map(normalised, () if result is None else result.contexts)
    ]


class _Checked(NamedTuple):
    """What an answer is: the fields of an attribution that say so."""

    answer: Answer
    right: float | None = None
    by_words: bool = False
    is_long: bool = False


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
    case, checked = trace.case, _checked(trace, correctness)
    for stage, outcome in trace.stages:
        if outcome.failure is not None and stage not in ("locate", "validate"):
            detail = f"{stage} failed: {outcome.failure.type}: {outcome.failure.message}"
            failed = checked.answer, 0.0
            return _without_gold(Cause.FAILED, detail, _Checked(*failed), stage)
    if is_unanswerable(case):
        return _of_unanswerable(checked.answer)
    judged, said = case.judgements, _OF[checked.answer].said
    if judged is not None and not any(judged.values()):
        # Such as a turn of a conversation that thanks: retrieval has no part in it.
        cause = Cause.UNKNOWN if checked.answer is Answer.UNCHECKED else _OF[checked.answer].shown
        by = "generate" if cause in _OF_GENERATION else None
        return _without_gold(cause, f"Nothing had to be retrieved, and {said}.", checked, by)
    if matches is None:
        matches = matches_of(trace, Matching.AUTO)
        biography = biography or biography_of(trace, Matching.AUTO)
    found = None if trace.context.value is None else FoundGold.of(trace, matches)
    by_gold = None if found is None else _by_gold(trace, found, checked, biography, corpus)
    if by_gold is not None and (by_gold.basis is not Basis.REFERENCE or by_gold.shown):
        return by_gold
    verdict = None if trace.validation is None else trace.validation.value
    if verdict is not None and (by_gold is None or verdict.answer_present):
        return _by_verdict(verdict, checked)
    cause = Cause.RIGHT if checked.answer is Answer.RIGHT else Cause.UNKNOWN
    why = trace.generation.reason if trace.context.value is None else None
    detail = f"{why}." if why else f"{said}, and no gold is known."
    detail = f"{detail[0].upper()}{detail[1:]}"
    return by_gold or _without_gold(cause, detail, checked)


def _without_gold(
    cause: Cause, detail: str, checked: _Checked, stage: str | None = None
) -> Attribution:
    return Attribution(
        cause=cause, basis=Basis.NONE, detail=detail, stage=stage, **checked._asdict()
    )


def _of_unanswerable(answer: Answer) -> Attribution:
    cause = _OF_UNANSWERABLE.get(answer, Cause.ANSWERED_WITHOUT)
    return Attribution(
        cause=cause,
        basis=Basis.LABEL,
        answer=answer,
        detail=_UNANSWERABLE[cause],
        stage="generate" if cause is Cause.ANSWERED_WITHOUT else None,
        right=None if cause is Cause.UNKNOWN else float(cause is Cause.RIGHT),
    )


class _Outcome(NamedTuple):
    """What an answer says of a case, by where the gold was."""

    said: str
    shown: Cause
    absent: Cause
    """A validator says that no shown chunk holds it."""
    unseen: Cause
    """No shown chunk holds the words of the reference: others may say the same."""


_OF = {
    Answer.RIGHT: _Outcome("the answer is right", Cause.RIGHT, Cause.RIGHT_WITHOUT, Cause.RIGHT),
    Answer.WRONG: _Outcome(
        "the answer is wrong", Cause.NOT_USED, Cause.ANSWERED_WITHOUT, Cause.NOT_SEEN
    ),
    Answer.DECLINED: _Outcome("the system declined", Cause.DECLINED, Cause.UNKNOWN, Cause.NOT_SEEN),
    Answer.UNCHECKED: _Outcome(
        "the answer cannot be checked by words", Cause.SHOWN, Cause.ANSWERED_WITHOUT, Cause.UNKNOWN
    ),
    Answer.NONE: _Outcome("there is no answer to check", Cause.SHOWN, Cause.UNKNOWN, Cause.UNKNOWN),
}
_OF_UNANSWERABLE = {Answer.DECLINED: Cause.RIGHT, Answer.NONE: Cause.UNKNOWN}
_UNANSWERABLE = {
    Cause.RIGHT: "There is no answer, and the system declined.",
    Cause.UNKNOWN: "There is no answer, and generation was not run.",
    Cause.ANSWERED_WITHOUT: "There is no answer, and the system answered.",
}
_OF_GENERATION = (Cause.NOT_USED, Cause.DECLINED)
"""What the stage that generates does with what it is shown."""


def is_unanswerable(case: Case) -> bool:
    """Whether a case is known to have no answer."""
    if case.answerable is not None:
        return not case.answerable
    nothing = case.reference_context_ids == () or case.grades == {}
    return nothing and not case.references


def _checked(trace: Trace, correctness: Cell | None) -> _Checked:
    """What an answer is: by a judge, where one is there, or else by its words."""
    outcome = trace.generation
    if outcome.value is None:
        return _Checked(Answer.NONE)
    if declined(outcome):
        return _Checked(Answer.DECLINED, 0.0)
    if correctness is not None and correctness.value is not None:
        is_right = correctness.value >= _CORRECT
        return _Checked(Answer.RIGHT if is_right else Answer.WRONG, float(is_right))
    references = trace.case.references
    if not references:
        return _Checked(Answer.UNCHECKED)
    right = answer_correct(trace.case.query, outcome.value.response, references)
    answer = _SAID_BY_WORDS[sure_verdict(right)]
    # In the reference's own words it is right at any length.
    return _Checked(answer, right, by_words=True, is_long=right < SAME and is_long(references[0]))


_SAID_BY_WORDS = {True: Answer.RIGHT, False: Answer.WRONG, None: Answer.UNCHECKED}


def _by_gold(
    trace: Trace,
    found: FoundGold,
    checked: _Checked,
    biography: Biography | None,
    corpus: CorpusGold | None,
) -> Attribution:
    held, answer = _NOTHING.union(*found.shown), checked.answer
    known: dict[str, Any] = {
        "basis": found.basis, "shown": len(held), "golds": found.total, **checked._asdict()
    }  # fmt: skip
    is_whole = len(held) == found.total or answer is Answer.RIGHT
    if held and (is_whole or not trace.case.needs_all):
        return _of_shown(trace, found, answer, known)
    is_by_words = found.basis is Basis.REFERENCE
    if answer is Answer.RIGHT and not is_by_words:
        detail = "The answer is right, and the gold was not among the shown chunks."
        return Attribution(cause=Cause.RIGHT_WITHOUT, detail=detail, **known)
    # Of several that are needed, what became of those that were not shown.
    rank = next((rank for rank, golds in enumerate(found.retrieved, 1) if golds - held), None)
    if rank is not None:
        stage, at = _dropped_by(trace, found.retrieved, biography)
        at = at or rank
        detail = f"Retrieved at rank {rank}; dropped by {stage} at rank {at}."
        return Attribution(cause=Cause.DROPPED, stage=stage, rank=at, detail=detail, **known)
    if corpus is not None and corpus.absent.get(trace.case.id):
        detail = f"None of the {corpus.documents:,} documents holds it."
        return Attribution(cause=Cause.NOT_IN_CORPUS, detail=detail, **known)
    fate = None if trace.location is None else trace.location.value
    if fate is not None and fate.cause in _LOST:
        (stage, sentence), rank = _LOST[fate.cause], fate.nearest.rank
        missing = fate.cause is GoldCause.NOT_INDEXED and corpus is None
        cause = Cause.NOT_IN_CORPUS if missing else Cause.NOT_RETRIEVED
        detail = sentence.format(rank=rank)
        return Attribution(cause=cause, stage=stage, rank=rank, detail=detail, **known)
    if is_by_words:
        detail = f"No shown chunk seems to hold the reference, by its words; {_OF[answer].said}."
        return Attribution(cause=_OF[answer].unseen, detail=detail, **known)
    size = 0 if trace.retrieval.value is None else len(trace.retrieval.value.contexts)
    cause = Cause.PART_MISSING if held else Cause.NOT_RETRIEVED
    where = "The corpus contains it; it" if corpus is not None else "It"
    chunks = "the only retrieved chunk" if size == 1 else f"the {size:,} retrieved chunks"
    detail = f"{where} is not in {chunks}."
    if held:
        detail = (
            f"{len(held)} of {found.total} gold contexts are among the {size:,} retrieved chunks, "
            f"and the case needs all; {_OF[answer].said}."
        )
    return Attribution(cause=cause, stage="retrieve", detail=detail, **known)


_LOST = {
    GoldCause.RANKED_LOWER: ("ranking", "The same search has it at rank {rank}."),
    GoldCause.LOST_BY_THRESHOLD: ("threshold", "The score threshold left it out, at rank {rank}."),
    GoldCause.LOST_BY_INDEX: ("index", "The store's index missed it; exact search: rank {rank}."),
    GoldCause.LOST_BY_FILTER: ("filter", "The filter excludes it."),
    GoldCause.NOT_RANKED: ("ranking", "The collection holds it, ranked too low to be looked at."),
    GoldCause.CUT: ("chunking", "It was cut: no chunk holds all of it."),
    GoldCause.NOT_INDEXED: ("indexing", "No chunk of the collection holds it."),
}
"""What lost the gold, and the sentence that says so."""


def _of_shown(
    trace: Trace, found: FoundGold, answer: Answer, known: Mapping[str, Any]
) -> Attribution:
    rank = next(rank for rank, held in enumerate(found.shown, 1) if held)
    missing = found.total - known["shown"]
    rest = f"; {missing} of {found.total} gold contexts were not shown" if missing else ""
    supported, shown, generated = None, trace.context.value, trace.generation.value
    can_look = shown is not None and not shown.is_ids_alone
    if answer is Answer.WRONG and shown is not None and can_look and generated is not None:
        said = normalised(generated.response)
        if is_telling(said):
            others = zip(map(normalised, shown.contexts), found.shown, strict=True)
            supported = any(holds_answer(text, said) for text, held in others if not held)
            chunk = "another" if supported else "no other"
            rest = f"; {chunk} shown chunk contains that answer{rest}"
    said, cause, *_ = _OF[answer]
    return Attribution(
        cause=cause,
        rank=rank,
        stage="generate" if cause in _OF_GENERATION else None,
        detail=f"Shown at rank {rank}, and {said}{rest}.",
        supported=supported,
        **known,
    )


def _dropped_by(
    trace: Trace, retrieved: Sequence[frozenset[int]], biography: Biography | None
) -> tuple[str, int | None]:
    before = trace.retrieval.value
    if before is None or biography is None:
        return POST_RETRIEVE, None
    gone = [(one.lost_by, one.ranks) for one in biography.gold if one.lost_by is not None]
    if not gone:
        # Only reference answers are known: the chunks that hold one are followed.
        ids = [chunk.id for chunk in before.to_chunks()]
        wanted = {id for id, held in zip(ids, retrieved, strict=True) if held}
        lives = [life for life in biography.lives if life.id in wanted]
        gone = [(one.dropped_by, one.ranks) for one in lives if one.dropped_by is not None]
    if not gone:
        return biography.step(len(biography.operators) - 1), None
    at, ranks = max(gone, key=lambda one: one[0])
    return biography.step(at), ranks[at]


def _by_verdict(verdict: Verdict, checked: _Checked) -> Attribution:
    of = _OF[checked.answer]
    cause = of.shown if verdict.answer_present else of.absent
    said = f"{verdict.validator} gives {verdict.answer_probability:.2f}"
    return Attribution(
        cause=cause,
        basis=Basis.VALIDATOR,
        detail=f"{said} that the shown chunks hold the answer; {of.said}.",
        stage="generate" if cause in _OF_GENERATION else None,
        probability=verdict.answer_probability,
        **checked._asdict(),
    )
