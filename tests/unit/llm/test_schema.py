"""Structures: what is asked for, and what is taken for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragbench.errors import LLMReplyError
from ragbench.llm.dialect import Dialect
from ragbench.llm.endpoint import StructuredOutput
from ragbench.llm.schema import read_structure, schema_of
from tests.unit.llm.builders import VERDICT, Verdict, asked, endpoint


class Statement(BaseModel):
    text: str
    supported: bool = False


class Statements(BaseModel):
    """As ragas' response models are made."""

    statements: list[Statement]


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    default: str = "a"
    required: list[int] = field(default_factory=list)
    properties: dict[str, int] = field(default_factory=dict)


@given(st.booleans(), st.text())
def test_what_fits_is_read(good: bool, reason: str) -> None:
    text = json.dumps({"good": good, "reason": reason})
    assert read_structure(f"Here: {text}", VERDICT) == Verdict(good=good, reason=reason)


def test_pydantic_models_are_structures() -> None:
    schema = schema_of(Statements)
    found = read_structure('{"statements": [{"text": "a", "supported": true}]}', schema)
    assert found == Statements(statements=[Statement(text="a", supported=True)])


def test_the_candidate_that_fits_is_taken() -> None:
    text = 'Like {"good": 1}? No: {"good": true, "reason": "r"} and {"note": 1}'
    assert read_structure(text, VERDICT).good is True


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Yes.", "it holds no JSON"),
        ('{"good": "perhaps", "reason": "r"}', "good: "),
        ('{"good": true}', "reason: Field required"),
        ("[1]", "the value: "),
    ],
)
def test_what_does_not_fit_is_told(text: str, told: str) -> None:
    with pytest.raises(LLMReplyError) as caught:
        read_structure(text, VERDICT)
    assert told in str(caught.value)
    assert text in str(caught.value)
    assert caught.value.reply == text


def test_every_field_is_asked_for_and_no_other_allowed() -> None:
    definition = schema_of(Statements).definition
    inner = definition["$defs"]["Statement"]
    assert definition["required"] == ["statements"]
    assert inner["required"] == ["text", "supported"]
    assert inner["additionalProperties"] is definition["additionalProperties"] is False
    assert "default" not in json.dumps(definition)


def test_fields_may_be_named_like_words_of_the_schema() -> None:
    definition = schema_of(Named).definition
    assert set(definition["properties"]) == {"default", "required", "properties"}
    assert read_structure('{"default": "b"}', schema_of(Named)).default == "b"


def sent(schema: Any, mode: StructuredOutput) -> dict[str, Any]:
    return Dialect().payload(endpoint(max_tokens=9), asked("Q"), schema, mode)


def test_a_schema_is_strict_where_it_can_be() -> None:
    strict = sent(schema_of(Statements).definition, StructuredOutput.JSON_SCHEMA)["response_format"]
    loose = sent(schema_of(Named).definition, StructuredOutput.JSON_SCHEMA)["response_format"]
    assert strict["json_schema"]["strict"] is True
    assert strict["json_schema"]["name"] == "Statements"
    assert loose["json_schema"]["strict"] is False  # the keys of its dictionary are open


def test_the_schema_stands_in_the_prompt_where_the_server_takes_none() -> None:
    for mode in (
        StructuredOutput.JSON_OBJECT_SCHEMA,
        StructuredOutput.JSON_OBJECT,
        StructuredOutput.NONE,
    ):
        payload = sent(VERDICT.definition, mode)
        prompt = payload["messages"][-1]["content"]
        assert prompt.startswith("Q\n\n")
        assert json.loads(prompt[prompt.index("\n{") + 1 :]) == VERDICT.definition
    assert "response_format" not in sent(VERDICT.definition, StructuredOutput.NONE)
    whole = sent(VERDICT.definition, StructuredOutput.JSON_SCHEMA)
    assert whole["messages"][-1]["content"] == "Q"
