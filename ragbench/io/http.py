"""JSON over HTTP: one connection pool, few and safe retries, errors without credentials.

Requests are made in an event loop of their own: there alone a request can be given up at a given
moment. The time limits of httpx are for each read, and an answer that drips has no end.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ragbench.core.calling import LoopThread, retry_after
from ragbench.core.http_body import ACCEPTED_PACKING, BodyError, BodyReader
from ragbench.errors import ConfigError, InterfaceError, StageTimeoutError, UnreachableError
from ragbench.io.json_files import parse_unambiguous
from ragbench.io.settings import below, converted
from ragbench.io.values import ValueProblem
from ragbench.masking import hide, is_secret, mask_text, mask_url
from ragbench.plugins import require

if TYPE_CHECKING:
    import httpx


def check_patience(timeout: object = 60.0, retries: object = 3) -> None:
    """Refuses time limits and numbers of retries with which no request could be made.

    A configuration is checked before a run begins, so that no run fails at its first request.

    Raises:
        SettingsError: a limit is no number, or out of its range; it has the limit's place.
    """
    with below("timeout"):
        if converted(timeout, float, "timeout") <= 0:
            raise ConfigError(f"timeout must be above 0 seconds, not {timeout}")
    with below("retries"):
        if converted(retries, int, "retries") < 0:
            raise ConfigError(f"retries must be at least 0, not {retries}")


_TOO_MANY_REQUESTS = 429
_RETRIED_STATUSES = frozenset({_TOO_MANY_REQUESTS, 502, 503, 504})
"""With these a server, or what stands before it, says that it is busy."""
_REDIRECTS_OF_POST = frozenset({307, 308})
"""The redirects that a client follows with the same method and body; the others make it a GET."""
_MAX_REDIRECTS = 5
_MORE_OF_LOST = 4
"""Times as many retries where the connection breaks of a server that has answered before: of one
that breaks every second connection, each request has to be answered."""
_LONGEST_WAIT = 60.0
"""Seconds; a server that asks for a longer pause before the next attempt has failed."""
_CONNECT_SECONDS = 10.0
"""How long a connection may take, however long the answer may: a server that is up accepts it."""
_SHOWN = 300
"""Characters of a server's response that an error shows."""
_LONGEST_BODY = 10_000
"""Characters of an error's body that are kept."""
_VERSION_SECONDS = 5.0
"""How long the request for a version may take: a run should not wait for what it can do without."""
_LONGEST_VERSION = 200
"""Characters of a version that are kept."""

VERSION_HEADER = "X-Ragbench-Version"
"""In which a server names its version: whatever changes with its answers."""


class HTTPRagError(InterfaceError):
    """A server's response is no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """Takes the text of the error, and the status of the response if there was a response.

        Where there was one, its headers and the beginning of its body are added afterwards.
        """
        super().__init__(message)
        self.status = status
        self.headers: Mapping[str, str] = {}
        """Those of the response's headers that ask to wait before the next attempt."""
        self.body = ""
        """The beginning of the response's body, in which callers look for a reason."""


class LostConnectionError(HTTPRagError, ConnectionError):
    """The connection broke before the whole answer had come."""


class _Failure(NamedTuple):
    """How an attempt failed that may be made again."""

    reason: str
    was_connected: bool
    """Whether the connection broke; else there was none."""


@cache
def _loop_of(process: int) -> LoopThread:
    """The event loop for all HTTP requests of a process, made once and kept.

    A fork does not have its parent's threads, so the loop is kept by the process's id: in another
    process a new one is made.
    """
    return LoopThread("ragbench-http")


