"""Calls of one endpoint: its connections, the limits on their use, repetition, and the books."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self, TypedDict, TypeVar, Unpack

from ragbench.core.calling import retry_after
from ragbench.core.record import Record
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
    EmptyAnswerError,
    Meaning,
    decoded,
    meaning_of,
    reported_cost,
    requested_wait,
    shortened,
    usage_of,
)
from ragbench.llm.budget import Budget, Ledger, Receipt, check_cap, most_prompt_tokens, price_for
from ragbench.llm.cache import ResponseCache
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.transport import (
    CallLimits,
    Circuit,
    Clock,
    Concurrency,
    NoAnswerError,
    OpenAITransport,
    Transport,
)
from ragbench.safe_text import counted

ValueT = TypeVar("ValueT")
_GIVEN_UP = 8
"""Calls in a row that were given up, with nothing answered between: then there is no hope."""
_RATE = "x-ratelimit-"
"""Headers of OpenAI, Azure, Groq and others: what a minute or a day takes, and what is left."""
_SHARE = 8
"""A request that could take more than this part of what is left is given less room."""
_MAY_HAVE_WORKED = frozenset({408, 504, 524})
"""A proxy lost patience: what is behind it may have answered, and billed, all the same."""


_TIME_IS_OVER = (
    "the time allowed for all calls to {} is over. Your answers are kept: the same command goes on "
    "from there"
)
"""What a call ends with once the time for all calls is over."""


class RejectedError(LLMRequestError):
    """A rejection, with the text that shows whether the request can be put another way."""

    body: str = ""


@dataclass(kw_only=True, slots=True)
class Question:
    """A question to a model, and how its requests went so far."""

    purpose: str
    """What it is booked under."""
    spread: float
    """In [0, 1]; see `CallLimits.wait`."""
    attempts: int = 0
    """Requests that were sent for it."""
    failures: int = 0
    """Requests that ended in an error, rate limits apart."""
    limited: int = 0
    """How often it met a rate limit."""
    waited: float = 0.0
    """Seconds, for rate limits."""


class Sent(Record):
    """What became of a request: its answer, or its error."""

    meaning: Meaning
    detail: str = ""
    """What an error says of itself; without credentials."""
    status: int | None = None
    text: str = ""
    """The body of an error."""
    body: Mapping[str, Any] | None = None
    """The JSON of an answer."""
    wait: float | None = None
    """Seconds that the endpoint asks to wait."""
    may_be_billed: bool = False
    """Whether an error may have cost something."""


class CallerOptions(TypedDict, total=False):
    """What a client may be given for its calls, whatever it asks for."""

    cache: ResponseCache | None
    limits: CallLimits | None
    budget: Budget | None
    transport: Transport | None
    clock: Clock | None


class Caller:
    """Calls an endpoint until it answers or there is no hope, within all limits.

    Opened and closed inside the event loop that asks.
    """

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallerOptions]) -> None:
        """Takes an endpoint and connects to nothing yet.

        Refuses a cap on costs without a known price. A cap holds by setting aside the most that a
        call can cost, which must be known for that.
        """
        budget = options.get("budget")
        if budget is not None and budget.is_capped:
            check_cap(endpoint)
        self.endpoint = endpoint
        self.price = price_for(endpoint)
        """What the endpoint's tokens cost; None when that is not known."""
        self.cache = options.get("cache")
        self.clock = options.get("clock") or Clock()
        """The time of the event loop, and whether the user has stopped the run."""
        book = None if budget is None else budget.book
        self.ledger = Ledger(self.price, book)
        """The tokens and costs of every call, from which receipts are made."""
        self._limits = options.get("limits") or CallLimits()
        self.concurrency = Concurrency(self._limits.concurrency, self.clock)
        """The slots for requests, which all calls share."""
        self._budget = budget
        """The cap, which several clients may share; None for no cap."""
        self._transport: Transport = options.get("transport") or OpenAITransport(
            endpoint, timeout=self._limits.timeout
        )
        self._where = f"{endpoint.model} at {endpoint.base_url}"
        """The model and its address, for messages."""
        self.circuit = Circuit(self.clock, where=self._where)
        """Whether calls may be made at all: an open circuit, once there is no hope of an answer,
        stops them."""
        self.rates: dict[str, int] = {}
        """What the endpoint says of its limits in its headers, such as ``limit-tokens``."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that may ask; None while the client is closed."""
        self._ends: float | None = None
        """When the time for all calls is over, by the clock; None for no end."""
        self._given_up = 0
        """Calls in a row that were given up, with nothing answered between."""

    async def __aenter__(self) -> Self:
        """Reads the API key and opens the connection pool. Nothing is sent.

        The time for all calls (the deadline) begins here. A client is open once at a time, since
        connections belong to one event loop.
        """
        if self._loop is not None:
            raise RuntimeError("the client is open already")
        await self._transport.open()
        # Only now: a transport that fails to open leaves the client closed.
        self._loop = asyncio.get_running_loop()
        self._ends = None
        if self._limits.deadline is not None:
            self._ends = self.clock.now() + self._limits.deadline
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections to the endpoint; receipts can still be read."""
        self._loop = None  # no further call begins
        await self._transport.close()

    def receipt(self) -> Receipt:
        """The receipt of all calls to the endpoint so far: requests, tokens and costs.

        A closed client still gives its receipt: commands print it at their end.
        """
        return self.ledger.receipt()

    def check_open(self) -> None:
        """Raises unless the client was opened in the event loop that asks now.

        The client's connections and locks belong to one loop: in another one, calls would hang.
        """
        if self._loop is None or self._loop is not asyncio.get_running_loop():
            raise RuntimeError("open the client with 'async with' in the event loop that asks")

    def affordable(self, payload: Mapping[str, Any], longest: int, needed: int) -> int:
        """The tokens that an answer may have: all, or near a cap on costs no more than it needs.

        A cap sets aside the most that a request can cost, by the longest answer allowed: near the
        cap, a long limit of length would stop calls that in truth cost little. The cap itself is
        kept either way.

        Args:
            payload: the request's body, whose prompt counts as well.
            longest: the tokens that the answer may have at most.
            needed: the tokens that it is taken to need.
        """
        highest_cost = self._highest_cost(payload, longest)
        if self._budget is None or highest_cost is None:
            return longest
        budget_left = self._budget.left
        if budget_left is None:
            return longest
        # More than an eighth of what is left: one long limit of length would hold up the others.
        is_near = highest_cost * _SHARE > budget_left
        if not is_near:
            return longest
        return min(longest, needed)

    def _highest_cost(self, payload: Mapping[str, Any], completion: int | None) -> Decimal | None:
        """The most that a request can cost in US dollars; None where its price is not known.

        A cap sets this amount aside before the request is sent.

        Args:
            completion: tokens of the longest answer; None when it has no limit.
        """
        if self.price is None or completion is None:
            return None
        prompt = most_prompt_tokens(payload)
        return self.price.at_most(prompt_tokens=prompt, completion_tokens=completion)

    async def call(
        self,
        path: str,
        payload: Mapping[str, Any],
        question: Question,
        read: Callable[[Mapping[str, Any]], ValueT],
        *,
        max_tokens: int | None,
    ) -> ValueT:
        """Sends a request to the endpoint, again and again where that can help.

        The result is what ``read`` makes of the answer. Rate limits are waited for; server errors,
        lost connections and empty answers are tried again; a refusal is raised at once. All waiting
        ends with the time for all calls.

        Args:
            path: of the interface, such as ``"/chat/completions"``.
            read: makes the result of an answer's JSON; raises `EmptyAnswerError` where it holds
                none, and the request is sent again.
            max_tokens: the longest answer; None when it has no limit.
        """
        self.check_open()
        # An end that has passed is the same error as one that comes while the call waits.
        seconds_left = None if self._ends is None else self._ends - self.clock.now()
        highest_cost = self._highest_cost(payload, max_tokens)
        try:
            if seconds_left is not None and seconds_left <= 0:
                raise TimeoutError
            async with self.clock.limit(seconds_left):
                while True:
                    self.circuit.check()
                    question.attempts += 1
                    sent = await self._send(path, payload, question.purpose, highest_cost)
                    problem = sent.detail
                    # A body that holds no answer is tried again, but shows that the endpoint is
                    # there.
                    if sent.body is not None:
                        self._given_up = 0
                        try:
                            return read(sent.body)
                        except EmptyAnswerError as error:
                            problem = str(error)
                    elif sent.meaning is Meaning.RATE_LIMITED:
                        await self._wait_for_rate(question, sent)
                        continue
                    elif sent.meaning not in (Meaning.BROKEN, Meaning.UNANSWERED):
                        raise self._refusal(sent)
                    await self._wait_to_retry(question, problem, sent)
        except TimeoutError:
            raise LLMDeadlineError(_TIME_IS_OVER.format(self._where)) from None
        except LLMError as error:
            # An error that counts its attempts already keeps that count.
            error.attempts = error.attempts or question.attempts
            raise

    async def _wait_to_retry(self, question: Question, problem: str, sent: Sent) -> None:
        """Waits after a failed request before the next attempt; raises when there shall be none.

        Failures are server errors, lost connections and empty answers. The wait grows with their
        number, and is no shorter than the endpoint asks.

        Args:
            problem: the failure in words, for the error of a call that is given up.
            sent: the failed request, with the seconds that its endpoint asks to wait.
        """
        limits = self._limits
        requested_seconds = sent.wait or 0.0
        question.failures += 1
        is_over = question.failures > limits.retries
        asks_too_long = requested_seconds > limits.rate_limit_wait
        if is_over or asks_too_long:
            requests = counted(question.attempts, "request")
            raise self._give_up(f"no answer from {self._where} to {requests}: {problem}", sent)
        # The number of failures before this one: the first wait is the shortest.
        usual_seconds = limits.wait(question.failures - 1, question.spread)
        await self.clock.sleep(max(requested_seconds, usual_seconds))

    async def _wait_for_rate(self, question: Question, sent: Sent) -> None:
        """Waits after a rate limit; raises when a call would wait too long in all.

        Rate limits do not count as failures: the endpoint works, and the call gets its turn.
        """
        limits = self._limits
        wait = sent.wait
        # The endpoint knows best how long; without its word the usual wait doubles each time.
        if wait is None:
            wait = limits.wait(question.limited, question.spread)
        question.limited += 1
        question.waited += wait
        if question.waited > limits.rate_limit_wait:
            text = (
                f"{self._where} limits the rate and asks to wait {wait:g} s more; a call waits no "
                f"longer than {limits.rate_limit_wait:g} s in all: {sent.detail}"
            )
            raise self._give_up(text, sent)
        await self.clock.sleep(wait)

    def _give_up(self, text: str, sent: Sent) -> LLMUnavailableError:
        """The error of a call that is given up; after `_GIVEN_UP` in a row, no more calls are made.

        A run of thousands of cases would else wait for each in vain.
        """
        self._given_up += 1
        if self._given_up >= _GIVEN_UP:
            reason = f"{text}. {self._given_up} calls in a row ended so: no more are made now"
            self.circuit.open(LLMUnreachableError(reason, status=sent.status))
        return LLMUnavailableError(text, status=sent.status)

    def _refusal(self, sent: Sent) -> LLMError:
        """The error of an answer that would be the same if the request were sent again.

        Where the endpoint gives no access, no more calls are made.
        """
        where = self._where
        detail = sent.detail
        status = sent.status
        if sent.meaning is Meaning.REFUSED:
            text = f"a filter of {where} declines this prompt: {detail}"
            return LLMRefusedError(text, status=status)
        if sent.meaning is Meaning.NO_ACCESS:
            text = (
                f"{where} gives no access: {detail}. Check the key, the model's name, the address "
                "and the quota: ragbench doctor --llm"
            )
            error = LLMAccessError(text, status=status)
            self.circuit.open(error)
            return error
        rejected = RejectedError(f"{where} rejects this request: {detail}", status=status)
        # `LLMClient` reads from this body how the request can be put another way.
        rejected.body = sent.text
        return rejected

    async def _send(
        self, path: str, payload: Mapping[str, Any], purpose: str, highest_cost: Decimal | None
    ) -> Sent:
        """Sends one request, and books what it cost in the ledger and in the budget.

        Money is set aside before the request is sent and settled however it ends: so a cap holds
        also for calls that are made at once. The order here is what makes the books right when a
        process is killed or a call cancelled.

        Args:
            highest_cost: the most that the request can cost; None where that is not known.
        """
        budget = self._budget
        reserved = highest_cost or Decimal(0)
        if budget is not None:
            await budget.reserve(reserved)
        cost = Decimal(0)
        in_flight = None  # the request's number, while the request is in flight
        try:
            async with self.concurrency.slot() as epoch:
                self.circuit.check()  # may have opened while this call waited for its slot
                self.clock.check()
                cost = reserved  # until something better is known
                model = self.endpoint.model
                number = self.ledger.request(purpose, model, most=highest_cost)
                in_flight = number
                sent = await self._exchange(path, payload)
                in_flight = None
                # Before anything else: then a process that is killed has the answer in its book.
                cost = self._book_request(number, sent, reserved)
                self._adjust_concurrency(epoch, sent)
        finally:
            if in_flight is not None:  # cancelled: the endpoint may finish, and bill, it
                self.ledger.ended(in_flight, billed=True)
            if budget is not None:
                budget.settle(reserved, cost)
        return sent

    async def _exchange(self, path: str, payload: Mapping[str, Any]) -> Sent:
        """Sends a request and gives its outcome: the answer's JSON, or the kind of its failure.

        No answer is an outcome, too, so that it is booked like any other.
        """
        try:
            async with self.clock.limit(self._limits.timeout):
                answer = await self._transport.send(path, payload)
        except (TimeoutError, NoAnswerError) as error:
            if isinstance(error, TimeoutError):
                error = NoAnswerError("timeout", "")
            detail = error.detail
            if error.kind == "timeout":
                detail = f"no answer within {self._limits.timeout:g} s"
            # Once there was a connection, the endpoint may have done the work.
            may_be_billed = error.kind != "connection"
            return Sent(meaning=Meaning.UNANSWERED, detail=detail, may_be_billed=may_be_billed)
        # Whole numbers alone: the same headers hold times such as "6m0s".
        for name, value in answer.headers.items():
            if name.startswith(_RATE) and value.isdecimal():
                self.rates[name.removeprefix(_RATE)] = int(value)
        meaning = meaning_of(answer, has_answered=self.circuit.has_answered)
        status = answer.effective_status
        if meaning is not Meaning.ANSWERED:
            # The header is exact; in the body the wait is a sentence.
            wait = retry_after(answer.headers)
            if wait is None:
                wait = requested_wait(answer)
            return Sent(
                meaning=meaning,
                detail=f"{status} {shortened(answer.message)}".rstrip(),
                status=status,
                text=answer.body,
                wait=wait,
                may_be_billed=status in _MAY_HAVE_WORKED,
            )
        try:
            body = decoded(answer)
        except EmptyAnswerError as error:
            return Sent(
                meaning=Meaning.BROKEN, detail=str(error), status=status, may_be_billed=True
            )
        return Sent(meaning=meaning, status=status, body=body)

    def _adjust_concurrency(self, epoch: int, sent: Sent) -> None:
        """Adjusts the number of requests in flight to the outcome of a request.

        After a rate limit or an error fewer are allowed, after answers again more. After many lost
        requests none is sent at all.

        Args:
            epoch: how often the number had been lowered when the request got its slot.
        """
        if sent.meaning is Meaning.RATE_LIMITED:
            self.concurrency.rate_limited(epoch, sent.wait or 0.0)
        elif sent.meaning in (Meaning.BROKEN, Meaning.UNANSWERED):
            self.concurrency.failed(epoch)
        else:
            # A rejection or a refusal counts as well: the endpoint had the capacity to answer.
            self.concurrency.succeeded(self.rates.get("remaining-requests"))
        if sent.meaning is Meaning.UNANSWERED:
            self.circuit.unanswered(sent.detail)
        else:
            self.circuit.answered(well=sent.meaning is Meaning.ANSWERED)

    def _book_request(self, number: int, sent: Sent, highest_cost: Decimal) -> Decimal:
        """Books a request that is over in the ledger, and gives what it is taken to have cost.

        Where the endpoint may bill the request and reports neither tokens nor a cost, it is taken
        to have cost the most that it can.
        """
        body = sent.body or {}
        # An error has no body here: it reports neither tokens nor a cost.
        usage = usage_of(body)
        cost = reported_cost(body)
        if not usage.reported and cost is None:
            may_be_billed = sent.may_be_billed or sent.body is not None
            self.ledger.ended(number, billed=may_be_billed)
            return highest_cost if may_be_billed else Decimal(0)
        # What the endpoint itself charged goes before a list price.
        if cost is None and self.price is not None:
            cost = self.price.of(usage)
        self.ledger.answered(number, usage, cost)
        # An unknown cost is 0 for the budget alone: a capped one has a price (`check_cap`).
        return cost or Decimal(0)
