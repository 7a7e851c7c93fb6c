"""Providers of language models as they document themselves: a row each, and a server for any.

What a provider does with a request follows its documentation, or where that is silent, errors that
its users have reported word for word. The model behind each answers every question alike: with
JSON where the request or the prompt asks for it *and* the provider honours that, else with words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.llm_server import Answered, Payload, Served, in_format, in_prompt, instance_of

KEY = "sk-test-0123456789abcdef"
ENTRA = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.c2lnbmVk"


class Told(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str] = {}


class Seen(NamedTuple):
    """A request that arrived, and what the answer says it took."""

    payload: Payload
    status: int
    usage: Mapping[str, Any] | None


def words(text: str) -> int:
    """Tokens, by a tokenizer that makes four of three words."""
    return -(-len(text.split()) * 4 // 3)


def error(message: str, **fields: Any) -> Payload:
    described = {"message": message, "type": "invalid_request_error", "param": None}
    return {"error": described | fields}


NO_MONEY = Told(402, error("Insufficient Balance"))
RATE_LIMITED = Told(429, error("Rate limit reached"), {"retry-after": "20"})
OVERLOAD = Told(503, error("The server is currently overloaded"))


def prompt_tokens(payload: Payload) -> int:
    return sum(words(message["content"]) + 4 for message in payload["messages"])


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Called, it is a server: ``with PROVIDERS["gemini"](limited=4) as server: server.url``."""

    name: str
    model: str = "m"
    prefix: str = "/v1"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the user has to set beside address, model and key."""
    key: str = KEY
    sent: Mapping[str, str | None] | None = None
    """The headers that it asks for; None: the key as a bearer."""
    context: int = 100_000
    """Tokens that a prompt may have; one that is longer is refused."""
    keeps: Callable[[int], int] | None = None
    """What is read of a longer prompt, by the context, where it is cut instead."""
    no_key: Told | None = None
    no_money: Told = NO_MONEY
    rate_limited: Told = RATE_LIMITED
    overload: Told = OVERLOAD
    no_schema: Told | None = None
    """Its answer to ``json_schema``, where it takes none."""
    refuses: Callable[[Payload], Told | None] = lambda _: None
    """An error that concerns this request."""
    honours: Callable[[Payload], Mapping[str, Any] | None] = in_format
    thinks: Callable[[Payload], int] = lambda _: 0
    """Tokens that it thinks."""
    thinks_in_text: bool = False
    usage: Mapping[str, Any] = field(default_factory=dict)
    counts: Callable[[Payload], Payload] = lambda _: {}
    """What it reports in place of the tokens that were taken."""
    unlisted: int = 0
    """Tokens that it thinks and counts in the total alone."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.sent == {}

    def __call__(self, **changes: Any) -> Server:
        return Server(row=self, **changes)


