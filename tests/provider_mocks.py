"""Providers of language models as they document themselves, each as a small server.

What a provider does with a request follows its documentation, or where that is silent, errors that
its users have reported word for word. The model behind each answers every question alike: with
JSON where the request or the prompt asks for it *and* the provider honours that, else with words.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple, Self

from tests.llm_server import instance_of

Payload = dict[str, Any]
KEY = "sk-test-0123456789abcdef"


class Told(NamedTuple):
    """An HTTP answer."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}


@dataclass(kw_only=True)
class Seen:
    """A request that arrived."""

    path: str
    payload: Payload
    headers: dict[str, str]
    status: int
    usage: Mapping[str, Any] | None
    """What the answer says it took."""


def words(text: str) -> int:
    """Tokens, by a tokenizer that makes four of three words."""
    return -(-len(text.split()) * 4 // 3)


def error(message: str, **more: Any) -> Payload:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None} | more}


@dataclass(kw_only=True)
class Provider:
    """A provider: ``with Gemini(...) as server: server.url``."""

    limited: int = 0
    """So many requests meet the limit of a minute first."""
    is_out_of_money: bool = False
    overloaded: int = 0
    """So many requests meet an overload first."""
    seen: list[Seen] = field(default_factory=list[Seen])
    url: str = ""

    name: ClassVar[str]
    model: ClassVar[str] = "m"
    prefix: ClassVar[str] = "/v1"
    settings: ClassVar[Mapping[str, Any]] = {}
    """What the user has to set beside address, model and key."""
    context: ClassVar[int] = 100_000
    """Tokens that a prompt may have."""
    no_money: ClassVar[Told] = Told(402, error("Insufficient Balance"))
    rate_limited: ClassVar[Told] = Told(429, error("Rate limit reached"), {"retry-after": "20"})
    overload: ClassVar[Told] = Told(503, error("The server is currently overloaded"))
    no_schema: ClassVar[Told | None] = None
    """Its answer to ``json_schema``, where it takes none."""

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", "0"))
                payload: Payload = json.loads(self.rfile.read(size))
                headers = {name.lower(): value for name, value in self.headers.items()}
                shown = provider.shown(self.path, payload, headers)
                body = shown.body
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(shown.status)
                for name, value in {"content-type": "application/json", **shown.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{self.prefix}"
        serve = self._server.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def answered(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.status == 200]

    def shown(self, path: str, payload: Payload, headers: dict[str, str]) -> Told:
        with self._lock:
            shown = self._checked(payload, headers)
            usage = shown.body.get("usage") if isinstance(shown.body, dict) else None
            self.seen.append(
                Seen(path=path, payload=payload, headers=headers, status=shown.status, usage=usage)
            )
            return shown

    def _checked(self, payload: Payload, headers: dict[str, str]) -> Told:
        if not self.is_key(headers):
            return self.unauthorised(headers)
        if self.is_out_of_money:
            return self.no_money
        if self.limited:
            self.limited -= 1
            return self.rate_limited
        if self.overloaded:
            self.overloaded -= 1
            return self.overload
        return self.rejected(payload) or self.answer(payload)

    # --- what differs

    def is_key(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {KEY}"

    def unauthorised(self, headers: Mapping[str, str]) -> Told:
        return Told(401, error(f"Incorrect API key provided: {headers.get('authorization')}."))

    def rejected(self, payload: Payload) -> Told | None:
        """An error that concerns this request; None when it is taken."""
        if payload.get("response_format", {}).get("type") == "json_schema" and self.no_schema:
            return self.no_schema
        if self.prompt_tokens(payload) > self.context:
            return Told(400, error("This model's maximum context length is exceeded"))
        return None

    def honours(self, payload: Payload) -> Mapping[str, Any] | None:
        """The schema that the model is held to, or sees; None where it sees none."""
        kind = payload.get("response_format", {})
        if kind.get("type") == "json_schema":
            schema: Mapping[str, Any] = kind["json_schema"]["schema"]
            return schema
        return in_prompt(payload)

    def reasoning(self, payload: Payload) -> int:
        """Tokens that it thinks."""
        return 0

    # --- the model

    def prompt_tokens(self, payload: Payload) -> int:
        return sum(words(message["content"]) + 4 for message in payload["messages"])

    def read_tokens(self, payload: Payload) -> int:
        """Tokens of the prompt as the answer tells them."""
        return self.prompt_tokens(payload)

    def text(self, payload: Payload) -> str:
        schema = self.honours(payload)
        return "Ready, as you wish." if schema is None else json.dumps(instance_of(schema))

    def usage(self, payload: Payload, text: str) -> dict[str, Any]:
        prompt, said = self.read_tokens(payload), words(text)
        thought = self.reasoning(payload)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": said + thought,
            "total_tokens": prompt + said + thought,
        }
        if thought:
            usage["completion_tokens_details"] = {"reasoning_tokens": thought}
        return usage

    def limit(self, payload: Payload) -> int | None:
        return payload.get("max_completion_tokens", payload.get("max_tokens"))

    def answer(self, payload: Payload) -> Told:
        text, reason = self.text(payload), "stop"
        limit = self.limit(payload)
        if limit is not None and limit <= self.reasoning(payload):
            text, reason = "", "length"
        message = {"role": "assistant", "content": text}
        body = {
            "object": "chat.completion",
            "model": payload["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": self.usage(payload, text),
        }
        return Told(200, body)


def in_prompt(payload: Payload) -> Mapping[str, Any] | None:
    """The schema that stands in the last message."""
    shown: str = payload["messages"][-1]["content"]
    if "JSON schema" not in shown:
        return None
    schema: Mapping[str, Any] = json.loads(
        shown[shown.index("\n{", shown.rindex("JSON schema")) + 1 :]
    )
    return schema


class OpenAI(Provider):
    """https://platform.openai.com/docs/api-reference/chat, /docs/guides/error-codes."""

    name = "openai"
    model = "gpt-4o-mini"
    no_money = Told(
        429,
        error(
            "You exceeded your current quota, please check your plan and billing details.",
            code="insufficient_quota",
        ),
    )
    rate_limited = Told(
        429,
        error(
            "Rate limit reached for gpt-4o-mini in organization org-x on tokens per min (TPM): "
            "Limit 200000, Used 199000, Requested 1500. Please try again in 1.2s. Visit "
            "https://platform.openai.com/account/rate-limits to learn more.",
            code="rate_limit_exceeded",
        ),
    )


class OpenAIReasoning(OpenAI):
    """o3, o4-mini, gpt-5: https://platform.openai.com/docs/guides/reasoning."""

    name = "openai, reasoning"
    model = "o3"

    def rejected(self, payload: Payload) -> Told | None:
        if "max_tokens" in payload:
            text = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead."
            )
            return Told(400, error(text, param="max_tokens", code="unsupported_parameter"))
        if payload.get("temperature", 1) != 1:
            text = (
                f"Unsupported value: 'temperature' does not support {payload['temperature']} with "
                "this model. Only the default (1) value is supported."
            )
            return Told(400, error(text, param="temperature", code="unsupported_value"))
        return super().rejected(payload)

    def reasoning(self, payload: Payload) -> int:
        return 512 if payload.get("reasoning_effort") == "low" else 6_000


class Azure(OpenAI):
    """The v1 interface: https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle."""

    name = "azure"
    model = "my-deployment"
    prefix = "/openai/v1"
    rate_limited = Told(
        429,
        error(
            "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded "
            "token rate limit of your current OpenAI S0 pricing tier. Please retry after 24 "
            "seconds.",
            code="429",
        ),
    )

    def rejected(self, payload: Payload) -> Told | None:
        if payload["model"] != self.model:
            return Told(404, error("The API deployment does not exist", code="DeploymentNotFound"))
        return super().rejected(payload)


class AzureDated(Azure):
    """The dated interface, with a token of Entra: /azure/ai-services/openai/reference."""

    name = "azure, dated, Entra"
    prefix = ""
    settings: ClassVar[Mapping[str, Any]] = {"api_version": "2024-10-21"}
    TOKEN: ClassVar[str] = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.c2lnbmVk"

    def is_key(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {self.TOKEN}" and "api-key" not in headers


class Anthropic(Provider):
    """https://docs.claude.com/en/api/openai-sdk: ``response_format``, ``seed``,
    ``reasoning_effort`` are "Ignored"; newer models refuse sampling parameters."""

    name = "anthropic"
    model = "claude-opus-4-8"
    no_money = Told(
        400,
        error(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
            "Billing to upgrade or purchase credits."
        ),
    )
    rate_limited = Told(
        429,
        error(
            "This request would exceed your organization's rate limit of 50 requests per minute",
            type="rate_limit_error",
        ),
        {"retry-after": "12"},
    )
    overload = Told(529, error("Overloaded", type="overloaded_error"))

    def rejected(self, payload: Payload) -> Told | None:
        if payload.get("temperature", 1) != 1:
            return Told(400, error("`temperature` is deprecated for this model."))
        return super().rejected(payload)

    def honours(self, payload: Payload) -> Mapping[str, Any] | None:
        return in_prompt(payload)


def google(code: int, status: str, message: str, **more: Any) -> Told:
    return Told(code, [{"error": {"code": code, "message": message, "status": status} | more}])


def google_quota(quota: str, delay: str) -> Told:
    violation = {"quotaId": quota, "quotaValue": "15"}
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    text = "You exceeded your current quota, please check your plan and billing details."
    return google(429, "RESOURCE_EXHAUSTED", text, details=details)


class Gemini(Provider):
    """https://ai.google.dev/gemini-api/docs/openai and /rate-limits. Errors stand in a list; every
    limit has the words that OpenAI uses for an empty account."""

    name = "gemini"
    model = "gemini-2.5-flash"
    prefix = "/v1beta/openai"
    fields: ClassVar[set[str]] = {
        "model", "messages", "temperature", "max_tokens", "max_completion_tokens",
        "response_format", "top_p", "reasoning_effort", "stop", "n",
    }  # fmt: skip
    no_money = google_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "38s")
    rate_limited = google_quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "26s")
    overload = google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")

    def unauthorised(self, headers: Mapping[str, str]) -> Told:
        return google(401, "UNAUTHENTICATED", "API key not valid.")

    def rejected(self, payload: Payload) -> Told | None:
        for name in sorted(set(payload) - self.fields):
            text = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
            return google(400, "INVALID_ARGUMENT", text)
        return super().rejected(payload)

    def usage(self, payload: Payload, text: str) -> dict[str, Any]:
        """What it thinks stands in the total alone."""
        usage = super().usage(payload, text)
        return usage | {"total_tokens": usage["total_tokens"] + 300}


