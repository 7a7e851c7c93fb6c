"""Calls of users' code: parameters of a function, time limits, an event loop in a thread.

Also the waiting time that an HTTP answer asks for.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from ragbench.errors import StageTimeoutError

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

HISTORY = frozenset({"history", "histories", "chat_history", "conversation_history"})
"""Names of parameters that take the messages before a query; of a batch, one list per query."""


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """A function's parameters; None where it has no signature, as some functions in C.

    Adapters look there for the way in which a user's function takes ``top_k``, contexts or history.
    """
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def history_keyword(function: Callable[..., Any]) -> str | None:
    """The name of the parameter by which a user's function takes the messages before a query.

    None where the function has no such parameter: then it is called with the query alone. An
    adapted function carries the name as its attribute ``history_keyword``.
    """
    keyword: str | None = getattr(function, "history_keyword", None)  # of an adapted function
    if keyword is not None:
        return keyword
    for parameter in parameters_of(function) or ():
        if parameter.name in HISTORY and parameter.kind is not parameter.POSITIONAL_ONLY:
            return parameter.name
    return None


def bears_calls(asked: object) -> bool:
    """Whether several calls of a user's object may be in flight without the user asking for it.

    Several may be in flight where the object's attribute ``bears_calls`` is true: of a language
    model, or of a validator or an operator that waits for a service. Code without the attribute may
    not be made for several threads.
    """
    says_so = getattr(asked, "bears_calls", None)
    if says_so is None:
        says_so = getattr(getattr(asked, "chat", None), "bears_calls", False)
    return bool(says_so)


def with_deadline(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]], seconds_per_item: float
) -> Callable[[Sequence[ItemT]], Sequence[ValueT]]:
    """Wraps a call so that it raises when it takes too long.

    The call runs in a thread of its own. A plain Python call cannot be stopped from outside: one
    that exceeds its time runs on, and its result is ignored. Such threads do not keep the process
    alive. Without a time limit, a system that hangs would hold up the whole run.

    Args:
        seconds_per_item: a call may take as many times this as it has items.
    """
    return partial(_made_in_time, call, seconds_per_item)


def _made_in_time(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    seconds_per_item: float,
    items: Sequence[ItemT],
) -> Sequence[ValueT]:
    """Makes a call in a thread, and waits for it no longer than its limit.

    A call of many items has as many times ``seconds_per_item``. The thread does not keep the
    process alive, since a call that exceeds its time cannot be stopped.

    Raises:
        StageTimeoutError: the call has not ended within its limit.
    """
    values: list[Sequence[ValueT]] = []
    errors: list[BaseException] = []
    limit = seconds_per_item * len(items)
    thread = threading.Thread(
        target=_note_end,
        args=(call, items, values, errors),
        name="ragbench-call",
        daemon=True,
    )
    thread.start()
    thread.join(limit)
    if errors:
        raise errors[0]
    # Neither list has an entry: the call goes on, and nobody reads its result any more.
    if not values:
        raise _timed_out(limit, len(items))
    return values[0]


def _note_end(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    items: Sequence[ItemT],
    values: list[Sequence[ValueT]],
    errors: list[BaseException],
) -> None:
    """Makes a call in the thread that this runs in, and appends its result or its error.

    The lists are how the waiting thread gets them: a thread returns nothing.
    """
    try:
        values.append(call(items))
    except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
        errors.append(error)


def with_async_deadline(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]], seconds_per_item: float
) -> Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]]:
    """Wraps a coroutine function so that it raises, and is cancelled, when it takes too long.

    The call is a task of its own, as code may catch its cancellation and go on: then the task is
    left to itself, and its result is ignored.

    A user's system that hangs would else hold up its place in the run.

    Args:
        seconds_per_item: a call may take as many times this as it has items.
    """
    return partial(_awaited_in_time, call, seconds_per_item)


async def _awaited_in_time(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    seconds_per_item: float,
    items: Sequence[ItemT],
) -> Sequence[ValueT]:
    """Awaits a call in a task, and cancels the task at the call's limit.

    A call of many items has as many times ``seconds_per_item``. A task that catches its
    cancellation gets a last half second, and is then left to itself.

    Raises:
        StageTimeoutError: the call has not ended within its limit.
    """
    limit = seconds_per_item * len(items)
    task = asyncio.create_task(_answer_or_error(call, items))
    try:
        await asyncio.wait([task], timeout=limit)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_LAST_SECONDS)
            raise _timed_out(limit, len(items))
    # The wait itself was cancelled, and not the call by its limit.
    except asyncio.CancelledError:
        task.cancel()
        raise
    values = task.result()
    if isinstance(values, BaseException):
        raise values
    return values


async def _answer_or_error(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]], items: Sequence[ItemT]
) -> Sequence[ValueT] | BaseException:
    """Awaits a call, and returns its result, or its error as a value.

    A task runs this coroutine: an error such as SystemExit that leaves a task would end the event
    loop, and with it all other calls.
    """
    try:
        return await call(items)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001
        return error


def _timed_out(seconds: float, size: int) -> StageTimeoutError:
    """The error of a call with ``size`` queries that took longer than ``seconds``.

    Reports group failures by this message.
    """
    queries = "one query" if size == 1 else f"{size} queries"
    return StageTimeoutError(f"no answer within {seconds:g} s for {queries}")


class LoopThread:
    """An event loop in a thread of its own, which runs coroutines for other threads.

    Clients stay open in it between calls: a client can only be used, and closed, in the loop in
    which it was opened.
    """

    def __init__(self, name: str = "ragbench-llm") -> None:
        """Starts the thread, and in it the loop.

        The name is that of the thread in a debugger or a profiler.
        """
        self._loop = asyncio.new_event_loop()
        self._is_stopping = False
        """Set by `stop`: only then `_run` lets the loop end."""
        self._asked_at: float | None = None
        """When the loop was asked for a turn that it has not taken yet."""
        # A daemon: a loop that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Runs the loop, in its thread, until `stop`.

        SystemExit and KeyboardInterrupt of a task within a task leave the loop, too. The loop is
        then run again: the waiter for that task has the error, and all others would wait for ever.
        """
        while not self._is_stopping:
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()

    def stop(self) -> None:
        """Cancels all tasks of the loop, ends the loop and waits for its thread.

        Where a task does not end in time, the thread is left alone: it ends with the process.
        """
        # In the loop's own thread: a task may close clients that belong to it.
        tasks_ended = asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop)
        try:
            tasks_ended.result(_LAST_SECONDS)
        except TimeoutError:
            return  # the thread ends with the process
        self._is_stopping = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def silence(self) -> float:
        """Seconds for which the loop has not taken the turn that it was asked for; 0 if it has.

        Each call asks the loop for a turn, unless it was asked already and has not taken it. A long
        silence means that a coroutine blocks the loop, and that everything else in it waits. To be
        called from one thread.
        """
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._take_turn)
            return 0.0
        return now - self._asked_at

    def _take_turn(self) -> None:
        """Notes, in the loop, that the loop has taken the turn that `silence` asked it for.

        From then on `silence` counts anew.
        """
        self._asked_at = None

    def task_at_work(self) -> asyncio.Task[Any] | None:
        """The task that the loop runs at the moment; None while the loop waits.

        Of a loop that is silent for long, this is the task that blocks it.
        """
        return asyncio.current_task(self._loop)

    def frames(self) -> list[FrameType]:
        """The stack of the loop's thread at the moment, the innermost frame first.

        The stack shows the line at which user code blocks the loop.
        """
        frames: list[FrameType] = []
        # The one way to see another thread's work; documented, in spite of its underscore.
        frames_of_threads = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        frame = frames_of_threads.get(self._thread.ident or 0)
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        return frames

    def begin(self, work: Coroutine[Any, Any, ValueT]) -> Future[ValueT]:
        """Starts a coroutine in the loop, and returns a future of its result for another thread.

        A call from the loop's own thread is refused: it would wait for itself for ever.
        """
        if self._thread is threading.current_thread():
            work.close()
            raise RuntimeError("it cannot be asked from its own event loop")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def leave(self, work: Coroutine[Any, Any, object]) -> None:
        """Starts a coroutine without waiting for it, from any thread, the loop's own included.

        For clean-up, such as closing a connection, whose end is of no interest.
        """
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, ValueT]) -> ValueT:
        """Runs a coroutine in the loop to its end, and returns its result in the calling thread.

        An interrupt from the keyboard cancels the coroutine.
        """
        future = self.begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def stream(
        self, work: Callable[[Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine and yields, in the calling thread, the values that it reports.

        Values that were reported in the meantime come together, in one list.

        Args:
            work: makes the coroutine, of a function that it calls with each value.
        """
        # A value is in a tuple of one, since it may be None; None itself marks the end.
        reports: queue.SimpleQueue[tuple[ValueT] | None] = queue.SimpleQueue()
        future = self.begin(work(lambda value: reports.put((value,))))
        future.add_done_callback(lambda _: reports.put(None))
        try:
            is_over = False
            while not is_over:
                values: list[ValueT] = []
                report = reports.get()
                while report is not None:
                    values.append(report[0])
                    try:
                        report = reports.get_nowait()
                    except queue.Empty:
                        break
                is_over = report is None
                if values:
                    yield values
            future.result()  # raises what the coroutine raised
        # For a reader that stops early; a coroutine that has ended is left as it is.
        finally:
            future.cancel()


_LAST_SECONDS = 0.5
"""Time that tasks have to end after they are cancelled; one may be in the middle of an import."""


async def _end_tasks() -> None:
    """Cancels all tasks of the running loop but this one, and waits for their end.

    Asynchronous generators that nobody has read to their end are closed.
    A client that is open in one of these tasks is closed so before its loop ends.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    await asyncio.get_running_loop().shutdown_asyncgens()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an HTTP answer asks to wait; None without such a header, or with a wrong one.

    ``retry-after-ms``, in milliseconds, overrides ``retry-after`` (RFC 9110, 10.2.3), in seconds or
    as a date.

    Calls of models and of users' systems wait as long before they are repeated.

    Args:
        headers: with names in lower case.
    """
    from email.utils import parsedate_to_datetime

    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        # Below 0, infinite or NaN: as if the header were not there.
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
