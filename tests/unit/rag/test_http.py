"""HTTP endpoints, against a real server on this machine."""

import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from ragbench import GenerationResult, PartialBatchError, RetrievalResult, as_rag
from ragbench.core.origin import Origin
from ragbench.errors import (
    ConfigError,
    ContractError,
    InterfaceError,
    StageTimeoutError,
    UnreachableError,
)
from ragbench.io.http import HTTPRagError, JsonEndpoint
from ragbench.ledger.origin import Reuse, differences, may_reuse
from ragbench.ledger.project import Project
from ragbench.ledger.watch import Watch
from ragbench.rag.load import RemoteQueryError, describe_rag, http_rag, stage_origin
from ragbench.rag.parts import ANSWER_KEY
from ragbench.stages.rag import retrieve_stage
from tests.unit.rag.http_server import Answer, Request, Server

pytestmark = pytest.mark.extra("http")

Make = Callable[..., Any]


def closed_after(kind: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    with ExitStack() as opened:
        yield lambda url, **options: opened.enter_context(closing(kind(url, **options)))


@pytest.fixture
def make() -> Iterator[Make]:
    yield from closed_after(http_rag)


@pytest.fixture
def endpoint() -> Iterator[Callable[..., JsonEndpoint]]:
    yield from closed_after(JsonEndpoint)


def test_one_connection_serves_many_requests_with_headers(server: Server, make: Make) -> None:
    server.then(Answer({"results": [{"contexts": ["a"]}]}))
    rag = make(server.url, headers={"Authorization": "Bearer abc"})
    for _ in range(5):
        rag.retrieve("q")
    assert len({request.connection for request in server.requests}) == 1
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer abc"}


@pytest.mark.parametrize("place", ["", "/retrieve"])
def test_a_header_takes_an_environment_variable(
    server: Server, make: Make, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("TEAM_TOKEN_1", "tok-0815-abcdef")
    server.then(Answer({"results": [{"contexts": ["a"]}]}))

    make(f"{server.url}{place}", headers={"X-Team-Token": "${TEAM_TOKEN_1}"}).retrieve("q")

    assert server.requests[0].headers["x-team-token"] == "tok-0815-abcdef"


def test_a_variable_of_a_header_that_is_not_set_is_named(server: Server, make: Make) -> None:
    with pytest.raises(ConfigError, match="header X-Key needs the environment variable NOT_SET_2"):
        make(server.url, headers={"X-Key": "${NOT_SET_2}"})


def test_one_bad_query_fails_alone(server: Server, make: Make) -> None:
    error = {"error": {"type": "ValueError", "message": "too long"}}
    server.then(Answer({"results": [{"contexts": ["a"]}, error, {"contexts": "b"}]}))
    with pytest.raises(PartialBatchError, match="2 of 3 queries failed") as raised:
        make(f"{server.url}/api/").batch_retrieve_with_metadata(["q", "r", "s"], top_k=2)
    good, remote, malformed = raised.value.outcomes
    assert good == RetrievalResult(["a"])
    assert isinstance(remote, RemoteQueryError) and isinstance(malformed, InterfaceError)
    assert str(remote).endswith("/retrieve: ValueError: too long")
    assert "contexts must be a list, not a str" in str(malformed)
    [request] = server.requests
    assert (request.path, request.body["top_k"]) == ("/api/retrieve", 2)
    assert pickle.loads(pickle.dumps(raised.value)).outcomes[0] == good


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], r"must answer with \{'results': \[...\]\}"),
        ({"results": {}}, "must answer with"),
        ({"results": []}, "answered with 0 results for 1 queries"),
        ({"results": ["a"]}, "a result must be an object, not str"),
        ({"results": [{"context": ["a"]}]}, "needs 'contexts'"),
        ({"results": [{"contexts": ["a"], "score": [1]}]}, "did you mean 'scores'"),
        ({"results": [{"contexts": [1]}]}, r"contexts\[0\] must be a string, not a int"),
    ],
)
def test_a_malformed_answer_is_refused(server: Server, make: Make, body: Any, message: str) -> None:
    server.then(Answer(body))
    with pytest.raises(InterfaceError, match=message):
        make(server.url).retrieve("q")


def test_an_error_shows_status_url_and_the_head_of_the_body(server: Server, make: Make) -> None:
    server.then(Answer(status=500, text="Traceback:\n  index\tmissing " + "x" * 1000))
    with pytest.raises(HTTPRagError) as raised:
        make(server.url).retrieve("q")
    assert raised.value.status == 500
    message = str(raised.value)
    assert message.startswith(f"{server.url}/retrieve answered 500: Traceback: index missing xxx")
    assert len(message) < 400
    assert len(server.requests) == 1  # the server may have done the work: not repeated


