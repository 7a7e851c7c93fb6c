"""How calls are made: how many, when again, when no more; requests through the openai package.

How many requests are in flight, `ragbench.core.concurrency` says.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ragbench.core.checked import AboveZero, Checked, NotNegative, Positive
from ragbench.core.concurrency import AdaptiveLimit
from ragbench.core.http_body import ACCEPTED_PACKING, BodyError, BodyReader
from ragbench.core.origin import accounted
from ragbench.core.record import Record
from ragbench.errors import InterruptedRunError, LLMError, LLMStoppedError, LLMUnreachableError
from ragbench.llm.answers import Answer
from ragbench.llm.endpoint import Endpoint
from ragbench.masking import hide, mask_text
from ragbench.plugins import require
from ragbench.safe_text import counted

if TYPE_CHECKING:
    import openai

_GLANCE = 0.25
"""Seconds between two looks at whether the run is stopped."""


class Clock:
    """The running event loop's time, and whether the user has stopped the run.

    Tests put a clock of their own in its place, so that nothing waits.
    """

    def now(self) -> float:
        """The event loop's time in seconds, since some moment in the past.

        Waits and deadlines are measured by it.
        """
        return asyncio.get_running_loop().time()

    stopped: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the user has stopped the run: then nothing is waited for, and no more is asked."""

    async def sleep(self, seconds: float) -> None:
        """Waits so many seconds; raises `InterruptedRunError` soon after the user stops the run.

        Waits for a rate limit can take minutes: a user who stops the run must not sit through them.
        """
        self.check()
        while seconds > 0:
            await asyncio.sleep(min(seconds, _GLANCE))
            seconds -= _GLANCE
            self.check()

    def check(self) -> None:
        """Raises `InterruptedRunError` once the user has stopped the run; does nothing before.

        Called before each request, so that a stopped run pays for no further one.
        """
        if self.stopped():
            raise InterruptedRunError("stopped; the same command continues")

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """A block of code that raises `TimeoutError` when it takes longer; None for no limit.

        Tests replace it, so that a time out needs no real waiting.
        """
        return asyncio.timeout(seconds)


_HOPELESS = 8
"""Requests in a row without an answer after which there is no hope."""
_HOPELESS_SECONDS = 20.0
"""How long those must go on where the endpoint has answered before: it may be restarting."""


class Circuit:
    """Says whether an endpoint may still be called; open means that it may not.

    It opens when there is no hope of an answer, so that not every case of a run waits for one in
    vain. It stays open for this run; the next run tries anew.
    """

    def __init__(self, clock: Clock, *, where: str) -> None:
        """Starts closed: calls may be made. ``where`` names the endpoint in messages.

        A circuit opens for good when no call has any hope; see `unanswered`.
        """
        self._clock = clock
        self._where = where
        self._unanswered = 0
        """Requests in a row without an answer."""
        self._unanswered_since = 0.0
        """When the first of those unanswered requests ended, by the clock."""
        self._reason: LLMStoppedError | None = None
        """Why the circuit is open; None while it is closed."""
        self.has_answered = False
        """Whether any call was answered well."""
        self.has_worked = False
        """Whether the endpoint answered an earlier command: then it exists, and the circuit opens
        later, since the endpoint may be restarting."""

    def check(self) -> None:
        """Raises when the circuit is open: the endpoint may not be called any more.

        Every call asks before it sends: after a wrong key or a dead server a run ends at once
        instead of failing case by case. Does nothing while the circuit is closed.
        """
        reason = self._reason
        if reason is not None:
            # One exception raised from many tasks would gather all their tracebacks.
            raise type(reason)(str(reason), status=reason.status)

    def open(self, reason: LLMStoppedError) -> None:
        """Stops all further calls to the endpoint.

        The first reason is kept, and each call raises it.
        """
        if self._reason is None:
            self._reason = reason

    def answered(self, *, well: bool) -> None:
        """Notes that the endpoint gave an answer, be it an error: the row of lost requests ends.

        An endpoint that answers is there, whatever it says.

        Args:
            well: whether it answered as asked; then the key and the address are good.
        """
        self._unanswered = 0
        self.has_answered = self.has_answered or well

    def unanswered(self, detail: str) -> None:
        """Notes that a request got no answer (no connection, or none that held).

        After too many in a row the circuit opens: no more calls are made. An endpoint that has
        answered before gets some more seconds: it may be restarting.
        """
        now = self._clock.now()
        if self._unanswered == 0:
            self._unanswered_since = now
        self._unanswered += 1
        # Where it never answered, its address is likely wrong: that need not be waited for.
        may_come_back = self.has_answered or self.has_worked
        is_long = now - self._unanswered_since >= _HOPELESS_SECONDS
        if self._unanswered >= _HOPELESS and (is_long or not may_come_back):
            requests = counted(self._unanswered, "request")
            text = (
                f"{self._where} gives no answer: {requests} in a row failed ({detail}). Earlier "
                "answers are kept; the same command goes on from there when the endpoint is back"
            )
            self.open(LLMUnreachableError(text))


