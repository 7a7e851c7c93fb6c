"""Whether a passage of the right document lacks the answer."""

from __future__ import annotations

import pytest

from ragbench.metrics.passage import is_heading, lacks_answer, states_any

QUESTION = "How many days of paid leave do I get?"
FULL = "You get 27 days of paid leave in a calendar year."
OTHER = "Ask your manager at least two weeks before you travel."


def test_a_passage_that_quotes_the_answer_does_not_lack_it() -> None:
    assert not lacks_answer(QUESTION, ["27 days"], FULL)


def test_another_passage_of_the_document_lacks_it() -> None:
    assert lacks_answer(QUESTION, ["27 days"], OTHER)


@pytest.mark.parametrize("heading", ["Paid leave", "## Paid leave", "How many days of paid leave"])
def test_a_heading_lacks_it_though_it_has_the_words_of_the_question(heading: str) -> None:
    assert lacks_answer(QUESTION, ["27 days"], heading)


@pytest.mark.parametrize("text", ["Leave: twenty-seven days.", "Leave is 27 days long."])
def test_an_amount_in_another_form_is_the_answer(text: str) -> None:
    assert not lacks_answer(QUESTION, ["27 days"], text)


def test_another_amount_is_not_the_answer() -> None:
    assert lacks_answer("When does the canteen close?", ["15:30"], "Coffee is served from 9:00.")


def test_a_passage_on_the_question_may_give_the_answer_in_other_words() -> None:
    text = "What must be worn on the building site is protective headgear."

    assert not lacks_answer("What must be worn on the building site?", ["a hard hat"], text)


@pytest.mark.parametrize("reference", ["yes", "no", "", "paid leave"])
def test_a_reference_that_says_nothing_new_cannot_be_missed(reference: str) -> None:
    assert not lacks_answer(QUESTION, [reference], OTHER)


def test_a_passage_in_another_language_cannot_be_judged() -> None:
    text = "Bitte sprechen Sie mit der Leitung, bevor Sie in den Urlaub fahren und nicht danach."

    assert not lacks_answer("Who is asked before one goes on leave?", ["the line manager"], text)


def test_a_heading_in_another_script_cannot_be_judged() -> None:
    assert not lacks_answer("假期有多长？", ["二十七天"], "Paid leave")


def test_one_of_several_references_is_enough() -> None:
    assert not lacks_answer(QUESTION, ["27 days", "two weeks"], OTHER)


def test_a_long_reference_that_is_partly_there_may_be_there_in_other_words() -> None:
    reference = (
        "Ask your manager two weeks before; the staff office books tickets, hotels, visas and "
        "insurance, and pays allowances abroad"
    )

    assert not lacks_answer("How do I travel?", [reference], f"{OTHER} The office books hotels.")


def test_a_text_without_words_is_no_passage() -> None:
    assert not lacks_answer(QUESTION, ["27 days"], " \n")


def test_the_answer_is_found_in_any_text() -> None:
    assert states_any(FULL, ["27 days"])
    assert not states_any(OTHER, ["27 days"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paid leave", True),
        ("# 3.2 Paid leave and holidays", True),
        ("You get 27 days.", False),
        ("", False),
        ("word " * 13, False),
    ],
)
def test_a_heading_is_a_few_words_that_are_no_sentence(text: str, expected: bool) -> None:
    assert is_heading(text) is expected
