"""One request: leave to send, its tokens and money, what its answer means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Protocol

from ragbench.core.chat import Message, Usage
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
    usage_of,
)
from ragbench.llm.budget import BookedRequest, Budget, Ledger
from ragbench.llm.concurrency import Circuit, Clock, Concurrency, Slot, retry_after
from ragbench.llm.endpoint import Price
from ragbench.llm.transport import NoAnswerError, Transport

_A_MESSAGE = 4
"""Tokens around a message in usual chat templates."""
_MOST_A_MESSAGE = 16
_MOST_A_REQUEST = 256
"""What a template may add of its own: the date, a default system prompt."""


class TokenCounter(Protocol):
    """Counts the tokens of a text; `ragbench.text.token_counter` has some."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    @property
    def approximate(self) -> bool:
        """Whether its counts are an estimate."""
        ...

    def count(self, text: str) -> int:
        """The number of tokens."""
        ...


def prompt_tokens(
    messages: Sequence[Message], counter: TokenCounter, schema: Mapping[str, Any] | None = None
) -> int:
    """About how many tokens a prompt takes, the schema counted as text."""
    told = sum(counter.count(message.content) + _A_MESSAGE for message in messages)
    return told + (0 if schema is None else counter.count(json.dumps(schema)))


def most_prompt_tokens(payload: Mapping[str, Any]) -> int:
    """A number of tokens that a request does not exceed.

    Every token of a byte-level or SentencePiece vocabulary stands for at least one byte of UTF-8,
    so the bytes bound the tokens, whatever the vocabulary. A chat template's own words come on top.
    """
    messages = payload.get("messages", ())
    others = {name: value for name, value in payload.items() if name != "messages"}
    # JSON escapes make the text longer, never shorter.
    told = len(json.dumps([messages, others], ensure_ascii=False).encode("utf-8", "replace"))
    return told + _MOST_A_MESSAGE * len(messages) + _MOST_A_REQUEST


_WORD = re.compile(r"\S+")
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Letters of scripts that are written without spaces."""
_LETTERS_A_TOKEN = 4


def fewest_prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """A number of tokens that a prompt does not fall short of.

    Tokenizers split at white space before they merge anything, so each word is a token at the
    least; in scripts without spaces a token holds some letters.
    """
    fewest = 0
    for message in messages:
        text = str(message.get("content", ""))
        dense = 0 if text.isascii() else len(_DENSE.findall(text))
        fewest += len(_WORD.findall(text)) + dense // _LETTERS_A_TOKEN
    return fewest


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
    cost: Decimal | None = None
    """What the endpoint says it charged; None where it says nothing."""
    wait: float | None = None
    """Seconds that the endpoint asks to wait."""
    may_be_billed: bool = False
    """Whether an error may have cost something."""


class RequestSender:
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
        self._transport = transport
        self._clock = clock
        self._concurrency = concurrency
        self._circuit = circuit
        self._ledger = ledger
        self._timeout = timeout
        self._price = price
        self._budget = budget

    async def send(self, purpose: Purpose, payload: Mapping[str, Any]) -> Sent:
        most = self._most(purpose, payload)
        budget = self._budget
        reservation = None if budget is None else await budget.reserve(most or Decimal(0))
        cost = Decimal(0)
        in_flight: BookedRequest | None = None
        try:
            async with self._concurrency.slot() as slot:
                self._circuit.check()  # it may have opened while this stood in line
                cost = most or Decimal(0)
                request = in_flight = self._ledger.request(
                    purpose.name,
                    purpose.model,
                    key=_key(payload) if self._ledger.is_kept else "",
                    most=most,
                )
                sent = await self._answer(purpose.path, payload)
                in_flight = None
                # Before anything else happens: a process that is killed now has it in its book.
                cost = self._book(request, sent)
                self._note(slot, sent)
        finally:
            if in_flight is not None:  # cancelled: the endpoint may finish, and bill, it
                self._ledger.unconfirmed(in_flight)
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
            meaning=meaning,
            detail="",
            status=answer.status,
            body=body,
            usage=usage_of(body),
            cost=reported_cost(body),
        )

    def _unanswered(self, error: NoAnswerError) -> Sent:
        detail = (
            f"no answer within {self._timeout:g} s" if error.kind == "timeout" else error.detail
        )
        return Sent(meaning=Meaning.UNANSWERED, detail=detail, may_be_billed=error.may_be_billed)

    def _error(self, meaning: Meaning, answer: Answer) -> Sent:
        status = effective_status(answer)
        told = retry_after(answer.headers)
        return Sent(
            meaning=meaning,
            # Masked before it is cut: half of a key is a key to those who have the other half.
            detail=f"{status} {_short(self._transport.masked(detail_of(answer)))}".rstrip(),
            status=status,
            text=answer.body,
            wait=requested_wait(answer) if told is None else told,
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

    def _book(self, request: BookedRequest, sent: Sent) -> Decimal:
        if sent.usage is not None and (sent.usage.reported or sent.cost is not None):
            cost = sent.cost
            if cost is None and self._price is not None:
                cost = self._price.of(sent.usage)
            self._ledger.billed(request, sent.usage, cost)
            return cost or Decimal(0)
        if sent.usage is not None or sent.may_be_billed:
            self._ledger.unconfirmed(request)
            return request.most or Decimal(0)
        self._ledger.free(request)
        return Decimal(0)


def _key(payload: Mapping[str, Any]) -> str:
    """A short name of a request: equal for equal ones."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()


_SHOWN = 300


def _short(line: str) -> str:
    return f"{line[:_SHOWN]} ..." if len(line) > _SHOWN else line
