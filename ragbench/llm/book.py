"""What was spent: by purpose and model, and in a run's folder before and after each request.

A command that ends leaves what it spent in one line of ``receipts.jsonl``. Until then each request
is in ``calls.jsonl``, one line when it is sent and one when it is over, each written at once: a
process that is killed leaves behind what it did, and the next command makes its receipt of it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

from ragbench.core.chat import Usage
from ragbench.errors import LLMCacheError
from ragbench.llm.endpoint import Price

CALLS = "calls.jsonl"
"""Of the command that runs, or was killed."""
RECEIPTS = "receipts.jsonl"
"""One line per command."""
_DOLLARS = "USD"
"""In which endpoints report what they charge."""
REPORTED = "as the endpoint reports"
"""Where a cost comes from that no price decides."""


@dataclass(kw_only=True, slots=True)
class ReceiptLine:
    """What one purpose took from one model."""

    purpose: str
    """What the calls were for, such as a metric's name."""
    model: str
    calls: int = 0
    """Questions asked; one that needed several requests counts once."""
    cached: int = 0
    """Of those, answered from the cache, at no cost."""
    failed: int = 0
    """Of those, that ended in an error."""
    requests: int = 0
    """Requests sent, repetitions included."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all requests that were answered; not of cached calls."""
    cost: Decimal | None = Decimal(0)
    """None when the cost of any answer is unknown: that is not 0."""
    unconfirmed: Decimal | None = Decimal(0)
    """The most that requests may have cost whose answer never came, or did not report its tokens.
    Not part of ``cost``. None when that is unknown."""
    unconfirmed_requests: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    lines: tuple[ReceiptLine, ...]
    currency: str | None
    """None when no price is known."""
    price_origin: str | None
    """Where the price comes from, with its date; None when it is not known."""

    @classmethod
    def of(cls, receipts: Iterable[Receipt]) -> Receipt:
        """Several receipts as one. Prices in two currencies are not added up."""
        known = tuple(receipts)
        lines = [line for receipt in known for line in receipt.lines]
        currencies = {receipt.currency for receipt in known if receipt.currency is not None}
        origins = {receipt.price_origin: None for receipt in known if receipt.price_origin}
        return cls(
            lines=_sorted(lines),
            currency=currencies.pop() if len(currencies) == 1 else None,
            price_origin="; ".join(origin for origin in origins if origin) or None,
        )

    @property
    def cost(self) -> Decimal | None:
        """All together; None when the price of anything is not known."""
        return _sum([line.cost for line in self.lines])

    @property
    def unconfirmed(self) -> Decimal | None:
        return _sum([line.unconfirmed for line in self.lines])


def _sorted(lines: Iterable[ReceiptLine]) -> tuple[ReceiptLine, ...]:
    return tuple(sorted(lines, key=lambda line: (line.purpose, line.model)))


def _sum(amounts: Iterable[Decimal | None]) -> Decimal | None:
    total: Decimal | None = Decimal(0)
    for amount in amounts:
        total = None if total is None or amount is None else total + amount
    return total


def _receipt_object(receipt: Receipt) -> dict[str, Any]:
    """A receipt as a JSON object; amounts are exact numbers as text, null when not known.

    Receipts show what was paid when, repetitions and lost answers included, and so differ from run
    to run: the report shows what the answers took that its scores rest on.
    """
    return {
        "currency": receipt.currency,
        "price_origin": receipt.price_origin,
        "cost": _amount_text(receipt.cost),
        "unconfirmed": _amount_text(receipt.unconfirmed),
        "lines": [
            {
                "purpose": line.purpose,
                "model": line.model,
                "calls": line.calls,
                "cached": line.cached,
                "failed": line.failed,
                "requests": line.requests,
                "prompt_tokens": line.usage.prompt_tokens,
                "completion_tokens": line.usage.completion_tokens,
                "reasoning_tokens": line.usage.reasoning_tokens,
                "cost": _amount_text(line.cost),
                "unconfirmed": _amount_text(line.unconfirmed),
                "unconfirmed_requests": line.unconfirmed_requests,
            }
            for line in receipt.lines
        ],
    }


def _amount_text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"


