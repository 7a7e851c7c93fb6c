"""Proposals of a mapping: from responses of many shapes, and from refusals."""

import json
from typing import Any

import pytest

from ragbench.rag.proposal import (
    missing_fields,
    proposed_send,
    proposed_take,
    send_line,
    take_lines,
    tree_of,
)
from ragbench.rag.response_body import read_body

PROSE = "Returns are accepted within thirty days."


def lines(response: Any, question: str = "") -> list[str]:
    """The options that are proposed for a response in JSON."""
    body = read_body(json.dumps(response))
    return take_lines(body, question)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (
            {"answer": PROSE, "hits": [{"id": 1, "text": PROSE, "score": 0.5}]},
            ["answer=.answer", "contexts=.hits[].text", "ids=.hits[].id", "scores=.hits[].score"],
        ),
        (
            {"reply": PROSE, "id": "a b", "hits": [{"doc": {"body": PROSE, "uri": "kb://1"}}]},
            ["answer=.reply", "contexts=.hits[].doc.body", "ids=.hits[].doc.uri"],
        ),
        (
            {"reply": PROSE, "evidence": [{"doc": {"uid": "d-1", "hash": "f00", "body": PROSE}}]},
            ["answer=.reply", "contexts=.evidence[].doc.body", "ids=.evidence[].doc.uid"],
        ),
        (
            {"reply": PROSE, "evidence": [{"chunkId": 7, "body": PROSE}]},
            ["answer=.reply", "contexts=.evidence[].body", "ids=.evidence[].chunkId"],
        ),
        (
            {"question": PROSE + PROSE, "result": PROSE, "context": [PROSE, PROSE]},
            ["answer=.result", "contexts=.context[]"],
        ),
        (
            {"choices": [{"message": {"role": "assistant", "content": PROSE}}]},
            ["answer=.choices[0].message.content"],
        ),
        (
            {"data": {"bot_reply": "Yes.", "title": PROSE}, "model": "gpt 4"},
            ["answer=.data.bot_reply"],
        ),
        ({"ergebnis": PROSE, "nr": 5}, ["answer=.ergebnis"]),
        (
            {"results": [{"content": PROSE, "_id": "x", "_distance": 0.1}]},
            ["contexts=.results[].content", "ids=.results[]._id"],
        ),
        (
            {"answer": "a", "sources": [{"text": PROSE, "id": 1}, {"text": PROSE}]},
            ["answer=.answer", "contexts=.sources[].text"],
        ),
        (
            {"output": json.dumps({"answer": PROSE, "documents": [{"page_content": PROSE}]})},
            ["answer=.output.answer", "contexts=.output.documents[].page_content"],
        ),
        (
            {"answer": PROSE, "docs": [["d1", PROSE, 0.5], ["d2", PROSE, 0.25]]},
            ["answer=.answer", "contexts=.docs[][1]", "ids=.docs[][0]"],
        ),
        (
            {"answer": PROSE, "documents": [[PROSE, PROSE]]},
            ["answer=.answer", "contexts=.documents[][]"],
        ),
        ({"status": "ok", "request_id": "0c1a", "n": 3}, []),
        ({"error": "question is required"}, []),
        ([], []),
    ],
)
def test_options_fit_a_response(response: Any, expected: list[str]) -> None:
    assert lines(response) == expected


@pytest.mark.parametrize(
    ("refusal", "header"),
    [
        ('{"message": "X-Key header required"}', "X-Key=${API_KEY}"),
        ("missing api-key", "api-key=${API_KEY}"),
        ("Not authenticated", "Authorization=Bearer ${API_KEY}"),
    ],
)
def test_the_header_that_a_refusal_names_is_proposed(refusal: str, header: str) -> None:
    sentence = proposed_send(401, refusal, "POST", {})

    assert sentence == f"It asks for credentials: --header '{header}'"


def test_the_repeated_question_is_no_answer() -> None:
    assert lines({"text": "Do bees fly?", "out": PROSE}, "Do bees fly?") == ["answer=.out"]


def test_pieces_of_a_stream_are_an_answer() -> None:
    events = [
        {"type": "token", "data": {"delta": "Thirty"}},
        {"type": "token", "data": {"delta": " days."}},
        {"type": "sources", "documents": [{"page_content": PROSE, "metadata": {"source": "kb"}}]},
    ]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    assert take_lines(read_body(text)) == [
        "answer=.data.delta",
        "contexts=.documents[].page_content",
        "ids=.documents[].metadata.source",
    ]


def test_a_text_is_its_own_answer() -> None:
    assert take_lines(read_body("Thirty days.")) == ["answer=."]


def test_paths_are_quoted_for_a_shell() -> None:
    response = json.dumps({"my answer": PROSE})

    assert proposed_take(read_body(response)) == """Try: --take 'answer=.["my answer"]'"""


