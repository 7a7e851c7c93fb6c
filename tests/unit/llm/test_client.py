"""The client's states, in virtual time and without a socket."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
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
from ragbench.llm.budget import Budget, ReceiptLine
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import EmbeddingClient, LLMClient
from ragbench.llm.endpoint import Endpoint
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
    *,
    judge: Endpoint | None = None,
    **settings: Any,
) -> ValueT:
    """Opens a client in a virtual loop and does something with it."""

    async def scenario() -> ValueT:
        async with kind(judge or endpoint(), transport=transport, **settings) as client:
            return await work(client)

    return run(scenario())


def ask(client: LLMClient, **options: Any) -> Coroutine[Any, Any, Reply[str]]:
    return client.ask(prompt(), purpose="p", **options)


def ask_for_verdict(client: LLMClient, **options: Any) -> Awaitable[Reply[Verdict]]:
    return client.ask(prompt(), schema=VERDICT, purpose="p", **options)


async def seconds_of_an_answer(client: LLMClient) -> float:
    await ask(client)
    return asyncio.get_running_loop().time()


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    with ResponseCache(tmp_path / "c") as opened:
        yield opened


# --- one answer


def test_an_answer_comes_with_the_models_words_and_tokens() -> None:
    reply = using(Script([completion("Yes.")]), ask)

    assert reply.value == "Yes."
    assert reply.text == "Yes."
    assert reply.model == "m-2026"
    assert reply.usage.prompt_tokens == 10
    assert reply.usage.completion_tokens == 5


def test_an_answer_comes_with_its_cost_and_time() -> None:
    reply = using(Script([completion("Yes.")]), ask)

    # 10 x $1 and 5 x $2, a million tokens
    assert reply.cost == Decimal("0.000020")
    assert reply.seconds == 1.0
    assert reply.attempts == 1
    assert not reply.cached
    assert not reply.repaired


def test_a_cost_that_is_not_known_is_not_zero() -> None:
    script = Script([completion("Yes.")])

    reply = using(script, ask, judge=endpoint(price=None))

    assert reply.cost is None


def test_an_answer_without_its_tokens_has_no_cost() -> None:
    reply = using(Script([completion("Yes.", usage=None)]), ask)

    assert reply.cost is None
    assert not reply.usage.reported


def test_half_an_emoji_in_an_answer_is_replaced() -> None:
    reply = using(Script([completion("a \ud83d")]), ask)

    assert reply.text == "a ?"


MESSAGES = [{"role": "user", "content": "Is it good?"}]


def test_a_request_asks_for_little_variation_and_a_limited_answer() -> None:
    script = Script([completion("Yes.")])

    using(script, ask)

    assert script.sent == [
        {"model": "m", "messages": MESSAGES, "temperature": 0.0, "max_tokens": 4096}
    ]


def test_a_request_has_the_parameters_of_its_endpoint_alone() -> None:
    script = Script([completion("Yes.")])
    judge = endpoint(temperature=None, max_tokens=None, seed=7, extra={"top_p": 0.5})

    using(script, ask, judge=judge)

    assert script.sent == [{"model": "m", "messages": MESSAGES, "seed": 7, "top_p": 0.5}]


def test_a_client_closes_its_transport() -> None:
    script = Script([completion("Yes.")])

    using(script, ask)

    assert script.opened == 0


# --- errors that pass


@pytest.mark.parametrize(
    "fault",
    [
        error(500),
        error(503),
        error(529),
        error(408),
        error(429),
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
def test_a_fault_that_may_pass_is_tried_again(fault: Answer | NoAnswerError) -> None:
    script = Script([fault, completion("Yes.")])

    reply = using(script, ask)

    assert reply.text == "Yes."
    assert reply.attempts == 2
    assert len(script.sent) == 2


@pytest.mark.parametrize(
    ("header", "value", "seconds"),
    [("retry_after", "40", 40.0), ("retry_after_ms", "1500", 1.5), ("retry_after", "0", 0.0)],
)
def test_a_rate_limit_is_waited_for_as_long_as_it_asks(
    header: str, value: str, seconds: float
) -> None:
    rate_limit = error(429, **{header: value})
    script = Script([rate_limit, completion("Yes.")])

    elapsed = using(script, seconds_of_an_answer)

    # A second for each request.
    assert elapsed == pytest.approx(2.0 + seconds)


@pytest.mark.parametrize(
    ("fault", "message", "requests"),
    [
        pytest.param(error(500, "boom"), "to 3 requests: 500 boom", 3, id="after its retries"),
        pytest.param(
            error(429, "come back tomorrow", retry_after="86400"),
            r"wait 86400 s more.*tomorrow",
            1,
            id="at once, if it would wait too long",
        ),
    ],
)
def test_nothing_is_tried_for_ever(fault: Answer, message: str, requests: int) -> None:
    script = Script([fault])

    with pytest.raises(errors.LLMUnavailableError, match=message) as caught:
        using(script, ask, limits=CallLimits(retries=2))

    assert caught.value.attempts == requests
    assert caught.value.status == fault.status
    assert len(script.sent) == requests


def test_a_call_that_waits_for_its_turn_holds_no_slot() -> None:
    """One slot; the first call has to wait an hour; the others go on meanwhile."""

    def answer(payload: Mapping[str, Any]) -> Answer:
        text = payload["messages"][0]["content"]
        is_early = asyncio.get_running_loop().time() < 3000
        if text == "0" and is_early:
            return error(429, retry_after="3600")
        return completion(text)

    async def time_of_answer(client: LLMClient, number: int) -> float:
        await client.ask(prompt(str(number)))
        return asyncio.get_running_loop().time()

    async def work(client: LLMClient) -> list[float]:
        answers = [time_of_answer(client, number) for number in range(4)]
        return await asyncio.gather(*answers)

    patience = CallLimits(concurrency=1, rate_limit_wait=4000)

    times = using(Script(answer), work, limits=patience)

    assert times == [pytest.approx(3602.0), 2.0, 3.0, 4.0]


# --- errors that do not pass


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
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
def test_an_error_that_does_not_pass_is_reported_at_once(
    answer: Answer, kind: type[LLMError], message: str
) -> None:
    script = Script([answer])

    with pytest.raises(kind, match=message) as caught:
        using(script, ask)

    assert caught.value.attempts == 1
    assert len(script.sent) == 1


# --- an endpoint that is down


def down(start: float, end: float) -> Script:
    """An endpoint that refuses connections from one second to another."""

    def answer(payload: Mapping[str, Any]) -> Answer | NoAnswerError:
        if start <= asyncio.get_running_loop().time() < end:
            return NoAnswerError("connection", "refused")
        return completion("Yes.")

    return Script(answer)


def ask_two_hundred(script: Script, **settings: Any) -> Counter[str]:
    return using(script, lambda client: ask_many(client, 200), **settings)


def test_an_endpoint_that_was_never_there_is_given_up_soon() -> None:
    script = down(0, math.inf)

    results = ask_two_hundred(script)

    assert results == {"LLMUnreachableError": 200}
    assert len(script.sent) < 20


def test_an_endpoint_that_starts_late_is_given_up() -> None:
    """Nothing shows that it exists: the address may be wrong."""
    results = ask_two_hundred(down(0, 15))

    assert results == {"LLMUnreachableError": 200}


def test_an_endpoint_that_answered_an_earlier_command_is_waited_for(
    cache: ResponseCache,
) -> None:
    """The answer to one of the questions is in the cache: the endpoint exists."""
    script = Script([completion("Yes.")])
    using(script, lambda client: client.ask(prompt("0")), cache=cache)

    results = ask_two_hundred(down(0, 15), cache=cache)

    assert results == {"Reply": 200}


def test_an_endpoint_that_restarts_is_waited_for() -> None:
    results = ask_two_hundred(down(5, 15))

    assert results == {"Reply": 200}


def test_an_endpoint_that_stays_down_is_given_up() -> None:
    results = ask_two_hundred(down(5, math.inf))

    assert 50 <= results["Reply"] < 200
    assert results["LLMUnreachableError"] == 200 - results["Reply"]


def test_errors_alone_end_everything() -> None:
    results = using(Script([error(500)]), lambda client: ask_many(client, 300))

    assert results["LLMUnavailableError"] <= 60
    assert results["LLMUnreachableError"] == 300 - results["LLMUnavailableError"]


def test_the_deadline_ends_everything() -> None:
    async def work(client: LLMClient) -> tuple[Counter[str], float]:
        results = await ask_many(client, 1000)
        return results, asyncio.get_running_loop().time()

    script = Script([completion("Yes.")])
    limits = CallLimits(deadline=10.5, concurrency=8)

    results, seconds = using(script, work, limits=limits)

    # Eight calls in each of ten seconds.
    assert results == {"Reply": 80, "LLMDeadlineError": 920}
    assert seconds == 10.5


def test_a_403_concerns_one_prompt_once_others_were_answered() -> None:
    async def work(client: LLMClient) -> str:
        await client.ask(prompt("good"))
        with pytest.raises(LLMRequestError, match="firewall"):
            await client.ask(prompt("bad"))
        reply = await client.ask(prompt("also good"))
        return reply.text

    script = Script([completion("a"), error(403, "firewall"), completion("b")])

    assert using(script, work) == "b"


# --- structure


WRONG_FORM = pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("Yes, it is.", id="words"),
        pytest.param('{"good": 3}', id="another type"),
        pytest.param('{"good": true, "reas', id="JSON that is cut"),
    ],
)


async def ask_two_verdicts(client: LLMClient) -> Reply[Verdict]:
    """Gives the second answer; the first shows that the endpoint follows the schema."""
    await ask_for_verdict(client)
    return await client.ask(prompt("Is this one?"), schema=VERDICT)


@WRONG_FORM
def test_an_answer_in_the_wrong_form_is_repaired_by_the_model(wrong: str) -> None:
    in_a_block = f"```json\n{GOOD}\n```"
    script = Script([completion(GOOD), completion(wrong), completion(in_a_block)])

    reply = using(script, ask_two_verdicts)

    assert reply.value.good is True
    assert reply.repaired
    assert reply.attempts == 2
    assert reply.usage.prompt_tokens == 20  # of both requests


@WRONG_FORM
def test_an_objection_shows_the_answer_and_the_schema(wrong: str) -> None:
    script = Script([completion(GOOD), completion(wrong), completion(GOOD)])

    using(script, ask_two_verdicts)

    question, answer, objection = script.sent[2]["messages"]
    assert question["role"] == "user"
    assert answer == {"role": "assistant", "content": wrong}
    assert objection["role"] == "user"
    assert "That is not what was asked for" in objection["content"]
    # It was in the request alone, and the model may never have seen it.
    assert json.dumps(VERDICT.definition) in objection["content"]


@pytest.fixture(name="ignoring")
def endpoint_that_ignores_schemas() -> Script:
    """As endpoints do that take ``response_format`` and pass it over."""

    def answer(payload: Mapping[str, Any]) -> Answer:
        if payload["response_format"]["type"] == "json_schema":
            return completion("Yes, it is.")
        return completion(GOOD)

    return Script(answer)


async def ask_three_verdicts(client: LLMClient) -> list[int]:
    """How many requests each of three questions took."""
    attempts: list[int] = []
    for text in ("Is it good?", "Is this one?", "And this?"):
        reply = await client.ask(prompt(text), schema=VERDICT)
        attempts.append(reply.attempts)
    return attempts


def test_a_schema_that_is_ignored_twice_is_not_sent_again(ignoring: Script) -> None:
    attempts = using(ignoring, ask_three_verdicts)

    assert attempts == [2, 2, 1]
    forms = [payload["response_format"]["type"] for payload in ignoring.sent]
    assert forms == [
        "json_schema",
        "json_object",
        "json_schema",
        "json_object",
        "json_object",
    ]


def test_where_a_schema_is_ignored_it_is_in_the_question(ignoring: Script) -> None:
    using(ignoring, ask_three_verdicts)

    schema = json.dumps(VERDICT.definition)
    for payload in ignoring.sent:
        (message,) = payload["messages"]  # asked anew, without an objection
        is_in_question = schema in message["content"]
        assert is_in_question is (payload["response_format"]["type"] == "json_object")


def test_an_answer_that_stays_wrong_is_reported_with_its_words() -> None:
    words = ["No.", "Nope.", "Hm.", "Ah.", "Never."]
    script = Script([completion(text) for text in words])

    message = r"no JSON: 'Never\.'.*asked once to correct"
    with pytest.raises(LLMReplyError, match=message) as caught:
        using(script, ask_for_verdict)

    assert caught.value.reply == "Never."
    # Each of the four ways to ask for JSON once, then the objection.
    assert caught.value.attempts == 5
    assert len(script.sent) == 5


def test_an_endpoint_that_never_gives_json_is_not_asked_in_every_way_for_ever() -> None:
    async def work(client: LLMClient) -> None:
        for number in range(12):
            with pytest.raises(LLMReplyError):
                await client.ask(prompt(f"Case {number}"), schema=VERDICT)

    script = Script([completion("No.")])

    using(script, work)

    # Three questions in every way; of the others each is asked, and objected to.
    assert len(script.sent) == 3 * 5 + 9 * 2


# --- the cache


def test_an_answer_is_paid_for_once(cache: ResponseCache) -> None:
    script = Script([completion(GOOD)])

    bought = using(script, ask_for_verdict, cache=cache)
    stored = using(script, ask_for_verdict, cache=cache)

    assert not bought.cached
    assert stored.cached
    assert stored.value == bought.value
    assert stored.usage == bought.usage
    assert stored.cost == bought.cost
    assert len(script.sent) == 1


@pytest.mark.parametrize(
    ("judge", "options"),
    [
        pytest.param(endpoint(temperature=0.9), {}, id="another temperature"),
        pytest.param(endpoint(), {"repeat": 1}, id="a repetition"),
        pytest.param(endpoint(), {"version": "2"}, id="another version"),
    ],
)
def test_another_question_is_asked(
    cache: ResponseCache, judge: Endpoint, options: dict[str, Any]
) -> None:
    script = Script([completion(GOOD)])
    using(script, ask_for_verdict, cache=cache)

    reply = using(script, partial(ask_for_verdict, **options), cache=cache, judge=judge)

    assert not reply.cached
    assert len(script.sent) == 2


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(completion("", **CUT), id="cut"),
        pytest.param(completion("", **REFUSED), id="refused"),
        pytest.param(error(500), id="an error that may pass"),
        pytest.param(error(400), id="an error that does not pass"),
        pytest.param(completion("no JSON"), id="no JSON"),
        pytest.param(completion(""), id="empty"),
    ],
)
def test_a_fault_is_never_kept(cache: ResponseCache, fault: Answer) -> None:
    with pytest.raises(LLMError):
        using(Script([fault]), ask_for_verdict, cache=cache)

    assert cache.stats().entries == 0
    reply = using(Script([completion(GOOD)]), ask_for_verdict, cache=cache)
    assert not reply.cached


def test_a_kept_answer_that_no_longer_fits_is_asked_anew(cache: ResponseCache) -> None:
    def refuse(value: object) -> Verdict:
        raise ValueError("the check has become stricter")

    stricter = replace(VERDICT, check=refuse)
    script = Script([completion(GOOD)])
    using(script, ask_for_verdict, cache=cache)

    with pytest.raises(LLMReplyError):
        using(script, partial(ask, schema=stricter), cache=cache)

    # Asked anew, and objected to.
    assert len(script.sent) == 1 + 2


def test_equal_questions_at_once_are_one() -> None:
    script = Script([completion("Yes.")])

    async def work(client: LLMClient) -> tuple[list[Reply[str]], ReceiptLine]:
        calls = [ask(client) for _ in range(10)]
        replies = await asyncio.gather(*calls)
        (line,) = client.receipt().lines
        return replies, line

    replies, line = using(script, work)

    assert [reply.text for reply in replies] == ["Yes."] * 10
    asked_anew = [reply for reply in replies if not reply.cached]
    assert len(asked_anew) == 1
    assert line.calls == 10
    assert line.cached == 9
    assert line.requests == 1
    assert len(script.sent) == 1


def test_a_question_goes_on_while_anybody_waits_for_it() -> None:
    script = Script([completion("Yes.")], latency=100)

    async def work(client: LLMClient) -> str:
        cancelled = asyncio.create_task(client.ask(prompt()))
        waiting = asyncio.create_task(client.ask(prompt()))
        alone = asyncio.create_task(client.ask(prompt("another")))
        await asyncio.sleep(1)
        assert script.in_flight == 2

        cancelled.cancel()
        alone.cancel()
        await asyncio.gather(cancelled, alone, return_exceptions=True)
        await asyncio.sleep(0)

        assert script.in_flight == 1
        return (await waiting).text

    assert using(script, work) == "Yes."


def test_when_answers_cannot_be_kept_no_more_are_bought(
    cache: ResponseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise errors.LLMCacheError("the disk is full")

    async def work(client: LLMClient) -> str:
        paid = await client.ask(prompt("a"))
        with pytest.raises(errors.LLMCacheError, match="the disk is full"):
            await client.ask(prompt("b"))
        return paid.text

    script = Script([completion("Yes.")])
    monkeypatch.setattr(cache, "put", full)

    # The first answer is paid for: it is given.
    assert using(script, work, cache=cache) == "Yes."
    assert len(script.sent) == 1


# --- money


@pytest.mark.parametrize(
    "faults", [{}, {"hang": 0.3}, {"cut": 0.3}, {"500": 0.3, "garbage": 0.2}], ids=str
)
def test_a_cap_holds_under_full_concurrency(faults: dict[str, float]) -> None:
    """What may have been billed counts as billed; counted afterwards, 31 calls would pass a cap."""
    budget = Budget(Decimal("0.02"))

    async def work(client: LLMClient) -> Decimal:
        await ask_many(client, 100)
        receipt = client.receipt()
        return (receipt.cost or Decimal(0)) + (receipt.unconfirmed or Decimal(0))

    server = InMemory(FaultServer(faults=faults))

    total = using(server, work, budget=budget, judge=endpoint(max_tokens=100))

    assert total > 0
    assert total == budget.spent
    assert budget.spent <= Decimal("0.02")


def test_a_cap_needs_a_longest_answer() -> None:
    with pytest.raises(errors.ConfigError, match="without max_tokens"):
        LLMClient(endpoint(max_tokens=None), budget=Budget(Decimal(1)))


def test_a_call_beyond_the_cap_is_refused() -> None:
    budget = Budget(Decimal("0.000001"))

    with pytest.raises(errors.LLMBudgetError, match="a higher cap goes on from there"):
        using(Script([completion("Yes.")]), ask, budget=budget)


def test_an_answer_that_cannot_be_used_is_paid_for_too() -> None:
    async def work(client: LLMClient) -> ReceiptLine:
        await client.ask(prompt("1"), purpose="p")
        with pytest.raises(errors.LLMTruncatedError):
            await client.ask(prompt("2"), purpose="p")
        (line,) = client.receipt().lines
        return line

    script = Script([error(500), completion("a"), completion("", **CUT)])

    line = using(script, work)

    assert line.calls == 2
    assert line.failed == 1
    assert line.requests == 3
    # The answered requests: twice 10 x $1 and 5 x $2, a million tokens.
    assert line.cost == Decimal("0.000040")


# --- loops


def test_a_client_that_is_not_open_is_refused() -> None:
    client = LLMClient(endpoint(), transport=Script([completion("a")]))

    with pytest.raises(RuntimeError, match="in the event loop that asks"):
        run(ask(client))


def test_a_client_of_another_loop_is_refused() -> None:
    """A client that outlives its loop sends requests twice over dead connections."""
    client = LLMClient(endpoint(), transport=Script([completion("a")]))
    run(client.__aenter__())

    with pytest.raises(RuntimeError, match="in the event loop that asks"):
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
    assert script.in_flight == 0
    assert script.opened == 0


def test_where_a_minute_takes_little_an_answer_is_given_what_such_answers_took() -> None:
    headers = {"x-ratelimit-limit-tokens": "6000", "x-ratelimit-remaining-requests": "1"}
    script = Script([replace(completion("Yes."), headers=headers)])

    async def work(client: LLMClient) -> Mapping[str, float]:
        await client.ask(prompt("first"))
        await ask_many(client, 6)
        return client.rates

    rates = using(script, work, judge=endpoint(max_tokens=4096))

    assert rates["limit-tokens"] == 6000
    first_limit, *later_limits = [payload["max_tokens"] for payload in script.sent]
    assert first_limit == 4096
    assert later_limits == [256] * 6
    assert script.peak == 1  # as it takes one request more


# --- embeddings


def embed(server: FaultServer | Script, texts: Sequence[str], **settings: Any) -> Sequence[Vector]:
    """A vector for each text; those of `FaultServer` are made of the text."""
    transport = server if isinstance(server, Script) else InMemory(server)
    work = partial(EmbeddingClient.embed, texts=texts, purpose="similarity")
    return using(transport, work, EmbeddingClient, **settings)


def test_each_text_gets_its_vector() -> None:
    vectors = embed(FaultServer(), ["a", "bb", "a"])

    # The length, and the sum of the bytes modulo 97: 97 % 97 and 196 % 97.
    assert vectors == ((1.0, 0.0), (2.0, 2.0), (1.0, 0.0))


def test_a_text_that_appears_twice_is_sent_once() -> None:
    server = FaultServer()

    embed(server, ["a", "bb", "a"])

    (call,) = server.calls
    assert call.payload == {"model": "m", "input": ["a", "bb"]}


def test_embeddings_are_paid_for() -> None:
    budget = Budget(Decimal(1))

    embed(FaultServer(), ["a", "bb", "a"], budget=budget)

    # Two tokens at a dollar a million.
    assert budget.spent == Decimal("0.000002")


def test_many_texts_are_several_requests_and_faults_pass() -> None:
    server = FaultServer(faults={"500": 0.3, "empty_choices": 0.2, "cut": 0.1})
    texts = [f"text {number}" for number in range(500)]

    vectors = embed(server, texts)

    assert len(vectors) == 500
    assert vectors == embed(FaultServer(), texts)
    # 64 texts in each.
    assert len(server.good) == 8


def test_vectors_are_kept_by_text(cache: ResponseCache) -> None:
    server = FaultServer()
    embed(server, ["a", "b"], cache=cache)
    embed(server, ["b", "c"], cache=cache)

    vectors = embed(server, ["a", "b", "c"], cache=cache)

    assert vectors == embed(FaultServer(), ["a", "b", "c"])
    inputs = [call.payload["input"] for call in server.calls]
    assert inputs == [["a", "b"], ["c"]]


def test_vectors_of_another_length_are_asked_for(cache: ResponseCache) -> None:
    server = FaultServer()
    embed(server, ["a"], cache=cache)

    embed(server, ["a"], cache=cache, judge=endpoint(extra={"dimensions": 2}))

    assert len(server.calls) == 2


def test_a_temperature_changes_no_vector(cache: ResponseCache) -> None:
    server = FaultServer()
    embed(server, ["a"], cache=cache)

    embed(server, ["a"], cache=cache, judge=endpoint(temperature=0.9))

    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([{"embedding": [1]}] * 2, id="two for one text"),
        pytest.param([{"embedding": []}], id="an empty one"),
        pytest.param([{"embedding": ["x"]}], id="of texts"),
        pytest.param([{}], id="none"),
        pytest.param(None, id="no list"),
    ],
)
def test_data_that_is_not_one_vector_per_text_is_refused(
    data: object, cache: ResponseCache
) -> None:
    script = Script([completion("", data=data)])

    with pytest.raises(errors.LLMUnavailableError, match="one vector for each of 1 text"):
        embed(script, ["a"], cache=cache)

    assert cache.stats().entries == 0


def test_embeddings_beyond_the_cap_are_refused() -> None:
    budget = Budget(Decimal("0.000001"))

    with pytest.raises(errors.LLMBudgetError):
        embed(FaultServer(), ["a"], budget=budget)


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="an empty text"):
        embed(FaultServer(), ["a", " "])
