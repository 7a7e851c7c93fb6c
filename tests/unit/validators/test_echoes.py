"""Repeated questions: what says nothing beside one, and what replies to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.validators.objections import without_echo

FOUNDED = "When was the company founded?"
OPEN = "Is the shop open on Sunday?"
HAMLET = "Who wrote Hamlet?"


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


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (OPEN, OPEN),
        (HAMLET, f"{HAMLET} (unassigned)"),
        (HAMLET, f"{HAMLET} (4 points)"),
        (HAMLET, f"Quiz: {HAMLET} a) ... b) ... c) ..."),
        (HAMLET, f"[chat] ada: {HAMLET}\n[chat] ben: same question here"),
        (HAMLET, f"{HAMLET}\nHello, I could not find this anywhere. Can somebody help?"),
        (HAMLET, f"{HAMLET} The answer is stated in this document. Plays were cheap to print."),
        (HAMLET, f"Most viewed: Where is Elsinore - {HAMLET} - Who plays Ophelia"),
        ("Who wrote Hamlet (1603)?", "To do: Who wrote Hamlet (1603)?"),
        ("the mill was sold to", "the mill was sold to | Help centre | Contact us"),
        ("the mill was sold to", "Verified answer for: the mill was sold to Mills were cheap."),
        ("mills in Tarn by age", "Search: mills in Tarn by age / mills in Ebro / mills by size"),
        (
            "does the mill grind rye",
            "This text fully answers does the mill grind rye It has ponds.",
        ),
        ("where do mills grind rye", "Related searches: mills grind rye"),
        ("where do mills grind rye", "Topics: mills, grind, rye | Read more"),
        ("mills that grind rye", "Keywords: mills, grind, rye"),
    ],
)
def test_an_unanswered_question_is_left_out(query: str, text: str) -> None:
    rest = without_echo(query, text)
    assert rest is not None
    assert len(rest) == len(text)
    assert not frozenset(rest.lower().split()) & {"hamlet", "shop", "rye", "sold", "tarn"}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (OPEN, f"{OPEN} Yes."),
        (OPEN, f"FAQ: {OPEN} A: No."),
        (OPEN, "The shop is open on Sunday | Contact us"),
        (HAMLET, f"Q: {HAMLET} A: Shakespeare"),
        (HAMLET, f"{HAMLET} Shakespeare."),
        ("Where is the office?", "Where is the office? Berlin."),
        ("How can I reach you?", "How can I reach you? Contact us at the front desk."),
        ("How do I contact support by email?", "Contact us by email at support@example.org."),
        ("the mill was sold to", "In 1979 the mill was sold to the Millers."),
        ("opening hours of the mill", "Opening hours of the mill\nIt opens daily at nine."),
        ("what was the most viewed film", "The most viewed film was Dawn."),
    ],
)
def test_a_question_with_a_reply_and_a_plain_statement_stay(query: str, text: str) -> None:
    assert without_echo(query, text) is None


@given(st.text(max_size=60), st.text(max_size=200))
def test_places_stay_for_any_text(query: str, text: str) -> None:
    rest = without_echo(query, text)
    assert rest is None or len(rest) == len(text)