_FIRST_WAIT = 0.5
"""Seconds before the first repetition of a request."""
_LONGEST_WAIT = 30.0
"""Seconds before any repetition, at the most."""
_FIRST_LIMIT = 8
"""Requests in flight to begin with."""


class Concurrency(AdaptiveLimit):
    """Gives out slots for requests, as many at a time as the endpoint bears. For one event loop."""

    def __init__(self, most: int, clock: Clock) -> None:
        """Begins with a few slots for requests, and gives out up to ``most`` while all goes well.

        A slot is the right to have one request in flight.
        """
        super().__init__(most, first=_FIRST_LIMIT, now=clock.now)
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        """The turns of calls that wait for a slot, first come first served."""

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[int]:
        """Waits for a slot, the right to have a request in flight, and holds it for the block.

        Gives how often the limit had been lowered when the call began: of calls that were in flight
        together, only the first refused one lowers it.
        """
        while True:
            await self._acquire()
            # The endpoint may have asked everybody to wait while this call stood in line.
            wait = self.pause
            if wait <= 0:
                break
            # No slot is held while waiting: a call that is cancelled here has none to give back.
            self._release()
            await self._clock.sleep(wait)
        try:
            yield self.epoch
        finally:
            self._release()

    async def _acquire(self) -> None:
        """Waits until it is this call's turn to have a request in flight, first come first served.

        A call that is cancelled while it waits must not keep a slot: no other would ever get it.
        """
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        # The slot comes with the turn: `_rose` counts it as in flight before this call goes on.
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # it was this call's turn already: the next call gets its slot
            else:
                with suppress(ValueError):  # `_rose` may have taken the turn out already
                    self._waiting.remove(turn)
            raise

    def _release(self) -> None:
        """Gives the slot of a request back, and at once to the next call that waits for a slot.

        A slot is the right to have one request in flight; waiting calls get it in their order.
        """
        self.in_flight -= 1
        self._rose()

    def _rose(self) -> None:
        """Gives free slots, the right to have a request in flight, to the calls that wait for one.

        Called whenever a request ends, and by `AdaptiveLimit` when it raises how many may be in
        flight.
        """
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            # A call that was cancelled while it stood in line has no use for a turn.
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


class CallLimits(Checked, Record):
    """Changes how calls are made, never what they answer."""

    timeout: AboveZero = 120.0
    """Seconds for one request."""
    deadline: AboveZero | None = None
    """Seconds for all calls together, from the moment the client is opened; None for no end."""
    concurrency: Positive = 32
    """The most requests in flight; fewer when the endpoint asks for it."""
    retries: NotNegative = 6
    """How often a request is sent again after server errors, time outs, lost connections and
    answers that are not answers; rate limits are counted apart."""
    rate_limit_wait: float = 600.0
    """Seconds that a call may spend waiting because the endpoint asks for it (429)."""

    def wait(self, attempt: int, spread: float) -> float:
        """The seconds before a request is repeated, where its endpoint did not ask for a wait.

        Each wait is twice as long as the one before, up to a longest.

        Args:
            attempt: how many repetitions there were before, from 0.
            spread: in [0, 1]; keeps calls apart that failed together. Half of the wait depends
                on it.
        """
        doublings = min(attempt, 30)  # more would overflow, and the longest wait is reached before
        # At 0.5 s the seventh wait reaches the longest.
        seconds = min(_FIRST_WAIT * 2.0**doublings, _LONGEST_WAIT)
        share = 0.5 + 0.5 * spread
        return seconds * share


