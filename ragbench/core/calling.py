"""Calls of users' code: a time limit, an event loop in a thread, what a function takes."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, TypeVar

from ragbench.errors import StageTimeoutError

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

HISTORY = frozenset({"history", "histories", "chat_history", "conversation_history"})
"""Parameters that take what was said before a query; of a batch, one such list a query."""


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """A function's parameters; None where it has no signature, as some that are written in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def history_keyword(function: Callable[..., Any]) -> str | None:
    """The parameter by which a function takes what was said before; None where none does."""
    adapted: str | None = getattr(function, "history_keyword", None)
    if adapted is not None:
        return adapted
    names = [p.name for p in parameters_of(function) or () if p.kind is not p.POSITIONAL_ONLY]
    return next((name for name in names if name in HISTORY), None)


def with_deadline(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]], seconds_per_item: float
) -> Callable[[Sequence[ItemT]], Sequence[ValueT]]:
    """Wraps a call so that it raises when it takes too long.

    The call runs in a thread of its own. A plain Python call cannot be stopped from outside: one
    that exceeds its time is left behind and its result ignored. Such threads do not keep the
    process alive.
    """

    def limited(items: Sequence[ItemT]) -> Sequence[ValueT]:
        values: list[Sequence[ValueT]] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                values.append(call(items))
            except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
                errors.append(error)

        allowed = seconds_per_item * len(items)
        thread = threading.Thread(target=work, name="ragbench-call", daemon=True)
        thread.start()
        thread.join(allowed)
        if errors:
            raise errors[0]
        if not values:
            raise _timed_out(allowed, len(items))
        return values[0]

    return limited


def with_async_deadline(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]], seconds_per_item: float
) -> Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]]:
    """`with_deadline` for a coroutine function; a call that takes too long is cancelled."""

    async def limited(items: Sequence[ItemT]) -> Sequence[ValueT]:
        allowed = seconds_per_item * len(items)
        limit = asyncio.timeout(allowed)
        try:
            async with limit:
                return await call(items)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the RAG's own
            raise _timed_out(allowed, len(items)) from error

    return limited


def _timed_out(allowed: float, size: int) -> StageTimeoutError:
    queries = "one query" if size == 1 else f"{size} queries"
    return StageTimeoutError(f"no answer within {allowed:g} s for {queries}")


class LoopThread:
    """Runs coroutines for other threads. A client that is opened in it is closed in it."""

    def __init__(self) -> None:
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="ragbench-llm", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the loop; what still runs in it is cancelled first."""
        # In its own thread: what a task closes may belong there.
        ended = asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop)
        try:
            ended.result(_LAST_SECONDS)
        except TimeoutError:
            return  # it ends with the process
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _begin(self, work: Coroutine[Any, Any, ValueT]) -> Future[ValueT]:
        if self._thread is threading.current_thread():
            work.close()
            raise RuntimeError("it cannot be asked from its own event loop")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, ValueT]) -> ValueT:
        """Runs a coroutine to its end, from another thread."""
        future = self._begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def stream(
        self, work: Callable[[Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine and yields what it reports, in the calling thread."""
        reported: queue.SimpleQueue[tuple[ValueT] | None] = queue.SimpleQueue()
        future = self._begin(work(lambda value: reported.put((value,))))
        future.add_done_callback(lambda _: reported.put(None))
        try:
            is_over = False
            while not is_over:
                values: list[ValueT] = []
                entry = reported.get()
                while entry is not None:
                    values.append(entry[0])
                    try:
                        entry = reported.get_nowait()
                    except queue.Empty:
                        break
                is_over = entry is None
                if values:
                    yield values
            future.result()
        finally:
            future.cancel()


_LAST_SECONDS = 0.5
"""That tasks have to end when they are cancelled; one may be in the middle of an import."""


async def _end_tasks() -> None:
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an HTTP answer asks to wait; None where nothing readable is asked for.

    ``retry-after-ms``, in milliseconds, overrides ``retry-after`` (RFC 9110, 10.2.3), in seconds or
    as a date. Names of headers are in lower case.
    """
    from email.utils import parsedate_to_datetime

    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