class BookedRequest(NamedTuple):
    purpose: str
    model: str
    most: Decimal | None
    """The most that it can cost; None when nobody knows."""
    number: int = 0
    """In the book; 0 without one."""


class Ledger:
    def __init__(self, price: Price | None, book: CallBook | None = None) -> None:
        self._price = price
        self._book = book
        self._reported = False
        self._lines: dict[tuple[str, str], ReceiptLine] = {}

    @property
    def is_kept(self) -> bool:
        return self._book is not None

    def request(
        self, purpose: str, model: str, *, key: str = "", most: Decimal | None = None
    ) -> BookedRequest:
        self._line(purpose, model).requests += 1
        number = 0 if self._book is None else self._book.sent(purpose, model, key, most)
        return BookedRequest(purpose, model, most, number)

    def billed(self, request: BookedRequest, usage: Usage, cost: Decimal | None) -> None:
        """A request was answered, and its tokens or its cost reported."""
        if self._book is not None:
            self._book.answered(request.number, usage, cost)
        line = self._line(request.purpose, request.model)
        line.usage += usage
        line.cost = _sum([line.cost, cost])
        self._reported = self._reported or (self._price is None and cost is not None)

    def unconfirmed(self, request: BookedRequest) -> None:
        """A request may have been billed; how much is unknown."""
        if self._book is not None:
            self._book.ended(request.number, billed=True)
        line = self._line(request.purpose, request.model)
        line.unconfirmed = _sum([line.unconfirmed, request.most])
        line.unconfirmed_requests += 1

    def free(self, request: BookedRequest) -> None:
        """A request was not answered, and cost nothing."""
        if self._book is not None:
            self._book.ended(request.number, billed=False)

    def call(self, purpose: str, model: str, *, cached: bool = False, failed: bool = False) -> None:
        if self._book is not None:
            self._book.question(purpose, model, cached=cached, failed=failed)
        line = self._line(purpose, model)
        line.calls += 1
        line.cached += cached
        line.failed += failed

    def receipt(self) -> Receipt:
        price = self._price
        return Receipt(
            lines=_sorted(replace(line) for line in self._lines.values()),
            currency=(_DOLLARS if self._reported else None) if price is None else price.currency,
            price_origin=(REPORTED if self._reported else None) if price is None else price.origin,
        )

    def _line(self, purpose: str, model: str) -> ReceiptLine:
        return self._lines.setdefault((purpose, model), ReceiptLine(purpose=purpose, model=model))


