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

MakeRag = Callable[..., Any]
MakeEndpoint = Callable[..., JsonEndpoint]


@pytest.fixture
def rag_of() -> Iterator[MakeRag]:
    """Makes a RAG of a URL, which is closed after the test."""
    with ExitStack() as rags:

        def make(url: str, **options: Any) -> Any:
            rag: Any = http_rag(url, **options)
            return rags.enter_context(closing(rag))

        yield make


@pytest.fixture
def endpoint_of() -> Iterator[MakeEndpoint]:
    """Makes an endpoint of a URL, which is closed after the test."""
    with ExitStack() as endpoints:
        yield lambda url, **options: endpoints.enter_context(closing(JsonEndpoint(url, **options)))


def results(*items: Any) -> Answer:
    """An answer with an item for each query."""
    return Answer({"results": list(items)})


# --- requests and answers


def test_one_connection_serves_many_requests_with_headers(server: Server, rag_of: MakeRag) -> None:
    server.then(results({"contexts": ["a"]}))
    rag = rag_of(server.url, headers={"Authorization": "Bearer abc"})

    for _ in range(5):
        rag.retrieve("q")

    assert len(server.requests) == 5
    assert len({request.connection for request in server.requests}) == 1
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer abc"}


@pytest.mark.parametrize("place", ["", "/retrieve"])
def test_a_header_takes_an_environment_variable(
    server: Server, rag_of: MakeRag, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("TEAM_TOKEN_1", "tok-0815-abcdef")
    server.then(results({"contexts": ["a"]}))

    rag = rag_of(f"{server.url}{place}", headers={"X-Team-Token": "${TEAM_TOKEN_1}"})
    rag.retrieve("q")

    assert server.requests[0].headers["x-team-token"] == "tok-0815-abcdef"


def test_a_variable_of_a_header_that_is_not_set_is_named(server: Server, rag_of: MakeRag) -> None:
    with pytest.raises(ConfigError, match="header X-Key needs the environment variable NOT_SET_2"):
        rag_of(server.url, headers={"X-Key": "${NOT_SET_2}"})


def test_queries_and_top_k_are_posted_to_the_path_of_the_stage(
    server: Server, rag_of: MakeRag
) -> None:
    server.then(results({"contexts": ["a"]}, {"contexts": ["b"]}))

    rag_of(f"{server.url}/api/").batch_retrieve_with_metadata(["q", "r"], top_k=2)

    (request,) = server.requests
    assert request.path == "/api/retrieve"
    assert request.body == {"queries": ["q", "r"], "top_k": 2}


def test_one_bad_query_fails_alone(server: Server, rag_of: MakeRag) -> None:
    good_item = {"contexts": ["a"]}
    error_item = {"error": {"type": "ValueError", "message": "too long"}}
    malformed_item = {"contexts": "b"}
    server.then(results(good_item, error_item, malformed_item))

    with pytest.raises(PartialBatchError, match="2 of 3 queries failed") as raised:
        rag_of(server.url).batch_retrieve_with_metadata(["q", "r", "s"])

    good, remote, malformed = raised.value.outcomes
    assert good == RetrievalResult(["a"])
    assert isinstance(remote, RemoteQueryError)
    assert str(remote).endswith("/retrieve: ValueError: too long")
    assert isinstance(malformed, InterfaceError)
    assert "contexts must be a list, not a str" in str(malformed)
    # The error goes from a worker's process to that of the run.
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
def test_a_malformed_answer_is_refused(
    server: Server, rag_of: MakeRag, body: Any, message: str
) -> None:
    server.then(Answer(body))

    with pytest.raises(InterfaceError, match=message):
        rag_of(server.url).retrieve("q")


def test_an_error_shows_status_url_and_the_head_of_the_body(
    server: Server, rag_of: MakeRag
) -> None:
    server.then(Answer(status=500, text="Traceback:\n  index\tmissing " + "x" * 1000))

    with pytest.raises(HTTPRagError) as raised:
        rag_of(server.url).retrieve("q")

    assert raised.value.status == 500
    message = str(raised.value)
    assert message.startswith(f"{server.url}/retrieve answered 500: Traceback: index missing xxx")
    assert len(message) < 400


def test_a_server_that_failed_is_not_asked_again(server: Server, rag_of: MakeRag) -> None:
    """It may have done the work."""
    server.then(Answer(status=500))

    with pytest.raises(HTTPRagError):
        rag_of(server.url).retrieve("q")

    assert len(server.requests) == 1


# --- waiting for a server


def busy(status: int, retry_after: str = "") -> Answer:
    """A server that asks to be asked later."""
    return Answer(status=status, headers={"retry-after": retry_after} if retry_after else {})


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        pytest.param([busy(502), busy(503)], [0.5, 1.0], id="each time twice as long"),
        pytest.param(
            [busy(504), busy(503, "7"), busy(503, "soon")],
            [0.5, 7.0, 2.0],
            id="as long as the server says",
        ),
        pytest.param(
            [busy(429), busy(429, "7"), busy(429)],
            [1.0, 7.0, 4.0],
            id="longer for a limit of requests",
        ),
    ],
)
def test_a_busy_server_is_waited_for(
    server: Server, endpoint_of: MakeEndpoint, answers: list[Answer], waits: list[float]
) -> None:
    server.then(*answers, Answer({"ok": 1}))
    waited: list[float] = []
    endpoint = endpoint_of(server.url, sleep=waited.append)

    assert endpoint.post("/x", {}) == {"ok": 1}

    assert waited == waits


