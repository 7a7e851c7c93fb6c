"""The models of a command, opened when something first needs one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.llm.chat import ChatModel, Message
    from ragbench.llm.models import Models
    from ragbench.llm.session import LLMSession
    from ragbench.llm.settings import LLMSettings

__all__ = ["LanguageModel", "language_model"]


@dataclass(slots=True)
class LanguageModel:
    """A `ragbench.llm.chat.ChatModel` that is opened with a session when it is first asked."""

    session: Callable[[], LLMSession]
    """Gives the session; it may fail when no model is named."""
    purpose: str
    """What its calls are booked under."""

    @property
    def name(self) -> str:
        """The model's name.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        return self._chat().name

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.llm.chat.ChatModel.complete`.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        return self._chat().complete(messages)

    def _chat(self) -> ChatModel:
        return self.session().chat(self.purpose)


@contextmanager
def language_model(
    purpose: str, settings: Callable[[], LLMSettings] | None = None
) -> Generator[LanguageModel]:
    """Gives a model for the length of a block; it costs nothing until it is used.

    Args:
        purpose: what its calls are booked under.
        settings: gives its settings; those of the environment and ragbench.yaml when not given.
    """
    from ragbench.llm.models import open_models
    from ragbench.llm.session import LLMSession
    from ragbench_cli.llm_options import llm_settings

    known: list[LLMSettings] = []

    def opening() -> AbstractAsyncContextManager[Models]:
        return open_models(known[0])

    with LLMSession(opening) as session:

        def opened() -> LLMSession:
            if not known:
                known.append((settings or llm_settings)())
            return session

        yield LanguageModel(opened, purpose)
