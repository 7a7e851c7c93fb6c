"""What answers of an HTTP endpoint are limited to, and connections that break; on real sockets."""

from __future__ import annotations

import gzip
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from multiprocessing import get_context
from typing import Any

import pytest

from ragbench import as_rag
from ragbench.errors import StageTimeoutError
from ragbench.io.http import HTTPRagError, JsonEndpoint, LostConnectionError
from ragbench.ledger.project import Project
from ragbench.ledger.watch import Watch
from ragbench.rag.load import http_rag
from tests.json_server import serving_json
from tests.raw_server import answer_of, reset, serving_raw

pytestmark = pytest.mark.extra("http")

Make = Callable[..., JsonEndpoint]
JSON = b'{"ok": 1}'
KEEPS_NOTHING = "connection: close"


@pytest.fixture
def endpoint() -> Iterator[Make]:
    """Makes an endpoint of a URL, which is closed after the test."""
    with ExitStack() as endpoints:

        def make(url: str, **options: Any) -> JsonEndpoint:
            return endpoints.enter_context(closing(JsonEndpoint(url, **options)))

        yield make


# --- size


def test_an_endless_body_is_given_up_at_the_limit(
    endpoint: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "6MB")
    sent: list[int] = []

    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sent.append(connection.send(b" " * 65_536))

    with (
        serving_raw(serve) as url,
        pytest.raises(HTTPRagError, match=r"longer than 6 MB, .*--max-record SIZE"),
    ):
        endpoint(url).post("/x", {})

    assert sum(sent) < 32 << 20


def test_a_body_that_announces_too_much_is_not_read(endpoint: Make) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")

    with serving_raw(serve) as url, pytest.raises(HTTPRagError, match="longer than 64 MB"):
        endpoint(url).post("/x", {})


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("pack", "packing"),
    [
        pytest.param(gzip.compress, "gzip", id="gzip"),
        pytest.param(zlib.compress, "deflate", id="deflate"),
        pytest.param(raw_deflate, "deflate", id="deflate without its header"),
    ],
)
def test_a_packed_body_counts_as_it_unpacks(
    endpoint: Make, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes], packing: str
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1MB")
    two_mebibytes = b" " * (1 << 21)
    bodies = [pack(JSON), pack(two_mebibytes)]

    def serve(connection: socket.socket, number: int) -> None:
        body = bodies[number - 1]
        connection.sendall(answer_of(body, f"content-encoding: {packing}", KEEPS_NOTHING))

    with serving_raw(serve) as url:
        client = endpoint(url)
        assert client.post("/x", {}) == {"ok": 1}
        with pytest.raises(HTTPRagError, match="longer than 1 MB"):
            client.post("/x", {})


