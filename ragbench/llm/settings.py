"""Which endpoint the user means: options before the file before the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ragbench.errors import ConfigError, NoModelError
from ragbench.interface.masking import mask_text, mask_url
from ragbench.llm.api_key import ApiKey
from ragbench.llm.dialect import Structured
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.limits import CallLimits
from ragbench.llm.price import Price
from ragbench.llm.retry import RetryPolicy
from ragbench.llm.setting_values import (
    NOT_SENT,
    amount,
    fraction,
    json_fields,
    one_of,
    text,
    whole,
)

__all__ = [
    "DEFAULT_CACHE",
    "OPENAI_URL",
    "SETTING_NAMES",
    "LLMSettings",
    "Setting",
    "resolve",
    "resolve_embeddings",
]

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_CACHE = "reports/llm-cache.sqlite"
"""Beside the runs, so that a run finds what another one paid for; nothing in the home folder."""
_CHAT = "llm"
_EMBEDDINGS = "embeddings"
_READERS: dict[str, Any] = {
    "base_url": text,
    "model": text,
    "api_key_env": text,
    "api_key_file": text,
    "api_version": text,
    "temperature": fraction,
    "seed": whole,
    "max_tokens": whole,
    "extra": json_fields,
    "structured": one_of(tuple(mode.value for mode in Structured)),
    "price_input": amount,
    "price_output": amount,
    "price_cached_input": amount,
    "timeout": fraction,
    "deadline": fraction,
    "concurrency": whole,
    "retries": whole,
    "rate_limit_wait": fraction,
    "cache": text,
    "cache_max_mb": whole,
}
"""Every setting, and what reads its value."""
SETTING_NAMES = tuple(_READERS)
"""Every setting."""
_MAY_BE_UNSENT = frozenset({"temperature", "seed", "max_tokens", "deadline"})


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


def resolve(
    options: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> LLMSettings:
    """Puts together what the user said in several places.

    Args:
        options: from the command line, by setting name; None means not given.
        environ: the environment: ``RAGBENCH_LLM_<NAME>``, then ``OPENAI_BASE_URL`` and
            ``OPENAI_API_KEY``. The last one is used only with OpenAI's own address or with the
            address in ``OPENAI_BASE_URL``: a key must not travel to a host that it is not for.
        section: the section ``llm`` of a configuration file.
        file: that file's name.

    Raises:
        ConfigError: a setting is unknown or wrong; says where it stands.
        NoModelError: no model is named.
    """
    found = _Found(options, section or {}, file, environ, _CHAT)
    base_url = found.base_url()
    return _settings(found, base_url, found.key(base_url), DEFAULT_CACHE)


def resolve_embeddings(
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
    chat: LLMSettings | None = None,
) -> LLMSettings:
    """The same for the model that gives vectors: ``RAGBENCH_EMBEDDINGS_<NAME>``.

    Args:
        environ: the environment.
        section: the section ``embeddings`` of a configuration file.
        file: that file's name.
        chat: the language model's settings: address, key and cache are its own where nothing else
            is said.

    Raises:
        ConfigError: a setting is unknown or wrong; says where it stands.
        NoModelError: no model is named.
    """
    found = _Found({}, section or {}, file, environ, _EMBEDDINGS)
    if chat is not None and found.value("base_url") is None:
        cache = chat.cache or "off"
        if found.value("api_key_env") is None and found.value("api_key_file") is None:
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
        model=model,
        key=key,
        structured=Structured(found.value("structured", Structured.AUTO.value)),
        price=found.price(),
        **found.given("api_version", "temperature", "seed", "max_tokens", "extra"),
    )
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
        settings=found.told(endpoint, path),
    )


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
        for name, read in _READERS.items():
            variable = f"{self.prefix}{name.upper()}"
            for origin, given in (
                (f"option --llm-{name.replace('_', '-')}", options.get(name)),
                (f"{file}: {kind}.{name}", section.get(name)),
                (variable, environ.get(variable) or None),
            ):
                if given is not None:
                    unsent = name in _MAY_BE_UNSENT and given == NOT_SENT
                    self._values[name] = None if unsent else read(given, origin)
                    self._origins[name] = origin
                    break

    def value(self, name: str, default: Any = None) -> Any:
        """A setting's value."""
        return self._values.get(name, default)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the settings that were given."""
        return {name: self._values[name] for name in names if name in self._values}

    def base_url(self) -> str:
        """The address: given, OpenAI's variable, or OpenAI's own."""
        if "base_url" not in self._values:
            other = self._environ.get("OPENAI_BASE_URL")
            self._values["base_url"] = other or OPENAI_URL
            self._origins["base_url"] = "OPENAI_BASE_URL" if other else "default"
        return str(self._values["base_url"])

    def key(self, base_url: str) -> ApiKey:
        """Where the key is."""
        variable, path = self.value("api_key_env"), self.value("api_key_file")
        if variable and path and self._rank("api_key_env") != self._rank("api_key_file"):
            # The nearer place wins: an option replaces what a file says.
            nearer = self._rank("api_key_env") < self._rank("api_key_file")
            variable, path = (variable, None) if nearer else (None, path)
        if not variable and not path:
            own = f"{self.prefix}API_KEY"
            theirs = {OPENAI_URL, (self._environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")}
            if self._environ.get(own):
                variable = own
            elif base_url.rstrip("/") in theirs and self._environ.get("OPENAI_API_KEY"):
                variable = "OPENAI_API_KEY"
            elif base_url.rstrip("/") == OPENAI_URL:
                variable = "OPENAI_API_KEY"  # its absence is told when it is read
        return ApiKey(variable=variable, file=path)

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

    def told(self, endpoint: Endpoint, cache: str) -> tuple[Setting, ...]:
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
        key_origin = self._origins.get("api_key_env") or self._origins.get("api_key_file")
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