class OpenRouter(Provider):
    """https://openrouter.ai/docs/use-cases/usage-accounting, /docs/api-reference/errors: it says
    what a call cost; an error of the provider behind it comes with status 200."""

    name = "openrouter"
    model = "anthropic/claude-haiku-4.5"
    prefix = "/api/v1"
    no_money = Told(402, error("This request requires more credits, or fewer max_tokens."))
    rate_limited = Told(200, {"error": {"code": 429, "message": "Provider returned error"}})
    overload = Told(200, {"choices": [{
        "error": {"code": 502, "message": "Upstream"}, "finish_reason": "error",
        "message": {"content": ""},
    }]})  # fmt: skip

    def usage(self, payload: Payload, text: str) -> dict[str, Any]:
        return super().usage(payload, text) | {"cost": 0.000_125, "is_byok": False}


class DeepSeek(Provider):
    """https://api-docs.deepseek.com/guides/json_mode: ``json_object`` alone."""

    name = "deepseek"
    model = "deepseek-flash"
    no_schema = Told(400, error("This response_format type is unavailable now"))

    def usage(self, payload: Payload, text: str) -> dict[str, Any]:
        return super().usage(payload, text) | {"prompt_tokens_details": {"cached_tokens": 4}}


class Groq(Provider):
    """https://console.groq.com/docs/structured-outputs: some models take no schema."""

    name = "groq"
    prefix = "/openai/v1"
    no_schema = Told(
        400, error("This model does not support response format `json_schema`.", param="x")
    )
    rate_limited = Told(429, error("Requested 900. Please try again in 2m6.5s.", type="tokens"))


