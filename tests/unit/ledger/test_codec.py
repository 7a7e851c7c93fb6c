"""What the journal stores comes back as it was, whatever a RAG put into it."""

from __future__ import annotations

from collections import UserDict, UserList
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, Evidence, GenerationResult, Outcome, RetrievalResult, Status, Turn
from ragbench.core import validation
from ragbench.core.case import Expectation, ExpectationKind
from ragbench.ledger.codec import CODECS, decode_case, encode_case, encode_outcome


def stored_and_read(stage: str, result: Any) -> Any:
    """A result as it comes back from the journal."""
    outcome = Outcome(status=Status.MEASURED, value=result)
    body = encode_outcome(stage, outcome).body
    contexts: list[str] = list(getattr(result, "contexts", ()))
    return CODECS[stage].decode(contexts, body)


# --- records with every field that they may have


texts = st.text(st.characters(exclude_categories=["Cs"]))
finite = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63), 2**64 - 1)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
metadata = st.none() | st.dictionaries(texts, json_values, max_size=4)
many = st.lists(texts, max_size=4).map(tuple)
shares = st.floats(0, 1)
numbers = st.integers(0, 9)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "str | None": st.none() | texts,
    "tuple[str, ...]": many,
    "tuple[str, ...] | None": st.none() | many,
    "bool": st.booleans(),
    "bool | None": st.none() | st.booleans(),
    "int": numbers,
    "int | None": st.none() | numbers,
    "float": shares,
    "float | None": st.none() | shares,
    "AnswerWord | None": st.none() | st.sampled_from(validation.AnswerWord),
    "Mapping[str, Any]": st.dictionaries(texts, json_values, max_size=3),
    "Mapping[str, int] | None": st.none() | st.dictionaries(texts, numbers, max_size=4),
    "Mapping[str, float]": st.dictionaries(texts, shares, max_size=4),
    "RetrievalQuality": st.sampled_from(validation.RetrievalQuality),
    "WarningKind": st.sampled_from(validation.WarningKind),
}


