"""The one thing that ragbench asks of a language model: an answer to messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["ChatModel", "Message"]


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
