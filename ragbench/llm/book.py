"""What a run's commands spent, written down before and after each request.

A command that ends tells what it spent in one line of ``receipts.jsonl``. Until then each request
stands in ``calls.jsonl``, one line when it is sent and one when it is over, each written at once: a
process that is killed leaves behind what it did, and the next command makes its receipt of it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import count
from pathlib import Path
from typing import Any, cast

from ragbench.core.chat import Usage
from ragbench.errors import LLMCacheError

CALLS = "calls.jsonl"
"""Of the command that runs, or was killed."""
RECEIPTS = "receipts.jsonl"
"""A line a command."""


@dataclass(kw_only=True, slots=True)
class BookedCall:
    """A request in the book."""

    purpose: str
    model: str
    key: str
    """Equal for equal requests."""
    most: Decimal | None
    """The most that it can cost; None when nobody knows."""
    usage: Usage | None = None
    cost: Decimal | None = None
    again: bool = False
    """Whether a command that was killed had it in flight already."""
    end: str = ""
    """How it ended: ``answered``, ``lost`` (it may have been billed), ``free``; empty while it is
    in flight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfinished:
    """What a command did that was killed."""

    calls: tuple[BookedCall, ...]
    questions: Mapping[tuple[str, str], tuple[int, int, int]]
    """Questions that were over, those of the cache, those that failed; by purpose and model."""
    lost: tuple[str, ...]
    """Keys of requests that were in flight then, or when an earlier command was killed, and were
    not asked again since."""

    @property
    def in_flight(self) -> int:
        """Requests that were sent and whose answer is not known."""
        return sum(not call.end for call in self.calls)


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
                    told = f"{self._folder / CALLS} cannot be written: {error.strerror}"
                    raise LLMCacheError(told) from error

    def _begin(self) -> None:
        earlier = read_unfinished(self._folder / CALLS)
        if earlier is not None:
            append_line(self._folder / RECEIPTS, killed_object(earlier))
            self._lost = set(earlier.lost)
        self.spent_before = spent(self._folder / RECEIPTS)
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
        told = None if most is None else str(most)
        self._write(["s", number, purpose, model, key, told, again])
        return number

    def answered(self, number: int, usage: Usage, cost: Decimal | None) -> None:
        """A request was answered, and its tokens or its cost told."""
        tokens = [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_prompt_tokens,
            usage.reasoning_tokens,
        ]
        if number in self._again:
            self.cost_again += cost or Decimal(0)
        self._write(["a", number, tokens, None if cost is None else str(cost)])

    def ended(self, number: int, *, billed: bool) -> None:
        """A request was not answered, or its tokens were not told."""
        self._write(["e", number, billed])

    def question(self, purpose: str, model: str, *, cached: bool, failed: bool) -> None:
        """A question is over; it took no request, one or several."""
        self.open()
        self._write(["q", purpose, model, cached, failed])

    def close(self, receipt: Mapping[str, Any] | None) -> None:
        """Ends the book: its lines become one receipt."""
        with self._lock:
            file, self._file = self._file, None
        if receipt is not None:
            again = _again_object(self.asked_again, self.cost_again)
            append_line(self._folder / RECEIPTS, {**receipt, "ended": "done", **again})
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


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Adds a JSON object to a file of lines."""
    with path.open("ab") as file:
        file.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


@dataclass(slots=True)
class _Reader:
    """Puts the lines of a book together."""

    calls: dict[int, BookedCall] = field(default_factory=dict[int, BookedCall])
    questions: dict[tuple[str, str], tuple[int, int, int]] = field(
        default_factory=dict[tuple[str, str], tuple[int, int, int]]
    )
    lost: set[str] = field(default_factory=set[str])

    def add(self, line: list[Any]) -> None:
        kind, *rest = line
        if kind == "l":
            self.lost.update(rest[0])
        elif kind == "s":
            number, purpose, model, key, most, again = rest
            self.lost.discard(key)
            self.calls[number] = BookedCall(
                purpose=purpose,
                model=model,
                key=key,
                most=None if most is None else Decimal(most),
                again=again is True,
            )
        elif kind == "a":
            number, tokens, cost = rest
            call = self.calls[number]
            prompt, completion, cached, reasoning = tokens
            call.usage = Usage(
                prompt_tokens=prompt,
                completion_tokens=completion,
                cached_prompt_tokens=cached,
                reasoning_tokens=reasoning,
            )
            call.cost = None if cost is None else Decimal(cost)
            call.end = "answered"
        elif kind == "e":
            number, billed = rest
            self.calls[number].end = "lost" if billed else "free"
        elif kind == "q":
            purpose, model, cached, failed = rest
            done, kept, bad = self.questions.get((purpose, model), (0, 0, 0))
            self.questions[purpose, model] = (done + 1, kept + bool(cached), bad + bool(failed))

    def found(self) -> Unfinished:
        in_flight = {call.key for call in self.calls.values() if not call.end}
        return Unfinished(
            calls=tuple(self.calls.values()),
            questions=self.questions,
            lost=tuple(sorted(self.lost | in_flight)),
        )


def read_unfinished(path: Path) -> Unfinished | None:
    """The book that a killed command left; None when there is none.

    A line that was cut, or that something else wrote, is passed over.
    """
    reader = _Reader()
    try:
        for line in _lines(path):
            with suppress(ValueError, TypeError, KeyError, InvalidOperation):
                reader.add(cast("list[Any]", line))
    except FileNotFoundError:
        return None
    return reader.found()


def _lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for raw in file:
            try:
                yield json.loads(raw)
            except ValueError:
                continue


def killed_object(found: Unfinished) -> dict[str, Any]:
    """The receipt of a command that was killed, as ``receipts.jsonl`` holds it."""
    pairs = sorted({(call.purpose, call.model) for call in found.calls} | set(found.questions))
    lines = [_killed_line(found, purpose, model) for purpose, model in pairs]
    again = [call for call in found.calls if call.again]
    cost_again = sum((call.cost or Decimal(0) for call in again), Decimal(0))
    return {
        "currency": None,
        "price_origin": None,
        "cost": _sum_text([line["cost"] for line in lines]),
        "unconfirmed": _sum_text([line["unconfirmed"] for line in lines]),
        "lines": lines,
        "ended": "killed",
        "in_flight": found.in_flight,
        **_again_object(len(again), cost_again),
    }


def _killed_line(found: Unfinished, purpose: str, model: str) -> dict[str, Any]:
    calls = [call for call in found.calls if (call.purpose, call.model) == (purpose, model)]
    answered = [call for call in calls if call.end == "answered"]
    open_calls = [call for call in calls if call.end in ("", "lost")]
    done, kept, bad = found.questions.get((purpose, model), (0, 0, 0))
    usage = sum((call.usage for call in answered if call.usage), Usage())
    return {
        "purpose": purpose,
        "model": model,
        "calls": done,
        "cached": kept,
        "failed": bad,
        "requests": len(calls),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": _total(call.cost for call in answered),
        "unconfirmed": _total(call.most for call in open_calls),
        "unconfirmed_requests": len(open_calls),
    }


def _total(amounts: Iterator[Decimal | None]) -> str | None:
    known = list(amounts)
    if any(amount is None for amount in known):
        return None
    return f"{sum((amount for amount in known if amount is not None), Decimal(0)):f}"


def _sum_text(amounts: list[str | None]) -> str | None:
    return _total(None if amount is None else Decimal(amount) for amount in amounts)


def spent(path: Path) -> Decimal:
    """What all commands of a run spent, or may have spent, as its receipts say."""
    total = Decimal(0)
    with suppress(FileNotFoundError):
        for receipt in _lines(path):
            with suppress(TypeError, KeyError, InvalidOperation):
                for line in receipt["lines"]:
                    total += Decimal(line["cost"] or 0) + Decimal(line["unconfirmed"] or 0)
    return total
