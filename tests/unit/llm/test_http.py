"""The client over HTTP, through the openai package, against a server that fails."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ragbench import open_chat
from ragbench.core.chat import ChatModel
from ragbench.errors import ConfigError, LLMAccessError
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import LLMClient
from ragbench.llm.endpoint import ApiKey, Endpoint
from ragbench.llm.session import chat_of
from ragbench.llm.settings import resolve
from tests.llm_server import FaultServer
from tests.unit.llm.builders import FastClock, asked

pytestmark = pytest.mark.extra("llm")

ValueT = TypeVar("ValueT")
SECRET = "sk-0123456789-secret"


def using(
    server: FaultServer, work: Callable[[LLMClient], Awaitable[ValueT]], **settings: Any
) -> ValueT:
    judge = Endpoint(base_url=server.url, model="m", **settings.pop("judge", {}))
    settings.setdefault("clock", FastClock())

    async def scenario() -> ValueT:
        async with LLMClient(judge, **settings) as client:
            return await work(client)

    return asyncio.run(scenario())


async def ask_twenty(client: LLMClient) -> None:
    await asyncio.gather(*(client.ask(asked(f"case {number}")) for number in range(20)))


def test_each_request_goes_out_once() -> None:
    """The package's own retries, and a client used over several loops, send more."""
    with FaultServer() as server:
        for _ in range(3):
            using(server, ask_twenty)
        assert len(server.calls) == 60


# --- keys


def test_the_key_is_sent_and_nothing_else_holds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With every library's log at its most talkative."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("JUDGE_KEY", SECRET)

    async def work(client: LLMClient) -> str:
        await ask_twenty(client)
        return repr((client, vars(client), client.receipt()))

    with (
        FaultServer(key=SECRET, faults={"500": 0.3}) as server,
        ResponseCache(tmp_path / "cache.sqlite") as cache,
    ):
        shown = using(server, work, judge={"key": ApiKey(variable="JUDGE_KEY")}, cache=cache)
    assert "DEBUG" in caplog.text and SECRET not in shown + caplog.text
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_key_that_a_proxy_repeats_in_its_error_is_masked(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    with FaultServer(faults={"401": 1.0}, key=SECRET) as server:
        judge = {"key": ApiKey(file=str(tmp_path / "key"))}
        with pytest.raises(LLMAccessError) as caught:
            using(server, lambda client: client.ask(asked()), judge=judge)
    assert "Incorrect API key: ***" in str(caught.value)
    assert SECRET not in str(caught.value)


# --- the plain seam


def test_threads_share_one_client_in_one_loop() -> None:
    with FaultServer(latency=0.01) as server:
        settings = resolve({"base_url": server.url, "model": "m", "cache": "off"}, {})
        with chat_of(settings).booked_under("rerank") as chat:
            assert (chat.receipt(), chat.name, isinstance(chat, ChatModel)) == (None, "m", True)
            with ThreadPoolExecutor(12) as threads:
                said = list(threads.map(lambda n: chat.complete(asked(f"case {n}")), range(12)))
            receipt = chat.receipt()
        assert receipt is not None
        assert [(line.purpose, line.calls) for line in receipt.lines] == [("rerank", 12)]
        assert said == [f"case {number}" for number in range(12)]
        assert server.peak > 1 and len(server.calls) == 12
        assert not [each for each in threading.enumerate() if each.name == "ragbench-llm"]


def test_a_cap_needs_a_price() -> None:
    settings = {"base_url": "http://localhost:1/v1", "model": "m"}
    with pytest.raises(ConfigError, match="the cost cannot be capped"):
        open_chat(**settings, max_cost="1")
    assert open_chat(**settings, max_cost="1", price_input=0, price_output=0).name == "m"
    with pytest.raises(ConfigError, match="max_cost must be a number, not 'much'"):
        open_chat(**settings, max_cost="much")
    with pytest.raises(ConfigError, match="there is no setting 'modle'"):
        open_chat(**settings, modle="x")
