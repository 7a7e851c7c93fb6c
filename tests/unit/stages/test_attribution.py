"""One cause per case: what the stored outcomes say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    Case,
    Cell,
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
from ragbench.core.attribution import Basis, Cause, CauseCount, CorpusGold, Decider
from ragbench.core.matched import GoldCause, GoldSearch, SearchedGold
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.post.stage import post_retrieved
from ragbench.stages.attribution import attribute
from ragbench.stages.corpus_gold import corpus_gold, read_corpus_gold, write_corpus_gold
from ragbench.stages.run_tally import CauseTally

LEAVE = "You get 27 days of paid annual leave per calendar year."
OTHERS = ["The office closes at six.", "Trainees get 40 days.", "Dogs are welcome on Fridays."]
CASE = Case(
    id="leave",
    query="How many days of leave are there?",
    reference="27 days",
    reference_context_ids=("handbook",),
    evidence=(Evidence(text="27 days of paid annual leave", document_id="handbook"),),
)


def retrieved(*, gold_at: int | None) -> Outcome[RetrievalResult[Any]]:
    """Three chunks, and the gold at this rank."""
    texts = list(OTHERS)
    ids = ["office", "parking", "dogs"]
    if gold_at is not None:
        texts.insert(gold_at - 1, LEAVE)
        ids.insert(gold_at - 1, "handbook")
    result: RetrievalResult[Any] = RetrievalResult(texts, context_ids=ids)
    return Outcome(status=Status.MEASURED, value=result)


def answered(response: str) -> Outcome[GenerationResult[Any]]:
    return Outcome(status=Status.MEASURED, value=GenerationResult(response))


def trace(
    response: str = "27 days", *, case: Case = CASE, gold_at: int | None = 1, **outcomes: Any
) -> Trace:
    """A case with its chunks and this answer: a right one, with the gold at rank 1, by default."""
    return Trace(
        case=case,
        retrieval=retrieved(gold_at=gold_at),
        generation=answered(response),
        **outcomes,
    )


def judged(present: bool) -> Outcome[Verdict]:
    """A validator's verdict on whether the answer is present in the chunks."""
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
"""The gold is a span of text, without an id."""
REFERENCE = replace(SPANS, evidence=())
"""Only the right answer is known."""
TWO_GOLD = replace(CASE, reference_context_ids=("handbook", "gone"), evidence=())
NEEDS_BOTH = replace(TWO_GOLD, metadata={"needs": "all"})
NEEDS_NOTHING = replace(CASE, reference_context_ids=(), evidence=())
"""Nothing has to be retrieved for it."""
ABSENT = CorpusGold(documents=3, absent={"leave": ("handbook",)})
"""The searched documents lack the gold of the case."""


def declined(trace: Trace) -> Trace:
    result: GenerationResult[Any] = GenerationResult("I don't know.", abstained=True)
    return replace(trace, generation=Outcome(status=Status.ABSTAINED, value=result))


def only_retrieved(trace: Trace) -> Trace:
    skipped: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="no generation")
    return replace(trace, generation=skipped)