class Local(Provider):
    """A server on one's own machine: no key, no money."""

    def is_key(self, headers: Mapping[str, str]) -> bool:
        return True


class Ollama(Local):
    """https://docs.ollama.com/api/openai-compatibility; a prompt that is longer than ``num_ctx`` is
    cut to half of it without a word (ollama/ollama issues 3839, 17427)."""

    name = "ollama"
    model = "qwen3"
    context = 4_096

    def rejected(self, payload: Payload) -> Told | None:
        return None

    def read_tokens(self, payload: Payload) -> int:
        sent = self.prompt_tokens(payload)
        return sent if sent <= self.context else self.context // 2 + 2


class LlamaCpp(Local):
    """llama-server: https://github.com/ggml-org/llama.cpp/tree/master/tools/server; what is too
    long is refused since September 2025 (pull request 15780)."""

    name = "llama.cpp"
    context = 4_096


class LlamaCppOld(Ollama):
    """llama-server before that: context shift drops the middle of the prompt."""

    name = "llama.cpp, context shift"

    def read_tokens(self, payload: Payload) -> int:
        return min(self.prompt_tokens(payload), self.context)


class LlamaCppPython(Local):
    """llama-cpp-python: ``json_schema`` is a server error; a schema stands beside json_object."""

    name = "llama-cpp-python"
    no_schema = Told(500, error("[{'type': 'literal_error', 'loc': ('body', 'type')}]"))

    def honours(self, payload: Payload) -> Mapping[str, Any] | None:
        schema: Mapping[str, Any] | None = payload.get("response_format", {}).get("schema")
        return schema


