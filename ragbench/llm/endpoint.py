"""Which model is asked, where, and with which parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from ragbench.errors import ConfigError
from ragbench.interface.masking import is_secret, mask_url
from ragbench.llm.api_key import NO_KEY, ApiKey
from ragbench.llm.dialect import Structured
from ragbench.llm.price import Price

__all__ = ["Endpoint"]

_OURS = frozenset(
    {"model", "messages", "temperature", "seed", "max_tokens", "max_completion_tokens",
     "response_format", "stream", "n"}
)  # fmt: skip
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A model behind an OpenAI-compatible endpoint. Holds no credential, only where one is."""

    base_url: str
    """Up to and with the version, such as ``"http://localhost:8000/v1"``; without ``/chat``. For
    Azure with ``api_version``, the resource's address."""
    model: str
    """The model's name there; Azure's name of the deployment."""
    key: ApiKey = NO_KEY
    """Where the API key is."""
    api_version: str | None = None
    """Only for Azure's dated interface."""
    temperature: float | None = 0.0
    """None: not sent. Some reasoning models accept no value."""
    seed: int | None = None
    """Sent where given; what it does is the endpoint's affair."""
    max_tokens: int | None = 4096
    """The longest answer, hidden reasoning included. None: not sent, then no cost can be capped."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the request, such as ``{"top_p": 0.9}``."""
    structured: Structured = Structured.AUTO
    """How JSON is asked for; by default it is found out."""
    price: Price | None = None
    """Overrides the price table."""

    def __post_init__(self) -> None:
        """Refuses what no call could be made with."""
        try:
            parts = urlsplit(self.base_url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            valid = False
            parts = urlsplit("")
        if not valid:
            raise ConfigError(f"'{mask_url(self.base_url)}' is not an http:// or https:// address")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ConfigError(
                f"the address {mask_url(self.base_url)} must hold neither a user, nor a password, "
                "nor anything after '?': give a key as an environment variable or a file"
            )
        if not self.model.strip():
            raise ConfigError("no model is named")
        _check_parameters(self)
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))

    @property
    def host(self) -> str:
        """The host, without a port."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return self.host in _LOCAL

    @property
    def parameters(self) -> dict[str, Any]:
        """What is sent with every call beside the messages, where it is given."""
        known = {"temperature": self.temperature, "seed": self.seed, "max_tokens": self.max_tokens}
        return {name: value for name, value in known.items() if value is not None} | dict(
            self.extra
        )

    def identity(self) -> dict[str, Any]:
        """Everything that an answer depends on, as JSON holds it. For manifests and cache keys."""
        found: dict[str, Any] = {
            "base_url": self.base_url,
            "model": self.model,
            "parameters": self.parameters,
            "structured": self.structured.value,
        }
        return found if self.api_version is None else found | {"api_version": self.api_version}

    def fingerprint(self) -> str:
        """A short name of `identity`: equal for equal judges."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=16).hexdigest()


def _check_parameters(endpoint: Endpoint) -> None:
    if endpoint.temperature is not None and not 0 <= endpoint.temperature <= 2:
        raise ConfigError(f"temperature must lie in 0 to 2, not {endpoint.temperature:g}")
    if endpoint.max_tokens is not None and endpoint.max_tokens < 1:
        raise ConfigError(f"max_tokens must be at least 1, not {endpoint.max_tokens}")
    for name in endpoint.extra:
        if name in _OURS:
            raise ConfigError(f"'{name}' cannot stand among the extra fields of a request")
        if is_secret(name):
            raise ConfigError(
                f"the extra field '{name}' looks like a credential: none is kept here"
            )
    try:
        json.dumps(endpoint.extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the extra fields of a request are no JSON: {error}") from None
