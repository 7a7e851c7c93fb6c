"""What is read of a language model's answer at most; on real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time

import pytest

from ragbench.core.chat import Reply
from ragbench.errors import LLMError, LLMUnavailableError
from ragbench.llm.client import LLMClient
from ragbench.llm.transport import CallLimits
from tests.raw_server import Serving, answer_of, serving_raw
from tests.unit.llm.builders import completion, endpoint, prompt

pytestmark = pytest.mark.extra("llm")


def ask(serve: Serving, limits: CallLimits | None = None) -> Reply[str]:
    """One question to a model behind a server."""

    async def asking() -> Reply[str]:
        async with LLMClient(endpoint(base_url=f"{url}/v1"), limits=limits) as client:
            return await client.ask(prompt())

    with serving_raw(serve) as url:
        return asyncio.run(asking())


def test_an_endless_answer_fails_at_the_limit_and_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1MB")
    numbers: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        numbers.append(number)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * 65_536)

    with pytest.raises(LLMError, match="the answer is longer than 1 MB"):
        ask(serve)

    assert numbers == [1]


def test_a_packed_answer_counts_as_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1MB")
    answer = {"choices": [], "padding": " " * (1 << 21)}
    body = gzip.compress(json.dumps(answer).encode())

    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(answer_of(body, "content-encoding: gzip"))

    with pytest.raises(LLMError, match="the answer is longer than 1 MB"):
        ask(serve)


def test_a_packed_answer_is_read() -> None:
    body = gzip.compress(completion("yes").body.encode())

    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(answer_of(body, "content-encoding: gzip"))

    assert ask(serve).text == "yes"


def test_an_answer_that_drips_ends_by_the_time_out() -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)

    began = time.monotonic()
    with pytest.raises(LLMUnavailableError, match=r"no answer within 0\.5 s"):
        ask(serve, CallLimits(timeout=0.5, retries=0))

    assert time.monotonic() - began < 4