def records(record: Any, **fields_apart: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Records of a class with every field that it has; later classes may hold them."""
    field_values: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(record):
        if field.name in fields_apart:
            field_values[field.name] = fields_apart[field.name]
        elif field.init:
            field_values[field.name] = OF_TYPE[str(field.type)]
    strategy = st.builds(record, **field_values)
    several = st.lists(strategy, max_size=2).map(tuple)
    OF_TYPE[record.__name__] = strategy
    OF_TYPE[f"{record.__name__} | None"] = st.none() | strategy
    OF_TYPE[f"tuple[{record.__name__}, ...]"] = several
    OF_TYPE[f"tuple[{record.__name__}, ...] | None"] = st.none() | several
    return strategy


records(Evidence, end=st.none())
records(Turn)
OF_TYPE["ExpectationKind"] = st.sampled_from(ExpectationKind)
records(Expectation)
records(validation.EvidenceQuote)
records(validation.DumpWarning, count=st.integers(1, 9))
records(validation.Conflict)
records(validation.AnswerWorth)
cases = records(Case)
verdicts = records(validation.Verdict)


@st.composite
def retrievals(draw: st.DrawFn) -> RetrievalResult[Any]:
    size = draw(st.integers(0, 4))

    def per_context(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(values, min_size=size, max_size=size))

    return RetrievalResult(
        draw(st.lists(texts, min_size=size, max_size=size)),
        context_ids=per_context(texts),
        scores=per_context(finite),
        context_metadata=per_context(st.dictionaries(texts, json_values, max_size=2)),
        metadata=draw(metadata),
    )


generations = st.builds(
    GenerationResult[Any],
    texts,
    multi_responses=st.none() | st.lists(texts, max_size=3),
    confidence=st.none() | st.floats(0, 1),
    abstained=st.none() | st.booleans(),
    metadata=metadata,
)


@settings(max_examples=50)
@given(cases)
def test_a_case_comes_back_as_it_was(case: Case) -> None:
    body = encode_case(case)

    assert decode_case(case.id, body) == case


@settings(max_examples=50)
@given(retrievals())
def test_what_was_retrieved_comes_back_as_it_was(retrieval: RetrievalResult[Any]) -> None:
    assert stored_and_read("retrieve", retrieval) == retrieval


@settings(max_examples=50)
@given(generations)
def test_an_answer_comes_back_as_it_was(generation: GenerationResult[Any]) -> None:
    assert stored_and_read("generate", generation) == generation


@settings(max_examples=30)
@given(verdicts)
def test_a_verdict_comes_back_as_it_was(verdict: validation.Verdict) -> None:
    stored_verdict = stored_and_read("validate", verdict)

    assert stored_verdict == verdict
    # In the order of the chunks, which a comparison of mappings does not see.
    assert list(stored_verdict.relevance) == list(verdict.relevance)


# --- values of other types


@settings(max_examples=5)
@given(verdicts)
def test_numbers_of_numpy_in_a_verdict_are_stored_as_numbers(verdict: validation.Verdict) -> None:
    numpy_numbers: dict[str, Any] = {
        "answer_present": np.bool_(True),
        "answer_probability": np.float32(0.5),
        "relevance": {"c": np.float64(0.25)},
    }

    stored_verdict = stored_and_read("validate", replace(verdict, **numpy_numbers))

    plain_numbers: dict[str, Any] = {
        "answer_present": True,
        "answer_probability": 0.5,
        "relevance": {"c": 0.25},
    }
    assert stored_verdict == replace(verdict, **plain_numbers)


@settings(max_examples=5)
@given(verdicts)
def test_a_verdict_that_json_cannot_hold_is_refused(verdict: validation.Verdict) -> None:
    unreadable = replace(verdict, message=object())  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="object has no form in JSON"):
        stored_and_read("validate", unreadable)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Model:
    def model_dump(self) -> dict[str, int]:
        return {"tokens": 3}


class Text(str): ...


class Unknown:
    """Nothing that JSON knows, and without a form of its own."""


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([1.5, 2.5]), [1.5, 2.5]),
        (np.arange(4)[::2], [0, 2]),
        (np.array(["a"]), ["a"]),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("0.25"), 0.25),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({3, 1}), [1, 3]),
        ((1, (2,)), [1, [2]]),
        (b"\x01\xff", "01ff"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (timedelta(hours=1), "1:00:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (Point(1), {"x": 1}),
        (Model(), {"tokens": 3}),
        (Text("t"), "t"),
        (UserDict({"a": 1}), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserList([1]), [1]),
        (range(3), [0, 1, 2]),
        ({1: "one"}, {"1": "one"}),
        ({("a", 1): 2}, {'["a",1]': 2}),
        (2**70, str(2**70)),
        ([2**70, {"deep": -(2**70)}], [str(2**70), {"deep": str(-(2**70))}]),
        ("half \ud800", "half \\ud800"),
        ({"\ud800": 1}, {"\\ud800": 1}),
        (Unknown(), f"<{__name__}.Unknown>"),
        ([Unknown(), 2**70], [f"<{__name__}.Unknown>", str(2**70)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_metadata_that_json_does_not_know_costs_no_answer(value: object, stored: object) -> None:
    generation = GenerationResult("Paris", metadata={"value": value})

    answer = stored_and_read("generate", generation)

    assert answer.response == "Paris"
    assert answer.metadata == {"value": stored}


def test_metadata_that_holds_itself_costs_no_answer() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    generation = GenerationResult("Paris", metadata=circle)

    answer = stored_and_read("generate", generation)

    assert answer.response == "Paris"


def test_scores_of_any_numeric_type_come_back_as_plain_numbers() -> None:
    scores: list[Any] = [np.float32(0.5), Decimal("0.25"), 1]
    retrieval = RetrievalResult(["a", "b", "c"], scores=scores)

    stored_retrieval = stored_and_read("retrieve", retrieval)

    assert stored_retrieval.scores == [0.5, 0.25, 1]
    types = [type(score) for score in stored_retrieval.scores]
    assert types == [float, float, int]


def test_a_confidence_of_numpy_comes_back_as_a_plain_number() -> None:
    confidence: Any = np.float32(0.5)

    answer = stored_and_read("generate", GenerationResult("a", confidence=confidence))

    assert answer.confidence == 0.5
    assert type(answer.confidence) is float


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            GenerationResult("so \ud83d"),
            id="the answer",
        ),
        pytest.param(
            GenerationResult("a", multi_responses=["b", "\udc00"]),
            id="one of several",
        ),
        pytest.param(
            GenerationResult("\udc00", metadata={("odd", "key"): 1}),
            id="beside metadata that is rewritten",
        ),
    ],
)
def test_half_a_character_in_an_answer_is_an_error(answer: GenerationResult[Any]) -> None:
    with pytest.raises(ValueError, match="not valid Unicode: half of a surrogate pair"):
        stored_and_read("generate", answer)
