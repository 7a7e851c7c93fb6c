"""Paths into JSON: what they lead to, and what is said where they lead to nothing."""

from typing import Any

import pytest

from ragbench.errors import ConfigError
from ragbench.rag.json_path import PathProblem, find, parse_path

RESPONSE: dict[str, Any] = {
    "answer": "Bees fly.",
    "sources": [{"text": "one", "id": 1}, {"text": "two", "id": 2}],
    "odd key": {"a.b": "dotted"},
    "inner": '{"hits": [{"text": "from a string"}]}',
    "cost": None,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".answer", "Bees fly."),
        ("answer", "Bees fly."),
        ("$.answer", "Bees fly."),
        (".sources[].text", ["one", "two"]),
        (".sources[*].text", ["one", "two"]),
        (".sources[0].id", 1),
        (".sources[-1].id", 2),
        ('.["odd key"]["a.b"]', "dotted"),
        (".['odd key'].['a.b']", "dotted"),
        ('."odd key"."a.b"', "dotted"),
        (".inner.hits[0].text", "from a string"),
        (".", RESPONSE),
    ],
)
def test_a_path_leads_to_a_value(path: str, value: object) -> None:
    assert find(RESPONSE, parse_path(path)) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".reply", "the response has no key reply: it is an object with the keys answer, sources"),
        (".sources[].score", ".sources[0] has no key score: it is an object with the keys text,"),
        (".sources[2].id", ".sources has 2 elements, and none at [2]"),
        (".answer.text", ".answer is a text, and has no key text"),
        (".answer[]", ".answer is a text, and not a list"),
        (".cost", ".cost is null"),
        (".cost.usd", ".cost is null, and has no key usd"),
        (".sources.text", ".sources is a list of 2, and has no key text"),
    ],
)
def test_a_path_that_leads_to_nothing_says_what_is_there(path: str, message: str) -> None:
    problem = find(RESPONSE, parse_path(path))

    assert isinstance(problem, PathProblem)
    assert problem.message.startswith(message)


def test_a_null_among_elements_is_missing() -> None:
    problem = find({"ids": ["a", None]}, parse_path(".ids[]"))

    assert problem == PathProblem(message=".ids[1] is null")


def test_elements_of_an_outer_list_may_lack_the_inner_list() -> None:
    steps = {"steps": [{"kind": "search", "hits": [{"text": "a"}]}, {"kind": "answer"}]}

    assert find(steps, parse_path(".steps[].hits[].text")) == ["a"]


def test_elements_of_the_last_list_may_lack_nothing() -> None:
    problem = find({"hits": [{"text": "a"}, {"title": "b"}]}, parse_path(".hits[].text"))

    assert isinstance(problem, PathProblem)


def test_pieces_of_a_text_are_those_that_have_one() -> None:
    blocks = {"content": [{"type": "thinking"}, {"type": "text", "text": "Yes."}]}

    assert find(blocks, parse_path(".content[].text"), in_pieces=True) == ["Yes."]


@pytest.mark.parametrize("text", [".a | .b", ".a[?(@.x)]", ".a[", ".a..b", "length(.a)", ".a b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a path: it fails at"):
        parse_path(text)


@pytest.mark.parametrize("text", [".sources[].text", '.["odd key"][0]', ".[0].output", "."])
def test_a_path_is_written_as_it_is_read(text: str) -> None:
    assert parse_path(text).text == text


def test_a_foreign_key_is_shown_in_one_line_and_cut() -> None:
    problem = find({"a\nb" + "x" * 100: 1}, parse_path(".answer"))

    assert isinstance(problem, PathProblem)
    assert "\n" not in problem.message
    assert len(problem.message) < 200
