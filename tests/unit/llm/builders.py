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
    known: dict[str, Any] = {"base_url": "http://judge.test/v1", "model": "m", "price": PRICE}
    return Endpoint(**(known | changes))


def asked(text: str = "Is it good?") -> list[Message]:
    return [Message(role="user", content=text)]


async def kinds(client: LLMClient, count: int) -> Counter[str]:
    calls = (client.ask(asked(str(number))) for number in range(count))
    found = await asyncio.gather(*calls, return_exceptions=True)
    return Counter(type(each).__name__ for each in found)


def said(text: str, **changes: Any) -> Answer:
    body: dict[str, Any] = {
        "model": "m-2026",
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    return Answer(status=200, headers={}, body=json.dumps(body | changes))


def reply(key: str, text: str = "yes", model: str = "m-2026") -> Reply[str]:
    """As a client keeps it and a cache gives it back."""
    usage = Usage(prompt_tokens=3, completion_tokens=1)
    more: dict[str, Any] = {"finish_reason": "stop", "cached": True, "attempts": 2, "seconds": 0.5}
    return Reply(value=text, text=text, usage=usage, model=model, key=key.encode(), **more)


def error(status: int, message: str = "no", **headers: str) -> Answer:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=shown, body=f'{{"error": {{"message": "{message}"}}}}')


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
        known = self.answers
        answer = known(payload) if callable(known) else known[min(position, len(known) - 1)]
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
        found = await self.server.answer(path, {}, dict(payload))
        await asyncio.sleep(self.latency)
        if not found.whole:
            raise NoAnswerError("lost", "the connection broke")
        return Answer(status=found.status, headers=found.headers, body=found.body)


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
