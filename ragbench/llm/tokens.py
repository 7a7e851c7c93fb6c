"""How many tokens a request has, before it is sent: about, and at most."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ragbench.llm.chat import Message

__all__ = ["TokenCounter", "most_prompt_tokens", "prompt_tokens"]

_A_MESSAGE = 4
"""Tokens around a message in usual chat templates."""
_MOST_A_MESSAGE = 16
_MOST_A_REQUEST = 256
"""What a template may add of its own: the date, a default system prompt."""


class TokenCounter(Protocol):
    """Counts the tokens of a text; `ragbench.text.token_counter` has some."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    @property
    def approximate(self) -> bool:
        """Whether its counts are an estimate."""
        ...

    def count(self, text: str) -> int:
        """The number of tokens."""
        ...


def prompt_tokens(
    messages: Sequence[Message], counter: TokenCounter, schema: Mapping[str, Any] | None = None
) -> int:
    """About how many tokens a prompt takes, the schema counted as text."""
    told = sum(counter.count(message.content) + _A_MESSAGE for message in messages)
    return told + (0 if schema is None else counter.count(json.dumps(schema)))


def most_prompt_tokens(payload: Mapping[str, Any]) -> int:
    """A number of tokens that a request does not exceed.

    Every token of a byte-level or SentencePiece vocabulary stands for at least one byte of UTF-8,
    so the bytes bound the tokens, whatever the vocabulary. A chat template's own words come on top.

    Args:
        payload: the body of the request.
    """
    messages = payload.get("messages", ())
    others = {name: value for name, value in payload.items() if name != "messages"}
    # JSON escapes make the text longer, never shorter.
    told = len(json.dumps([messages, others], ensure_ascii=False).encode("utf-8", "replace"))
    return told + _MOST_A_MESSAGE * len(messages) + _MOST_A_REQUEST
