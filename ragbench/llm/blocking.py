"""A client for callers that do not run in an event loop: rerankers, operators, plain functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from ragbench.llm.chat import Message
from ragbench.llm.client import LLMClient
from ragbench.llm.ledger import Receipt
from ragbench.llm.reply import Reply

__all__ = ["BlockingChat"]

ValueT = TypeVar("ValueT")


class BlockingChat:
    """A `ragbench.llm.chat.ChatModel` over a client, for any number of threads.

    The client lives in one event loop in a thread of its own, where it is opened and closed.
    Opening a client anew for each call would throw its connections away each time, and a client
    that outlives its loop sends requests twice.
    """

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[LLMClient]],
        *,
        purpose: str = "chat",
        version: str = "",
    ) -> None:
        """Starts nothing yet.

        Args:
            opening: gives the client for the length of a block, such as
                ``lambda: open_client(settings)``; called once, in the loop's thread.
            purpose: what its calls are booked under.
            version: of the prompts of those who use it; see `LLMClient.ask`.
        """
        self._opening = opening
        self._purpose = purpose
        self._version = version
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: LLMClient | None = None
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        """Starts the loop and opens the client.

        Raises:
            ConfigError: the client cannot be made or opened.
        """
        if self._thread is not None:
            raise RuntimeError("it is open already")
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="ragbench-llm", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        try:
            self._client = self._run(self._open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the client and ends the loop."""
        self._client = None
        try:
            self._run(self._stack.aclose())
        finally:
            self._stop()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._opened().endpoint.model

    @property
    def temperature(self) -> float | None:
        """See `ragbench.llm.chat.SamplingChat.temperature`."""
        return self._opened().endpoint.temperature

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.llm.chat.ChatModel.complete`."""
        return self.ask(messages).text

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        """`LLMClient.ask` for text, in the calling thread."""
        client = self._opened()
        return self._run(
            client.ask(messages, purpose=self._purpose, version=self._version, repeat=repeat)
        )

    def receipt(self) -> Receipt:
        """What was spent so far."""
        return self._opened().receipt()

    async def _open(self) -> LLMClient:
        return await self._stack.enter_async_context(self._opening())

    def _opened(self) -> LLMClient:
        if self._client is None:
            raise RuntimeError("open it with 'with' before it is used")
        return self._client

    def _run(self, work: Coroutine[Any, Any, ValueT]) -> ValueT:
        loop = self._loop
        if loop is None or self._thread is threading.current_thread():
            work.close()
            raise RuntimeError("it cannot be asked from its own event loop")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