class CallBook:
    """The book of one command. Several event loops and threads may write into it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file: int | None = None
        self._numbers = count(1)
        self._lost: set[str] = set()
        self._again: set[int] = set()
        self.spent_before = Decimal(0)
        """What earlier commands of the run spent, or may have spent; known when it is open."""
        self.asked_again = 0
        """Requests that a killed command had in flight, and that were sent again."""
        self.cost_again = Decimal(0)
        """What the answers to those cost."""

    def open(self) -> None:
        """Begins the book, where it has not begun; closes that of a command that was killed."""
        with self._lock:
            if self._file is None:
                try:
                    self._begin()
                except OSError as error:
                    text = f"{self._folder / CALLS} cannot be written: {error.strerror}"
                    raise LLMCacheError(text) from error

    def _begin(self) -> None:
        earlier = _Replay()
        if earlier.read(self._folder / CALLS):
            _append_line(self._folder / RECEIPTS, earlier.receipt_object())
            self._lost = earlier.lost
        self.spent_before = _spent(self._folder / RECEIPTS)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._file = os.open(self._folder / CALLS, flags, 0o644)
        if self._lost:
            self._write(["l", sorted(self._lost)])

    def sent(self, purpose: str, model: str, key: str, most: Decimal | None) -> int:
        self.open()
        number = next(self._numbers)
        with self._lock:
            again = key in self._lost
            if again:
                self._lost.discard(key)
                self._again.add(number)
                self.asked_again += 1
        self._write(["s", number, purpose, model, key, _amount_text(most), again])
        return number

    def answered(self, number: int, usage: Usage, cost: Decimal | None) -> None:
        tokens = [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_prompt_tokens,
            usage.reasoning_tokens,
        ]
        if number in self._again:
            self.cost_again += cost or Decimal(0)
        self._write(["a", number, tokens, _amount_text(cost)])

    def ended(self, number: int, *, billed: bool) -> None:
        self._write(["e", number, billed])

    def question(self, purpose: str, model: str, *, cached: bool, failed: bool) -> None:
        """A question is over; it took no request, one or several."""
        self.open()
        self._write(["q", purpose, model, cached, failed])

    def close(self, receipt: Receipt) -> None:
        """Ends the book: its lines become one receipt; none where nobody was asked."""
        with self._lock:
            file, self._file = self._file, None
        if receipt.lines:
            again = _again_object(self.asked_again, self.cost_again)
            _append_line(
                self._folder / RECEIPTS, {**_receipt_object(receipt), "ended": "done", **again}
            )
        if file is not None:
            os.close(file)
            with suppress(OSError):
                (self._folder / CALLS).unlink()

    def _write(self, line: list[Any]) -> None:
        if self._file is not None:
            # One write a line: a process that dies leaves whole lines.
            os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def _again_object(requests: int, cost: Decimal) -> dict[str, Any]:
    """What was asked a second time, since a kill had cut off its answer."""
    return {"asked_again": {"requests": requests, "cost": f"{cost:f}"}} if requests else {}


def _append_line(path: Path, value: Mapping[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


class _Replay:
    """The book that a killed command left, put together again."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        """Keys of requests that were in flight then, or when an earlier command was killed, and
        were not asked again since."""
        self._ledger = Ledger(None)
        self._open: dict[int, tuple[BookedRequest, str]] = {}
        self._again: set[int] = set()
        self._cost_again = Decimal(0)
        self._in_flight = 0

    def read(self, path: Path) -> bool:
        """Whether there is one. A line that was cut, or that something else wrote, is skipped."""
        try:
            for line in _lines(path):
                with suppress(ValueError, TypeError, KeyError, InvalidOperation):
                    self._add(cast("list[Any]", line))
        except FileNotFoundError:
            return False
        self._in_flight = len(self._open)
        for request, key in self._open.values():
            self._ledger.unconfirmed(request)
            self.lost.add(key)
        return True

    def receipt_object(self) -> dict[str, Any]:
        # Its currency is in no line of the book.
        receipt = replace(self._ledger.receipt(), currency=None, price_origin=None)
        return {
            **_receipt_object(receipt),
            "ended": "killed",
            "in_flight": self._in_flight,
            **_again_object(len(self._again), self._cost_again),
        }

    def _add(self, line: list[Any]) -> None:
        kind, *rest = line
        if kind == "l":
            self.lost.update(rest[0])
        elif kind == "s":
            number, purpose, model, key, most, again = rest
            amount = None if most is None else Decimal(most)
            self.lost.discard(key)
            request = self._ledger.request(purpose, model, most=amount)
            self._open[number] = (request, key)
            if again is True:
                self._again.add(number)
        elif kind == "a":
            number, (prompt, completion, cached, reasoning), reported = rest
            cost = None if reported is None else Decimal(reported)
            usage = Usage(
                prompt_tokens=prompt,
                completion_tokens=completion,
                cached_prompt_tokens=cached,
                reasoning_tokens=reasoning,
            )
            self._ledger.billed(self._open.pop(number)[0], usage, cost)
            if number in self._again:
                self._cost_again += cost or Decimal(0)
        elif kind == "e":
            number, billed = rest
            request, _ = self._open.pop(number)
            if billed:
                self._ledger.unconfirmed(request)
        elif kind == "q":
            purpose, model, cached, failed = rest
            self._ledger.call(purpose, model, cached=bool(cached), failed=bool(failed))


def _lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for raw in file:
            try:
                yield json.loads(raw)
            except ValueError:
                continue


def _spent(path: Path) -> Decimal:
    """What all commands of a run spent, or may have spent, as its receipts say."""
    total = Decimal(0)
    with suppress(FileNotFoundError):
        for receipt in _lines(path):
            with suppress(TypeError, KeyError, InvalidOperation):
                for line in receipt["lines"]:
                    total += Decimal(line["cost"] or 0) + Decimal(line["unconfirmed"] or 0)
    return total
