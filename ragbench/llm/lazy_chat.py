"""A model from settings that is connected to when it is first asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from ragbench.core.chat import Message, Reply, SamplingChat
from ragbench.llm.blocking import BlockingChat
from ragbench.llm.budget import Budget, Receipt, check_cap, price_for
from ragbench.llm.endpoint import Price
from ragbench.llm.schema import Schema
from ragbench.llm.session import open_client
from ragbench.llm.settings import LLMSettings

ValueT = TypeVar("ValueT")


class LateChat:
    """A `ragbench.core.chat.SamplingChat` that costs nothing until it is used.

    What it is (model, temperature, identity) is known at once; keys are read, the file of kept
    answers and connections are opened with the first question.
    """

    def __init__(
        self, settings: LLMSettings, *, purpose: str = "chat", budget: Budget | None = None
    ) -> None:
        if budget is not None and budget.is_capped:
            check_cap(settings.endpoint)
        self._settings = settings
        self._budget = budget
        self._purpose = purpose
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._chat: BlockingChat | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self._settings.endpoint.model

    @property
    def temperature(self) -> float | None:
        """See `ragbench.core.chat.SamplingChat.temperature`."""
        return self._settings.endpoint.temperature

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None where that is not known."""
        return price_for(self._settings.endpoint)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that an answer depends on; see `Endpoint.identity`."""
        return self._settings.endpoint.identity()

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.core.chat.ChatModel.complete`."""
        return self.ask(messages).text

    def ask(
        self, messages: Sequence[Message], *, repeat: int = 0, purpose: str | None = None
    ) -> Reply[str]:
        """See `complete` and `ragbench.core.chat.SamplingChat.ask`."""
        return self._opened().ask(messages, repeat=repeat, purpose=purpose)

    def ask_structure(
        self, messages: Sequence[Message], schema: Schema[ValueT], *, purpose: str | None = None
    ) -> ValueT:
        """See `ragbench.llm.replies.StructuredChat.ask_structure`."""
        return self._opened().ask_structure(messages, schema, purpose=purpose)

    def booked_under(self, purpose: str) -> SamplingChat:
        """The same model, connection and cache; its calls are booked under another purpose."""
        return _Booked(chat=self, purpose=purpose)

    def receipt(self) -> Receipt | None:
        """What was spent so far; None when it was never asked."""
        return None if self._chat is None else self._chat.receipt()

    def close(self) -> None:
        """Closes all connections; it opens anew when it is asked again."""
        with self._lock:
            self._chat = None
            self._stack.close()

    def _opened(self) -> BlockingChat:
        with self._lock:
            if self._chat is None:
                settings, budget = self._settings, self._budget
                chat = BlockingChat(
                    lambda: open_client(settings, budget=budget), purpose=self._purpose
                )
                self._chat = self._stack.enter_context(chat)
            return self._chat


@dataclass(frozen=True, kw_only=True, slots=True)
class _Booked:
    """One purpose's view of a model."""

    chat: LateChat
    purpose: str

    @property
    def name(self) -> str:
        return self.chat.name

    @property
    def temperature(self) -> float | None:
        """See `ragbench.core.chat.SamplingChat.temperature`."""
        return self.chat.temperature

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.chat.identity

    def complete(self, messages: Sequence[Message]) -> str:
        return self.ask(messages).text

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        return self.chat.ask_structure(messages, schema, purpose=self.purpose)

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        return self.chat.ask(messages, repeat=repeat, purpose=self.purpose)
