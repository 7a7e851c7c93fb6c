"""Which endpoint the user means: options, a section of ragbench.yaml, the environment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from ragbench.errors import ConfigError, NoModelError
from ragbench.llm.concurrency import CallLimits, RetryPolicy
from ragbench.llm.endpoint import ApiKey, Endpoint, Price, StructuredOutput
from ragbench.llm.providers import AZURE, PROVIDERS, Provider, azure_address, by_address, by_model
from ragbench.masking import mask_text, mask_url

DEFAULT_CACHE = "reports/llm-cache.sqlite"
"""Next to the runs, so that a run finds what another one paid for; nothing in the home folder."""
NOT_SENT = "none"
"""The value of a setting that shall have none."""
_CHAT, _EMBEDDINGS = "llm", "embeddings"
"""The kinds of models that are asked: the sections of a configuration file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
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


# --- values: what a setting may be; a reader raises what it must be


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError("a text")


def _whole(value: object) -> int:
    try:
        number = int(str(value)) if not isinstance(value, bool) else -1
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError("a whole number of at least 0")
    return number


def _amount(value: object) -> Decimal:
    try:
        number = Decimal(str(value)) if not isinstance(value, bool) else Decimal(-1)
    except InvalidOperation:
        number = Decimal(-1)
    if not number.is_finite() or number < 0:
        raise ValueError("a number of at least 0")
    return number


def _fraction(value: object) -> float:
    return float(_amount(value))


def _yes_or_no(value: object) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if str(value).lower() not in words:
        raise ValueError("true or false")
    return words[str(value).lower()]


def _structured(value: object) -> str:
    modes = [mode.value for mode in StructuredOutput]
    if value not in modes:
        raise ValueError(f"one of {', '.join(modes)}")
    return str(value)


def _fields(value: object) -> dict[str, Any]:
    """A mapping, or a text that is a JSON object."""
    try:
        found = cast("object", json.loads(value) if isinstance(value, str) else value)
    except ValueError:
        found = None
    if isinstance(found, dict) and all(isinstance(key, str) for key in cast("Any", found)):
        return cast("dict[str, Any]", found)
    raise ValueError('an object such as {"top_p": 0.9}')


def _headers(value: object) -> dict[str, str]:
    found = _fields(value)
    if not all(isinstance(text, str) for text in found.values()):
        raise ValueError('an object of texts, such as {"X-Team": "search"}')
    return found


def _command(value: object) -> tuple[str, ...]:
    """A program with its arguments: a list, or a text that is split as a shell would."""
    if isinstance(value, list) and value and all(isinstance(p, str) for p in cast("Any", value)):
        return tuple(cast("list[str]", value))
    try:
        found = tuple(shlex.split(value)) if isinstance(value, str) else ()
    except ValueError:
        found = ()
    if not found:
        raise ValueError("a program with its arguments")
    return found


_READERS: dict[str, Callable[[object], Any]] = {
    "base_url": _text,
    "model": _text,
    "api_key_env": _text,
    "api_key_file": _text,
    "api_key_command": _command,
    "headers": _headers,
    "api_version": _text,
    "temperature": _fraction,
    "seed": _whole,
    "max_tokens": _whole,
    "reasoning_effort": _text,
    "reasoning_tokens": _whole,
    "extra": _fields,
    "structured": _structured,
    "context": _whole,
    "prompt_check": _yes_or_no,
    "price_input": _amount,
    "price_output": _amount,
    "price_cached_input": _amount,
    "timeout": _fraction,
    "deadline": _fraction,
    "concurrency": _whole,
    "retries": _whole,
    "rate_limit_wait": _fraction,
    "cache": _text,
    "cache_max_mb": _whole,
}
SETTING_NAMES = tuple(_READERS)
_MAY_HOLD_KEYS = frozenset({"headers", "extra", "api_key_command"})
"""Settings whose values no message quotes."""
_MAY_BE_UNSENT = frozenset({"temperature", "seed", "max_tokens", "deadline", "context"})
_KEYS = ("api_key_env", "api_key_file", "api_key_command")
"""The places of a key; one of them."""
_OWN_TO_ENDPOINT = frozenset(
    {
        "base_url", "model", *_KEYS, "headers", "api_version", "reasoning_effort", "extra",
        "structured", "context", "prompt_check", "price_input", "price_output",
        "price_cached_input",
    }
)  # fmt: skip
"""What one judge of a panel does not take over from the first, where it is at another place."""


def _read(name: str, value: object, origin: str) -> Any:
    if name in _MAY_BE_UNSENT and value == NOT_SENT:
        return None
    try:
        return _READERS[name](value)
    except ValueError as error:
        quoted = "" if name in _MAY_HOLD_KEYS else f", not {value!r}"
        raise ConfigError(f"{origin} must be {error}{quoted}") from None


