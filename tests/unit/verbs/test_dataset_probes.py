"""Faults of a dataset that no error shows, each with a case that has it and one that has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragbench import Case, Document
from ragbench.core.case import Turn
from ragbench.verbs.probes import probe_dataset


def case(id: str, query: str = "", **fields: Any) -> Case:
    return Case(id=id, query=query or f"What is {id}?", **fields)


def doubts(*cases: Case, documents: Sequence[Document] | None = None) -> dict[str, str]:
    """What is said of what does not hold, by name."""
    findings = probe_dataset(cases, documents)
    return {finding.name: finding.detail for finding in findings if not finding.holds}


# --- a sound dataset

LEAVE = "You get 27 days of leave."
CAFE = "Am Café de l\u2019Église."
DOGS = "Dogs are welcome."
HOME = "Staff may stay at home for two days each week once their lead has agreed"


@pytest.mark.parametrize(
    "sound",
    [
        pytest.param(
            [case("a", reference="27 days", reference_contexts=(LEAVE,))],
            id="a reference in its gold",
        ),
        pytest.param(
            [case("a", reference="Café de l\u2019Église", reference_contexts=(CAFE,))],
            id="letters beyond ASCII",
        ),
        pytest.param(
            [case("a", reference="I do not know.", answerable=False)],
            id="an unanswerable case whose reference declines",
        ),
        pytest.param(
            [case("a", reference="R&D & sales; AT&T")],
            id="ampersands that are no entities",
        ),
        pytest.param(
            [case("a", reference=HOME, reference_contexts=(DOGS,))],
            id="a long reference need not stand in its gold",
        ),
        pytest.param(
            [case("a", reference="No", reference_contexts=(DOGS,))],
            id="nor a plain yes or no",
        ),
        pytest.param(
            [
                case(
                    "a", "And then?", reference="1 day", history=(Turn(role="user", text="Hello"),)
                ),
                case(
                    "b",
                    "And then?",
                    reference="2 days",
                    history=(Turn(role="user", text="Where is it?"),),
                ),
            ],
            id="turns of two conversations are two questions",
        ),
        pytest.param([], id="no cases"),
    ],
)
def test_a_sound_dataset_raises_no_doubt(sound: list[Case]) -> None:
    documents = [Document(id="1", text=f"{LEAVE} {CAFE} {DOGS}")]

    assert doubts(*sound, documents=documents) == {}


# --- questions


def test_one_question_with_two_answers_is_a_doubt() -> None:
    found_doubts = doubts(
        case("a", "Who owns it?", reference="The firm"),
        case("b", "who owns  it?", reference="Nobody"),
        case("c", "Who owns it?", reference="the firm!", cluster="x"),
        case("d", "Who sells it?", reference="Nobody"),
    )

    assert found_doubts["data questions"] == (
        "1 case (b) asks what another one asks, with other references ('Nobody'; a: 'The firm'): "
        "an answer is wrong by one of the two."
    )


def test_a_case_that_stands_there_twice_counts_twice() -> None:
    repeated = [case(id, "Who?", reference="Me") for id in ("a", "b", "c", "d", "e")]

    detail = doubts(*repeated)["data repeats"]

    assert detail.startswith("4 cases (b, c, d and 1 more) repeat another one (as a: Who?)")


def test_cases_of_one_cluster_may_repeat_each_other() -> None:
    a = case("a", "Who?", reference="Me", cluster="x")
    b = case("b", "Who?", reference="Me", cluster="x")

    assert doubts(a, b) == {}


# --- texts


@pytest.mark.parametrize("field", ["query", "reference", "reference_contexts"])
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
def test_letters_that_were_broken_on_the_way_are_a_doubt(
    field: str, text: str, broken: str, meant: str
) -> None:
    fields: dict[str, Any] = {field: text}
    if field == "reference_contexts":
        fields = {field: (text,)}

    detail = doubts(case("a", **fields))["data letters"]

    assert f"'{broken}' where {meant} is meant" in detail


@pytest.mark.parametrize("reference", ["TODO", "tbd.", "What is a", "?"])
def test_a_placeholder_for_a_reference_is_a_doubt(reference: str) -> None:
    detail = doubts(case("a", "What is a?", reference=reference))["data references"]

    assert detail.startswith("1 case (a) with a placeholder")


# --- references and their gold

SUPPORTED = [
    case(
        str(number),
        reference=f"{number} days",
        reference_contexts=(f"Say {number} days.",),
    )
    for number in range(100, 119)
]
UNSUPPORTED = case("x", reference="77 days", reference_contexts=("Nothing of the kind.",))


def test_one_short_reference_of_twenty_that_its_gold_lacks_is_no_doubt() -> None:
    findings = {finding.name: finding for finding in probe_dataset([*SUPPORTED, UNSUPPORTED])}

    gold = findings["data gold"]
    assert gold.holds
    assert gold.detail.startswith("of 20 short references with gold texts, those of 1 case (x)")


def test_one_short_reference_of_nineteen_that_its_gold_lacks_is_a_doubt() -> None:
    assert "data gold" in doubts(*SUPPORTED[:18], UNSUPPORTED)


def test_an_unanswerable_case_with_an_answer_is_a_doubt() -> None:
    detail = doubts(case("a", reference="27", answerable=False))["data answerable"]

    assert "a is unanswerable and has the reference '27'" in detail


def test_an_answerable_case_whose_reference_declines_is_a_doubt() -> None:
    detail = doubts(case("b", reference="There is no answer.", answerable=True))["data answerable"]

    assert "b is answerable and its reference declines" in detail


# --- documents

CASE_OF_A = case("1", reference_context_ids=("a",))
CASE_OF_B = case("2", reference_context_ids=("b",))


def test_gold_that_no_document_holds_is_a_doubt() -> None:
    documents = [Document(id="a", text="Dogs bark.")]

    assert doubts(CASE_OF_A, CASE_OF_B, documents=documents)["data documents"] == (
        "the gold of 1 case (2) is not in the 1 document ('b'): no retrieval can find it."
    )


def test_without_documents_no_gold_is_missed() -> None:
    assert doubts(CASE_OF_A, CASE_OF_B) == {}