TOMORROW = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        ([(502, ""), (503, "")], [0.5, 1.0]),
        ([(504, ""), (503, "7"), (503, "soon")], [0.5, 7.0, 2.0]),
        ([(503, TOMORROW)], None),
        ([(503, "3600")], None),
        ([(429, ""), (429, "7"), (429, "")], [1.0, 7.0, 4.0]),
        ([(503, "")] * 4, [0.5, 1.0, 2.0]),
    ],
)
def test_a_trouble_is_waited_out_within_reason(
    server: Server, endpoint: Any, answers: list[tuple[int, str]], waits: Any
) -> None:
    raised = [Answer(status=s, headers={"retry-after": w} if w else {}) for s, w in answers]
    server.then(*raised, Answer({"ok": 1}))
    waited: list[float] = []
    asking = endpoint(server.url, sleep=waited.append)
    if waits is None:
        with pytest.raises(HTTPRagError, match="answered 503 and asks to wait"):
            asking.post("/x", {})
    elif len(answers) > 3:
        with pytest.raises(HTTPRagError, match="answered 503 after 4 attempts"):
            asking.post("/x", {})
    else:
        assert asking.post("/x", {}) == {"ok": 1}
    assert waited == (waits or [])


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_no_server_is_reported_after_the_retries(endpoint: Any) -> None:
    waits: list[float] = []
    url = f"http://bob:s3cret@127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError, match="cannot be reached after 4 attempts") as raised:
        endpoint(url, sleep=waits.append).post("/x", {})
    assert waits == [0.5, 1.0, 2.0]
    assert "s3cret" not in str(raised.value)
    assert not raised.value.answered_before


def test_a_server_that_has_gone_is_waited_for_once(server: Server, endpoint: Any) -> None:
    waits: list[float] = []
    server.answers.append(Answer({"ok": 1}))
    asking = endpoint(server.url, sleep=waits.append)
    assert asking.post("/x", {}) == {"ok": 1}
    asking._base = f"http://127.0.0.1:{free_port()}"
    for _ in range(3):
        with pytest.raises(UnreachableError) as raised:
            asking.post("/x", {})
        assert raised.value.answered_before
    assert len(waits) == 3


def test_a_slow_server_is_a_timeout_and_not_asked_again(server: Server, endpoint: Any) -> None:
    with socket.socket() as silent:  # accepts, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StageTimeoutError, match="did not answer in time"):
            endpoint(url, timeout=0.05).post("/x", {})


def test_a_broken_answer_is_reported_and_not_asked_again(server: Server, endpoint: Any) -> None:
    server.then(Answer({"ok": 1}, headers={"content-encoding": "gzip"}))
    with pytest.raises(HTTPRagError, match="/x failed: the answer cannot be unpacked as gzip"):
        endpoint(server.url).post("/x", {})
    assert len(server.requests) == 1


def test_credentials_of_the_url_go_along_a_redirect_on_the_same_host(
    server: Server, endpoint: Any
) -> None:
    server.then(Answer(status=308, headers={"location": "/y"}), Answer({"ok": 1}))
    endpoint(server.url.replace("http://", "http://bob:s3cret@")).post("/x", {"a": 1})
    assert server.requests[1].headers["authorization"].startswith("Basic ")
    assert [(r.path, r.body) for r in server.requests] == [("/x", {"a": 1}), ("/y", {"a": 1})]


@pytest.mark.parametrize(
    ("status", "location", "raised", "requests"),
    [
        (307, "http://bob:pw12@elsewhere.test/x", r"elsewhere\.test/x, another host: not", 1),
        (302, "/login", "answered 302 with a redirect to /login", 1),  # it would drop the body
        (307, "/x", "answered 307", 6),  # and again, and again
    ],
)
def test_a_redirect_that_leads_nowhere_is_not_followed(
    server: Server, endpoint: Any, status: int, location: str, raised: str, requests: int
) -> None:
    server.then(Answer(status=status, headers={"location": location}))
    with pytest.raises(HTTPRagError, match=raised) as caught:
        endpoint(server.url, headers={"Authorization": "Bearer tok3n"}).post("/x", {})
    assert "pw12" not in str(caught.value)
    assert len(server.requests) == requests


def test_no_secret_reaches_a_message_or_an_identity(server: Server, make: Make) -> None:
    def echo(request: Request) -> Answer:
        return Answer(status=401, text=f"denied: {request.headers} bob s3cr%40t s3cr@t")

    server.then(echo)
    url = server.url.replace("http://", "http://bobby:s3cr%40t@") + "?api_key=k3y"
    server.page = Answer({"version": "v1 hush-hush"})
    rag = make(url, headers={"X-Api-Key": "hush-hush", "X-Trace": "visible"})
    with pytest.raises(ContractError) as raised:
        rag.retrieve("q")
    shown = str(raised.value) + repr(rag) + str(rag.stage_identity("retrieve"))
    for secret in ("s3cr", "hush", "k3y", "bobby", "Basic Ym"):
        assert secret not in shown, secret
    assert "visible" in shown
    assert server.requests[0].path == "/retrieve?api_key=k3y"


def test_the_last_segment_says_what_a_server_does() -> None:
    both = {"retrieval", "generation"}
    done = {"": both, "/v1/retrieve": {"retrieval"}, "/generate/": {"generation"}}
    for path, families in done.items():
        assert as_rag(f"http://127.0.0.1:1{path}").families == families


