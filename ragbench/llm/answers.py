"""What an answer of an endpoint holds, and what follows from an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from ragbench.core.chat import Usage
from ragbench.errors import LLMRefusedError, LLMTruncatedError
from ragbench.masking import mask_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    text: str
    finish_reason: str
    """Why it ended, as the endpoint says; empty where it does not."""
    model: str
    """The model, as the endpoint names it; empty where it does not."""
    usage: Usage
    cost: Decimal | None = None
    """What the endpoint says it charged, in US dollars; None where it says nothing."""


class EmptyAnswerError(Exception):
    """A successful answer that holds none: no JSON, no choice, no text."""


_COST_HEADER = "x-litellm-response-cost"
"""In which LiteLLM's proxy reports what a call cost, in US dollars."""


def decoded(answer: Answer) -> Mapping[str, Any]:
    """The JSON object of an answer; a cost that stands in a header is put beside its tokens."""
    try:
        body = cast("object", json.loads(answer.body, strict=False))
    except (ValueError, RecursionError):
        raise EmptyAnswerError("an answer that is no JSON") from None
    if not isinstance(body, dict):
        raise EmptyAnswerError("an answer that is not a JSON object")
    found = cast("dict[str, Any]", body)
    usage = found.get("usage")
    if _COST_HEADER in answer.headers and isinstance(usage, dict):
        cast("dict[str, Any]", usage).setdefault("cost", answer.headers[_COST_HEADER])
    return found


def completion_of(body: Mapping[str, Any]) -> Completion:
    choice = _choice(body)
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
        raise _cut_off(text, usage_of(body))
    if not text.strip():
        raise EmptyAnswerError("an answer without text")
    return Completion(
        text=text,
        finish_reason=reason if isinstance(reason, str) else "",
        model=_text(body.get("model")),
        usage=usage_of(body),
        cost=reported_cost(body),
    )


_THINKS = re.compile(r"\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)


def _cut_off(text: str, usage: Usage) -> LLMTruncatedError:
    thinks = usage.reasoning_tokens > 0 or (_THINKS.match(text) is not None and "</" not in text)
    advice = (
        "the answer was cut off while the model was still thinking: raise reasoning_tokens, or "
        "lower reasoning_effort"
        if thinks
        else "the answer was cut off at the limit of its length: raise max_tokens"
    )
    error = LLMTruncatedError(advice, reply=text)
    error.reasoned = thinks
    return error


def _choice(body: Mapping[str, Any]) -> dict[str, Any]:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise EmptyAnswerError("an answer without choices")
    choice = cast("dict[str, Any]", choices[0])
    error = choice.get("error")
    if isinstance(error, dict):  # a gateway whose provider broke off
        message = cast("dict[str, Any]", error).get("message")
        raise EmptyAnswerError(f"an error in place of an answer: {_short(str(message))}")
    return choice


def usage_of(body: Mapping[str, Any]) -> Usage:
    """The tokens that an answer says it took.

    Hidden reasoning is billed as part of the answer. Some endpoints count it in
    ``completion_tokens``, some only in ``total_tokens``: the larger count is taken.
    """
    raw = body.get("usage")
    if not isinstance(raw, dict):
        return Usage(reported=False)
    usage = cast("dict[str, Any]", raw)
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    if prompt is None or (completion is None and total != prompt):
        return Usage(reported=False)
    said = completion or 0
    billed = max(said, (total or 0) - prompt)
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=billed,
        cached_prompt_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=min(max(reasoning, billed - said), billed),
    )


def reported_cost(body: Mapping[str, Any]) -> Decimal | None:
    """What an answer says it cost, in US dollars; None where it does not say.

    Sources: OpenRouter's ``usage.cost`` (with a key of one's own at the provider,
    ``cost_details.upstream_inference_cost`` comes on top); LiteLLM's header.
    """
    raw = body.get("usage")
    usage = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    cost = _amount(usage.get("cost"))
    if cost is None or usage.get("is_byok") is not True:
        return cost
    details = usage.get("cost_details")
    upstream = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    return cost + (_amount(upstream.get("upstream_inference_cost")) or Decimal(0))