@dataclass(kw_only=True)
class Server(Served):
    row: Provider
    limited: int = 0
    """So many requests meet the limit of a minute first."""
    is_out_of_money: bool = False
    overloaded: int = 0
    """So many requests meet an overload first."""
    say: Callable[[Payload], str | None] = lambda _: None
    """What the model says, where it says something of its own."""
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prefix = self.row.prefix

    @property
    def answered(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.status == 200]

    async def answer(self, path: str, headers: dict[str, str], payload: Payload) -> Answered:
        reply = self.checked(payload, headers)
        usage = reply.body.get("usage") if isinstance(reply.body, dict) else None
        self.seen.append(Seen(payload, reply.status, usage))
        return Answered(reply.status, reply.headers, json.dumps(reply.body))

    def checked(self, payload: Payload, headers: Mapping[str, str]) -> Told:
        row = self.row
        credentials = {"authorization": f"Bearer {row.key}"} if row.sent is None else row.sent
        if any(headers.get(name) != value for name, value in credentials.items()):
            text = f"Incorrect API key provided: {headers.get('authorization')}."
            return row.no_key or Told(401, error(text))
        if self.is_out_of_money:
            return row.no_money
        if self.limited:
            self.limited -= 1
            return row.rate_limited
        if self.overloaded:
            self.overloaded -= 1
            return row.overload
        return self.refused(payload) or self.completed(payload)

    def refused(self, payload: Payload) -> Told | None:
        row = self.row
        response_format = payload.get("response_format", {})
        if response_format.get("type") == "json_schema" and row.no_schema:
            return row.no_schema
        refusal = row.refuses(payload)
        if refusal is not None:
            return refusal
        if row.keeps is None and prompt_tokens(payload) > row.context:
            return Told(400, error("This model's maximum context length is exceeded"))
        return None

    def codes(self, payload: Payload) -> str | None:
        """What the model finds of what is hidden in a prompt, in the part that it is shown."""
        prompt: str = payload["messages"][-1]["content"]
        if "three codes" not in prompt:
            return None
        row = self.row
        words = prompt.split()
        if row.keeps is not None and prompt_tokens(payload) > row.context:
            start = -row.keeps(row.context) * 3 // 4
            words = words[start:]
        codes = re.findall(r"Code \d is (\d+)", " ".join(words))
        return " ".join(codes) or "None."

    def completed(self, payload: Payload) -> Told:
        row = self.row
        schema = row.honours(payload)
        default = "Ready, as you wish." if schema is None else json.dumps(instance_of(schema))
        text = self.say(payload) or self.codes(payload) or default
        reason = "stop"
        limit = payload.get("max_completion_tokens", payload.get("max_tokens"))
        prompt = prompt_tokens(payload)
        thought = row.thinks(payload)
        spoken = words(text)
        if row.keeps is not None and prompt > row.context:
            prompt = row.keeps(row.context)
        if limit is not None and limit <= thought:
            text, reason = "", "length"
        if row.thinks_in_text and (limit or 0) <= 4_096:
            text, reason = "<think>Let me see. The first passage says", "length"
        elif row.thinks_in_text:
            text = f"<think>hm</think>{text}"
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": spoken + thought,
            "total_tokens": prompt + spoken + thought + row.unlisted,
        }
        if thought:
            usage["completion_tokens_details"] = {"reasoning_tokens": thought}
        usage |= row.usage
        usage |= row.counts(usage)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        body = {"model": payload["model"], "choices": [choice], "usage": usage}
        return Told(200, body, row.headers)


def google(code: int, status: str, message: str, **fields: Any) -> Told:
    described = {"code": code, "message": message, "status": status}
    return Told(code, [{"error": described | fields}])


def google_quota(quota: str, delay: str) -> Told:
    violation = {"quotaId": quota, "quotaValue": "15"}
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    return google(429, "RESOURCE_EXHAUSTED", QUOTA, details=details)


GEMINI_TAKES = {
    "model",
    "messages",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "top_p",
    "reasoning_effort",
    "stop",
    "n",
}


def unknown_to_gemini(payload: Payload) -> Told | None:
    for name in sorted(set(payload) - GEMINI_TAKES):
        text = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
        return google(400, "INVALID_ARGUMENT", text)
    return None


def refused_by_o3(payload: Payload) -> Told | None:
    if "max_tokens" in payload:
        text = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return Told(400, error(text, param="max_tokens", code="unsupported_parameter"))
    if payload.get("temperature", 1) == 1:
        return None
    text = "Unsupported value: 'temperature'. Only the default (1) value is supported."
    return Told(400, error(text, param="temperature", code="unsupported_value"))


def where(is_wrong: Callable[[Payload], bool], reply: Told) -> Callable[[Payload], Told | None]:
    """Replies so to a request that is wrong."""
    return lambda payload: reply if is_wrong(payload) else None


def refused_by_vllm(context: int, *, newer: bool) -> Callable[[Payload], Told | None]:
    """The longest answer counts as part of the context."""

    def refused(payload: Payload) -> Told | None:
        prompt, answer = prompt_tokens(payload), payload.get("max_tokens", 1)
        if prompt + answer <= context:
            return None
        text = f"This model's maximum context length is {context} tokens"
        if newer:
            text = (
                f"'max_tokens' or 'max_completion_tokens' is too large: {answer}. {text} and your "
                f"request has {prompt} input tokens ({answer} > {context} - {prompt})."
            )
        else:
            text += (
                f". However, you requested {prompt + answer} tokens ({prompt} in the messages, "
                f"{answer} in the completion). Please reduce the length of the messages."
            )
        return Told(400, error(text, param="max_tokens" if newer else None))

    return refused


