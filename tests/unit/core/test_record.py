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


def test_a_record_is_changed_and_taken_apart_as_a_dataclass_is() -> None:
    assert dataclasses.replace(CASE, query="b") == Case(
        id="a", query="b", tags=("t",), metadata={"k": [1]}
    )
    assert dataclasses.asdict(Failure(type="E", message="m", stage="score"))["message"] == "m"
    assert [(one.type, one.default) for one in dataclasses.fields(Chunk)][3] == ("str | None", None)
    assert repr(CASE) in pprint.pformat([CASE])
    assert inspect.signature(EvalSettings).parameters["top_k"].default is None
    assert orjson.loads(orjson.dumps(CASE))["metadata"] == {"k": [1]}


def test_a_record_is_frozen_built_by_keyword_and_comes_back_from_copies() -> None:
    with pytest.raises(AttributeError):
        CASE.query = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Chunk("a", "text")  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(CASE)) == copy.deepcopy(CASE) == CASE
