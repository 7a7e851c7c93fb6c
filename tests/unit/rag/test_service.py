"""Foreign services, against a real server: what is sent, what is read, and what is said else."""

import json
import pickle
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from ragbench import as_rag
from ragbench.errors import ConfigError, ContractError, InterfaceError
from ragbench.io.http import HTTPRagError
from ragbench.rag.load import describe_rag, http_rag
from ragbench.stages.rag import generate_stage, retrieve_stage
from tests.json_server import serving_json
from tests.unit.rag.http_server import Answer, Server

pytestmark = pytest.mark.extra("http")

ASK = {"question": "{query}"}
TAKE = {"answer": ".answer", "contexts": ".sources[].text", "ids": ".sources[].id"}
REPLY = {
    "answer": "Bees fly.",
    "sources": [{"text": "one", "id": 1}, {"text": "two", "id": 2}],
}
TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]


def mapped(server: Server, send: Any = None, take: Any = None, **options: Any) -> Any:
    """A RAG that asks the server by a mapping of requests and responses."""
    return as_rag(f"POST:{server.url}/ask", send=send or ASK, take=take or TAKE, **options)


def sent_body(server: Server, send: Any, query: str = "Why?", **options: Any) -> Any:
    """The body of the request in which a service is asked this question."""
    server.then(Answer(REPLY))
    mapped(server, send).retrieve_with_metadata(query, **options)
    return server.requests[-1].body


# --- what is sent


def test_a_question_is_put_into_the_parsed_object(server: Server) -> None:
    query = 'He said "no", {query} \\ and\nleft'

    body = sent_body(server, {"in": {"question": "{query}"}, "stream": False}, query)

    assert body == {"in": {"question": query}, "stream": False}
    assert server.requests[0].path == "/ask"


def test_a_whole_placeholder_keeps_its_type(server: Server) -> None:
    assert sent_body(server, {**ASK, "k": "{top_k}"}, top_k=3) == {"question": "Why?", "k": 3}


def test_a_placeholder_in_a_text_becomes_a_part_of_it(server: Server) -> None:
    body = sent_body(server, {"prompt": "Q: {query} ({top_k}) {{context}}"}, top_k=3)

    assert body == {"prompt": "Q: Why? (3) {context}"}


def test_a_key_whose_placeholder_has_no_value_is_left_out(server: Server) -> None:
    assert sent_body(server, {**ASK, "k": "{top_k}"}) == {"question": "Why?"}


def test_messages_are_the_history_and_the_question(server: Server) -> None:
    server.then(Answer(REPLY))
    rag = mapped(server, {"messages": "{messages}", "past": "{history}"})
    stage = retrieve_stage(rag, b"", None)
    assert stage.call is not None

    stage.call([("Why?", TURNS)])

    question = {"role": "user", "content": "Why?"}
    assert server.requests[0].body == {"messages": [*TURNS, question], "past": TURNS}


def test_each_request_has_a_session_of_its_own(server: Server) -> None:
    send = {**ASK, "session": "{session_id}"}

    body = sent_body(server, send)
    next_body = sent_body(server, send)

    assert body["session"] != next_body["session"]


def test_lines_build_objects_and_lists(server: Server) -> None:
    lines = [
        '{"inputs": {"lang": "en"}}',
        "inputs.question={query}",
        "options.k=5",
        'options.name="5"',
        "options.tags=[1, 2]",
        "messages[0].role=user",
        "messages[0].content={query}",
    ]

    assert sent_body(server, lines) == {
        "inputs": {"lang": "en", "question": "Why?"},
        "options": {"k": 5, "name": "5", "tags": [1, 2]},
        "messages": [{"role": "user", "content": "Why?"}],
    }


def test_a_file_is_a_template(server: Server, tmp_path: Any) -> None:
    file = tmp_path / "body.json"
    file.write_text('{"q": "{query}", "deep": [{"n": 1}]}')

    assert sent_body(server, [f"@{file}"]) == {"q": "Why?", "deep": [{"n": 1}]}


