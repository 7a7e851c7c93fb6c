"""Calls of one endpoint: its connections, the limits on their use, repetition, and the books."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Any, TypedDict, TypeVar, Unpack

from ragbench.core.calling import retry_after
from ragbench.core.chat import Usage
from ragbench.errors import (
    LLMAccessError,
    LLMDeadlineError,
    LLMError,
    LLMRefusedError,
    LLMRequestError,
    LLMUnavailableError,
    LLMUnreachableError,
)
from ragbench.llm.answers import (
    Answer,
    EmptyAnswerError,
    Meaning,
    decoded,
    detail_of,
    effective_status,
    meaning_of,
    reported_cost,
    requested_wait,
    shortened,
    usage_of,
)
from ragbench.llm.book import Ledger
from ragbench.llm.budget import Budget, check_cap, price_for
from ragbench.llm.concurrency import CallLimits, Circuit, Clock, Concurrency, Slot
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.estimate import most_prompt_tokens
from ragbench.llm.transport import NoAnswerError, OpenAITransport, Transport

ValueT = TypeVar("ValueT")
_GIVEN_UP = 8
"""Calls in a row that were given up, with nothing answered between: then there is no hope."""
_MAY_HAVE_WORKED = frozenset({408, 504, 524})
"""A proxy lost patience: what is behind it may have answered, and billed, all the same."""


class RejectedError(LLMRequestError):
    """A rejection, with the text that shows whether the request can be put another way."""

    body: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is sent, under which purpose it is booked, and what bounds its cost."""

    path: str
    """Of the interface, such as ``"/chat/completions"``."""
    payload: Mapping[str, Any]
    purpose: str
    max_tokens: int | None
    """The longest answer; None when it has no limit."""


@dataclass(slots=True)
class AttemptLog:
    """What a call has gone through."""

    attempts: int = 0
    failures: int = 0
    limited: int = 0
    """How often it met a rate limit."""
    waited: float = 0.0
    """Seconds, for rate limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What came of a request."""

    meaning: Meaning
    detail: str = ""
    """What an error says of itself; without credentials."""
    status: int | None = None
    text: str = ""
    """The body of an error."""
    body: Mapping[str, Any] | None = None
    """The JSON of an answer."""
    usage: Usage | None = None
    cost: Decimal | None = None
    """What the endpoint says it charged; None where it says nothing."""
    wait: float | None = None
    """Seconds that the endpoint asks to wait."""
    may_be_billed: bool = False
    """Whether an error may have cost something."""


class CallerOptions(TypedDict, total=False):
    """What a client may be given for its calls, whatever it asks for."""

    limits: CallLimits | None
    budget: Budget | None
    transport: Transport | None
    clock: Clock | None


