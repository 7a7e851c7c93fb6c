"""Structures: which schema is sent, and which answers fit it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given
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


# --- answers that fit a schema


@given(st.booleans(), st.text())
def test_an_answer_that_fits_is_read(good: bool, reason: str) -> None:
    text = json.dumps({"good": good, "reason": reason})

    assert read_structure(f"Here: {text}", VERDICT) == Verdict(good=good, reason=reason)


def test_of_several_objects_the_one_that_fits_is_read() -> None:
    text = 'Like {"good": 1}? No: {"good": true, "reason": "r"} and {"note": 1}'

    assert read_structure(text, VERDICT) == Verdict(good=True, reason="r")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Yes.", "it holds no JSON"),
        ('{"good": "perhaps", "reason": "r"}', "good: "),
        ('{"good": true}', "reason: Field required"),
        ("[1]", "the value: "),
    ],
)
def test_an_answer_that_does_not_fit_is_reported_with_its_words(text: str, problem: str) -> None:
    with pytest.raises(LLMReplyError) as caught:
        read_structure(text, VERDICT)

    assert problem in str(caught.value)
    assert text in str(caught.value)
    assert caught.value.reply == text


def test_an_answer_is_read_by_a_model_of_pydantic() -> None:
    text = '{"statements": [{"text": "a", "supported": true}]}'

    answer = read_structure(text, schema_of(Statements))

    assert answer == Statements(statements=[Statement(text="a", supported=True)])


def test_fields_may_be_named_like_words_of_the_schema() -> None:
    schema = schema_of(Named)

    assert set(schema.definition["properties"]) == {"default", "required", "properties"}
    assert read_structure('{"default": "b"}', schema).default == "b"


# --- the schema that is sent


def test_every_field_is_required() -> None:
    """Those with a default, too: an endpoint refuses others in a strict schema."""
    definition = schema_of(Statements).definition

    assert definition["required"] == ["statements"]
    assert definition["$defs"]["Statement"]["required"] == ["text", "supported"]
    assert "default" not in json.dumps(definition)


def test_no_other_field_is_allowed() -> None:
    definition = schema_of(Statements).definition

    assert definition["additionalProperties"] is False
    assert definition["$defs"]["Statement"]["additionalProperties"] is False


def json_schema_for(schema: Any) -> dict[str, Any]:
    """The schema in a request."""
    dialect = Dialect(endpoint(max_tokens=9))
    payload = dialect.payload(prompt("Q"), schema.definition, StructuredOutput.JSON_SCHEMA, 9)
    json_schema: dict[str, Any] = payload["response_format"]["json_schema"]
    return json_schema


def test_a_schema_is_strict_where_it_can_be() -> None:
    json_schema = json_schema_for(schema_of(Statements))

    assert json_schema["strict"] is True
    assert json_schema["name"] == "Statements"


def test_a_schema_with_open_keys_is_not_strict() -> None:
    """The keys of a dictionary cannot be listed."""
    assert json_schema_for(schema_of(Named))["strict"] is False


# --- JSON in what a model says

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)


SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
VALUES = st.recursive(SCALARS, containers, max_leaves=12)
CONTAINERS = containers(VALUES)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters='{}[]<>`"'), max_size=30)


def first_value(text: str) -> Any:
    """The first JSON in a text."""
    return next(json_values(text), "no value")


@given(VALUES, st.booleans())
def test_json_is_read_as_json(value: Any, ascii_only: bool) -> None:
    assert first_value(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(CONTAINERS, PROSE, PROSE)
def test_words_around_json_are_left_out(value: Any, before: str, after: str) -> None:
    text = f"{before} {json.dumps(value)} {after}"

    assert first_value(text) == value


@given(CONTAINERS, st.text(st.characters(codec="utf-8", exclude_characters="<>")))
def test_thoughts_before_json_are_left_out(value: Any, thought: str) -> None:
    body = json.dumps(value)

    assert first_value(f"<think>{thought} {{}}</think>\n{body}") == value
    # Some templates leave the opening tag out.
    assert first_value(f"{thought} {{}}</think>{body}") == value


@given(CONTAINERS.filter(lambda value: "```" not in json.dumps(value)))
def test_a_fence_around_json_is_left_out(value: Any) -> None:
    assert first_value(f"Well:\n```json\n{json.dumps(value)}\n```\n") == value


@given(CONTAINERS)
def test_commas_before_a_closing_bracket_are_dropped(value: Any) -> None:
    # A string holds no line break of its own: json.dumps escapes it.
    text = json.dumps(value, indent=1)
    for bracket in "]}":
        text = text.replace(f"\n{bracket}", f",\n{bracket}")
    # An empty list has no element that a comma could follow.
    assume("[]" not in text)
    assume("{}" not in text)

    assert first_value(text) == value


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    for value in json_values(text):
        json.dumps(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            '{"a": "two\nlines\tand a tab"}',
            {"a": "two\nlines\tand a tab"},
            id="line breaks in a text",
        ),
        pytest.param(r'{"a": "50\% of \(x\)"}', {"a": r"50\% of \(x\)"}, id="escapes of TeX"),
        pytest.param(r'{"a": "C:\users"}', {"a": r"C:\users"}, id="a path of Windows"),
        pytest.param(r'{"a": "\u00e4 \" \\"}', {"a": 'ä " \\'}, id="escapes of JSON"),
        pytest.param(
            '{"a": ", ]", "b": [1, 2, ], }', {"a": ", ]", "b": [1, 2]}, id="commas before brackets"
        ),
        pytest.param('As in {"a": 1}, the answer is {"a": 2}.', {"a": 2}, id="the last of two"),
        pytest.param('He said "so, } it is {"a": [1,],}', {"a": [1]}, id="a quote before it"),
        pytest.param(
            '{"text": "a <think>tag</think> in it"}',
            {"text": "a <think>tag</think> in it"},
            id="a tag in a text",
        ),
        pytest.param(
            '```json\n{"a": 1}\n```\nor rather\n```json\n{"a": 2}\n```',
            {"a": 2},
            id="the last of two fences",
        ),
        pytest.param('\ufeff{"a": 1}', {"a": 1}, id="a byte order mark"),
        pytest.param('It is {clear}: {"a": 1}', {"a": 1}, id="braces around a word"),
    ],
)
def test_a_known_deviation_from_json_is_read(text: str, value: Any) -> None:
    assert first_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"verdicts": [1, 2', id="a list that is cut"),
        pytest.param('{"verdicts": [1, 2], "more": [3', id="a second list that is cut"),
        pytest.param(
            'For example {"verdicts": []}. So: {"verdicts": [1, 2',
            id="an example before one that is cut",
        ),
        pytest.param('{"a": "never ends', id="a text that is cut"),
        pytest.param("{'a': 1}", id="single quotes"),
        pytest.param('{"a": NaN}', id="NaN"),
        pytest.param("no JSON at all", id="words"),
        pytest.param("", id="nothing"),
        pytest.param("[" * 100_000, id="brackets alone"),
    ],
)
def test_json_that_is_not_whole_is_not_guessed(text: str) -> None:
    assert list(json_values(text)) == []