def test_headers_come_from_the_environment_and_are_shown_nowhere(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVICE_KEY", "tok-4711-abcdef")
    server.then(Answer(REPLY), Answer(status=500, text="no tok-4711-abcdef"))
    rag = mapped(server, headers={"Authorization": "Bearer ${MY_SERVICE_KEY}"})

    rag.retrieve("Why?")
    with pytest.raises(HTTPRagError) as raised:
        rag.retrieve("Why not?")

    assert server.requests[0].headers["authorization"] == "Bearer tok-4711-abcdef"
    assert "tok-4711" not in str(raised.value)
    assert "tok-4711" not in json.dumps(describe_rag(rag, server.url))
    assert "tok-4711" not in repr(rag)


def test_a_variable_that_is_not_set_is_named(server: Server) -> None:
    with pytest.raises(ConfigError, match="header X-Key needs the environment variable NOT_SET_1"):
        mapped(server, headers={"X-Key": "${NOT_SET_1}"})


@pytest.fixture
def echo() -> Iterator[str]:
    """A service whose answer is the request that it was sent."""

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        return 200, {"answer": json.dumps([method, path, body])}

    with serving_json(answer) as url:
        yield url


def echoed(rag: Any, query: str) -> Any:
    """Method, path and body of the request in which the question is asked."""
    return json.loads(rag.generate(query, []))


def test_get_sends_parameters(echo: str) -> None:
    send = {"q": "{query}", "raw": True, "tag": ["a", "b"]}
    rag = as_rag(f"GET:{echo}/ask?v=1", send=send, take={"answer": ".answer"})

    method, path, body = echoed(rag, "Söll & Co?")

    assert method == "GET"
    assert body is None
    assert parse_qsl(urlsplit(path).query) == [
        ("v", "1"),
        ("q", "Söll & Co?"),
        ("raw", "true"),
        ("tag", "a"),
        ("tag", "b"),
    ]


def test_an_address_may_hold_the_question(echo: str) -> None:
    rag = as_rag(f"GET:{echo}/ask/{{query}}", take={"answer": ".answer"})

    assert echoed(rag, "a/b?") == ["GET", "/ask/a%2Fb%3F", None]


def test_doubled_braces_in_an_address_are_sent_as_single_ones(echo: str) -> None:
    rag = as_rag(f"GET:{echo}/{{{{tenant}}}}/{{query}}", take={"answer": ".answer"})

    assert echoed(rag, "a") == ["GET", "/%7Btenant%7D/a", None]


def test_a_form_is_sent_where_the_header_says_so(echo: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    rag = as_rag(f"POST:{echo}/ask", send=ASK, take={"answer": ".answer"}, headers=headers)

    assert echoed(rag, "a & b") == ["POST", "/ask", "question=a+%26+b"]


# --- what is read


def test_answer_contexts_and_ids_come_of_one_request(server: Server) -> None:
    server.then(Answer(REPLY))
    rag = mapped(server)

    retrieval = rag.retrieve_with_metadata("Why?")
    answer = rag.generate_with_metadata("Why?", retrieval.contexts)

    assert retrieval.contexts == ["one", "two"]
    assert retrieval.context_ids == ["1", "2"]
    assert answer.response == "Bees fly."
    assert len(server.requests) == 1


def test_counts_and_cost_are_in_the_metadata(server: Server) -> None:
    server.then(Answer({**REPLY, "usage": {"prompt_tokens": 5}, "usd": "0.25", "took": 7}))
    take = {**TAKE, "usage": ".usage", "cost": ".usd", "seconds": ".took"}
    rag = mapped(server, take=take)

    rag.retrieve("Why?")
    answer = rag.generate_with_metadata("Why?", ["one", "two"])

    assert answer.metadata == {"usage": {"prompt_tokens": 5}, "cost": 0.25, "seconds": 7}


def test_documents_are_read_by_the_usual_names(server: Server) -> None:
    hit = {"content": "one", "chunk_id": "a", "score": 0.5, "metadata": {"page": 1}}
    server.then(Answer({"hits": [hit]}))
    rag = mapped(server, take={"contexts": ".hits[]"})

    retrieval = rag.retrieve_with_metadata("Why?")

    assert retrieval.contexts == ["one"]
    assert retrieval.context_ids == ["a"]
    assert retrieval.scores == [0.5]
    assert retrieval.context_metadata == [{"page": 1}]


def test_a_service_that_gives_contexts_alone_only_retrieves(server: Server) -> None:
    rag = mapped(server, take={"contexts": ".sources[].text"})

    assert rag.families == {"retrieval"}


def test_ids_alone_are_a_retrieval_without_texts(server: Server) -> None:
    server.then(Answer(REPLY))
    rag = mapped(server, take={"ids": ".sources[].id"})

    retrieval = rag.retrieve_with_metadata("Why?")

    assert retrieval.is_ids_alone
    assert retrieval.context_ids == ["1", "2"]


def test_no_hits_are_an_empty_retrieval(server: Server) -> None:
    server.then(Answer({"answer": "I do not know.", "sources": []}))

    assert mapped(server).retrieve_with_metadata("Why?").contexts == []


def test_a_stream_is_joined(server: Server) -> None:
    text = (
        'data: {"answer": "Bees"}\n\ndata: {"answer": " fly."}\n\n'
        'data: {"sources": [{"text": "one", "id": 1}]}\n\ndata: [DONE]\n\n'
    )
    server.then(Answer(text=text, headers={"content-type": "text/event-stream"}))
    rag = mapped(server)

    retrieval = rag.retrieve_with_metadata("Why?")

    assert retrieval.context_ids == ["1"]
    assert rag.generate("Why?", retrieval.contexts) == "Bees fly."


@pytest.mark.parametrize(
    ("body", "take", "message"),
    [
        (
            {"reply": "x"},
            {"answer": ".answer"},
            "answer=.answer finds nothing: the resp",
        ),
        ({"answer": None}, {"answer": ".answer"}, "finds nothing: .answer is null"),
        ({"answer": {"a": 1}}, {"answer": ".answer"}, "an object with the keys a, and not a"),
        (
            {"c": [["x"]]},
            {"contexts": ".c[]"},
            r"0 is a list of 1, .*end the path with \[\]",
        ),
        ({"c": ["x"], "i": []}, {"contexts": ".c[]", "ids": ".i[]"}, "contexts=.c.. has 1, ids=.i"),
        (
            {"c": ["x"], "s": ["y"]},
            {"contexts": ".c[]", "scores": ".s[]"},
            "is a text, and not a",
        ),
        ({"c": ["x"], "i": [{}]}, {"contexts": ".c[]", "ids": ".i[]"}, "without keys, and not ids"),
    ],
)
def test_what_does_not_fit_fails_with_what_is_there(
    server: Server, body: Any, take: dict[str, str], message: str
) -> None:
    server.then(Answer(body))
    rag = mapped(server, take=take)

    with pytest.raises(ContractError, match=message):
        rag.retrieve_with_metadata("Why?")


def test_a_name_with_a_question_mark_may_be_missing(server: Server) -> None:
    server.then(Answer({"answer": "x", "c": ["a"], "s": [None]}))
    take = {"answer": ".answer", "contexts": ".c[]", "scores?": ".s[]", "ids?": ".ids[]"}

    retrieval = mapped(server, take=take).retrieve_with_metadata("Why?")

    assert retrieval.contexts == ["a"]
    assert retrieval.scores is None
    assert retrieval.context_ids is None


def test_of_several_paths_the_first_that_leads_to_something_counts(server: Server) -> None:
    server.then(Answer({"output": "x"}))
    rag = mapped(server, take={"answer": [".output.answer", ".output"]})

    assert rag.generate("Why?", []) == "x"


def test_a_doubled_key_in_the_response_is_an_error(server: Server) -> None:
    server.then(Answer(text='{"answer": "Yes.", "answer": "No."}'))
    rag = mapped(server, take={"answer": ".answer"})

    with pytest.raises(HTTPRagError, match="field 'answer': the key stands twice"):
        rag.generate_with_metadata("Why?", [])


def test_a_stream_that_breaks_off_with_an_error_is_no_answer(server: Server) -> None:
    text = 'data: {"answer": "Bees"}\n\nevent: error\ndata: {"message": "overloaded"}\n\n'
    server.then(Answer(text=text))
    rag = mapped(server, take={"answer": ".answer"})

    with pytest.raises(ContractError, match="the stream ended with an error: overloaded"):
        rag.generate("Why?", [])


# --- what is wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"send": {"q": "x"}}, r"the question is not sent: add --send question=\{query\}"),
        ({"send": {"q": "{qury}"}}, r"no placeholder \{qury\}. Did you mean 'query'\?"),
        ({"send": ["question"]}, "--send question: expected KEY=VALUE"),
        ({"send": ["@nowhere.json"]}, "--send @nowhere.json: No such file"),
        ({"send": ["{query}"]}, "--send is not JSON"),
        ({"send": ["a=1", "a.b={query}"]}, "another --send puts something else"),
        ({"send": ["a[]={query}"]}, r"\[\] has no position"),
        ({"send": 5}, "send must be an object or lines, and not a number"),
        (
            {"take": {"anwser": ".a"}},
            r"anwser: there is no such name\. Did you mean 'answer'\?",
        ),
        ({"take": ["answer"]}, "--take answer: expected NAME=PATH"),
        ({"take": {"answer": ".a[?x]"}}, "is not a path"),
        ({"take": {"answer": 5}}, "--take answer must be a path such as .answer"),
        ({"take": {"cost": ".a"}}, "nothing is taken that could be measured"),
        ({"retry": 1}, "a service takes no retry"),
    ],
)
def test_a_wrong_mapping_is_refused_before_anything_is_asked(
    options: dict[str, Any], message: str
) -> None:
    mapping = {"send": ASK, "take": TAKE, **options}

    with pytest.raises(ConfigError, match=message):
        http_rag("POST:http://127.0.0.1:1/ask", **mapping)


