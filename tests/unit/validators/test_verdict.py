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
    **options: Any,
) -> Verdict:
    """The verdict on chunks c0, c1, ... of these probabilities, each quoted whole.

    Args:
        text: of every chunk, with its number in place of "{}"; ``texts`` are those of each.
        answered: how sure a second opinion is that a chunk answers.
        parts: other probabilities of the chunks, by the part of the query that is asked about.
    """
    if texts is None:
        texts = [text.format(number) for number in range(len(probabilities))]
    chunks = [Chunk(id=f"c{number}", text=text) for number, text in enumerate(texts)]
    probabilities_of_part = parts or {}

    def ask(part: QueryPart) -> list[Finding]:
        of_part = probabilities_of_part.get(part.question, probabilities)
        findings: list[Finding] = []
        for chunk, probability in zip(chunks, of_part, strict=True):
            finding = Finding(
                chunk=chunk,
                probability=probability,
                spans=[Span(0, len(chunk.text))],
                answered=answered,
            )
            findings.append(finding)
        return findings

    rule = DecisionRule(scale=PlattScale(), thresholds=thresholds, slots=SLOTS)
    inspected = inspect_chunks(query, chunks)
    return decide(query, inspected, ask, rule, validator="x", **options)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_rating_can_be_reached_with_the_shipped_weights(name: str) -> None:
    weights = shipped_weights(name, SHIPPED[name])
    limits = Thresholds(relevant=weights.relevant, present=weights.worth.present)

    ratings: list[RetrievalQuality] = []
    for step in range(-80, 81):
        probability = weights.probability(step / 10)
        verdict = judged([probability], limits)
        assert verdict.relevance["c0"] == verdict.answer_probability
        ratings.append(verdict.retrieval_quality)

    # In this order, and each rating in one stretch.
    assert list(dict.fromkeys(ratings)) == [POOR, PARTIAL, GOOD]


LIMIT = st.floats(0.01, 0.99)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), LIMIT, LIMIT)
def test_the_best_chunk_is_the_answers_probability(
    probabilities: list[float], limit: float, second_limit: float
) -> None:
    relevant, present = sorted((limit, second_limit))
    limits = Thresholds(relevant=relevant, present=present)

    verdict = judged(probabilities, limits)

    assert verdict.answer_probability == max(verdict.relevance.values())
    assert verdict.answer_present == (max(probabilities) >= limits.present)
    assert bool(verdict.relevant_chunk_ids) == (max(probabilities) >= limits.relevant)


def test_beside_an_answer_only_answers_are_relevant() -> None:
    with_answers = judged([0.6, 0.95, 0.9, 0.89, 0.1])
    without_answer = judged([0.6, 0.89, 0.1])
    off_the_topic = judged([0.4, 0.3])

    assert with_answers.relevant_chunk_ids == ("c1", "c2")
    # Without one, what might be one is.
    assert without_answer.relevant_chunk_ids == ("c1", "c0")
    assert off_the_topic.relevant_chunk_ids == ()


def test_an_answer_that_no_single_chunk_is_sure_of_is_in_the_best_ones() -> None:
    two_on_the_topic = judged([0.6, 0.2, 0.7], answer_probability=0.99)
    none_on_the_topic = judged([0.1, 0.2, 0.3], answer_probability=0.99)

    assert two_on_the_topic.retrieval_quality is GOOD
    assert two_on_the_topic.relevant_chunk_ids == ("c2", "c0")
    assert none_on_the_topic.retrieval_quality is GOOD
    assert none_on_the_topic.relevant_chunk_ids == ("c2",)


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
    query = "Which batteries do devices of waves have?"

    verdict = judged([0.7], query=query, text="One battery.")

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
    verdict = judged([0.7], query=query)

    assert verdict.reasons == (f"c0: probably there (0.70): {lacks}",)


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
    verdict = judged([0.99], query=query, text=text)

    assert verdict.answer_present


@pytest.mark.parametrize(
    ("opinion", "second_opinion", "expected", "quality"),
    [
        (0.95, 0.97, 0.95, GOOD),  # the lower one
        (0.97, 0.92, 0.92, GOOD),
        (0.97, 0.70, 0.70, PARTIAL),
        (0.97, 0.01, 0.01, PARTIAL),  # it stays on the topic
        (0.40, 0.99, 0.40, POOR),  # what is off the topic is not asked again
    ],
)
def test_of_two_opinions_the_lower_one_counts_and_the_topic_stays(
    opinion: float, second_opinion: float, expected: float, quality: RetrievalQuality
) -> None:
    verdict = judged([opinion], answered=second_opinion)

    assert verdict.answer_probability == expected
    assert verdict.relevance["c0"] == expected
    assert verdict.retrieval_quality is quality
    reason = (
        f"c0: near miss ({second_opinion:.2f}): it is on the topic, and answers another question"
    )
    only_the_second_doubts = opinion >= 0.9 > second_opinion
    assert (reason in verdict.reasons) == only_the_second_doubts


def test_what_is_set_by_hand_moves_the_other_threshold() -> None:
    validator = LexicalValidator(present=0.3)

    assert validator.limits.thresholds == Thresholds(relevant=0.3, present=0.3)


