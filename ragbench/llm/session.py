"""The models that a run asks, opened together, for code with an event loop and without."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ragbench.core.record import Record
from ragbench.llm.budget import Budget, Receipt, check_cap, price_for

if TYPE_CHECKING:  # every evaluation has a session, and few have a model
    from ragbench.core.calling import LoopThread
    from ragbench.core.chat import Message, Price, Reply
    from ragbench.llm.cache import ResponseCache
    from ragbench.llm.client import EmbeddingClient, LLMClient
    from ragbench.llm.schema import Schema
    from ragbench.llm.settings import LLMSettings
    from ragbench.llm.transport import Clock, Transport


class ModelClients(Record):
    """The clients of the models that a run asks."""

    chat: LLMClient | None = None
    """None when no language model is named."""
    embeddings: EmbeddingClient | None = None
    """None when no model for embeddings is named."""
    panel: tuple[LLMClient, ...] = ()
    """Judges beside the first."""

    @property
    def chats(self) -> tuple[LLMClient, ...]:
        """All language models, the first judge at the front."""
        if self.chat is None:
            return ()
        return (self.chat, *self.panel)

    @property
    def _all_clients(self) -> list[LLMClient | EmbeddingClient]:
        """Those of judges and of embeddings: a run stops and books them alike."""
        return [client for client in (*self.chats, self.embeddings) if client is not None]

    def stop_when(self, stopped: Callable[[], bool]) -> None:
        """Has all clients ask no more, and wait for nothing, once the run is stopped."""
        for client in self._all_clients:
            client.clock.stopped = stopped

    @property
    def jurors(self) -> tuple[tuple[str, ModelClients], ...]:
        """The judges of a panel by their models, alike ones numbered; empty without a panel."""
        if not self.panel:
            return ()
        models = [chat.endpoint.model for chat in self.chats]
        jurors: list[tuple[str, ModelClients]] = []
        for position, chat in enumerate(self.chats):
            name = models[position]
            if models.count(name) > 1:
                number = models[: position + 1].count(name)
                name = f"{name} #{number}"
            # All judges compare meanings by one model, so that they differ in their verdicts alone.
            clients = ModelClients(chat=chat, embeddings=self.embeddings)
            jurors.append((name, clients))
        return tuple(jurors)

    def receipt(self) -> Receipt:
        """What the calls of all clients took so far."""
        return Receipt.of(client.receipt() for client in self._all_clients)


@asynccontextmanager
async def open_models(
    chat: LLMSettings | None,
    embeddings: LLMSettings | None = None,
    *,
    panel: Sequence[LLMSettings] = (),
    budget: Budget | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
    cache: Callable[..., ResponseCache] | None = None,
) -> AsyncGenerator[ModelClients]:
    """Opens the clients and their cache in the running event loop, and closes them.

    Args:
        panel: judges beside the first.
        cache: opens a file of answers; `ResponseCache` where it is None.
    """
    from ragbench.llm.cache import ResponseCache
    from ragbench.llm.client import EmbeddingClient, LLMClient

    open_cache = cache or ResponseCache
    caches: dict[str, ResponseCache] = {}
    async with AsyncExitStack() as stack:

        async def open_client(kind: Callable[..., Any], settings: LLMSettings) -> Any:
            """A client that is closed with the stack; clients with one file share its cache."""
            client_cache = None
            name = settings.cache
            if name is not None:
                if name not in caches:
                    file = open_cache(Path(name).expanduser(), max_bytes=settings.cache_bytes)
                    caches[name] = stack.enter_context(file)
                client_cache = caches[name]
            client = kind(
                settings.endpoint,
                limits=settings.limits,
                cache=client_cache,
                budget=budget,
                transport=transport,
                clock=clock,
            )
            return await stack.enter_async_context(client)

        chat_client = None
        if chat is not None:
            chat_client = await open_client(LLMClient, chat)
        jurors = [await open_client(LLMClient, juror) for juror in panel]
        embedding_client = None
        if embeddings is not None:
            embedding_client = await open_client(EmbeddingClient, embeddings)
        yield ModelClients(chat=chat_client, panel=tuple(jurors), embeddings=embedding_client)


ValueT = TypeVar("ValueT")

_NO_CALLS = Receipt(lines=(), price_origin=None)
"""What a session took that was never opened."""


class LLMSession(AbstractContextManager["LLMSession"]):
    """Models for the length of a run, open from the first time that one is needed.

    The clients live in one event loop in a thread of its own: operators and judges ask through the
    same connections, cache, cap on cost and books, from whichever thread they run in.
    """

    _thread: LoopThread
    """The event loop in its thread; set while the clients are open."""

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[ModelClients]]) -> None:
        """Opens nothing yet; ``opening`` makes the clients once one is needed."""
        self._opening = opening
        self._stack = AsyncExitStack()
        self._lock = threading.Lock()
        self._models: ModelClients | None = None

    def __exit__(self, *_: object) -> None:
        """Closes all connections; they are opened anew when a model is asked again."""
        with self._lock:
            if self._models is not None:
                self._models = None
                try:
                    self._thread.run(self._stack.aclose())
                finally:
                    self._thread.stop()

    close = __exit__

    @property
    def models(self) -> ModelClients:
        """The clients; opened now where they are not yet."""
        with self._lock:
            if self._models is None:
                from ragbench.core.calling import LoopThread

                self._thread = LoopThread()
                try:
                    opening = self._stack.enter_async_context(self._opening())
                    self._models = self._thread.run(opening)
                except BaseException:
                    self._thread.stop()  # closing stops it only where there are clients
                    raise
            return self._models

    def import_packages(self) -> None:
        """Imports what calls need, before anything is paid; see `import_packages_of`."""
        from ragbench.llm.transport import import_llm_packages

        import_llm_packages()

    @property
    def is_open(self) -> bool:
        """Whether a model was needed since the session began, or since it was closed."""
        return self._models is not None

    def run(self, work: Callable[[ModelClients], Coroutine[Any, Any, ValueT]]) -> ValueT:
        """Runs a coroutine next to the clients and gives its result."""
        models = self.models
        return self._thread.run(work(models))

    def begin(self, work: Callable[[ModelClients], Coroutine[Any, Any, ValueT]]) -> Future[ValueT]:
        """Starts a coroutine next to the clients, and gives what its result will be in."""
        models = self.models
        return self._thread.begin(work(models))

    def stream(
        self, work: Callable[[ModelClients, Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine next to the clients and gives what it emits; see `LoopThread.stream`."""
        models = self.models
        return self._thread.stream(lambda emit: work(models, emit))

    def receipt(self) -> Receipt:
        """What all calls took since the clients were opened."""
        if self._models is None:
            return _NO_CALLS
        return self._models.receipt()

    def not_sent(self) -> Mapping[str, str]:
        """Parameters that the language model refuses, with what it says of them."""
        reasons: dict[str, str] = {}
        if self._models is not None:
            for chat in self._models.chats:
                reasons |= chat.dialect.learned.not_sent
        return reasons


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat(AbstractContextManager["Chat"]):
    """A language model for code without an event loop: a `ragbench.core.chat.SamplingChat`.

    What it is (model, temperature, identity) is known at once; keys are read, the cache and
    connections opened with the first question. Any number of threads may ask.
    """

    session: LLMSession
    settings: Callable[[], LLMSettings]
    """Which model it is; raises where none is named."""
    purpose: str = "chat"
    """What its calls are booked under."""

    bears_calls: ClassVar[bool] = True

    def __exit__(self, *_: object) -> None:
        """Closes all connections; it connects anew when it is asked again."""
        self.session.close()

    def import_packages(self) -> None:
        """Imports what questions need, before anything is paid."""
        self.session.import_packages()

    close = __exit__

    @property
    def name(self) -> str:
        """The model's name, known before anything is opened."""
        return self.settings().endpoint.model

    @property
    def temperature(self) -> float | None:
        """The temperature that is asked for; None where none is sent."""
        return self.settings().endpoint.temperature

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None where that is unknown."""
        return price_for(self.settings().endpoint)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that an answer depends on; see `Endpoint.identity`."""
        return self.settings().endpoint.identity()

    def booked_under(self, purpose: str) -> Chat:
        """The same model, connection and cache; its calls are booked under another purpose."""
        return replace(self, purpose=purpose)

    def receipt(self) -> Receipt | None:
        """What was spent so far; None when it was never asked."""
        if not self.session.is_open:
            return None
        return self.session.receipt()

    def complete(self, messages: Sequence[Message]) -> str:
        """What the model answers."""
        return self.ask(messages).text

    def ask(
        self, messages: Sequence[Message], *, repeat: int = 0, schema: Schema[Any] | None = None
    ) -> Reply[Any]:
        """Asks the model, or takes what it answered before.

        Args:
            repeat: which of several answers to the same question, from 0.
            schema: what the answer must be, where it is not a text.
        """
        self.settings()  # raises where nothing may be asked

        async def ask_first(models: ModelClients) -> Reply[Any]:
            """Asks the first of the models: a panel beside it is for judging."""
            chat = models.chats[0]
            return await chat.ask(messages, schema=schema, purpose=self.purpose, repeat=repeat)

        return self.session.run(ask_first)

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        """The value alone, for operators and metrics that need nothing else of a reply."""
        reply: Reply[ValueT] = self.ask(messages, schema=schema)
        return reply.value


def chat_of(settings: LLMSettings, *, budget: Budget | None = None) -> Chat:
    """A language model with a session of its own, for code without an event loop."""
    if budget is not None and budget.is_capped:
        check_cap(settings.endpoint)
    session = LLMSession(lambda: open_models(settings, budget=budget))
    return Chat(session=session, settings=lambda: settings)