@pytest.mark.parametrize(
    ("asked", "settings", "cause", "stage", "basis"),
    [
        (trace("There are 27 days."), {}, Cause.RIGHT, None, Basis.IDS),
        (trace("12 weeks"), {}, Cause.NOT_USED, "generate", Basis.IDS),
        (declined(trace()), {}, Cause.DECLINED, "generate", Basis.IDS),
        (trace("12 weeks", gold_at=None), {}, Cause.NOT_RETRIEVED, "retrieve", Basis.IDS),
        (trace("27 days", gold_at=None), {}, Cause.RIGHT_WITHOUT_EVIDENCE, None, Basis.IDS),
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
        (
            only_retrieved(trace(case=REFERENCE, gold_at=None)),
            {},
            Cause.UNCHECKED,
            None,
            Basis.REFERENCE,
        ),
        (trace(case=Case(id="q", query="Why?")), {}, Cause.UNCHECKED, None, None),
        (
            trace("12", gold_at=None, validation=judged(True)),
            {},
            Cause.NOT_RETRIEVED,
            "retrieve",
            Basis.IDS,
        ),
        # all gold contexts are needed; nothing has to be retrieved
        (trace("12", case=TWO_GOLD), {}, Cause.NOT_USED, "generate", Basis.IDS),
        (trace("12", case=NEEDS_BOTH), {}, Cause.PART_NOT_RETRIEVED, "retrieve", Basis.IDS),
        (trace(case=NEEDS_BOTH), {}, Cause.RIGHT, None, Basis.IDS),
        (trace(case=NEEDS_NOTHING, gold_at=None), {}, Cause.RIGHT, None, Basis.NONE),
        (trace("12", case=NEEDS_NOTHING, gold_at=None), {}, Cause.NOT_USED, "generate", Basis.NONE),
        # unanswerable
        (trace("Me.", case=UNANSWERABLE), {}, Cause.ANSWERED_WITHOUT_EVIDENCE, "generate", None),
        (declined(trace(case=UNANSWERABLE)), {}, Cause.RIGHT, None, None),
        # a run that only retrieves
        (only_retrieved(trace()), {}, Cause.SHOWN, None, Basis.IDS),
        (
            only_retrieved(trace(gold_at=None)),
            {},
            Cause.NOT_RETRIEVED,
            "retrieve",
            Basis.IDS,
        ),
        # a judge of correctness goes before words, and half of its scale is partly right
        (trace("x"), {"correctness": Cell.measured(0.51)}, Cause.RIGHT, None, Basis.IDS),
        (trace("x"), {"correctness": Cell.measured(0.5)}, Cause.PARTLY_RIGHT, None, Basis.IDS),
        (trace(), {"correctness": Cell.measured(0.49)}, Cause.NOT_USED, "generate", Basis.IDS),
        (trace(), {"correctness": Cell.skipped("none")}, Cause.RIGHT, None, Basis.IDS),
    ],
)
def test_what_was_retrieved_and_answered_comes_to_one_cause(
    asked: Trace, settings: dict[str, Any], cause: Cause, stage: str | None, basis: Basis | None
) -> None:
    result = attribute(asked, **settings)

    assert result.cause is cause
    assert basis is None or result.basis is basis
    assert stage is None or result.stage == stage


@pytest.mark.parametrize(
    ("gold_cause", "cause", "stage", "detail"),
    [
        (GoldCause.RANKED_LOWER, Cause.NOT_RETRIEVED, "ranking", "has it at rank 12"),
        (GoldCause.LOST_BY_INDEX, Cause.NOT_RETRIEVED, "index", "exact search: rank 12"),
        (GoldCause.LOST_BY_FILTER, Cause.NOT_RETRIEVED, "filter", "The filter excludes it"),
        (GoldCause.CUT, Cause.NOT_RETRIEVED, "chunking", "no chunk holds all of it"),
        (GoldCause.NOT_INDEXED, Cause.NOT_IN_CORPUS, "indexing", "No chunk of the collection"),
        (GoldCause.UNKNOWN, Cause.NOT_RETRIEVED, "retrieve", "not in the 3 retrieved"),
    ],
)
def test_gold_that_was_looked_for_in_the_collection(
    gold_cause: GoldCause, cause: Cause, stage: str, detail: str
) -> None:
    gold = SearchedGold(gold="handbook", cause=gold_cause, rank=12)
    search = GoldSearch(golds=(gold,), retrieved=3, depth=100)
    location = Outcome(status=Status.MEASURED, value=search)

    result = attribute(trace("It is 12 weeks.", gold_at=None, location=location))

    assert result.cause is cause
    assert result.stage == stage
    assert detail in result.detail


