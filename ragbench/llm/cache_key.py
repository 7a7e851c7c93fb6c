"""The name of a question: equal exactly when the same judge is asked the same thing again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from ragbench.llm.chat import Message

__all__ = ["cache_key"]

_FORMAT = 1


def cache_key(
    identity: Mapping[str, Any],
    messages: Sequence[Message],
    *,
    schema: Mapping[str, Any] | None = None,
    version: str = "",
    repeat: int = 0,
) -> bytes:
    """Digest of everything that an answer depends on.

    Args:
        identity: the judge's; see `Endpoint.identity`.
        messages: the whole conversation.
        schema: the JSON schema that the answer must follow.
        version: of the metric or prompt that asks.
        repeat: which of several answers to the same question, from 0.

    Returns:
        32 bytes.
    """
    told = {
        "format": _FORMAT,
        "identity": identity,
        "messages": [[message.role, message.content] for message in messages],
        "schema": schema,
        "version": version,
        "repeat": repeat,
    }
    # ASCII: lone surrogates stay what they are, and no two texts become one.
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake2b(text.encode("ascii"), digest_size=32).digest()
