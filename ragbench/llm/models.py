"""The models that a run asks: one client each, one cache, one cap on their cost together."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.llm.answer import Transport
from ragbench.llm.budget import Budget
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import LLMClient
from ragbench.llm.clock import Clock
from ragbench.llm.embeddings import EmbeddingClient
from ragbench.llm.ledger import Receipt
from ragbench.llm.settings import LLMSettings

__all__ = ["Models", "open_models"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Models:
    """Open clients, in the event loop that asks."""

    chat: LLMClient | None = None
    """None when no language model is named."""
    embeddings: EmbeddingClient | None = None
    """None when no model for embeddings is named."""

    def receipt(self) -> Receipt:
        """What both have spent so far."""
        clients = [client for client in (self.chat, self.embeddings) if client is not None]
        return Receipt.of(client.receipt() for client in clients)


@asynccontextmanager
async def open_models(
    chat: LLMSettings | None,
    embeddings: LLMSettings | None = None,
    *,
    budget: Budget | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Models]:
    """Opens the clients and their cache in the running event loop, and closes them.

    Args:
        chat: the language model; see `ragbench.llm.settings.resolve`.
        embeddings: the model for embeddings.
        budget: caps the cost of both together.
        transport: carries the requests of both; through the ``openai`` package by default.
        clock: the time.

    Yields:
        The clients.

    Raises:
        ConfigError: an API key cannot be read, or a cost is capped that nobody can know.
        LLMCacheError: a cache cannot be used.
        MissingExtraError: the package that carries requests is not installed.
    """
    with ExitStack() as stack:
        caches: dict[str, ResponseCache] = {}

        def cache_of(settings: LLMSettings) -> ResponseCache | None:
            if settings.cache is None:
                return None
            if settings.cache not in caches:
                path = Path(settings.cache).expanduser()
                opened = ResponseCache(path, max_bytes=settings.cache_bytes)
                caches[settings.cache] = stack.enter_context(opened)
            return caches[settings.cache]

        shared: dict[str, Any] = {"budget": budget, "transport": transport, "clock": clock}
        async with AsyncExitStack() as clients:
            asked = embedding = None
            if chat is not None:
                asked = await clients.enter_async_context(
                    LLMClient(chat.endpoint, limits=chat.limits, cache=cache_of(chat), **shared)
                )
            if embeddings is not None:
                embedding = await clients.enter_async_context(
                    EmbeddingClient(
                        embeddings.endpoint,
                        limits=embeddings.limits,
                        cache=cache_of(embeddings),
                        **shared,
                    )
                )
            yield Models(chat=asked, embeddings=embedding)