def test_a_heading_is_quoted_with_the_sentence_below_it() -> None:
    heading = "The mill"
    sentence = "It was built by Ada Krug in 1995."
    chunk = Chunk(id="c0", text=f"{heading}\n{sentence} It is closed.")

    def find_the_heading(_: QueryPart) -> list[Finding]:
        return [Finding(chunk=chunk, probability=0.95, spans=[Span(0, len(heading))])]

    inspected = inspect_chunks(QUERY, [chunk])
    rule = DecisionRule(thresholds=LIMITS)
    verdict = decide("Who built the mill?", inspected, find_the_heading, rule, validator="x")

    assert [quote.text for quote in verdict.evidence] == [f"{heading}\n{sentence}"]


# --- contradictions


def quote(chunk: str, text: str) -> EvidenceQuote:
    return EvidenceQuote(chunk_id=chunk, start=0, end=len(text), text=text)


def evidence(*texts: str) -> list[EvidenceQuote]:
    """A quote of each text, from the chunks c0, c1, ..."""
    return [quote(f"c{number}", text) for number, text in enumerate(texts)]


BID = "When {} made a bid to buy Instagram in 2012, many people wondered."
FINAL = "The final is played at the stadium in {}."
TOWNS = "Tampa Florida against Bonn Iowa"
QUARTER = "The first quarter brought {} million in revenue and 3 new offices."
ENDED = "The contract ended in {}."
COVERS = "The warranty {} batteries."
STAFF = "The office in {} people."
CHIEF = "Who is the chief executive?"


@pytest.mark.parametrize(
    ("query", "text", "words", "other_words", "kind", "detail"),
    [
        (
            "Who acquired Instagram?",
            BID,
            "Facebook",
            "Apple",
            "name",
            "Facebook against Apple",
        ),
        (
            "Where is the final played?",
            FINAL,
            "Tampa, Florida",
            "Bonn, Iowa",
            "name",
            TOWNS,
        ),
        (
            "What was the revenue?",
            QUARTER,
            "10",
            "14",
            "number",
            "10 against 14",
        ),
        (
            "When did the contract end?",
            ENDED,
            "2021",
            "2022",
            "date",
            "2021 against 2022",
        ),
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
    query: str, text: str, words: str, other_words: str, kind: str, detail: str
) -> None:
    quotes = evidence(text.format(words), text.format(other_words))

    (conflict,) = find_conflicts(query, quotes)

    assert conflict.kind == kind
    assert conflict.detail == detail
    assert conflict.first.chunk_id == "c0"
    assert conflict.second.chunk_id == "c1"


@pytest.mark.parametrize(
    ("query", "text", "words", "other_words"),
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
def test_what_only_looks_so_is_no_conflict(
    query: str, text: str, words: str, other_words: str
) -> None:
    quotes = evidence(text.format(words), text.format(other_words))

    conflicts = find_conflicts(query, quotes)

    assert "name" not in {conflict.kind for conflict in conflicts}
    if "Rome" in words:
        assert not conflicts


def test_a_chunk_does_not_contradict_itself() -> None:
    quotes = [quote("c", ENDED.format(2021)), quote("c", ENDED.format(2022))]

    assert find_conflicts("When did the contract end?", quotes) == ()


# --- several questions in one


INSULIN = "What is the function of insulin and where is it produced?"
FUNCTION = "Its function: insulin lets cells take up glucose."
FIRST_PART = "What is the function of insulin"
SECOND_PART = "where is it produced? (insulin)"


def in_parts(whole: list[float], second_part: list[float], second_text: str) -> Verdict:
    """Of two chunks, of which the first answers the first part of the query.

    Args:
        whole: the probabilities of the chunks by the whole query.
        second_part: those by its second part.
        second_text: of the second chunk.
    """
    parts = {FIRST_PART: [0.99, 0], SECOND_PART: second_part}
    return judged(whole, query=INSULIN, texts=[FUNCTION, second_text], parts=parts)


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
    likely = in_parts([0.95, 0.1], [0.5, 0.1], "text")
    unlikely = in_parts([0.95, 0.1], [0.49, 0.1], "text")

    assert likely.answer_probability == 0.95
    assert unlikely.answer_probability == 0.49


def test_no_part_stated_is_no_answer_in_part() -> None:
    parts = {FIRST_PART: [0.6], SECOND_PART: [0.7]}

    verdict = judged([0.8], query=INSULIN, text="Insulin in mice.", parts=parts)

    assert verdict.message == (
        "The answer is probably there: 1 relevant chunk (c0). Not stated for certain: "
        "'What is the function of insulin'; 'where is it produced?'."
    )


def test_a_part_that_another_chunk_states_is_quoted_from_it() -> None:
    pancreas = "Insulin is produced in the pancreas."

    verdict = in_parts([0.95, 0.1], [0.02, 0.97], pancreas)

    assert verdict.retrieval_quality is GOOD
    assert verdict.relevant_chunk_ids == ("c0", "c1")
    assert [quote.text for quote in verdict.evidence] == [FUNCTION, pancreas]


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

    assert verdict.inspection is not None
    (warning,) = verdict.inspection
    assert warning.kind is WarningKind.UNCLEAR_QUERY
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
    query_without_its_mark = query[:-1]

    verdict = judged([0.99], query=query, text=f"In 1999 it had 7 rooms. {query_without_its_mark}")

    assert verdict.inspection == ()
    assert verdict.answer_probability > 0.05
