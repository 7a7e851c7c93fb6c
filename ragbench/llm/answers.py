"""What an answer of an endpoint holds, what follows from an error, and how much it takes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Container, Mapping
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
"""Characters of an error that are shown."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an endpoint answered to a request, as it came."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str

    @cached_property
    def error(self) -> dict[str, Any]:
        """The error object in an endpoint's answer, as JSON; empty where the answer is no error.

        Endpoints put their error's text, code and reason to wait into it: whether a request is
        worth repeating is read from there.
        """
        return _error_in(self.body)

    @property
    def message(self) -> str:
        """The text of the error in an endpoint's answer, in one line of any length.

        Without a text of its own, the whole body is taken: users must see what the endpoint
        complains about, in whatever form.
        """
        message = self.error.get("message")
        if not isinstance(message, str):
            message = self.body
        return " ".join(message.split())

    @cached_property
    def effective_status(self) -> int:
        """The HTTP status of an answer, also where a gateway sends an error with status 200.

        Such an error must not be read as an answer of the model; without a code of its own it
        counts as 502, which is tried again.
        """
        if self.status != 200:
            return self.status
        # Most bodies are answers: only one that may be an error is worth parsing.
        may_be_error = '"error"' in self.body and '"choices"' not in self.body
        if not may_be_error or not self.error:
            return self.status
        code = self.error.get("code")
        if isinstance(code, int) and 400 <= code < 600:
            return code
        return 502  # a bad gateway: the error is of the server behind it


def _error_in(body: str) -> dict[str, Any]:
    """The innermost object ``error`` of a body; empty where there is none.

    Google wraps the object into a list. Gateways put a provider's whole body, as JSON, into the
    message of an error of their own: then the provider's error is looked for in that message.
    """
    try:
        # Not strict: raw line breaks within strings are taken. Deep nesting raises RecursionError.
        value: object = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, list):
        value = _first_entry(cast("list[object]", value))
    error_value = _object_or_empty(value).get("error")
    if isinstance(error_value, str):
        error: dict[str, Any] = {"message": error_value}
    else:
        error = _object_or_empty(error_value)
    message = error.get("message")
    # The inner error is the provider's own, so its fields win over the gateway's.
    if isinstance(message, str) and message.startswith(("{", "[")):
        inner_error = _error_in(message)
        error = {**error, **inner_error}
    return error


# Endpoints answer in all sorts of forms: what has another one reads as if it were not there.


def _first_entry(values: object) -> object:
    """The first entry of a list in an endpoint's JSON; None where there is none, or no list.

    Endpoints answer in all sorts of forms: a missing choice must read as missing, not raise.
    """
    entries = _list_or_empty(values)
    if not entries:
        return None
    return entries[0]


def _object_or_empty(value: object) -> dict[str, Any]:
    """A value of an endpoint's JSON where it is an object; else an empty object.

    So a field in an unexpected form reads as if it were missing, and no answer makes the parser
    raise.
    """
    if not isinstance(value, dict):
        return {}
    return cast("dict[str, Any]", value)


def _list_or_empty(value: object) -> list[object]:
    """A value of an endpoint's JSON where it is a list; else an empty list.

    So a field in an unexpected form reads as if it were missing, and no answer makes the parser
    raise.
    """
    if not isinstance(value, list):
        return []
    return cast("list[object]", value)


def _objects_in_list(value: object) -> list[dict[str, Any]]:
    """The non-empty objects of a list in an endpoint's JSON; none where the value is no list.

    Entries in another form are passed over, so that no answer makes the parser raise.
    """
    objects: list[dict[str, Any]] = []
    for entry in _list_or_empty(value):
        fields = _object_or_empty(entry)
        if fields:
            objects.append(fields)
    return objects


class Completion(Record):
    """What a model answered in a chat."""

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
    """The JSON object of an endpoint's answer, with the cost from a header of LiteLLM's proxy.

    The header's cost is put where an endpoint itself reports one, for `reported_cost` to find. A
    cost that the body has stays.
    """
    try:
        # Not strict: raw line breaks within strings are taken.
        value: object = json.loads(answer.body, strict=False)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise EmptyAnswerError("an answer that is not a JSON object")
    body = cast("dict[str, Any]", value)
    cost = answer.headers.get(_COST_HEADER)
    if cost is not None:
        # A new object, also where the body has none: `usage` may be missing or null.
        usage = _object_or_empty(body.get("usage"))
        body["usage"] = {"cost": cost, **usage}
    return body