def too_large(status: int, limit: int, text: str) -> Callable[[Payload], Told | None]:
    """A request that asks for more than a minute has is refused for good."""

    def refused(payload: Payload) -> Told | None:
        requested = prompt_tokens(payload) + payload.get("max_tokens", 0)
        if requested <= limit:
            return None
        message = text.format(limit, requested)
        return Told(status, error(message, code="rate_limit_exceeded"))

    return refused


too_large_for_groq = too_large(
    413,
    6_000,
    (
        "Request too large for model `m` in organization `o` service tier "
        "`on_demand` on tokens per "
        "minute (TPM): Limit {}, Requested {}, please reduce your message size and try again."
    ),
)
too_large_for_openai = too_large(
    429,
    5_000,
    (
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit {}, "
        "Requested {}. The input or output tokens must be reduced in order to run successfully."
    ),
)


# https://platform.openai.com/docs/api-reference/chat, /docs/guides/error-codes
QUOTA = "You exceeded your current quota, please check your plan and billing details."
OPENAI: dict[str, Any] = {
    "no_money": Told(429, error(QUOTA, code="insufficient_quota")),
    "rate_limited": Told(
        429,
        error(
            "Rate limit reached for gpt-4o-mini in organization org-x on tokens "
            "per min (TPM): Limit "
            "200000, Used 199000, Requested 1500. Please try again in 1.2s.",
            code="rate_limit_exceeded",
        ),
    ),
}
# https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
AZURE: dict[str, Any] = OPENAI | {
    "model": "my-deployment",
    "refuses": where(
        lambda payload: payload["model"] != "my-deployment",
        Told(404, error("The API deployment does not exist", code="DeploymentNotFound")),
    ),
    "rate_limited": Told(
        429,
        error(
            "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded "
            "token rate limit of your current OpenAI S0 pricing tier. Please "
            "retry after 24 seconds.",
            code="429",
        ),
    ),
}
LOCAL: dict[str, Any] = {"sent": {}}
"""On one's own machine: no key, no money."""

