"""Other questions: which are asked, and when one of them is answered better."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.text.sentences import Span
from ragbench.validators.contrast import OtherQuestion, Told, other_questions, told_of_another
from ragbench.validators.local import LocalValidator

MILL = "The old mill in Tarn was built by Anna Reed in 1810."


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("Why was it made?", ["When was it made?", "Where was it made?", "How was it made?"]),
        ("when is it open", ["where is it open", "why is it open", "how is it open"]),
        ("Who made the first mill?", ["Who made the last mill?"]),
        ("Did prices increase?", ["Did prices decrease?"]),
        ("How many mills are there?", []),
        ("Who won, the south or the north?", ["Who lost, the south or the north?"]),
        ("Whose last name is Reed?", []),
        ("Who made it?", []),
        ("", []),
    ],
)
def test_one_word_differs(query: str, texts: list[str]) -> None:
    assert [one.text for one in other_questions(query)] == texts


def test_the_first_question_that_is_answered_better_by_its_margin_objects() -> None:
    questions = [OtherQuestion("a?", 1.0), OtherQuestion("b?", 0.5)]
    said = {"a?": Told(3.0, Span(0, 4)), "b?": Told(2.6, Span(3, 6))}
    found = told_of_another(questions, Told(2.0, Span(0, 4)), said.__getitem__)
    assert found is not None
    assert (found.kind, found.text) == ("other question", "it rather answers 'b?'")
    # Just the margin is not more.
    assert told_of_another(questions, Told(2.1, Span(0, 4)), said.__getitem__) is None


def test_other_words_may_answer_another_question_as_well() -> None:
    questions = [OtherQuestion("where?", 1.0)]
    place = Told(9.0, Span(10, 14))
    assert told_of_another(questions, Told(2.0, Span(0, 10)), lambda _: place) is None
    assert told_of_another(questions, Told(2.0, Span(14, 20)), lambda _: place) is None
    assert told_of_another(questions, Told(2.0, Span(0, 11)), lambda _: place) is not None


@pytest.mark.parametrize(
    ("query", "present"),
    [
        ("When was the old mill in Tarn built?", True),
        ("Why was the old mill in Tarn built?", False),
    ],
)
def test_a_time_is_no_reason(query: str, present: bool) -> None:
    found = LocalValidator().validate(query, [Chunk(id="mill", text=MILL)])
    assert found.answer_present is present
    reasons = " ".join(found.reasons)
    assert ("it rather answers 'When was the old mill in Tarn built?'" in reasons) is not present


@given(st.text(max_size=80))
def test_any_question_is_taken(query: str) -> None:
    assert all(one.text != query and one.margin > 0 for one in other_questions(query))
