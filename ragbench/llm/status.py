"""What an HTTP status of an endpoint means for the call, and for all others."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, cast

from ragbench.llm.answer import Answer

__all__ = ["Meaning", "detail_of", "effective_status", "meaning_of"]

_RETRIED = frozenset({408, 409, 425})
_NO_QUOTA = re.compile(r"insufficient_quota|billing|exceeded your current quota", re.IGNORECASE)
_FILTERED = re.compile(r"content_filter|content management policy|content_policy", re.IGNORECASE)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|literal_error")
_SHOWN = 300


class Meaning(Enum):
    """What follows from an answer."""

    ANSWERED = "answered"
    RATE_LIMITED = "rate limited"
    """Too many calls; the same request will be answered later."""
    BROKEN = "broken"
    """A server error; the same request may be answered next time."""
    UNANSWERED = "unanswered"
    """No whole answer came."""
    REFUSED = "refused"
    """A filter declines this prompt."""
    NO_ACCESS = "no access"
    """Key, model, address or quota: every call would end so."""
    REJECTED = "rejected"
    """This request is not accepted."""


def meaning_of(answer: Answer, *, has_answered: bool) -> Meaning:
    """What an answer means.

    Args:
        answer: the answer.
        has_answered: whether the endpoint has answered a call well before. If so, a 403 or 404
            concerns one request: a firewall that dislikes its words, a gateway that lost a server.
    """
    status = effective_status(answer)
    if 200 <= status < 300:
        return Meaning.ANSWERED
    if status == 429:
        return Meaning.NO_ACCESS if _NO_QUOTA.search(answer.body) else Meaning.RATE_LIMITED
    if status == 501 or (status >= 500 and _ABOUT_FORMAT.search(answer.body)):
        return Meaning.REJECTED  # some servers fail over what they do not know
    if status >= 500 or status in _RETRIED:
        return Meaning.BROKEN
    if status in (401, 402):
        return Meaning.NO_ACCESS
    if _FILTERED.search(answer.body):
        return Meaning.REFUSED
    if status in (403, 404, 405) and not has_answered:
        return Meaning.NO_ACCESS
    return Meaning.REJECTED


def effective_status(answer: Answer) -> int:
    """The status, also where a gateway sends an error with status 200."""
    if answer.status != 200 or '"error"' not in answer.body:
        return answer.status
    error = _error(answer.body)
    if error is None or '"choices"' in answer.body:
        return answer.status
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def detail_of(answer: Answer) -> str:
    """What an error says of itself, in a line."""
    error = _error(answer.body)
    message = None if error is None else error.get("message")
    text = message if isinstance(message, str) else answer.body
    line = " ".join(text.split())
    return f"{line[:_SHOWN]} ..." if len(line) > _SHOWN else line


def _error(body: str) -> dict[str, Any] | None:
    try:
        value = cast("object", json.loads(body, strict=False))
    except (ValueError, RecursionError):
        return None
    error = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return {"message": error}
    return cast("dict[str, Any]", error) if isinstance(error, dict) else None