_OPENAI_URL = PROVIDERS["openai"].base_url
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
            if name not in _READERS:
                known = ", ".join(_READERS)
                raise ConfigError(f"{file or kind}: there is no setting '{name}'. Known: {known}")
        for name in _READERS:
            variable = f"{self.prefix}{name.upper()}"
            for origin, given in (
                (f"option --llm-{name.replace('_', '-')}", options.get(name)),
                (f"{file}: {kind}.{name}", section.get(name)),
                (variable, environ.get(variable) or None),
            ):
                if given is not None:
                    self._put(name, _read(name, given, origin), origin)
                    break

    def _put(self, name: str, value: Any, origin: str) -> None:
        self._values[name], self._origins[name] = value, origin

    def value(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def given(self, *names: str) -> dict[str, Any]:
        return {name: self._values[name] for name in names if name in self._values}

    def provider(self) -> tuple[Provider, str] | None:
        """The provider that the model's name begins with, where no address is given.

        With an address, a name such as ``anthropic/claude-sonnet-5`` is that of a gateway's model.
        """
        given = "base_url" in self._origins and not self._origins["base_url"].startswith("provider")
        if given or self._environ.get("OPENAI_BASE_URL"):
            return None
        return by_model(str(self.value("model", "")))

    def model(self) -> str:
        found = self.provider()
        return str(self.value("model")) if found is None else found[1]

    def base_url(self) -> str:
        """The address: given, the provider's, OpenAI's variable, or OpenAI's own."""
        if "base_url" not in self._values:
            found = self.provider()
            other = self._environ.get("OPENAI_BASE_URL")
            if found is not None and found[0] is AZURE:
                version = self._environ.get("OPENAI_API_VERSION")
                if version and "api_version" not in self._values:
                    self._put("api_version", version, "OPENAI_API_VERSION")
                address = azure_address(self._environ, dated="api_version" in self._values)
                self._put("base_url", address, "provider azure, AZURE_OPENAI_ENDPOINT")
            elif found is not None:
                self._put("base_url", found[0].base_url, f"provider {found[0].name}")
            else:
                origin = "OPENAI_BASE_URL" if other else "default"
                self._put("base_url", other or _OPENAI_URL, origin)
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
        if provider is None and self._origins.get("base_url", "").startswith("provider"):
            found = self.provider()
            provider = None if found is None else found[0]
            if provider is not None and not any(self._environ.get(name) for name in provider.keys):
                return None  # a server of the user's own may ask for none
        if provider is None:
            return None
        return next((name for name in provider.keys if self._environ.get(name)), provider.keys[0])

    def price(self) -> Price | None:
        """The user's own price; both halves or none."""
        parts = self.given("price_input", "price_output", "price_cached_input")
        if not parts:
            return None
        if "price_input" not in parts or "price_output" not in parts:
            raise ConfigError("a price needs both price_input and price_output, per million tokens")
        cached: Decimal | None = parts.get("price_cached_input")
        return Price(
            input=parts["price_input"],
            output=parts["price_output"],
            cached_input=cached,
            origin=self._origins["price_input"],
        )

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
    for entry in cast("list[object]", named or []):
        own = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(own, dict) or "model" not in own:
            raise ConfigError(f"{file or 'llm'}: each of panel must be a model or its settings")
        found.append(_juror(base, cast("dict[str, object]", own), environ, file))
    return tuple(found)


def _juror(
    base: Mapping[str, object], own: Mapping[str, object], environ: Mapping[str, str], file: str
) -> LLMSettings:
    """A judge's settings: its own over those that the first one has."""
    elsewhere = "base_url" in own or by_model(str(own["model"])) is not None
    kept = {
        name: value
        for name, value in base.items()
        if name != "model" and not (elsewhere and name in _OWN_TO_ENDPOINT)
    }
    known = dict(environ)
    if elsewhere:
        for name in _OWN_TO_ENDPOINT:
            known.pop(f"RAGBENCH_LLM_{name.upper()}", None)
        known.pop("RAGBENCH_LLM_API_KEY", None)
        known.pop("OPENAI_BASE_URL", None)
    known.pop("RAGBENCH_LLM_MODEL", None)
    return resolve({}, known, section={**kept, **own}, file=file)


def resolve_embeddings(
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
    chat: LLMSettings | None = None,
) -> LLMSettings:
    """The same for the model that gives vectors: ``RAGBENCH_EMBEDDINGS_<NAME>``."""
    found = _Found({}, section or {}, file, environ, _EMBEDDINGS)
    if chat is not None and found.value("base_url") is None and found.provider() is None:
        cache = chat.cache or "off"
        if not any(found.value(name) for name in _KEYS):
            return _settings(found, chat.endpoint.base_url, chat.endpoint.key, cache)
        return _settings(found, chat.endpoint.base_url, found.key(chat.endpoint.base_url), cache)
    base_url = found.base_url()
    cache = DEFAULT_CACHE if chat is None else chat.cache or "off"
    return _settings(found, base_url, found.key(base_url), cache)


def _settings(found: _Found, base_url: str, key: ApiKey, cache: str) -> LLMSettings:
    model = found.value("model")
    if model is None:
        option = "--llm-model, " if found.kind == _CHAT else ""
        what = "model" if found.kind == _CHAT else "model for embeddings"
        raise NoModelError(
            f"no {what} is named. Give {option}'model' in the section {found.kind} of "
            f"ragbench.yaml or {found.prefix}MODEL"
        )
    endpoint = Endpoint(
        base_url=base_url,
        model=found.model(),
        key=key,
        structured=StructuredOutput(found.value("structured", StructuredOutput.AUTO.value)),
        price=found.price(),
        **found.given(
            "headers", "api_version", "temperature", "seed", "max_tokens", "reasoning_effort",
            "reasoning_tokens", "context", "prompt_check", "extra",
        ),
    )  # fmt: skip
    limits = CallLimits(
        retry=RetryPolicy(**found.given("retries", "rate_limit_wait")),
        **found.given("timeout", "deadline", "concurrency"),
    )
    path = found.value("cache", cache)
    return LLMSettings(
        endpoint=endpoint,
        limits=limits,
        cache=None if path == "off" else path,
        cache_bytes=found.value("cache_max_mb", 1000) * 1_000_000,
        settings=found.in_force(endpoint, path),
    )
