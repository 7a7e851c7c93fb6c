"""From probabilities to a verdict: one scale for Poor, Partial and Good; contradictions."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.validation import EvidenceQuote, RetrievalQuality, Verdict, WarningKind
from ragbench.text.sentences import Span
from ragbench.validators.calibration import (
    DecisionRule,
    PlattScale,
    Thresholds,
    shipped_weights,
)
from ragbench.validators.conflicts import find_conflicts
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical import LEXICAL_FEATURES, LexicalValidator
from ragbench.validators.local import LOCAL_FEATURES
from ragbench.validators.parts import QueryPart
from ragbench.validators.slots import SLOTS
from ragbench.validators.verdict import Finding, decide

SHIPPED = {"lexical": LEXICAL_FEATURES, "local": LOCAL_FEATURES}
GOOD, PARTIAL, POOR = RetrievalQuality
QUERY = "When was the mill built?"
LIMITS = Thresholds(relevant=0.5, present=0.9)


def judged(
    probabilities: list[float],
    thresholds: Thresholds = LIMITS,
    *,
    query: str = QUERY,
    text: str = "text {}",
    answered: float | None = None,
    texts: Sequence[str] | None = None,
    parts: Mapping[str, list[float]] | None = None,
    **more: Any,
) -> Verdict:
    texts = texts or [text.format(at) for at, _ in enumerate(probabilities)]
    chunks = [Chunk(id=f"c{at}", text=one) for at, one in enumerate(texts)]

    def ask(part: QueryPart) -> list[Finding]:
        found = zip(chunks, (parts or {}).get(part.question, probabilities), strict=True)
        return [
            Finding(chunk=chunk, probability=p, spans=[Span(0, len(chunk.text))], answered=answered)
            for chunk, p in found
        ]

    rule = DecisionRule(scale=PlattScale(), thresholds=thresholds, slots=SLOTS)
    return decide(query, inspect_chunks(query, chunks), ask, rule, validator="x", **more)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_rating_can_be_reached_with_the_shipped_weights(name: str) -> None:
    known = shipped_weights(name, SHIPPED[name])
    limits = Thresholds(relevant=known.relevant, present=known.worth.present)
    ratings: list[RetrievalQuality] = []
    for step in range(-80, 81):
        verdict = judged([known.probability(step / 10)], limits)
        assert verdict.relevance["c0"] == verdict.answer_probability
        ratings.append(verdict.retrieval_quality)
    assert list(dict.fromkeys(ratings)) == [POOR, PARTIAL, GOOD]


LIMIT = st.floats(0.01, 0.99)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), LIMIT, LIMIT)
def test_the_best_chunk_is_the_answers_probability(
    probabilities: list[float], one: float, other: float
) -> None:
    limits = Thresholds(relevant=min(one, other), present=max(one, other))
    verdict = judged(probabilities, limits)
    assert verdict.answer_probability == max(verdict.relevance.values())
    assert verdict.answer_present == (max(probabilities) >= limits.present)
    assert bool(verdict.relevant_chunk_ids) == (max(probabilities) >= limits.relevant)


def test_beside_an_answer_only_answers_are_relevant() -> None:
    assert judged([0.6, 0.95, 0.9, 0.89, 0.1]).relevant_chunk_ids == ("c1", "c2")
    # Without one, what might be one is.
    assert judged([0.6, 0.89, 0.1]).relevant_chunk_ids == ("c1", "c0")
    assert judged([0.4, 0.3]).relevant_chunk_ids == ()


def test_an_answer_that_no_single_chunk_is_sure_of_is_in_the_best_ones() -> None:
    for probabilities, relevant in (([0.6, 0.2, 0.7], ("c2", "c0")), ([0.1, 0.2, 0.3], ("c2",))):
        verdict = judged(probabilities, answer_probability=0.99)
        assert verdict.retrieval_quality is GOOD
        assert verdict.relevant_chunk_ids == relevant


def test_a_quote_that_only_repeats_the_question_is_a_near_miss_and_it_is_said() -> None:
    verdict = judged([0.99, 0.2], text="When was the mill built?")
    assert verdict.answer_probability == 0.2
    assert verdict.relevance == {"c0": 0.05, "c1": 0.2}
    assert verdict.retrieval_quality is PARTIAL
    assert verdict.relevant_chunk_ids == ("c0",)
    assert verdict.message == (
        "A near miss (c0: it only repeats the question): 1 relevant chunk (c0). "
        "Not stated for certain: 'When was the mill built?'."
    )
    assert verdict.reasons == ("c0: near miss (0.05): it only repeats the question",)


def test_what_is_probably_there_says_what_it_lacks_in_the_words_of_the_query() -> None:
    verdict = judged([0.7], query="Which batteries do devices of waves have?", text="One battery.")
    assert verdict.message.startswith("The answer is probably there: 1 relevant chunk (c0).")
    assert verdict.reasons == ("c0: probably there (0.70): it does not say 'devices', 'waves'",)


@pytest.mark.parametrize(
    ("query", "lacks"),
    [
        ("Where can I find the manual of the pump?", "it does not say 'manual', 'pump'"),
        ("How often do I need to take tablets?", "it does not say 'tablets'"),
        ("What types of masks do you list?", "it does not say 'masks'"),
    ],
)
def test_words_that_ask_are_not_missed(query: str, lacks: str) -> None:
    assert judged([0.7], query=query).reasons == (f"c0: probably there (0.70): {lacks}",)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Is the shop open on Sunday?", "The shop is open on Sunday."),
        ("Is smoking allowed on the roof?", "Smoking is forbidden on the roof."),
        (QUERY, "The mill was built in 1995."),
        ("Who won the 2018 world cup?", "The 2018 world cup was won by France."),
    ],
)
def test_what_says_more_or_answers_yes_or_no_stays_an_answer(query: str, text: str) -> None:
    assert judged([0.99], query=query, text=text).answer_present


@pytest.mark.parametrize(
    ("first", "second", "expected", "quality"),
    [
        (0.95, 0.97, 0.95, GOOD),  # the lower one
        (0.97, 0.92, 0.92, GOOD),
        (0.97, 0.70, 0.70, PARTIAL),
        (0.97, 0.01, 0.01, PARTIAL),  # it stays on the topic
        (0.40, 0.99, 0.40, POOR),  # what is off the topic is not asked again
    ],
)
def test_of_two_opinions_the_lower_one_counts_and_the_topic_stays(
    first: float, second: float, expected: float, quality: RetrievalQuality
) -> None:
    verdict = judged([first], answered=second)
    assert verdict.answer_probability == verdict.relevance["c0"] == expected
    assert verdict.retrieval_quality is quality
    said = f"c0: near miss ({second:.2f}): it is on the topic, and answers another question"
    assert (said in verdict.reasons) == (first >= 0.9 > second)


def test_what_is_set_by_hand_moves_the_other_threshold() -> None:
    moved = LexicalValidator(present=0.3).limits.thresholds
    assert moved == Thresholds(relevant=0.3, present=0.3)


def test_a_heading_is_quoted_with_the_sentence_below_it() -> None:
    text = "The mill\nIt was built by Ada Krug in 1995. It is closed."
    chunk = Chunk(id="c0", text=text)

    def ask(_: QueryPart) -> list[Finding]:
        return [Finding(chunk=chunk, probability=0.95, spans=[Span(0, 8)])]

    rule = DecisionRule(thresholds=LIMITS)
    verdict = decide(
        "Who built the mill?", inspect_chunks(QUERY, [chunk]), ask, rule, validator="x"
    )
    assert [quote.text for quote in verdict.evidence] == [text[: text.index(" It is")]]


# --- contradictions


def quote(chunk: str, text: str) -> EvidenceQuote:
    return EvidenceQuote(chunk_id=chunk, start=0, end=len(text), text=text)


def evidence(*texts: str) -> list[EvidenceQuote]:
    return [quote(f"c{at}", text) for at, text in enumerate(texts)]


BID = "When {} made a bid to buy Instagram in 2012, many people wondered."
FINAL = "The final is played at the stadium in {}."
TOWNS = "Tampa Florida against Bonn Iowa"
QUARTER = "The first quarter brought {} million in revenue and 3 new offices."
ENDED = "The contract ended in {}."
COVERS = "The warranty {} batteries."
STAFF = "The office in {} people."
CHIEF = "Who is the chief executive?"


@pytest.mark.parametrize(
    ("query", "text", "one", "other", "kind", "detail"),
    [
        ("Who acquired Instagram?", BID, "Facebook", "Apple", "name", "Facebook against Apple"),
        ("Where is the final played?", FINAL, "Tampa, Florida", "Bonn, Iowa", "name", TOWNS),
        ("What was the revenue?", QUARTER, "10", "14", "number", "10 against 14"),
        ("When did the contract end?", ENDED, "2021", "2022", "date", "2021 against 2022"),
        (
            CHIEF,
            "{}",
            "The chief executive is Jane Roe.",
            "Chief executive: John Doe",
            "name",
            "Jane Roe against John Doe",
        ),
        (
            "Does it cover batteries?",
            COVERS,
            "covers",
            "never covers",
            "negation",
            "c0 says what c1 denies",
        ),
    ],
)
def test_what_differs_is_reported(
    query: str, text: str, one: str, other: str, kind: str, detail: str
) -> None:
    [conflict] = find_conflicts(query, evidence(text.format(one), text.format(other)))
    assert (conflict.kind, conflict.detail) == (kind, detail)
    assert (conflict.first.chunk_id, conflict.second.chunk_id) == ("c0", "c1")


@pytest.mark.parametrize(
    ("query", "text", "one", "other"),
    [
        # Names of which one stands in the question separate the subjects.
        ("Who leads it in Oslo?", "The {} office is led by Anna.", "Oslo", "Bergen"),
        # A name and a number differ: two things are spoken of.
        ("How big is the office?", "The {} people.", "Rome office has 40", "Bonn office has 60"),
        ("How big are the offices?", STAFF, "Oslo has a staff of 40", "Bergen has a staff of 60"),
        ("Who wrote it?", "{}", "Anna wrote the book in a summer.", "Critics praised Bo at once."),
        ("Who wrote it?", "{} wrote the book.", "Anna", "Anna"),
    ],
)
def test_what_only_looks_so_is_no_conflict(query: str, text: str, one: str, other: str) -> None:
    conflicts = find_conflicts(query, evidence(text.format(one), text.format(other)))
    assert "name" not in {conflict.kind for conflict in conflicts}
    assert "Rome" not in one or not conflicts


def test_a_chunk_does_not_contradict_itself() -> None:
    quotes = [quote("c", ENDED.format(year)) for year in (2021, 2022)]
    assert find_conflicts("When did the contract end?", quotes) == ()


# --- several questions in one


INSULIN = "What is the function of insulin and where is it produced?"
FUNCTION = "Its function: insulin lets cells take up glucose."
FIRST, SECOND = "What is the function of insulin", "where is it produced? (insulin)"


def in_parts(whole: list[float], second: list[float], other: str) -> Verdict:
    """Of chunks of which the first answers the first part; the second has its own judgements."""
    parts = {FIRST: [0.99, 0], SECOND: second}
    return judged(whole, query=INSULIN, texts=[FUNCTION, other], parts=parts)


def test_a_part_that_only_another_thing_answers_is_not_stated() -> None:
    reactors = "It is produced in reactors."
    verdict = in_parts([0.95, 0.1], [0.02, 0.99], reactors)
    assert verdict.retrieval_quality is PARTIAL
    assert verdict.answer_probability == 0.02
    assert verdict.message.startswith("The answer is there in part: 1 relevant chunk (c0).")
    assert verdict.message.endswith("Not stated for certain: 'where is it produced?'.")


def test_parts_that_two_chunks_state_are_an_answer_that_no_chunk_is_by_itself() -> None:
    verdict = in_parts([0.6, 0.1], [0.02, 0.97], "Insulin is produced in the pancreas.")
    assert verdict.answer_probability == 0.97
    assert verdict.relevant_chunk_ids == ("c0", "c1")


def test_a_whole_that_is_answered_needs_each_part_only_to_be_likely() -> None:
    assert in_parts([0.95, 0.1], [0.5, 0.1], "text").answer_probability == 0.95
    assert in_parts([0.95, 0.1], [0.49, 0.1], "text").answer_probability == 0.49


def test_no_part_stated_is_no_answer_in_part() -> None:
    parts = {FIRST: [0.6], SECOND: [0.7]}
    verdict = judged([0.8], query=INSULIN, text="Insulin in mice.", parts=parts)
    assert verdict.message == (
        "The answer is probably there: 1 relevant chunk (c0). Not stated for certain: "
        "'What is the function of insulin'; 'where is it produced?'."
    )


def test_a_part_that_another_chunk_states_is_quoted_from_it() -> None:
    other = "Insulin is produced in the pancreas."
    verdict = in_parts([0.95, 0.1], [0.02, 0.97], other)
    assert verdict.retrieval_quality is GOOD
    assert verdict.relevant_chunk_ids == ("c0", "c1")
    assert [one.text for one in verdict.evidence] == [FUNCTION, other]


# --- queries that say nothing to look for


@pytest.mark.parametrize(
    "query",
    [
        "it?",
        "that one",
        "What about it?",
        "Tell me more",
        "Who is she?",
        "How big is it?",
        "refund",
    ],
)
@pytest.mark.parametrize("asked_model", [None, 0.99])
def test_an_unclear_query_is_never_answered(query: str, asked_model: float | None) -> None:
    verdict = judged([0.99, 0.2], query=query, answer_probability=asked_model)
    assert [warning.kind for warning in verdict.inspection or ()] == [WarningKind.UNCLEAR_QUERY]
    assert verdict.retrieval_quality is PARTIAL
    assert verdict.answer_probability == 0.05
    assert "c0: the query does not say what it asks about" in verdict.message


@pytest.mark.parametrize(
    "query",
    [
        "What is photosynthesis?",
        "Where is Oslo?",
        "When was it sold in Leeds?",
        "Is there parking?",
        "refund policy",
        "Explain tides",
        "When did this flood begin?",
    ],
)
def test_a_query_with_something_to_look_for_may_be_answered(query: str) -> None:
    verdict = judged([0.99], query=query, text=f"In 1999 it had 7 rooms. {query[:-1]}")
    assert verdict.inspection == ()
    assert verdict.answer_probability > 0.05