def test_a_stage_that_failed_is_the_cause() -> None:
    failure = Failure(type="Timeout", message="30 s", stage="generate")
    broken = replace(trace(), generation=Outcome(status=Status.FAILED, failure=failure))

    result = attribute(broken)

    assert result.cause is Cause.FAILED
    assert result.stage == "generate"
    assert result.detail == "generate failed: Timeout: 30 s"


UNLABELLED = Case(id="leave", query=CASE.query)
LETTER = Case(id="q", query="Which?", reference="B")
"""Too short to be looked for in chunks; answers are compared with it."""


@pytest.mark.parametrize(
    ("case", "response", "gold_at", "present", "cause", "basis"),
    [
        (UNLABELLED, "27 days", 1, True, Cause.SHOWN, Basis.VALIDATOR),
        (UNLABELLED, "27 days", 1, False, Cause.ANSWERED_WITHOUT_EVIDENCE, Basis.VALIDATOR),
        (REFERENCE, "12 weeks", 1, False, Cause.NOT_USED, Basis.REFERENCE),  # its words are there
        (REFERENCE, "12 weeks", None, True, Cause.NOT_USED, Basis.VALIDATOR),  # in other words
        (REFERENCE, "12 weeks", None, False, Cause.NOT_SEEN, Basis.REFERENCE),
        (LETTER, "A", 1, True, Cause.NOT_USED, Basis.VALIDATOR),
        (LETTER, "B", 1, True, Cause.RIGHT, Basis.VALIDATOR),
        (LETTER, "B", 1, False, Cause.RIGHT_WITHOUT_EVIDENCE, Basis.VALIDATOR),
        (LETTER, "A", 1, False, Cause.ANSWERED_WITHOUT_EVIDENCE, Basis.VALIDATOR),
    ],
)
def test_a_validator_decides_where_no_gold_does_and_is_named(
    case: Case, response: str, gold_at: int | None, present: bool, cause: Cause, basis: Basis
) -> None:
    result = attribute(trace(response, case=case, gold_at=gold_at, validation=judged(present)))

    assert result.cause is cause
    assert result.basis is basis
    if basis is Basis.VALIDATOR:
        assert result.probability == pytest.approx(0.9 if present else 0.1)
        assert "lexical" in result.detail


@pytest.mark.parametrize(
    ("gold", "basis"),
    [
        ({"reference_context_ids": ("b", "d")}, Basis.IDS),
        ({"evidence": (Evidence(text="27 days of paid annual leave"),)}, Basis.TEXTS),
        ({}, Basis.REFERENCE),
    ],
)
def test_gold_is_followed_to_the_operator_that_dropped_it(
    gold: dict[str, Any], basis: Basis
) -> None:
    """Of two chunks that hold it, the one that stayed longest counts: rank 2 before step 2."""
    case = replace(REFERENCE, **gold)
    texts = [OTHERS[0], LEAVE, OTHERS[1], f"Again: {LEAVE}"]
    retrieval: RetrievalResult[Any] = RetrievalResult(texts, context_ids=list("abcd"))
    top_3 = build_operator({"action": "filter", "type": "top_k", "k": 3})
    top_1 = build_operator({"action": "filter", "type": "top_k", "k": 1})
    after = post_retrieved(PostRetrieval(operators=(top_3, top_1)), case.query, retrieval)
    trace = Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=retrieval),
        post_retrieval=Outcome(status=Status.MEASURED, value=after),
        generation=answered("12 weeks"),
    )

    result = attribute(trace)

    assert result.cause is Cause.DROPPED
    assert result.basis is basis
    assert result.rank == 2
    assert result.stage == "filter.top_k (step 2)"
    assert result.detail == "Retrieved at rank 2; dropped by filter.top_k (step 2) at rank 2."


