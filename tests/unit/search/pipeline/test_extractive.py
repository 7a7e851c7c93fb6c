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


def details(result: GenerationResult) -> Any:
    return result.metadata


LIGHTHOUSE = "When was the lighthouse built?"


@pytest.mark.parametrize(
    ("query", "contexts", "part", "whole"),
    [
        (LIGHTHOUSE, CONTEXTS, "1901", "The lighthouse was built by Tom Reed in 1901."),
        ("总部位于哪里？", ["总部位于上海。公司成立了。"], "总部位于上海。", "总部位于上海。"),
    ],
)
def test_the_answer_is_the_best_sentence_or_what_of_it_was_asked_for(
    query: str, contexts: list[str], part: str, whole: str
) -> None:
    found = ExtractiveGenerator().generate(query, contexts)
    sentence = ExtractiveGenerator(answer="sentence").generate(query, contexts)
    assert (found.response, found.abstained) == (part, False)
    assert (sentence.response, sentence.abstained) == (whole, False)


def test_the_evidence_is_where_the_answer_stands() -> None:
    part = ExtractiveGenerator().generate(LIGHTHOUSE, CONTEXTS)
    whole = ExtractiveGenerator(answer="sentence").generate(LIGHTHOUSE, CONTEXTS)
    wider, narrow = details(whole)["evidence"], details(part)["evidence"]
    assert narrow["context_index"] == wider["context_index"] == 1
    assert CONTEXTS[1][narrow["start"] : narrow["end"]] == part.response
    assert CONTEXTS[1][wider["start"] : wider["end"]] == whole.response
    assert narrow["sentence"] == {"start": wider["start"], "end": wider["end"]}
    assert details(part)["support"] == details(whole)["support"]
    assert (part.confidence or 0) < (whole.confidence or 0), "a part is less sure than the whole"


def test_candidates_are_different_and_best_first() -> None:
    contexts = ["The gate is red.", "THE GATE IS RED.", "A gate."]
    result = ExtractiveGenerator(max_candidates=2).generate("Is the gate red?", contexts)
    assert result.multi_responses == ["The gate is red.", "A gate."]
    assert result.response == "The gate is red."
    supports = [one["support"] for one in details(result)["candidates"]]
    assert supports == sorted(supports, reverse=True)


@pytest.mark.parametrize(
    ("query", "contexts", "said"),
    [
        *(("Who paints zebras?", given, "I don't know.") for given in ([], [""], ["Nothing."])),
        ("合同何时到期？", [], "我不知道。"),
        ("Wie viele sind es?", [], "Ich weiß es nicht."),
        ("¿Dónde está el puerto?", [], "No lo sé."),
    ],
)
def test_it_abstains_when_nothing_supports_an_answer(
    query: str, contexts: list[str], said: str
) -> None:
    result = ExtractiveGenerator().generate(query, contexts)
    assert (result.response, result.abstained) == (said, True)
    assert result.multi_responses == [said]
    found = details(result)
    assert (found["support"], found["evidence"], found["candidates"]) == (0, None, [])


def test_the_threshold_decides() -> None:
    query = "Who built the enormous harbour bridge across the channel?"
    support = details(ExtractiveGenerator(threshold=0).generate(query, CONTEXTS))["support"]
    assert 0 < support < 1
    assert ExtractiveGenerator(threshold=support).generate(query, CONTEXTS).abstained is False
    above = ExtractiveGenerator(threshold=support + 0.01).generate(query, CONTEXTS)
    assert above.abstained is True
    assert details(above)["candidates"][0]["support"] == support


@pytest.mark.parametrize(("heavy", "wanted"), [("common", "A common thing."), ("zebra", "Zebra.")])
def test_term_weights_can_come_from_a_corpus(heavy: str, wanted: str) -> None:
    generator = ExtractiveGenerator(weight=lambda token: 9.0 if token == heavy else 1.0)
    assert generator.generate("common zebra", ["A common thing.", "Zebra."]).response == wanted


@given(
    st.text(max_size=30),
    st.lists(st.text(max_size=80) | st.text(alphabet="ab 。.\n水果1", max_size=80), max_size=4),
)
def test_every_candidate_is_an_exact_slice(query: str, contexts: list[str]) -> None:
    generator = ExtractiveGenerator(threshold=0)
    result = generator.generate(query, contexts)
    assert result == generator.generate(query, contexts)
    places = details(result)["candidates"]
    slices = [contexts[one["context_index"]][one["start"] : one["end"]] for one in places]
    if result.abstained:
        assert slices == []
    else:
        assert slices == result.multi_responses
        assert result.response == slices[0]


def test_support_is_the_formula() -> None:
    question = parse_question("red apple pie")
    context = "A red apple. A pie. Nothing."
    first, second = rank_sentences(question, [context], lambda _: 1.0)
    # Two of three tokens in it, three of three with its neighbour, one of two pairs.
    assert context[first.start : first.end] == "A red apple."
    assert math.isclose(first.support, (2 * 2 / 3 + 1 + 1 / 2) / 4)
    assert context[second.start : second.end] == "A pie."
    assert math.isclose(second.support, (2 * 1 / 3 + 1 + 0) / 4)


def test_a_question_for_a_number_prefers_a_sentence_with_one() -> None:
    question = parse_question("How many apples?")
    contexts = ["Apples.\n\nX.\n\nFive apples."]
    with_number, without = rank_sentences(question, contexts, lambda _: 1.0)
    assert with_number.start > without.start
    assert math.isclose(without.support, 0.8 * with_number.support)


def test_rare_tokens_weigh_more_by_default_and_of_equals_the_earlier_comes_first() -> None:
    found = rank_sentences(parse_question("apple"), ["An apple.", "An apple."], lambda _: 1.0)
    assert [sentence.context_index for sentence in found] == [0, 1]
    contexts = ["Common zebra.", "Common thing.", "Common place.", "Common rare."]
    found = rank_sentences(parse_question("common zebra"), contexts)
    assert found[0].context_index == 0
    assert found[0].support > 3 * found[1].support
    (nothing,) = rank_sentences(parse_question("pie apple"), ["An apple."], lambda _: 0.0)
    assert nothing.support == 0


TEXTS = st.lists(st.text(alphabet="ab cd.?! \n1é水", max_size=40), max_size=4)


@given(st.text(alphabet="abcd 1é水", max_size=20), TEXTS)
def test_support_stays_in_range_and_falls(query: str, contexts: list[str]) -> None:
    supports = [found.support for found in rank_sentences(parse_question(query), contexts)]
    assert all(0 <= support <= 1 for support in supports)
    assert supports == sorted(supports, reverse=True)


@given(st.floats(0, 1), st.floats(0, 1))
def test_confidence_follows_the_support(low: float, high: float) -> None:
    low, high = sorted((low, high))
    for curve in (RIGHT, RIGHT_SPAN, ANSWERABLE):
        assert 0 < logistic(curve, low) <= logistic(curve, high) < 1


def test_a_long_question_needs_no_more_than_five_rare_words() -> None:
    """Seven words and six pairs; five words and four pairs of them stand in the sentence."""
    question = parse_question("alpha beta gamma delta epsilon zeta eta")
    (found,) = rank_sentences(question, ["Alpha beta gamma delta epsilon."], lambda _: 1.0)
    assert math.isclose(found.support, (2 * 1 + 1 + 4 / 5) / 4)