def test_a_server_that_stays_busy_is_an_error_after_four_attempts(
    server: Server, endpoint_of: MakeEndpoint
) -> None:
    server.then(busy(503))
    waited: list[float] = []
    endpoint = endpoint_of(server.url, sleep=waited.append)

    with pytest.raises(HTTPRagError, match="answered 503 after 4 attempts"):
        endpoint.post("/x", {})

    assert waited == [0.5, 1.0, 2.0]


TOMORROW = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)


@pytest.mark.parametrize("retry_after", [TOMORROW, "3600"], ids=["tomorrow", "an hour"])
def test_a_server_that_asks_for_a_long_wait_is_not_waited_for(
    server: Server, endpoint_of: MakeEndpoint, retry_after: str
) -> None:
    server.then(busy(503, retry_after), Answer({"ok": 1}))
    waited: list[float] = []
    endpoint = endpoint_of(server.url, sleep=waited.append)

    with pytest.raises(HTTPRagError, match="answered 503 and asks to wait"):
        endpoint.post("/x", {})

    assert waited == []


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_no_server_is_reported_after_the_retries(endpoint_of: MakeEndpoint) -> None:
    waited: list[float] = []
    url = f"http://bob:s3cret@127.0.0.1:{free_port()}"

    with pytest.raises(UnreachableError, match="cannot be reached after 4 attempts") as raised:
        endpoint_of(url, sleep=waited.append).post("/x", {})

    assert waited == [0.5, 1.0, 2.0]
    assert "s3cret" not in str(raised.value)
    assert not raised.value.answered_before


def test_a_server_that_has_gone_is_waited_for_once(
    server: Server, endpoint_of: MakeEndpoint
) -> None:
    server.then(Answer({"ok": 1}))
    waited: list[float] = []
    endpoint = endpoint_of(server.url, sleep=waited.append)
    endpoint.post("/x", {})
    # As if the server had stopped: nobody listens there.
    endpoint._base = f"http://127.0.0.1:{free_port()}"

    for _ in range(3):
        with pytest.raises(UnreachableError) as raised:
            endpoint.post("/x", {})
        assert raised.value.answered_before

    # Three retries of the first request, and none of those after it.
    assert len(waited) == 3


def test_a_slow_server_is_a_timeout(endpoint_of: MakeEndpoint) -> None:
    # It accepts connections, and never answers.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        with pytest.raises(StageTimeoutError, match="did not answer in time"):
            endpoint_of(url, timeout=0.05).post("/x", {})


def test_a_broken_answer_is_reported_and_not_asked_for_again(
    server: Server, endpoint_of: MakeEndpoint
) -> None:
    server.then(Answer({"ok": 1}, headers={"content-encoding": "gzip"}))

    with pytest.raises(HTTPRagError, match="/x failed: the answer cannot be unpacked as gzip"):
        endpoint_of(server.url).post("/x", {})

    assert len(server.requests) == 1


# --- redirects and secrets


