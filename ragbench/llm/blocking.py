"""Clients for callers without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from ragbench.core.calling import LoopThread
from ragbench.core.chat import Embeddings, Message, Reply
from ragbench.llm.budget import Receipt
from ragbench.llm.client import LLMClient
from ragbench.llm.embeddings import EmbeddingClient
from ragbench.llm.schema import Schema

ValueT = TypeVar("ValueT")


class BlockingChat:
    """A `ragbench.core.chat.ChatModel` over a client, for any number of threads.

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
        self._opening = opening
        self._purpose = purpose
        self._version = version
        self._thread = LoopThread()
        self._client: LLMClient | None = None
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._client = self._thread.run(self._open())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client = None
        try:
            self._thread.run(self._stack.aclose())
        finally:
            self._thread.stop()

    @property
    def name(self) -> str:
        return self._opened().endpoint.model

    @property
    def temperature(self) -> float | None:
        """See `ragbench.core.chat.SamplingChat.temperature`."""
        return self._opened().endpoint.temperature

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.core.chat.ChatModel.complete`."""
        return self.ask(messages).text

    def ask(
        self, messages: Sequence[Message], *, repeat: int = 0, purpose: str | None = None
    ) -> Reply[str]:
        """`LLMClient.ask` for text, in the calling thread."""
        client = self._opened()
        booked = self._purpose if purpose is None else purpose
        return self._thread.run(
            client.ask(messages, purpose=booked, version=self._version, repeat=repeat)
        )

    def ask_structure(
        self, messages: Sequence[Message], schema: Schema[ValueT], *, purpose: str | None = None
    ) -> ValueT:
        """See `ragbench.llm.replies.StructuredChat.ask_structure`."""
        client = self._opened()
        booked = self._purpose if purpose is None else purpose
        asked = client.ask(messages, schema=schema, purpose=booked, version=self._version)
        return self._thread.run(asked).value

    def receipt(self) -> Receipt:
        return self._opened().receipt()

    async def _open(self) -> LLMClient:
        return await self._stack.enter_async_context(self._opening())

    def _opened(self) -> LLMClient:
        if self._client is None:
            raise RuntimeError("open it with 'with' before it is used")
        return self._client


class BlockingEmbeddings:
    """`EmbeddingClient`, opened in a thread of its own when it is first asked."""

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[EmbeddingClient]],
        *,
        purpose: str = "embed",
    ) -> None:
        self._opening = opening
        self._purpose = purpose
        self._loop = LoopThread()
        self._client: EmbeddingClient | None = None
        self._stack = AsyncExitStack()

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """`EmbeddingClient.embed`, in the calling thread."""
        client = self._client or self._open()
        return self._loop.run(client.embed(texts, purpose=self._purpose))

    def close(self) -> None:
        """Closes the client and ends the loop; nothing where it was never asked."""
        if not self._loop.running:
            return
        self._client = None
        try:
            self._loop.run(self._stack.aclose())
        finally:
            self._loop.stop()

    def _open(self) -> EmbeddingClient:
        async def enter() -> EmbeddingClient:
            return await self._stack.enter_async_context(self._opening())

        self._loop.start()
        try:
            self._client = self._loop.run(enter())
        except BaseException:
            self._loop.stop()
            raise
        return self._client
