"""What a word is worth, and where no word is."""

from collections.abc import Sequence

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import AnswerWord, AnswerWorth, RetrievalQuality, Verdict
from ragbench.text.sentences import Span
from ragbench.validators.calibration import DecisionRule, Thresholds
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.verdict import Finding, decide
from ragbench.validators.worth import WordLimit, shipped_worth, unreliable

QUERY = "When was the mill built?"


def limit(word: AnswerWord, at_least: float, share: float) -> WordLimit:
    """A word from this probability on, which is true in this share of cases."""
    return WordLimit(
        word=word,
        at_least=at_least,
        share=share,
        low=share - 0.1,
        high=share + 0.1,
        pools=50,
    )


WORDS = (
    limit(AnswerWord.YES, 0.8, 0.9),
    limit(AnswerWord.LIKELY, 0.5, 0.7),
    limit(AnswerWord.NO, 0.0, 0.1),
)


def judged(
    probability: float,
    *,
    present: float = 0.8,
    labels: int = 0,
    words: Sequence[WordLimit] = WORDS,
    query: str = QUERY,
    text: str = "It was built in 1743.",
) -> Verdict:
    chunk = Chunk(id="a", text=text)
    finding = Finding(chunk=chunk, probability=probability, spans=[Span(0, len(text))])
    rule = DecisionRule(
        thresholds=Thresholds(relevant=0.4, present=present),
        words=tuple(words),
        labels=labels,
        withholds=True,
    )
    inspected = inspect_chunks(query, [chunk])
    return decide(query, inspected, lambda _: [finding], rule, validator="x")


@pytest.mark.parametrize(
    ("probability", "word"),
    [
        (0.9, "yes"),
        (0.8, "yes"),
        (0.79, "likely"),
        (0.5, "likely"),
        (0.49, "no"),
        (0, "no"),
    ],
)
def test_a_word_begins_at_its_probability(probability: float, word: str) -> None:
    verdict = judged(probability)

    assert verdict.answer_word == word
    assert verdict.answer_present is (word == "yes")


def test_beside_the_word_is_how_often_it_was_true() -> None:
    verdict = judged(0.6)

    assert str(verdict.answer_worth) == "70 % (60 to 80 by domain), not calibrated on your data"


def test_after_a_calibration_the_probability_is_the_share() -> None:
    worth = judged(0.63, labels=20).answer_worth

    assert worth == AnswerWorth(share=0.63, labels=20)
    assert str(worth) == "63 %, calibrated on 20 labels of yours"


def test_a_no_by_a_stricter_threshold_of_the_user_is_likely_at_most() -> None:
    verdict = judged(0.9, present=0.95)

    assert not verdict.answer_present
    assert verdict.answer_word is AnswerWord.LIKELY
    assert verdict.answer_worth is not None
    assert verdict.answer_worth.share == 0.9


def test_a_validator_without_measured_words_says_none() -> None:
    verdict = judged(0.9, words=())

    assert verdict.answer_present
    assert verdict.answer_word is None
    assert verdict.answer_worth is None


TABLE = """\
| in millions | 2020 | 2021 |
|---|---|---|
| Net sales | 1,234 | 1,100 |
| Costs | (900) | (800) |
| Profit | 334 | 300 |
"""


@pytest.mark.parametrize(
    ("query", "text", "why"),
    [
        ("What were net sales?", TABLE, "the answer would be in a table of figures"),
        ("My mill is old. When was it built?", "In 1743.", "the question has several sentences"),
    ],
)
def test_where_a_yes_is_worth_little_there_is_none(query: str, text: str, why: str) -> None:
    verdict = judged(0.99, query=query, text=text)

    assert not verdict.answer_present
    assert verdict.answer_word is AnswerWord.NOT_JUDGED
    assert verdict.answer_worth is None
    assert verdict.retrieval_quality is RetrievalQuality.PARTIAL
    assert f"not judged reliably: {why}" in verdict.reasons


def test_a_no_on_a_table_stays_a_no() -> None:
    verdict = judged(0.1, text=TABLE)

    assert verdict.answer_word is AnswerWord.NO


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        "Net sales $ 1,234 $ 1,100\nCosts (900) (800)\nProfit 334 300\nTax 12 % 11 %",
        "Net sales\n1,234\n1,100\n\nCosts\n(900)\n(800)",
        "<tr><td>A</td><td>12</td><td>11</td></tr>\n" * 4,
    ],
)
def test_rows_that_end_with_figures_are_a_table(text: str) -> None:
    assert unreliable(QUERY, text, [Span(0, len(text))])


@pytest.mark.parametrize(
    "text",
    [
        "In 1995 it had 20 mills.\nIn 1996 it had 30, and 40 in 1997.\nThen it closed.",
        "| Name | Ada |\n| Born | 1815 |\n",
        "1. Open it.\n2. Close it.\n",
        "office;seats;floor\nOslo;45;3\nBergen;20;1",
        "Reception\t+47 55 01 02\nGarage\t+47 55 01 09",
    ],
)
def test_prose_lists_and_a_few_short_rows_are_no_table(text: str) -> None:
    assert not unreliable(QUERY, text, [Span(0, len(text))])


def test_a_sentence_beside_a_table_is_not_in_it() -> None:
    sentence = "The mill was built in 1743."
    text = f"{sentence}\n\nIt made cloth.\n\n{TABLE}"

    assert not unreliable(QUERY, text, [Span(0, len(sentence))])


@pytest.mark.parametrize("query", ["Good morning! When was it built?", "What did Dr. Bell build?"])
def test_a_greeting_or_a_title_is_no_sentence(query: str) -> None:
    assert not unreliable(query, "In 1743.", [Span(0, 8)])


def test_several_questions_are_judged_one_by_one() -> None:
    query = "Who built the mill? When was it sold?"

    verdict = judged(0.99, query=query, text="Bell built the mill and sold it in 1743.")

    assert verdict.answer_present


@pytest.mark.parametrize("name", ["local", "lexical"])
def test_the_words_that_ship_fall_with_their_worth(name: str) -> None:
    worth = shipped_worth(name)

    shares = [word.share for word in worth.words]
    assert shares == sorted(shares, reverse=True)
    assert worth.words[-1].at_least == 0
    for word in worth.words:
        assert word.low <= word.share <= word.high


def test_a_yes_of_the_reader_begins_where_its_word_does() -> None:
    worth = shipped_worth("local")

    yes = worth.words[0]
    assert yes.word is AnswerWord.YES
    assert yes.at_least == worth.present
    assert yes.share >= 0.85


def test_the_worth_is_part_of_the_verdict_of_a_built_validator() -> None:
    validator = build_validator("lexical")
    chunk = Chunk(id="a", text="The company was founded in 1995.")

    verdict = validator.validate("What year was the company founded?", [chunk])

    assert verdict.answer_worth is not None
    assert verdict.answer_worth.labels == 0
