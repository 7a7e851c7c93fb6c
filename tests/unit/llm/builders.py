"""Endpoints, questions, judges, clocks, and transports that need no socket."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragbench.core.chat import Message, Price, Reply, Usage
from ragbench.llm.answers import Answer
from ragbench.llm.budget import Budget
from ragbench.llm.client import LLMClient
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.schema import schema_of
from ragbench.llm.session import LLMSession, open_models
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import CallLimits, Clock, NoAnswerError, Transport
from ragbench.stages.judge import Judging
from tests.llm_server import FaultServer

PRICE = Price(input=Decimal(1), output=Decimal(2))
"""A dollar a million tokens of the prompt, two of the answer."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    good: bool
    reason: str


VERDICT = schema_of(Verdict)


def endpoint(**changes: Any) -> Endpoint:
    """The endpoint of a judge at a known price."""
    fields: dict[str, Any] = {
        "base_url": "http://judge.test/v1",
        "model": "m",
        "price": PRICE,
    }
    return Endpoint(**(fields | changes))


def prompt(text: str = "Is it good?") -> list[Message]:
    return [Message(role="user", content=text)]


async def ask_many(client: LLMClient, count: int) -> Counter[str]:
    """Asks so many questions at once, and counts the types of what comes back."""
    calls = [client.ask(prompt(str(number))) for number in range(count)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    return Counter(type(result).__name__ for result in results)


def completion(text: str, **changes: Any) -> Answer:
    """An endpoint's answer with a text of a model; changes replace fields of its body."""
    body: dict[str, Any] = {
        "model": "m-2026",
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    return Answer(status=200, headers={}, body=json.dumps(body | changes))


def reply(key: str, text: str = "yes", model: str = "m-2026") -> Reply[str]:
    """As a client keeps it and a cache gives it back."""
    return Reply(
        value=text,
        text=text,
        usage=Usage(prompt_tokens=3, completion_tokens=1),
        model=model,
        key=key.encode(),
        finish_reason="stop",
        cached=True,
        attempts=2,
        seconds=0.5,
    )


def error(status: int, message: str = "no", **headers: str) -> Answer:
    """An endpoint's error; ``retry_after="40"`` is its header ``retry-after``."""
    sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"error": {"message": message}})
    return Answer(status=status, headers=sent_headers, body=body)


Scripted = Answer | NoAnswerError


@dataclass
class Script:
    """A transport that answers in turn, or by a function of the payload; then repeats the last."""

    answers: list[Scripted] | Callable[[Mapping[str, Any]], Scripted]
    latency: float = 1.0
    sent: list[Mapping[str, Any]] = field(default_factory=list)
    opened: int = 0
    in_flight: int = 0
    peak: int = 0

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.opened -= 1

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        self.sent.append(payload)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        position = len(self.sent) - 1
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.in_flight -= 1
        if callable(self.answers):
            answer = self.answers(payload)
        else:
            answer = self.answers[min(position, len(self.answers) - 1)]
        if isinstance(answer, NoAnswerError):
            raise answer
        return answer


@dataclass
class InMemory:
    """The faults of a `FaultServer` without its sockets: for virtual time."""

    server: FaultServer
    latency: float = 1.0

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        answer = await self.server.answer(path, {}, dict(payload))
        await asyncio.sleep(self.latency)
        if not answer.whole:
            raise NoAnswerError("lost", "the connection broke")
        return Answer(status=answer.status, headers=answer.headers, body=answer.body)


class FastClock(Clock):
    """A thousand seconds a second for what the client waits for, and as they are for requests."""

    def now(self) -> float:
        return super().now() * 1000

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 1000)


class HastyClock(FastClock):
    """Time limits are short, too; for servers that hang."""

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return super().limit(None if seconds is None else seconds / 1000)


def model(folder: Path | None = None, name: str = "m", **changes: Any) -> LLMSettings:
    """A model at a known price, whose answers are kept in a folder."""
    return LLMSettings(
        endpoint=endpoint(model=name, **changes),
        # A second for a request that hangs, by the hasty clock: a busy machine is not a fault.
        limits=CallLimits(timeout=1000.0, concurrency=4),
        cache=None if folder is None else str(folder / "cache.sqlite"),
        cache_bytes=10**9,
        settings=(),
    )


@contextmanager
def judged_by(
    server: FaultServer | Transport,
    chat: LLMSettings,
    *panel: LLMSettings,
    budget: Budget | None = None,
    clock: Clock | None = None,
    **changes: Any,
) -> Generator[Judging]:
    """Judges without a socket, in fast time."""
    transport = InMemory(server, latency=0.0) if isinstance(server, FaultServer) else server
    clock = clock or FastClock()
    with LLMSession(
        lambda: open_models(chat, panel=panel, budget=budget, transport=transport, clock=clock)
    ) as session:
        yield Judging(session=session, chat=chat, panel=panel, **changes)