class Caller:
    """Calls an endpoint until it answers or there is no hope, within all limits."""

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallerOptions]) -> None:
        budget, transport = options.get("budget"), options.get("transport")
        if budget is not None and budget.is_capped:
            check_cap(endpoint)
        self.endpoint = endpoint
        self.price = price_for(endpoint)
        self.clock = options.get("clock") or Clock()
        self.ledger = Ledger(self.price, None if budget is None else budget.book)
        self._limits = options.get("limits") or CallLimits()
        self.concurrency = Concurrency(self._limits.concurrency, self.clock)
        self._budget = budget
        self._transport: Transport = (
            OpenAITransport(endpoint, timeout=self._limits.timeout)
            if transport is None
            else transport
        )
        self._where = f"{endpoint.model} at {endpoint.base_url}"
        self._circuit = Circuit(self.clock, where=self._where)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends: float | None = None
        self._given_up = 0

    async def open(self) -> None:
        """Reads the API key and opens the connection pool. Nothing is sent."""
        if self._loop is not None:
            raise RuntimeError("the client is open already")
        await self._transport.open()
        self._loop = asyncio.get_running_loop()
        self._circuit = Circuit(self.clock, where=self._where)
        deadline = self._limits.deadline
        self._ends = None if deadline is None else self.clock.now() + deadline

    def stop(self) -> None:
        """Lets no further call begin."""
        self._loop = None

    async def close(self) -> None:
        self.stop()
        await self._transport.close()

    def check_open(self) -> None:
        if self._loop is None or self._loop is not asyncio.get_running_loop():
            raise RuntimeError("open the client with 'async with' in the event loop that asks")

    def was_known(self) -> None:
        """An answer of an earlier command was found: the endpoint works, or worked."""
        self._circuit.has_worked = True

    async def call(
        self,
        request: Request,
        read: Callable[[Mapping[str, Any]], ValueT],
        *,
        spread: float,
        tries: AttemptLog,
    ) -> ValueT:
        """Sends a request, again and again where that can help."""
        self.check_open()
        left = None if self._ends is None else self._ends - self.clock.now()
        try:
            if left is not None and left <= 0:
                raise TimeoutError
            async with self.clock.limit(left):
                return await self._answered(request, read, spread, tries)
        except TimeoutError:
            raise LLMDeadlineError(
                f"the time allowed for all calls to {self._where} is over. What was answered is "
                "kept: the same command goes on from there"
            ) from None
        except LLMError as error:
            error.attempts = error.attempts or tries.attempts
            raise

    async def _answered(
        self,
        request: Request,
        read: Callable[[Mapping[str, Any]], ValueT],
        spread: float,
        tries: AttemptLog,
    ) -> ValueT:
        while True:
            self._circuit.check()
            tries.attempts += 1
            sent = await self._send(request)
            if sent.body is not None:
                self._given_up = 0
                try:
                    return read(sent.body)
                except EmptyAnswerError as error:
                    await self._again(tries, spread, str(error), sent)
            elif sent.meaning is Meaning.RATE_LIMITED:
                await self._wait_for_turn(tries, spread, sent)
            elif sent.meaning in (Meaning.BROKEN, Meaning.UNANSWERED):
                await self._again(tries, spread, sent.detail, sent)
            else:
                raise self._refusal(sent)

    async def _again(self, tries: AttemptLog, spread: float, problem: str, sent: Sent) -> None:
        """Waits before the next attempt; raises when there shall be none."""
        tries.failures += 1
        asked = sent.wait or 0.0
        if (
            tries.failures > self._limits.retry.retries
            or asked > self._limits.retry.rate_limit_wait
        ):
            count = "one request" if tries.attempts == 1 else f"{tries.attempts} requests"
            raise self._give_up(f"no answer from {self._where} to {count}: {problem}", sent)
        await self.clock.sleep(max(asked, self._limits.retry.wait(tries.failures - 1, spread)))

    async def _wait_for_turn(self, tries: AttemptLog, spread: float, sent: Sent) -> None:
        wait = self._limits.retry.wait(tries.limited, spread) if sent.wait is None else sent.wait
        tries.limited += 1
        tries.waited += wait
        if tries.waited > self._limits.retry.rate_limit_wait:
            text = (
                f"{self._where} limits the rate and asks to wait {wait:g} s more; a call waits no "
                f"longer than {self._limits.retry.rate_limit_wait:g} s in all: {sent.detail}"
            )
            raise self._give_up(text, sent)
        await self.clock.sleep(wait)

    def _give_up(self, text: str, sent: Sent) -> LLMUnavailableError:
        self._given_up += 1
        if self._given_up >= _GIVEN_UP:
            reason = f"{text}. {self._given_up} calls in a row ended so: no more are made now"
            self._circuit.open(LLMUnreachableError(reason, status=sent.status))
        return LLMUnavailableError(text, status=sent.status)

    def _refusal(self, sent: Sent) -> LLMError:
        if sent.meaning is Meaning.REFUSED:
            return LLMRefusedError(
                f"a filter of {self._where} declines this prompt: {sent.detail}", status=sent.status
            )
        if sent.meaning is Meaning.NO_ACCESS:
            error = LLMAccessError(
                f"{self._where} gives no access: {sent.detail}. Check the key, the model's name, "
                "the address and the quota: ragbench doctor --llm",
                status=sent.status,
            )
            self._circuit.open(error)
            return error
        rejected = RejectedError(
            f"{self._where} rejects this request: {sent.detail}", status=sent.status
        )
        rejected.body = sent.text
        return rejected

    async def _send(self, request: Request) -> Sent:
        most = self._most(request)
        budget = self._budget
        if budget is not None:
            await budget.reserve(most or Decimal(0))
        cost = Decimal(0)
        in_flight: int | None = None
        try:
            async with self.concurrency.slot() as slot:
                self._circuit.check()  # it may have opened while this stood in line
                cost = most or Decimal(0)
                booked = in_flight = self.ledger.request(
                    request.purpose,
                    self.endpoint.model,
                    key=_key(request.payload) if self.ledger.is_kept else "",
                    most=most,
                )
                sent = await self._answer(request)
                in_flight = None
                # Before anything else happens: a process that is killed now has it in its book.
                cost = self._book(booked, sent, cost)
                self._note(slot, sent)
        finally:
            if in_flight is not None:  # cancelled: the endpoint may finish, and bill, it
                self.ledger.ended(in_flight, billed=True)
            if budget is not None:
                budget.settle(most or Decimal(0), cost)
        return sent

    async def _answer(self, request: Request) -> Sent:
        try:
            async with self.clock.limit(self._limits.timeout):
                answer = await self._transport.send(request.path, request.payload)
        except TimeoutError:
            return self._unanswered(NoAnswerError("timeout", ""))
        except NoAnswerError as error:
            return self._unanswered(error)
        meaning = meaning_of(answer, has_answered=self._circuit.has_answered)
        if meaning is not Meaning.ANSWERED:
            return self._error(meaning, answer)
        try:
            body = decoded(answer)
        except EmptyAnswerError as error:
            return Sent(
                meaning=Meaning.BROKEN, detail=str(error), status=answer.status, may_be_billed=True
            )
        return Sent(
            meaning=meaning,
            status=answer.status,
            body=body,
            usage=usage_of(body),
            cost=reported_cost(body),
        )

    def _unanswered(self, error: NoAnswerError) -> Sent:
        detail = (
            f"no answer within {self._limits.timeout:g} s"
            if error.kind == "timeout"
            else error.detail
        )
        return Sent(meaning=Meaning.UNANSWERED, detail=detail, may_be_billed=error.may_be_billed)

    def _error(self, meaning: Meaning, answer: Answer) -> Sent:
        status = effective_status(answer)
        wait = retry_after(answer.headers)
        return Sent(
            meaning=meaning,
            # Masked before it is cut: half of a key is a key to those who have the other half.
            detail=f"{status} {shortened(self._transport.masked(detail_of(answer)))}".rstrip(),
            status=status,
            text=answer.body,
            wait=requested_wait(answer) if wait is None else wait,
            may_be_billed=status in _MAY_HAVE_WORKED,
        )

    def _note(self, slot: Slot, sent: Sent) -> None:
        """What the answer says about load, and whether the endpoint lives."""
        if sent.meaning is Meaning.RATE_LIMITED:
            self.concurrency.rate_limited(slot, sent.wait or 0.0)
        elif sent.meaning in (Meaning.BROKEN, Meaning.UNANSWERED):
            self.concurrency.failed(slot)
        else:
            self.concurrency.succeeded()
        if sent.meaning is Meaning.UNANSWERED:
            self._circuit.unanswered(sent.detail)
        else:
            self._circuit.answered(well=sent.meaning is Meaning.ANSWERED)

    def _most(self, request: Request) -> Decimal | None:
        """The most that a request can cost; None when nobody knows."""
        if self.price is None or request.max_tokens is None:
            return None
        prompt = most_prompt_tokens(request.payload)
        return self.price.at_most(prompt_tokens=prompt, completion_tokens=request.max_tokens)

    def _book(self, number: int, sent: Sent, most: Decimal) -> Decimal:
        if sent.usage is not None and (sent.usage.reported or sent.cost is not None):
            cost = sent.cost
            if cost is None and self.price is not None:
                cost = self.price.of(sent.usage)
            self.ledger.answered(number, sent.usage, cost)
            return cost or Decimal(0)
        billed = sent.usage is not None or sent.may_be_billed
        self.ledger.ended(number, billed=billed)
        return most if billed else Decimal(0)


def _key(payload: Mapping[str, Any]) -> str:
    """A short name of a request: equal for equal ones."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()
