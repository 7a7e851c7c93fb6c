"""Which endpoint the user means: options, a section of ragbench.yaml, the environment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from ragbench.errors import ConfigError, NoModelError
from ragbench.llm.concurrency import CallLimits
from ragbench.llm.endpoint import (
    ApiKey,
    Endpoint,
    Price,
    StructuredOutput,
    azure_address,
    by_address,
    by_model,
)
from ragbench.masking import mask_text, mask_url

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEFAULT_CACHE = "reports/llm-cache.sqlite"
"""Next to the runs, so that a run finds what another one paid for; nothing in the home folder."""
NOT_SENT = "none"
"""The value of a setting that shall have none."""
_CHAT, _EMBEDDINGS = "llm", "embeddings"
"""The kinds of models that are asked: the sections of a configuration file."""


class Setting(NamedTuple):
    """One setting that is in force."""

    name: str
    value: str
    """As a reader sees it; never a credential."""
    origin: str
    """Where it comes from, such as ``"option"``, ``"ragbench.yaml"`` or an environment variable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LLMSettings:
    """What is needed to ask a model."""

    endpoint: Endpoint
    limits: CallLimits
    cache: str | None
    """Path of the file of answers; None when none are kept."""
    cache_bytes: int
    settings: tuple[Setting, ...]
    """Each setting that was given or matters, with its origin."""


# --- values: what a setting may be


def _number(value: object) -> float:
    number = float(str(value)) if not isinstance(value, bool) else -1.0
    if not isfinite(number) or number < 0:
        raise ValueError
    return number


def _whole(value: object) -> int:
    _number(value)
    return int(str(value))


