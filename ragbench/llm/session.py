"""The models that a run asks, opened together, tried first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ragbench.core.calling import LoopThread
from ragbench.core.chat import ChatModel, Message, Reply
from ragbench.errors import ConfigError, LLMError, LLMRefusedError, LLMReplyError, LLMTruncatedError
from ragbench.llm.budget import Budget, Receipt
from ragbench.llm.cache import ResponseCache, open_cache
from ragbench.llm.client import LLMClient
from ragbench.llm.concurrency import Clock
from ragbench.llm.embeddings import EmbeddingClient
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.schema import Schema, schema_of
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import Transport


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelClients:
    """Open clients, in the event loop that asks."""

    chat: LLMClient | None = None
    """None when no language model is named."""
    embeddings: EmbeddingClient | None = None
    """None when no model for embeddings is named."""
    panel: tuple[LLMClient, ...] = ()
    """Judges beside the first."""

    @property
    def jurors(self) -> tuple[tuple[str, ModelClients], ...]:
        """The judges of a panel, the first one included, by name; empty without a panel."""
        if self.chat is None or not self.panel:
            return ()
        chats = (self.chat, *self.panel)
        names = juror_names([chat.endpoint for chat in chats])
        return tuple(
            (name, ModelClients(chat=chat, embeddings=self.embeddings))
            for name, chat in zip(names, chats, strict=True)
        )

    def receipt(self) -> Receipt:
        clients = [c for c in (self.chat, *self.panel, self.embeddings) if c is not None]
        return Receipt.of(client.receipt() for client in clients)


def juror_names(endpoints: Sequence[Endpoint]) -> list[str]:
    """What reports call the judges of a panel: by their models, alike ones numbered."""
    models = [endpoint.model for endpoint in endpoints]
    return [
        model if models.count(model) == 1 else f"{model} #{models[: at + 1].count(model)}"
        for at, model in enumerate(models)
    ]


@asynccontextmanager
async def open_models(
    chat: LLMSettings | None,
    embeddings: LLMSettings | None = None,
    *,
    panel: Sequence[LLMSettings] = (),
    budget: Budget | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[ModelClients]:
    """Opens the clients and their cache in the running event loop, and closes them."""
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

            def client_of(settings: LLMSettings) -> LLMClient:
                cache = cache_of(settings)
                return LLMClient(settings.endpoint, limits=settings.limits, cache=cache, **shared)

            if chat is not None:
                asked = await clients.enter_async_context(client_of(chat))
            jurors = [await clients.enter_async_context(client_of(juror)) for juror in panel]
            if embeddings is not None:
                embedding = await clients.enter_async_context(
                    EmbeddingClient(
                        embeddings.endpoint,
                        limits=embeddings.limits,
                        cache=cache_of(embeddings),
                        **shared,
                    )
                )
            yield ModelClients(chat=asked, embeddings=embedding, panel=tuple(jurors))


@asynccontextmanager
async def open_client(
    settings: LLMSettings,
    *,
    budget: Budget | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[LLMClient]:
    """Opens a client and its cache in the running event loop, and closes both."""
    with open_cache(settings.cache, max_bytes=settings.cache_bytes) as cache:
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


_TRIES = 3
_PURPOSE = "preflight"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capital:
    """What the model is asked for as structure."""

    city: str
    letters: int


async def ask_word(client: LLMClient, *, purpose: str = _PURPOSE, repeat: int = 0) -> Reply[str]:
    asked = [Message(role="user", content="Reply with the single word: ready")]
    return await client.ask(asked, purpose=purpose, repeat=repeat)


async def ask_structure(
    client: LLMClient, *, purpose: str = _PURPOSE, repeat: int = 0
) -> Reply[Capital]:
    """Asks for an object of two fields."""
    question = "Which city is the capital of France, and how many letters has its name?"
    asked = [Message(role="user", content=question)]
    return await client.ask(asked, schema=schema_of(Capital), purpose=purpose, repeat=repeat)


async def preflight(models: ModelClients, *, chat: bool, embeddings: bool) -> None:
    """Sees whether the models answer as a run needs it."""
    if chat and models.chat is not None:
        for client in (models.chat, *models.panel):
            await _structured(client)
    if embeddings and models.embeddings is not None:
        try:
            await models.embeddings.embed(["ready"], purpose=_PURPOSE)
        except LLMError as error:
            raise _with_model(error, "the model for embeddings does not answer") from error


async def _structured(client: LLMClient) -> None:
    """One structured answer says all: it is reached, it answers, structure works.

    A single odd answer proves nothing: it is asked up to three times, also to settle in which way
    it follows a schema. Otherwise all the first questions of a run would find that out.
    """
    for repeat in range(_TRIES):
        try:
            await ask_structure(client, repeat=repeat)
        except (LLMReplyError, LLMRefusedError, LLMTruncatedError) as error:
            if repeat == _TRIES - 1:
                what = "the language model answers, but not in the structure that is needed"
                raise _with_model(error, what) from error
        except LLMError as error:
            raise _with_model(error, "the language model does not answer") from error
        else:
            if client.structured is not None:
                return


def _with_model(error: LLMError, what: str) -> LLMError:
    """The same error, which says that nothing was judged; an error of one call stops nothing."""
    text = f"{what}, so nothing was judged: {error}. 'ragbench doctor --llm' says more"
    return type(error)(text, status=error.status, reply=error.reply, attempts=error.attempts)


ValueT = TypeVar("ValueT")


class LLMSession:
    """Models for the length of a run, open from the first time that one is needed.

    The clients live in one event loop in a thread of its own: operators and judges ask through the
    same connections, cache, cap on cost and books, from whichever thread they run in.
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[ModelClients]]) -> None:
        self._opening = opening
        self._thread = LoopThread()
        self._stack = AsyncExitStack()
        self._models: ModelClients | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._models is not None:
            self._models = None
            try:
                self._thread.run(self._stack.aclose())
            finally:
                self._thread.stop()

    @property
    def models(self) -> ModelClients:
        """The clients; opened now where they are not yet."""
        if self._models is None:
            self._thread.start()
            try:
                self._models = self._thread.run(self._open())
            except BaseException:
                self._thread.stop()
                raise
        return self._models

    def chat(self, purpose: str, *, version: str = "") -> ChatModel:
        """A `ChatModel` for code that runs in no event loop."""
        return _Chat(session=self, purpose=purpose, version=version)

    def run(self, work: Callable[[ModelClients], Coroutine[Any, Any, ValueT]]) -> ValueT:
        """Runs a coroutine beside the clients, and waits for it."""
        models = self.models
        return self._thread.run(work(models))

    def stream(
        self, work: Callable[[ModelClients, Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine beside the clients and gives what it tells; see `LoopThread.stream`."""
        models = self.models
        return self._thread.stream(lambda tell: work(models, tell))

    def receipt(self) -> Receipt:
        return Receipt.of(()) if self._models is None else self._models.receipt()

    def not_sent(self) -> Mapping[str, str]:
        """Parameters that the language model refuses, with what it says of them."""
        models = self._models
        chats = () if models is None else (models.chat, *models.panel)
        found: dict[str, str] = {}
        for chat in chats:
            found |= {} if chat is None else chat.not_sent
        return found

    async def _open(self) -> ModelClients:
        return await self._stack.enter_async_context(self._opening())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chat:
    """One purpose's view of a session."""

    session: LLMSession
    purpose: str
    version: str

    @property
    def name(self) -> str:
        client = self.session.models.chat
        if client is None:
            raise ConfigError("no language model is named")
        return client.endpoint.model

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.core.chat.ChatModel.complete`."""

        async def ask(models: ModelClients) -> str:
            if models.chat is None:
                raise ConfigError("no language model is named")
            reply = await models.chat.ask(messages, purpose=self.purpose, version=self.version)
            return reply.text

        return self.session.run(ask)

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        """See `ragbench.llm.replies.StructuredChat.ask_structure`."""

        async def ask(models: ModelClients) -> ValueT:
            if models.chat is None:
                raise ConfigError("no language model is named")
            reply = await models.chat.ask(
                messages, schema=schema, purpose=self.purpose, version=self.version
            )
            return reply.value

        return self.session.run(ask)
