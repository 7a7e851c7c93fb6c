"""From probabilities to a verdict: one scale for Poor, Partial and Good; contradictions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.validation import EvidenceQuote, RetrievalQuality, Verdict
from ragbench.validators.calibration import (
    ABSENCES,
    DecisionRule,
    PlattScale,
    Weights,
    shipped_weights,
)
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical import LEXICAL_FEATURES, LexicalValidator
from ragbench.validators.local import LOCAL_FEATURES
from ragbench.validators.objections import Objection
from ragbench.validators.parts import Part, ScoredPool
from ragbench.validators.verdict import Finding, Thresholds, decide, find_conflicts

SHIPPED = {"lexical": LEXICAL_FEATURES, "local": LOCAL_FEATURES}
ORDER = [RetrievalQuality.POOR, RetrievalQuality.PARTIAL, RetrievalQuality.GOOD]


def weights(name: str) -> Weights:
    return shipped_weights(name, SHIPPED[name])


def judged(
    probabilities: list[float],
    thresholds: Thresholds,
    objection: Objection | None = None,
    answered: float | None = None,
) -> Verdict:
    query = "When was the mill built?"
    chunks = [Chunk(id=f"c{at}", text=f"text {at}") for at, _ in enumerate(probabilities)]
    findings = [
        Finding(chunk=chunk, probability=one, spans=(), objection=objection, answered=answered)
        for chunk, one in zip(chunks, probabilities, strict=True)
    ]
    limits = DecisionRule(scale=PlattScale(), thresholds=thresholds)
    pool = ScoredPool(
        query=query,
        intake=inspect_chunks(query, chunks),
        parts=[Part(text=query, findings=findings)],
    )
    return pool.verdict(limits, "x")


@pytest.mark.parametrize("absence", ABSENCES)
@pytest.mark.parametrize("name", SHIPPED)
def test_every_rating_can_be_reached_with_the_shipped_weights(name: str, absence: str) -> None:
    known = weights(name)
    limits = known.thresholds(absence)  # type: ignore[arg-type]
    found: list[RetrievalQuality] = []
    for step in range(-80, 81):
        verdict = judged([known.probability(step / 10)], limits)
        assert verdict.relevance["c0"] == verdict.answer_probability
        found.append(verdict.retrieval_quality)
    assert list(dict.fromkeys(found)) == ORDER


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
    st.floats(0.01, 0.99),
    st.floats(0.01, 0.99),
)
def test_the_best_chunk_is_the_answers_probability(
    probabilities: list[float], one: float, other: float
) -> None:
    limits = Thresholds(relevant=min(one, other), present=max(one, other))
    verdict = judged(probabilities, limits)
    assert verdict.answer_probability == max(verdict.relevance.values())
    assert verdict.answer_present == (max(probabilities) >= limits.present)
    assert bool(verdict.relevant_chunk_ids) == (max(probabilities) >= limits.relevant)


def test_beside_an_answer_only_answers_are_relevant() -> None:
    limits = Thresholds(relevant=0.5, present=0.9)
    assert judged([0.6, 0.95, 0.9, 0.89, 0.1], limits).relevant_chunk_ids == ("c1", "c2")
    # Without one, what might be one is.
    assert judged([0.6, 0.89, 0.1], limits).relevant_chunk_ids == ("c1", "c0")
    assert judged([0.4, 0.3], limits).relevant_chunk_ids == ()


def test_an_answer_that_no_single_chunk_is_sure_of_is_in_the_best_ones() -> None:
    query = "When was the mill built?"
    chunks = [Chunk(id=f"c{at}", text="text") for at in range(3)]
    for probabilities, relevant in (([0.6, 0.2, 0.7], ("c2", "c0")), ([0.1, 0.2, 0.3], ("c2",))):
        found = [
            Finding(chunk=chunk, probability=one, spans=())
            for chunk, one in zip(chunks, probabilities, strict=True)
        ]
        verdict = decide(
            query,
            inspect_chunks(query, chunks),
            found,
            answer_probability=0.99,
            thresholds=Thresholds(relevant=0.5, present=0.9),
            validator="x",
        )
        assert verdict.retrieval_quality is RetrievalQuality.GOOD
        assert verdict.relevant_chunk_ids == relevant


def test_an_objection_leaves_a_chunk_in_the_middle_and_says_why() -> None:
    limits = Thresholds(relevant=0.5, present=0.9)
    against = Objection(kind="unknown", text="it says 'is unknown'")
    verdict = judged([0.99, 0.2], limits, against)
    # Odds 1 and 9: their geometric mean is 3.
    assert verdict.answer_probability == pytest.approx(0.75)
    assert verdict.retrieval_quality is RetrievalQuality.PARTIAL
    assert verdict.message.endswith("Not stated for certain: when the mill was built.")
    assert "c0: no certain answer: it says 'is unknown'" in verdict.reasons
    assert verdict.relevance["c1"] == 0.2


@pytest.mark.parametrize(
    ("first", "second", "expected", "quality"),
    [
        (0.95, 0.97, 0.95, RetrievalQuality.GOOD),  # the lower one
        (0.97, 0.92, 0.92, RetrievalQuality.GOOD),
        (0.97, 0.70, 0.70, RetrievalQuality.PARTIAL),
        (0.97, 0.01, 0.50, RetrievalQuality.PARTIAL),  # it stays on the topic
        (0.40, 0.99, 0.40, RetrievalQuality.POOR),  # what is off the topic is not asked again
    ],
)
def test_of_two_opinions_the_lower_one_counts_and_the_topic_stays(
    first: float, second: float, expected: float, quality: RetrievalQuality
) -> None:
    verdict = judged([first], Thresholds(relevant=0.5, present=0.9), answered=second)
    assert verdict.answer_probability == verdict.relevance["c0"] == expected
    assert verdict.retrieval_quality is quality
    said = "c0: no certain answer: it is on the topic, and answers another question"
    assert (said in verdict.reasons) == (first >= 0.9 > second)


def test_an_objection_holds_beside_a_second_opinion() -> None:
    limits = Thresholds(relevant=0.5, present=0.9)
    against = Objection(kind="unknown", text="it says 'is unknown'")
    assert judged([0.99], limits, against, answered=0.98).answer_probability == 0.75
    assert judged([0.99], limits, against, answered=0.2).answer_probability == 0.5


def test_what_is_set_by_hand_moves_the_other_threshold() -> None:
    moved = LexicalValidator(present=0.3).limits.thresholds
    assert moved == Thresholds(relevant=0.3, present=0.3)
    assert math.isclose(moved.middle, 0.3)


# --- contradictions


def evidence(*texts: str) -> list[EvidenceQuote]:
    return [
        EvidenceQuote(chunk_id=f"c{at}", start=0, end=len(text), text=text)
        for at, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("query", "one", "other", "kind", "detail"),
    [
        (
            "Who acquired Instagram?",
            "When Facebook made a bid to buy Instagram in 2012, many people wondered.",
            "When Apple made a bid to buy Instagram in 2012, many people wondered.",
            "name",
            "Facebook against Apple",
        ),
        (
            "Where is the final played?",
            "The final is played at the stadium in Tampa, Florida.",
            "The final is played at the stadium in Glendale, Arizona.",
            "name",
            "Tampa Florida against Glendale Arizona",
        ),
        (
            "What was the revenue in the first quarter?",
            "The first quarter brought 10 million in revenue and 3 new offices.",
            "The first quarter brought 14 million in revenue and 3 new offices.",
            "number",
            "10 against 14",
        ),
        (
            "When did the contract end?",
            "The contract ended in 2021.",
            "The contract ended in 2022.",
            "date",
            "2021 against 2022",
        ),
        (
            "Does the warranty cover batteries?",
            "The warranty covers batteries.",
            "The warranty never covers batteries.",
            "negation",
            "c0 says what c1 denies",
        ),
    ],
)
def test_what_differs_is_reported(query: str, one: str, other: str, kind: str, detail: str) -> None:
    [conflict] = find_conflicts(query, evidence(one, other))
    assert (conflict.kind, conflict.detail) == (kind, detail)
    assert (conflict.first.chunk_id, conflict.second.chunk_id) == ("c0", "c1")


@pytest.mark.parametrize(
    ("query", "one", "other"),
    [
        # Names of which one stands in the question separate the subjects.
        (
            "Who leads the office in Oslo?",
            "The office in Oslo is led by Anna.",
            "The office in Bergen is led by Anna.",
        ),
        # A name and a number differ: two things are spoken of.
        (
            "How big are the offices?",
            "The office in Oslo has a staff of 40 people.",
            "The office in Bergen has a staff of 60 people.",
        ),
        ("Who wrote it?", "Anna wrote the book in a summer.", "Critics praised Bo at once."),
        ("Who wrote it?", "Anna wrote the book.", "Anna wrote the book."),
    ],
)
def test_what_only_looks_so_is_no_conflict(query: str, one: str, other: str) -> None:
    kinds = {conflict.kind for conflict in find_conflicts(query, evidence(one, other))}
    assert "name" not in kinds


def test_a_chunk_does_not_contradict_itself() -> None:
    one = EvidenceQuote(chunk_id="c", start=0, end=28, text="The contract ended in 2021.")
    other = EvidenceQuote(chunk_id="c", start=30, end=58, text="The contract ended in 2022.")
    assert find_conflicts("When did the contract end?", [one, other]) == ()
