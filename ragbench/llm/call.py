"""One call: a request that is sent again while that can help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ragbench.errors import (
    LLMAccessError,
    LLMDeadlineError,
    LLMError,
    LLMRefusedError,
    LLMRequestError,
    LLMUnavailableError,
    LLMUnreachableError,
)
from ragbench.llm.circuit import Circuit
from ragbench.llm.clock import Clock
from ragbench.llm.completion import EmptyAnswerError
from ragbench.llm.request import Purpose, Sender, Sent
from ragbench.llm.retry import RetryPolicy
from ragbench.llm.status import Meaning

__all__ = ["Caller", "RejectedError", "Tries"]

ValueT = TypeVar("ValueT")
_GIVEN_UP = 8
"""Calls in a row that were given up, with nothing answered between: then there is no hope."""


class RejectedError(LLMRequestError):
    """A rejection, with the text that tells whether the request can be put another way."""

    body: str = ""
    """What the endpoint said."""


@dataclass(slots=True)
class Tries:
    """What a call has gone through."""

    attempts: int = 0
    failures: int = 0
    limited: int = 0
    """How often it met a rate limit."""
    waited: float = 0.0
    """Seconds, for rate limits."""


class Caller:
    """Calls an endpoint until it answers or there is no hope."""

    def __init__(
        self,
        sender: Sender,
        *,
        clock: Clock,
        circuit: Circuit,
        policy: RetryPolicy,
        where: str,
        deadline: float | None,
    ) -> None:
        """What all calls share.

        Args:
            sender: sends single requests.
            clock: the time.
            circuit: whether any may be sent.
            policy: how patient to be.
            where: the endpoint, as messages name it.
            deadline: when, on the clock, all calls must be over.
        """
        self._sender = sender
        self._clock = clock
        self._circuit = circuit
        self._policy = policy
        self._where = where
        self._deadline = deadline
        self._given_up = 0

    async def call(
        self,
        purpose: Purpose,
        payload: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], ValueT],
        *,
        spread: float,
        tries: Tries,
    ) -> ValueT:
        """Sends a request, again and again where that can help.

        Args:
            purpose: what it is for.
            payload: its body.
            read: gives the value in the JSON of an answer. Raises `EmptyAnswerError` when there is
                none and asking again may help.
            spread: in [0, 1), different from call to call and the same in every run; see
                `RetryPolicy.wait`.
            tries: what the call has gone through; counts on.

        Raises:
            LLMError: there is no answer; see `ragbench.errors` for the kinds.
        """
        left = None if self._deadline is None else self._deadline - self._clock.now()
        try:
            if left is not None and left <= 0:
                raise TimeoutError
            async with self._clock.limit(left):
                return await self._answered(purpose, payload, read, spread, tries)
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
        purpose: Purpose,
        payload: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], ValueT],
        spread: float,
        tries: Tries,
    ) -> ValueT:
        while True:
            self._circuit.check()
            tries.attempts += 1
            sent = await self._sender.send(purpose, payload)
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

    async def _again(self, tries: Tries, spread: float, problem: str, sent: Sent) -> None:
        """Waits before the next attempt; raises when there shall be none."""
        tries.failures += 1
        asked = sent.wait or 0.0
        if tries.failures > self._policy.retries or asked > self._policy.rate_limit_wait:
            count = "one request" if tries.attempts == 1 else f"{tries.attempts} requests"
            raise self._give_up(f"no answer from {self._where} to {count}: {problem}", sent)
        await self._clock.sleep(max(asked, self._policy.wait(tries.failures - 1, spread)))

    async def _wait_for_turn(self, tries: Tries, spread: float, sent: Sent) -> None:
        wait = self._policy.wait(tries.limited, spread) if sent.wait is None else sent.wait
        tries.limited += 1
        tries.waited += wait
        if tries.waited > self._policy.rate_limit_wait:
            told = (
                f"{self._where} limits the rate and asks to wait {wait:g} s more; a call waits no "
                f"longer than {self._policy.rate_limit_wait:g} s in all: {sent.detail}"
            )
            raise self._give_up(told, sent)
        await self._clock.sleep(wait)

    def _give_up(self, told: str, sent: Sent) -> LLMUnavailableError:
        self._given_up += 1
        if self._given_up >= _GIVEN_UP:
            reason = f"{told}. {self._given_up} calls in a row ended so: no more are made now"
            self._circuit.open(LLMUnreachableError(reason, status=sent.status))
        return LLMUnavailableError(told, status=sent.status)

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
