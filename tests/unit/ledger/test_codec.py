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


def through(stage: str, result: Any) -> Any:
    """A result as it comes back from the journal."""
    body = encode_outcome(stage, Outcome(status=Status.MEASURED, value=result)).body
    return CODECS[stage].decode([*getattr(result, "contexts", ())], body)


texts = st.text(st.characters(exclude_categories=["Cs"]))
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | texts,
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


def made(cls: Any, **other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Of a dataclass, with every field that it has."""
    given = {one.name: OF_TYPE[str(one.type)] for one in fields(cls) if one.init} | other
    found = st.builds(cls, **given)
    OF_TYPE[cls.__name__] = found
    OF_TYPE[f"{cls.__name__} | None"] = st.none() | found
    OF_TYPE[f"tuple[{cls.__name__}, ...]"] = several = st.lists(found, max_size=2).map(tuple)
    OF_TYPE[f"tuple[{cls.__name__}, ...] | None"] = st.none() | several
    return found


made(Evidence, end=st.none())
made(Turn)
OF_TYPE["ExpectationKind"] = st.sampled_from(ExpectationKind)
made(Expectation)
made(validation.EvidenceQuote)
made(validation.DumpWarning, count=st.integers(1, 9))
made(validation.Conflict)
made(validation.AnswerWorth)
cases = made(Case)
verdicts = made(validation.Verdict)


@st.composite
def retrievals(draw: st.DrawFn) -> RetrievalResult[Any]:
    size = draw(st.integers(0, 4))

    def row(elements: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(elements, min_size=size, max_size=size))

    return RetrievalResult(
        draw(st.lists(texts, min_size=size, max_size=size)),
        context_ids=row(texts),
        scores=row(finite),
        context_metadata=row(st.dictionaries(texts, json_values, max_size=2)),
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


@given(cases, retrievals(), generations)
def test_a_case_and_its_results_come_back_as_they_were(case: Case, found: Any, said: Any) -> None:
    assert decode_case(case.id, encode_case(case)) == case
    assert through("retrieve", found) == found
    assert through("generate", said) == said


@settings(max_examples=30)
@given(verdicts)
def test_a_verdict_comes_back_as_it_was(verdict: validation.Verdict) -> None:
    again = through("validate", verdict)
    assert again == verdict
    assert list(again.relevance) == list(verdict.relevance)  # in the order of the chunks


@settings(max_examples=5)
@given(verdicts)
def test_numbers_of_numpy_are_numbers_and_what_is_no_json_is_refused(
    verdict: validation.Verdict,
) -> None:
    said: Any = {"answer_probability": np.float32(0.5), "relevance": {"c": np.float64(0.25)}}
    said["answer_present"] = np.bool_(True)
    found = through("validate", replace(verdict, **said))
    assert found == replace(
        verdict, answer_present=True, answer_probability=0.5, relevance={"c": 0.25}
    )
    with pytest.raises(TypeError, match="object has no form in JSON"):
        through("validate", replace(verdict, message=object()))  # type: ignore[arg-type]


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Model:
    def model_dump(self) -> dict[str, int]:
        return {"tokens": 3}


class Text(str): ...


class Unknown: ...


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
    result = GenerationResult[Any]("Paris", metadata={"value": value})
    back = through("generate", result)
    assert (back.response, back.metadata) == ("Paris", {"value": stored})


def test_metadata_that_holds_itself_costs_no_answer() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    back = through("generate", GenerationResult("Paris", metadata=circle))
    assert back.response == "Paris"


def test_numbers_of_any_type_come_back_as_floats() -> None:
    scores: list[Any] = [np.float32(0.5), Decimal("0.25"), 1]
    result = RetrievalResult(["a", "b", "c"], scores=scores)
    back = through("retrieve", result)
    assert back.scores == [0.5, 0.25, 1]
    assert {type(score) for score in back.scores or ()} == {float, int}
    confident = GenerationResult("a", confidence=np.float32(0.5))  # type: ignore[arg-type]  # numpy's
    assert through("generate", confident).confidence == 0.5


@pytest.mark.parametrize(
    "result",
    [
        GenerationResult("so \ud83d"),
        GenerationResult("a", multi_responses=["b", "\udc00"]),
        GenerationResult("\udc00", metadata={("odd", "key"): 1}),
    ],
)
def test_half_a_character_in_an_answer_is_an_error(result: GenerationResult[Any]) -> None:
    with pytest.raises(ValueError, match="not valid Unicode: half of a surrogate pair"):
        through("generate", result)
