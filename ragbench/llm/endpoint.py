"""Which model, where, its key, its headers, its price; the providers that are known by name."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta

from ragbench.core.chat import Price
from ragbench.core.checked import Checked, NotNegative, Positive
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.masking import hide, is_secret, mask_url

_COMMAND_SECONDS = 60
"""How long a program may take to print a key; it may ask a service for it."""


class ApiKey(Record):
    """The place of an API key: an environment variable, a file, a program's output, or nowhere."""

    variable: str | None = None
    """Name of the environment variable."""
    file: str | None = None
    """Path of a file whose only content is the key."""
    command: tuple[str, ...] = ()
    """A program with its arguments that prints the key, such as a token that expires."""

    def __post_init__(self) -> None:
        """Refuses a key that is to come from two places: which of them wins would be a guess."""
        if len(self.places) > 1:
            places = " and from the ".join(self.places)
            raise ConfigError(f"the API key is to come from the {places}: give one of them")

    @property
    def places(self) -> list[str]:
        """The places that the API key may come from, in words for messages.

        A key with more than one is refused.
        """
        places: list[str] = []
        if self.variable:
            places.append(f"environment variable {self.variable}")
        if self.file:
            places.append(f"file {self.file}")
        if self.command and self.command[0]:
            places.append(f"command {self.command[0]}")
        return places

    def __str__(self) -> str:
        """The place of the API key in words, for reports and errors; never the key itself."""
        if not self.places:
            return "none"
        return self.places[0]

    def read(self, environ: Mapping[str, str]) -> str | None:
        """The API key, read from its place; None where the endpoint asks for none.

        From here on the key is hidden in all texts. The error of a key that cannot be read never
        quotes what was read: it may be a key of something else.
        """
        if not self.places:
            return None
        key = ""
        reason = "it is empty"
        try:
            if self.variable:
                key = environ.get(self.variable, "")
            elif self.file:
                key = Path(self.file).expanduser().read_text("utf-8")
            else:
                # What the program prints to stderr is not shown: it may quote its secret arguments.
                process = subprocess.run(
                    self.command,
                    env=dict(environ),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=_COMMAND_SECONDS,
                    check=False,
                )
                if process.returncode == 0:
                    key = process.stdout
                reason = f"exit code {process.returncode}"
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
        key = key.strip()
        if not key:
            raise ConfigError(f"the {self} gives no API key: {reason}")
        # A key is sent in a header, which cannot hold other text, such as an error page that the
        # program printed.
        is_word = key.isascii() and key.isprintable() and " " not in key
        if not is_word:
            raise ConfigError(f"{self} is not an API key: it must be one word in ASCII")
        hide(key)
        return key


NO_KEY = ApiKey()
"""For endpoints that ask for none."""


class StructuredOutput(StrEnum):
    """How an endpoint is asked for JSON."""

    AUTO = "auto"
    """The strongest of the others that it accepts."""
    JSON_SCHEMA = "json_schema"
    """``response_format`` with a schema that the answer must follow."""
    JSON_OBJECT_SCHEMA = "json_object+schema"
    """``json_object`` with a schema beside it, as llama.cpp's Python server takes it."""
    JSON_OBJECT = "json_object"
    """Any JSON object; the schema stands in the prompt."""
    NONE = "none"
    """The schema stands in the prompt, and that is all."""


