"""A client with its cache, from settings, for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from ragbench.llm.answer import Transport
from ragbench.llm.budget import Budget
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import LLMClient
from ragbench.llm.clock import Clock
from ragbench.llm.settings import LLMSettings

__all__ = ["open_client"]


@asynccontextmanager
async def open_client(
    settings: LLMSettings,
    *,
    budget: Budget | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[LLMClient]:
    """Opens a client and its cache in the running event loop, and closes both.

    Args:
        settings: who is asked, and how; see `resolve`.
        budget: caps the cost.
        transport: carries requests; through the ``openai`` package by default.
        clock: the time.

    Yields:
        The client.

    Raises:
        ConfigError: the API key cannot be read, or a cost is capped that nobody can know.
        LLMCacheError: the cache cannot be used.
        MissingExtraError: the package that carries requests is not installed.
    """
    with ExitStack() as stack:
        cache = None
        if settings.cache is not None:
            path = Path(settings.cache).expanduser()
            cache = stack.enter_context(ResponseCache(path, max_bytes=settings.cache_bytes))
        client = LLMClient(
            settings.endpoint,
            limits=settings.limits,
            cache=cache,
            budget=budget,
            transport=transport,
            clock=clock,
        )
        async with client:
            yield client