def test_credentials_of_the_url_go_along_a_redirect_on_the_same_host(
    server: Server, endpoint_of: MakeEndpoint
) -> None:
    server.then(Answer(status=308, headers={"location": "/y"}), Answer({"ok": 1}))
    url_with_credentials = server.url.replace("http://", "http://bob:s3cret@")

    endpoint_of(url_with_credentials).post("/x", {"a": 1})

    before, after = server.requests
    assert (before.path, before.body) == ("/x", {"a": 1})
    assert (after.path, after.body) == ("/y", {"a": 1})
    assert after.headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("status", "location", "message", "requests"),
    [
        pytest.param(
            307,
            "http://bob:pw12@elsewhere.test/x",
            r"elsewhere\.test/x, another host: not",
            1,
            id="another host",
        ),
        # A 302 is followed by a GET, which would drop the body.
        pytest.param(302, "/login", "answered 302 with a redirect to /login", 1, id="a login"),
        pytest.param(307, "/x", "answered 307", 6, id="to itself, again and again"),
    ],
)
def test_a_redirect_that_leads_nowhere_is_not_followed(
    server: Server,
    endpoint_of: MakeEndpoint,
    status: int,
    location: str,
    message: str,
    requests: int,
) -> None:
    server.then(Answer(status=status, headers={"location": location}))

    with pytest.raises(HTTPRagError, match=message) as raised:
        endpoint_of(server.url, headers={"Authorization": "Bearer tok3n"}).post("/x", {})

    assert len(server.requests) == requests
    assert "pw12" not in str(raised.value)
    assert "tok3n" not in str(raised.value)


def test_no_secret_reaches_a_message_or_an_identity(server: Server, rag_of: MakeRag) -> None:
    """The server says all of them in its answer: those of the URL, its query and the headers."""

    def echo(request: Request) -> Answer:
        return Answer(status=401, text=f"denied: {request.headers} bob s3cr%40t s3cr@t")

    server.then(echo)
    server.page = Answer({"version": "v1 hush-hush"})
    url = server.url.replace("http://", "http://bobby:s3cr%40t@") + "?api_key=k3y"
    rag = rag_of(url, headers={"X-Api-Key": "hush-hush", "X-Trace": "visible"})

    with pytest.raises(ContractError) as raised:
        rag.retrieve("q")

    assert server.requests[0].path == "/retrieve?api_key=k3y"
    message = str(raised.value)
    identity = str(rag.stage_identity("retrieve"))
    shown = f"{message} {rag!r} {identity}"
    assert "visible" in shown
    for secret in ("s3cr", "hush", "k3y", "bobby", "Basic Ym"):
        assert secret not in shown


# --- what a server does


@pytest.mark.parametrize(
    ("path", "families"),
    [
        ("", {"retrieval", "generation"}),
        ("/v1/retrieve", {"retrieval"}),
        ("/generate/", {"generation"}),
    ],
)
def test_the_last_segment_says_what_a_server_does(path: str, families: set[str]) -> None:
    assert as_rag(f"http://127.0.0.1:1{path}").families == families


@pytest.mark.parametrize("path", ["/retrieve", "/answer"])
def test_the_turns_before_are_sent_where_a_query_has_some(server: Server, path: str) -> None:
    item: dict[str, Any] = {"contexts": ["a"]}
    if path == "/answer":
        item["response"] = "b"
    server.then(results(item, item), results(item))
    stage = retrieve_stage(as_rag(f"{server.url}{path}"), b"", None)
    assert stage.call is not None
    turns = [{"role": "user", "content": "p"}]

    stage.call([("q", turns), ("r", [])])
    stage.call([("q", [])])

    assert [request.body for request in server.requests] == [
        {"queries": ["q", "r"], "top_k": None, "history": [turns, []]},
        {"queries": ["q"], "top_k": None},
    ]


@pytest.fixture
def one_call_rag(server: Server) -> Iterator[Any]:
    """A system whose one endpoint retrieves and answers."""
    rag: Any = as_rag(f"{server.url}/answer")
    yield rag
    rag.adapts[0].close()


RETRIEVED_AND_ANSWERED = {
    "contexts": ["a"],
    "context_ids": ["1"],
    "response": "b",
    "confidence": 0.5,
}