def test_an_unknown_word_before_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"neither a method nor a preset.*'dify'"):
        as_rag("diffy:http://127.0.0.1:1")


def test_a_mapping_is_for_an_address() -> None:
    with pytest.raises(InterfaceError, match="send= is for a URL"):
        as_rag(lambda query: "x", send=ASK)


@pytest.mark.parametrize(
    ("status", "text", "advice"),
    [
        (401, "", "It asks for credentials: --header 'Authorization=Bearer ${API_KEY}'"),
        (404, "", "Nothing is at this address: give the whole one"),
        (405, "", "It takes no POST: try GET:URL"),
        (415, "", "--header Content-Type=application/x-www-form-urlencoded sends a form"),
        (422, '{"detail": [{"loc": ["body", "msg"], "type": "missing"}]}', "'msg={query}'"),
        (422, '{"detail": [{"loc": ["body", "question"]}]}', "It may take a form"),
        (422, '{"detail": [{"loc": ["query", "q"]}]}', "'POST:URL?q={query}'"),
        (302, "", "Give the address that it redirects to"),
    ],
)
def test_a_refusal_ends_the_run_and_says_what_to_do(
    server: Server, status: int, text: str, advice: str
) -> None:
    server.then(Answer(status=status, text=text))

    with pytest.raises(ContractError) as raised:
        mapped(server).retrieve("Why?")

    message = str(raised.value)
    assert advice in message
    assert "docs/http.md" in message
    assert raised.value.ends_run