_SENT = ("temperature", "seed", "max_tokens", "reasoning_effort")
"""Settings that are sent by their names."""
_OURS = (*_SENT, "model", "messages", "max_completion_tokens", "response_format", "stream", "n")
"""Fields of a request that are no extra ones."""
_IDENTITY = ("base_url", "model", "parameters", "structured")
"""Settings that every answer depends on."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")
"""A variable of the environment within a header, such as ``${TOKEN}``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint(Checked):
    """A model behind an OpenAI-compatible endpoint. Holds no credential, only where one is."""

    base_url: str
    """Up to and with the version, such as ``"http://localhost:8000/v1"``; without ``/chat``. For
    Azure with ``api_version``, the resource's address."""
    model: str
    """The model's name there; Azure's name of the deployment."""
    key: ApiKey = NO_KEY
    """Where the API key is."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request. ``${NAME}`` stands for an environment variable; a header with a
    credential holds nothing else."""
    api_version: str | None = None
    """Only for Azure's dated interface."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = 0.0
    """None: not sent. Where the endpoint refuses it, it is not sent either, and that is said."""
    seed: int | None = None
    """Sent where given; what it does is the endpoint's affair."""
    max_tokens: Positive | None = 4096
    """The longest answer. None: not sent, then no cost can be capped."""
    reasoning_effort: str | None = None
    """How long a model that reasons shall think, in the endpoint's words, such as ``"low"``."""
    reasoning_tokens: NotNegative = 16_384
    """Room for what a model thinks, on top of ``max_tokens``: asked for of models that are found to
    reason."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the request, such as ``{"top_p": 0.9}``."""
    structured: StructuredOutput = StructuredOutput.AUTO
    """How JSON is asked for; by default it is found out."""
    context: Positive | None = None
    """The longest prompt that is sent, in tokens: a longer one fails before it costs anything. None
    for no limit."""
    prompt_check: bool = True
    """Whether an answer fails whose prompt was read only in part, as its token count shows."""
    price: Price | None = None
    """Overrides the price table."""

    def __post_init__(self) -> None:
        """Refuses an endpoint whose address cannot work, or with a field that holds a credential.

        What an endpoint is stands in manifests and reports: a key must not get that far.
        """
        parts = urlsplit("")  # what an address that cannot be split is taken for
        with suppress(ValueError):
            parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"'{mask_url(self.base_url)}' is not an http:// or https:// address")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ConfigError(
                f"the address {mask_url(self.base_url)} must hold neither a user, nor a password, "
                "nor anything after '?': give a key as an environment variable or a file"
            )
        if not self.model.strip():
            raise ConfigError("no model is named")
        # By the class's name: with `slots=True` the decorator makes a new class, and super() fails.
        Checked.__post_init__(self)
        _check_extra(self.extra)
        _check_headers(self.headers)
        # Frozen, so past its own guard. Addresses with and without a last slash are one endpoint.
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))

    @property
    def host(self) -> str:
        """The host of the endpoint's address, by which the list of prices knows the endpoint."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields of every request to the model beside its messages, such as the temperature.

        Settings of None are left out: they are not sent. These fields are part of the cache key of
        all answers, so another name or value makes stored answers unknown.
        """
        parameters: dict[str, Any] = {}
        # None is left out: the endpoint then decides on its own.
        for name in _SENT:
            value = getattr(self, name)
            if value is not None:
                parameters[name] = value
        parameters.update(self.extra)
        return parameters

    @property
    def secret_headers(self) -> tuple[str, ...]:
        """The names of headers with values from environment variables, which may be credentials.

        Their values are hidden in every text that is shown or stored.
        """
        return tuple(name for name, text in self.headers.items() if _VARIABLE.search(text))

    def hide_credentials(self, environ: Mapping[str, str]) -> None:
        """Reads the endpoint's key and headers, so that they are hidden before anything is stored.

        A key that is missing raises later, when it is sent: a run from recorded answers needs none.
        """
        for read in (self.key.read, self.sent_headers):
            with suppress(ConfigError):
                read(environ)

    def sent_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request, with the values of their environment variables.

        These values may be credentials: they go onto the wire only, never into a report or a cache
        key.
        """
        value_of = partial(_value_of_variable, environ)
        headers: dict[str, str] = {}
        for name, text in self.headers.items():
            headers[name] = _VARIABLE.sub(value_of, text)
        return headers

    def identity(self) -> dict[str, Any]:
        """Everything that an answer of the endpoint depends on, as JSON.

        Manifests and cache keys hold it. A change of a field or its form makes all answers in
        users' caches unknown: they are paid again.
        """
        identity: dict[str, Any] = {name: getattr(self, name) for name in _IDENTITY}
        identity["structured"] = self.structured.value
        # What is not set is left out: so keys of older answers stay as they are.
        if self.headers:  # a gateway may choose the model by them
            identity["headers"] = dict(self.headers)
        if self.api_version is not None:
            identity["api_version"] = self.api_version
        return identity

    def fingerprint(self) -> str:
        """A short name of all that an answer depends on (`identity`): equal for equal judges.

        The cache stores it beside each answer.
        """
        return _json_digest(self.identity())

    def place(self) -> str:
        """A short name of endpoint and model, whatever parameters they are asked with.

        What was learned of an endpoint, such as refused parameters, is stored under this name.
        """
        # Two fields are taken out by name: any other field of the identity, such as headers,
        # belongs to the place.
        place = self.identity()
        for name in ("parameters", "structured"):
            del place[name]
        return _json_digest(place)


def _value_of_variable(environ: Mapping[str, str], variable: re.Match[str]) -> str:
    """The value of an environment variable that a header names, as in ``Bearer ${TOKEN}``.

    The value may be a credential: from now on it is hidden wherever a text is shown.

    Args:
        variable: a match of `_VARIABLE`, whose first group is the variable's name.
    """
    name = variable[1]
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigError(
            f"the environment variable {name} of a header of the language model is not set"
        )
    hide(value)
    return value


def _json_digest(value: object) -> str:
    """A digest of a JSON value in 32 hex digits; the order of keys in its objects does not matter.

    Users' caches hold such digests: with another form, what the caches store would not be found.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _check_extra(extra: Mapping[str, Any]) -> None:
    """Refuses extra fields of a request with settings of their own, no JSON, and credentials.

    Extra fields are written into manifests and reports, where no key may go.
    """
    for name in extra:
        # Headers are given by their own setting, which hides the credentials in them.
        if "headers" in name or name in _OURS:
            raise ConfigError(f"'{name}' cannot be an extra field: there is a setting for it")
    try:
        text = json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the extra fields of a request are not JSON: {error}") from None
    # The names of the objects within, too: the parser shows each object, the innermost first.
    names: list[str] = []
    json.loads(text, object_pairs_hook=lambda pairs: names.extend(name for name, _ in pairs))
    for name in names:
        if is_secret(name):
            raise ConfigError(
                f"the extra field '{name}' looks like a credential: none is kept here. A header "
                "takes one from a variable: headers: {X-Api-Key: '${NAME_OF_VARIABLE}'}"
            )


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The characters that HTTP allows in a header's name."""
_SCHEME = re.compile(r"(?:[A-Za-z]+ )?\$\{\w+\}")
"""A variable alone, or behind a word such as ``Bearer``."""


