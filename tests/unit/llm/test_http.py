"""The client over HTTP, through the openai package, against a server that fails."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ragbench.core.chat import ChatModel
from ragbench.errors import ConfigError, LLMAccessError, LLMRefusedError
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import LLMClient
from ragbench.llm.endpoint import ApiKey, Endpoint
from ragbench.llm.session import chat_of
from ragbench.llm.settings import LLMSettings, resolve
from tests.llm_server import FaultServer
from tests.unit.llm.builders import FastClock, asked

pytestmark = pytest.mark.extra("llm")

ROOT = Path(__file__).parents[3]
ValueT = TypeVar("ValueT")


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


def test_the_key_is_sent_and_nothing_else_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-0123456789-secret"
    monkeypatch.setenv("JUDGE_KEY", secret)
    with FaultServer(key=secret) as server:
        judge = {"key": ApiKey(variable="JUDGE_KEY")}

        async def work(client: LLMClient) -> str:
            await client.ask(asked("hello"))
            return repr((client, vars(vars(client)["_caller"]), client.receipt()))

        assert secret not in using(server, work, judge=judge)


def test_a_server_that_echoes_the_key_is_masked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server says its key back in its error, as proxies do."""
    secret = "sk-0123456789-secret"
    (tmp_path / "key").write_text(f"{secret}\n")
    with FaultServer(faults={"401": 1.0}, key=secret) as server:
        judge = {"key": ApiKey(file=str(tmp_path / "key"))}
        with pytest.raises(LLMAccessError) as caught:
            using(server, lambda client: client.ask(asked()), judge=judge)
    assert "Incorrect API key: ***" in str(caught.value)
    assert secret not in str(caught.value)


def test_a_key_that_is_missing_is_reported_before_anything_is_sent() -> None:
    with FaultServer() as server:
        judge = {"key": ApiKey(variable="RAGBENCH_TEST_NO_SUCH_KEY")}
        with pytest.raises(ConfigError, match="RAGBENCH_TEST_NO_SUCH_KEY holds no API key"):
            using(server, lambda client: client.ask(asked()), judge=judge)
        assert server.calls == []


RUN = """
import asyncio, logging, sys
from pathlib import Path
sys.path[:0] = [{root!r}]
logging.basicConfig(level=logging.DEBUG)
from ragbench.core.chat import Message
from ragbench.llm.session import open_models
from ragbench.llm.settings import resolve
import os

async def main():
    settings = resolve({{}}, os.environ)
    async with open_models(settings) as models:
        client = models.chat
        async def one(number):
            reply = await client.ask([Message(role="user", content=f"case {{number}}")])
            print("done", number, reply.cached, flush=True)
        await asyncio.gather(*(one(number) for number in range({count})))
        print(client.receipt(), settings, client)

asyncio.run(main())
"""


def run_of(server: FaultServer, folder: Path, count: int, **more: str) -> subprocess.Popen[str]:
    environ = {
        **os.environ,
        "RAGBENCH_LLM_BASE_URL": server.url,
        "RAGBENCH_LLM_MODEL": "m",
        "RAGBENCH_LLM_CACHE": str(folder / "cache.sqlite"),
        "RAGBENCH_LLM_CONCURRENCY": "4",
        **more,
    }
    program = RUN.format(root=str(ROOT), count=count)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=environ,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_nothing_that_is_written_holds_the_key(tmp_path: Path) -> None:
    """With every library's log at its most talkative."""
    secret = "sk-0123456789-secret"
    with FaultServer(key=secret, faults={"500": 0.3}) as server:
        process = run_of(server, tmp_path, 5, RAGBENCH_LLM_API_KEY=secret)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "DEBUG" in err
    assert out.count("done") == 5
    assert secret not in out + err
    for path in tmp_path.rglob("*"):
        assert secret.encode() not in path.read_bytes()


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_at_any_moment_it_repeats_no_finished_call(tmp_path: Path) -> None:
    count = 60
    with FaultServer(latency=0.01) as server:
        process = run_of(server, tmp_path, count)
        assert process.stdout is not None
        for _ in range(20):
            assert process.stdout.readline().startswith("done")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        with ResponseCache(tmp_path / "cache.sqlite") as cache:
            kept = cache.stats().entries
        assert 20 <= kept < count
        before = len(server.calls)
        assert before - kept <= 4  # in flight when it was killed
        again = run_of(server, tmp_path, count)
        out, err = again.communicate()
        assert again.returncode == 0, err
        assert out.count("done") == count
        assert len(server.calls) - before == count - kept


# --- the plain seam


def plain(url: str, **given: object) -> LLMSettings:
    return resolve({"base_url": url, "model": "m", "cache": "off", **given}, {})


def test_threads_share_one_client_in_one_loop() -> None:
    with FaultServer(latency=0.01) as server:
        with chat_of(plain(server.url)).booked_under("rerank") as chat:
            assert isinstance(chat, ChatModel)
            assert chat.name == "m"
            answers: dict[int, str] = {}

            def ask(number: int) -> None:
                answers[number] = chat.complete(asked(f"case {number}"))

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            receipt = chat.receipt()
            assert receipt is not None
            (line,) = receipt.lines
        assert answers == {number: f"case {number}" for number in range(12)}
        assert (line.purpose, line.calls) == ("rerank", 12)
        assert server.peak > 1
        assert len(server.calls) == 12


def test_a_plain_chat_raises_what_the_client_raises() -> None:
    with (
        FaultServer(faults={"refusal": 1.0}) as server,
        chat_of(plain(server.url)) as chat,
        pytest.raises(LLMRefusedError),
    ):
        chat.complete(asked())
    missing = chat_of(plain("http://127.0.0.1:9", api_key_env="RAGBENCH_NO"))
    with pytest.raises(ConfigError), missing:
        missing.complete(asked())
    assert not [each for each in threading.enumerate() if each.name == "ragbench-llm"]