def _amount(value: object) -> Decimal:
    _number(value)
    return Decimal(str(value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _yes_or_no(value: object) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    return words[str(value).lower()]


def _fields(value: object) -> dict[str, Any]:
    """A mapping, or a text that is a JSON object."""
    found = json.loads(value) if isinstance(value, str) else value
    return msgspec.convert(found, dict[str, Any])


def _headers(value: object) -> dict[str, str]:
    return msgspec.convert(_fields(value), dict[str, str])


def _command(value: object) -> tuple[str, ...]:
    """A program with its arguments: a list, or a text that is split as a shell would."""
    found = shlex.split(value) if isinstance(value, str) else value
    words: tuple[str, ...] = msgspec.convert(found, tuple[str, ...])
    if not words:
        raise ValueError
    return words


def _structured(value: object) -> StructuredOutput:
    return StructuredOutput(str(value))


_MUST_BE: dict[Callable[[object], Any], str] = {
    _text: "a text",
    _whole: "a whole number of at least 0",
    _amount: "a number of at least 0",
    _number: "a number of at least 0",
    _yes_or_no: "true or false",
    _fields: 'an object such as {"top_p": 0.9}',
    _headers: 'an object of texts, such as {"X-Team": "search"}',
    _command: "a program with its arguments",
    _structured: f"one of {', '.join(StructuredOutput)}",
}


class _Row(NamedTuple):
    """A setting."""

    read: Callable[[object], Any]
    own: bool = False
    """Whether a judge of a panel does not take it over from the first, where it is at another
    place."""
    unsent: bool = False
    """Whether it may be none: then it is not sent."""
    secret: bool = False
    """Whether it may hold a key: then no message quotes it."""


_ROWS = {
    "base_url": _Row(_text, own=True),
    "model": _Row(_text, own=True),
    "api_key_env": _Row(_text, own=True),
    "api_key_file": _Row(_text, own=True),
    "api_key_command": _Row(_command, own=True, secret=True),
    "headers": _Row(_headers, own=True, secret=True),
    "api_version": _Row(_text, own=True),
    "temperature": _Row(_number, unsent=True),
    "seed": _Row(_whole, unsent=True),
    "max_tokens": _Row(_whole, unsent=True),
    "reasoning_effort": _Row(_text, own=True),
    "reasoning_tokens": _Row(_whole),
    "extra": _Row(_fields, own=True, secret=True),
    "structured": _Row(_structured, own=True),
    "context": _Row(_whole, own=True, unsent=True),
    "prompt_check": _Row(_yes_or_no, own=True),
    "price_input": _Row(_amount, own=True),
    "price_output": _Row(_amount, own=True),
    "price_cached_input": _Row(_amount, own=True),
    "timeout": _Row(_number),
    "deadline": _Row(_number, unsent=True),
    "concurrency": _Row(_whole),
    "retries": _Row(_whole),
    "rate_limit_wait": _Row(_number),
    "cache": _Row(_text),
    "cache_max_mb": _Row(_whole),
}
SETTING_NAMES = tuple(_ROWS)
_KEYS = ("api_key_env", "api_key_file", "api_key_command")
"""The places of a key; one of them."""


def _read(name: str, value: object, origin: str) -> Any:
    row = _ROWS[name]
    if row.unsent and value == NOT_SENT:
        return None
    try:
        return row.read(value)
    except (ValueError, KeyError):
        quoted = "" if row.secret else f", not {value!r}"
        raise ConfigError(f"{origin} must be {_MUST_BE[row.read]}{quoted}") from None


_OPENAI_URL = "https://api.openai.com/v1"
_PANEL = "panel"
"""In the section ``llm``, and no setting of one model."""


class _Found:
    """Values by name, looked up in the order of precedence."""

    def __init__(
        self,
        options: Mapping[str, object],
        section: Mapping[str, object],
        file: str,
        environ: Mapping[str, str],
        kind: str,
    ) -> None:
        self.kind = kind
        self.prefix = f"RAGBENCH_{kind.upper()}_"
        self._environ = environ
        self._values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        for name in (*options, *section):
            if name not in _ROWS:
                known = ", ".join(_ROWS)
                raise ConfigError(f"{file or kind}: there is no setting '{name}'. Known: {known}")
        for name in _ROWS:
            variable = f"{self.prefix}{name.upper()}"
            for origin, given in (
                (f"option --llm-{name.replace('_', '-')}", options.get(name)),
                (f"{file}: {kind}.{name}", section.get(name)),
                (variable, environ.get(variable) or None),
            ):
                if given is not None:
                    self._put(name, _read(name, given, origin), origin)
                    break
        # With an address, a name such as anthropic/claude-sonnet-5 is that of a gateway's model.
        has_address = "base_url" in self._values or environ.get("OPENAI_BASE_URL")
        self.provider = None if has_address else by_model(str(self.value("model", "")))
        """The provider that the model's name begins with, where no address is given."""

    def _put(self, name: str, value: Any, origin: str) -> None:
        self._values[name], self._origins[name] = value, origin

    def value(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def given(self, kind: type[DataclassInstance]) -> dict[str, Any]:
        """The values of a record's fields."""
        names = [field.name for field in fields(kind)]
        return {name: self._values[name] for name in names if name in self._values}

    def base_url(self) -> str:
        """The address: given, the provider's, OpenAI's variable, or OpenAI's own."""
        if "base_url" not in self._values:
            other = self._environ.get("OPENAI_BASE_URL")
            address, origin = other or _OPENAI_URL, "OPENAI_BASE_URL" if other else "default"
            if self.provider is not None and self.provider[0].name == "azure":
                version = self._environ.get("OPENAI_API_VERSION")
                if version and "api_version" not in self._values:
                    self._put("api_version", version, "OPENAI_API_VERSION")
                address = azure_address(self._environ, dated="api_version" in self._values)
                origin = "provider azure, AZURE_OPENAI_ENDPOINT"
            elif self.provider is not None:
                address, origin = self.provider[0].base_url, f"provider {self.provider[0].name}"
            self._put("base_url", address, origin)
        return str(self._values["base_url"])

    def key(self, base_url: str) -> ApiKey:
        places = {name: self.value(name) for name in _KEYS if self.value(name)}
        # The nearer place wins: an option replaces what a file says.
        nearest = min((self._rank(name) for name in places), default=0)
        places = {name: place for name, place in places.items() if self._rank(name) == nearest}
        if places:
            return ApiKey(
                variable=places.get("api_key_env"),
                file=places.get("api_key_file"),
                command=places.get("api_key_command", ()),
            )
        own = f"{self.prefix}API_KEY"
        return ApiKey(variable=own if self._environ.get(own) else self._provider_key(base_url))

    def _provider_key(self, base_url: str) -> str | None:
        """The variable of whoever is at the address; whether it is set is seen when it is read."""
        theirs = (self._environ.get("OPENAI_BASE_URL") or _OPENAI_URL).rstrip("/")
        if base_url.rstrip("/") == theirs and self._environ.get("OPENAI_API_KEY"):
            return "OPENAI_API_KEY"
        provider = by_address(base_url)
        if provider is None and self.provider is not None:
            provider = self.provider[0]
            if not any(self._environ.get(name) for name in provider.keys):
                return None  # a server of the user's own may ask for none
        if provider is None:
            return None
        return next((name for name in provider.keys if self._environ.get(name)), provider.keys[0])

    def price(self) -> Price | None:
        """The user's own price; both halves or none."""
        parts = {
            name.removeprefix("price_"): value
            for name, value in self._values.items()
            if name.startswith("price_")
        }
        if parts and not {"input", "output"} <= set(parts):
            raise ConfigError("a price needs both price_input and price_output, per million tokens")
        return Price(**parts, origin=self._origins["price_input"]) if parts else None

    def in_force(self, endpoint: Endpoint, cache: str) -> tuple[Setting, ...]:
        """The settings in force; those that were given after those that always matter."""
        shown = {
            "base_url": mask_url(endpoint.base_url),
            "model": endpoint.model,
            "api_key": str(endpoint.key),
            "temperature": _shown(endpoint.temperature),
            "max_tokens": _shown(endpoint.max_tokens),
            "cache": cache,
        }
        for name, value in self._values.items():
            if not name.startswith("api_key"):
                shown.setdefault(name, _shown(value))
        key_origin = next((self._origins[name] for name in _KEYS if name in self._origins), None)
        origins = {"api_key": key_origin or "default"} | self._origins
        return tuple(
            Setting(name=name, value=mask_text(value), origin=origins.get(name, "default"))
            for name, value in shown.items()
        )

    def _rank(self, name: str) -> int:
        origin = self._origins[name]
        return 0 if origin.startswith("option ") else 2 if origin.startswith(self.prefix) else 1


def _shown(value: object) -> str:
    return NOT_SENT if value is None else str(value)


def resolve(
    options: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> LLMSettings:
    """Puts together what the user said in several places."""
    own = {name: value for name, value in (section or {}).items() if name != _PANEL}
    found = _Found(options, own, file, environ, _CHAT)
    base_url = found.base_url()
    return _settings(found, base_url, found.key(base_url), DEFAULT_CACHE)


def resolve_panel(
    environ: Mapping[str, str],
    *,
    given: str | None = None,
    options: Mapping[str, object] | None = None,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> tuple[LLMSettings, ...]:
    """The judges besides the first."""
    base = {name: value for name, value in (section or {}).items() if name != _PANEL}
    base |= {name: value for name, value in (options or {}).items() if value is not None}
    named: object = given or (section or {}).get(_PANEL) or environ.get("RAGBENCH_LLM_PANEL")
    if isinstance(named, str):
        named = [name.strip() for name in named.split(",") if name.strip()]
    if named is not None and not isinstance(named, list):
        raise ConfigError(f"{file or 'llm'}: panel must be a list of models")
    found: list[LLMSettings] = []
    own_to_endpoint = {name for name, row in _ROWS.items() if row.own}
    elsewhere = {f"RAGBENCH_LLM_{name.upper()}" for name in own_to_endpoint}
    elsewhere |= {"RAGBENCH_LLM_API_KEY", "OPENAI_BASE_URL"}
    for entry in cast("list[object]", named or []):
        own = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(own, dict) or "model" not in own:
            raise ConfigError(f"{file or 'llm'}: each of panel must be a model or its settings")
        # Its own over those that the first one has, as far as they are not of another endpoint.
        judge = cast("dict[str, object]", own)
        is_there = "base_url" not in judge and by_model(str(judge["model"])) is None
        left = {"model"} if is_there else {"model", *own_to_endpoint}
        unset = {"RAGBENCH_LLM_MODEL"} if is_there else {"RAGBENCH_LLM_MODEL", *elsewhere}
        kept = {name: value for name, value in base.items() if name not in left}
        known = {name: value for name, value in environ.items() if name not in unset}
        found.append(resolve({}, known, section=kept | judge, file=file))
    return tuple(found)


def resolve_embeddings(
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
    chat: LLMSettings | None = None,
) -> LLMSettings:
    """The same for the model that gives vectors: ``RAGBENCH_EMBEDDINGS_<NAME>``."""
    found = _Found({}, section or {}, file, environ, _EMBEDDINGS)
    if chat is None or found.value("base_url") is not None or found.provider is not None:
        base_url = found.base_url()
        key = found.key(base_url)
    else:
        base_url = chat.endpoint.base_url
        has_own = any(found.value(name) for name in _KEYS)
        key = found.key(base_url) if has_own else chat.endpoint.key
    cache = DEFAULT_CACHE if chat is None else chat.cache or "off"
    return _settings(found, base_url, key, cache)


def _settings(found: _Found, base_url: str, key: ApiKey, cache: str) -> LLMSettings:
    model = found.value("model")
    if model is None:
        option = "--llm-model, " if found.kind == _CHAT else ""
        what = "model" if found.kind == _CHAT else "model for embeddings"
        raise NoModelError(
            f"no {what} is named. Give {option}'model' in the section {found.kind} of "
            f"ragbench.yaml or {found.prefix}MODEL"
        )
    mine: dict[str, Any] = {
        "base_url": base_url,
        "model": str(model) if found.provider is None else found.provider[1],
        "key": key,
        "price": found.price(),
    }
    endpoint = Endpoint(**(found.given(Endpoint) | mine))
    limits = CallLimits(**found.given(CallLimits))
    path = found.value("cache", cache)
    return LLMSettings(
        endpoint=endpoint,
        limits=limits,
        cache=None if path == "off" else path,
        cache_bytes=found.value("cache_max_mb", 1000) * 1_000_000,
        settings=found.in_force(endpoint, path),
    )