def test_without_a_proposal_the_paths_are_listed() -> None:
    assert proposed_take(read_body('{"a": {"b": 1}, "c": null}')) == "It holds .a.b, .c"


def test_a_huge_response_is_cut() -> None:
    response = {f"key {number}": "x" * 1000 for number in range(1000)}

    tree = tree_of(read_body(json.dumps(response)))

    assert len(tree) == 41
    assert max(len(sample) for _, sample in tree) < 100


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ('{"detail": [{"loc": ["body", "question"], "type": "missing"}]}', ["question"]),
        ('{"detail": [{"loc": ["body", "in", "text"]}, {"loc": ["body", "k"]}]}', ["in.text", "k"]),
        ('{"detail": [{"loc": ["body"]}]}', []),
        ('{"detail": "Not Found"}', []),
        ('{"question": ["This field is required."]}', ["question"]),
        ('{"errors": {"query": ["The query field is required."]}}', ["query"]),
        ('{"error": "Missing required field: message"}', ["message"]),
        ('{"message": "\\"prompt\\" is required"}', ["prompt"]),
        ('{"error": {"message": "Missing required parameter: \'messages\'."}}', ["messages"]),
        ("query is required", ["query"]),
        ("KeyError: 'user_input'", ["user_input"]),
        ('{"error": {"message": "payload.utterance must be provided"}}', ["payload.utterance"]),
        ("Field required: userMessage", ["userMessage"]),
        ('{"error": "input was not provided"}', ["input"]),
        ("'prompt' cannot be empty", ["prompt"]),
        ('{"error": "content filter"}', []),
        ("", []),
    ],
)
def test_a_refusal_names_fields(body: str, names: list[str]) -> None:
    assert [field.name for field in missing_fields(body)] == names


@pytest.mark.parametrize(
    ("name", "is_only", "line"),
    [
        ("question", False, "question={query}"),
        ("inputs.query", False, "inputs.query={query}"),
        ("messages", False, "messages={messages}"),
        ("chat_history", False, "chat_history={history}"),
        ("top_k", False, "top_k=5"),
        ("queries", False, 'queries=["{query}"]'),
        ("sessionId", False, "sessionId={session_id}"),
        ("frage", True, "frage={query}"),
        ("model", False, "model=VALUE"),
    ],
)
def test_a_field_is_sent_by_its_name(name: str, is_only: bool, line: str) -> None:
    assert send_line(name, is_only=is_only) == line


def test_a_context_per_event_is_no_answer() -> None:
    body = read_body(
        '{"t": "ctx", "passage": {"body": "Bees fly from March on.", "ref": "b1"}}\n'
        '{"t": "ctx", "passage": {"body": "Fish swim in the sea.", "ref": "f1"}}\n'
        '{"t": "tok", "v": "Yes, "}\n{"t": "tok", "v": "bees fly."}\n'
    )

    assert take_lines(body) == ["answer=.v", "contexts=.passage.body", "ids=.passage.ref"]


def test_a_server_of_graphql_is_sent_its_query_and_a_variable() -> None:
    refusal = '{"errors": [{"message": "Syntax Error: Unexpected Name \\"Do\\"."}]}'

    assert "--send 'variables.q={query}'" in proposed_send(400, refusal, "POST", {"query": "Do"})


def test_an_answer_and_contexts_may_be_below_one_key() -> None:
    parts = [{"role": "assistant", "parts": [{"type": "text", "text": "Yes, bees fly."}]}]
    chunks = [{"document": {"uri": "b1"}, "excerpt": "Bees fly from March on."}]

    proposed = lines({"result": {"messages": parts, "grounding": {"chunks": chunks}}})

    assert proposed == [
        "answer=.result.messages[0].parts[0].text",
        "contexts=.result.grounding.chunks[].excerpt",
        "ids=.result.grounding.chunks[].document.uri",
    ]


def test_an_answer_in_plain_pieces_is_beside_an_event_with_sources() -> None:
    body = read_body(
        'event: sources\ndata: [{"snippet": "Bees fly from March on."}]\n\n'
        "event: token\ndata: Yes,\n\nevent: token\ndata:  bees fly.\n\n",
        "text/event-stream",
    )

    assert take_lines(body) == ["answer=.", "contexts=.[].snippet"]


def test_german_names_of_a_service_are_proposed() -> None:
    hits = [{"dokument": "b1", "absatz": "Bienen fliegen ab März."}]

    assert lines({"antwort": "Ja, ab März.", "fundstellen": hits}) == [
        "answer=.antwort",
        "contexts=.fundstellen[].absatz",
        "ids=.fundstellen[].dokument",
    ]
