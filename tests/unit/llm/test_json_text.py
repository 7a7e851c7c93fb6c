"""JSON in what a model says: known deviations are read, guesses are not made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.llm.schema import json_values

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CONTAINERS = st.lists(VALUES, max_size=4) | st.dictionaries(st.text(), VALUES, max_size=4)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters='{}[]<>`"'), max_size=30)


def first(text: str) -> Any:
    return next(json_values(text), "nothing")


@given(VALUES, st.booleans())
def test_json_is_read_as_json(value: Any, ascii_only: bool) -> None:
    assert first(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(CONTAINERS, PROSE, PROSE)
def test_words_around_it_are_passed_over(value: Any, before: str, after: str) -> None:
    assert first(f"{before} {json.dumps(value)} {after}") == value


@given(VALUES, PROSE, st.sampled_from(["json", "", "JSON"]))
def test_a_fence_is_opened(value: Any, before: str, language: str) -> None:
    body = json.dumps(value)
    if "```" not in body:
        assert first(f"{before}\n```{language}\n{body}\n```\n") == value


@given(CONTAINERS, st.text(st.characters(codec="utf-8", exclude_characters="<>")))
def test_thoughts_are_left_out(value: Any, thought: str) -> None:
    assert first(f"<think>{thought} {{}}</think>\n{json.dumps(value)}") == value
    assert first(f"{thought} {{}}</think>{json.dumps(value)}") == value


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