class _Connections:
    """A client and the event loop that its connections belong to."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        """Takes an HTTP client that only this process uses: a fork cannot share its connections.

        A client's connections belong to the event loop in which they were opened, so both are kept
        together.
        """
        self.process = os.getpid()
        """The process that opened the connections, and may use them; a fork of it may not."""
        self._loop = _loop_of(self.process)
        self._client = client

    def run(
        self, request: Callable[[httpx.AsyncClient], Coroutine[Any, Any, httpx.Response]]
    ) -> httpx.Response:
        """Makes a request in the event loop, and waits for its response in the caller's thread.

        Callers are plain functions in many threads; only in a loop a request can be given up in
        time.
        """
        return self._loop.run(request(self._client))

    def close(self) -> None:
        """Has the client's connections closed, without waiting: any thread may collect garbage.

        A finalizer calls it: in another process than its own the connections are left alone.
        """
        if self.process == os.getpid():
            self._loop.leave(self._client.aclose())


class JsonEndpoint:
    """A server that answers JSON with JSON.

    A request is sent again where there was no connection, where it broke, or where the server says
    that it is busy. One that takes too long is not: the server may be at work on it, and its answer
    may cost money.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        repeatable: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Takes the server's address and the limits of a request, and checks them; nothing is sent.

        Args:
            timeout: seconds for one request, from its beginning to the end of its answer.
            retries: how often a request is sent again; four times as often where a server that has
                answered before breaks the connection.
            repeatable: whether a request is sent again after a connection broke, too: the server
                may have done the work.
            sleep: waits some seconds between two attempts.
        """
        # How another process makes the same endpoint, see `__reduce__`.
        self._construct = partial(
            type(self),
            url,
            headers=headers,
            timeout=timeout,
            retries=retries,
            repeatable=repeatable,
            sleep=sleep,
        )
        parts = urlsplit(url)
        self.url = mask_url(url).rstrip("/")
        """The URL without credentials: messages show it, and a run's identity holds it."""
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"'{self.url}' is not an http:// or https:// URL")
        check_patience(timeout, retries)
        self._secrets = _secrets(parts.username, parts.password, headers or {})
        hide(*self._secrets)  # a server may repeat the credentials in its answer
        self._base = url.partition("?")[0].rstrip("/")
        """The address of requests, with its credentials; `url` is the one to be shown."""
        self._query = parts.query
        """The query part of the base URL (after ``?``), which goes with every request."""
        self._where = (parts.hostname, parts.port)
        """Host and port, by which the watch on connections knows the server."""
        self._retries = retries
        self._is_repeatable = repeatable
        self._timeout = timeout
        self._has_asked_version = False
        """Whether the version was asked for; set before it is, so that it is asked for once."""
        self._has_answered = False
        """Whether the server has ever answered: then a broken connection is worth more attempts."""
        # All attempts at one question found no connection: the next question gets one attempt.
        self._is_down = False
        self.versions: dict[str, None] = {}
        """Every version that the server has named, each once, in the order of the answers."""
        self._sleep = sleep
        self._httpx = require("httpx", extra="http")
        self._headers = {**ACCEPTED_PACKING, **(headers or {})}
        self._opening = threading.Lock()
        """The lock under which one thread at a time opens or closes the connections."""
        self._connections: _Connections | None = None
        """The open connections to the server; None before the first request."""

    def _opened(self) -> _Connections:
        """The connections of this process to the server, opened at the first request.

        A fork has its parent's connections and must not use them: it gets new ones here.
        """
        with self._opening:
            connections = self._connections
            # A fork has its parent's connections, and must not use them.
            if connections is None or connections.process != os.getpid():
                client = self._httpx.AsyncClient(
                    headers=self._headers,
                    # The time for a whole answer is limited where it is waited for.
                    timeout=self._httpx.Timeout(None, connect=min(self._timeout, _CONNECT_SECONDS)),
                    follow_redirects=False,
                    event_hooks={"response": [BodyReader()]},
                )
                connections = _Connections(client)
                self._connections = connections
                # Closed when the endpoint is gone, but not at the end of the process: then the
                # daemon thread with the loop of the connections may have ended already.
                weakref.finalize(self, connections.close).atexit = False
            return connections

    def close(self) -> None:
        """Closes the connections to the server; a later request opens new ones.

        Under the lock that opens them, since other threads may make requests at the same time.
        """
        with self._opening:
            connections = self._connections
            self._connections = None
        if connections is not None:
            connections.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How an endpoint travels to another process: as its arguments, without its connections.

        Workers get a RAG with its endpoint: each process opens connections of its own.
        """
        return self._construct, ()

    def __repr__(self) -> str:
        """The endpoint with its URL, in which credentials are masked, so that a log may hold it."""
        return f"JsonEndpoint({self.url!r})"

    @property
    def version(self) -> str | None:
        """The server's name for its version; None when it names none, or cannot be reached.

        A run records it: answers of two versions are not answers of one system. Answers name it in
        the header ``X-Ragbench-Version``, and ``GET`` of the base URL in the header or as
        ``{"version": "..."}``. The version is asked for once; those in later answers are compared
        with it.
        """
        if not self._has_asked_version:
            self._has_asked_version = True
            try:
                response = self._opened().run(self._get_version)
                self._note_version(response.headers.get(VERSION_HEADER))
                if response.is_success and not self.versions:
                    self._note_version(response.json()["version"])
            except (
                self._httpx.HTTPError,
                self._httpx.InvalidURL,
                BodyError,
                RecursionError,
                TimeoutError,
                ValueError,
                KeyError,
                TypeError,
            ):
                pass  # what is wrong with the server shows at the first question
        return next(iter(self.versions), None)

    async def _get_version(self, client: httpx.AsyncClient) -> httpx.Response:
        """Asks the server for its version, and gives up soon: a run can do without it.

        The limit is `_VERSION_SECONDS`, or that of the endpoint's requests if it is shorter.
        """
        async with asyncio.timeout(min(self._timeout, _VERSION_SECONDS)):
            return await client.get(self._address())

    def _address(self, path: str = "") -> str:
        """The URL of a path on the server, with the query and the credentials of the base URL.

        Only requests use it: errors and logs show `url`, without credentials.
        """
        address = f"{self._base}{path}"
        if self._query:
            address += f"?{self._query}"
        return address

    def _note_version(self, version: object) -> None:
        """Remembers the version that a response of the server names, if it names one.

        A server that is replaced during a run names another version, and both are among `versions`:
        so a report can say that the answers are of two systems.
        """
        if isinstance(version, (str, int, float)) and not isinstance(version, bool):
            text = self._masked(str(version).strip())[:_LONGEST_VERSION]
            if text:
                self.versions[text] = None

    def stage_identity(self, stage: str) -> object:
        """The server as a part of a run's identity: its URL without credentials, and its version.

        A run is resumed only where its identity is the same, so this value and its keys are stored:
        a change makes earlier runs look like those of another system.
        """
        identity = {"url": self.url}
        version = self.version
        if version is not None:
            identity["version"] = version
        return identity

    def post(self, path: str, payload: Mapping[str, Any]) -> Any:
        """Sends an object to a path of the server as JSON, and returns the JSON that it answers.

        Raises:
            UnreachableError: there is no connection.
            StageTimeoutError: its answer was not complete in time.
            HTTPRagError: it answered with an error, with too much, or with no JSON, or broke the
                connection.
        """
        # Errors show the address without credentials.
        shown = f"{self.url.partition('?')[0]}{path}"
        response = self._successful_response(self._address(path), shown, payload)
        try:
            return parse_unambiguous(response.content, "its answer")
        except ValueProblem as problem:
            message = f"{shown} answered with no JSON that can be read ({problem})"
            raise self._error(message, response) from None

    def _successful_response(self, address: str, shown: str, payload: Any) -> httpx.Response:
        """The response to a question, after as many attempts as the limits allow.

        Another attempt follows only where it may help: no connection, a broken one, a busy server.
        A server that could not be reached gets one attempt for each further question, so that a run
        against a dead server ends soon.

        Raises:
            InterfaceError: the last attempt failed; the error is of the kind that `post` names.
        """
        # The loop's thread does not show whose request it is: the watch on connections hears here.
        sys.audit("ragbench.request", None, self._where)
        attempt = 0
        while True:
            response, failure = self._send(address, shown, payload)
            if response is not None:
                self._has_answered = True
                self._is_down = False
                if response.is_success:
                    self._note_version(response.headers.get(VERSION_HEADER))
                    return response
                if response.status_code not in _RETRIED_STATUSES:
                    raise self._error(f"{shown} answered {response.status_code}", response)
            wait = _seconds_to_wait(attempt, response)
            retries = self._retries
            if failure is not None and failure.was_connected:
                retries = self._retries_of_lost
            if attempt >= retries or wait > _LONGEST_WAIT or self._is_down:
                break
            self._sleep(wait)
            attempt += 1
        attempts = f" after {attempt + 1} attempts" if attempt else ""
        if response is not None:
            message = f"{shown} answered {response.status_code}{attempts}"
            if wait > _LONGEST_WAIT:
                message += f" and asks to wait {wait:.0f} s"
            raise self._error(message, response)
        # `_send` gives one of the two.
        assert failure is not None
        if failure.was_connected:
            raise LostConnectionError(f"{shown} broke the connection{attempts}: {failure.reason}")
        self._is_down = True
        raise self._unreachable(f"{shown} cannot be reached{attempts}: {failure.reason}")

    @property
    def _retries_of_lost(self) -> int:
        """How often a request is sent again after the server broke the connection.

        Not at all where the server may have done the work already. More often where the server has
        answered before: then it is up, and the next attempt will probably succeed.
        """
        if not self._is_repeatable:
            return 0
        if not self._has_answered:  # perhaps it breaks every connection
            return self._retries
        return _MORE_OF_LOST * self._retries

    def _unreachable(self, message: str) -> UnreachableError:
        """The error of a server that gives no connection.

        If the server has never answered, its address may be wrong, and the text names that. The
        error also carries whether it has answered: a server that went away is another failure.
        """
        if not self._has_answered:
            message += ". Check its address and port, and that it is started"
        error = UnreachableError(message)
        error.answered_before = self._has_answered
        return error

    def _send(
        self, address: str, shown: str, payload: Any
    ) -> tuple[httpx.Response | None, _Failure | None]:
        """Makes one attempt: the response, or how it failed where another attempt may succeed.

        The caller decides about another attempt: it knows how many there have been.

        Raises:
            UnreachableError: a server that has never answered gives no connection in time.
            StageTimeoutError: the answer is not complete in time; the server may still be at work
                on it.
            HTTPRagError: the request failed in a way that another attempt would only repeat.
        """
        library = self._httpx
        try:
            response = self._opened().run(partial(self._exchange, address, shown, payload))
        except (library.ConnectError, library.ConnectTimeout) as error:
            # A server that has never answered will not do so soon: no attempt waits once more.
            if isinstance(error, library.ConnectTimeout) and not self._has_answered:
                raise self._unreachable(
                    f"{shown} gives no connection within a time limit"
                ) from None
            reason = self._masked(str(error) or type(error).__name__)
            return None, _Failure(reason, was_connected=False)
        except TimeoutError:
            raise StageTimeoutError(
                f"{shown} did not answer in time: the answer was not complete after "
                f"{self._timeout:g} s"
            ) from None
        except BodyError as error:
            raise HTTPRagError(f"{shown} failed: {error}") from None
        except (library.HTTPError, library.InvalidURL) as error:
            problem = self._masked(f"{type(error).__name__}: {error}".rstrip(": "))
            if isinstance(error, (library.NetworkError, library.RemoteProtocolError)):
                return None, _Failure(problem, was_connected=True)
            raise HTTPRagError(f"{shown} failed: {problem}") from None
        return response, None

    async def _exchange(
        self, address: str, shown: str, payload: Any, client: httpx.AsyncClient
    ) -> httpx.Response:
        """Sends a question and reads the whole answer, following redirects on the same host.

        The time limit is for all of it together: an answer that drips would otherwise have no end.
        """
        async with asyncio.timeout(self._timeout):
            response = await client.request(**self._request_of(address, payload))
            # A redirect beyond these is returned as it is: its status is an error to the caller.
            for _ in range(_MAX_REDIRECTS):
                if response.status_code not in _REDIRECTS_OF_POST:
                    break
                location = self._location_on_same_host(response, shown)
                response = await client.request(**self._request_of(location, payload))
            return response

    def _request_of(self, address: str | httpx.URL, payload: Any) -> dict[str, Any]:
        """The arguments of `httpx.AsyncClient.request` for a question: JSON by POST.

        A kind of endpoint that sends anything else, such as a form or a GET, overrides this method
        alone.
        """
        return {"method": "POST", "url": address, "json": payload}

    def _location_on_same_host(self, response: httpx.Response, shown: str) -> httpx.URL:
        """The URL to which a redirect leads, with the credentials; refused on another host.

        Credentials that are meant for one server must not go to another one by themselves.

        Raises:
            HTTPRagError: the redirect leads to another scheme, host or port.
        """
        origin = response.request.url
        location = origin.join(response.headers.get("location", ""))
        is_same_host = (
            location.scheme == origin.scheme
            and location.host == origin.host
            and location.port == origin.port
        )
        if not is_same_host:
            raise HTTPRagError(
                f"{shown} redirects to {mask_url(str(location))}, another host: not followed, so "
                "that no credentials go there. Give that URL if it is meant",
                response.status_code,
            )
        # A location without credentials would be refused by the same server.
        if origin.userinfo and not location.userinfo:
            return location.copy_with(username=origin.username, password=origin.password)
        return location

    def _error(self, message: str, response: httpx.Response) -> HTTPRagError:
        """The error of an unusable response, with how its body begins and where it redirects to.

        Credentials are masked in the body and in the address of the redirect: a server may repeat
        those that it got. The headers that ask to wait are kept for the next attempt.
        """
        location = response.headers.get("location")
        if response.is_redirect and location:
            message += f" with a redirect to {self._masked(location)}, which would drop the body"
        # Blanks are squeezed only after masking, and a secret may be cut: hence the longer part.
        beginning = self._masked(response.text[: 4 * _SHOWN])
        beginning = " ".join(beginning.split())[:_SHOWN]
        if beginning:
            message += f": {beginning}"
        error = HTTPRagError(message, response.status_code)
        error.body = self._masked(response.text[:_LONGEST_BODY])
        names = [name for name in response.headers if name.startswith("retry-after")]
        error.headers = {name: response.headers[name] for name in names}
        return error

    def _masked(self, text: str) -> str:
        """A text from the server without this endpoint's credentials, which a server may echo.

        Every text from a server passes through it before it is in an error or a stored version.
        """
        return mask_text(text, self._secrets)


def _secrets(
    username: str | None, password: str | None, headers: Mapping[str, str]
) -> tuple[str, ...]:
    """The credentials in a URL and in headers, in each form that a server may echo.

    They are masked in all errors and logs. Credentials of three letters or less are left out:
    masking them would blank out letters in any message.
    """
    secrets = [value for name, value in headers.items() if is_secret(name)]
    # "Bearer abc": a server that echoes may echo the token alone.
    secrets += [value.rpartition(" ")[2] for value in secrets]
    for part in (username, password):
        if part:
            secrets += [part, unquote(part)]
    # What is shorter would blank out letters all over a message.
    return tuple(secret for secret in secrets if len(secret) > 3)


def _seconds_to_wait(attempt: int, response: httpx.Response | None) -> float:
    """Seconds until the next attempt: as the server asks, else 0.5, 1, 2, 4, ... up to 8.

    A server that counts requests (429) gets twice that: it needs time, where others had a bad
    moment.

    Args:
        attempt: how many attempts have failed before this one, from 0.
        response: the last response; None if there was no connection.
    """
    first_wait = 0.5
    if response is not None:
        server_wait = retry_after(response.headers)
        if server_wait is not None:
            return server_wait
        if response.status_code == _TOO_MANY_REQUESTS:
            first_wait = 1.0
    return float(min(first_wait * 2**attempt, 8.0))