def completion_of(body: Mapping[str, Any]) -> Completion:
    """The model's text, tokens and cost out of an endpoint's JSON for a chat.

    Each way of not answering is an error of its own: an empty answer is asked for again, a refusal
    is final, and a cut one gets more room.

    Raises:
        EmptyAnswerError: the body holds no answer.
        LLMRefusedError: the model declined, or a filter stopped it.
        LLMTruncatedError: the answer was cut off at its limit.
    """
    choice = _object_or_empty(_first_entry(body.get("choices")))
    if not choice:
        raise EmptyAnswerError("an answer without choices")
    error_of_provider = _object_or_empty(choice.get("error"))  # behind a gateway
    if error_of_provider:
        message = _short_line(str(error_of_provider.get("message")))
        raise EmptyAnswerError(f"an error in place of an answer: {message}")
    reply = _object_or_empty(choice.get("message"))
    text = _message_text(reply.get("content"))
    reason = choice.get("finish_reason")
    # Before the finish reason and an empty text: a refusal may come with either, and is final.
    refusal = _message_text(reply.get("refusal"))
    if refusal:
        raise LLMRefusedError(f"the model declined: {_short_line(refusal)}", reply=refusal)
    if reason == "content_filter":
        raise LLMRefusedError("a content filter stopped the answer", reply=text)
    usage = usage_of(body)
    if reason == "length":
        # A tag of thoughts that never closes: the room went into thinking, and `LLMClient` gives
        # more.
        has_open_thought = THINKS.match(text) is not None and "</" not in text
        was_thinking = usage.reasoning_tokens > 0 or has_open_thought
        message = _CUT_THINKING if was_thinking else _CUT_ANSWERING
        error = LLMTruncatedError(message, reply=text)
        error.reasoned = was_thinking
        raise error
    if not text.strip():
        raise EmptyAnswerError("an answer without text")
    return Completion(
        text=text,
        finish_reason=reason if isinstance(reason, str) else "",
        model=_message_text(body.get("model")),
        usage=usage,
        cost=reported_cost(body),
    )


THINKS = re.compile(r"\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
"""How an answer begins with the model's thoughts, where it thinks in tags."""
_CUT_THINKING = (
    "the answer was cut off while the model was still thinking: raise reasoning_tokens, or "
    "lower reasoning_effort"
)
_CUT_ANSWERING = "the answer was cut off at the limit of its length: raise max_tokens"


def usage_of(body: Mapping[str, Any]) -> Usage:
    """The tokens that an answer says it took.

    Hidden reasoning is billed as part of the answer. Some endpoints count it in
    ``completion_tokens``, some only in ``total_tokens``: the larger count is taken.
    """
    usage = _object_or_empty(body.get("usage"))
    prompt = _token_count(usage.get("prompt_tokens"))
    completion = _token_count(usage.get("completion_tokens"))
    total = _token_count(usage.get("total_tokens"))
    if prompt is None:
        return Usage(reported=False)
    # Endpoints for embeddings leave the answer's tokens out, and their total is the prompt.
    if completion is None and total != prompt:
        return Usage(reported=False)
    completion = completion or 0
    completion_details = _object_or_empty(usage.get("completion_tokens_details"))
    prompt_details = _object_or_empty(usage.get("prompt_tokens_details"))
    reasoning = _token_count(completion_details.get("reasoning_tokens")) or 0
    cached = _token_count(prompt_details.get("cached_tokens")) or 0
    cache_read = _token_count(usage.get("cache_read_input_tokens")) or 0
    cache_written = _token_count(usage.get("cache_creation_input_tokens")) or 0
    cache_tokens = cache_read + cache_written
    # Anthropic counts these beside the prompt; some gateways in front of it count them as a part.
    is_beside = cache_tokens > prompt or total == prompt + cache_tokens + completion
    if cache_tokens and is_beside:
        prompt += cache_tokens
    billed = max(completion, (total or 0) - prompt)
    hidden_reasoning = billed - completion
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=billed,
        cached_prompt_tokens=cached or cache_read,
        reasoning_tokens=min(max(reasoning, hidden_reasoning), billed),
    )


