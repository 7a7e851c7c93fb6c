"""Whether people would call an answer right: what can be compared, and what words are worth."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench
from ragbench.core.outcome import Status
from ragbench.metrics.correct import AnswerBeside, probability, right_by_any, told
from ragbench.metrics.registry import parse_metrics
from tests.unit.metrics.builders import answered, cell, generated, trace, value

WORDS = "the red car of the mayor stands behind the old mill and waits for its driver since noon"
LONG = f"{WORDS}; a second one, green and dusty, was sold to a neighbour, who paints houses."


@pytest.mark.parametrize(
    ("query", "response", "reference"),
    [
        ("", "110 €", "€110"),
        ("", "It costs 110 euros.", "110 EUR"),
        ("", "5.000 €", "€5,000"),
        ("", "about 1.5 million", "1,500,000"),
        ("", "£50m", "50 million gbp"),
        ("", "2", "Two"),
        ("", "24 months", "two years"),
        ("", "ten working days", "10 days"),
        ("", "2024-03-12", "12 March 2024"),
        ("", "On March 12th, 2024.", "12 March 2024"),
        ("", "am 12. März 2024", "12 March 2024"),
        ("", "十五天", "15天"),
        ("", "百分之八十", "80%"),
        ("Who built it?", "It was built by Ann Lee in 1990, near the river.", "Ann Lee"),
        ("May I smoke?", "Yes, on the roof.", "yes"),
        ("", "Ann Lee is not the mayor but the chair. It was Ann Lee.", "Ann Lee"),
    ],
)
def test_right_however_it_is_written(query: str, response: str, reference: str) -> None:
    assert told(right_by_any(query, response, [reference])) is True


CONTRADICTED: list[tuple[str, str, str, str]] = [
    ("", "Yes, half", "No, half", "yes for no, or no for yes"),
    ("", "3 weeks", "3 days", "another amount"),
    ("", "15 weeks full salary, then 60 percent", "12 weeks full salary, then 60 percent",
     "another amount"),
    ("", "Tuesday 13:00", "Tuesday 10:00", "another amount"),
    ("", "It costs 120 euros", "110 EUR", "another amount"),
    ("", "13 March 2024", "12 March 2024", "another date"),
    ("When?", "In 1951, say most.", "1954 or so", "another amount"),
    ("Who?", "Jane Smith", "John Smith", "another person of that family name"),
    ("Who leads it?", "The CEO is not Ann Lee.", "Ann Lee", "the answer is denied"),
    ("How cold is it?", "20 °C", "-20 °C", "another amount"),
    ("When is it due?", "after the fair", "before the fair", "the opposite"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "response", "reference", "what"), CONTRADICTED)
def test_what_says_otherwise_is_wrong(query: str, response: str, reference: str, what: str) -> None:
    assert AnswerBeside.of(query, response, reference).contradiction() == what
    assert told(right_by_any(query, response, [reference])) is False
    assert told(right_by_any(query, response, [reference, response])) is True  # the best one counts


@pytest.mark.parametrize(
    ("query", "response", "reference"),
    [
        ("Give a year of his reign.", "1141", "1135-1154"),
        ("Who?", "J. Smith", "John Smith"),
        ("Who?", "President Smith", "John Smith"),
        ("Is it not Ann Lee?", "It is not Ann Lee.", "Ann Lee"),
        ("Before or after the fair?", "after it, not before", "before the fair"),
        ("", "It is 4 days, or 3 days.", "3 days"),
        # words that are numbers or units in another language only
        ("When did it shake?", "In 1990 an earthquake struck.", "1990"),
        ("How many wins?", "He once won 3, due to rain.", "3 wins"),
        ("How many came?", "In 2008 two friends came.", "2"),
        ("In 1951?", "It was in 1951.", "not in 1951"),
        ("", f"{WORDS} 5", f"{LONG} 6"),  # beside a long reference no word is proof
    ],
)
def test_what_is_no_contradiction(query: str, response: str, reference: str) -> None:
    assert AnswerBeside.of(query, response, reference).contradiction() is None


def test_words_of_a_long_reference_are_rarely_sure() -> None:
    some = "The mayor owns two, a red car and a green one; nobody knows where either of them is."
    assert told(right_by_any("", some, [LONG])) is None
    assert told(right_by_any("", LONG, [LONG])) is True
    values = [probability("", text, LONG) for text in ("nothing of it", some, LONG)]
    assert values == sorted(values) and values[0] < 0.3


def test_a_declined_answer_is_no_wrong_one() -> None:
    assert value("answer_correct", answered("27 days", "27 days")) > 0.95
    assert value("answer_correct", answered("blue", "27 days")) < 0.1
    declined = trace(references=["27 days"], generation=generated("I don't know."))
    assert cell("answer_correct", declined).status is Status.ABSTAINED


@pytest.mark.parametrize("text", ["9" * 400 + " trillion trillion", "a" * 100_000, "፩ ² ①", "-"])
def test_hostile_texts_take_no_time_and_give_a_number(text: str) -> None:
    for response, reference in ((text, "27 days"), ("27 days", text), (text, f"{text} x")):
        assert 0 <= probability("How many?", response, reference) <= 1


def test_other_weights_are_another_version() -> None:
    """Stored scores hold as long as the version does: who changes these files raises it."""
    files = ("metrics/correct.toml", "text/amounts.toml")
    texts = (Path(ragbench.__file__).parent.joinpath(name).read_bytes() for name in files)
    digest = hashlib.sha256(b"".join(text.replace(b"\r\n", b"\n") for text in texts))
    (metric,) = parse_metrics("answer_correct")
    assert (metric.definition.version, digest.hexdigest()[:12]) == (6, "ef943b641bb5")


WORD = st.sampled_from(
    ["no", "12", "May", "3rd", "€", "5,000", "Ann", "Lee", "万", "二", "-", ".", "m", "9" * 310,
     "trillion", "፩"]
)  # fmt: skip
TEXTS = st.text(max_size=40) | st.lists(WORD).map(" ".join)


@given(TEXTS, TEXTS, TEXTS)
def test_any_texts_give_a_probability(query: str, response: str, reference: str) -> None:
    assert 0 <= probability(query, response, reference) <= 1
    if reference.strip(" .-€"):
        assert AnswerBeside.of(query, reference, reference).contradiction() is None
