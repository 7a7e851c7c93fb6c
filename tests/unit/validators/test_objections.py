"""Checks of the text alone: what they object to, and what they let pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.sentences import Span
from ragbench.validators.objections import object_to, without_echo

FOUNDED = "When was the company founded?"


@pytest.mark.parametrize(
    ("query", "text", "kind"),
    [
        (FOUNDED, "The founding year of the company is unknown.", "unknown"),
        (FOUNDED, "Nobody knows when the company was founded.", "unknown"),
        ("What is the price of the X200?", "Its price is available on request.", "unknown"),
        ("Who won the 2018 world cup?", "France won the 1998 world cup.", "number"),
        ("What does the 40 litre tank cost?", "The 60 litre tank costs 90 euros.", "number"),
        ("How much aspirin may children take?", "Adults may take 500 mg of aspirin.", "opposite"),
        ("When was the first tower built?", "The last tower was built in 1950.", "opposite"),
    ],
)
def test_near_misses_are_objected_to(query: str, text: str, kind: str) -> None:
    found = object_to(query, text, Span(0, len(text)))
    assert found is not None
    assert found.kind == kind
    assert found.text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Who won the 2018 world cup?", "France won the 2018 world cup."),
        ("When does the museum open?", "The museum opens at 11 am."),
        ("Which port does the server use?", "The server listens on port 9443."),
        ("Who may approve a purchase?", "Only department heads may approve a purchase."),
        ("How many died?", "The exact number is not known; about 500 died."),
        ("Is the dose unknown?", "The dose is unknown."),
        ("What did the 2 founders do?", "The two founders sold pumps."),
        ("What happened in the 1990s?", "In 1995 the mill burned down."),
        ("What is part 2 of the film called?", "Part II of the film is called Dawn."),
        ("When was the first tower built?", "The first tower was built before the last one."),
        ("How many people live in towns of 1,200 houses?", "In towns of 1200 houses live 3,000."),
    ],
)
def test_right_answers_pass(query: str, text: str) -> None:
    assert object_to(query, text, Span(0, len(text))) is None
    assert without_echo(query, text) is None


@pytest.mark.parametrize(
    "text",
    [
        FOUNDED,
        f"Frequently asked questions. {FOUNDED} See the next page.",
        f"The answer to {FOUNDED} is stated here.",
        f"Exercise 4. {FOUNDED} (4 points)",
        f"Ticket #31: {FOUNDED.lower()}",
        f"{FOUNDED} This is still being looked into and is not known.",
        "3. When the company was founded .......... 17",
        f"This document is relevant to: {FOUNDED} It was bought in 1995 by two sisters.",
    ],
)
def test_a_repeated_question_says_nothing(text: str) -> None:
    rest = without_echo(FOUNDED, text)
    assert rest is not None
    assert len(rest) == len(text)
    assert "founded" not in rest


@pytest.mark.parametrize(
    "text",
    [
        f"Q: {FOUNDED} A: In 1995.",
        f"{FOUNDED} It was in 1995, by two sisters.",
        "The company was founded in 1995.",
    ],
)
def test_a_question_with_its_answer_stays(text: str) -> None:
    assert without_echo(FOUNDED, text) is None


def test_what_stands_beside_an_echo_keeps_its_place() -> None:
    text = f"{FOUNDED} Ask us. The company makes pumps in Leeds, and sells them abroad."
    rest = without_echo("When was the company founded", text)
    assert rest is not None
    assert rest.index("pumps") == text.index("pumps")


@given(st.text(max_size=60), st.text(max_size=200))
def test_places_stay_for_any_text(query: str, text: str) -> None:
    rest = without_echo(query, text)
    assert rest is None or len(rest) == len(text)
    object_to(query, text, Span(0, len(text)))