# --- requests through the openai package


class NoAnswerError(Exception):
    """A request that got no answer; ``kind`` says how far it came.

    It never had a connection, had one that was lost, or had one and waited in vain.
    """

    def __init__(self, kind: Literal["connection", "lost", "timeout"], detail: str) -> None:
        """Keeps how a request was lost (``kind``) apart from its description (``detail``).

        The kind shows whether the endpoint may have done the work, and bills it.
        """
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class Transport(Protocol):
    """Carries requests. Opened and closed inside the one event loop that it serves."""

    async def open(self) -> None:
        """Gets the transport ready to carry requests to its endpoint. Nothing is sent.

        A missing key or package raises here, before anything is paid.
        """
        ...

    async def close(self) -> None:
        """Gives up the transport's connections.

        A transport serves one event loop, and is opened anew for another one.
        """
        ...

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """Sends a request once and gives the endpoint's answer; its errors hold no credentials.

        Tests put a transport of their own in place, which needs no network.

        Args:
            path: of the interface, such as ``"/chat/completions"``.
            payload: the request's body, sent as JSON.
        """
        ...


_PLACEHOLDER = "none"
"""The package insists on a key; servers that ask for none ignore it."""
_CONNECT_SECONDS = 15.0
"""How long a connection may take to come about, however long an answer may take."""
_KEY_SECONDS = 240.0
"""After which a program is asked for a new key: what az and gcloud print lasts five minutes more,
or longer."""


def import_llm_packages() -> None:
    """Imports all packages that a call to a model needs, or raises how to install them.

    Callers do so before the first call: an answer that could not be read would be paid for in vain.
    """
    require("openai", extra="llm")
    require("httpx", extra="llm")
    require("pydantic", extra="llm")


