"""Faults of a dataset that no error shows, each with a case that has it and one that has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragbench import Case, Document
from ragbench.verbs.probes import probe_dataset


def case(id: str, query: str = "", **more: Any) -> Case:
    return Case(id=id, query=query or f"What is {id}?", **more)


def doubts(*cases: Case, documents: Sequence[Document] | None = None) -> dict[str, str]:
    """What is said of what does not hold, by name."""
    found = probe_dataset(cases, documents)
    return {one.name: one.detail for one in found if not one.holds}


def test_a_sound_dataset_raises_no_doubt() -> None:
    cafe = "Am Café de l\u2019Église."
    leave = "You get 27 days of leave."
    lead = "Staff may stay at home for two days each week once their lead has agreed"
    cases = [
        case("a", reference="27 days", reference_contexts=(leave,)),
        case("b", reference="Café de l\u2019Église", reference_contexts=(cafe,)),
        case("c", reference="I do not know.", answerable=False),
        case("e", reference="R&D & sales; AT&T"),
        # Long or plain references need not stand in their gold.
        case("f", reference=lead, reference_contexts=("Dogs are welcome.",)),
        case("g", reference="No", reference_contexts=("Dogs are welcome.",)),
        # Turns of two conversations are two questions.
        case("h", "And then?", reference="1 day", metadata={"history": ["Hello"]}),
        case("i", "And then?", reference="2 days", metadata={"history": ["Where is it?"]}),
    ]
    documents = [Document(id="1", text=f"{leave} {cafe} Dogs are welcome.")]
    assert doubts(*cases, documents=documents) == doubts() == {}


def test_one_question_with_two_answers() -> None:
    found = doubts(
        case("a", "Who owns it?", reference="The firm"),
        case("b", "who owns  it?", reference="Nobody"),
        case("c", "Who owns it?", reference="the firm!", cluster="x"),
        case("d", "Who sells it?", reference="Nobody"),
    )
    assert found["data questions"] == (
        "1 case (b) asks what another one asks, with other references ('Nobody'; a: 'The firm'): "
        "an answer is wrong by one of the two."
    )


def test_a_case_that_stands_there_twice_counts_twice() -> None:
    twice = [case(name, "Who?", reference="Me") for name in "abcde"]
    assert doubts(*twice)["data repeats"].startswith(
        "4 cases (b, c, d and 1 more) repeat another one (as a: Who?)"
    )
    together = [case(name, "Who?", reference="Me", cluster="x") for name in "ab"]
    assert doubts(*together) == {}


@pytest.mark.parametrize(
    ("text", "broken", "meant"),
    [
        ("the caf\u00c3\u00a9", "caf\u00c3\u00a9", "'café'"),
        ("it\u00e2\u20ac\u2122s", "it\u00e2\u20ac\u2122s", "'it\u2019s'"),
        ("AT&amp;T", "&amp;", "'&'"),
        ("it&#39;s", "&#39;", "'''"),
        ("5&nbsp;km", "&nbsp;", "a space"),
    ],
)
def test_letters_that_were_broken_on_the_way(text: str, broken: str, meant: str) -> None:
    places: list[dict[str, Any]] = [
        {"query": text},
        {"reference": text},
        {"reference_contexts": (text,)},
    ]
    for place in places:
        found = doubts(case("a", **place))
        assert f"'{broken}' where {meant} is meant" in found["data letters"]


@pytest.mark.parametrize("reference", ["TODO", "tbd.", "What is a", "?"])
def test_references_that_are_none(reference: str) -> None:
    found = doubts(case("a", "What is a?", reference=reference))
    assert found["data references"].startswith("1 case (a) with a placeholder")


def test_short_references_that_their_gold_lacks_are_a_doubt_beyond_one_of_twenty() -> None:
    right = [
        case(str(at), reference=f"{at + 100} days", reference_contexts=(f"Say {at + 100} days.",))
        for at in range(19)
    ]
    wrong = case("x", reference="77 days", reference_contexts=("Nothing of the kind.",))
    (gold,) = [one for one in probe_dataset([*right, wrong]) if one.name == "data gold"]
    assert gold.holds
    assert gold.detail.startswith("of 20 short references with gold texts, those of 1 case (x)")
    assert "data gold" in doubts(*right[:18], wrong)


def test_cases_that_contradict_their_own_answerable() -> None:
    has = doubts(case("a", reference="27", answerable=False))["data answerable"]
    assert "a is unanswerable and has the reference '27'" in has
    declines = doubts(case("b", reference="There is no answer.", answerable=True))
    assert "b is answerable and its reference declines" in declines["data answerable"]


def test_gold_that_no_document_holds() -> None:
    documents = [Document(id="a", text="Dogs bark.")]
    cases = [case("1", reference_context_ids=("a",)), case("2", reference_context_ids=("b",))]
    assert doubts(*cases, documents=documents)["data documents"] == (
        "the gold of 1 case (2) is in none of the 1 documents ('b'): no retrieval can find it."
    )
    assert doubts(*cases) == {}
