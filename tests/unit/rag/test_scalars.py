"""Values of NumPy, pandas and decimal where a system returns Python's; missing ones."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from ragbench import GenerationResult, RetrievalResult
from ragbench.core.scalars import plain_number, plain_scalar
from ragbench.errors import InterfaceError
from ragbench.rag.fallback import to_generation_result, to_retrieval_result
from ragbench.rag.shapes import read_answer, read_generation, read_retrieval

MISSING = {
    "None": None,
    "NaN": float("nan"),
    "numpy's float32": np.float32("nan"),
    "numpy's NaT": np.datetime64("NaT"),
    "decimal": Decimal("NaN"),
    "pd.NaT": "NaT",
    "pd.NA": "NA",
}
"""By name; those of pandas by their name there."""


@pytest.fixture(params=[pytest.param(value, id=name) for name, value in MISSING.items()])
def missing(request: pytest.FixtureRequest) -> Any:
    """A value that says that nothing is known."""
    if isinstance(request.param, str):
        pytest.importorskip("pandas")
        return getattr(import_module("pandas"), request.param)
    return request.param


def test_a_missing_value_is_none(missing: Any) -> None:
    assert plain_scalar(missing) is None


def test_a_missing_answer_is_none(missing: Any) -> None:
    with pytest.raises(InterfaceError, match="f returned None, and must return a string"):
        read_generation(missing, "f")
    with pytest.raises(InterfaceError, match="returned a mapping with 'response' and no answer"):
        read_generation({"response": missing}, "f")
    with pytest.raises(InterfaceError, match="f must return a GenerationResult or a string, not N"):
        to_generation_result(missing, "f")


def test_a_missing_id_or_score_is_none(missing: Any) -> None:
    document = {"text": "a", "id": missing, "score": missing}

    assert read_retrieval([document], "f") == RetrievalResult(["a"])


def test_a_missing_context_is_refused(missing: Any) -> None:
    with pytest.raises(InterfaceError, match=r"document 1 is a .* without a text"):
        read_retrieval(["a", missing], "f")


def test_a_missing_field_beside_an_answer_is_not_given(missing: Any) -> None:
    answer = {"response": "a", "confidence": missing, "abstained": missing, "contexts": missing}

    assert read_answer(answer, "f") == (None, GenerationResult("a"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(5), "5"),
        (np.float32(0.5), "0.5"),
        (np.str_("yes"), "yes"),
        (Decimal("0.50"), "0.50"),
    ],
)
def test_a_number_of_any_library_is_an_answer(value: Any, text: str) -> None:
    response = read_generation({"response": value}, "f").response

    assert (response, type(response)) == (text, str)


def test_fields_of_an_answer_are_pythons_own() -> None:
    answer: Any = GenerationResult("a", confidence=Decimal("0.5"), abstained=np.bool_(True))  # type: ignore[arg-type]

    assert type(answer.confidence) is float
    assert answer.abstained is True


@pytest.mark.parametrize("value", [5, np.int64(5), np.str_("5"), Decimal(5)])
def test_an_id_of_any_library_is_its_text(value: Any) -> None:
    result = to_retrieval_result(RetrievalResult(["a"], context_ids=[value]), "f")

    assert result.context_ids == ["5"]


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), Decimal("0.5")])
def test_a_score_of_any_library_is_a_float(value: Any) -> None:
    result: Any = to_retrieval_result(RetrievalResult(["a"], scores=[value]), "f")

    assert result.scores == [0.5]
    assert type(result.scores[0]) is float


@pytest.mark.parametrize("value", [np.bool_(True), np.str_("0.5"), Decimal("NaN")])
def test_what_is_no_number_is_no_score(value: Any) -> None:
    with pytest.raises(InterfaceError, match=r"scores\[0\] must be a finite number"):
        to_retrieval_result(RetrievalResult(["a"], scores=[value]), "f")


@pytest.mark.parametrize(
    ("value", "number"), [(Decimal(7), 7), (Decimal("1.5"), 1.5), (Decimal("-Infinity"), -np.inf)]
)
def test_a_decimal_is_the_number_that_it_is(value: Decimal, number: float) -> None:
    assert plain_number(value) == number
    assert type(plain_number(value)) is type(number)


@pytest.mark.parametrize("value", [date(2026, 1, 1), b"a", (1, 2), np.array([1.0, 2.0]), object()])
def test_anything_else_is_left_as_it_is(value: Any) -> None:
    assert plain_scalar(value) is value