@pytest.mark.parametrize(
    ("body", "packing", "problem"),
    [
        pytest.param(JSON, "br", "packed as 'br', which was not asked for", id="brotli"),
        pytest.param(gzip.compress(JSON)[:-9], "gzip", "packed as gzip and breaks off", id="cut"),
        pytest.param(JSON, "gzip", "cannot be unpacked as gzip", id="not packed"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused(
    endpoint: Make, body: bytes, packing: str, problem: str
) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(answer_of(body, f"content-encoding: {packing}"))

    with serving_raw(serve) as url, pytest.raises(HTTPRagError, match=problem):
        endpoint(url).post("/x", {})


def test_gzip_files_that_follow_one_another_are_one_body(endpoint: Make) -> None:
    body = gzip.compress(JSON[:4]) + gzip.compress(JSON[4:])

    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(answer_of(body, "content-encoding: gzip"))

    with serving_raw(serve) as url:
        assert endpoint(url).post("/x", {}) == {"ok": 1}


# --- time


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", id="body"),
    ],
)
def test_an_answer_that_drips_ends_by_the_time_out(endpoint: Make, beginning: bytes) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(beginning)
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    began = time.monotonic()
    with serving_raw(serve) as url, pytest.raises(StageTimeoutError, match=r"after 0\.4 s"):
        endpoint(url, timeout=0.4).post("/x", {})

    assert time.monotonic() - began < 4


# --- connections that break


def says_nothing(connection: socket.socket) -> None:
    """Closes a connection without a word."""


def sends_half(connection: socket.socket) -> None:
    connection.sendall(answer_of(JSON)[:-4])


def sends_half_a_chunk(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n" + JSON[:4])


@pytest.mark.parametrize("breaks", [says_nothing, sends_half, sends_half_a_chunk, reset])
def test_a_connection_that_breaks_is_tried_again(
    endpoint: Make, breaks: Callable[[socket.socket], None]
) -> None:
    def serve(connection: socket.socket, number: int) -> None:
        if number < 3:
            breaks(connection)
        else:
            connection.sendall(answer_of(JSON))

    waits: list[float] = []
    with serving_raw(serve) as url:
        assert endpoint(url, sleep=waits.append).post("/x", {}) == {"ok": 1}

    assert waits == [0.5, 1.0]


@pytest.mark.parametrize("options", [{"repeatable": False}, {"retries": 0}])
def test_a_request_that_may_not_be_repeated_is_not(endpoint: Make, options: Any) -> None:
    numbers: list[int] = []
    with (
        serving_raw(lambda _, number: numbers.append(number)) as url,
        pytest.raises(LostConnectionError, match="/x broke the connection: RemoteProtocolError"),
    ):
        endpoint(url, **options).post("/x", {})

    assert numbers == [1]


def test_a_server_that_has_answered_is_given_more_attempts(endpoint: Make) -> None:
    def serve(connection: socket.socket, number: int) -> None:
        if number == 5:
            connection.sendall(answer_of(JSON, KEEPS_NOTHING))

    waits: list[float] = []
    with serving_raw(serve) as url:
        client = endpoint(url, sleep=waits.append)
        with pytest.raises(LostConnectionError, match="after 4 attempts"):
            client.post("/x", {})
        assert client.post("/x", {}) == {"ok": 1}
        waits.clear()
        with pytest.raises(LostConnectionError, match="after 13 attempts"):
            client.post("/x", {})

    assert waits == [0.5, 1.0, 2.0, 4.0, *[8.0] * 8]


# --- JSON


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b'{"a": 1,\n "a": 2}', ":2: field 'a': the key stands twice", id="doubled"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "not valid JSON", id="deep"),
        pytest.param(b'{"a": "\xff"}', "not valid JSON", id="not UTF-8"),
    ],
)
def test_json_is_read_as_strictly_as_in_files(endpoint: Make, body: bytes, problem: str) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(answer_of(body))

    with serving_raw(serve) as url, pytest.raises(HTTPRagError, match=problem):
        endpoint(url).post("/x", {})


# --- whose request it is, and in which process


class Wrapping:
    """A user's system that asks an endpoint by ragbench's own client."""

    def __init__(self, url: str) -> None:
        self._inner: Any = as_rag(url)

    def retrieve(self, query: str) -> list[str]:
        return list(self._inner.retrieve(query))


def test_a_server_that_the_users_code_asks_by_our_client_is_an_input_of_it() -> None:
    results = {"results": [{"contexts": ["a"]}]}
    with serving_json(lambda *_: (200, results)) as url, Watch() as watch:
        system = Wrapping(f"{url}/retrieve")
        assert system.retrieve("q") == ["a"]
        origin = Project([system], watch=watch).origin("retrieve", {})

    host_and_port = url.removeprefix("http://")
    assert any(host_and_port in reason for reason in origin.unseen)


def post_and_report(endpoint: JsonEndpoint, pipe: Any) -> None:
    answer = endpoint.post("/x", {})
    pipe.send((os.getpid(), answer))


def test_a_fork_of_the_process_has_connections_of_its_own(endpoint: Make) -> None:
    with serving_json(lambda *_: (200, {"ok": 1})) as url:
        client = endpoint(url)
        client.post("/x", {})
        fork = get_context("fork")
        parent_end, child_end = fork.Pipe()

        child = fork.Process(target=post_and_report, args=(client, child_end))
        child.start()
        assert parent_end.poll(20)
        process_id, answer_in_fork = parent_end.recv()
        child.join()

        assert client.post("/x", {}) == {"ok": 1}

    assert process_id != os.getpid()
    assert answer_in_fork == {"ok": 1}


def test_an_option_says_that_requests_may_not_be_repeated() -> None:
    rag: Any = http_rag("http://127.0.0.1:1/retrieve", repeatable=False)

    assert rag.adapts[0]._retries_of_lost == 0