def reported_cost(body: Mapping[str, Any]) -> Decimal | None:
    """The cost of an answer as its endpoint reports it, in US dollars; None where it reports none.

    Sources: OpenRouter's ``usage.cost``; the header of LiteLLM's proxy, which `decoded` has put in
    the same place of the body.
    """
    usage = _object_or_empty(body.get("usage"))
    cost = _amount_or_none(usage.get("cost"))
    # "Bring your own key": OpenRouter charges its fee alone, and the model's provider charges the
    # owner of the key. OpenRouter states the provider's charge beside its own fee.
    has_own_key = usage.get("is_byok") is True
    if cost is None or not has_own_key:
        return cost
    details = _object_or_empty(usage.get("cost_details"))
    cost_at_provider = _amount_or_none(details.get("upstream_inference_cost"))
    return cost + (cost_at_provider or Decimal(0))


def _amount_or_none(value: object) -> Decimal | None:
    """A JSON value as a sum of money in US dollars; None where it is no number of at least 0.

    Endpoints report costs as numbers or as text. A sum that cannot be read is unknown, and not 0.
    """
    try:
        amount = Decimal(str(value))
    except ArithmeticError:
        return None
    if not amount.is_finite() or amount < 0:
        return None
    return amount


def _token_count(value: object) -> int | None:
    """A JSON value as a number of tokens; None where it is no whole number of at least 0.

    An endpoint may report null or a text: such a count is unknown, and not 0.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return value


def _message_text(content: object) -> str:
    """The text of a chat message: a plain text as it is, one in parts joined, anything else empty.

    Half of a surrogate pair becomes a question mark: models break off within one, and nothing could
    store it.
    """
    texts: list[object] = [part.get("text") for part in _objects_in_list(content)]
    if not texts:
        texts = [content]
    text = "".join(part for part in texts if isinstance(part, str))
    return text.encode(errors="replace").decode()  # models break off within a surrogate pair


def shortened(line: str, most: int = _SHOWN) -> str:
    """A line cut to at most so many characters, with dots where something is left out.

    An endpoint's error may be a whole page: messages and reports show its beginning.
    """
    if len(line) <= most:
        return line
    return f"{line[:most]} ..."


def _short_line(text: str) -> str:
    """The text of a refusal or of a provider's error, in a short line without credentials.

    Such texts may repeat a key of the request, and may be a whole page.
    """
    words = mask_text(text).split()
    return shortened(" ".join(words))


class Meaning(Enum):
    """What follows from an answer."""

    ANSWERED = "answered"
    RATE_LIMITED = "rate limited"
    """Too many calls, or an overload; the same request will be answered later."""
    BROKEN = "broken"
    """A server error; the same request may be answered next time."""
    UNANSWERED = "unanswered"
    """No answer came, or none in time."""
    REFUSED = "refused"
    """A filter declines this prompt."""
    NO_ACCESS = "no access"
    """Key, model, address or quota: every call would end so."""
    REJECTED = "rejected"
    """The endpoint does not take this request; put another way, it may."""


_NUMBER = r"(\d[\d,]*)"
"""A number of tokens, with commas between thousands."""


@cache
def says(kind: str) -> re.Pattern[str]:
    """The pattern of all wordings in which endpoints word one kind of error, such as ``no_money``.

    Endpoints share no error codes: words alone show whether an account is empty or a prompt too
    long.

    The wordings of each kind stand in ``said.toml``; ``{N}`` is a number in them.
    """
    content = (get_data("ragbench.llm", "said.toml") or b"").decode()
    wordings = tomllib.loads(content)[kind]
    pattern = "|".join(wordings).replace("{N}", _NUMBER)
    return re.compile(pattern, re.IGNORECASE)


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
    """The meaning of an endpoint's answer: whether to use it, wait, send it again or give up.

    Endpoints agree on few statuses, so words of the body decide, too. A wrong meaning costs money
    or time: an empty account that counts as a rate limit is waited for.

    Args:
        has_answered: whether the endpoint answered any call well; if so, the endpoint has the
            model, and the key is good.
    """
    status = answer.effective_status
    if status == 429 and limit_of(answer.message, None) is not None:
        # The request is larger than all that may come in a minute: waiting does not help.
        return Meaning.REJECTED
    if status == 429 and _is_used_up(answer):
        return Meaning.NO_ACCESS
    # The first row that fits decides, so a row with words comes before the same statuses without.
    for statuses, kind, meaning in _MEANINGS:
        if status not in statuses:
            continue
        if not kind or says(kind).search(answer.body):
            return meaning
    # Once a call was answered, key and address are good: the refusal is about this request alone.
    if status in (403, 404, 405) and not has_answered:
        return Meaning.NO_ACCESS
    return Meaning.REJECTED


def _is_used_up(answer: Answer) -> bool:
    """Whether a 429 says that there is nothing left for hours, or for ever.

    Gemini words every limit alike, "You exceeded your current quota, please check your
    plan and billing details": which one it is stands in ``quotaId``. OpenAI uses the same words
    when there is no money, with the code ``insufficient_quota``.
    """
    error = answer.error
    message = answer.message
    # Google's message, OpenAI's code and a gateway's type: the words may be in any of the three.
    description = f"{error.get('code')} {error.get('type')} {message}"
    if says("no_money").search(description):
        return True
    if re.search(r"\blimit: 0\b", description, re.IGNORECASE):  # the plan is without this model
        return True
    # Google names the period in the quota: one of a day is used up, one of a minute comes back.
    quotas: list[str] = []
    for detail in _objects_in_list(error.get("details")):
        for violation in _objects_in_list(detail.get("violations")):
            quotas.append(f"{violation.get('quotaId')} {violation.get('quotaMetric')}")
    if quotas:
        return re.search("PerDay|per_day", " ".join(quotas), re.IGNORECASE) is not None
    # Who names a wait, or sends Google's code of any limit, will answer again.
    if requested_wait(answer) is not None or error.get("status") == "RESOURCE_EXHAUSTED":
        return False
    return re.search("exceeded your current quota|billing", message, re.IGNORECASE) is not None


_WAIT_SENTENCE = re.compile(
    r"(?:retry|try again) (?:in|after) (?:(?P<minutes>\d+)m)?(?P<amount>\d+(?:\.\d+)?) ?"
    r"(?P<unit>ms|s|sec|m|min)",
    re.IGNORECASE,
)
"""How errors ask in words to wait, such as "Please try again in 1m2.5s"."""
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0}
"""Seconds in each."""


def requested_wait(answer: Answer) -> float | None:
    """Seconds that the body of an error asks to wait; None where it does not.

    Read are Google's ``RetryInfo`` and sentences such as "Please try again in 1.2s".
    """
    # Google's field first: it is exact, and its message repeats it in words.
    for detail in _objects_in_list(answer.error.get("details")):
        delay = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay")))
        if delay is not None:
            return float(delay[1])
    sentence = _WAIT_SENTENCE.search(answer.message)
    if sentence is None:
        return None
    minutes = int(sentence["minutes"] or 0)
    seconds_per_unit = _UNITS[sentence["unit"].lower()]
    return 60.0 * minutes + float(sentence["amount"]) * seconds_per_unit


# --- how much an endpoint takes at a time, as it says when it was asked for more

# What helps where a prompt is too long for the model.
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
        """The advice to a user whose prompt and answer are too long for the endpoint.

        A limit of a minute and one of the model's context need different steps.
        """
        if self.is_rate:
            return "judge with fewer contexts, or ask for a higher limit"
        return WIDER


def _stated_number(text: str, kind: str) -> int | None:
    """The number of tokens that an endpoint's error states of a kind; None where it states none.

    By this number the caller sees by how much a prompt is too long.

    Args:
        kind: a row of ``said.toml``, such as ``limit``: each has several wordings, and the number
            is in the group of the wording that matched.
    """
    sentence = says(kind).search(text)
    if sentence is None:
        return None
    for digits in sentence.groups():
        if digits:
            return int(digits.replace(",", ""))
    return None


def limit_of(text: str, answer_tokens: int | None) -> Limit | None:
    """The limit of tokens that an endpoint's error names; None where it names none.

    A prompt that leaves too little room is reported with the numbers, or sent again with a shorter
    answer.

    Args:
        answer_tokens: tokens that the answer was given room for.

    Example:
        >>> limit_of("TPM: Limit 30000, Requested 60000.", 4096)
        Limit(most=30000, prompt=55904, is_rate=True)
    """
    limit = _stated_number(text, "limit")
    prompt = _stated_number(text, "prompt")
    prompt_and_answer = _stated_number(text, "both")
    if limit is None:
        return None
    # The answer's room is a part of such a sum: the prompt alone is the rest.
    if prompt is None and prompt_and_answer is not None:
        prompt = prompt_and_answer - (answer_tokens or 0)
    is_rate = says("per_minute").search(text) is not None
    if is_rate and (prompt_and_answer or 0) <= limit:  # it will fit in another minute
        return None
    return Limit(limit, prompt, is_rate)
