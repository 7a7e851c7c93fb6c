"""Which endpoint the user means: options, a section of ragbench.yaml, the environment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from sys import float_info
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import Meta

from ragbench.core.chat import Price
from ragbench.core.record import Record
from ragbench.errors import ConfigError, NoModelError
from ragbench.llm.endpoint import (
    ApiKey,
    Endpoint,
    StructuredOutput,
    azure_address,
    by_address,
    by_model,
)
from ragbench.llm.transport import CallLimits
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
    name: str
    value: str
    """As a reader sees it; never a credential."""
    origin: str
    """Where it comes from, such as ``"option"``, ``"ragbench.yaml"`` or an environment variable."""


class LLMSettings(Record):
    endpoint: Endpoint
    limits: CallLimits
    cache: str | None
    """Path of the file of answers; None when none are kept."""
    cache_bytes: int
    settings: tuple[Setting, ...]
    """Each setting that was given or matters, with its origin."""


class _Kind(NamedTuple):
    type: Any
    words: str


_TEXT = _Kind(Annotated[str, Meta(min_length=1)], "a text")
_WHOLE = _Kind(Annotated[int, Meta(ge=0)], "a whole number of at least 0")
_NUMBER = _Kind(Annotated[float, Meta(ge=0, le=float_info.max)], "a number of at least 0")
_AMOUNT = _Kind(Decimal, _NUMBER.words)
_FLAG = _Kind(bool, "true or false")
_FIELDS = _Kind(dict[str, Any], 'an object such as {"top_p": 0.9}')
_HEADERS = _Kind(dict[str, str], 'an object of texts, such as {"X-Team": "search"}')
_COMMAND = _Kind(Annotated[tuple[str, ...], Meta(min_length=1)], "a program with its arguments")
_STRUCTURED = _Kind(StructuredOutput, f"one of {', '.join(StructuredOutput)}")


class _Row(NamedTuple):
    kind: _Kind
    own: bool = False
    """Whether a judge of a panel does not take it over from the first, where it is at another
    place."""
    unsent: bool = False
    """Whether it may be none: then it is not sent."""


_ROWS = {
    "base_url": _Row(_TEXT, own=True), "model": _Row(_TEXT, own=True),
    "api_key_env": _Row(_TEXT, own=True), "api_key_file": _Row(_TEXT, own=True),
    "api_key_command": _Row(_COMMAND, own=True), "headers": _Row(_HEADERS, own=True),
    "api_version": _Row(_TEXT, own=True), "temperature": _Row(_NUMBER, unsent=True),
    "seed": _Row(_WHOLE, unsent=True), "max_tokens": _Row(_WHOLE, unsent=True),
    "reasoning_effort": _Row(_TEXT, own=True), "reasoning_tokens": _Row(_WHOLE),
    "extra": _Row(_FIELDS, own=True), "structured": _Row(_STRUCTURED, own=True),
    "context": _Row(_WHOLE, own=True, unsent=True), "prompt_check": _Row(_FLAG, own=True),
    "price_input": _Row(_AMOUNT, own=True), "price_output": _Row(_AMOUNT, own=True),
    "price_cached_input": _Row(_AMOUNT, own=True), "timeout": _Row(_NUMBER),
    "deadline": _Row(_NUMBER, unsent=True), "concurrency": _Row(_WHOLE), "retries": _Row(_WHOLE),
    "rate_limit_wait": _Row(_NUMBER), "cache": _Row(_TEXT), "cache_max_mb": _Row(_WHOLE),
}  # fmt: skip
SETTING_NAMES = tuple(_ROWS)
_KEYS = {"api_key_env": "variable", "api_key_file": "file", "api_key_command": "command"}
"""The places of a key; one of them."""


def _read(name: str, value: object, origin: str) -> Any:
    kind, _, unsent = _ROWS[name]
    if unsent and value == NOT_SENT:
        return None
    may_hold_key = kind in (_FIELDS, _HEADERS, _COMMAND)
    quoted = "" if may_hold_key else f", not {value!r}"
    try:
        if isinstance(value, str):
            value = value.strip()
            if may_hold_key:  # as a shell splits it, or as JSON
                value = shlex.split(value) if kind is _COMMAND else json.loads(value)
        if kind is _AMOUNT:  # Decimal knows no range
            msgspec.convert(value, _NUMBER.type, strict=False)
        return msgspec.convert(value, kind.type, strict=False)
    except ValueError:
        raise ConfigError(f"{origin} must be {kind.words}{quoted}") from None


_OPENAI_URL = "https://api.openai.com/v1"
_PANEL = "panel"
"""In the section ``llm``, and no setting of one model."""


class _Found:
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
        self.values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        ranks: dict[str, int] = {}
        """How near to the command each was given; 0 is an option."""
        for name in (*options, *section):
            if name not in _ROWS:
                known = ", ".join(_ROWS)
                raise ConfigError(f"{file or kind}: there is no setting '{name}'. Known: {known}")
        for name in _ROWS:
            variable = f"{self.prefix}{name.upper()}"
            option = f"option --llm-{name.replace('_', '-')}"
            origins = (option, f"{file}: {kind}.{name}", variable)
            places = (options.get(name), section.get(name), environ.get(variable) or None)
            for rank, (origin, given) in enumerate(zip(origins, places, strict=True)):
                if given is not None:
                    self.values[name] = _read(name, given, origin)
                    self._origins[name], ranks[name] = origin, rank
                    break
        keys = [name for name in _KEYS if name in ranks]
        nearest = min((ranks[name] for name in keys), default=0)
        self.key_places = {_KEYS[n]: self.values[n] for n in keys if ranks[n] == nearest}
        """Where the key is; the nearer place wins: an option replaces what a file says."""
        # With an address, a name such as anthropic/claude-sonnet-5 is that of a gateway's model.
        has_address = "base_url" in self.values or environ.get("OPENAI_BASE_URL")
        self.provider = None if has_address else by_model(self.values.get("model", ""))
        """The provider that the model's name begins with, where no address is given."""

    def base_url(self) -> str:
        """The address: given, the provider's, OpenAI's variable, or OpenAI's own."""
        if "base_url" not in self.values:
            other = self._environ.get("OPENAI_BASE_URL")
            address, origin = other or _OPENAI_URL, "OPENAI_BASE_URL" if other else "default"
            if self.provider is not None:
                name, address, _ = self.provider[0]
                origin = f"provider {name}"
                if name == "azure":
                    version = self._environ.get("OPENAI_API_VERSION")
                    if version and "api_version" not in self.values:
                        self.values["api_version"] = version
                        self._origins["api_version"] = "OPENAI_API_VERSION"
                    address = azure_address(self._environ, dated="api_version" in self.values)
                    origin += ", AZURE_OPENAI_ENDPOINT"
            self.values["base_url"], self._origins["base_url"] = address, origin
        return str(self.values["base_url"])

    def key(self, base_url: str) -> ApiKey:
        """Whether the variable of whoever is at the address is set is seen when it is read."""
        if self.key_places:
            return ApiKey(**self.key_places)
        own, is_set = f"{self.prefix}API_KEY", self._environ.get
        if is_set(own):
            return ApiKey(variable=own)
        theirs = (is_set("OPENAI_BASE_URL") or _OPENAI_URL).rstrip("/")
        if base_url.rstrip("/") == theirs and is_set("OPENAI_API_KEY"):
            return ApiKey(variable="OPENAI_API_KEY")
        provider, is_named = by_address(base_url), False
        if provider is None and self.provider is not None:
            provider, is_named = self.provider[0], True
        names = [] if provider is None else provider.keys
        # A server of the user's own may ask for none.
        other = names[0] if names and not is_named else None
        return ApiKey(variable=next(filter(is_set, names), other))

    def price(self) -> Price | None:
        """The user's own price; both halves or none."""
        named = ((name.partition("price_")[2], value) for name, value in self.values.items())
        parts = {name: value for name, value in named if name}
        if parts and not {"input", "output"} <= set(parts):
            raise ConfigError("a price needs both price_input and price_output, per million tokens")
        return Price(**parts, origin=self._origins["price_input"]) if parts else None

    def in_force(self, endpoint: Endpoint, cache: str) -> tuple[Setting, ...]:
        """The settings that were given, and those that always matter."""
        shown: dict[str, object] = {
            "base_url": mask_url(endpoint.base_url),
            "model": endpoint.model,
            "api_key": endpoint.key,
            "temperature": endpoint.temperature,
            "max_tokens": endpoint.max_tokens,
            "cache": cache,
        }
        shown |= {name: value for name, value in self.values.items() if name not in shown}
        origins = {"api_key": next(filter(None, map(self._origins.get, _KEYS)), "default")}
        origins |= self._origins
        told = {name: NOT_SENT if it is None else str(it) for name, it in shown.items()}
        return tuple(
            Setting(name, mask_text(value), origins.get(name, "default"))
            for name, value in told.items()
            if name not in _KEYS
        )

    def settings(self, base_url: str, key: ApiKey, cache: str) -> LLMSettings:
        model = self.values.get("model")
        if model is None:
            what, option = ("", "--llm-model, ") if self.kind == _CHAT else (" for embeddings", "")
            raise NoModelError(
                f"no model{what} is named. Give {option}'model' in the section {self.kind} of "
                f"ragbench.yaml or {self.prefix}MODEL"
            )
        mine: dict[str, Any] = {"base_url": base_url, "key": key, "price": self.price()}
        mine["model"] = model if self.provider is None else self.provider[1]
        endpoint = Endpoint(**self._fields_of(Endpoint) | mine)
        endpoint.hide_credentials(self._environ)
        path = self.values.get("cache", cache)
        return LLMSettings(
            endpoint=endpoint,
            limits=CallLimits(**self._fields_of(CallLimits)),
            cache=None if path == "off" else path,
            cache_bytes=self.values.get("cache_max_mb", 1000) * 1_000_000,
            settings=self.in_force(endpoint, path),
        )

    def _fields_of(self, kind: type[DataclassInstance]) -> dict[str, Any]:
        known = {field.name for field in fields(kind)}
        return {name: value for name, value in self.values.items() if name in known}


