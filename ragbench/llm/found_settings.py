"""Where a setting of a model is said, and what its value must be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from ragbench.errors import ConfigError
from ragbench.llm.endpoint import ApiKey, Endpoint, Price, StructuredOutput
from ragbench.llm.providers import AZURE, PROVIDERS, Provider, azure_address, by_address, by_model
from ragbench.masking import mask_text, mask_url

NOT_SENT = "none"
"""The value of a setting that shall have none."""


def text(value: object, origin: str) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ConfigError(f"{origin} must be a text, not {value!r}")


def whole(value: object, origin: str) -> int:
    try:
        number = int(str(value)) if not isinstance(value, bool) else -1
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError(f"{origin} must be a whole number of at least 0, not {value!r}")
    return number


def fraction(value: object, origin: str) -> float:
    return float(amount(value, origin))


def amount(value: object, origin: str) -> Decimal:
    """An exact number of at least 0."""
    try:
        number = Decimal(str(value)) if not isinstance(value, bool) else Decimal(-1)
    except InvalidOperation:
        number = Decimal(-1)
    if not number.is_finite() or number < 0:
        raise ConfigError(f"{origin} must be a number of at least 0, not {value!r}")
    return number


def json_fields(value: object, origin: str) -> dict[str, Any]:
    """A mapping, or a text that is a JSON object."""
    if isinstance(value, str):
        try:
            value = cast("object", json.loads(value))
        except ValueError as error:
            raise ConfigError(f"{origin} is not JSON: {error}") from None
    if isinstance(value, dict) and all(isinstance(key, str) for key in cast("Any", value)):
        return cast("dict[str, Any]", value)
    raise ConfigError(f'{origin} must be an object such as {{"top_p": 0.9}}')


def one_of(choices: Sequence[str]) -> Callable[[object, str], str]:
    def read(value: object, origin: str) -> str:
        if value not in choices:
            raise ConfigError(f"{origin} must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    return read


def header_fields(value: object, origin: str) -> dict[str, str]:
    """A mapping of texts, or a text that is a JSON object of them."""
    found = json_fields(value, origin)
    if not all(isinstance(text, str) for text in found.values()):
        raise ConfigError(f"{origin}: the value of a header must be a text")
    return found


def command_line(value: object, origin: str) -> tuple[str, ...]:
    """A program with its arguments: a list, or a text that is split as a shell would."""
    import shlex

    if isinstance(value, list) and value and all(isinstance(p, str) for p in cast("Any", value)):
        return tuple(cast("list[str]", value))
    if isinstance(value, str) and value.strip():
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise ConfigError(f"{origin}: {error}") from None
    raise ConfigError(f"{origin} must be a program with its arguments")


def yes_or_no(value: object, origin: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    found = words.get(str(value).lower())
    if found is None:
        raise ConfigError(f"{origin} must be true or false, not {value!r}")
    return found


OPENAI_URL = PROVIDERS["openai"].base_url
CHAT, EMBEDDINGS = "llm", "embeddings"
"""The kinds of models that are asked: the sections of a configuration file."""
_READERS: dict[str, Any] = {
    "base_url": text,
    "model": text,
    "api_key_env": text,
    "api_key_file": text,
    "api_key_command": command_line,
    "headers": header_fields,
    "api_version": text,
    "temperature": fraction,
    "seed": whole,
    "max_tokens": whole,
    "reasoning_effort": text,
    "reasoning_tokens": whole,
    "extra": json_fields,
    "structured": one_of(tuple(mode.value for mode in StructuredOutput)),
    "context": whole,
    "prompt_check": yes_or_no,
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
_MAY_BE_UNSENT = frozenset({"temperature", "seed", "max_tokens", "deadline", "context"})
KEYS = ("api_key_env", "api_key_file", "api_key_command")
"""The places of a key; one of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting that is in force."""

    name: str
    value: str
    """As a reader sees it; never a credential."""
    origin: str
    """Where it comes from, such as ``"option"``, ``"ragbench.yaml"`` or an environment variable."""


class FoundSettings:
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
                    self._values["api_version"] = version
                    self._origins["api_version"] = "OPENAI_API_VERSION"
                dated = "api_version" in self._values
                self._values["base_url"] = azure_address(self._environ, dated=dated)
                self._origins["base_url"] = "provider azure, AZURE_OPENAI_ENDPOINT"
            elif found is not None:
                self._values["base_url"] = found[0].base_url
                self._origins["base_url"] = f"provider {found[0].name}"
            else:
                self._values["base_url"] = other or OPENAI_URL
                self._origins["base_url"] = "OPENAI_BASE_URL" if other else "default"
        return str(self._values["base_url"])

    def key(self, base_url: str) -> ApiKey:
        places = {name: self.value(name) for name in KEYS if self.value(name)}
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
        theirs = (self._environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")
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
        key_origin = next((self._origins[name] for name in KEYS if name in self._origins), None)
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
