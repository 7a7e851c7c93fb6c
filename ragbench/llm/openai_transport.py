"""Requests through the official ``openai`` package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragbench.extras import require
from ragbench.interface.masking import mask_text
from ragbench.llm.answer import Answer, NoAnswerError
from ragbench.llm.endpoint import Endpoint

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAITransport"]

_PLACEHOLDER = "none"
"""The package insists on a key; servers that ask for none ignore it."""
_CONNECT_SECONDS = 15.0


class OpenAITransport:
    """One connection pool. Retries are the client's: it sends each request exactly once."""

    def __init__(
        self, endpoint: Endpoint, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            endpoint: where to.
            timeout: seconds for an answer.
            environ: where the variable with the API key is looked up; this process's by default.
        """
        self._endpoint = endpoint
        self._timeout = timeout
        self._environ = os.environ if environ is None else environ
        self._secret: str | None = None
        self._client: openai.AsyncOpenAI | None = None

    def __repr__(self) -> str:
        """The address."""
        return f"OpenAITransport({self._endpoint.base_url!r})"

    async def open(self) -> None:
        """See `Transport.open`.

        Raises:
            ConfigError: the API key cannot be read.
            MissingExtraError: openai is not installed.
        """
        package = require("openai", extra="llm")
        endpoint = self._endpoint
        self._secret = endpoint.key.read(self._environ)
        settings: dict[str, Any] = {
            "api_key": self._secret or _PLACEHOLDER,
            "max_retries": 0,
            "timeout": package.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_SECONDS)),
        }
        client: openai.AsyncOpenAI
        if endpoint.api_version is None:
            client = package.AsyncOpenAI(base_url=endpoint.base_url, **settings)
        else:
            client = package.AsyncAzureOpenAI(
                azure_endpoint=endpoint.base_url, api_version=endpoint.api_version, **settings
            )
        self._client = client
        # What the package imports late takes a second; here it costs no request its time.
        _ = client.chat.completions.with_raw_response

    async def close(self) -> None:
        """See `Transport.close`."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """See `Transport.send`."""
        package = require("openai", extra="llm")
        client = self._client
        if client is None:
            raise RuntimeError("the transport is not open")
        try:
            raw = await _request(client, path, payload)
        except package.APITimeoutError as error:
            connecting = "Connect" in type(error.__cause__).__name__
            raise NoAnswerError(
                "connection" if connecting else "timeout", self._told(error)
            ) from None
        except package.APIConnectionError as error:
            connecting = "Connect" in type(error.__cause__).__name__
            raise NoAnswerError("connection" if connecting else "lost", self._told(error)) from None
        except package.APIStatusError as error:
            return _answer(error.response)
        return _answer(raw.http_response)

    def masked(self, text: str) -> str:
        """See `Transport.masked`."""
        return mask_text(text, () if self._secret is None else (self._secret,))

    def _told(self, error: BaseException) -> str:
        cause = error.__cause__ or error
        return self.masked(f"{type(cause).__name__}: {cause}".rstrip(": "))


async def _request(client: openai.AsyncOpenAI, path: str, payload: Mapping[str, Any]) -> Any:
    """As raw text: gateways leave fields out that the package's types promise."""
    rest = dict(payload)
    model = rest.pop("model")
    if path == "/embeddings":
        texts = rest.pop("input")
        embeddings = client.embeddings.with_raw_response
        return await embeddings.create(
            model=model, input=texts, encoding_format="float", extra_body=rest
        )
    chat = client.chat.completions.with_raw_response
    # The messages go past the package's walk over its types, which takes a fifth of a call's time.
    return await chat.create(model=model, messages=[], extra_body=rest)


def _answer(response: Any) -> Answer:
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    return Answer(status=int(response.status_code), headers=headers, body=str(response.text))
