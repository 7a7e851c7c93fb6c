"""The client of chat endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, Unpack

from ragbench.core.chat import Message, Reply
from ragbench.errors import ConfigError, LLMCacheError, LLMReplyError
from ragbench.llm.book import Receipt
from ragbench.llm.cache import ResponseCache, cache_key
from ragbench.llm.caller import Caller, CallerOptions
from ragbench.llm.conversation import Conversation
from ragbench.llm.dialect import Dialect
from ragbench.llm.endpoint import Endpoint, StructuredOutput
from ragbench.llm.schema import Schema, read_structure


class LLMClient:
    """Asks one model; opened and closed inside the event loop that asks.

    Example:
        >>> async def judge(endpoint, messages):
        ...     async with LLMClient(endpoint) as client:
        ...         return await client.ask(messages)
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        cache: ResponseCache | None = None,
        **options: Unpack[CallerOptions],
    ) -> None:
        self._caller = Caller(endpoint, **options)
        self.endpoint = endpoint
        self.price = self._caller.price
        """What its tokens cost; None when that is not known."""
        self._cache = cache
        budget = options.get("budget")
        self._dialect = Dialect(
            endpoint.structured,
            must_limit=budget is not None and budget.is_capped,
            reasons=endpoint.reasoning_effort not in (None, "none"),
        )
        self._learned = 0
        """The version of what was learned that is kept."""
        self._judge = endpoint.fingerprint()
        self._asking: dict[bytes, _Asking] = {}
        self._unwritable: LLMCacheError | None = None

    def __repr__(self) -> str:
        return f"LLMClient({self.endpoint.model!r} at {self.endpoint.base_url!r})"

    async def __aenter__(self) -> Self:
        """Reads the API key and opens the connection pool. Nothing is sent."""
        await self._caller.open()
        known = None if self._cache is None else self._cache.dialect(self._judge)
        if known is not None:
            self._dialect.restore(known)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends questions in flight and closes all connections."""
        self._caller.stop()
        tasks = [asking.task for asking in self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._caller.close()

    @property
    def structured(self) -> StructuredOutput | None:
        """How the endpoint is asked for JSON; None while that is not known."""
        return self._dialect.structured if self._dialect.known else None

    @property
    def not_sent(self) -> Mapping[str, str]:
        """Parameters that the endpoint refuses and that are not sent, with what it says of them."""
        return dict(self._dialect.not_sent)

    @property
    def token_limit(self) -> str | None:
        """What the endpoint calls the limit of an answer's length; None when none is sent."""
        limited = self._dialect.longest(self.endpoint) is not None
        return self._dialect.token_limit if limited else None

    @property
    def reasons(self) -> bool:
        """Whether the model was found to think before it answers."""
        return self._dialect.reasons

    @property
    def peak(self) -> int:
        """The most requests that were in flight at once."""
        return self._caller.concurrency.peak

    def receipt(self) -> Receipt:
        return self._caller.ledger.receipt()

    def key(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any] | None = None,
        version: str = "",
        repeat: int = 0,
    ) -> bytes:
        """Name of a question; equal questions to equal judges share an answer."""
        definition = None if schema is None else schema.definition
        return cache_key(
            self.endpoint.identity(), messages, schema=definition, version=version, repeat=repeat
        )

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any] | None = None,
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        """Asks the model, or takes what it answered before.

        Args:
            repeat: which of several answers to the same question, from 0.
        """
        if not messages:
            raise ConfigError("a model was asked nothing: there must be at least one message")
        self._caller.check_open()
        key = self.key(messages, schema=schema, version=version, repeat=repeat)
        kept = self._kept(key, schema)
        if kept is not None:
            self._caller.was_known()
            self._caller.ledger.call(purpose, self.endpoint.model, cached=True)
            return kept
        if self._unwritable is not None:
            raise LLMCacheError(str(self._unwritable))
        return await self._shared(key, purpose, lambda: self._asked(key, messages, schema, purpose))

    async def _shared(
        self, key: bytes, purpose: str, work: Callable[[], Coroutine[Any, Any, Reply[Any]]]
    ) -> Reply[Any]:
        """Equal questions in flight are one: who comes first pays, all get the answer."""
        asking = self._asking.get(key)
        is_first = asking is None
        if asking is None:
            asking = self._asking[key] = _Asking(asyncio.create_task(work()))
            asking.task.add_done_callback(lambda _: self._asking.pop(key, None))
        failed = True
        asking.waiting += 1
        try:
            reply: Reply[Any] = await asyncio.shield(asking.task)
            failed = False
        except asyncio.CancelledError:
            if asking.waiting == 1:  # nobody else waits for it
                asking.task.cancel()
            raise
        finally:
            asking.waiting -= 1
            cached = not is_first and not failed
            ledger = self._caller.ledger
            ledger.call(purpose, self.endpoint.model, cached=cached, failed=failed)
        return reply if is_first else replace(reply, cached=True)

    async def _asked(
        self,
        key: bytes,
        messages: Sequence[Message],
        schema: Schema[Any] | None,
        purpose: str,
    ) -> Reply[Any]:
        conversation = Conversation(self._caller, self._dialect)
        clock = self._caller.clock
        started = clock.now()
        spread = int.from_bytes(key[:4], "big") / 2**32
        found = await conversation.ask(messages, schema, purpose=purpose, spread=spread)
        reply: Reply[Any] = replace(found, key=key, seconds=round(clock.now() - started, 6))
        if self._cache is not None:
            try:
                model = self.endpoint.model
                self._cache.put(reply, judge=self._judge, model=model, purpose=purpose)
                self._keep_dialect(self._cache)
            except LLMCacheError as error:
                self._unwritable = error  # this answer is paid for and is given; no other is bought
        return self._priced(reply)

    def _keep_dialect(self, cache: ResponseCache) -> None:
        """So that the next command need not find it out anew."""
        if self._learned != self._dialect.version:
            self._learned = self._dialect.version
            cache.keep_dialect(self._judge, self._dialect.state())

    def _kept(self, key: bytes, schema: Schema[Any] | None) -> Reply[Any] | None:
        """What the cache has; an answer that no longer passes its check is as good as none."""
        kept = None if self._cache is None else self._cache.get(key)
        if kept is None:
            return None
        try:
            value = kept.text if schema is None else read_structure(kept.text, schema)
        except LLMReplyError:
            return None
        return self._priced(replace(kept, value=value))

    def _priced(self, reply: Reply[Any]) -> Reply[Any]:
        """With what its tokens cost now, where the endpoint reported no cost."""
        if reply.cost is not None or self.price is None or not reply.usage.reported:
            return reply
        return replace(reply, cost=self.price.of(reply.usage))


@dataclass(slots=True)
class _Asking:
    """A question in flight and how many wait for its answer."""

    task: asyncio.Task[Reply[Any]]
    waiting: int = 0
