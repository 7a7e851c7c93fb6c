"""Everything in a run that asks models, through one set of clients in one event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel, Message
from ragbench.llm.ledger import Receipt
from ragbench.llm.loop_thread import LoopThread
from ragbench.llm.models import Models

__all__ = ["LLMSession"]

ValueT = TypeVar("ValueT")


class LLMSession:
    """Models for the length of a run, open from the first time that one is needed.

    The clients live in one event loop in a thread of its own: operators and judges ask through the
    same connections, cache, cap on cost and books, from whichever thread they run in.
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[Models]]) -> None:
        """Starts nothing yet.

        Args:
            opening: gives the clients for the length of a block, such as
                ``lambda: open_models(settings)``; called once, in the loop's thread.
        """
        self._opening = opening
        self._thread = LoopThread()
        self._stack = AsyncExitStack()
        self._models: Models | None = None

    def __enter__(self) -> Self:
        """Does nothing yet: who never asks needs no key."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the clients and ends the loop."""
        if self._models is not None:
            self._models = None
            try:
                self._thread.run(self._stack.aclose())
            finally:
                self._thread.stop()

    @property
    def models(self) -> Models:
        """The clients; opened now where they are not yet.

        Raises:
            ConfigError: they cannot be opened.
        """
        if self._models is None:
            self._thread.start()
            try:
                self._models = self._thread.run(self._open())
            except BaseException:
                self._thread.stop()
                raise
        return self._models

    def chat(self, purpose: str, *, version: str = "") -> ChatModel:
        """A `ChatModel` for code that runs in no event loop.

        Args:
            purpose: what its calls are booked under.
            version: of the prompts of those who use it; see `LLMClient.ask`.
        """
        return _Chat(session=self, purpose=purpose, version=version)

    def run(self, work: Callable[[Models], Coroutine[Any, Any, ValueT]]) -> ValueT:
        """Runs a coroutine beside the clients, and waits for it."""
        models = self.models
        return self._thread.run(work(models))

    def stream(
        self, work: Callable[[Models, Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine beside the clients and gives what it tells; see `LoopThread.stream`."""
        models = self.models
        return self._thread.stream(lambda tell: work(models, tell))

    def receipt(self) -> Receipt:
        """What was spent so far."""
        return Receipt.of(()) if self._models is None else self._models.receipt()

    async def _open(self) -> Models:
        return await self._stack.enter_async_context(self._opening())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chat:
    """One purpose's view of a session."""

    session: LLMSession
    purpose: str
    version: str

    @property
    def name(self) -> str:
        """The model's name."""
        client = self.session.models.chat
        if client is None:
            raise ConfigError("no language model is named")
        return client.endpoint.model

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.llm.chat.ChatModel.complete`."""

        async def ask(models: Models) -> str:
            if models.chat is None:
                raise ConfigError("no language model is named")
            reply = await models.chat.ask(messages, purpose=self.purpose, version=self.version)
            return reply.text

        return self.session.run(ask)