@pytest.mark.parametrize(
    ("response", "golds", "supported", "detail"),
    [
        # The chunk on trainees holds it.
        (
            "Trainees get 40 days.",
            ["handbook"],
            True,
            "; another shown chunk contains that answer",
        ),
        (
            "It is 12 weeks.",
            ["handbook", "gone"],
            False,
            "; no other shown chunk contains that answer; 1 of 2 gold contexts were not shown",
        ),
        ("4", ["handbook"], None, ""),
    ],
)
def test_what_was_not_shown_and_whether_another_chunk_holds_the_answer_is_reported(
    response: str, golds: list[str], supported: bool | None, detail: str
) -> None:
    case = replace(CASE, reference_context_ids=tuple(golds))

    result = attribute(trace(response, case=case))

    assert result.shown == 1
    assert result.golds == len(golds)
    assert result.supported is supported
    assert result.detail == f"Shown at rank 1, and the answer is wrong{detail}."


DOCUMENTS = [Document(id="handbook", text=LEAVE)]


def test_gold_that_is_a_document_is_not_absent() -> None:
    result = corpus_gold([CASE], DOCUMENTS, Matching.AUTO)

    assert result.documents == 1
    assert dict(result.absent) == {}


def test_gold_whose_id_no_document_has_is_absent() -> None:
    lost = replace(CASE, id="lost", reference_context_ids=("gone",), evidence=())

    result = corpus_gold([CASE, lost], DOCUMENTS, Matching.AUTO)

    assert dict(result.absent) == {"lost": ("gone",)}


def test_gold_whose_text_is_in_a_document_is_not_absent() -> None:
    moved = replace(CASE, id="moved", reference_context_ids=("gone",))

    result = corpus_gold([CASE, moved], DOCUMENTS, Matching.AUTO)

    assert dict(result.absent) == {}


def test_a_case_that_cannot_be_answered_has_no_absent_gold() -> None:
    result = corpus_gold([CASE, UNANSWERABLE], DOCUMENTS, Matching.AUTO)

    assert dict(result.absent) == {}


def test_gold_of_another_kind_of_id_is_not_called_absent() -> None:
    chunk = replace(CASE, reference_context_ids=("handbook#3",), evidence=())

    result = corpus_gold([chunk], DOCUMENTS, Matching.AUTO)

    assert dict(result.absent) == {}


def test_what_the_corpus_holds_is_kept_for_the_same_run_only(tmp_path: Path) -> None:
    gold = CorpusGold(documents=2, absent={"a": ("x",)})

    write_corpus_gold(tmp_path, {"dataset": "1", "rag": "2"}, gold)

    assert read_corpus_gold(tmp_path, {"dataset": "1", "rag": "2"}) == gold
    assert read_corpus_gold(tmp_path, {"dataset": "1", "rag": "3"}) is None


# --- causes of a run


@pytest.fixture(name="causes")
def causes_of_three_cases() -> tuple[CauseCount, ...]:
    """Case "a" was right; the gold of "b" and "c" was not retrieved."""
    tally = CauseTally()
    tally.add("a", attribute(trace("27 days", gold_at=1)))
    tally.add("b", attribute(trace("12", gold_at=None)))
    tally.add("c", attribute(trace("12", gold_at=None)))
    return tally.causes()


def test_causes_are_counted_in_the_order_of_the_stages(causes: tuple[CauseCount, ...]) -> None:
    counts = [(count.cause, count.cases) for count in causes]
    assert counts == [(Cause.NOT_RETRIEVED, 2), (Cause.RIGHT, 1)]


def test_a_cause_has_its_stages_and_examples(causes: tuple[CauseCount, ...]) -> None:
    not_retrieved, _ = causes

    assert not_retrieved.stages == (("retrieve", 2),)
    assert not_retrieved.examples == ("b", "c")


def test_a_cause_has_what_decided_about_it(causes: tuple[CauseCount, ...]) -> None:
    not_retrieved, _ = causes

    assert not_retrieved.deciders == ((Decider.WORDS, 2),)


