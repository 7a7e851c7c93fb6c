"""Services with requests of their own: the examples of docs/http.md, and ways to find a mapping."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_traces
from ragbench.core.trace import Trace
from tests.cli.conftest import CASES
from tests.cli.runs import ROOT, Ragbench, checks, lines
from tests.json_server import serving_json

pytestmark = pytest.mark.extra("http")

BEES = {
    "id": "c1",
    "query": "Do bees fly?",
    "reference": "Yes, bees fly.",
    "reference_contexts": ["Bees fly from March on."],
}
REPLY = {
    "answer": "Yes, bees fly.",
    "sources": [{"id": "bees-1", "text": "Bees fly from March on."}],
}
ASK = ("--send", "question={query}")
TAKE = ("--take", "answer=.answer", "--take", "contexts=.sources[].text")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines("cases.jsonl", [BEES])
    return tmp_path


@contextmanager
def service(answer: Callable[[Any], tuple[int, Any]]) -> Generator[tuple[str, list[Any]]]:
    """The address of a service, and the bodies that it was sent."""
    bodies: list[Any] = []

    def respond(method: str, path: str, body: Any) -> tuple[int, Any]:
        if path != "/ask":
            return 404, {"detail": "Not Found"}
        bodies.append(body)
        return answer(body)

    with serving_json(respond) as url:
        yield f"{url}/ask", bodies


def traced() -> Trace:
    """The only case of the run."""
    (case,) = open_traces("run")
    return case.trace


def response_of(trace: Trace) -> str:
    assert trace.generation.value is not None
    return trace.generation.value.response


def examples() -> list[tuple[bytes, str]]:
    """Each response of the page, with the command below it."""
    page = (ROOT / "docs" / "http.md").read_text("utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    (section,) = [section for section in sections if section.startswith("Examples\n")]
    pattern = r"```(?:json|text)\n(.*?)```\n\n```console\n\$ (.*?)```"
    pairs = []
    for response, command in re.findall(pattern, section, re.DOTALL):
        on_one_line = command.replace("\\\n", " ")
        pairs.append((response.encode(), on_one_line))
    return pairs


EXAMPLES = ("objects", "search", "events", "form", "json in a string", "preset")


@pytest.mark.parametrize(("response", "command"), examples(), ids=EXAMPLES)
def test_an_example_of_the_page_reads_its_response(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, response: bytes, command: str
) -> None:
    monkeypatch.setenv("API_KEY", "tok-4711-abcdef")
    requests: list[tuple[str, str, Any]] = []

    def respond(*request: Any) -> tuple[int, Any]:
        requests.append(request)
        return 200, response

    with serving_json(respond) as url:
        _, *arguments = shlex.split(command.replace("https://host", url))
        ragbench(*arguments, "--out", "run").ok()

    trace = traced()
    assert trace.retrieval.value is not None
    assert trace.retrieval.value.contexts == ["Bees fly from March on."]
    if "answer" in command or "dify" in command:
        assert response_of(trace) == "Yes, bees fly."
    assert len(requests) == 1
    assert "tok-4711" not in Path("run/report.json").read_text("utf-8")


def test_the_report_notes_the_mapping(ragbench: Ragbench) -> None:
    with service(lambda body: (200, REPLY)) as (url, _):
        system = ("--rag", f"POST:{url}", *ASK, *TAKE)
        ragbench("eval", "cases.jsonl", *system, "--out", "run").ok()

    mapping = "asked by POST with question={query}; of its response was taken answer=.answer"
    assert mapping in Path("run/report.json").read_text("utf-8")


def test_another_mapping_asks_again(ragbench: Ragbench) -> None:
    reply = {**REPLY, "short": "Yes."}

    with service(lambda body: (200, reply)) as (url, bodies):
        command = ("eval", "cases.jsonl", "--rag", f"POST:{url}", "--out", "run", *ASK)
        ragbench(*command, *TAKE).ok()
        ragbench(*command, "--take", "answer=.short").ok()

    assert len(bodies) == 2
    assert response_of(traced()) == "Yes."


def test_a_mapping_is_taken_from_the_file(ragbench: Ragbench) -> None:
    with service(lambda body: (200, REPLY)) as (url, bodies):
        config = (
            "rag:\n"
            f"  url: {url}\n"
            "  method: POST\n"
            "  send: {question: {query}}\n"
            '  take: {answer: .answer, contexts: ".sources[].text"}\n'
        )
        Path("ragbench.yaml").write_text(config)
        ragbench("eval", "cases.jsonl", "--out", "run").ok()

    assert bodies == [{"question": "Do bees fly?"}]


def test_recorded_answers_are_scored_whatever_the_file_names(ragbench: Ragbench) -> None:
    Path("ragbench.yaml").write_text("rag: {url: 'http://127.0.0.1:1/ask', send: {q: '{query}'}}\n")
    lines("cases.jsonl", [{**BEES, "response": "Yes, bees fly."}])
    ragbench("eval", "cases.jsonl").ok()


ASKED = "\n  url: http://h\n"
SENT = f"{ASKED}  send: {{q: '{{query}}'}}\n"


@pytest.mark.parametrize(
    ("section", "place", "message"),
    [
        ("{uri: 'http://h'}", "1: field 'uri'", "Did you mean 'url'?"),
        ("{send: {q: '{query}'}}", "1: field 'rag'", "needs 'url'"),
        ("[a]", "1: field 'rag'", "must be the name of a RAG, or hold 'url'"),
        (f"{ASKED}  send:\n    q: x", "3: field 'send'", "the question is not sent"),
        (f"{ASKED}  send:\n    in:\n      q: '{{qry}}'", "5: field 'q'", "Did you mean 'query'?"),
        (f"{ASKED}  send: ['q={{query}}', b]", "3: field 'send'", "--send b: expected KEY=VALUE"),
        (f"{SENT}  take:\n    x: .a", "5: field 'x'", "There are answer, contexts"),
        (f"{SENT}  take:\n    ids: .a\n    answer: .b[", "6: field 'answer'", "is not a path"),
        (f"{SENT}  take:\n    cost: .a", "4: field 'take'", "nothing is taken"),
        (f"{SENT}  headers:\n    A: 1\n    B: ${{NO}}", "6: field 'B'", "variable NO, which is"),
        (f"{SENT}  timeout: soon", "4: field 'timeout'", "must be a number, not 'soon'"),
        (f"{SENT}  retries: -1", "4: field 'retries'", "at least 0, not -1"),
        (f"{SENT}  method: FETCH", "4: field 'method'", "There are POST, GET"),
        ("\n  url: nowhere", "2: field 'url'", "is not an address"),
    ],
)
def test_a_wrong_section_is_refused_with_line_and_key(
    ragbench: Ragbench, section: str, place: str, message: str
) -> None:
    Path("ragbench.yaml").write_text(f"rag: {section}")
    ragbench("eval", "cases.jsonl").refused(f"ragbench.yaml:{place}", message)


def test_arguments_of_a_service_that_are_no_numbers_are_refused(ragbench: Ragbench) -> None:
    arguments = ["--rag-args", '{"timeout": "soon"}']
    refused = ragbench("eval", "cases.jsonl", "--rag", "http://127.0.0.1:1/ask", *arguments)
    refused.refused("timeout must be a number, not 'soon'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rag", "own.py:ask", *ASK), "--send are for a service: name its address"),
        (ASK, "--send are for a service"),
        (("--rag", "POST:http://h", "--send", "q"), "--send q: expected KEY=VALUE"),
        (("--rag", "POST:http://h", "--take", "answer"), "expected NAME=PATH"),
        (("--rag", "POST:http://h", *ASK, "--header", "X"), "--header expects NAME=VALUE"),
        (("--rag", "POST:http://h"), "the question is not sent"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    ragbench: Ragbench, arguments: tuple[str, ...], message: str
) -> None:
    ragbench("eval", "cases.jsonl", *arguments).refused(message)


# --- from an error to the mapping


def test_a_service_of_another_kind_is_noticed_at_the_first_question(ragbench: Ragbench) -> None:
    lines("cases.jsonl", CASES)
    paths: list[str] = []

    def refuse(method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST":
            paths.append(path)
        return 404, {"detail": "Not Found"}

    with serving_json(refuse) as url:
        done = ragbench("eval", "cases.jsonl", "--rag", url, "--concurrency", "1")
    done.refused("docs/http.md", "--rag POST:https://host/ask", "ragbench doctor --rag URL")
    assert paths == ["/retrieve"]


def test_who_reads_the_errors_alone_gets_to_the_mapping(ragbench: Ragbench) -> None:
    def answer(body: Any) -> tuple[int, Any]:
        if "user_question" not in body:
            detail = {"type": "missing", "loc": ["body", "user_question"], "msg": "Field required"}
            return 422, {"detail": [detail]}
        return 200, REPLY

    with service(answer) as (url, bodies):
        command = ["eval", "cases.jsonl", "--out", "run", "--rag", f"POST:{url}"]

        without_field = ragbench(*command, *ASK).refused("It asks for user_question")
        (proposal,) = re.findall(r"Try: (--send \S+)\.", without_field.err)
        send = shlex.split(proposal)

        without_answer = ragbench(*command, *send)
        without_answer.refused("--take names nothing in its response")
        (proposal,) = re.findall(r"Try: (--take .*?)\. See", without_answer.err)
        take = shlex.split(proposal)

        ragbench(*command, *send, *take).ok()

    assert len(bodies) == 3
    assert response_of(traced()) == "Yes, bees fly."


# --- doctor


def test_doctor_finds_out_how_a_service_is_asked(ragbench: Ragbench) -> None:
    def answer(body: Any) -> tuple[int, Any]:
        if body is None or "prompt" not in body:
            return 400, {"error": "Missing required field: prompt"}
        return 200, REPLY

    with service(answer) as (url, bodies):
        done = ragbench("doctor", "--rag", f"POST:{url}", "--question", "Do bees fly?")
        _, _, command = done.out.partition("ragbench eval CASES")
        arguments = shlex.split(command.replace("\\\n", " "))
        ragbench("eval", "cases.jsonl", *arguments, "--out", "run").ok()
    assert bodies == [
        {"question": "Do bees fly?"},
        {"prompt": "Do bees fly?"},
        {"prompt": "Do bees fly?"},
    ]
    retrieval = traced().retrieval.value
    assert retrieval is not None
    assert retrieval.context_ids == ["bees-1"]


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        (("frage",), {"frage": "Why?"}),
        (("question", "user"), {"question": "Why?", "user": "VALUE"}),
        (
            ("messages", "model"),
            {"messages": [{"role": "user", "content": "Why?"}], "model": "VALUE"},
        ),
        (("query", "top_k"), {"query": "Why?", "top_k": 5}),
    ],
)
def test_doctor_sends_what_is_asked_for(
    ragbench: Ragbench, fields: tuple[str, ...], sent: dict[str, Any]
) -> None:
    def answer(body: Any) -> tuple[int, Any]:
        missing = [name for name in fields if name not in body]
        if missing:
            return 422, {"detail": [{"loc": ["body", name]} for name in missing]}
        return 200, REPLY

    with service(answer) as (url, bodies):
        ragbench("doctor", "--rag", f"POST:{url}", "--question", "Why?").ok("--take answer=.answer")
    assert bodies[-1] == sent


def test_doctor_shows_the_response_by_paths(ragbench: Ragbench) -> None:
    reply = {**REPLY, "api_key": "sk-abcdefgh12345678"}

    with service(lambda body: (200, reply)) as (url, _):
        done = ragbench("doctor", "--rag", f"POST:{url}", *ASK, "--json")

    by_path = checks(done)
    assert by_path[".answer"] == ("ok", '"Yes, bees fly."')
    assert by_path[".sources[].text"] == ("ok", '"Bees fly from March on."')
    assert "abcdefgh" not in str(by_path)


def test_doctor_names_what_a_service_without_a_key_wants(ragbench: Ragbench) -> None:
    with service(lambda body: (401, {"detail": "Not authenticated"})) as (url, bodies):
        done = ragbench("doctor", "--rag", f"POST:{url}")
    assert done.code == 2
    assert "--header 'Authorization=Bearer ${API_KEY}'" in done.flat
    assert len(bodies) == 1


def test_doctor_s_command_keeps_the_variable_of_a_header(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_TOKEN", "tok-0815-abcdef")
    header = ("--header", "X-Team-Token=${TEAM_TOKEN}")

    with service(lambda body: (200, REPLY)) as (url, _):
        done = ragbench("doctor", "--rag", f"POST:{url}", *ASK, *header)

    assert "--header 'X-Team-Token=${TEAM_TOKEN}'" in done.out
    assert "tok-0815" not in done.out
    assert "tok-0815" not in done.err


def test_doctor_checks_a_mapping_that_is_complete(ragbench: Ragbench) -> None:
    with service(lambda body: (200, REPLY)) as (url, _):
        done = ragbench("doctor", "--rag", f"POST:{url}", *ASK, *TAKE, "--json")

    by_name = checks(done)
    assert by_name["rag retrieves"] == ("ok", "1 context, without ids, without scores")
    assert by_name["rag generates"] == ("ok", "Yes, bees fly.")
