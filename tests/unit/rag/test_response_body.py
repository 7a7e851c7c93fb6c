"""Bodies of responses: JSON, streams of events, lines of JSON, and texts."""

import json
from typing import Any

import pytest

from ragbench.rag.json_path import PathProblem, parse_path
from ragbench.rag.response_body import joined_text, read_body


def events(*documents: Any) -> str:
    """The stream of these documents."""
    return "".join(f"data: {json.dumps(document)}\n\n" for document in documents)


def found_in(text: str, path: str, kind: str = "", **options: bool) -> Any:
    """The value to which a path leads in a body."""
    return read_body(text, kind).find(parse_path(path), **options)


def test_json_is_one_document() -> None:
    body = read_body('\ufeff{"answer": "Yes."}', "application/json")

    assert body.documents == ({"answer": "Yes."},)
    assert not body.is_stream


def test_a_text_is_a_document_itself() -> None:
    body = read_body("Bees fly.", "text/plain")

    assert body.find(parse_path(".")) == "Bees fly."
    assert not body.is_json


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "text/plain", ""])
def test_events_are_joined_whatever_the_header_says(kind: str) -> None:
    text = events({"token": "Bees"}, {"token": " fly."}) + "data: [DONE]\n\n"

    assert found_in(text, ".token", kind) == "Bees fly."


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_events_may_have_any_line_end_and_several_data_lines(end: str) -> None:
    lines = [
        ": ping",
        "event: part",
        'data: {"token":',
        'data: "Yes."}',
        "",
        "",
    ]

    body = read_body(end.join(lines), "text/event-stream")

    assert body.documents == ({"event": "part", "token": "Yes."},)


def test_events_without_an_empty_line_between_them_are_several() -> None:
    text = 'data: {"token": "Bees"}\ndata: {"token": " fly."}\ndata: [DONE]\n'

    assert found_in(text, ".token") == "Bees fly."


def test_data_that_are_no_json_are_pieces_of_a_text() -> None:
    text = "data: Bees\n\ndata:  fly.\n\n"

    assert found_in(text, ".", "text/event-stream", in_pieces=True) == "Bees fly."


def test_a_separator_within_a_text_ends_no_line() -> None:
    text = 'data: {"token": "a\u2028b"}\n\n'

    assert found_in(text, ".token", "text/event-stream") == "a\u2028b"


def test_lines_of_json_are_joined() -> None:
    text = '{"token": "Bees"}\n{"token": " fly."}\n\n{"sources": [{"text": "a"}]}\n'

    body = read_body(text, "application/x-ndjson")

    assert body.find(parse_path(".token")) == "Bees fly."
    assert body.find(parse_path(".sources[].text"), as_list=True) == ["a"]


def test_a_list_is_that_of_the_last_event_that_has_one() -> None:
    text = events({"sources": ["a"]}, {"sources": ["a", "b"]}, {"sources": []}, {"token": "x"})

    assert found_in(text, ".sources[]", as_list=True) == ["a", "b"]


def test_single_values_of_events_are_a_list_where_one_is_wanted() -> None:
    text = events({"source": {"text": "a"}}, {"source": {"text": "b"}})

    assert found_in(text, ".source.text", as_list=True) == ["a", "b"]


def test_a_number_is_that_of_the_last_event() -> None:
    text = events({"usage": {"total": 1}}, {"usage": {"total": 7}})

    assert found_in(text, ".usage.total") == 7


def test_a_path_that_no_event_has_names_the_keys() -> None:
    problem = found_in(events({"token": "a"}, {"token": "b"}), ".answer")

    assert isinstance(problem, PathProblem)
    assert problem.message.startswith("none of 2 events has it: the response has no key answer")
    assert "token" in problem.message


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["Bees", " fly", "."], "Bees fly."),
        (["ha", "ha", "ha"], "hahaha"),
        (["Bees", "Bees fly", "Bees fly."], "Bees fly."),  # the whole text so far, each time
        (["Bees", " fly.", "Bees fly."], "Bees fly."),  # the whole text once more at the end
        (["1", "12"], "112"),
        ([], ""),
    ],
)
def test_pieces_become_a_text(pieces: list[str], text: str) -> None:
    assert joined_text(pieces) == text


@pytest.mark.parametrize(
    "event",
    [{"error": {"message": "overloaded"}}, {"event": "error", "message": "overloaded"}],
)
def test_a_stream_that_ends_with_an_error_says_so(event: dict[str, Any]) -> None:
    body = read_body(events({"token": "Bees"}, event))

    assert "overloaded" in str(body.error)


def test_an_object_with_an_error_is_no_broken_stream() -> None:
    assert read_body('{"answer": "Yes.", "error": "none"}').error is None