def test_an_endpoint_that_retrieves_and_answers_is_asked_once(
    server: Server, one_call_rag: Any
) -> None:
    server.then(results(RETRIEVED_AND_ANSWERED, RETRIEVED_AND_ANSWERED))

    retrieval, _ = one_call_rag.batch_retrieve_with_metadata(["q", "r"], top_k=3)
    answers = one_call_rag.batch_generate_with_metadata(["q", "r"], [["a"], ["a"]])

    (request,) = server.requests
    assert request.path == "/answer"
    assert request.body == {"queries": ["q", "r"], "top_k": 3}
    assert retrieval.contexts == ["a"]
    assert retrieval.context_ids == ["1"]
    assert retrieval.metadata == {ANSWER_KEY: {"response": "b", "confidence": 0.5}}
    assert answers == [GenerationResult("b", confidence=0.5), GenerationResult("b", confidence=0.5)]


def test_an_endpoint_that_retrieves_and_answers_is_one_identity(
    server: Server, one_call_rag: Any
) -> None:
    assert one_call_rag.stage_identity("generate") == [{"url": server.url}]


def test_one_bad_query_fails_alone_where_an_endpoint_retrieves_and_answers(
    server: Server, one_call_rag: Any
) -> None:
    error = {"error": {"type": "E", "message": "m"}}
    server.then(results(RETRIEVED_AND_ANSWERED, error))

    with pytest.raises(PartialBatchError) as raised:
        one_call_rag.batch_retrieve_with_metadata(["s", "t"])

    good, failed = raised.value.outcomes
    assert isinstance(good, RetrievalResult)
    assert isinstance(failed, RemoteQueryError)


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
    ("page", "version"),
    [
        pytest.param(
            Answer({}, headers={"X-Ragbench-Version": "7"}, status=404),
            {"version": "7"},
            id="a header",
        ),
        pytest.param(Answer({"version": 7}), {"version": "7"}, id="a body"),
        pytest.param(
            Answer({"version": "8"}, headers={"x-ragbench-version": "7"}),
            {"version": "7"},
            id="the header before the body",
        ),
        pytest.param(Answer([]), {}, id="a list"),
        pytest.param(Answer(text="<html>"), {}, id="a page"),
        pytest.param(Answer({"version": None}), {}, id="null"),
        pytest.param(Answer({"version": ""}), {}, id="an empty text"),
        pytest.param(None, {}, id="nothing"),
    ],
)
def test_a_server_is_its_address_and_the_version_it_names(
    server: Server, rag_of: MakeRag, page: Answer | None, version: dict[str, str]
) -> None:
    server.page = page

    assert rag_of(server.url).stage_identity("retrieve") == [{"url": server.url, **version}]


def origin_of(rag: Any) -> Origin:
    """What the outcomes of its retrieval depend on."""
    description = describe_rag(rag, "http://rag")
    with Watch() as watch:
        project = Project([rag, *getattr(rag, "adapts", ())], watch=watch)
        return stage_origin(rag, "retrieve", project, description)


def test_answers_of_a_server_without_a_version_finish_a_run_and_no_more(
    server: Server, rag_of: MakeRag
) -> None:
    origin = origin_of(rag_of(server.url))

    assert origin.reach == "open"
    reuse = may_reuse(origin, ())
    assert reuse == Reuse(True, True, f"{server.url} names no version (X-Ragbench-Version)")


def test_answers_of_one_endpoint_without_a_version_are_open_too(
    server: Server, one_call_rag: Any
) -> None:
    assert origin_of(one_call_rag).reach == "open"


def test_how_ragbench_connects_is_not_part_of_what_a_server_answers(
    server: Server, rag_of: MakeRag
) -> None:
    origin = origin_of(rag_of(server.url))

    assert "address" not in [part.kind for part in origin.parts]


def test_answers_of_a_version_are_used_again_and_those_of_another_are_not(
    server: Server, rag_of: MakeRag
) -> None:
    server.page = Answer({"version": "7"})
    before = origin_of(rag_of(server.url))
    server.page = Answer({"version": "8"})
    after = origin_of(rag_of(server.url))

    assert before.reach == "closed"
    changes = [change.sentence for change in differences(before, after)]
    assert 'stage_identity.0.version: "7" -> "8"' in changes


def test_a_server_that_is_replaced_while_it_is_asked_is_reported(
    server: Server, rag_of: MakeRag
) -> None:
    server.page = Answer({"version": "7"})
    rag = rag_of(server.url)
    assert origin_of(rag).reach == "closed"

    server.then(Answer({"results": [{"contexts": []}]}, headers={"X-Ragbench-Version": "8"}))
    rag.retrieve("q")

    reason = may_reuse(origin_of(rag), ()).because
    assert reason.endswith("answered in several versions, '7' and '8'")
