"""What an answer of an endpoint holds, what follows from an error, and how much it takes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache, cached_property
from pkgutil import get_data
from typing import Any, NamedTuple, cast

from ragbench.core.chat import Usage
from ragbench.core.record import Record
from ragbench.errors import LLMRefusedError, LLMTruncatedError
from ragbench.masking import mask_text

_SHOWN = 300


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str

    @cached_property
    def error(self) -> dict[str, Any]:
        """What it says of an error; empty where it is none."""
        return _error(self.body)

    @property
    def message(self) -> str:
        """What an error says of itself, in a line of any length."""
        message = self.error.get("message")
        return " ".join((message if isinstance(message, str) else self.body).split())

    @cached_property
    def effective_status(self) -> int:
        """The status, also where a gateway sends an error with status 200."""
        is_error = self.status == 200 and '"error"' in self.body and '"choices"' not in self.body
        if not is_error or not self.error:
            return self.status
        code = self.error.get("code")
        return code if isinstance(code, int) and 400 <= code < 600 else 502


def _error(body: str) -> dict[str, Any]:
    """Google wraps it into a list; gateways put a provider's whole body into their message."""
    try:
        value: object = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return {}
    error = _dict(next(iter(_list(value)), value)).get("error")
    found = {"message": error} if isinstance(error, str) else _dict(error)
    message = found.get("message")
    inner = _error(message) if isinstance(message, str) and message[:1] in ("{", "[") else {}
    return {**found, **inner}


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [found for item in _list(value) if (found := _dict(item))]


class Completion(Record):
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
        found: object = json.loads(answer.body, strict=False)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise EmptyAnswerError("an answer that is not a JSON object")
    found = cast("dict[str, Any]", found)
    if _COST_HEADER in answer.headers:
        _dict(found.get("usage")).setdefault("cost", answer.headers[_COST_HEADER])
    return found


def completion_of(body: Mapping[str, Any]) -> Completion:
    choice = _dict(next(iter(_list(body.get("choices"))), None))
    if not choice:
        raise EmptyAnswerError("an answer without choices")
    if broken_off := _dict(choice.get("error")):  # a gateway's provider did
        said = _short(str(broken_off.get("message")))
        raise EmptyAnswerError(f"an error in place of an answer: {said}")
    message = _dict(choice.get("message"))
    text, reason = _text(message.get("content")), choice.get("finish_reason")
    if refusal := _text(message.get("refusal")):
        raise LLMRefusedError(f"the model declined: {_short(refusal)}", reply=refusal)
    if reason == "content_filter":
        raise LLMRefusedError("a content filter stopped the answer", reply=text)
    usage = usage_of(body)
    if reason == "length":
        thinks = usage.reasoning_tokens > 0 or bool(THINKS.match(text) and "</" not in text)
        error = LLMTruncatedError(_CUT_OFF[thinks], reply=text)
        error.reasoned = thinks
        raise error
    if not text.strip():
        raise EmptyAnswerError("an answer without text")
    return Completion(
        text=text,
        finish_reason=reason if isinstance(reason, str) else "",
        model=_text(body.get("model")),
        usage=usage,
        cost=reported_cost(body),
    )


