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
from ragbench.llm.schema import json_values, read_structure, schema_of
from tests.unit.llm.builders import VERDICT, Verdict, endpoint, prompt


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


def test_the_candidate_that_fits_is_taken() -> None:
    text = 'Like {"good": 1}? No: {"good": true, "reason": "r"} and {"note": 1}'
    assert read_structure(text, VERDICT).good is True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Yes.", "it holds no JSON"),
        ('{"good": "perhaps", "reason": "r"}', "good: "),
        ('{"good": true}', "reason: Field required"),
        ("[1]", "the value: "),
    ],
)
def test_what_does_not_fit_is_reported(text: str, shown: str) -> None:
    with pytest.raises(LLMReplyError) as caught:
        read_structure(text, VERDICT)
    assert shown in str(caught.value) and text in str(caught.value)
    assert caught.value.reply == text


def test_every_field_is_asked_for_and_no_other_allowed() -> None:
    schema = schema_of(Statements)
    found = read_structure('{"statements": [{"text": "a", "supported": true}]}', schema)
    assert found == Statements(statements=[Statement(text="a", supported=True)])
    definition = schema.definition
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
    return Dialect(endpoint(max_tokens=9)).payload(prompt("Q"), schema, mode, 9)


def test_a_schema_is_strict_where_it_can_be() -> None:
    strict = sent(schema_of(Statements).definition, StructuredOutput.JSON_SCHEMA)["response_format"]
    loose = sent(schema_of(Named).definition, StructuredOutput.JSON_SCHEMA)["response_format"]
    assert strict["json_schema"]["strict"] is True
    assert strict["json_schema"]["name"] == "Statements"
    assert loose["json_schema"]["strict"] is False  # the keys of its dictionary are open


# --- JSON in what a model says: known deviations are read, guesses are not made

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)


SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
VALUES = st.recursive(SCALARS, containers, max_leaves=12)
CONTAINERS = containers(VALUES)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters='{}[]<>`"'), max_size=30)


def first(text: str) -> Any:
    return next(json_values(text), "nothing")


@given(VALUES, st.booleans())
def test_json_is_read_as_json(value: Any, ascii_only: bool) -> None:
    assert first(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(CONTAINERS, PROSE, PROSE, st.text(st.characters(codec="utf-8", exclude_characters="<>")))
def test_words_and_thoughts_around_it_are_left_out(
    value: Any, before: str, after: str, thought: str
) -> None:
    body = json.dumps(value)
    assert first(f"{before} {body} {after}") == value
    assert first(f"<think>{thought} {{}}</think>\n{body}") == value
    assert first(f"{thought} {{}}</think>{body}") == value
    assert "```" in body or first(f"Well:\n```json\n{body}\n```\n") == value


@given(CONTAINERS)
def test_commas_before_a_closing_bracket_are_dropped(value: Any) -> None:
    text = json.dumps(value, indent=1)
    for bracket in "]}":
        text = text.replace(f"\n{bracket}", f",\n{bracket}")
    # The property holds where no string holds a line break of its own: json.dumps escapes them.
    if value and not any(mark in text for mark in ("[]", "{}")):
        assert first(text) == value


@given(st.text())
def test_any_text_is_borne(text: str) -> None:
    for value in json_values(text):
        json.dumps(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "two\nlines\tand a tab"}', {"a": "two\nlines\tand a tab"}),
        (r'{"a": "50\% of \(x\)"}', {"a": r"50\% of \(x\)"}),
        (r'{"a": "C:\users"}', {"a": r"C:\users"}),
        (r'{"a": "\u00e4 \" \\"}', {"a": 'ä " \\'}),
        ('{"a": ", ]", "b": [1, 2, ], }', {"a": ", ]", "b": [1, 2]}),
        ('As in {"a": 1}, the answer is {"a": 2}.', {"a": 2}),
        ('He said "so, } it is {"a": [1,],}', {"a": [1]}),
        ('{"text": "a <think>tag</think> in it"}', {"text": "a <think>tag</think> in it"}),
        ('```json\n{"a": 1}\n```\nor rather\n```json\n{"a": 2}\n```', {"a": 2}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('It is {clear}: {"a": 1}', {"a": 1}),
    ],
)
def test_known_deviations(text: str, value: Any) -> None:
    assert first(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"verdicts": [1, 2',
        '{"verdicts": [1, 2], "more": [3',
        'For example {"verdicts": []}. So: {"verdicts": [1, 2',
        '{"a": "never ends',
        "{'a': 1}",
        '{"a": NaN}',
        "no JSON at all",
        "",
        "[" * 100_000,
    ],
)
def test_nothing_is_guessed(text: str) -> None:
    assert list(json_values(text)) == []