def _check_headers(headers: Mapping[str, str]) -> None:
    """Refuses a header that HTTP does not allow, and one that holds a credential in clear.

    Headers are written into manifests and reports: a credential is named by its variable instead.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise ConfigError(f"'{name}' is no header: a sign in its name or value is forbidden")
        # Gateways name such headers as they like, such as Ocp-Apim-Subscription-Key.
        is_key = is_secret(name) or name.lower().endswith("key")
        if is_key and not _SCHEME.fullmatch(value):
            raise ConfigError(
                f"the header '{name}' looks like a credential: give the name of a variable that "
                f"holds it, such as {name}: '${{MY_GATEWAY_KEY}}'"
            )


# --- providers by name: where they are, which variables hold their key


class Provider(NamedTuple):
    """Somebody who serves models under a known address, such as Anthropic or OpenRouter."""

    name: str
    """The first part of a model's name, such as ``anthropic`` in ``anthropic/claude-sonnet-5``."""
    base_url: str
    """Empty for Azure: its address is each customer's own, ``AZURE_OPENAI_ENDPOINT``."""
    keys: list[str]
    """Environment variables that may hold its key, in the order in which they are looked at."""


@cache
def providers() -> dict[str, Provider]:
    """The known providers of models by their names, such as ``anthropic``, from ``providers.json``.

    A user names a model as ``anthropic/claude-sonnet-5`` and needs no address. Any other
    OpenAI-compatible endpoint is named by its address.
    """
    raw = files("ragbench.llm").joinpath("providers.json").read_text("utf-8")
    return {row["name"]: Provider(**row) for row in json.loads(raw)}


def by_model(model: str) -> tuple[Provider, str] | None:
    """The provider that begins a model's name, and the rest of the name; None without a known one.

    A name with a provider gives the address and the key's variable: users need not know them.

    Example:
        >>> by_model("openrouter/anthropic/claude-sonnet-5")[1]
        'anthropic/claude-sonnet-5'
    """
    provider_name, _, model_name = model.partition("/")
    provider = providers().get(provider_name)
    if provider is None or not model_name:
        return None
    return provider, model_name


_AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
"""How hosts of Azure end: before that stands the name of each customer's resource."""


def by_address(base_url: str) -> Provider | None:
    """The known provider at an address, whatever its path; None for other hosts and this machine.

    The provider's key may be sent to this address, and to no other.
    """
    host = (urlsplit(base_url).hostname or "").lower()
    if host.endswith(_AZURE_HOSTS):
        return providers()["azure"]
    if host == "localhost":
        return None
    # Filled anew at each call: the table is short, and asked for once a model.
    provider_of_host: dict[str | None, Provider] = {}
    for provider in providers().values():
        if provider.keys:  # of two at one host the last counts
            provider_host = urlsplit(provider.base_url).hostname
            provider_of_host[provider_host] = provider
    return provider_of_host.get(host)


def azure_address(environ: Mapping[str, str], *, dated: bool) -> str:
    """The address of an Azure resource, from the variable that Azure's own tools read.

    Each customer of Azure has an address of his own, so no table can hold it.

    Args:
        dated: whether a version such as ``2024-10-21`` is asked for; its path is built by the
            package ``openai``. Else the address ends with the path of the first version.
    """
    resource = environ.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/")
    if not resource:
        raise ConfigError(
            "a model of Azure is named, and AZURE_OPENAI_ENDPOINT does not give its resource: "
            "set it to https://NAME.openai.azure.com, or give base_url"
        )
    has_path = resource.endswith("/v1")
    if dated or has_path:
        return resource
    return f"{resource}/openai/v1"
