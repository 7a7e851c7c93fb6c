"""One contract for every provider, and doctor's probes of them: ragbench's defaults work, and
nothing is lost or believed."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ragbench import errors, open_chat
from ragbench.core.chat import ChatModel, Message, Reply
from ragbench.errors import ConfigError, LLMRequestError
from ragbench.llm.answers import Answer, decoded, reported_cost
from ragbench.llm.budget import Receipt, ReceiptLine
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
    """Adds up the seconds that a client waits."""

    waited = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds
        await super().sleep(seconds)


async def with_client(
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
    """Does something with a client of a provider, at its settings and these.

    Args:
        key: another one than the provider's own.
    """
    provider = server.row
    secret = provider.key if key is None else key
    environ = {"RAGBENCH_LLM_API_KEY": secret, "GATEWAY_KEY": secret}
    section = {"base_url": server.url, "model": provider.model, **provider.settings, **settings}
    judge = resolve({}, environ, section=section, file="ragbench.yaml").endpoint
    transport = OpenAITransport(judge, timeout=30.0, environ=environ)
    return asyncio.run(
        with_client(judge, work, transport=transport, clock=clock or CountingClock(), cache=cache)
    )


async def ask_word(client: LLMClient) -> Reply[str]:
    return await client.ask(prompt("A word?"))


async def ask_verdict(client: LLMClient) -> Reply[Verdict]:
    return await client.ask(prompt("Good?"), schema=VERDICT)


async def ask_all(client: LLMClient, prompts: list[list[Message]]) -> int:
    """How many of the prompts were answered: all of them, or one raises."""
    replies = await asyncio.gather(*map(client.ask, prompts))
    return len(replies)


def long_prompt(words: int) -> list[Message]:
    sentence_of_six_words = "Bees have wings and fly far. "
    return [Message(role="user", content=sentence_of_six_words * (words // 6))]


# --- what holds for every provider


@EVERY
def test_a_text_and_a_structure_come_at_the_defaults(kind: Provider) -> None:
    async def work(client: LLMClient) -> tuple[Reply[str], Reply[Verdict]]:
        text = await ask_word(client)
        structure = await ask_verdict(client)
        return text, structure

    with kind() as server:
        text, structure = using(server, work)

    assert text.text
    assert isinstance(structure.value, Verdict)


@EVERY
def test_the_ways_of_an_endpoint_are_tried_out_once_and_remembered(kind: Provider) -> None:
    async def work(client: LLMClient) -> None:
        await ask_word(client)
        for number in range(3):
            await client.ask(prompt(f"Is it good? {number}"), schema=VERDICT)

    with kind() as server:
        using(server, work)

        # No more than eight requests that only showed what the endpoint refuses.
        assert len(server.seen) - len(server.answered) <= 8
        requests_before = len(server.seen)
        using(server, ask_word)
        assert len(server.seen) - requests_before <= 4


@EVERY
def test_the_books_are_the_servers_own(kind: Provider) -> None:
    """Hidden reasoning included, wherever it is reported."""

    async def work(client: LLMClient) -> ReceiptLine:
        calls = [client.ask(prompt(f"Good? {number}"), schema=VERDICT) for number in range(8)]
        await asyncio.gather(*calls)
        (line,) = client.receipt().lines
        return line

    with kind() as server:
        line = using(server, work)

        assert line.requests == len(server.seen)
        prompt_tokens = 0
        all_tokens = 0
        for request in server.answered:
            if request.usage:
                prompt_tokens += request.usage.get("prompt_tokens", 0)
                prompt_tokens += request.usage.get("cache_read_input_tokens", 0)
                all_tokens += request.usage["total_tokens"]
        assert line.prompt_tokens == prompt_tokens
        assert line.completion_tokens == all_tokens - prompt_tokens


@EVERY
def test_a_minutes_limit_is_waited_for(kind: Provider) -> None:
    clock = CountingClock()

    with kind(limited=4) as server:
        results = using(server, lambda client: ask_many(client, 6), clock=clock)

    assert results == {"Reply": 6}
    assert clock.waited > 1.0


@EVERY
def test_an_overload_is_waited_for(kind: Provider) -> None:
    with kind(overloaded=3) as server:
        reply = using(server, ask_word)

    assert reply.text


@EACH_HOSTED
def test_without_money_all_calls_stop_at_once(kind: Provider) -> None:
    clock = CountingClock()

    with kind(is_out_of_money=True) as server:
        results = using(server, lambda client: ask_many(client, 50), clock=clock)

        assert results == {"LLMAccessError": 50}
        assert len(server.seen) <= 8  # those that were in flight
    assert clock.waited == 0.0


@EACH_HOSTED
def test_a_wrong_key_stops_all_calls_and_is_not_quoted(kind: Provider) -> None:
    wrong_key = "sk-wrong-9876543210fedcba"

    with kind() as server, pytest.raises(errors.LLMAccessError) as caught:
        using(server, ask_word, key=wrong_key)

    assert wrong_key not in str(caught.value)


@EVERY
def test_a_prompt_that_is_too_long_is_never_measured(kind: Provider) -> None:
    """Some refuse it, some cut it without a word; both cost this call alone."""
    words = max(kind.context * 2, 12_000)
    kind_of_error = errors.LLMPromptCutError if kind.keeps else LLMRequestError

    async def work(client: LLMClient) -> str:
        await ask_word(client)
        with pytest.raises(kind_of_error):
            await client.ask(long_prompt(words))
        reply = await client.ask(prompt("Another word?"))
        return reply.text

    with kind() as server:
        assert using(server, work)


@EVERY
def test_long_prompts_are_judged_beside_short_ones(kind: Provider) -> None:
    """However little room the endpoint has for them, and whatever it counts."""
    words = int(min(kind.context, 5_000) * 0.4)
    prompts: list[list[Message]] = []
    for number in range(6):
        question = prompt(f"Good? {number}")
        prompts.append([*long_prompt(words), *question])
        prompts.append(question)

    async def work(client: LLMClient) -> list[Reply[Verdict]]:
        calls = [client.ask(messages, schema=VERDICT) for messages in prompts]
        replies = await asyncio.gather(*calls)
        requests_before = len(server.seen)
        last_prompt = [*long_prompt(words), *prompt("And now?")]
        last_reply = await client.ask(last_prompt, schema=VERDICT)
        # This provider fails at JSON, which takes a request more.
        most_requests = 3 if kind.name == "groq, bad JSON" else 2
        assert len(server.seen) - requests_before <= most_requests
        return [*replies, last_reply]

    with kind() as server:
        replies = using(server, work, clock=CountingClock())

    assert len(replies) == 13
    for reply in replies:
        assert isinstance(reply.value, Verdict)


# --- what single providers do


def questions_for_codes(server: Server) -> int:
    """How often the model was asked for codes that are hidden in a long prompt."""
    count = 0
    for request in server.seen:
        question = request.payload["messages"][-1]
        if "three codes" in question["content"]:
            count += 1
    return count


def test_a_count_that_cannot_be_is_looked_into_once_and_remembered(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    with PROVIDERS["constant count"]() as server, ResponseCache(tmp_path / "c.sqlite") as cache:
        for turn in range(2):
            prompts: list[list[Message]] = []
            for number in range(8):
                question = prompt(f"Good? {turn} {number}")
                prompts.append([*long_prompt(2_000), *question])
            assert using(server, partial(ask_all, prompts=prompts), cache=cache) == 8
            assert questions_for_codes(server) == 1
        (warning,) = recwarn.list
        assert "reports 10 tokens of a prompt of 2," in str(warning.message)
        # A prompt that is much longer may be cut all the same.
        longer = [long_prompt(5_000)]
        assert using(server, partial(ask_all, prompts=longer), cache=cache) == 1
        assert questions_for_codes(server) == 2


@pytest.mark.parametrize(
    ("name", "tokens", "figures"),
    [
        ("openai, tier 1", 6_000, ("takes 5,000 in a minute", "ask for a higher limit")),
        ("groq, free", 7_000, ("takes 6,000 in a minute", "fewer contexts")),
        ("vllm", 9_000, ("takes 8,192 with its answer", "--max-model-len")),
        ("vllm, 4k", 4_090, ("takes 4,096 with its answer", "the prompt has 4,0")),
    ],
)
def test_a_prompt_that_can_never_succeed_fails_at_once_with_its_figure(
    name: str, tokens: int, figures: tuple[str, str]
) -> None:
    clock = CountingClock()
    words = tokens * 3 // 4

    with PROVIDERS[name]() as server, pytest.raises(LLMRequestError) as caught:
        using(server, lambda client: client.ask(long_prompt(words)), clock=clock)

    assert len(server.seen) <= 2
    assert clock.waited == 0.0
    for figure in figures:
        assert figure in str(caught.value)


def test_json_that_fails_at_the_endpoint_is_repaired_by_the_model() -> None:
    with PROVIDERS["groq, bad JSON"]() as server:
        reply = using(server, ask_verdict, structured="json_object")

    assert isinstance(reply.value, Verdict)
    assert len(server.seen) == 2
    assert '{"good": true, "reason": ' in str(server.seen[-1].payload["messages"])


async def ask_too_long(client: LLMClient) -> Reply[str]:
    return await client.ask(long_prompt(12_000))


def test_a_cut_prompt_names_its_numbers_and_the_remedy() -> None:
    message = r"read 2,050 tokens .* 12,000 words.*OLLAMA_CONTEXT_LENGTH"

    with (
        PROVIDERS["ollama"]() as server,
        pytest.raises(errors.LLMPromptCutError, match=message),
    ):
        using(server, ask_too_long)


def test_the_check_of_prompts_can_be_left_out() -> None:
    """For servers that count only what they had not in their cache."""
    with PROVIDERS["ollama"]() as server:
        reply = using(server, ask_too_long, prompt_check=False)

    assert reply.text


# --- models that reason


def test_a_parameter_that_a_reasoning_model_refuses_is_left_out_and_named() -> None:
    async def work(client: LLMClient) -> tuple[Reply[Verdict], Mapping[str, str]]:
        reply = await ask_verdict(client)
        return reply, client.dialect.learned.not_sent

    with PROVIDERS["o3"]() as server:
        reply, reasons = using(server, work)

    assert reply.not_sent == ("temperature",)
    assert reply.attempts == 3
    assert "Only the default (1) value is supported" in reasons["temperature"]
    assert "temperature" not in server.seen[-1].payload


def test_a_parameter_that_was_refused_is_not_sent_again() -> None:
    async def work(client: LLMClient) -> int:
        await ask_verdict(client)
        reply = await client.ask(prompt("And now?"), schema=VERDICT)
        return reply.attempts

    with PROVIDERS["o3"]() as server:
        attempts = using(server, work)

    assert attempts == 1


def test_a_reasoning_model_has_room_to_think() -> None:
    with PROVIDERS["o3"]() as server:
        reply = using(server, ask_verdict)

    assert reply.usage.reasoning_tokens == 6_000
    payload = server.seen[-1].payload
    assert "max_tokens" not in payload
    assert payload["max_completion_tokens"] == 4_096 + 16_384


def test_a_reasoning_effort_is_sent() -> None:
    with PROVIDERS["o3"]() as server:
        using(server, ask_word, reasoning_effort="low")

    usage = server.seen[-1].usage
    assert usage is not None
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 512


def test_a_model_that_is_cut_off_while_it_thinks_is_given_room_once() -> None:
    async def work(client: LLMClient) -> list[int]:
        attempts: list[int] = []
        for number in range(3):
            reply = await client.ask(prompt(f"Good? {number}"), schema=VERDICT)
            attempts.append(reply.attempts)
        return attempts

    with PROVIDERS["thinks in tags"]() as server:
        attempts = using(server, work)

    assert attempts == [2, 1, 1]


def test_a_model_without_room_to_think_is_reported() -> None:
    with (
        PROVIDERS["thinks in tags"]() as server,
        pytest.raises(errors.LLMTruncatedError, match="thinking"),
    ):
        using(server, lambda client: client.ask(prompt("Good?")), reasoning_tokens=0)


# --- gateways


@pytest.mark.parametrize(("name", "cost"), [("openrouter", "0.000125"), ("litellm", "0.00042")])
def test_the_cost_of_a_call_is_taken_from_the_endpoint(name: str, cost: str) -> None:
    async def work(client: LLMClient) -> tuple[Reply[str], Receipt]:
        reply = await ask_word(client)
        return reply, client.receipt()

    with PROVIDERS[name]() as server:
        reply, receipt = using(server, work)

    assert reply.cost == Decimal(cost)
    assert receipt.cost == Decimal(cost)
    assert receipt.price_origin == "as the endpoint reports"


@pytest.mark.parametrize("usage", [{}, {"usage": None}])
def test_a_cost_in_a_header_needs_no_usage_in_the_body(usage: dict[str, None]) -> None:
    body = json.dumps({"choices": [], **usage})
    answer = Answer(status=200, headers={"x-litellm-response-cost": "0.00042"}, body=body)

    assert reported_cost(decoded(answer)) == Decimal("0.00042")


def gateway() -> Endpoint:
    section = {"model": "m", **PROVIDERS["gateway"].settings}
    return resolve({}, {}, section=section, file="f").endpoint


def test_the_identity_of_an_endpoint_shows_no_value_of_its_headers() -> None:
    identity = str(gateway().identity())

    assert "${GATEWAY_KEY}" in identity
    assert KEY not in identity


def test_another_header_is_another_endpoint() -> None:
    with_other_header = replace(gateway(), headers={"X-Provider": "groq"})

    assert with_other_header.fingerprint() != gateway().fingerprint()


# --- doctor's probes


def probe_server(server: Server) -> dict[str, Finding]:
    """What doctor finds out of an endpoint, by name."""
    judge = Endpoint(base_url=server.url, model=server.row.model, key=ApiKey(variable="KEY"))
    transport = OpenAITransport(judge, timeout=30.0, environ={"KEY": KEY})

    async def scenario() -> dict[str, Finding]:
        findings = probe(judge, transport=transport, clock=FastClock())
        return {finding.name: finding async for finding in findings}

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
        finding = probe_server(server)["structure"]

    assert not finding.good
    assert finding.settings == {"structured": mode}
    assert reported in finding.detail
    assert f"{mode} is followed" in finding.detail


def test_a_context_that_is_cut_is_found_by_codes_that_are_hidden_in_it() -> None:
    with PROVIDERS["ollama"]() as server:
        finding = probe_server(server)["context"]

    assert "words is read in part: code 1, 2 of 3 is not found" in finding.detail
    assert 1_000 <= finding.settings["context"] <= 4_096


def test_a_context_that_is_refused_is_reported() -> None:
    with PROVIDERS["llama.cpp"]() as server:
        finding = probe_server(server)["context"]

    assert "a prompt of 8,000 words is refused (400)" in finding.detail


# --- requests


SECRET = "sk-0123456789-secret"


def over_http(
    server: FaultServer,
    work: Callable[[LLMClient], Awaitable[ValueT]],
    *,
    key: ApiKey | None = None,
    cache: ResponseCache | None = None,
) -> ValueT:
    judge = Endpoint(base_url=server.url, model="m")
    if key is not None:
        judge = replace(judge, key=key)
    return asyncio.run(with_client(judge, work, clock=FastClock(), cache=cache))


async def ask_twenty(client: LLMClient) -> None:
    calls = [client.ask(prompt(f"case {number}")) for number in range(20)]
    await asyncio.gather(*calls)


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
        printed = over_http(server, work, key=ApiKey(variable="JUDGE_KEY"), cache=cache)

    assert SECRET not in printed
    assert "DEBUG" in caplog.text
    assert SECRET not in caplog.text
    for path in tmp_path.iterdir():
        assert SECRET.encode() not in path.read_bytes()


def test_a_key_that_a_proxy_repeats_in_its_error_is_masked(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    key = ApiKey(file=str(tmp_path / "key"))

    with (
        FaultServer(faults={"401": 1.0}, key=SECRET) as server,
        pytest.raises(errors.LLMAccessError, match=r"Incorrect API key: \*\*\*") as caught,
    ):
        over_http(server, ask_word, key=key)

    assert SECRET not in str(caught.value)


# --- a chat model of plain functions


LOCAL: dict[str, Any] = {"base_url": "http://localhost:1/v1", "model": "m"}


def test_threads_share_one_client_in_one_loop() -> None:
    texts = [f"case {number}" for number in range(12)]

    with FaultServer(latency=0.01) as server:
        settings = resolve({"base_url": server.url, "model": "m", "cache": "off"}, {})
        with chat_of(settings).booked_under("rerank") as chat, ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(lambda text: chat.complete(prompt(text)), texts))
            receipt = chat.receipt()

        assert answers == texts
        assert server.peak > 1
        assert len(server.calls) == 12
    assert receipt is not None
    (line,) = receipt.lines
    assert line.purpose == "rerank"
    assert line.calls == 12


def test_a_chat_model_ends_its_thread() -> None:
    with FaultServer() as server:
        settings = resolve({"base_url": server.url, "model": "m", "cache": "off"}, {})
        with chat_of(settings) as chat:
            chat.complete(prompt("a"))

    assert "ragbench-llm" not in [thread.name for thread in threading.enumerate()]


def test_a_chat_model_that_was_not_asked_has_no_receipt() -> None:
    settings = resolve(LOCAL, {})

    with chat_of(settings) as chat:
        assert isinstance(chat, ChatModel)
        assert chat.name == "m"
        assert chat.receipt() is None


def test_a_cap_needs_a_price() -> None:
    with pytest.raises(ConfigError, match="the cost cannot be capped"):
        open_chat(**LOCAL, max_cost="1")


def test_a_cap_with_a_price_is_taken() -> None:
    chat = open_chat(**LOCAL, max_cost="1", price_input=0, price_output=0)

    assert chat.name == "m"


def test_a_cap_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_cost must be a number, not 'much'"):
        open_chat(**LOCAL, max_cost="much")
