"""Whom judged metrics ask: what they need of a client, so that a dry run can stand in for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ragbench.llm.chat import Message
from ragbench.llm.embeddings import Embeddings
from ragbench.llm.reply import Reply
from ragbench.llm.schema import Schema

__all__ = ["Asks", "Embeds", "Panel"]


class Asks(Protocol):
    """Answers questions with structure; see `ragbench.llm.client.LLMClient.ask`."""

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any],
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        """Asks for a structure."""
        ...


class Embeds(Protocol):
    """Gives vectors; see `ragbench.llm.embeddings.EmbeddingClient.embed`."""

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        """Embeds texts."""
        ...


class Panel(Protocol):
    """What is open; `ragbench.llm.models.Models` is one."""

    @property
    def chat(self) -> Asks | None:
        """The language model."""
        ...

    @property
    def embeddings(self) -> Embeds | None:
        """The model for embeddings."""
        ...
