"""The one thing that ragbench asks of a language model: an answer to messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ragbench.llm.reply import Reply

__all__ = ["ChatModel", "Message", "SamplingChat"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@runtime_checkable
class ChatModel(Protocol):
    """A language model. Stages that need one are given it; they never build one."""

    @property
    def name(self) -> str:
        """How reports and errors call it."""
        ...

    def complete(self, messages: Sequence[Message]) -> str:
        """Answers a conversation.

        Args:
            messages: the conversation, oldest first; at least one.

        Returns:
            The text of the answer.

        Raises:
            RagbenchError: there is no answer: the model cannot be reached, refuses or is cut off.
        """
        ...


@runtime_checkable
class SamplingChat(ChatModel, Protocol):
    """A language model that tells what an answer took, and can be asked the same again."""

    @property
    def temperature(self) -> float | None:
        """0 when it always gives its likeliest answer; None when it is not said."""
        ...

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        """Answers a conversation.

        Args:
            messages: the conversation, oldest first; at least one.
            repeat: which of several answers to the same conversation, from 0.

        Raises:
            RagbenchError: there is no answer.
        """
        ...
