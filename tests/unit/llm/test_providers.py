"""One contract for every provider, and doctor's probes of them: ragbench's defaults work, and
nothing is lost or believed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ragbench import errors, open_chat
from ragbench.core.chat import ChatModel, Message
from ragbench.errors import ConfigError, LLMError, LLMRequestError
from ragbench.llm.budget import ReceiptLine
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import LLMClient
from ragbench.llm.endpoint import ApiKey, Endpoint
from ragbench.llm.probe import Finding, probe
from ragbench.llm.session import chat_of
from ragbench.llm.settings import resolve
from ragbench.llm.transport import OpenAITransport
from tests.llm_server import FaultServer
from tests.provider_mocks import HOSTED, KEY, PROVIDERS, Provider, Server
from tests.unit.llm.builders import VERDICT, FastClock, Verdict, ask_many, prompt

pytestmark = pytest.mark.extra("llm")

ValueT = TypeVar("ValueT")
EVERY = pytest.mark.parametrize("kind", PROVIDERS.values(), ids=lambda kind: kind.name)
EACH_HOSTED = pytest.mark.parametrize("kind", HOSTED, ids=lambda kind: kind.name)


class CountingClock(FastClock):
    waited = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds
        await super().sleep(seconds)


async def opened(
    judge: Endpoint, work: Callable[[LLMClient], Awaitable[ValueT]], **settings: Any
) -> ValueT:
    async with LLMClient(judge, **settings) as client:
        return await work(client)


def using(
    server: Server,
    work: Callable[[LLMClient], Awaitable[ValueT]],
    *,
    key: str | None = None,
    clock: CountingClock | None = None,
    cache: ResponseCache | None = None,
    **settings: Any,
) -> ValueT:
    row, secret = server.row, server.row.key if key is None else key
    environ = {"RAGBENCH_LLM_API_KEY": secret, "GATEWAY_KEY": secret}
    known = {"base_url": server.url, "model": row.model, **row.settings, **settings}
    judge = resolve({}, environ, section=known, file="ragbench.yaml").endpoint
    transport = OpenAITransport(judge, timeout=30.0, environ=environ)
    more = {"transport": transport, "clock": clock or CountingClock(), "cache": cache}
    return asyncio.run(opened(judge, work, **more))


async def answers(client: LLMClient, asks: list[list[Message]]) -> int:
    return len(await asyncio.gather(*map(client.ask, asks)))


def long_prompt(count: int) -> list[Message]:
    return [Message(role="user", content="Bees have wings and fly far. " * (count // 6))]


@EVERY
def test_text_and_structure_come_at_the_defaults(kind: Provider) -> None:
    with kind() as server:

        async def work(client: LLMClient) -> None:
            assert (await client.ask(prompt("Say a word."))).text
            for number in range(3):
                reply = await client.ask(prompt(f"Is it good? {number}"), schema=VERDICT)
                assert isinstance(reply.value, Verdict)

        using(server, work)
        # What an endpoint is like is found out once, and remembered.
        assert len(server.answered) + 8 >= len(server.seen)
        before = len(server.seen)
        using(server, lambda client: client.ask(prompt("Say a word.")))
        assert len(server.seen) - before <= 4


@EVERY
def test_the_books_are_the_servers_own(kind: Provider) -> None:
    """Hidden reasoning included, wherever it is told."""
    with kind() as server:

        async def work(client: LLMClient) -> ReceiptLine:
            calls = (client.ask(prompt(f"Good? {n}"), schema=VERDICT) for n in range(8))
            await asyncio.gather(*calls)
            [line] = client.receipt().lines
            assert line.requests == len(server.seen)
            return line

        booked = using(server, work)
        shown: list[Mapping[str, Any]] = [seen.usage for seen in server.answered if seen.usage]
        names = ("prompt_tokens", "cache_read_input_tokens")
        prompts = sum(usage.get(name, 0) for usage in shown for name in names)
        assert booked.prompt_tokens == prompts
        billed = sum(usage["total_tokens"] for usage in shown) - prompts
        assert booked.completion_tokens == billed


@EVERY
def test_a_minutes_limit_and_an_overload_are_waited_for(kind: Provider) -> None:
    clock = CountingClock()
    with kind(limited=4) as server:
        assert using(server, lambda client: ask_many(client, 6), clock=clock) == {"Reply": 6}
    assert clock.waited > 1.0
    with kind(overloaded=3) as server:
        assert using(server, lambda client: client.ask(prompt("A word?"))).text


@EACH_HOSTED
def test_without_money_all_calls_stop_at_once(kind: Provider) -> None:
    clock = CountingClock()
    with kind(is_out_of_money=True) as server:
        found = using(server, lambda client: ask_many(client, 50), clock=clock)
        assert found == {"LLMAccessError": 50}
        assert len(server.seen) <= 8  # those that were in flight
    assert clock.waited == 0.0


@EACH_HOSTED
def test_a_wrong_key_stops_all_calls_and_is_not_quoted(kind: Provider) -> None:
    wrong = "sk-wrong-9876543210fedcba"
    with kind() as server, pytest.raises(errors.LLMAccessError) as caught:
        using(server, lambda client: client.ask(prompt("A word?")), key=wrong)
    assert wrong not in str(caught.value)


@EVERY
def test_a_prompt_that_is_too_long_is_never_measured(kind: Provider) -> None:
    """Some refuse it, some cut it without a word; both cost this call alone."""
    with kind() as server:
        count = max(kind.context * 2, 12_000)

        async def work(client: LLMClient) -> LLMError | None:
            await client.ask(prompt("A word?"))
            try:
                await client.ask(long_prompt(count))
            except LLMError as error:
                assert (await client.ask(prompt("Another word?"))).text
                return error
            return None

        found = using(server, work)
    assert isinstance(found, errors.LLMPromptCutError if kind.keeps else LLMRequestError)


@EVERY
def test_long_prompts_are_judged_beside_short_ones(kind: Provider) -> None:
    """However little room the endpoint has for them, and whatever it counts."""
    long = long_prompt(int(min(kind.context, 5_000) * 0.4))
    with kind() as server:

        async def work(client: LLMClient) -> int:
            asks = [client.ask([*long, *prompt(f"Good? {n}")], schema=VERDICT) for n in range(6)]
            asks += [client.ask(prompt(f"Good? {n}"), schema=VERDICT) for n in range(6)]
            replies = await asyncio.gather(*asks)
            before = len(server.seen)
            again = await client.ask([*long, *prompt("And now?")], schema=VERDICT)
            assert len(server.seen) - before <= 2 + (kind.name == "groq, bad JSON")
            return sum(isinstance(reply.value, Verdict) for reply in (*replies, again))

        assert using(server, work, clock=CountingClock()) == 13


def test_a_count_that_cannot_be_is_looked_into_once_and_remembered(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    def hidden(server: Server) -> int:
        return sum("three codes" in seen.payload["messages"][-1]["content"] for seen in server.seen)

    with PROVIDERS["constant count"]() as server, ResponseCache(tmp_path / "c.sqlite") as cache:
        for turn in range(2):
            asks = [[*long_prompt(2_000), *prompt(f"Good? {turn} {n}")] for n in range(8)]
            assert using(server, partial(answers, asks=asks), cache=cache) == 8
            assert hidden(server) == 1
        [warning] = recwarn.list
        assert "reports 10 tokens of a prompt of 2," in str(warning.message)
        # One that is much longer may be cut all the same.
        assert using(server, partial(answers, asks=[long_prompt(5_000)]), cache=cache) == 1
        assert hidden(server) == 2


@pytest.mark.parametrize(
    ("name", "tokens", "figures"),
    [
        ("openai, tier 1", 6_000, ("takes 5,000 in a minute", "ask for a higher limit")),
        ("groq, free", 7_000, ("takes 6,000 in a minute", "fewer contexts")),
        ("vllm", 9_000, ("takes 8,192 with its answer", "--max-model-len")),
        ("vllm, 4k", 4_090, ("takes 4,096 with its answer", "the prompt has 4,0")),
    ],
)
def test_what_can_never_succeed_fails_at_once_with_its_figure(
    name: str, tokens: int, figures: tuple[str, ...]
) -> None:
    clock = CountingClock()
    with PROVIDERS[name]() as server, pytest.raises(LLMRequestError) as caught:
        using(server, lambda client: client.ask(long_prompt(tokens * 3 // 4)), clock=clock)
    assert len(server.seen) <= 2 and clock.waited == 0.0
    assert all(figure in str(caught.value) for figure in figures)


def test_json_that_fails_at_the_endpoint_is_mended_by_the_model() -> None:
    with PROVIDERS["groq, bad JSON"]() as server:
        work: Any = lambda client: client.ask(prompt("Good?"), schema=VERDICT)  # noqa: E731
        reply = using(server, work, structured="json_object")
    assert isinstance(reply.value, Verdict) and len(server.seen) == 2
    assert '{"good": true, "reason": ' in str(server.seen[-1].payload["messages"])


def test_a_cut_prompt_names_its_numbers_and_the_remedy_and_the_check_can_be_left_out() -> None:
    with PROVIDERS["ollama"]() as server:
        work: Any = lambda client: client.ask(long_prompt(12_000))  # noqa: E731
        told = r"read 2,050 tokens .* 12,000 words.*OLLAMA_CONTEXT_LENGTH"
        with pytest.raises(errors.LLMPromptCutError, match=told):
            using(server, work)
        # For servers that count only what they had not in their cache.
        assert using(server, work, prompt_check=False).text


def test_what_a_reasoning_model_refuses_is_left_out_and_said() -> None:
    with PROVIDERS["o3"]() as server:

        async def work(client: LLMClient) -> Mapping[str, str]:
            reply = await client.ask(prompt("Good?"), schema=VERDICT)
            assert reply.not_sent == ("temperature",)
            assert (reply.usage.reasoning_tokens, reply.attempts) == (6_000, 3)
            second = await client.ask(prompt("And now?"), schema=VERDICT)
            assert second.attempts == 1
            return client.dialect.learned.not_sent

        shown = using(server, work)
    assert "Only the default (1) value is supported" in shown["temperature"]
    last = server.seen[-1].payload
    assert "temperature" not in last and "max_tokens" not in last
    assert last["max_completion_tokens"] == 4_096 + 16_384  # room to think
    with PROVIDERS["o3"]() as server:
        using(server, lambda client: client.ask(prompt("Good?")), reasoning_effort="low")
        assert server.seen[-1].usage is not None
        assert server.seen[-1].usage["completion_tokens_details"]["reasoning_tokens"] == 512


def test_a_model_that_is_cut_off_while_it_thinks_is_given_room_once() -> None:
    async def work(client: LLMClient) -> list[int]:
        replies = [await client.ask(prompt(f"Good? {n}"), schema=VERDICT) for n in range(3)]
        return [reply.attempts for reply in replies]

    with PROVIDERS["thinks in tags"]() as server:
        assert using(server, work) == [2, 1, 1]
        with pytest.raises(errors.LLMTruncatedError, match="thinking"):
            using(server, lambda client: client.ask(prompt("Good?")), reasoning_tokens=0)


@pytest.mark.parametrize(("name", "cost"), [("openrouter", "0.000125"), ("litellm", "0.00042")])
def test_what_a_call_cost_is_taken_from_the_endpoint(name: str, cost: str) -> None:
    async def work(client: LLMClient) -> tuple[str, str, str | None]:
        reply = await client.ask(prompt("A word?"))
        receipt = client.receipt()
        return str(reply.cost), str(receipt.cost), receipt.price_origin

    with PROVIDERS[name]() as server:
        assert using(server, work) == (cost, cost, "as the endpoint reports")


def test_headers_count_and_their_values_stay_unseen() -> None:
    settings = resolve({}, {}, section={"model": "m", **PROVIDERS["gateway"].settings}, file="f")
    shown = str(settings.endpoint.identity())
    assert "${GATEWAY_KEY}" in shown and KEY not in shown
    other = replace(settings.endpoint, headers={"X-Provider": "groq"})
    assert other.fingerprint() != settings.endpoint.fingerprint()


def probed(server: Server) -> dict[str, Finding]:
    endpoint = Endpoint(base_url=server.url, model=server.row.model, key=ApiKey(variable="KEY"))
    transport = OpenAITransport(endpoint, timeout=30.0, environ={"KEY": KEY})

    async def scenario() -> dict[str, Finding]:
        found = probe(endpoint, transport=transport, clock=FastClock())
        return {finding.name: finding async for finding in found}

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "mode", "reported"),
    [
        ("anthropic", "json_object+schema", "json_schema is accepted and not followed"),
        ("deepseek", "json_object+schema", "json_schema is refused (400)"),
        ("llama-cpp-python", "json_object+schema", "json_schema is refused"),
    ],
)
def test_structure_is_followed_not_only_accepted(name: str, mode: str, reported: str) -> None:
    with PROVIDERS[name]() as server:
        found = probed(server)["structure"]
    assert not found.good and found.settings == {"structured": mode}
    assert reported in found.detail and f"{mode} is followed" in found.detail


def test_the_real_context_is_found_by_what_is_hidden_in_it() -> None:
    with PROVIDERS["ollama"]() as server:
        found = probed(server)["context"]
    assert "words is read in part: code 1, 2 of 3 is not found" in found.detail
    assert 1_000 <= found.settings["context"] <= 4_096
    with PROVIDERS["llama.cpp"]() as server:
        assert "a prompt of 8,000 words is refused (400)" in probed(server)["context"].detail


SECRET = "sk-0123456789-secret"


def over_http(
    server: FaultServer, work: Callable[[LLMClient], Awaitable[ValueT]], **settings: Any
) -> ValueT:
    judge = Endpoint(base_url=server.url, model="m", **settings.pop("judge", {}))
    return asyncio.run(opened(judge, work, **{"clock": FastClock(), **settings}))


async def ask_twenty(client: LLMClient) -> None:
    await asyncio.gather(*(client.ask(prompt(f"case {number}")) for number in range(20)))


def test_each_request_goes_out_once() -> None:
    """The package's own retries, and a client used over several loops, send more."""
    with FaultServer() as server:
        for _ in range(3):
            over_http(server, ask_twenty)
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
        shown = over_http(server, work, judge={"key": ApiKey(variable="JUDGE_KEY")}, cache=cache)
    assert "DEBUG" in caplog.text and SECRET not in shown + caplog.text
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_key_that_a_proxy_repeats_in_its_error_is_masked(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    with FaultServer(faults={"401": 1.0}, key=SECRET) as server:
        judge = {"key": ApiKey(file=str(tmp_path / "key"))}
        with pytest.raises(errors.LLMAccessError, match=r"Incorrect API key: \*\*\*") as caught:
            over_http(server, lambda client: client.ask(prompt()), judge=judge)
    assert SECRET not in str(caught.value)


# --- the plain seam


def test_threads_share_one_client_in_one_loop() -> None:
    with FaultServer(latency=0.01) as server:
        settings = resolve({"base_url": server.url, "model": "m", "cache": "off"}, {})
        with chat_of(settings).booked_under("rerank") as chat:
            assert (chat.receipt(), chat.name, isinstance(chat, ChatModel)) == (None, "m", True)
            with ThreadPoolExecutor(12) as threads:
                said = list(threads.map(lambda n: chat.complete(prompt(f"case {n}")), range(12)))
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
