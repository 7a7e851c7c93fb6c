"""What takes dataclasses takes a record."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pprint

import orjson
import pytest

from ragbench import Case, Chunk, EvalSettings, Failure

CASE = Case(id="a", query="Capital?", tags=("t",), metadata={"k": [1]})


def test_a_record_is_changed_as_a_dataclass_is() -> None:
    changed = dataclasses.replace(CASE, query="b")

    assert changed == Case(id="a", query="b", tags=("t",), metadata={"k": [1]})


def test_a_record_is_taken_apart_as_a_dataclass_is() -> None:
    failure = Failure(type="E", message="m", stage="score")

    assert dataclasses.asdict(failure)["message"] == "m"


def test_the_fields_of_a_record_have_their_types_and_defaults() -> None:
    fields = {field.name: field for field in dataclasses.fields(Chunk)}

    assert fields["document_id"].type == "str | None"
    assert fields["document_id"].default is None


def test_a_record_is_printed_as_its_repr() -> None:
    assert repr(CASE) in pprint.pformat([CASE])


def test_the_signature_of_a_record_has_its_defaults() -> None:
    assert inspect.signature(EvalSettings).parameters["top_k"].default is None


def test_a_record_is_written_as_json() -> None:
    assert orjson.loads(orjson.dumps(CASE))["metadata"] == {"k": [1]}


def test_a_record_is_frozen() -> None:
    with pytest.raises(AttributeError):
        CASE.query = "b"  # type: ignore[misc]


def test_a_record_is_built_by_keyword() -> None:
    with pytest.raises(TypeError):
        Chunk("a", "text")  # type: ignore[call-arg]


def test_a_record_comes_back_from_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(CASE)) == CASE


def test_a_record_comes_back_from_a_copy() -> None:
    assert copy.deepcopy(CASE) == CASE
