"""How calls are made: how many, when again, when no more; requests through the openai package.

Additive increase, multiplicative decrease (Chiu and Jain 1989, "Analysis of the increase and
decrease algorithms for congestion avoidance"), with TCP's slow start until the first decrease. A
rate limit halves the number. A server error says little about load: only when most of the latest
calls end in errors or time outs is the number halved for them.
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
from ragbench.core.origin import accounted
from ragbench.core.record import Record
from ragbench.errors import InterruptedRunError, LLMStoppedError, LLMUnreachableError
from ragbench.llm.answers import Answer
from ragbench.llm.endpoint import Endpoint
from ragbench.masking import hide, mask_text
from ragbench.plugins import require

if TYPE_CHECKING:
    import openai

_GLANCE = 0.25
"""Seconds between two looks at whether the run is stopped."""


class Clock:
    """The running event loop's time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    stopped: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the user has stopped the run: then nothing is waited for, and no more is asked."""

    async def sleep(self, seconds: float) -> None:
        self.check()
        while seconds > 0:
            await asyncio.sleep(min(seconds, _GLANCE))
            seconds -= _GLANCE
            self.check()

    def check(self) -> None:
        """Does nothing while the run goes on."""
        if self.stopped():
            raise InterruptedRunError("stopped; the same command continues")

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """A block that raises `TimeoutError` when it takes longer; None for no limit."""
        return asyncio.timeout(seconds)


_HOPELESS, _HOPELESS_SECONDS = 8, 20.0
"""Requests in a row without an answer, and for how long, after which there is no hope."""


class Circuit:
    """Open means: no further call. It stays open for this run; the next run tries anew."""

    def __init__(self, clock: Clock, *, where: str) -> None:
        self._clock = clock
        self._where = where
        self._in_row = 0
        self._since = 0.0
        self._stopped: LLMStoppedError | None = None
        self.has_answered = False
        """Whether any call was answered well."""
        self.has_worked = False
        """Whether it answered an earlier command: then its restart is waited for, too."""

    def check(self) -> None:
        """Does nothing while calls may be made."""
        if self._stopped is not None:
            # One exception raised from many tasks would gather all their tracebacks.
            raise type(self._stopped)(str(self._stopped), status=self._stopped.status)

    def open(self, reason: LLMStoppedError) -> None:
        """Stops all further calls; the first reason is kept."""
        if self._stopped is None:
            self._stopped = reason

    def answered(self, *, well: bool) -> None:
        """The endpoint gave an answer, be it an error."""
        self._in_row = 0
        self.has_answered = self.has_answered or well

    def unanswered(self, detail: str) -> None:
        """A request got no answer: no connection, or none that held."""
        now = self._clock.now()
        if self._in_row == 0:
            self._since = now
        self._in_row += 1
        is_known = self.has_answered or self.has_worked
        long_enough = not is_known or now - self._since >= _HOPELESS_SECONDS
        if self._in_row >= _HOPELESS and long_enough:
            text = (
                f"{self._where} gives no answer: {self._in_row} requests in a row failed "
                f"({detail}). Earlier answers are kept; the same command goes on from there when "
                "the endpoint is back"
            )
            self.open(LLMUnreachableError(text))


_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
"""Seconds."""
_FIRST = 8
_WINDOW = 16
_STREAK = 3