class Vllm(Local):
    """https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html: the longest answer
    counts as part of the context."""

    name = "vllm"
    context = 8_192

    def rejected(self, payload: Payload) -> Told | None:
        if self.prompt_tokens(payload) + payload.get("max_tokens", 0) <= self.context:
            return None
        return Told(400, error(f"This model's maximum context length is {self.context} tokens."))


class ReasoningInText(Local):
    """A local model that thinks in tags, and is cut off while it does."""

    name = "thinks in tags"
    model = "qwen3-thinking"

    def answer(self, payload: Payload) -> Told:
        shown = super().answer(payload)
        choice = shown.body["choices"][0]
        if (self.limit(payload) or 0) <= 4_096:
            choice["message"]["content"] = "<think>Let me see. The first passage says"
            choice["finish_reason"] = "length"
        else:
            choice["message"]["content"] = f"<think>hm</think>{choice['message']['content']}"
        return shown


class LiteLLM(Provider):
    """The proxy of LiteLLM: what a call cost stands in a header (docs.litellm.ai/docs/proxy)."""

    name = "litellm"
    model = "bedrock-claude"

    def answer(self, payload: Payload) -> Told:
        return super().answer(payload)._replace(headers={"x-litellm-response-cost": "0.00042"})


class Gateway(Provider):
    """A company's gateway: a key of its own in a header of its own, such as Portkey or Helicone."""

    name = "gateway"
    settings: ClassVar[Mapping[str, Any]] = {
        "headers": {"X-Gateway-Key": "${GATEWAY_KEY}", "X-Provider": "openai"}
    }

    def is_key(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-gateway-key") == KEY and headers.get("x-provider") == "openai"


PROVIDERS: tuple[type[Provider], ...] = (
    OpenAI, OpenAIReasoning, Azure, AzureDated, Anthropic, Gemini, OpenRouter, DeepSeek, Groq,
    LiteLLM, Gateway, Ollama, LlamaCpp, LlamaCppOld, LlamaCppPython, Vllm, ReasoningInText,
)  # fmt: skip
HOSTED = tuple(kind for kind in PROVIDERS if not issubclass(kind, Local))
"""Those that ask for a key and for money."""
