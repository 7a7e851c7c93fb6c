"""The client's states, in virtual time and without a socket."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ragbench import errors
from ragbench.core.chat import Reply, Vector
from ragbench.errors import LLMError, LLMReplyError, LLMRequestError
from ragbench.llm.answers import Answer
from ragbench.llm.budget import Budget
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import EmbeddingClient, LLMClient
from ragbench.llm.transport import CallLimits, NoAnswerError, Transport
from tests.llm_server import FaultServer
from tests.unit.llm.builders import (
    VERDICT,
    InMemory,
    Script,
    Verdict,
    ask_many,
    completion,
    endpoint,
    error,
    prompt,
)
from tests.virtual_time import run

ValueT = TypeVar("ValueT")
GOOD = '{"good": true, "reason": "r"}'
CUT = {"choices": [{"message": {"content": "half"}, "finish_reason": "length"}]}
REFUSED = {"choices": [{"message": {"content": None, "refusal": "I will not"}}]}
FILTERED = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}


def using(
    transport: Transport,
    work: Callable[[Any], Awaitable[ValueT]],
    kind: Any = LLMClient,
    **settings: Any,
) -> ValueT:
    """Opens a client in a virtual loop and does something with it."""
    judge = settings.pop("judge", endpoint())

    async def scenario() -> ValueT:
        async with kind(judge, transport=transport, **settings) as client:
            return await work(client)

    return run(scenario())


def ask(client: LLMClient, **more: Any) -> Coroutine[Any, Any, Reply[str]]:
    return client.ask(prompt(), purpose="p", **more)


def judge(client: LLMClient, **more: Any) -> Awaitable[Reply[Verdict]]:
    return client.ask(prompt(), schema=VERDICT, purpose="p", **more)


async def elapsed(client: LLMClient) -> float:
    await ask(client)
    return asyncio.get_running_loop().time()


# --- one answer


def test_an_answer_comes_with_all_that_is_known_of_it() -> None:
    script = Script([completion("Yes.")])
    reply = using(script, ask)
    assert (reply.value, reply.text, reply.model) == ("Yes.", "Yes.", "m-2026")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 5)
    assert reply.cost == Decimal("0.000020")  # 10 x $1/M + 5 x $2/M
    assert (reply.cached, reply.repaired, reply.attempts, reply.seconds) == (False, False, 1, 1.0)
    messages = [{"role": "user", "content": "Is it good?"}]
    [sent] = script.sent
    assert sent == {"model": "m", "messages": messages, "temperature": 0.0, "max_tokens": 4096}
    assert script.opened == 0
    chosen = endpoint(temperature=None, max_tokens=None, seed=7, extra={"top_p": 0.5}, price=None)
    assert using(script, ask, judge=chosen).cost is None  # not known is not 0
    assert script.sent[1] == {"model": "m", "messages": messages, "seed": 7, "top_p": 0.5}
    untold = using(Script([completion("a \ud83d", usage=None)]), ask)  # half of an emoji
    assert (untold.text, untold.cost, untold.usage.reported) == ("a ?", None, False)


# --- errors that pass


@pytest.mark.parametrize(
    "first",
    [
        *map(error, (500, 503, 529, 408, 429)),
        NoAnswerError("connection", "refused"),
        NoAnswerError("lost", "the connection broke"),
        Answer(status=200, headers={}, body="<html>"),
        Answer(status=200, headers={}, body="[]"),
        Answer(status=200, headers={}, body='{"error": {"message": "upstream", "code": 502}}'),
        completion("", choices=[]),
        completion("", choices=None),
        completion(""),
        completion("  \n"),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again(first: Answer | NoAnswerError) -> None:
    script = Script([first, completion("Yes.")])
    reply = using(script, ask)
    assert (reply.text, reply.attempts, len(script.sent)) == ("Yes.", 2, 2)


@pytest.mark.parametrize(
    ("header", "value", "seconds"),
    [("retry_after", "40", 40.0), ("retry_after_ms", "1500", 1.5), ("retry_after", "0", 0.0)],
)
def test_a_rate_limit_is_waited_for_as_long_as_it_asks(
    header: str, value: str, seconds: float
) -> None:
    script = Script([error(429, **{header: value}), completion("Yes.")])
    assert using(script, elapsed) == pytest.approx(2.0 + seconds)


@pytest.mark.parametrize(
    ("last", "noted", "sent"),
    [
        (error(500, "boom"), "to 3 requests: 500 boom", 3),
        (error(429, "come back tomorrow", retry_after="86400"), r"wait 86400 s more.*tomorrow", 1),
    ],
)
def test_nothing_is_tried_for_ever(last: Answer, noted: str, sent: int) -> None:
    script = Script([last])
    with pytest.raises(errors.LLMUnavailableError, match=noted) as caught:
        using(script, ask, limits=CallLimits(retries=2))
    assert (caught.value.attempts, caught.value.status) == (sent, last.status)
    assert len(script.sent) == sent


def test_a_call_that_waits_for_its_turn_holds_no_slot() -> None:
    """One slot; the first call is told to wait an hour; the others go on meanwhile."""

    def answer(payload: Mapping[str, Any]) -> Answer:
        text = payload["messages"][0]["content"]
        early = asyncio.get_running_loop().time() < 3000
        return error(429, retry_after="3600") if text == "0" and early else completion(text)

    async def one(client: LLMClient, number: int) -> float:
        await client.ask(prompt(str(number)))
        return asyncio.get_running_loop().time()

    async def work(client: LLMClient) -> list[float]:
        return await asyncio.gather(*(one(client, number) for number in range(4)))

    patience = CallLimits(concurrency=1, rate_limit_wait=4000)
    times = using(Script(answer), work, limits=patience)
    assert times[1:] == [2.0, 3.0, 4.0]
    assert times[0] == pytest.approx(3602.0)


# --- errors that do not pass


@pytest.mark.parametrize(
    ("answer", "kind", "noted"),
    [
        (completion("", **CUT), errors.LLMTruncatedError, "raise max_tokens"),
        (completion("", **REFUSED), errors.LLMRefusedError, "I will not"),
        (completion("", **FILTERED), errors.LLMRefusedError, "content filter"),
        (error(400, "content_filter triggered"), errors.LLMRefusedError, "declines this prompt"),
        (error(400, "context length exceeded"), LLMRequestError, "context length exceeded"),
        (error(401, "bad key"), errors.LLMAccessError, "ragbench doctor --llm"),
        (error(404, "no such model"), errors.LLMAccessError, "404 no such model"),
        (error(429, "insufficient_quota"), errors.LLMAccessError, "insufficient_quota"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_does_not_pass_is_reported_at_once(
    answer: Answer, kind: type[LLMError], noted: str
) -> None:
    script = Script([answer])
    with pytest.raises(kind, match=noted) as caught:
        using(script, ask)
    assert type(caught.value) is kind or isinstance(caught.value, LLMRequestError)
    assert (len(script.sent), caught.value.attempts) == (1, 1)


@pytest.mark.parametrize(
    ("down", "is_known", "answered"),
    [
        ((0, math.inf), False, (0, 0)),
        ((5, 15), False, (200, 200)),  # a restart is waited for
        ((0, 15), False, (0, 0)),
        ((0, 15), True, (200, 200)),  # an earlier command's answer proves that it exists
        ((5, math.inf), False, (50, 199)),
    ],
)
def test_an_endpoint_is_waited_for_or_given_up(
    tmp_path: Path, down: tuple[float, float], is_known: bool, answered: tuple[int, int]
) -> None:
    def answer(payload: Mapping[str, Any]) -> Answer | NoAnswerError:
        is_down = down[0] <= asyncio.get_running_loop().time() < down[1]
        return NoAnswerError("connection", "refused") if is_down else completion("Yes.")

    script = Script(answer)
    with ResponseCache(tmp_path / "c") as cache:
        if is_known:
            using(Script([completion("Yes.")]), lambda client: client.ask(prompt("0")), cache=cache)
        found = using(script, lambda client: ask_many(client, 200), cache=cache)
    assert answered[0] <= found["Reply"] <= answered[1]
    assert found["Reply"] + found["LLMUnreachableError"] == 200
    assert found["Reply"] or len(script.sent) < 20


def test_errors_alone_and_the_deadline_end_everything() -> None:
    found = using(Script([error(500)]), lambda client: ask_many(client, 300))
    assert found["LLMUnavailableError"] <= 60 and found["LLMUnreachableError"] >= 240

    async def work(client: LLMClient) -> tuple[Counter[str], float]:
        return await ask_many(client, 1000), asyncio.get_running_loop().time()

    ended = using(
        Script([completion("Yes.")]), work, limits=CallLimits(deadline=10.5, concurrency=8)
    )
    assert ended == ({"Reply": 80, "LLMDeadlineError": 920}, 10.5)


def test_a_403_concerns_one_prompt_once_others_were_answered() -> None:
    async def work(client: LLMClient) -> str:
        await client.ask(prompt("good"))
        with pytest.raises(LLMRequestError, match="firewall"):
            await client.ask(prompt("bad"))
        return (await client.ask(prompt("also good"))).text

    assert using(Script([completion("a"), error(403, "firewall"), completion("b")]), work) == "b"


# --- structure


BAD = ["Yes, it is.", '{"good": 3}', '{"good": true, "reas']


@pytest.mark.parametrize("bad", BAD)
def test_an_answer_in_the_wrong_form_is_mended_once(bad: str) -> None:
    """Where an answer before it has shown that the endpoint follows the schema."""
    script = Script([completion(GOOD), completion(bad), completion(f"```json\n{GOOD}\n```")])

    async def work(client: LLMClient) -> Reply[Verdict]:
        await judge(client)
        return await client.ask(prompt("Is this one?"), schema=VERDICT)

    reply = using(script, work)
    assert (reply.value.good, reply.repaired, reply.attempts) == (True, True, 2)
    assert reply.usage.prompt_tokens == 20  # of both
    noted = script.sent[2]["messages"]
    assert [each["role"] for each in noted] == ["user", "assistant", "user"]
    assert noted[1]["content"] == bad
    assert "That is not what was asked for" in noted[2]["content"]
    # It stood in the request alone, and the model may never have seen it.
    assert json.dumps(VERDICT.definition) in noted[2]["content"]


@pytest.mark.parametrize("bad", BAD)
def test_a_first_answer_in_the_wrong_form_is_asked_for_in_the_next_way(bad: str) -> None:
    """As by endpoints that take ``response_format`` and pass it over."""

    def answer(payload: Mapping[str, Any]) -> Answer:
        return completion(bad if payload["response_format"]["type"] == "json_schema" else GOOD)

    script = Script(answer)

    async def work(client: LLMClient) -> list[int]:
        return [
            (await client.ask(prompt(text), schema=VERDICT)).attempts
            for text in ("Is it good?", "Is this one?", "And this?")
        ]

    assert using(script, work) == [2, 2, 1]  # one odd answer proves nothing, two do
    assert [len(sent["messages"]) for sent in script.sent] == [1] * 5  # asked anew, no objection
    ways = ["json_schema", "json_object", "json_schema", "json_object", "json_object"]
    assert [sent["response_format"]["type"] for sent in script.sent] == ways
    schema = json.dumps(VERDICT.definition)
    for sent, way in zip(script.sent, ways, strict=True):
        assert (schema in sent["messages"][0]["content"]) is (way == "json_object")


def test_an_answer_that_stays_wrong_is_reported_with_its_words() -> None:
    words = ["No.", "Nope.", "Hm.", "Ah.", "Never."]
    script = Script([completion(text) for text in words])
    with pytest.raises(LLMReplyError, match=r"no JSON: 'Never\.'.*asked once to correct") as caught:
        using(script, judge)
    # Each of the four ways to ask for JSON once, then the objection.
    assert (caught.value.reply, caught.value.attempts, len(script.sent)) == ("Never.", 5, 5)

    async def work(client: LLMClient) -> None:
        for number in range(12):
            with pytest.raises(LLMReplyError):
                await client.ask(prompt(f"Case {number}"), schema=VERDICT)

    script = Script([completion("No.")])
    using(script, work)  # not in every way for ever
    assert len(script.sent) == 3 * 5 + 9 * 2


# --- the cache


def test_an_answer_is_paid_for_once(tmp_path: Path) -> None:
    script = Script([completion(GOOD)])
    with ResponseCache(tmp_path / "c") as cache:
        first = using(script, judge, cache=cache)
        second = using(script, judge, cache=cache)
        assert (first.cached, second.cached) == (False, True)
        assert (second.value, second.usage, second.cost) == (first.value, first.usage, first.cost)
        using(script, judge, cache=cache, judge=endpoint(temperature=0.9))
        for more in ({"repeat": 1}, {"version": "2"}):
            using(script, partial(judge, **more), cache=cache)
    assert len(script.sent) == 4


@pytest.mark.parametrize(
    "bad",
    [
        completion("", **CUT),
        completion("", **REFUSED),
        error(500),
        error(400),
        completion("no JSON"),
        completion(""),
    ],
)
def test_what_is_no_answer_is_never_kept(tmp_path: Path, bad: Answer) -> None:
    with ResponseCache(tmp_path / "c") as cache:
        with pytest.raises(LLMError):
            using(Script([bad]), judge, cache=cache)
        assert cache.stats().entries == 0
        assert using(Script([completion(GOOD)]), judge, cache=cache).cached is False


def test_a_kept_answer_that_no_longer_fits_is_asked_anew(tmp_path: Path) -> None:
    def never(value: object) -> Verdict:
        raise ValueError("the check has become stricter")

    script, stricter = Script([completion(GOOD)]), replace(VERDICT, check=never)
    with ResponseCache(tmp_path / "c") as cache:
        using(script, judge, cache=cache)
        with pytest.raises(LLMReplyError):
            using(script, partial(ask, schema=stricter), cache=cache)
    assert len(script.sent) == 3


def test_equal_questions_at_once_are_one() -> None:
    script = Script([completion("Yes.")])

    async def work(client: LLMClient) -> None:
        replies = await asyncio.gather(*(ask(client) for _ in range(10)))
        assert {reply.text for reply in replies} == {"Yes."}
        (line,) = client.receipt().lines
        assert (line.calls, line.cached, line.requests) == (10, 9, 1)
        assert [reply.cached for reply in replies].count(False) == len(script.sent) == 1

    using(script, work)


def test_a_question_goes_on_while_anybody_waits_for_it() -> None:
    script = Script([completion("Yes.")], latency=100)

    async def work(client: LLMClient) -> str:
        first, second = (asyncio.create_task(client.ask(prompt())) for _ in range(2))
        alone = asyncio.create_task(client.ask(prompt("another")))
        await asyncio.sleep(1)
        assert script.in_flight == 2
        first.cancel()
        alone.cancel()
        await asyncio.gather(first, alone, return_exceptions=True)
        await asyncio.sleep(0)
        assert script.in_flight == 1
        return (await second).text

    assert using(script, work) == "Yes."


def test_when_answers_cannot_be_kept_no_more_are_bought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise errors.LLMCacheError("the disk is full")

    async def work(client: LLMClient) -> None:
        assert (await client.ask(prompt("a"))).text == "Yes."  # paid for: it is given
        with pytest.raises(errors.LLMCacheError, match="the disk is full"):
            await client.ask(prompt("b"))

    script = Script([completion("Yes.")])
    with ResponseCache(tmp_path / "c") as cache:
        monkeypatch.setattr(cache, "put", full)
        using(script, work, cache=cache)
    assert len(script.sent) == 1


# --- money


@pytest.mark.parametrize(
    "faults", [{}, {"hang": 0.3}, {"cut": 0.3}, {"500": 0.3, "garbage": 0.2}], ids=str
)
def test_a_cap_holds_under_full_concurrency(faults: dict[str, float]) -> None:
    """What may have been billed counts as billed; counted afterwards, 31 calls would pass a cap."""
    cap = Budget(Decimal("0.02"))

    async def work(client: LLMClient) -> Decimal:
        await ask_many(client, 100)
        receipt = client.receipt()
        return (receipt.cost or 0) + (receipt.unconfirmed or Decimal(0))

    server = InMemory(FaultServer(faults=faults))
    total = using(server, work, budget=cap, judge=endpoint(max_tokens=100))
    assert 0 < total == cap.spent <= Decimal("0.02")


def test_a_cap_needs_a_longest_answer() -> None:
    with pytest.raises(errors.ConfigError, match="without max_tokens"):
        LLMClient(endpoint(max_tokens=None), budget=Budget(Decimal(1)))
    with pytest.raises(errors.LLMBudgetError, match="a higher cap goes on from there"):
        using(Script([completion("Yes.")]), ask, budget=Budget(Decimal("0.000001")))


def test_what_was_no_answer_is_paid_for_too() -> None:
    async def work(client: LLMClient) -> None:
        await client.ask(prompt("1"), purpose="p")
        with pytest.raises(errors.LLMTruncatedError):
            await client.ask(prompt("2"), purpose="p")
        [line] = client.receipt().lines
        assert (line.calls, line.failed, line.requests) == (2, 1, 3)
        assert line.cost == Decimal("0.000040")

    using(Script([error(500), completion("a"), completion("", **CUT)]), work)


# --- loops


def test_it_serves_the_loop_that_opened_it() -> None:
    """A client that outlives its loop sends requests twice over dead connections."""
    client = LLMClient(endpoint(), transport=Script([completion("a")]))
    elsewhere = pytest.raises(RuntimeError, match="in the event loop that asks")
    with elsewhere:
        run(ask(client))
    run(client.__aenter__())
    with elsewhere:
        run(ask(client))


def test_leaving_it_ends_what_is_in_flight() -> None:
    script = Script([completion("a")], latency=1000)

    async def scenario() -> float:
        async with LLMClient(endpoint(), transport=script) as client:
            asking = asyncio.create_task(client.ask(prompt()))
            await asyncio.sleep(1)
        with pytest.raises(asyncio.CancelledError):
            await asking
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 1.0
    assert (script.in_flight, script.opened) == (0, 0)


def test_where_a_minute_takes_little_an_answer_is_given_what_such_answers_took() -> None:
    headers = {"x-ratelimit-limit-tokens": "6000", "x-ratelimit-remaining-requests": "1"}
    script = Script([replace(completion("Yes."), headers=headers)])

    async def work(client: LLMClient) -> None:
        await client.ask(prompt("first"))
        await ask_many(client, 6)
        assert client.rates["limit-tokens"] == 6000

    using(script, work, judge=endpoint(max_tokens=4096))
    assert [sent["max_tokens"] for sent in script.sent] == [4096, *[256] * 6]
    assert script.peak == 1  # as it takes one request more


def embedded(server: FaultServer | Script, texts: Sequence[str], **given: Any) -> Sequence[Vector]:
    transport = server if isinstance(server, Script) else InMemory(server)
    work = partial(EmbeddingClient.embed, texts=texts, purpose="similarity")
    return using(transport, work, EmbeddingClient, **given)


def test_each_text_gets_its_vector() -> None:
    server, budget = FaultServer(), Budget(Decimal(1))
    found = embedded(server, ["a", "bb", "a"], budget=budget)
    assert found == ((1.0, 0.0), (2.0, 2.0), (1.0, 0.0))  # 97 % 97, 196 % 97
    assert budget.spent == Decimal("0.000002")  # of two tokens
    assert [call.payload for call in server.calls] == [{"model": "m", "input": ["a", "bb"]}]


def test_many_texts_are_several_requests_and_faults_pass() -> None:
    server = FaultServer(faults={"500": 0.3, "empty_choices": 0.2, "cut": 0.1})
    texts = [f"text {number}" for number in range(500)]
    found = embedded(server, texts)
    assert len(found) == 500
    assert found == embedded(FaultServer(), texts)
    assert len(server.good) == 8


def test_vectors_are_kept_by_text(tmp_path: Path) -> None:
    server = FaultServer()
    with ResponseCache(tmp_path / "c") as cache:
        embedded(server, ["a", "b"], cache=cache)
        embedded(server, ["b", "c"], cache=cache)
        again = embedded(server, ["a", "b", "c"], cache=cache)
        assert again == embedded(FaultServer(), ["a", "b", "c"])
        embedded(server, ["a"], cache=cache, judge=endpoint(extra={"dimensions": 2}))
        warmer = endpoint(temperature=0.9)  # nothing to an embedding
        embedded(server, ["a"], cache=cache, judge=warmer)
    assert [call.payload["input"] for call in server.calls] == [["a", "b"], ["c"], ["a"]]


@pytest.mark.parametrize(
    "data",
    [
        [{"embedding": [1]}] * 2,
        [{"embedding": []}],
        [{"embedding": ["x"]}],
        [{}],
        None,
    ],
    ids=str,
)
def test_what_is_no_vector_is_never_taken_for_one(data: object, tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "c") as cache:
        with pytest.raises(errors.LLMUnavailableError, match="one vector for each of 1 texts"):
            embedded(Script([completion("", data=data)]), ["a"], cache=cache)
        assert cache.stats().entries == 0


def test_a_cap_holds_and_an_empty_text_is_refused() -> None:
    with pytest.raises(errors.LLMBudgetError):
        embedded(FaultServer(), ["a"], budget=Budget(Decimal("0.000001")))
    with pytest.raises(errors.ConfigError, match="an empty text"):
        embedded(FaultServer(), ["a", " "])
