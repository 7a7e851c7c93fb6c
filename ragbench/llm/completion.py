"""From the body of an answer to what the model said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ragbench.errors import LLMRefusedError, LLMTruncatedError
from ragbench.llm.answer import Answer
from ragbench.llm.usage import Usage

__all__ = ["Completion", "EmptyAnswerError", "completion_of", "decoded", "usage_of"]

_SHOWN = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What a model said."""

    text: str
    finish_reason: str
    """Why it ended, as the endpoint says; empty where it does not."""
    model: str
    """The model, as the endpoint names it; empty where it does not."""
    usage: Usage


class EmptyAnswerError(Exception):
    """A successful answer that holds none: no JSON, no choice, no text."""


def decoded(answer: Answer) -> Mapping[str, Any]:
    """The JSON object of an answer.

    Raises:
        EmptyAnswerError: there is none.
    """
    try:
        body = cast("object", json.loads(answer.body, strict=False))
    except (ValueError, RecursionError):
        raise EmptyAnswerError("an answer that is no JSON") from None
    if not isinstance(body, dict):
        raise EmptyAnswerError("an answer that is no JSON object")
    return cast("dict[str, Any]", body)


def completion_of(body: Mapping[str, Any]) -> Completion:
    """What the model said.

    Raises:
        EmptyAnswerError: nothing.
        LLMRefusedError: it, or a filter, declined.
        LLMTruncatedError: it was cut off.
    """
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise EmptyAnswerError("an answer without choices")
    choice = cast("dict[str, Any]", choices[0])
    raw = choice.get("message")
    message = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    text = _text(message.get("content"))
    reason = choice.get("finish_reason")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        raise LLMRefusedError(f"the model declined: {_short(refusal)}", reply=refusal)
    if reason == "content_filter":
        raise LLMRefusedError("a content filter stopped the answer", reply=text)
    if reason == "length":
        raise LLMTruncatedError(
            "the answer was cut off at the limit of its length: raise max_tokens", reply=text
        )
    if not text.strip():
        raise EmptyAnswerError("an answer without text")
    return Completion(
        text=text,
        finish_reason=reason if isinstance(reason, str) else "",
        model=_text(body.get("model")),
        usage=usage_of(body),
    )


def usage_of(body: Mapping[str, Any]) -> Usage:
    """The tokens that an answer says it took."""
    raw = body.get("usage")
    if not isinstance(raw, dict):
        return Usage(reported=False)
    usage = cast("dict[str, Any]", raw)
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    if prompt is None or (completion is None and usage.get("total_tokens") != prompt):
        return Usage(reported=False)
    details = usage.get("prompt_tokens_details")
    cached = (
        _count(cast("dict[str, Any]", details).get("cached_tokens"))
        if (isinstance(details, dict))
        else 0
    )
    return Usage(
        prompt_tokens=prompt, completion_tokens=completion or 0, cached_prompt_tokens=cached or 0
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(content: object) -> str:
    """Text, also where a gateway gives it in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = [
            cast("dict[str, Any]", part).get("text") for part in parts if isinstance(part, dict)
        ]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:_SHOWN]} ..." if len(line) > _SHOWN else line
