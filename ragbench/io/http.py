"""JSON over HTTP: one connection pool, few and safe retries, errors without credentials."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ragbench.core.calling import retry_after
from ragbench.errors import ConfigError, InterfaceError, StageTimeoutError, UnreachableError
from ragbench.masking import hide, is_secret, mask_text, mask_url
from ragbench.plugins import require

if TYPE_CHECKING:
    import httpx

_TOO_MANY = 429
_RETRIED = frozenset({_TOO_MANY, 502, 503, 504})
_KEEPING_POST = frozenset({307, 308})
_LONGEST_WAIT = 60.0
_CONNECT_SECONDS = 10.0
_SHOWN = 300
_LONGEST_PROBE = 5.0
"""Seconds that the question for a version may take."""
_LONGEST_VERSION = 200

VERSION_HEADER = "X-Ragbench-Version"
"""In which a server names its version: whatever changes with its answers."""


class HTTPRagError(InterfaceError):
    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class JsonEndpoint:
    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._anew = partial(
            type(self), url, headers=headers, timeout=timeout, retries=retries, sleep=sleep
        )
        parts = urlsplit(url)
        self.url = mask_url(url).rstrip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"'{self.url}' is not an http:// or https:// URL")
        if timeout <= 0 or retries < 0:
            raise ConfigError(
                f"timeout must be above 0 and retries at least 0, not {timeout} and {retries}"
            )
        self._secrets = _secrets(parts.username, parts.password, headers or {})
        hide(*self._secrets)  # what answers may be an echo
        self._base = url.partition("?")[0].rstrip("/")
        self._query = parts.query
        self._retries = retries
        self._timeout = timeout
        self._has_asked = self._has_answered = self._is_down = False
        self.versions: dict[str, None] = {}
        """Every version that the server has named, in that order."""
        self._sleep = sleep
        self._httpx = require("httpx", extra="http")
        self._client: httpx.Client = self._httpx.Client(
            headers=dict(headers or {}),
            timeout=self._httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            follow_redirects=False,
        )
        weakref.finalize(self, self._client.close)

    def close(self) -> None:
        self._client.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Travels to another process as its arguments; connections stay."""
        return self._anew, ()

    def __repr__(self) -> str:
        return f"JsonEndpoint({self.url!r})"

    @property
    def version(self) -> str | None:
        """What the server calls its version; None when it names none, or cannot be reached.

        Answers name it in the header ``X-Ragbench-Version``, and ``GET`` of the base URL in the
        header or as ``{"version": "..."}``. Asked for once; what answers say then is compared.
        """
        if not self._has_asked:
            self._has_asked = True
            try:
                target = f"{self._base}?{self._query}" if self._query else self._base
                response = self._client.get(target, timeout=min(self._timeout, _LONGEST_PROBE))
                self._note_version(response.headers.get(VERSION_HEADER))
                if response.is_success and not self.versions:
                    self._note_version(response.json()["version"])
            except (self._httpx.HTTPError, self._httpx.InvalidURL, ValueError, KeyError, TypeError):
                pass  # it is asked in earnest soon enough
        return next(iter(self.versions), None)

    def _note_version(self, version: object) -> None:
        if isinstance(version, (str, int, float)) and not isinstance(version, bool):
            text = self._masked(str(version).strip())[:_LONGEST_VERSION]
            if text:
                self.versions[text] = None

    def stage_identity(self, stage: str) -> object:
        """The URL without credentials, and the server's version where it names one."""
        version = self.version
        return {"url": self.url} | ({} if version is None else {"version": version})

    def post(self, path: str, payload: Mapping[str, Any]) -> Any:
        target = f"{self._base}{path}" + (f"?{self._query}" if self._query else "")
        shown = f"{self.url.partition('?')[0]}{path}"
        response = self._answer(target, shown, payload)
        try:
            return response.json()
        except ValueError:
            raise self._error(f"{shown} answered with no JSON", response) from None

    def _answer(self, target: str, shown: str, payload: Mapping[str, Any]) -> httpx.Response:
        attempt = 0
        while True:
            response, problem = self._send(target, shown, payload)
            if response is not None:
                self._has_answered, self._is_down = True, False
            if response is not None and response.is_success:
                self._note_version(response.headers.get(VERSION_HEADER))
                return response
            if response is not None and response.status_code not in _RETRIED:
                raise self._error(f"{shown} answered {response.status_code}", response)
            wait = _wait(attempt, response)
            if attempt == self._retries or wait > _LONGEST_WAIT or self._is_down:
                tries = f" after {attempt + 1} attempts" if attempt else ""
                asked = f" and asks to wait {wait:.0f} s" if wait > _LONGEST_WAIT else ""
                if response is None:
                    self._is_down = True  # the next question need not wait for it, too
                    raise self._unreachable(f"{shown} cannot be reached{tries}: {problem}")
                raise self._error(
                    f"{shown} answered {response.status_code}{tries}{asked}", response
                )
            self._sleep(wait)
            attempt += 1

    def _unreachable(self, text: str) -> UnreachableError:
        hint = "" if self._has_answered else ". Check its address and port, and that it is started"
        error = UnreachableError(f"{text}{hint}")
        error.answered_before = self._has_answered
        return error

    def _send(
        self, target: str, shown: str, payload: Mapping[str, Any]
    ) -> tuple[httpx.Response | None, str]:
        """One attempt: the answer, or why there was no connection."""
        library = self._httpx
        try:
            response: httpx.Response = self._client.post(target, json=payload)
            for _ in range(5):
                if response.status_code not in _KEEPING_POST:
                    break
                response = self._client.post(self._same_host(response, shown), json=payload)
        except (library.ConnectError, library.ConnectTimeout) as error:
            if isinstance(error, library.ConnectTimeout) and not self._has_answered:
                raise self._unreachable(
                    f"{shown} gives no connection within a time limit"
                ) from None
            return None, self._masked(str(error) or type(error).__name__)
        except library.TimeoutException:
            raise StageTimeoutError(f"{shown} did not answer in time") from None
        except (library.HTTPError, library.InvalidURL) as error:
            text = self._masked(f"{type(error).__name__}: {error}")
            raise HTTPRagError(f"{shown} failed: {text}") from None
        return response, ""

    def _same_host(self, response: httpx.Response, shown: str) -> httpx.URL:
        here = response.request.url
        location = here.join(response.headers.get("location", ""))
        if (location.scheme, location.host, location.port) != (here.scheme, here.host, here.port):
            raise HTTPRagError(
                f"{shown} redirects to {mask_url(str(location))}, another host: not followed, so "
                "that no credentials go there. Give that URL if it is meant",
                response.status_code,
            )
        if here.userinfo and not location.userinfo:
            return location.copy_with(username=here.username, password=here.password)
        return location

    def _error(self, message: str, response: httpx.Response) -> HTTPRagError:
        location = response.headers.get("location") if response.is_redirect else None
        if location:
            message += f" with a redirect to {self._masked(location)}, which would drop the body"
        head = " ".join(self._masked(response.text[: 4 * _SHOWN]).split())[:_SHOWN]
        return HTTPRagError(f"{message}: {head}" if head else message, response.status_code)

    def _masked(self, text: str) -> str:
        return mask_text(text, self._secrets)


def _secrets(
    username: str | None, password: str | None, headers: Mapping[str, str]
) -> tuple[str, ...]:
    found = [value for name, value in headers.items() if is_secret(name)]
    # "Bearer abc": a server that echoes may echo the token alone.
    found += [value.rpartition(" ")[2] for value in found]
    for part in (username, password):
        if part:
            found += [part, unquote(part)]
    # What is shorter would blank out letters all over a message.
    return tuple(secret for secret in found if len(secret) > 3)


def _wait(attempt: int, response: httpx.Response | None) -> float:
    """Seconds until the next attempt: what the server asks for, else 0.5, 1, 2, 4, ... up to 8.

    Of a server that counts requests (429) twice that: it needs time, where others had a bad moment.
    """
    asked = None if response is None else retry_after(response.headers)
    if asked is not None:
        return asked
    is_limited = response is not None and response.status_code == _TOO_MANY
    return float(min((1.0 if is_limited else 0.5) * 2**attempt, 8.0))
