"""The language model of a command, opened when something first needs it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.llm.blocking import BlockingChat
    from ragbench.llm.chat import Message
    from ragbench.llm.settings import LLMSettings

__all__ = ["LanguageModel", "language_model"]


@dataclass(slots=True)
class LanguageModel:
    """A `ragbench.llm.chat.ChatModel` from the environment and ragbench.yaml."""

    purpose: str
    """What its calls are booked under."""
    _stack: ExitStack
    _settings: Callable[[], LLMSettings] | None = None
    """Gives its settings; those of the environment and ragbench.yaml when there is none."""
    _chat: BlockingChat | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The model's name.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        return self._opened().name

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.llm.chat.ChatModel.complete`.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        return self._opened().complete(messages)

    def _opened(self) -> BlockingChat:
        if self._chat is None:
            from ragbench.llm.blocking import BlockingChat
            from ragbench.llm.open_client import open_client
            from ragbench_cli.llm_options import llm_settings

            settings = (self._settings or llm_settings)()
            chat = BlockingChat(lambda: open_client(settings), purpose=self.purpose)
            self._chat = self._stack.enter_context(chat)
        return self._chat


@contextmanager
def language_model(purpose: str) -> Generator[LanguageModel]:
    """Gives the model for the length of a block; it costs nothing until it is used.

    Args:
        purpose: what its calls are booked under.
    """
    with ExitStack() as stack:
        yield LanguageModel(purpose, stack)