class Concurrency:
    """Gives out slots. For one event loop."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._limit = float(min(_FIRST, most))
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._epoch, self._rising_fast = 0, True
        self._latest: deque[bool] = deque(maxlen=_WINDOW)
        self._limited_in_row, self._paused_until, self._earliest = 0, 0.0, 0.0

    @property
    def limit(self) -> int:
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[int]:
        """Waits for a slot, first come first served, and holds it for the block.

        Gives how often the limit had been lowered when the call began.
        """
        await self._acquire()
        try:
            # The endpoint may have asked everybody to wait while this call stood in line.
            while (wait := self._paused_until - self._clock.now()) > 0:
                self._release()
                try:
                    await self._clock.sleep(wait)
                finally:
                    await self._acquire()
            yield self._epoch
        finally:
            self._release()

    def succeeded(self, left: int | None = None) -> None:
        """A call was answered: a little more may be in flight.

        Args:
            left: how many more calls the endpoint says it takes just now.
        """
        self._latest.append(True)
        self._limited_in_row, self._paused_until = 0, 0.0
        # Less in flight: nobody has tried whether that many are borne.
        if self.in_flight * 2 >= self._limit:
            step = 1.0 if self._rising_fast else 1.0 / self._limit
            self._limit = min(self._limit + step, float(self._most))
            self._wake()
        if left is not None:
            self._limit = min(self._limit, float(max(1, left)))

    def rate_limited(self, epoch: int, wait: float) -> None:
        """The endpoint said that there were too many calls (429).

        Args:
            wait: seconds after which that call may come again.
        """
        self._lower(epoch)
        again = self._clock.now() + wait
        self._earliest = again if not self._limited_in_row else min(self._earliest, again)
        self._limited_in_row += 1
        # Several in a row with nothing answered between: the limit is everybody's. Otherwise each
        # call that waits for its turn would use up a request to hear the same.
        if self._limited_in_row >= _STREAK:
            self._paused_until = max(self._paused_until, self._earliest)

    def failed(self, epoch: int) -> None:
        """A call ended in a server error, a lost connection or a time out."""
        self._latest.append(False)
        if len(self._latest) >= _WINDOW // 2 and sum(self._latest) * 2 < len(self._latest):
            self._lower(epoch)
            self._latest.clear()

    def _lower(self, epoch: int) -> None:
        if epoch == self._epoch:  # calls of one burst are one sign, not many
            self._limit = max(1.0, self._limit / 2)
            self._epoch += 1
            self._rising_fast = False

    async def _acquire(self) -> None:
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # it was this call's turn already
            else:
                with suppress(ValueError):  # passed over already
                    self._waiting.remove(turn)
            raise

    def _release(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
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
        """Seconds before a repetition that the endpoint did not ask for; each is twice as long.

        Args:
            attempt: how many repetitions there were before, from 0.
            spread: in [0, 1]; keeps calls apart that failed together. Half of the wait depends
                on it.
        """
        return min(_FIRST_WAIT * 2.0 ** min(attempt, 30), _LONGEST_WAIT) * (0.5 + 0.5 * spread)


# --- requests through the openai package


class NoAnswerError(Exception):
    def __init__(self, kind: Literal["connection", "lost", "timeout"], detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


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


def import_llm_packages() -> None:
    """Imports all that a call needs, so that none is paid whose answer cannot be read."""
    require("openai", extra="llm")
    require("httpx", extra="llm")
    require("pydantic", extra="llm")


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
        import_llm_packages()
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
        key = self._secret or _PLACEHOLDER
        if endpoint.api_version is None:
            self._client = package.AsyncOpenAI(base_url=endpoint.base_url, api_key=key, **settings)
            return

        async def token() -> str:
            return self._secret or _PLACEHOLDER

        # Entra's are signed tokens (RFC 7519), Azure's own keys are not.
        is_token = (self._secret or "").startswith("eyJ") and str(self._secret).count(".") == 2
        by_token = bool(endpoint.key.command) or is_token
        settings |= {"azure_ad_token_provider": token} if by_token else {"api_key": key}
        settings |= {"azure_endpoint": endpoint.base_url, "api_version": endpoint.api_version}
        self._client = package.AsyncAzureOpenAI(**settings)

    async def _read_key(self) -> None:
        self._secret = await asyncio.to_thread(self._endpoint.key.read, self._environ)
        self._renewed_at = time.monotonic()
        hide(*self._secrets())

    def _secrets(self) -> list[str]:
        values = [self._headers[name] for name in self._endpoint.secret_headers if self._headers]
        return [value for value in (self._secret, *values) if value]

    async def _renew(self, client: openai.AsyncOpenAI) -> None:
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
        package, httpx = require("openai", extra="llm"), require("httpx", extra="llm")
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
            told = mask_text(f"{type(cause).__name__}: {cause}".rstrip(": "), self._secrets())
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