THINKS = re.compile(r"\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
_CUT_OFF = {
    True: "the answer was cut off while the model was still thinking: raise reasoning_tokens, or "
    "lower reasoning_effort",
    False: "the answer was cut off at the limit of its length: raise max_tokens",
}
"""What helps, by whether the model thought."""


_CACHED = ("read", "creation")


def usage_of(body: Mapping[str, Any]) -> Usage:
    """The tokens that an answer says it took.

    Hidden reasoning is billed as part of the answer. Some endpoints count it in
    ``completion_tokens``, some only in ``total_tokens``: the larger count is taken.
    """
    usage = _dict(body.get("usage"))
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    if prompt is None or (completion is None and total != prompt):
        return Usage(reported=False)
    said = completion or 0
    reasoning = _count(_dict(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    cached = _count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0
    read, written = (_count(usage.get(f"cache_{name}_input_tokens")) or 0 for name in _CACHED)
    apart = read + written
    # Anthropic counts these beside the prompt, gateways in front of it some as a part.
    if apart and (apart > prompt or total == prompt + apart + said):
        prompt += apart
    billed = max(said, (total or 0) - prompt)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=billed,
        cached_prompt_tokens=cached or read,
        reasoning_tokens=min(max(reasoning or 0, billed - said), billed),
    )


def reported_cost(body: Mapping[str, Any]) -> Decimal | None:
    """What an answer says it cost, in US dollars; None where it does not say.

    Sources: OpenRouter's ``usage.cost`` (with a key of one's own at the provider,
    ``cost_details.upstream_inference_cost`` comes on top); LiteLLM's header.
    """
    usage = _dict(body.get("usage"))
    cost, details = _amount(usage.get("cost")), _dict(usage.get("cost_details"))
    if cost is None or usage.get("is_byok") is not True:
        return cost
    return cost + (_amount(details.get("upstream_inference_cost")) or Decimal(0))


def _amount(value: object) -> Decimal | None:
    with suppress(ArithmeticError):
        amount = Decimal(str(value))
        return amount if amount.is_finite() and amount >= 0 else None
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(content: object) -> str:
    texts = [part.get("text") for part in _dicts(content)] or [content]
    text = "".join(text for text in texts if isinstance(text, str))
    return text.encode(errors="replace").decode()  # models break off within a surrogate pair


def shortened(line: str, most: int = _SHOWN) -> str:
    return f"{line[:most]} ..." if len(line) > most else line


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


_NUMBER = r"(\d[\d,]*)"


@cache
def says(kind: str) -> re.Pattern[str]:
    """What endpoints say of something in their errors; see ``said.toml``."""
    rules = tomllib.loads((get_data("ragbench.llm", "said.toml") or b"").decode())
    return re.compile("|".join(rules[kind]).replace("{N}", _NUMBER), re.IGNORECASE)


_MEANINGS: tuple[tuple[Container[int], str, Meaning], ...] = (
    (range(200, 300), "", Meaning.ANSWERED),
    ({429}, "", Meaning.RATE_LIMITED),
    # Some servers fail over what they do not know.
    ({501}, "", Meaning.REJECTED),
    (range(500, 600), "failed_over_format", Meaning.REJECTED),
    ({529}, "", Meaning.RATE_LIMITED),  # Anthropic's status of an overload
    ({503}, "overloaded", Meaning.RATE_LIMITED),
    ({408, 409, 425, *range(500, 1000)}, "", Meaning.BROKEN),
    ({401, 402}, "", Meaning.NO_ACCESS),
    ({400}, "no_money", Meaning.NO_ACCESS),
    (range(1000), "refused", Meaning.REFUSED),
)
"""The first row whose statuses hold an answer's, and whose kind its body says, is what it means."""


def meaning_of(answer: Answer, *, has_answered: bool) -> Meaning:
    status = answer.effective_status
    if status == 429 and limit_of(answer.message, None) is not None:
        return Meaning.REJECTED  # larger than all that may come in a minute: it never will be read
    for statuses, kind, meaning in _MEANINGS:
        if status in statuses and (not kind or says(kind).search(answer.body)):
            return Meaning.NO_ACCESS if status == 429 and _is_used_up(answer) else meaning
    if status in (403, 404, 405) and not has_answered:
        return Meaning.NO_ACCESS
    return Meaning.REJECTED


def _is_used_up(answer: Answer) -> bool:
    """Whether a 429 says that there is nothing left for hours, or for ever.

    Gemini words every limit alike, "You exceeded your current quota, please check your
    plan and billing details": which one it is stands in ``quotaId``. OpenAI uses the same words
    when there is no money, with the code ``insufficient_quota``.
    """
    error, text = answer.error, answer.message
    # A limit of 0: this model is not part of the plan.
    said = f"{error.get('code')} {error.get('type')} {text}"
    if says("no_money").search(said) or re.search(r"\blimit: 0\b", said, re.IGNORECASE):
        return True
    limits = [one for it in _dicts(error.get("details")) for one in _dicts(it.get("violations"))]
    if limits:
        quotas = [f"{one.get('quotaId')} {one.get('quotaMetric')}" for one in limits]
        return re.search("PerDay|per_day", " ".join(quotas), re.IGNORECASE) is not None
    if requested_wait(answer) is not None or error.get("status") == "RESOURCE_EXHAUSTED":
        return False
    return re.search("exceeded your current quota|billing", text, re.IGNORECASE) is not None


_ASKED_TO_WAIT = re.compile(
    r"(?:retry|try again) (?:in|after) (?:(?P<minutes>\d+)m)?(?P<amount>\d+(?:\.\d+)?) ?"
    r"(?P<unit>ms|s|sec|m|min)",
    re.IGNORECASE,
)
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0}


def requested_wait(answer: Answer) -> float | None:
    """Seconds that the body of an error asks to wait; None where it does not.

    Read are Google's ``RetryInfo`` and sentences such as "Please try again in 1.2s".
    """
    for detail in _dicts(answer.error.get("details")):
        if found := re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay"))):
            return float(found[1])
    if (asked := _ASKED_TO_WAIT.search(answer.message)) is None:
        return None
    seconds = float(asked["amount"]) * _UNITS[asked["unit"].lower()]
    return 60.0 * int(asked["minutes"] or 0) + seconds


# --- how much an endpoint takes at a time, as it says when it was asked for more

WIDER = (
    "judge with fewer contexts, or give the server more (vLLM: --max-model-len; llama.cpp: -c; "
    "Ollama: OLLAMA_CONTEXT_LENGTH)"
)


class Limit(NamedTuple):
    """What a request was refused for: prompt and answer together were too long."""

    most: int
    """Tokens that both may have."""
    prompt: int | None
    """Those of the prompt; None where that is not said."""
    is_rate: bool
    """Whether it is the most of a minute, not the length of the context."""

    @property
    def remedy(self) -> str:
        return "judge with fewer contexts, or ask for a higher limit" if self.is_rate else WIDER


def limit_of(text: str, asked: int | None) -> Limit | None:
    """What an error says of the room for prompt and answer; None where it says nothing.

    Args:
        asked: tokens that the answer was given room for.

    Example:
        >>> limit_of("TPM: Limit 30000, Requested 60000.", 4096)
        Limit(most=30000, prompt=55904, is_rate=True)
    """

    def number(kind: str) -> int | None:
        found = says(kind).search(text)
        first = next(filter(None, found.groups()), None) if found else None
        return None if first is None else int(first.replace(",", ""))

    most, prompt, both = map(number, ("limit", "prompt", "both"))
    if most is None:
        return None
    if prompt is None and both is not None:
        prompt = both - (asked or 0)
    is_rate = says("per_minute").search(text) is not None
    if is_rate and (both or 0) <= most:  # it will fit in another minute
        return None
    return Limit(most, prompt, is_rate)