def resolve(
    options: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> LLMSettings:
    own = {name: value for name, value in (section or {}).items() if name != _PANEL}
    found = _Found(options, own, file, environ, _CHAT)
    base_url = found.base_url()
    return found.settings(base_url, found.key(base_url), DEFAULT_CACHE)


def resolve_panel(
    environ: Mapping[str, str],
    *,
    given: str | None = None,
    options: Mapping[str, object] | None = None,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> tuple[LLMSettings, ...]:
    base = {name: value for name, value in (section or {}).items() if name != _PANEL}
    base |= {name: value for name, value in (options or {}).items() if value is not None}
    named: object = given or (section or {}).get(_PANEL) or environ.get("RAGBENCH_LLM_PANEL")
    if isinstance(named, str):
        named = [name.strip() for name in named.split(",") if name.strip()]
    if named is not None and not isinstance(named, list):
        raise ConfigError(f"{file or 'llm'}: panel must be a list of models")
    found: list[LLMSettings] = []
    own_to_endpoint = {name for name, row in _ROWS.items() if row.own}
    for entry in cast("list[object]", named or []):
        own = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(own, dict) or "model" not in own:
            raise ConfigError(f"{file or 'llm'}: each of panel must be a model or its settings")
        # Its own over those that the first one has, as far as they are not of another endpoint.
        judge = cast("dict[str, object]", own)
        is_there = "base_url" not in judge and by_model(str(judge["model"])) is None
        left = {"model"} if is_there else own_to_endpoint
        unset = {f"RAGBENCH_LLM_{name.upper()}" for name in left}
        unset |= set() if is_there else {"RAGBENCH_LLM_API_KEY", "OPENAI_BASE_URL"}
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
    cache = DEFAULT_CACHE if chat is None else chat.cache or "off"
    shared = None if chat is None else chat.endpoint
    if shared is None or "base_url" in found.values or found.provider is not None:
        base_url, shared = found.base_url(), None
    else:
        base_url = shared.base_url
    key = found.key(base_url) if shared is None or found.key_places else shared.key
    return found.settings(base_url, key, cache)
