"""Questions about passages for a language model, and its answers, trusted in nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from ragbench.errors import InterfaceError

__all__ = ["numbered_passages", "numbers_in", "text_of"]

_FENCE = re.compile(r"```[\w-]*\s*(.*?)```", re.DOTALL)


def numbered_passages(question: str, texts: Sequence[str]) -> str:
    """The question and the passages, numbered from 1, as JSON: no text can pass for an order."""
    passages = [{"number": number, "text": text} for number, text in enumerate(texts, start=1)]
    return json.dumps({"question": question, "passages": passages}, ensure_ascii=False)


def numbers_in(answer: str, key: str, count: int) -> list[int]:
    """The numbers of passages in an answer such as ``{"keep": [1, 3]}``.

    Args:
        answer: what the model said; words around the JSON object are passed over.
        key: where the list stands.
        count: how many passages there are.

    Raises:
        InterfaceError: there is no such list in it, or a number that no passage has.
    """
    value = _json_object(answer).get(key)
    if not isinstance(value, list):
        raise InterfaceError(f"the model's answer has no list '{key}': {_shown(answer)}")
    numbers: list[int] = []
    for number in cast("list[Any]", value):
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
            raise InterfaceError(
                f"the model's answer names passage {number!r}; there are {count}: {_shown(answer)}"
            )
        numbers.append(number)
    return numbers


def text_of(answer: str) -> str:
    """A plain text that a model was asked for.

    Raises:
        InterfaceError: it is empty.
    """
    text = answer.strip()
    if not text:
        raise InterfaceError("the model's answer is empty")
    return text


def _json_object(answer: str) -> dict[str, Any]:
    fenced = _FENCE.search(answer)
    text = fenced[1] if fenced else answer
    start = text.find("{")
    if start >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    raise InterfaceError(f"the model's answer is no JSON object: {_shown(answer)}")


def _shown(answer: str) -> str:
    text = " ".join(answer.split())
    return f"'{text[:120]} ...'" if len(text) > 120 else f"'{text}'"