def _amount(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        amount = Decimal(str(value))
    except ArithmeticError:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    known = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    return _count(known.get(name)) or 0


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = [
            cast("dict[str, Any]", part).get("text") for part in parts if isinstance(part, dict)
        ]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


_SHOWN = 300


def shortened(line: str) -> str:
    return f"{line[:_SHOWN]} ..." if len(line) > _SHOWN else line


def _short(text: str) -> str:
    return shortened(" ".join(mask_text(text).split()))


class Meaning(Enum):
    """What follows from an answer."""

    ANSWERED = "answered"
    RATE_LIMITED = "rate limited"
    """Too many calls, or an overload; the same request will be answered later."""
    BROKEN = "broken"
    """A server error; the same request may be answered next time."""
    UNANSWERED = "unanswered"
    REFUSED = "refused"
    """A filter declines this prompt."""
    NO_ACCESS = "no access"
    """Key, model, address or quota: every call would end so."""
    REJECTED = "rejected"


_RETRIED = frozenset({408, 409, 425})
_OVERLOADED = 529
"""Anthropic's status for it."""
_NO_MONEY = re.compile(
    r"insufficient_quota|insufficient (?:credit|balance|funds)|credit balance is too low|"
    r"billing_hard_limit|billing_not_active",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"exceeded your current quota|billing", re.IGNORECASE)
_A_DAY = re.compile(r"PerDay|per_day", re.IGNORECASE)
_LIMIT_ZERO = re.compile(r"\blimit: 0\b")
_FILTERED = re.compile(r"content_filter|content management policy|content_policy", re.IGNORECASE)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|literal_error")


def meaning_of(answer: Answer, *, has_answered: bool) -> Meaning:
    status = effective_status(answer)
    if 200 <= status < 300:
        return Meaning.ANSWERED
    if status == 429:
        return Meaning.NO_ACCESS if _is_used_up(answer.body) else Meaning.RATE_LIMITED
    if status == 501 or (status >= 500 and _ABOUT_FORMAT.search(answer.body)):
        return Meaning.REJECTED  # some servers fail over what they do not know
    if status == _OVERLOADED or (status == 503 and "overloaded" in answer.body):
        return Meaning.RATE_LIMITED
    if status >= 500 or status in _RETRIED:
        return Meaning.BROKEN
    if status in (401, 402) or (status == 400 and _NO_MONEY.search(answer.body)):
        return Meaning.NO_ACCESS
    if _FILTERED.search(answer.body):
        return Meaning.REFUSED
    if status in (403, 404, 405) and not has_answered:
        return Meaning.NO_ACCESS
    return Meaning.REJECTED


def _is_used_up(body: str) -> bool:
    """Whether a 429 says that there is nothing left for hours, or for ever.

    Gemini words every limit alike, "You exceeded your current quota, please check your
    plan and billing details": which one it is stands in ``quotaId``. OpenAI uses the same words
    when there is no money, with the code ``insufficient_quota``.
    """
    error = error_of(body) or {}
    codes = f"{error.get('code')} {error.get('type')}"
    if _NO_MONEY.search(codes) or _NO_MONEY.search(_message(error, body)):
        return True
    quotas = [
        f"{violation.get('quotaId', '')} {violation.get('quotaMetric', '')}"
        for detail in _details(error)
        for violation in _objects(detail.get("violations"))
    ]
    text = _message(error, body)
    if _LIMIT_ZERO.search(text):  # this model is not part of the plan
        return True
    if quotas:
        return any(_A_DAY.search(quota) for quota in quotas)
    if requested_wait(Answer(status=429, headers={}, body=body)) is not None:
        return False
    if error.get("status") == "RESOURCE_EXHAUSTED":
        return False
    return _QUOTA.search(text) is not None


_ASKED_TO_WAIT = re.compile(
    r"(?:retry|try again) (?:in|after) (?:(?P<minutes>\d+)m)?(?P<amount>\d+(?:\.\d+)?) ?"
    r"(?P<unit>ms|s|sec|m|min)",
    re.IGNORECASE,
)
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0}
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def requested_wait(answer: Answer) -> float | None:
    """Seconds that the body of an error asks to wait; None where it does not.

    Read are Google's ``RetryInfo`` and sentences such as "Please try again in 1.2s".
    """
    error = error_of(answer.body) or {}
    for detail in _details(error):
        found = _DELAY.fullmatch(str(detail.get("retryDelay", "")))
        if found is not None:
            return float(found[1])
    asked = _ASKED_TO_WAIT.search(_message(error, answer.body))
    if asked is None:
        return None
    minutes = 60.0 * int(asked["minutes"] or 0)
    return minutes + float(asked["amount"]) * _UNITS[asked["unit"].lower()]


def _details(error: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return _objects(error.get("details"))


def _objects(value: object) -> Iterator[dict[str, Any]]:
    for item in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield cast("dict[str, Any]", item)


def effective_status(answer: Answer) -> int:
    """The status, also where a gateway sends an error with status 200."""
    if answer.status != 200 or '"error"' not in answer.body:
        return answer.status
    error = error_of(answer.body)
    if error is None or '"choices"' in answer.body:
        return answer.status
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def detail_of(answer: Answer) -> str:
    """What an error says of itself, in a line of any length."""
    return " ".join(_message(error_of(answer.body) or {}, answer.body).split())


def _message(error: Mapping[str, Any], body: str) -> str:
    message = error.get("message")
    return message if isinstance(message, str) else body


def error_of(body: str) -> dict[str, Any] | None:
    """The error object of a body; None when it has none.

    Google wraps it into a list; gateways put a provider's whole body into their message.
    """
    try:
        value = cast("object", json.loads(body, strict=False))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    error = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, dict):
        return None
    found = cast("dict[str, Any]", error)
    message = found.get("message")
    inner = error_of(message) if isinstance(message, str) and message[:1] in "{[" else None
    return found if inner is None else {**found, **inner}
