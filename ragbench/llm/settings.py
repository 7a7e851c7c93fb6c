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
    """A setting as ``ragbench doctor`` lists it: with where it comes from."""

    name: str
    value: str
    """As a reader sees it; never a credential."""
    origin: str
    """Where it comes from, such as ``"option"``, ``"ragbench.yaml"`` or an environment variable."""


class LLMSettings(Record):
    """Whom a command asks, within which limits, and where each of these settings came from."""

    endpoint: Endpoint
    limits: CallLimits
    cache: str | None
    """Path of the file of answers; None when none are kept."""
    cache_bytes: int
    settings: tuple[Setting, ...]
    """Each setting that was given or matters, with its origin."""


class _Kind(NamedTuple):
    """What a setting's value must be: as a type, and in the words of an error."""

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
"""A program that prints a key: as a list, or as a shell would split it."""
_STRUCTURED = _Kind(StructuredOutput, f"one of {', '.join(StructuredOutput)}")


class _Row(NamedTuple):
    """What is known of a setting: its value's kind, and how a panel and a request treat it."""

    kind: _Kind
    own: bool = False
    """Whether a judge of a panel does not take it over from the first, where it is at another
    place."""
    unsent: bool = False
    """Whether it may be none: then it is not sent."""


# In the order in which errors list them.
_ROWS = {
    "base_url": _Row(_TEXT, own=True),
    "model": _Row(_TEXT, own=True),
    "api_key_env": _Row(_TEXT, own=True),
    "api_key_file": _Row(_TEXT, own=True),
    "api_key_command": _Row(_COMMAND, own=True),
    "headers": _Row(_HEADERS, own=True),
    "api_version": _Row(_TEXT, own=True),
    "temperature": _Row(_NUMBER, unsent=True),
    "seed": _Row(_WHOLE, unsent=True),
    "max_tokens": _Row(_WHOLE, unsent=True),
    "reasoning_effort": _Row(_TEXT, own=True),
    "reasoning_tokens": _Row(_WHOLE),
    "extra": _Row(_FIELDS, own=True),
    "structured": _Row(_STRUCTURED, own=True),
    "context": _Row(_WHOLE, own=True, unsent=True),
    "prompt_check": _Row(_FLAG, own=True),
    "price_input": _Row(_AMOUNT, own=True),
    "price_output": _Row(_AMOUNT, own=True),
    "price_cached_input": _Row(_AMOUNT, own=True),
    "timeout": _Row(_NUMBER),
    "deadline": _Row(_NUMBER, unsent=True),
    "concurrency": _Row(_WHOLE),
    "retries": _Row(_WHOLE),
    "rate_limit_wait": _Row(_NUMBER),
    "cache": _Row(_TEXT),
    "cache_max_mb": _Row(_WHOLE),
}
SETTING_NAMES = tuple(_ROWS)
"""The names of all settings of a model, for options and the section of a file."""
_KEYS = {"api_key_env": "variable", "api_key_file": "file", "api_key_command": "command"}
"""The places of a key; one of them."""


def _read_setting(name: str, value: object, origin: str) -> Any:
    """The value of a model's setting in its type; None where it shall not be sent to the endpoint.

    Options and variables are texts, and are converted. Where a value may hold a key, the error does
    not quote it.
    """
    kind, _, unsent = _ROWS[name]
    if unsent and value == NOT_SENT:
        return None
    problem = f"{origin} must be {kind.words}"
    if kind not in (_FIELDS, _HEADERS, _COMMAND):
        problem += f", not {value!r}"
    try:
        if isinstance(value, str):
            value = value.strip()
            if kind is _COMMAND:
                value = shlex.split(value)
            elif kind in (_FIELDS, _HEADERS):
                value = json.loads(value)
        if kind is _AMOUNT:  # Decimal knows no range
            msgspec.convert(value, _NUMBER.type, strict=False)
        return msgspec.convert(value, kind.type, strict=False)
    # The errors of msgspec, JSON and shlex are all kinds of ValueError.
    except ValueError:
        raise ConfigError(problem) from None


_OPENAI_URL = "https://api.openai.com/v1"
"""The address where no other is named."""
_CACHE_MEGABYTES = 1_000
"""How large the file of answers may grow where no setting says it."""
_PANEL = "panel"
"""In the section ``llm``, and no setting of one model."""