# --- the right document, the wrong passage

BY_DOCUMENT = Case(
    id="leave",
    query="How many days of leave are there?",
    reference="27 days",
    reference_context_ids=("handbook",),
)
ASK_FIRST = "Ask your manager at least two weeks before you travel."


def of_document(
    *texts: str, case: Case = BY_DOCUMENT, response: str = "40 days", ids: tuple[str, ...] = ()
) -> Trace:
    """A case whose shown chunks are cut from the gold document, in this order."""
    ids = ids or tuple(f"handbook#{position}" for position in range(len(texts)))
    result: RetrievalResult[Any] = RetrievalResult(texts, context_ids=ids)
    retrieval: Outcome[RetrievalResult[Any]] = Outcome(status=Status.MEASURED, value=result)
    return Trace(case=case, retrieval=retrieval, generation=answered(response))


def test_a_chunk_of_the_right_document_without_the_answer_is_the_wrong_passage() -> None:
    result = attribute(of_document(ASK_FIRST))

    assert result.cause is Cause.WRONG_PASSAGE
    assert result.basis is Basis.REFERENCE
    assert result.stage == "retrieve"
    assert result.detail == (
        "The right document is shown at rank 1, and its only shown chunk (10 words) does not hold "
        "the answer, by words; the answer is wrong."
    )


def test_sizes_and_headings_of_the_wrong_passages_are_named() -> None:
    result = attribute(of_document(ASK_FIRST, "## Leave"))

    assert "its 2 shown chunks (2 to 10 words, 1 of them a heading alone) do not" in result.detail


def test_a_declined_case_has_the_wrong_passage_too() -> None:
    trace = of_document(ASK_FIRST)
    declined = Outcome(status=Status.ABSTAINED, value=GenerationResult("I do not know."))

    result = attribute(replace(trace, generation=declined))

    assert result.cause is Cause.WRONG_PASSAGE


def test_an_answer_that_words_cannot_check_has_the_wrong_passage() -> None:
    result = attribute(of_document(ASK_FIRST, response="Ask your manager."))

    assert result.cause is Cause.WRONG_PASSAGE


def test_one_chunk_with_the_answer_is_enough() -> None:
    result = attribute(of_document(ASK_FIRST, LEAVE))

    assert result.cause is Cause.NOT_USED


def test_the_answer_in_a_chunk_of_another_document_was_shown() -> None:
    result = attribute(of_document(ASK_FIRST, LEAVE, ids=("handbook#0", "letter#0")))

    assert result.cause is Cause.NOT_USED


def test_a_right_answer_has_no_wrong_passage() -> None:
    result = attribute(of_document(ASK_FIRST, response="27 days"))

    assert result.cause is Cause.RIGHT


def test_a_gold_chunk_is_no_wrong_passage_whatever_it_says() -> None:
    result = attribute(of_document(ASK_FIRST, ids=("handbook",)))

    assert result.cause is Cause.NOT_USED


def test_an_id_of_several_chunks_is_that_of_their_document() -> None:
    result = attribute(of_document(ASK_FIRST, "## Leave", ids=("handbook", "handbook")))

    assert result.cause is Cause.WRONG_PASSAGE


def test_chunks_without_texts_are_no_wrong_passage() -> None:
    result = attribute(of_document("", ""))

    assert result.cause is Cause.NOT_USED


def test_the_operator_that_drops_the_chunk_with_the_answer_is_named() -> None:
    trace = of_document(LEAVE, ASK_FIRST)
    remaining: RetrievalResult[Any] = RetrievalResult([ASK_FIRST], context_ids=["handbook#1"])
    post_retrieval = Outcome(status=Status.MEASURED, value=remaining)

    result = attribute(replace(trace, post_retrieval=post_retrieval))

    assert result.cause is Cause.DROPPED
    assert "was retrieved at rank 1 and dropped by" in result.detail
