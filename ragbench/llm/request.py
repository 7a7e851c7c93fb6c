"""One request: leave to send it, the money for it, and what its answer means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ragbench.llm.answer import Answer, NoAnswerError, Transport
from ragbench.llm.budget import Budget
from ragbench.llm.circuit import Circuit
from ragbench.llm.clock import Clock
from ragbench.llm.completion import EmptyAnswerError, decoded, usage_of
from ragbench.llm.concurrency import Concurrency, Slot
from ragbench.llm.ledger import Ledger
from ragbench.llm.price import Price
from ragbench.llm.retry import retry_after
from ragbench.llm.status import Meaning, detail_of, effective_status, meaning_of
from ragbench.llm.tokens import most_prompt_tokens
from ragbench.llm.usage import Usage

__all__ = ["Purpose", "Sender", "Sent"]

_MAY_HAVE_WORKED = frozenset({408, 504, 524})
"""A proxy lost patience: what stands behind it may have answered, and billed, all the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Purpose:
    """What a request is for, and what bounds its cost."""

    path: str
    """Of the interface, such as ``"/chat/completions"``."""
    name: str
    """Under which it is booked."""
    model: str
    max_tokens: int | None
    """The longest answer; None when it has no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What came of a request."""

    meaning: Meaning
    detail: str
    """What an error says of itself; without credentials."""
    status: int | None = None
    text: str = ""
    """The body of an error."""
    body: Mapping[str, Any] | None = None
    """The JSON of an answer."""
    usage: Usage | None = None
    wait: float | None = None
    """Seconds that the endpoint asks to wait."""
    may_be_billed: bool = False
    """Whether an error may have cost something."""


class Sender:
    """Sends single requests, within all limits."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        concurrency: Concurrency,
        circuit: Circuit,
        ledger: Ledger,
        timeout: float,
        price: Price | None,
        budget: Budget | None,
    ) -> None:
        """What all requests share.

        Args:
            transport: carries them; open.
            clock: the time.
            concurrency: how many may be in flight.
            circuit: whether any may.
            ledger: where they are booked.
            timeout: seconds for one.
            price: of the tokens, where known.
            budget: caps the cost; needs a price and a longest answer.
        """
        self._transport = transport
        self._clock = clock
        self._concurrency = concurrency
        self._circuit = circuit
        self._ledger = ledger
        self._timeout = timeout
        self._price = price
        self._budget = budget

    async def send(self, purpose: Purpose, payload: Mapping[str, Any]) -> Sent:
        """Sends a request once.

        Raises:
            LLMStoppedError: no request may be sent any more.
        """
        most = self._most(purpose, payload)
        budget = self._budget
        reservation = None if budget is None else await budget.reserve(most or Decimal(0))
        cost = Decimal(0)
        in_flight = False
        try:
            async with self._concurrency.slot() as slot:
                self._circuit.check()  # it may have opened while this stood in line
                in_flight, cost = True, most or Decimal(0)
                self._ledger.request(purpose.name, purpose.model)
                sent = await self._answer(purpose.path, payload)
                in_flight = False
                self._note(slot, sent)
            cost = self._book(purpose, sent, most)
        finally:
            if in_flight:  # cancelled: the endpoint may finish, and bill, what it has begun
                self._ledger.unconfirmed(purpose.name, purpose.model, most)
            if reservation is not None:
                reservation.settle(cost)
        return sent

    async def _answer(self, path: str, payload: Mapping[str, Any]) -> Sent:
        try:
            async with self._clock.limit(self._timeout):
                answer = await self._transport.send(path, payload)
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
            meaning=meaning, detail="", status=answer.status, body=body, usage=usage_of(body)
        )

    def _unanswered(self, error: NoAnswerError) -> Sent:
        detail = (
            f"no answer within {self._timeout:g} s" if error.kind == "timeout" else error.detail
        )
        return Sent(meaning=Meaning.UNANSWERED, detail=detail, may_be_billed=error.may_be_billed)

    def _error(self, meaning: Meaning, answer: Answer) -> Sent:
        status = effective_status(answer)
        return Sent(
            meaning=meaning,
            detail=f"{status} {self._transport.masked(detail_of(answer))}".rstrip(),
            status=status,
            text=answer.body,
            wait=retry_after(answer.headers),
            may_be_billed=status in _MAY_HAVE_WORKED,
        )

    def _note(self, slot: Slot, sent: Sent) -> None:
        """What the answer says about load, and whether the endpoint lives."""
        if sent.meaning is Meaning.RATE_LIMITED:
            self._concurrency.rate_limited(slot, sent.wait or 0.0)
        elif sent.meaning in (Meaning.BROKEN, Meaning.UNANSWERED):
            self._concurrency.failed(slot)
        else:
            self._concurrency.succeeded()
        if sent.meaning is Meaning.UNANSWERED:
            self._circuit.unanswered(sent.detail)
        else:
            self._circuit.answered(well=sent.meaning is Meaning.ANSWERED)

    def _most(self, purpose: Purpose, payload: Mapping[str, Any]) -> Decimal | None:
        """The most that a request can cost; None when nobody knows."""
        if self._price is None or purpose.max_tokens is None:
            return None
        prompt = most_prompt_tokens(payload)
        return self._price.at_most(prompt_tokens=prompt, completion_tokens=purpose.max_tokens)

    def _book(self, purpose: Purpose, sent: Sent, most: Decimal | None) -> Decimal:
        """What the request cost, or may have cost."""
        if sent.usage is not None and sent.usage.reported:
            self._ledger.billed(purpose.name, purpose.model, sent.usage)
            return Decimal(0) if self._price is None else self._price.of(sent.usage)
        if sent.usage is not None or sent.may_be_billed:
            self._ledger.unconfirmed(purpose.name, purpose.model, most)
            return most or Decimal(0)
        return Decimal(0)