class _UserSettings:
    """What the user gave of one model's settings, and where.

    An option comes before a section of a file, and that before a variable of the environment.
    """

    def __init__(
        self,
        options: Mapping[str, object],
        section: Mapping[str, object],
        file: str,
        environ: Mapping[str, str],
        kind: str,
    ) -> None:
        """Reads and checks every setting of one model, and keeps where each was given.

        A wrong name or value is an error that names the option, line of the file or variable.

        Args:
            options: of the command, by the names of the settings.
            section: of the configuration file.
            file: the file's path, for messages.
            kind: the section's name, and a part of the variables' names.
        """
        self.kind = kind
        self.prefix = f"RAGBENCH_{kind.upper()}_"
        """How the names of this model's environment variables begin."""
        self._environ = environ
        self.values: dict[str, Any] = {}
        """The settings that the user gave, in their types; None for one that is not to be sent."""
        self._origins: dict[str, str] = {}
        """Where each of these settings was given, for reports."""
        ranks: dict[str, int] = {}
        """How near to the command each setting was given: 0 option, 1 file, 2 variable."""
        # Wrong names first: the loop below looks for known ones only.
        for name in (*options, *section):
            if name not in _ROWS:
                names = ", ".join(_ROWS)
                raise ConfigError(f"{file or kind}: there is no setting '{name}'. Known: {names}")
        for name in _ROWS:
            option = f"--llm-{name.replace('_', '-')}"
            variable = f"{self.prefix}{name.upper()}"
            # The nearest to the command first. A variable that is empty says nothing.
            places = (
                (f"option {option}", options.get(name)),
                (f"{file}: {kind}.{name}", section.get(name)),
                (variable, environ.get(variable) or None),
            )
            for rank, (origin, value) in enumerate(places):
                if value is not None:
                    self.values[name] = _read_setting(name, value, origin)
                    self._origins[name] = origin
                    ranks[name] = rank
                    break
        self.key_places = self._nearest_key(ranks)
        """Where the API key is, from the nearest source: an option replaces what a file says."""
        self.provider = None
        """The provider that the model's name begins with; None where an address is given."""
        # With an address, a name such as anthropic/claude-sonnet-5 is that of a gateway's model.
        has_address = "base_url" in self.values or environ.get("OPENAI_BASE_URL")
        if not has_address:
            self.provider = by_model(self.values.get("model", ""))

    def _nearest_key(self, ranks: Mapping[str, int]) -> dict[str, Any]:
        """The places of the API key from the nearest source: an option hides all that a file names.

        Else an option ``api_key_file`` and a section's ``api_key_env`` would be two places, which
        `ApiKey` refuses.

        Args:
            ranks: by setting, the rank of the source that it came from; the lowest is the nearest.
        """
        ranks_of_keys = [ranks[name] for name in _KEYS if name in ranks]
        if not ranks_of_keys:
            return {}
        nearest = min(ranks_of_keys)
        places: dict[str, Any] = {}
        for name, place in _KEYS.items():
            if ranks.get(name) == nearest:
                places[place] = self.values[name]
        return places

    def base_url(self) -> str:
        """The endpoint's address: the user's, the provider's, OpenAI's variable, or OpenAI's own.

        The address becomes one of the settings' values, with its origin: a report lists whom the
        run asked.
        """
        if "base_url" in self.values:
            return str(self.values["base_url"])
        openai_variable = self._environ.get("OPENAI_BASE_URL")
        if self.provider is not None:
            name, address, _ = self.provider[0]
            origin = f"provider {name}"
            if name == "azure":
                address = self._azure_address()
                origin += ", AZURE_OPENAI_ENDPOINT"
        elif openai_variable:
            address = openai_variable
            origin = "OPENAI_BASE_URL"
        else:
            address = _OPENAI_URL
            origin = "default"
        self.values["base_url"] = address
        self._origins["base_url"] = origin
        return str(address)

    def _azure_address(self) -> str:
        """The address of the user's Azure resource, where a model is named ``azure/...``.

        The version in Azure's own variable becomes a setting, unless the user gave one: a dated
        version has another address.
        """
        version = self._environ.get("OPENAI_API_VERSION")
        if version and "api_version" not in self.values:
            self.values["api_version"] = version
            self._origins["api_version"] = "OPENAI_API_VERSION"
        return azure_address(self._environ, dated="api_version" in self.values)

    def key(self, base_url: str) -> ApiKey:
        """The place of the API key for an address: the user's, else a usual variable that is set.

        A key goes only to whom it belongs to: OpenAI's variable is for OpenAI's address alone.
        """
        if self.key_places:
            return ApiKey(**self.key_places)
        environ = self._environ
        # From the most to the least explicit: ragbench's own variable, OpenAI's, the provider's.
        own_variable = f"{self.prefix}API_KEY"
        if environ.get(own_variable):
            return ApiKey(variable=own_variable)
        openai_address = environ.get("OPENAI_BASE_URL") or _OPENAI_URL
        is_openai = base_url.rstrip("/") == openai_address.rstrip("/")
        if is_openai and environ.get("OPENAI_API_KEY"):
            return ApiKey(variable="OPENAI_API_KEY")
        provider_at_address = by_address(base_url)
        provider = provider_at_address
        # A provider named by the model may be at another address, that of a gateway.
        if provider is None and self.provider is not None:
            provider = self.provider[0]
        if provider is None:
            return ApiKey(variable=None)  # a server of the user's own may ask for none
        for variable in provider.keys:
            if environ.get(variable):
                return ApiKey(variable=variable)
        if provider.keys and provider_at_address is not None:
            # A provider that is known to want a key: reading it names the variable that is missing.
            return ApiKey(variable=provider.keys[0])
        return ApiKey(variable=None)

    def price(self) -> Price | None:
        """The user's own price of a model's tokens; None where none is given.

        A price for one half, input or output, is refused: the cost would be too low.
        """
        parts: dict[str, Any] = {}
        # The names are those of `Price`'s fields, behind the prefix.
        for name, value in self.values.items():
            if name.startswith("price_"):
                parts[name.removeprefix("price_")] = value
        if not parts:
            return None
        if "input" not in parts or "output" not in parts:
            raise ConfigError("a price needs both price_input and price_output, per million tokens")
        return Price(**parts, origin=self._origins["price_input"])

    def in_force(self, endpoint: Endpoint, cache: str) -> tuple[Setting, ...]:
        """The settings that the user gave or that always matter, each with its origin, for reports.

        Masked: a value may hold a key, and a report is passed on.
        """
        # The first six are always shown, in this order; a key shows as its place.
        shown: dict[str, object] = {
            "base_url": mask_url(endpoint.base_url),
            "model": endpoint.model,
            "api_key": endpoint.key,
            "temperature": endpoint.temperature,
            "max_tokens": endpoint.max_tokens,
            "cache": cache,
        }
        for name, value in self.values.items():
            if name not in shown and name not in _KEYS:
                shown[name] = value
        origins = dict(self._origins)
        key_origins = [self._origins[name] for name in _KEYS if name in self._origins]
        origins["api_key"] = key_origins[0] if key_origins else "default"
        settings: list[Setting] = []
        for name, value in shown.items():
            text = NOT_SENT if value is None else str(value)
            settings.append(Setting(name, mask_text(text), origins.get(name, "default")))
        return tuple(settings)

    def settings_at_own_address(self, cache: str) -> LLMSettings:
        """The checked settings of a model at the address and with the key of its own.

        A model for embeddings may be at the address of the language model instead; see `settings`.
        """
        base_url = self.base_url()
        key = self.key(base_url)
        return self.settings(base_url, key, cache)

    def settings(self, base_url: str, key: ApiKey, cache: str) -> LLMSettings:
        """The checked settings of a model at an address, and where each setting came from.

        A client is made of these settings alone.

        Args:
            base_url: the address, which may be that of another model.
            cache: path of the file of answers where no setting names one; "off" for none.
        """
        model = self.values.get("model")
        if model is None:
            missing = "no model is named. Give --llm-model, 'model'"
            if self.kind == _EMBEDDINGS:
                missing = "no model for embeddings is named. Give 'model'"
            raise NoModelError(
                f"{missing} in the section {self.kind} of ragbench.yaml or {self.prefix}MODEL"
            )
        if self.provider is not None:
            model = self.provider[1]
        # Taken over from the user first: the four that are worked out here replace them.
        facts = self._values_for(Endpoint)
        facts |= {"base_url": base_url, "key": key, "price": self.price(), "model": model}
        endpoint = Endpoint(**facts)
        # Before the settings are written out, which masks what is hidden.
        endpoint.hide_credentials(self._environ)
        path = self.values.get("cache", cache)
        cache_megabytes = self.values.get("cache_max_mb", _CACHE_MEGABYTES)
        return LLMSettings(
            endpoint=endpoint,
            limits=CallLimits(**self._values_for(CallLimits)),
            cache=None if path == "off" else path,
            cache_bytes=cache_megabytes * 1_000_000,
            settings=self.in_force(endpoint, path),
        )

    def _values_for(self, record: type[DataclassInstance]) -> dict[str, Any]:
        """Those of the user's settings that a record has a field for, by their names.

        Endpoint and limits of calls are records whose fields are named like the settings.
        """
        names = {field.name for field in fields(record)}
        return {name: value for name, value in self.values.items() if name in names}


