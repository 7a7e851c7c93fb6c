import pytest

from ragbench.core.validation import EvidenceQuote
from ragbench.validators.verdict import find_conflicts


def evidence(*texts: str) -> list[EvidenceQuote]:
    return [
        EvidenceQuote(chunk_id=f"c{at}", start=0, end=len(text), text=text)
        for at, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("query", "one", "other", "kind", "detail"),
    [
        (
            "Who acquired Instagram?",
            "When Facebook made a bid to buy Instagram in 2012, many people wondered.",
            "When Apple made a bid to buy Instagram in 2012, many people wondered.",
            "name",
            "Facebook against Apple",
        ),
        (
            "Where is the final played?",
            "The final is played at the stadium in Tampa, Florida.",
            "The final is played at the stadium in Glendale, Arizona.",
            "name",
            "Tampa Florida against Glendale Arizona",
        ),
        (
            "What was the revenue in the first quarter?",
            "The first quarter brought 10 million in revenue and 3 new offices.",
            "The first quarter brought 14 million in revenue and 3 new offices.",
            "number",
            "10 against 14",
        ),
        (
            "When did the contract end?",
            "The contract ended in 2021.",
            "The contract ended in 2022.",
            "date",
            "2021 against 2022",
        ),
        (
            "Does the warranty cover batteries?",
            "The warranty covers batteries.",
            "The warranty never covers batteries.",
            "negation",
            "c0 says what c1 denies",
        ),
    ],
)
def test_what_differs_is_told(query: str, one: str, other: str, kind: str, detail: str) -> None:
    [conflict] = find_conflicts(query, evidence(one, other))
    assert (conflict.kind, conflict.detail) == (kind, detail)
    assert (conflict.first.chunk_id, conflict.second.chunk_id) == ("c0", "c1")


@pytest.mark.parametrize(
    ("query", "one", "other"),
    [
        # Names of which one stands in the question tell the subjects apart.
        (
            "Who leads the office in Oslo?",
            "The office in Oslo is led by Anna.",
            "The office in Bergen is led by Anna.",
        ),
        # A name and a number differ: two things are spoken of.
        (
            "How big are the offices?",
            "The office in Oslo has a staff of 40 people.",
            "The office in Bergen has a staff of 60 people.",
        ),
        ("Who wrote it?", "Anna wrote the book in a summer.", "Critics praised Bo at once."),
        ("Who wrote it?", "Anna wrote the book.", "Anna wrote the book."),
    ],
)
def test_what_only_looks_so_is_no_conflict(query: str, one: str, other: str) -> None:
    kinds = {conflict.kind for conflict in find_conflicts(query, evidence(one, other))}
    assert "name" not in kinds


def test_a_chunk_does_not_contradict_itself() -> None:
    one = EvidenceQuote(chunk_id="c", start=0, end=28, text="The contract ended in 2021.")
    other = EvidenceQuote(chunk_id="c", start=30, end=58, text="The contract ended in 2022.")
    assert find_conflicts("When did the contract end?", [one, other]) == ()
