"""An embedding client for callers that do not run in an event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from ragbench.llm.embeddings import EmbeddingClient, Embeddings
from ragbench.llm.loop_thread import LoopThread

__all__ = ["BlockingEmbeddings"]


class BlockingEmbeddings:
    """`EmbeddingClient`, opened in a thread of its own when it is first asked."""

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[EmbeddingClient]],
        *,
        purpose: str = "embed",
    ) -> None:
        """Starts nothing yet.

        Args:
            opening: gives the client for the length of a block; called once, in the loop's thread.
            purpose: what its calls are booked under.
        """
        self._opening = opening
        self._purpose = purpose
        self._loop = LoopThread()
        self._client: EmbeddingClient | None = None
        self._stack = AsyncExitStack()

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """`EmbeddingClient.embed`, in the calling thread.

        Raises:
            ConfigError: the client cannot be made, or a text is empty.
            LLMError: there is no answer.
        """
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