def resolve(
    options: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> LLMSettings:
    """The settings of the language model: from options, a section of the file, and the environment.

    Options go before the file, and the file before the environment.

    Args:
        section: ``llm`` of the file; its ``panel`` is for `resolve_panel`.
        file: the file's path, for messages.
    """
    section_of_model = {name: value for name, value in (section or {}).items() if name != _PANEL}
    user_settings = _UserSettings(options, section_of_model, file, environ, _CHAT)
    return user_settings.settings_at_own_address(DEFAULT_CACHE)


def resolve_panel(
    environ: Mapping[str, str],
    *,
    given: str | None = None,
    options: Mapping[str, object] | None = None,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> tuple[LLMSettings, ...]:
    """The settings of each judge of a panel; what a judge leaves out it has from the first model.

    A panel is several judges of one case. A judge at another address does not inherit the first
    one's key.

    Args:
        given: the option ``--panel``: models, separated by commas.
    """
    section = section or {}
    # An option replaces the section's value for every judge.
    first_model: dict[str, object] = {}
    for name, value in section.items():
        if name != _PANEL:
            first_model[name] = value
    for name, value in (options or {}).items():
        if value is not None:
            first_model[name] = value
    # An option comes before the file, and that before the environment.
    panel: object = given or section.get(_PANEL) or environ.get("RAGBENCH_LLM_PANEL")
    if isinstance(panel, str):
        panel = [name.strip() for name in panel.split(",") if name.strip()]
    if panel is None:
        return ()
    if not isinstance(panel, list):
        raise ConfigError(f"{file or 'llm'}: panel must be a list of models")
    judges: list[LLMSettings] = []
    for entry in cast("list[object]", panel):
        judge = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(judge, dict) or "model" not in judge:
            raise ConfigError(f"{file or 'llm'}: each of panel must be a model or its settings")
        settings = cast("dict[str, object]", judge)
        judges.append(_judge_of_panel(settings, first_model, environ, file))
    return tuple(judges)


def _judge_of_panel(
    own_settings: Mapping[str, object],
    first_model: Mapping[str, object],
    environ: Mapping[str, str],
    file: str,
) -> LLMSettings:
    """The settings of a judge of a panel: its own over those of the first model.

    A judge at another address takes over neither the first model's key nor settings that only the
    first model's address understands.
    """
    has_own_address = "base_url" in own_settings
    is_of_provider = by_model(str(own_settings["model"])) is not None
    own_names = {"model"}
    hidden_variables = set[str]()
    # The first model's key must not go to another address.
    if has_own_address or is_of_provider:
        own_names = {name for name, row in _ROWS.items() if row.own}
        hidden_variables = {"RAGBENCH_LLM_API_KEY", "OPENAI_BASE_URL"}
    hidden_variables |= {f"RAGBENCH_LLM_{name.upper()}" for name in own_names}
    # What the judge itself gives wins over what is left of the first model's.
    section = {name: value for name, value in first_model.items() if name not in own_names}
    section.update(own_settings)
    visible = {name: value for name, value in environ.items() if name not in hidden_variables}
    return resolve({}, visible, section=section, file=file)


def resolve_embeddings(
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
    chat: LLMSettings | None = None,
) -> LLMSettings:
    """The settings of the model that gives vectors of texts.

    That model has a section of its own, and variables of its own: ``RAGBENCH_EMBEDDINGS_<NAME>``.

    Args:
        chat: the settings of the model that is asked in words: its address and its file of answers
            serve for vectors, too, where nothing else is said.
    """
    user_settings = _UserSettings({}, section or {}, file, environ, _EMBEDDINGS)
    if chat is None:
        return user_settings.settings_at_own_address(DEFAULT_CACHE)
    # Where the language model keeps no answers, vectors are not kept either.
    cache = chat.cache or "off"
    if "base_url" in user_settings.values or user_settings.provider is not None:
        return user_settings.settings_at_own_address(cache)
    base_url = chat.endpoint.base_url
    key = chat.endpoint.key
    # The user's key for embeddings, though at the language model's address.
    if user_settings.key_places:
        key = user_settings.key(base_url)
    return user_settings.settings(base_url, key, cache)
