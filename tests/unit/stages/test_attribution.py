"""One cause a case: what the stored outcomes say, and what faults put into a run come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragbench import (
    Case,
    Cell,
    Chunk,
    Document,
    Evidence,
    Failure,
    GenerationResult,
    Matching,
    Outcome,
    PostRetrieval,
    RetrievalResult,
    Status,
    Trace,
    build_operator,
)
from ragbench.core.attribution import Basis, Cause, CorpusGold
from ragbench.core.matched import GoldCause, GoldSearch, SearchedGold
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.post.stage import post_retrieved
from ragbench.stages.attribution import CauseTally, attribute
from ragbench.stages.corpus_gold import corpus_gold, read_corpus_gold, write_corpus_gold

LEAVE = "You get 27 days of paid annual leave per calendar year."
OTHERS = ["The office closes at six.", "Parking costs 40 euros.", "Dogs are welcome on Fridays."]
CASE = Case(
    id="leave",
    query="How many days of leave are there?",
    reference="27 days",
    reference_context_ids=("handbook",),
    evidence=(Evidence(text="27 days of paid annual leave", document_id="handbook"),),
)


def found(*, gold_at: int | None = 1, ids: bool = True) -> Outcome[RetrievalResult[Any]]:
    texts, names = [*OTHERS], ["office", "parking", "dogs"]
    if gold_at is not None:
        texts.insert(gold_at - 1, LEAVE)
        names.insert(gold_at - 1, "handbook")
    result: RetrievalResult[Any] = RetrievalResult(texts, context_ids=names if ids else None)
    return Outcome(status=Status.MEASURED, value=result)


def said(response: str, *, abstained: bool = False) -> Outcome[GenerationResult[Any]]:
    status = Status.ABSTAINED if abstained else Status.MEASURED
    return Outcome(status=status, value=GenerationResult(response, abstained=abstained))


def trace(
    response: str = "27 days", *, case: Case = CASE, gold_at: int | None = 1, **more: Any
) -> Trace:
    return Trace(case=case, retrieval=found(gold_at=gold_at), generation=said(response), **more)


def judged(present: bool) -> Outcome[Verdict]:
    verdict = Verdict(
        query_id="leave",
        relevant_chunk_ids=(),
        relevance={},
        answer_present=present,
        answer_probability=0.9 if present else 0.1,
        evidence=(),
        retrieval_quality=RetrievalQuality.GOOD,
        message="",
        validator="lexical",
    )
    return Outcome(status=Status.MEASURED, value=verdict)


UNANSWERABLE = Case(id="n", query="Who?", answerable=False)
SPANS = replace(CASE, reference_context_ids=None)
REFERENCE = replace(SPANS, evidence=())
ABSENT = CorpusGold(documents=3, absent={"leave": ("handbook",)})
NOTHING: Outcome[GenerationResult[Any]] = Outcome(status=Status.SKIPPED, reason="no generation")


def declined(found: Trace) -> Trace:
    return replace(found, generation=said("I don't know.", abstained=True))


@pytest.mark.parametrize(
    ("found", "settings", "cause", "stage", "basis"),
    [
        (trace("There are 27 days."), {}, Cause.RIGHT, None, Basis.IDS),
        (trace("12 weeks"), {}, Cause.NOT_USED, "generate", Basis.IDS),
        (declined(trace()), {}, Cause.DECLINED, "generate", Basis.IDS),
        (trace("12 weeks", gold_at=None), {}, Cause.NOT_RETRIEVED, "retrieve", Basis.IDS),
        (trace("27 days", gold_at=None), {}, Cause.RIGHT_WITHOUT, None, Basis.IDS),
        # the searched documents
        (trace("12", gold_at=None), {"corpus": ABSENT}, Cause.NOT_IN_CORPUS, None, Basis.IDS),
        (trace("12"), {"corpus": ABSENT}, Cause.NOT_USED, "generate", Basis.IDS),
        # what is known of the gold
        (trace("12", case=SPANS), {}, Cause.NOT_USED, "generate", Basis.TEXTS),
        (trace("12", case=SPANS, gold_at=None), {}, Cause.NOT_RETRIEVED, "retrieve", Basis.TEXTS),
        (trace("12", case=REFERENCE), {}, Cause.NOT_USED, "generate", Basis.REFERENCE),
        # by words alone it is not known what retrieval missed, nor that right answers lack it
        (trace("12", case=REFERENCE, gold_at=None), {}, Cause.NOT_SEEN, None, Basis.REFERENCE),
        (declined(trace(case=REFERENCE, gold_at=None)), {}, Cause.NOT_SEEN, None, Basis.REFERENCE),
        (trace("27 days", case=REFERENCE, gold_at=None), {}, Cause.RIGHT, None, Basis.REFERENCE),
        (replace(trace(case=REFERENCE, gold_at=None), generation=NOTHING), {}, Cause.UNKNOWN, None,
         Basis.REFERENCE),
        (trace(case=Case(id="q", query="Why?")), {}, Cause.UNKNOWN, None, None),
        (trace("12", gold_at=None, validation=judged(True)), {}, Cause.NOT_RETRIEVED, "retrieve",
         Basis.IDS),
        # unanswerable
        (trace("Me.", case=UNANSWERABLE), {}, Cause.ANSWERED_WITHOUT, "generate", None),
        (declined(trace(case=UNANSWERABLE)), {}, Cause.RIGHT, None, None),
        # a run that only retrieves
        (replace(trace(), generation=NOTHING), {}, Cause.SHOWN, None, Basis.IDS),
        (replace(trace(gold_at=None), generation=NOTHING), {}, Cause.NOT_RETRIEVED, "retrieve",
         Basis.IDS),
        # a judge of correctness goes before words, from half of what it can give
        (trace("x"), {"correctness": Cell.measured(0.5)}, Cause.RIGHT, None, Basis.IDS),
        (trace(), {"correctness": Cell.measured(0.49)}, Cause.NOT_USED, "generate", Basis.IDS),
        (trace(), {"correctness": Cell.skipped("none")}, Cause.RIGHT, None, Basis.IDS),
    ],
)  # fmt: skip
def test_what_was_retrieved_and_answered_comes_to_one_cause(
    found: Trace, settings: dict[str, Any], cause: Cause, stage: str | None, basis: Basis | None
) -> None:
    result = attribute(found, **settings)
    assert result.cause is cause
    assert basis is None or result.basis is basis
    assert stage is None or result.stage == stage


def test_shown_and_wrong_was_not_used() -> None:
    result = attribute(trace("Parking costs 40 euros."))

    assert (result.cause, result.stage) == (Cause.NOT_USED, "generate")
    assert result.supported is True  # the chunk on parking holds it
    assert attribute(trace("It is 12 weeks.")).supported is False


@pytest.mark.parametrize(
    ("lost", "cause", "stage", "reported"),
    [
        (GoldCause.RANKED_LOWER, Cause.NOT_RETRIEVED, "ranking", "has it at rank 12"),
        (GoldCause.LOST_BY_INDEX, Cause.NOT_RETRIEVED, "index", "exact search: rank 12"),
        (GoldCause.LOST_BY_FILTER, Cause.NOT_RETRIEVED, "filter", "The filter excludes it"),
        (GoldCause.CUT, Cause.NOT_RETRIEVED, "chunking", "no chunk holds all of it"),
        (GoldCause.NOT_INDEXED, Cause.NOT_IN_CORPUS, "indexing", "No chunk of the collection"),
        (GoldCause.UNKNOWN, Cause.NOT_RETRIEVED, "retrieve", "not among the 3 retrieved"),
    ],
)
def test_gold_that_was_looked_for_in_the_collection(
    lost: GoldCause, cause: Cause, stage: str, reported: str
) -> None:
    fate = SearchedGold(gold="handbook", cause=lost, rank=12)
    located = Outcome(
        status=Status.MEASURED, value=GoldSearch(golds=(fate,), retrieved=3, depth=100)
    )
    result = attribute(trace("It is 12 weeks.", gold_at=None, location=located))

    assert (result.cause, result.stage) == (cause, stage)
    assert reported in result.detail


def test_a_stage_that_failed_is_the_cause() -> None:
    failure = Failure(type="Timeout", message="30 s", stage="generate")
    broken = replace(trace(), generation=Outcome(status=Status.FAILED, failure=failure))

    result = attribute(broken)

    assert (result.cause, result.stage) == (Cause.FAILED, "generate")
    assert "Timeout" in result.detail


ASKED = Case(id="leave", query=CASE.query)
LETTER = Case(id="q", query="Which?", reference="B")
"""Too short to be looked for in chunks; answers are compared with it."""


@pytest.mark.parametrize(
    ("case", "response", "gold_at", "present", "cause", "basis"),
    [
        (ASKED, "27 days", 1, True, Cause.SHOWN, Basis.VALIDATOR),
        (ASKED, "27 days", 1, False, Cause.ANSWERED_WITHOUT, Basis.VALIDATOR),
        (REFERENCE, "12 weeks", 1, False, Cause.NOT_USED, Basis.REFERENCE),  # its words are there
        (REFERENCE, "12 weeks", None, True, Cause.NOT_USED, Basis.VALIDATOR),  # in other words
        (REFERENCE, "12 weeks", None, False, Cause.NOT_SEEN, Basis.REFERENCE),
        (LETTER, "A", 1, True, Cause.NOT_USED, Basis.VALIDATOR),
        (LETTER, "B", 1, True, Cause.RIGHT, Basis.VALIDATOR),
        (LETTER, "B", 1, False, Cause.RIGHT_WITHOUT, Basis.VALIDATOR),
        (LETTER, "A", 1, False, Cause.ANSWERED_WITHOUT, Basis.VALIDATOR),
    ],
)
def test_a_validator_decides_where_no_gold_does_and_is_named(
    case: Case, response: str, gold_at: int | None, present: bool, cause: Cause, basis: Basis
) -> None:
    result = attribute(trace(response, case=case, gold_at=gold_at, validation=judged(present)))
    assert (result.cause, result.basis) == (cause, basis)
    if basis is Basis.VALIDATOR:
        assert result.probability == pytest.approx(0.9 if present else 0.1)
        assert "lexical" in result.detail


def test_chunks_that_hold_a_reference_are_followed_to_the_operator_that_dropped_them() -> None:
    """Of two that hold it, the one that stayed longest counts: rank 2 before the second step."""
    case = replace(CASE, reference_context_ids=None, evidence=())
    texts = [OTHERS[0], LEAVE, OTHERS[1], f"Again: {LEAVE}"]
    retrieval: RetrievalResult[Any] = RetrievalResult(texts, context_ids=list("abcd"))
    steps = [build_operator({"action": "filter", "type": "top_k", "k": k}) for k in (3, 1)]
    after = post_retrieved(PostRetrieval(operators=tuple(steps)), case.query, retrieval)
    result = attribute(
        Trace(
            case=case,
            retrieval=Outcome(status=Status.MEASURED, value=retrieval),
            post_retrieval=Outcome(status=Status.MEASURED, value=after),
            generation=said("12 weeks"),
        )
    )
    assert (result.cause, result.basis, result.rank) == (Cause.DROPPED, Basis.REFERENCE, 2)
    assert result.stage == "filter.top_k (step 2)"
    assert result.detail == "Retrieved at rank 2; dropped by filter.top_k (step 2) at rank 2."


def test_what_was_not_shown_and_whether_another_chunk_holds_the_answer_is_reported() -> None:
    case = replace(CASE, reference_context_ids=("handbook", "gone"))
    result = attribute(trace("It is 12 weeks.", case=case))
    assert (result.shown, result.golds) == (1, 2)
    assert "no other shown chunk holds it; 1 of 2 gold contexts were not shown" in result.detail
    short = attribute(trace("No"))
    assert short.supported is None
    assert short.detail == "Shown at rank 1, and the answer is wrong."


def test_gold_is_looked_for_in_the_documents_by_id_and_by_text() -> None:
    lost = replace(CASE, id="lost", reference_context_ids=("gone",), evidence=())
    moved = replace(CASE, id="moved", reference_context_ids=("gone",))
    cases = [CASE, lost, moved, Case(id="n", query="Who?", answerable=False)]

    result = corpus_gold(cases, [Document(id="handbook", text=LEAVE)], Matching.AUTO)

    assert result.documents == 1
    assert dict(result.absent) == {"lost": ("gone",)}  # the span of `moved` stands in a document
    other = replace(CASE, reference_context_ids=("handbook#3",), evidence=())  # another kind of id
    assert not corpus_gold([other], [Document(id="handbook", text=LEAVE)], Matching.AUTO).absent


def test_what_the_corpus_holds_is_kept_for_the_same_run_only(tmp_path: Any) -> None:
    gold = CorpusGold(documents=2, absent={"a": ("x",)})

    write_corpus_gold(tmp_path, {"dataset": "1", "rag": "2"}, gold)

    assert read_corpus_gold(tmp_path, {"dataset": "1", "rag": "2"}) == gold
    assert read_corpus_gold(tmp_path, {"dataset": "1", "rag": "3"}) is None


def test_causes_are_counted_in_the_order_of_the_stages() -> None:
    tally = CauseTally()
    tally.add("a", attribute(trace("27 days")))
    tally.add("b", attribute(trace("12", gold_at=None)))
    tally.add("c", attribute(trace("12", gold_at=None)))

    counts = tally.counts()

    assert [(count.cause, count.cases) for count in counts] == [
        (Cause.NOT_RETRIEVED, 2),
        (Cause.RIGHT, 1),
    ]
    assert counts[0].stages == (("retrieve", 2),)
    assert counts[0].examples == ("b", "c")


FAULTS = {
    "removed": (Cause.NOT_IN_CORPUS, ""),
    "top_k": (Cause.DROPPED, "top_k"),
    "operator": (Cause.DROPPED, "threshold"),
    "corrupted": (Cause.NOT_USED, "generate"),
    "declined": (Cause.DECLINED, "generate"),
}


def _faulty(fault: str, number: int) -> tuple[Trace, CorpusGold]:
    """A run's case that was right, with one fault put in."""
    gold = f"Section {number} grants {number + 11} hours of training to clerk {number}."
    names = [f"other-{number}-{at}" for at in range(6)]
    chunks = [
        Chunk(id=name, text=f"Note {name} on canteens.", score=1 / (at + 2))
        for at, name in enumerate(names)
    ]
    case = Case(
        id=f"case-{number}",
        query=f"How many hours does clerk {number} get?",
        reference=f"{number + 11} hours",
        reference_context_ids=(f"gold-{number}",) if number % 2 else None,
        evidence=() if number % 2 else (Evidence(text=gold[:-1]),),
    )
    if fault != "removed":
        at = 4 if fault in ("top_k", "operator") else number % 3
        chunks.insert(at, Chunk(id=f"gold-{number}", text=gold, score=1 / (at + 1.5)))
    retrieval: RetrievalResult[Any] = RetrievalResult.from_chunks(chunks)
    limit = {"action": "filter", "type": "top_k", "k": 4 if fault == "top_k" else 6}
    cut = {"action": "filter", "type": "threshold", "min_score": 0.25}
    operators = [build_operator(limit)]
    if fault == "operator":
        operators.append(build_operator(cut))
    after = post_retrieved(PostRetrieval(operators=tuple(operators)), case.query, retrieval)
    answer = said(f"It is {number + 77} weeks.")
    if fault == "declined":
        answer = said("I don't know.", abstained=True)
    made = Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=retrieval),
        post_retrieval=Outcome(status=Status.MEASURED, value=after),
        generation=answer,
    )
    absent = {case.id: ("gold",)} if fault == "removed" else {}
    return made, CorpusGold(documents=100, absent=absent)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_that_are_put_in_are_found_with_their_stage(fault: str) -> None:
    cause, stage = FAULTS[fault]
    right = 0
    for number in range(40):
        made, corpus = _faulty(fault, number)
        result = attribute(made, corpus=corpus)
        right += result.cause is cause and stage in (result.stage or "")
    assert right >= 38  # 95 %