def test_the_first_response_without_a_mapping_proposes_one(server: Server) -> None:
    server.then(Answer(REPLY))

    with pytest.raises(ContractError) as raised:
        as_rag(f"POST:{server.url}/ask", send=ASK).retrieve("Why?")

    options = "--take answer=.answer --take 'contexts=.sources[].text' --take 'ids=.sources[].id'"
    assert options in str(raised.value)


def test_after_an_answer_was_read_an_error_is_one_of_its_case(server: Server) -> None:
    server.then(Answer(REPLY), Answer({"detail": "odd"}), Answer(status=422, text="{}"))
    rag = mapped(server)
    rag.retrieve("Why?")

    for query in ("How?", "When?"):
        with pytest.raises(ContractError) as raised:
            rag.retrieve(query)
        assert not raised.value.ends_run


def test_a_bad_request_may_be_one_of_the_question(server: Server) -> None:
    server.then(Answer(status=400, text='{"error": "content filter"}'))
    rag = mapped(server)

    ends_run: list[bool] = []
    for query in ("a", "b", "c"):
        with pytest.raises(ContractError) as raised:
            rag.retrieve(query)
        ends_run.append(raised.value.ends_run)

    # The third in turn is no accident.
    assert ends_run == [False, False, True]


def test_a_server_of_ragbenchs_contract_is_told_from_others_at_the_first_question(
    server: Server,
) -> None:
    server.then(Answer(status=404, text="Not Found"))

    with pytest.raises(ContractError, match="POST:https://host/ask") as raised:
        as_rag(server.url).retrieve("Why?")

    assert raised.value.ends_run


