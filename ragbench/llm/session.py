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
from functools import partial
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
        """The clients of all language models of a run, that of the first judge at the front.

        Empty where no language model is named. All of them judge each case; only the first
        generates.
        """
        if self.chat is None:
            return ()
        return (self.chat, *self.panel)

    @property
    def _all_clients(self) -> list[LLMClient | EmbeddingClient]:
        """The clients of all models of a run, for chat and embeddings.

        All clients are stopped alike, and their costs are booked alike.
        """
        return [client for client in (*self.chats, self.embeddings) if client is not None]

    def stop_when(self, stopped: Callable[[], bool]) -> None:
        """Has all models' clients ask no more, and wait for nothing, once the run is stopped.

        A user who presses Ctrl-C must not sit through the wait for a rate limit. ``stopped`` is
        asked before each call and during each wait.
        """
        for client in self._all_clients:
            client.clock.stopped = stopped

    @property
    def jurors(self) -> tuple[tuple[str, ModelClients], ...]:
        """The judges of a panel by the names of their models; empty without a panel.

        Reports show each judge's verdicts under its name, so judges of one model are numbered.
        """
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
        """The receipt of all calls to all models so far: requests, tokens and costs.

        A command prints it at its end, and keeps it in the run's ``receipts.jsonl``.
        """
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
    """Opens the clients of a run's models and their caches, and closes them at the end.

    Connections and caches belong to one event loop and one thread, so they are opened together.

    Args:
        panel: judges beside the first.
        cache: opens a file of answers; `ResponseCache` where it is None.
    """
    # Loaded late: most evaluations ask no model, and do not wait for these packages.
    from ragbench.llm.cache import ResponseCache
    from ragbench.llm.client import EmbeddingClient, LLMClient

    open_cache = cache or ResponseCache
    caches: dict[str, ResponseCache] = {}
    async with AsyncExitStack() as stack:

        async def open_client(kind: Callable[..., Any], settings: LLMSettings) -> Any:
            """Opens a client of ``kind`` by its settings, until the enclosing ``stack`` closes.

            ``caches`` holds the opened caches by their files: clients with one file share its
            connection. Budget, transport and clock are the same for all clients.
            """
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
        """Opens no model yet; ``opening`` makes the clients of the models once one is needed.

        Most evaluations ask no model, and need neither a key nor a connection.
        """
        self._opening = opening
        """Gives the context in which the clients are open; called once for each opening."""
        self._stack = AsyncExitStack()
        """Keeps that context open until `close`."""
        self._lock = threading.Lock()
        """Guards the clients: several threads may need the models, or close them, at once."""
        self._models: ModelClients | None = None
        """The open clients; None while there are none."""

    def __exit__(self, *_: object) -> None:
        """Closes the connections of all models.

        The connections are opened anew when a model is asked again.
        """
        with self._lock:
            if self._models is not None:
                # First: whatever fails below, the next call opens the clients anew.
                self._models = None
                try:
                    self._thread.run(self._stack.aclose())
                finally:
                    self._thread.stop()

    close = __exit__

    @property
    def models(self) -> ModelClients:
        """The clients of the run's models.

        The clients are opened at the first call, and once for all threads. Their event loop runs in
        a thread of its own. Where opening fails, that thread is stopped, so that no process hangs
        at its end.
        """
        with self._lock:
            if self._models is None:
                # Loaded late: sessions without a model need no event loop.
                from ragbench.core.calling import LoopThread

                self._thread = LoopThread()
                try:
                    opening = self._stack.enter_async_context(self._opening())
                    self._models = self._thread.run(opening)
                except BaseException:
                    self._thread.stop()  # `close` stops the thread only where there are clients
                    raise
            return self._models

    def import_packages(self) -> None:
        """Imports the packages that calls to a model need, before any call is paid.

        A package that is missing must show before a system is asked for hours.
        """
        from ragbench.llm.transport import import_llm_packages

        import_llm_packages()

    @property
    def is_open(self) -> bool:
        """Whether a model was needed since the session began, or since it was closed.

        Without one there is no receipt to show.
        """
        return self._models is not None

    def run(self, work: Callable[[ModelClients], Coroutine[Any, Any, ValueT]]) -> ValueT:
        """Runs a coroutine in the event loop of the models' clients, and gives its result.

        In this way code without an event loop can ask a model from any thread.
        """
        # Opened before the coroutine is made: else a failed opening leaves one that nothing awaits.
        models = self.models
        return self._thread.run(work(models))

    def begin(self, work: Callable[[ModelClients], Coroutine[Any, Any, ValueT]]) -> Future[ValueT]:
        """Starts a coroutine in the event loop of the models' clients.

        The future of its result is given at once, so that the caller can do other things.
        """
        # Opened before the coroutine is made: else a failed opening leaves one that nothing awaits.
        models = self.models
        return self._thread.begin(work(models))

    def stream(
        self, work: Callable[[ModelClients, Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine in the event loop of the models' clients; gives values as they come.

        Each list holds the values that are ready, so that scores are shown while others are
        awaited; see `LoopThread.stream`.
        """
        models = self.models
        return self._thread.stream(lambda emit: work(models, emit))

    def receipt(self) -> Receipt:
        """The receipt of all calls since the models were opened.

        An empty one where none was needed.
        """
        if self._models is None:
            return _NO_CALLS
        return self._models.receipt()

    def not_sent(self) -> Mapping[str, str]:
        """The parameters that a run's language models refuse, with the endpoint's reason for each.

        Reports name them: scores were not judged with the temperature that the user set.
        """
        # Of several judges that refuse the same parameter the last one's reason is kept.
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
        """Closes the connections to the model; it connects anew when it is asked again.

        A chat can thus be used again after a ``with`` block.
        """
        self.session.close()

    def import_packages(self) -> None:
        """Imports the packages that questions to the model need, before any question is paid.

        A package that is missing is an error then, and not after the first answers.
        """
        self.session.import_packages()

    close = __exit__

    @property
    def name(self) -> str:
        """The model's name by its settings, known before a connection is opened.

        Fingerprints of validators and announcements to users need the name before anything is
        asked.
        """
        return self.settings().endpoint.model

    @property
    def temperature(self) -> float | None:
        """The temperature that the model is asked with; None where none is sent.

        Operators that draw several texts get the same text each time at a temperature of 0.
        """
        return self.settings().endpoint.temperature

    @property
    def price(self) -> Price | None:
        """The price of the model's tokens; None where it is unknown.

        An ablation prices the answers of each variant by it.
        """
        return price_for(self.settings().endpoint)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that the model's answers depend on, for manifests and cache keys.

        See `Endpoint.identity`.
        """
        return self.settings().endpoint.identity()

    def booked_under(self, purpose: str) -> Chat:
        """The same model, connection and cache, whose calls are booked under another purpose.

        Receipts then show what each operator or metric spent.
        """
        return replace(self, purpose=purpose)

    def receipt(self) -> Receipt | None:
        """The receipt of the model's calls so far; None when it was never asked.

        Operators that bring a model of their own show with it what they spent.
        """
        if not self.session.is_open:
            return None
        return self.session.receipt()

    def complete(self, messages: Sequence[Message]) -> str:
        """The text that the model answers to a conversation, or answered before.

        Code of users and operators that know only `ChatModel` ask in this way.
        """
        return self.ask(messages).text

    def ask(
        self, messages: Sequence[Message], *, repeat: int = 0, schema: Schema[Any] | None = None
    ) -> Reply[Any]:
        """Asks the model, or takes the answer that the cache has; blocks until it is there.

        Code without an event loop can ask in this way, from any thread.

        Args:
            repeat: which of several answers to the same question, from 0.
            schema: what the answer must be, where it is not a text.
        """
        self.settings()  # raises where nothing may be asked
        return self.session.run(partial(self._ask_first_model, messages, schema, repeat))

    async def _ask_first_model(
        self,
        messages: Sequence[Message],
        schema: Schema[Any] | None,
        repeat: int,
        models: ModelClients,
    ) -> Reply[Any]:
        """Asks the first of a run's language models, in the event loop of its clients.

        A panel of models beside it is for judging: generated texts come from one model.
        """
        chat = models.chats[0]
        return await chat.ask(messages, schema=schema, purpose=self.purpose, repeat=repeat)

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        """The value of a schema that the model answers.

        For operators and metrics that need nothing else of a reply, neither its text nor its cost.
        """
        reply: Reply[ValueT] = self.ask(messages, schema=schema)
        return reply.value


def chat_of(settings: LLMSettings, *, budget: Budget | None = None) -> Chat:
    """A language model by its settings, with a session of its own, for code without an event loop.

    A cap on costs that could not be kept is refused at once, not in the middle of the work.
    """
    if budget is not None and budget.is_capped:
        check_cap(settings.endpoint)
    session = LLMSession(lambda: open_models(settings, budget=budget))
    return Chat(session=session, settings=lambda: settings)
