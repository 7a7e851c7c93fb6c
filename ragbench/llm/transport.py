"""Requests through the openai package."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
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

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """Gives the answer; an error holds no credentials."""
        ...


_PLACEHOLDER = "none"
"""The package insists on a key; servers that ask for none ignore it."""
_CONNECT_SECONDS = 15.0
_KEY_SECONDS = 240.0
"""After which a program is asked for a new key: what az and gcloud print lasts five minutes more,
or longer."""


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

    async def open(self) -> None:
        package = require("openai", extra="llm")
        endpoint = self._endpoint
        self._headers = endpoint.sent_headers(self._environ)
        self._renewing = asyncio.Lock()
        await self._read_key()
        settings: dict[str, Any] = {
            "default_headers": self._headers,
            "max_retries": 0,
            "timeout": package.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_SECONDS)),
        }
        if endpoint.api_version is None:
            settings |= {"base_url": endpoint.base_url, "api_key": self._secret or _PLACEHOLDER}
            self._client = package.AsyncOpenAI(**settings)
            return

        async def token() -> str:
            return self._secret or _PLACEHOLDER

        # Entra's are signed tokens (RFC 7519), Azure's own keys are not.
        is_token = (self._secret or "").startswith("eyJ") and str(self._secret).count(".") == 2
        by_token = bool(endpoint.key.command) or is_token
        name, key = ("azure_ad_token_provider", token) if by_token else ("api_key", await token())
        settings |= {"azure_endpoint": endpoint.base_url, "api_version": endpoint.api_version}
        self._client = package.AsyncAzureOpenAI(**settings, **{name: key})

    async def _read_key(self) -> None:
        self._secret = await asyncio.to_thread(self._endpoint.key.read, self._environ)
        self._renewed_at = time.monotonic()
        hide(*self._secrets())

    def _secrets(self) -> list[str]:
        values = [self._headers[name] for name in self._endpoint.secret_headers if self._headers]
        return [value for value in (self._secret, *values) if value]

    async def _renew(self, client: openai.AsyncOpenAI) -> None:
        """Asks the program for a new key before the old one expires."""
        async with self._renewing:
            if time.monotonic() - self._renewed_at >= _KEY_SECONDS:
                await self._read_key()
                if self._endpoint.api_version is None:
                    client.api_key = self._secret or _PLACEHOLDER

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        package, httpx = (require(name, extra="llm") for name in ("openai", "httpx"))
        client = self._client
        if client is None:
            raise RuntimeError("the transport is not open")
        if self._endpoint.key.command:
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
            told = f"{type(cause).__name__}: {cause}".rstrip(": ")
            told = mask_text(told, self._secrets())
            if "Connect" in type(cause).__name__:
                raise NoAnswerError("connection", told) from None
            is_late = isinstance(error, package.APITimeoutError)
            raise NoAnswerError("timeout" if is_late else "lost", told) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(status=response.status_code, headers=headers, body=response.text)
        if answer.effective_status in range(200, 300):
            return answer
        # Before anybody cuts it: half of a key is a key to those who have the other half.
        return replace(answer, body=mask_text(answer.body, self._secrets()))