def test_an_error_in_a_successful_response_is_shown(server: Server) -> None:
    server.then(Answer({"data": None, "errors": [{"message": "Unknown field 'ask'"}]}))
    rag = mapped(server, take={"answer": ".data.ask.answer"})

    with pytest.raises(ContractError, match=r"Its errors: .*Unknown field 'ask'"):
        rag.retrieve("Why?")


def test_a_number_of_contexts_that_is_not_sent_is_refused(server: Server) -> None:
    with pytest.raises(ContractError, match=r"add --send top_k=\{top_k\}") as raised:
        mapped(server).retrieve("Why?", top_k=3)

    assert raised.value.ends_run
    assert server.requests == []


def test_numbers_that_json_does_not_allow_are_named(server: Server) -> None:
    server.then(Answer(text='{"answer": "x", "c": ["a"], "s": [NaN]}'))
    take = {"answer": ".answer", "contexts": ".c[]", "scores": ".s[]"}

    with pytest.raises(ContractError, match=r"scores=.s.*and not a finite number"):
        mapped(server, take=take).retrieve("Why?")


@pytest.mark.parametrize("text", ["", "<html>Welcome</html>", "[" * 5000, "null", "5"])
def test_any_other_body_is_an_error_of_the_mapping(server: Server, text: str) -> None:
    server.then(Answer(text=text))

    with pytest.raises(ContractError, match=r"answer=.answer finds nothing"):
        mapped(server).retrieve("Why?")


@pytest.mark.parametrize("path", ["", "/retrieve", "/answer"])
def test_results_of_another_form_end_a_run_at_the_first_request(server: Server, path: str) -> None:
    server.then(Answer({"results": [{"documents": ["a"]}, {"documents": ["b"]}]}))
    rag: Any = as_rag(f"{server.url}{path}")

    with pytest.raises(ContractError) as raised:
        rag.batch_retrieve_with_metadata(["Why?", "How?"])

    assert raised.value.ends_run


def test_a_blank_may_separate_the_method_from_the_address(server: Server) -> None:
    server.then(Answer(REPLY))
    rag = as_rag(f"post {server.url}/ask", send=ASK, take=TAKE)

    assert rag.retrieve("Why?") == ["one", "two"]


# --- what it is


def test_the_mapping_is_a_part_of_its_identity(server: Server) -> None:
    of_other_requests = mapped(server, send={"q": "{query}"})
    of_other_responses = mapped(server, take={"contexts": ".c[]"})

    identities: set[str] = set()
    for rag in (mapped(server), of_other_requests, of_other_responses):
        identity = rag.stage_identity("retrieve")
        identities.add(json.dumps(identity))

    assert len(identities) == 3


def test_nothing_but_questions_is_asked(server: Server) -> None:
    server.page = Answer({"version": "7"})

    rag = mapped(server)

    assert rag.adapts[0].version is None
    assert server.requests == []


def test_it_travels_to_another_process(server: Server) -> None:
    server.then(Answer(REPLY))

    rag = pickle.loads(pickle.dumps(mapped(server)))

    assert rag.retrieve("Why?") == ["one", "two"]


def test_a_history_is_taken_only_where_it_is_sent(server: Server) -> None:
    server.then(Answer(REPLY))
    stage = generate_stage(mapped(server), b"")
    assert stage.call is not None

    stage.call([("Why?", [], TURNS)])

    assert server.requests[0].body == {"question": "Why?"}