@pytest.mark.parametrize("path", ["/retrieve", "/answer"])
def test_what_was_said_before_is_sent_where_anything_was(server: Server, path: str) -> None:
    item = {"contexts": ["a"], **({"response": "b"} if path == "/answer" else {})}
    server.then(Answer({"results": [item] * 2}), Answer({"results": [item]}))
    stage = retrieve_stage(as_rag(f"{server.url}{path}"), b"", None)
    said = [{"role": "user", "content": "p"}]
    assert stage.call is not None
    stage.call([("q", said), ("r", [])])
    stage.call([("q", [])])
    bodies = [request.body for request in server.requests]
    assert bodies == [
        {"queries": ["q", "r"], "top_k": None, "history": [said, []]},
        {"queries": ["q"], "top_k": None},
    ]


def test_one_call_endpoints_are_asked_once(server: Server) -> None:
    item = {"contexts": ["a"], "context_ids": ["1"], "response": "b", "confidence": 0.5}
    error = {"error": {"type": "E", "message": "m"}}
    server.then(Answer({"results": [item, item]}), Answer({"results": [item, error]}))
    rag: Any = as_rag(f"{server.url}/answer")
    first, _ = rag.batch_retrieve_with_metadata(["q", "r"], top_k=3)
    assert (first.contexts, first.context_ids) == (["a"], ["1"])
    assert first.metadata == {ANSWER_KEY: {"response": "b", "confidence": 0.5}}
    answers = rag.batch_generate_with_metadata(["q", "r"], [["a"], ["a"]])
    assert answers == [GenerationResult("b", confidence=0.5)] * 2
    [request] = server.requests
    assert (request.path, request.body) == ("/answer", {"queries": ["q", "r"], "top_k": 3})
    assert rag.stage_identity("generate") == [{"url": server.url}]
    with pytest.raises(PartialBatchError) as raised:
        rag.batch_retrieve_with_metadata(["s", "t"])
    assert [type(one) for one in raised.value.outcomes] == [RetrievalResult, RemoteQueryError]
    rag.adapts[0].close()


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://host", {}, "is not an http:// or https:// URL"),
        ("http://", {}, "is not an http:// or https:// URL"),
        ("http://host", {"timeout": 0}, "timeout must be above 0"),
        ("http://host", {"retries": -1}, "retries must be at least 0"),
        ("http://host", {"token": 1}, "takes no token; it takes headers, timeout, retries"),
    ],
)
def test_wrong_arguments_are_refused(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        http_rag(url, **options)


# --- versions


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ({"headers": {"X-Ragbench-Version": "7"}, "status": 404}, {"version": "7"}),
        ({"body": {"version": 7}}, {"version": "7"}),
        ({"headers": {"x-ragbench-version": "7"}, "body": {"version": "8"}}, {"version": "7"}),
        ({"body": []}, {}),
        ({"text": "<html>"}, {}),
        ({"body": {"version": None}}, {}),
        ({"body": {"version": ""}}, {}),
        (None, {}),
    ],
)
def test_a_server_is_its_address_and_the_version_it_names(
    server: Server, make: Make, page: Any, named: dict[str, str]
) -> None:
    server.page = None if page is None else Answer(**({"body": {}} | page))
    assert make(server.url).stage_identity("retrieve") == [{"url": server.url, **named}]


def origin(rag: Any) -> Origin:
    description = describe_rag(rag, "http://rag")
    with Watch() as watch:
        project = Project([rag, *getattr(rag, "adapts", ())], watch=watch)
        return stage_origin(rag, "retrieve", project, description)


def test_answers_of_a_server_without_a_version_finish_a_run_and_no_more(
    server: Server, make: Make
) -> None:
    found = origin(make(server.url))
    assert found.reach == "open"
    # How ragbench connects is not part of what the server answers.
    assert not [part.name for part in found.parts if part.kind == "address"]
    reuse = may_reuse(found, ())
    assert reuse == Reuse(True, True, f"{server.url} names no version (X-Ragbench-Version)")
    assert origin(as_rag(f"{server.url}/answer")).reach == "open"


def test_answers_of_a_version_are_used_again_and_those_of_another_are_not(
    server: Server, make: Make
) -> None:
    server.page = Answer({"version": "7"})
    found = origin(make(server.url))
    assert found.reach == "closed"
    server.page = Answer({"version": "8"})
    changes = [change.sentence for change in differences(found, origin(make(server.url)))]
    assert 'stage_identity.0.version: "7" -> "8"' in changes


def test_a_server_that_is_replaced_while_it_is_asked_is_reported(
    server: Server, make: Make
) -> None:
    server.page = Answer({"version": "7"})
    rag = make(server.url)
    assert origin(rag).reach == "closed"
    server.then(Answer({"results": [{"contexts": []}]}, headers={"X-Ragbench-Version": "8"}))
    rag.retrieve("q")
    assert may_reuse(origin(rag), ()).because.endswith("answered in several versions, '7' and '8'")
