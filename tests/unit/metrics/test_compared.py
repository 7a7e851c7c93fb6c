"""What an answer says otherwise than a reference, by kind of statement."""

from __future__ import annotations

import pytest

from ragbench.metrics.correct import sure_verdict, verdict

WRONG: list[tuple[str, str, str, str, str]] = [
    ("amount", "What is the dose?", "250 mg", "Take 250 mcg.", "another amount"),
    (
        "every",
        "How often is it read?",
        "Every 64 minutes",
        "Every 67 minutes",
        "another part or frequency",
    ),
    ("denied", "How long have we?", "60 days", "It is not 60 days.", "the answer is denied"),
    (
        "amount beside words",
        "How do I reset it?",
        "Hold the pin for 30 seconds",
        "Hold the pin for 33 seconds.",
        "another amount",
    ),
    ("share", "What is the yield?", "0.07", "The yield is 0.07%.", "another amount"),
    ("version", "Which version?", "3.1.4", "Version 3.14.0", "another identifier"),
    (
        "mail",
        "Whom do I write to?",
        "a.lee@example.org",
        "al.lee@example.org",
        "another identifier",
    ),
    ("frequency", "How often?", "every two weeks", "monthly", "another part or frequency"),
    ("affix", "Is it reversible?", "reversible", "It is irreversible.", "the opposite"),
    ("affix", "Which valve?", "inlet", "the outlet", "the opposite"),
    ("direction", "How did sales move?", "They grew.", "They declined.", "the opposite"),
    ("side", "Before or after lunch?", "before lunch", "after lunch", "the opposite"),
    ("polite no", "May I park here?", "Yes", "Unfortunately not.", "yes for no, or no for yes"),
    ("letter", "Which form is it?", "hepatitis A", "It is hepatitis B.", "another letter"),
    ("choice", "Which option?", "C", "The answer is B.", "another choice"),
    (
        "list",
        "Which offices are open?",
        "Graz, Linz, Wels",
        "Graz, Linz and Steyr",
        "another part of the list",
    ),
    (
        "refusal",
        "Who signs?",
        "the head of sales",
        "I don't know who signs.",
        "the answer declines",
    ),
]


@pytest.mark.parametrize(
    ("query", "reference", "response", "reason"),
    [row[1:] for row in WRONG],
    ids=[row[0] for row in WRONG],
)
def test_what_differs_is_wrong_for_its_reason(
    query: str, reference: str, response: str, reason: str
) -> None:
    result = verdict(query, response, [reference])

    assert sure_verdict(result.probability) is False
    assert result.reason == reason


@pytest.mark.parametrize(
    ("query", "reference", "response"),
    [
        ("How high is the debt in EUR millions?", "74", "Debt stands at €74 million."),
        ("What is the default rate?", "0.031", "It is 3.1%."),
        ("What share is remote?", "25%", "A quarter."),
        ("When does it open?", "from 8 to 16", "It opens at 8 am and closes at 4 pm."),
        ("How often is it paid?", "four times a year", "Every three months."),
        ("May I park here?", "Yes", "Of course you can."),
        ("Which option?", "C", "(c)"),
        ("How long is it valid?", "2 weeks", "14 days"),
    ],
)
def test_the_same_in_another_form_is_right(query: str, reference: str, response: str) -> None:
    assert sure_verdict(verdict(query, response, [reference]).probability) is True


@pytest.mark.parametrize(
    ("query", "reference", "response"),
    [
        pytest.param("Who sued whom?", "Orbel sued Krug.", "Krug sued Orbel.", id="roles"),
        pytest.param("Who leads it?", "Ann", "Ann, Bob or Carl leads it.", id="hedge"),
        pytest.param("How is it fixed?", "by welding", "The parts are fused.", id="other words"),
        pytest.param("Which one?", "Sweden", "Sweeten", id="another word"),
        pytest.param("How far is it?", "12 zorks", "12 blorps", id="an unknown unit"),
        pytest.param("How many hours?", "1.7", "2", id="rounded to one digit"),
    ],
)
def test_what_words_do_not_decide_is_open(query: str, reference: str, response: str) -> None:
    assert sure_verdict(verdict(query, response, [reference]).probability) is None


def test_an_amount_that_nobody_asked_for_may_be_left_out() -> None:
    probability = verdict("Which team won?", "Orbel (with 31 points)", ["Orbel"]).probability
    left_out = verdict("Which team won?", "Orbel won.", ["Orbel (with 31 points)"]).probability

    assert sure_verdict(probability) is True
    assert sure_verdict(left_out) is not False


def test_a_reference_that_declines_is_met_by_an_answer_that_declines() -> None:
    reference = "The documents do not say who signed it."
    result = verdict("Who signed it?", "I don't know.", [reference])

    assert result.reason == "both decline"
    assert sure_verdict(result.probability) is True


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("What is the fee?", "the answer declines"),
        ("How do I find the fee?", ""),
        ("Wo finde ich die Gebühr?", ""),
    ],
)
def test_where_to_look_is_an_answer_to_who_asks_for_the_way(query: str, reason: str) -> None:
    response = "To find the fee, look at the last page of the price list."
    assert verdict(query, response, ["It is 27 euros for adults."]).reason == reason


@pytest.mark.parametrize(
    ("query", "reference"),
    [
        ("What was the outcome of the vote on the bridge?", "The bridge was voted down."),
        ("Who approves overtime in the Graz office?", "The team lead approves overtime."),
        ("When does the museum open on Sundays?", "It opens at noon."),
    ],
)
def test_who_only_repeats_the_question_is_not_right(query: str, reference: str) -> None:
    assert sure_verdict(verdict(query, query, [reference]).probability) is not True
    assert verdict(query, query, [reference]).probability < 0.5