_ROWS = (
    Provider(name="openai", model="gpt-4o-mini", **OPENAI),
    # o3, o4-mini, gpt-5: https://platform.openai.com/docs/guides/reasoning
    Provider(
        name="o3",
        model="o3",
        refuses=refused_by_o3,
        thinks=lambda payload: 512 if payload.get("reasoning_effort") == "low" else 6_000,
        **OPENAI,
    ),
    Provider(name="azure", prefix="/openai/v1", **AZURE),
    # The dated interface, with a token of Entra: /azure/ai-services/openai/reference
    Provider(
        name="azure, dated",
        prefix="",
        settings={"api_version": "2024-10-21"},
        key=ENTRA,
        sent={"authorization": f"Bearer {ENTRA}", "api-key": None},
        **AZURE,
    ),
    # https://docs.claude.com/en/api/openai-sdk: response_format, seed, reasoning_effort are
    # "Ignored"; newer models refuse sampling parameters
    Provider(
        name="anthropic",
        model="claude-opus-4-8",
        honours=in_prompt,
        refuses=where(
            lambda payload: payload.get("temperature", 1) != 1,
            Told(400, error("`temperature` is deprecated for this model.")),
        ),
        no_money=Told(
            400,
            error(
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
                "Billing to upgrade or purchase credits."
            ),
        ),
        rate_limited=Told(
            429,
            error(
                "This request would exceed your organization's rate limit of 50 "
                "requests per minute",
                type="rate_limit_error",
            ),
            {"retry-after": "12"},
        ),
        overload=Told(529, error("Overloaded", type="overloaded_error")),
    ),
    # https://ai.google.dev/gemini-api/docs/openai and /rate-limits: errors stand in a list, every
    # limit has the words that OpenAI uses for an empty account, thoughts are in the total alone
    Provider(
        name="gemini",
        model="gemini-2.5-flash",
        prefix="/v1beta/openai",
        refuses=unknown_to_gemini,
        no_key=google(401, "UNAUTHENTICATED", "API key not valid."),
        unlisted=300,
        no_money=google_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "38s"),
        rate_limited=google_quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "26s"),
        overload=google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    ),
    # https://openrouter.ai/docs/use-cases/usage-accounting, /docs/api-reference/errors: it says
    # what a call cost; an error of the provider behind it comes with status 200
    Provider(
        name="openrouter",
        model="anthropic/claude-haiku-4.5",
        prefix="/api/v1",
        no_money=Told(402, error("This request requires more credits, or fewer max_tokens.")),
        rate_limited=Told(200, {"error": {"code": 429, "message": "Provider returned error"}}),
        overload=Told(
            200,
            {
                "choices": [
                    {
                        "error": {"code": 502, "message": "Upstream"},
                        "finish_reason": "error",
                        "message": {"content": ""},
                    }
                ]
            },
        ),
        usage={"cost": 0.000_125, "is_byok": False},
    ),
    # https://api-docs.deepseek.com/guides/json_mode: json_object alone
    Provider(
        name="deepseek",
        usage={"prompt_tokens_details": {"cached_tokens": 4}},
        no_schema=Told(400, error("This response_format type is unavailable now")),
    ),
    # https://console.groq.com/docs/structured-outputs: some models take no schema
    Provider(
        name="groq",
        prefix="/openai/v1",
        no_schema=Told(
            400, error("This model does not support response format `json_schema`.", param="x")
        ),
        rate_limited=Told(429, error("Requested 900. Please try again in 2m6.5s.", type="tokens")),
    ),
    # The proxy of LiteLLM: what a call cost stands in a header (docs.litellm.ai/docs/proxy)
    Provider(name="litellm", headers={"x-litellm-response-cost": "0.00042"}),
    # A company's gateway: a key of its own in a header of its own, such as Portkey or Helicone
    Provider(
        name="gateway",
        sent={"x-gateway-key": KEY, "x-provider": "openai"},
        settings={"headers": {"X-Gateway-Key": "${GATEWAY_KEY}", "X-Provider": "openai"}},
    ),
    # https://docs.ollama.com/api/openai-compatibility; a prompt longer than num_ctx is cut to half
    # of it without a word (ollama/ollama issues 3839, 17427)
    Provider(name="ollama", model="qwen3", context=4_096, keeps=lambda num: num // 2 + 2, **LOCAL),
    # https://github.com/ggml-org/llama.cpp/tree/master/tools/server; what is too long is refused
    # since September 2025 (pull request 15780); before that the middle of the prompt was dropped
    Provider(name="llama.cpp", context=4_096, **LOCAL),
    Provider(name="llama.cpp, context shift", context=4_096, keeps=lambda num: num, **LOCAL),
    # llama-cpp-python: json_schema is a server error; a schema stands beside json_object
    Provider(
        name="llama-cpp-python",
        no_schema=Told(500, error("[{'type': 'literal_error', 'loc': ('body', 'type')}]")),
        honours=lambda payload: payload.get("response_format", {}).get("schema"),
        **LOCAL,
    ),
    # https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    Provider(name="vllm", context=8_192, refuses=refused_by_vllm(8_192, newer=True), **LOCAL),
    Provider(name="vllm, 4k", context=4_096, refuses=refused_by_vllm(4_096, newer=False), **LOCAL),
    Provider(name="openai, tier 1", refuses=too_large_for_openai, **OPENAI),
    Provider(
        name="groq, free",
        prefix="/openai/v1",
        refuses=too_large_for_groq,
        no_schema=Told(400, error("This model does not support response format `json_schema`.")),
    ),
    # https://console.groq.com/docs/errors: the model's failure at JSON mode is a rejection
    Provider(
        name="groq, bad JSON",
        prefix="/openai/v1",
        refuses=where(
            lambda payload: "response_format" in payload and len(payload["messages"]) == 1,
            Told(
                400,
                error(
                    "Failed to generate JSON.",
                    code="json_validate_failed",
                    failed_generation='{"good": true, "reason": ',
                ),
            ),
        ),
    ),
    # Gateways that always say the same, or what they had not kept: LiteLLM and others before Claude
    Provider(
        name="constant count",
        counts=lambda usage: {
            "prompt_tokens": 10,
            "total_tokens": 10 + usage["completion_tokens"],
        },
    ),
    Provider(
        name="cached apart",
        counts=lambda usage: {
            "prompt_tokens": 4,
            "cache_read_input_tokens": usage["prompt_tokens"] - 4,
            "total_tokens": usage["total_tokens"],
        },
    ),
    # A local model that thinks in tags, and is cut off while it does
    Provider(name="thinks in tags", model="qwen3-thinking", thinks_in_text=True, **LOCAL),
)
PROVIDERS = {row.name: row for row in _ROWS}
HOSTED = [row for row in _ROWS if not row.is_local]
"""Those that ask for a key and for money."""
