import math

from hypothesis import given
from hypothesis import strategies as st

from ragbench.pipeline.extractive import (
    abstention_confidence,
    answer_confidence,
    rank_sentences,
)
from ragbench.text.question import parse_question


def one(_: str) -> float:
    return 1.0


def test_support_is_the_formula() -> None:
    question = parse_question("red apple pie")
    context = "A red apple. A pie. Nothing."
    first, second = rank_sentences(question, [context], one)
    # Two of three tokens in it, three of three with its neighbour, one of two pairs.
    assert context[first.start : first.end] == "A red apple."
    assert math.isclose(first.support, (2 * 2 / 3 + 1 + 1 / 2) / 4)
    assert context[second.start : second.end] == "A pie."
    assert math.isclose(second.support, (2 * 1 / 3 + 1 + 0) / 4)


def test_a_question_for_a_number_prefers_a_sentence_with_one() -> None:
    question = parse_question("How many apples?")
    with_number, without = rank_sentences(question, ["Apples.\n\nX.\n\nFive apples."], one)
    assert with_number.start > without.start
    assert math.isclose(without.support, 0.8 * with_number.support)


def test_equal_support_goes_to_the_earlier_context() -> None:
    found = rank_sentences(parse_question("apple"), ["An apple.", "An apple."], one)
    assert [sentence.context_index for sentence in found] == [0, 1]


def test_rare_tokens_weigh_more_by_default() -> None:
    contexts = ["Common zebra.", "Common thing.", "Common place.", "Common rare."]
    found = rank_sentences(parse_question("common zebra"), contexts)
    assert found[0].context_index == 0
    assert found[0].support > 3 * found[1].support


def test_weights_of_nothing_support_nothing() -> None:
    (found,) = rank_sentences(parse_question("pie apple"), ["An apple."], lambda _: 0.0)
    assert found.support == 0


TEXTS = st.lists(st.text(alphabet="ab cd.?! \n1é水", max_size=40), max_size=4)


@given(st.text(alphabet="abcd 1é水", max_size=20), TEXTS)
def test_support_stays_in_range_and_falls(query: str, contexts: list[str]) -> None:
    supports = [found.support for found in rank_sentences(parse_question(query), contexts)]
    assert all(0 <= support <= 1 for support in supports)
    assert supports == sorted(supports, reverse=True)


@given(st.floats(0, 1), st.floats(0, 1))
def test_confidence_follows_the_support(low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert 0 < answer_confidence(low) <= answer_confidence(high) < 1
    assert 0 < abstention_confidence(high) <= abstention_confidence(low) < 1


def test_a_long_question_needs_no_more_than_five_rare_words() -> None:
    """Seven words and six pairs; five words and four pairs of them stand in the sentence."""
    question = parse_question("alpha beta gamma delta epsilon zeta eta")
    (found,) = rank_sentences(question, ["Alpha beta gamma delta epsilon."], one)
    assert math.isclose(found.support, (2 * 1 + 1 + 4 / 5) / 4)
