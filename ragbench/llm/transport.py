"""Requests through the openai package."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ragbench.core.calling import accounted
from ragbench.llm.answers import Answer
from ragbench.llm.endpoint import Endpoint
from ragbench.masking import hide, mask_text
from ragbench.plugins import require

if TYPE_CHECKING:
    import openai


class NoAnswerError(Exception):
    """No whole answer came."""

    def __init__(self, kind: Literal["connection", "lost", "timeout"], detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail

    @property
    def may_be_billed(self) -> bool:
        """Whether the endpoint may have done the work all the same."""
        return self.kind != "connection"


class Transport(Protocol):
    """Carries requests. Opened and closed inside the one event loop that it serves."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer: ...

    def masked(self, text: str) -> str:
        """A text without the credentials that the transport uses."""
        ...


_PLACEHOLDER = "none"
"""The package insists on a key; servers that ask for none ignore it."""
_CONNECT_SECONDS = 15.0
_KEY_SECONDS = 600.0
"""After which a program is asked for a new key, where the key does not say when it expires."""
_EARLY_SECONDS = 120.0
"""So long before it expires a key is renewed."""


class OpenAITransport:
    """One connection pool. Retries are the client's: it sends each request exactly once."""

    def __init__(
        self, endpoint: Endpoint, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._environ = os.environ if environ is None else environ
        self._secret: str | None = None
        self._headers: dict[str, str] = {}
        self._renewed_at = 0.0
        self._renewing = asyncio.Lock()
        self._client: openai.AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"OpenAITransport({self._endpoint.base_url!r})"

    async def open(self) -> None:
        package = require("openai", extra="llm")
        endpoint = self._endpoint
        self._headers = endpoint.sent_headers(self._environ)
        self._renewing = asyncio.Lock()
        await self._read_key()
        settings: dict[str, Any] = {
            "api_key": self._secret or _PLACEHOLDER,
            "default_headers": self._headers,
            "max_retries": 0,
            "timeout": package.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_SECONDS)),
        }
        client: openai.AsyncOpenAI
        if endpoint.api_version is None:
            client = package.AsyncOpenAI(base_url=endpoint.base_url, **settings)
        else:
            if endpoint.key.command or _is_token(self._secret):

                async def token() -> str:
                    return self._secret or _PLACEHOLDER

                del settings["api_key"]
                settings["azure_ad_token_provider"] = token
            client = package.AsyncAzureOpenAI(
                azure_endpoint=endpoint.base_url, api_version=endpoint.api_version, **settings
            )
        self._client = client

    async def _read_key(self) -> None:
        key = self._endpoint.key
        self._secret = await asyncio.to_thread(key.read, self._environ)
        self._renewed_at = time.time()
        hide(self._secret, *(self._headers[name] for name in self._endpoint.secret_headers))

    async def _renew(self, client: openai.AsyncOpenAI) -> None:
        """Asks the program for a new key before the old one expires."""
        if not self._endpoint.key.command or time.time() < self._expires():
            return
        async with self._renewing:
            if time.time() >= self._expires():
                await self._read_key()
                if self._endpoint.api_version is None:
                    client.api_key = self._secret or _PLACEHOLDER

    def _expires(self) -> float:
        """When the key is to be renewed; not at once again, whatever it says of itself."""
        expiry = _expiry(self._secret or "")
        wanted = self._renewed_at + _KEY_SECONDS if expiry is None else expiry - _EARLY_SECONDS
        return max(wanted, self._renewed_at + _EARLY_SECONDS / 4)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        package, httpx = (require(name, extra="llm") for name in ("openai", "httpx"))
        client = self._client
        if client is None:
            raise RuntimeError("the transport is not open")
        await self._renew(client)
        if path == "/embeddings":
            payload = {**payload, "encoding_format": "float"}
        try:
            with accounted():
                # Past the package's types: gateways leave fields out that they promise, and its
                # walk over the messages takes a fifth of a call's time.
                response = await client.post(path, body=payload, cast_to=httpx.Response)
        except package.APIStatusError as error:
            response = error.response
        except package.APIConnectionError as error:
            cause = error.__cause__ or error
            told = self.masked(f"{type(cause).__name__}: {cause}".rstrip(": "))
            if "Connect" in type(cause).__name__:
                raise NoAnswerError("connection", told) from None
            is_late = isinstance(error, package.APITimeoutError)
            raise NoAnswerError("timeout" if is_late else "lost", told) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(status=response.status_code, headers=headers, body=response.text)

    def masked(self, text: str) -> str:
        values = [self._headers[name] for name in self._endpoint.secret_headers if self._headers]
        return mask_text(text, [value for value in (self._secret, *values) if value])


def _is_token(key: str | None) -> bool:
    """Whether a key is a signed token (RFC 7519), as Entra gives them."""
    return key is not None and key.startswith("eyJ") and key.count(".") == 2


def _expiry(key: str) -> float | None:
    """When a signed token expires, in seconds since 1970; None where a key does not say."""
    if not _is_token(key):
        return None
    payload = key.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (ValueError, TypeError, KeyError):
        return None
