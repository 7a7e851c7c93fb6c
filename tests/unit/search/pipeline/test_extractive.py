"""Answers that are sentences of the contexts, or parts of them; and when there is none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import GenerationResult
from ragbench.search.pipeline.extractive import (
    ANSWERABLE,
    RIGHT,
    RIGHT_SPAN,
    ExtractiveGenerator,
    logistic,
    rank_sentences,
)
from ragbench.text.question import parse_question

CONTEXTS = [
    "The harbour opened in 1887. It was built by Ada Moran. Ships came from everywhere.",
    "The lighthouse stands on the northern cliff. The lighthouse was built by Tom Reed in 1901.",
]


LIGHTHOUSE = "When was the lighthouse built?"


def details(result: GenerationResult) -> Any:
    return result.metadata


@pytest.mark.parametrize(
    ("query", "contexts", "part", "sentence"),
    [
        pytest.param(
            LIGHTHOUSE,
            CONTEXTS,
            "1901",
            "The lighthouse was built by Tom Reed in 1901.",
            id="a date of a sentence",
        ),
        pytest.param(
            "总部位于哪里？",
            ["总部位于上海。公司成立了。"],
            "总部位于上海。",
            "总部位于上海。",
            id="a whole sentence",
        ),
    ],
)
def test_the_answer_is_the_best_sentence_or_what_of_it_was_asked_for(
    query: str, contexts: list[str], part: str, sentence: str
) -> None:
    by_part = ExtractiveGenerator().generate(query, contexts)
    by_sentence = ExtractiveGenerator(answer="sentence").generate(query, contexts)

    assert by_part.response == part
    assert not by_part.abstained
    assert by_sentence.response == sentence
    assert not by_sentence.abstained


# --- where an answer stands


def test_the_evidence_is_where_the_sentence_stands() -> None:
    result = ExtractiveGenerator(answer="sentence").generate(LIGHTHOUSE, CONTEXTS)

    evidence = details(result)["evidence"]
    assert evidence["context_index"] == 1
    text = CONTEXTS[1][evidence["start"] : evidence["end"]]
    assert text == "The lighthouse was built by Tom Reed in 1901."


def test_the_evidence_of_a_part_is_where_it_and_its_sentence_stand() -> None:
    result = ExtractiveGenerator().generate(LIGHTHOUSE, CONTEXTS)

    evidence = details(result)["evidence"]
    assert evidence["context_index"] == 1
    assert CONTEXTS[1][evidence["start"] : evidence["end"]] == "1901"
    sentence = evidence["sentence"]
    text = CONTEXTS[1][sentence["start"] : sentence["end"]]
    assert text == "The lighthouse was built by Tom Reed in 1901."


def test_a_part_has_the_support_of_its_sentence_and_less_confidence() -> None:
    part = ExtractiveGenerator().generate(LIGHTHOUSE, CONTEXTS)
    sentence = ExtractiveGenerator(answer="sentence").generate(LIGHTHOUSE, CONTEXTS)

    assert details(part)["support"] == details(sentence)["support"]
    assert part.confidence is not None
    assert sentence.confidence is not None
    assert part.confidence < sentence.confidence


def test_candidates_are_different_and_best_first() -> None:
    contexts = ["The gate is red.", "THE GATE IS RED.", "A gate."]

    result = ExtractiveGenerator(max_candidates=2).generate("Is the gate red?", contexts)

    assert result.response == "The gate is red."
    assert result.multi_responses == ["The gate is red.", "A gate."]
    first_candidate, second_candidate = details(result)["candidates"]
    assert first_candidate["support"] >= second_candidate["support"]


# --- when it abstains


@pytest.mark.parametrize(
    ("query", "contexts", "response"),
    [
        ("Who paints zebras?", [], "I don't know."),
        ("Who paints zebras?", [""], "I don't know."),
        ("Who paints zebras?", ["Nothing."], "I don't know."),
        ("合同何时到期？", [], "我不知道。"),
        ("Wie viele sind es?", [], "Ich weiß es nicht."),
        ("¿Dónde está el puerto?", [], "No lo sé."),
    ],
)
def test_it_abstains_when_nothing_supports_an_answer(
    query: str, contexts: list[str], response: str
) -> None:
    result = ExtractiveGenerator().generate(query, contexts)

    assert result.abstained
    assert result.response == response
    assert result.multi_responses == [response]
    assert details(result)["support"] == 0
    assert details(result)["evidence"] is None
    assert details(result)["candidates"] == []


BRIDGE = "Who built the enormous harbour bridge across the channel?"


def test_an_answer_of_just_the_support_that_is_asked_for_is_given() -> None:
    support = details(ExtractiveGenerator(threshold=0).generate(BRIDGE, CONTEXTS))["support"]

    result = ExtractiveGenerator(threshold=support).generate(BRIDGE, CONTEXTS)

    assert 0 < support < 1
    assert not result.abstained


def test_below_the_threshold_it_abstains_and_shows_what_it_had() -> None:
    support = details(ExtractiveGenerator(threshold=0).generate(BRIDGE, CONTEXTS))["support"]

    result = ExtractiveGenerator(threshold=support + 0.01).generate(BRIDGE, CONTEXTS)

    assert result.abstained
    assert details(result)["candidates"][0]["support"] == support


@pytest.mark.parametrize(
    ("heavy_word", "answer"), [("common", "A common thing."), ("zebra", "Zebra.")]
)
def test_term_weights_can_come_from_a_corpus(heavy_word: str, answer: str) -> None:
    generator = ExtractiveGenerator(weight=lambda token: 9.0 if token == heavy_word else 1.0)

    result = generator.generate("common zebra", ["A common thing.", "Zebra."])

    assert result.response == answer


ANY_CONTEXTS = st.lists(
    st.text(max_size=80) | st.text(alphabet="ab 。.\n水果1", max_size=80), max_size=4
)


@given(st.text(max_size=30), ANY_CONTEXTS)
def test_every_candidate_is_an_exact_slice(query: str, contexts: list[str]) -> None:
    generator = ExtractiveGenerator(threshold=0)

    result = generator.generate(query, contexts)

    assert generator.generate(query, contexts) == result
    slices: list[str] = []
    for candidate in details(result)["candidates"]:
        context = contexts[candidate["context_index"]]
        slices.append(context[candidate["start"] : candidate["end"]])
    if result.abstained:
        assert slices == []
    else:
        assert slices == result.multi_responses
        assert result.response == slices[0]


# --- support: (2 * tokens in the sentence + tokens with its neighbours + pairs) / 4, as shares


def equal_weight(token: str) -> float:
    return 1.0


def test_support_is_the_formula() -> None:
    question = parse_question("red apple pie")
    context = "A red apple. A pie. Nothing."

    apple, pie = rank_sentences(question, [context], equal_weight)

    # Two of three tokens in it, three of three with its neighbour, one of two pairs.
    assert context[apple.start : apple.end] == "A red apple."
    assert math.isclose(apple.support, (2 * 2 / 3 + 1 + 1 / 2) / 4)
    # One of three tokens in it, three of three with its neighbours, no pair.
    assert context[pie.start : pie.end] == "A pie."
    assert math.isclose(pie.support, (2 * 1 / 3 + 1 + 0) / 4)


def test_a_long_question_needs_no_more_than_five_rare_words() -> None:
    question = parse_question("alpha beta gamma delta epsilon zeta eta")

    (sentence,) = rank_sentences(question, ["Alpha beta gamma delta epsilon."], equal_weight)

    # Five words of seven are enough for all; of five words four pairs stand in the sentence.
    assert math.isclose(sentence.support, (2 * 1 + 1 + 4 / 5) / 4)


def test_a_question_for_a_number_prefers_a_sentence_with_one() -> None:
    question = parse_question("How many apples?")

    with_number, without = rank_sentences(question, ["Apples.\n\nX.\n\nFive apples."], equal_weight)

    assert with_number.start > without.start
    assert math.isclose(without.support, 0.8 * with_number.support)


def test_of_equal_sentences_the_earlier_comes_first() -> None:
    contexts = ["An apple.", "An apple."]

    sentences = rank_sentences(parse_question("apple"), contexts, equal_weight)

    assert [sentence.context_index for sentence in sentences] == [0, 1]


def test_rare_tokens_weigh_more_by_default() -> None:
    contexts = ["Common zebra.", "Common thing.", "Common place.", "Common rare."]

    best, second, *_ = rank_sentences(parse_question("common zebra"), contexts)

    assert best.context_index == 0
    assert best.support > 3 * second.support


def test_words_that_weigh_nothing_support_nothing() -> None:
    (sentence,) = rank_sentences(parse_question("pie apple"), ["An apple."], lambda _: 0.0)

    assert sentence.support == 0


TEXTS = st.lists(st.text(alphabet="ab cd.?! \n1é水", max_size=40), max_size=4)


@given(st.text(alphabet="abcd 1é水", max_size=20), TEXTS)
def test_support_stays_in_range_and_falls(query: str, contexts: list[str]) -> None:
    sentences = rank_sentences(parse_question(query), contexts)

    supports = [sentence.support for sentence in sentences]
    assert supports == sorted(supports, reverse=True)
    for support in supports:
        assert 0 <= support <= 1


@pytest.mark.parametrize(
    "curve", [RIGHT, RIGHT_SPAN, ANSWERABLE], ids=["right", "right span", "answerable"]
)
@given(st.floats(0, 1), st.floats(0, 1))
def test_confidence_follows_the_support(curve: Any, support: float, second_support: float) -> None:
    low, high = sorted((support, second_support))

    assert 0 < logistic(curve, low) <= logistic(curve, high) < 1