class OpenAITransport:
    """One connection pool. Retries are the client's: it sends each request exactly once."""

    def __init__(
        self, endpoint: Endpoint, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> None:
        """Takes an endpoint, and opens nothing yet: a pool belongs to the event loop that makes it.

        The key is read when the transport is opened.

        Args:
            timeout: seconds for one request.
            environ: where the key's variable is read; the process's environment if left out.
        """
        self._endpoint = endpoint
        self._timeout = timeout
        self._environ = os.environ if environ is None else environ
        self._secret: str | None = None
        """The API key; None before the transport is opened, and where the endpoint needs none."""
        self._headers: dict[str, str] = {}
        """The endpoint's own headers, sent with every request; empty until the transport is
        opened."""
        self._renewed_at = 0.0
        """When the key was read, by a clock that is never set back."""
        self._renewing = asyncio.Lock()
        """Held by the one call that reads a new key, while other calls wait for that key."""
        self._client: openai.AsyncOpenAI | None = None
        """The connection pool; None while the transport is closed."""

    async def open(self) -> None:
        """Reads the key and makes the connection pool. Nothing is sent.

        The package's own retries are switched off: `Caller` counts and books each request. Azure's
        dated interface takes keys and tokens in other headers, and so has a client of its own.
        """
        import_llm_packages()
        package = require("openai", extra="llm")
        endpoint = self._endpoint
        self._headers = endpoint.sent_headers(self._environ)
        # A lock belongs to the event loop in which it is used first: this may be another one now.
        self._renewing = asyncio.Lock()
        await self._read_key()
        # Bodies are read up to a limit: an endpoint may send more, packed or without end.
        http_client = package.DefaultAsyncHttpxClient(event_hooks={"response": [BodyReader()]})
        connect_seconds = min(self._timeout, _CONNECT_SECONDS)
        settings: dict[str, Any] = {
            "http_client": http_client,
            "default_headers": {**ACCEPTED_PACKING, **self._headers},
            "max_retries": 0,
            "timeout": package.Timeout(self._timeout, connect=connect_seconds),
        }
        key = self._secret or _PLACEHOLDER
        if endpoint.api_version is None:
            self._client = package.AsyncOpenAI(base_url=endpoint.base_url, api_key=key, **settings)
            return

        # Azure takes keys of its own and tokens of Entra, each in another header. Entra's are
        # signed tokens (RFC 7519): three parts, of which the first begins like this.
        is_token = key.startswith("eyJ") and key.count(".") == 2
        if endpoint.key.command or is_token:
            settings["azure_ad_token_provider"] = self._current_token
        else:
            settings["api_key"] = key
        settings["azure_endpoint"] = endpoint.base_url
        settings["api_version"] = endpoint.api_version
        self._client = package.AsyncAzureOpenAI(**settings)

    async def _current_token(self) -> str:
        """The key as it is now: the package asks for it before each request to Azure.

        A token of Entra expires within a run, and `_renew_key` may have read a new one since.
        """
        return self._secret or _PLACEHOLDER

    async def _read_key(self) -> None:
        """Reads the API key, and has it and secret headers hidden in all texts from then on.

        In a thread: a key may come from a program such as ``az``, and other requests go on
        meanwhile.
        """
        self._secret = await asyncio.to_thread(self._endpoint.key.read, self._environ)
        self._renewed_at = time.monotonic()
        hide(*self._secrets())

    def _secrets(self) -> list[str]:
        """The API key and the headers that no text may show, without empty ones.

        Endpoints repeat in their errors what they were sent: these secrets are masked there.
        """
        secrets = [self._secret]
        if self._headers:  # they are read when the transport is opened
            secrets += [self._headers[name] for name in self._endpoint.secret_headers]
        return [secret for secret in secrets if secret]

    async def _renew_key(self, client: openai.AsyncOpenAI) -> None:
        """Reads an API key that a program prints anew, once it may run out (`_KEY_SECONDS`).

        Of calls at once one does so; the others wait and use its key.
        """
        async with self._renewing:
            if time.monotonic() - self._renewed_at >= _KEY_SECONDS:
                await self._read_key()
                # The client of Azure's dated interface asks `_current_token` instead.
                if self._endpoint.api_version is None:
                    client.api_key = self._secret or _PLACEHOLDER

    async def close(self) -> None:
        """Closes all connections to the endpoint.

        Closing twice does no harm.
        """
        client = self._client
        self._client = None
        if client is not None:
            await client.close()

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """Sends a request once through the openai package.

        Raises `NoAnswerError` where no answer comes. An error's body is masked before anything else
        reads it: endpoints repeat keys in their errors. See `Transport.send` for the arguments.
        """
        package = require("openai", extra="llm")
        httpx = require("httpx", extra="llm")
        client = self._client
        if client is None:
            raise RuntimeError("the transport is not open")
        if self._endpoint.key.command:
            await self._renew_key(client)
        if path == "/embeddings":
            # The client reads vectors as lists of numbers, not as base64.
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
            if isinstance(cause, BodyError):
                # The answer came and is too large: a repetition would give as large a one again, so
                # this is no `NoAnswerError`, which is tried again.
                raise LLMError(f"{self._endpoint.base_url}: {cause}") from None
            name = type(cause).__name__
            detail = mask_text(f"{name}: {cause}".rstrip(": "), self._secrets())
            # httpx names them ConnectError and ConnectTimeout: nothing reached the endpoint.
            if "Connect" in name:
                raise NoAnswerError("connection", detail) from None
            if isinstance(error, package.APITimeoutError):
                raise NoAnswerError("timeout", detail) from None
            raise NoAnswerError("lost", detail) from None
        # Looked up by lower-case names everywhere: servers write them in any case.
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(status=response.status_code, headers=headers, body=response.text)
        if answer.effective_status in range(200, 300):
            return answer
        # Masked before messages shorten the body: a key cut in half would not be recognised.
        masked_body = mask_text(answer.body, self._secrets())
        return replace(answer, body=masked_body)
