"""A stage's calls: plain ones and coroutines; the guilty item found.

A case that takes the process down is found by the next run, and asked in a process of its own: the
numbers of the calls in flight are written to a small file that is mapped into memory, which takes
no system call and survives a crash of the process. A run that finds numbers of an earlier one asks
just these cases once more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from ragbench.core.calling import with_async_deadline, with_deadline
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.record import Record
from ragbench.errors import (
    ContractError,
    InterfaceError,
    LLMStoppedError,
    NoContextsError,
    RagbenchError,
    RunError,
    UnreachableError,
)
from ragbench.plugins import is_users_interruption
from ragbench.rag.fallback import PartialBatchError

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

Done = tuple[Sequence[ItemT], list[Outcome[ValueT]]]
"""A batch, or a part of one, with one outcome an item."""


class Manner(Record):
    """How a stage's calls are made."""

    stage: str
    timeout: float | None = None
    """Seconds allowed per item; None for no limit."""
    stopped: Callable[[], bool] = lambda: False
    """Asked before each call; once true, no more is called."""
    final: tuple[type[Exception], ...] = ()
    """Errors that every other item would meet, too: they are raised."""
    begun: Callable[[Sequence[Any]], None] = lambda _: None
    """Given the items of each call before it is made, in any thread."""
    split: Callable[[int, BaseException], None] = lambda _size, _error: None
    """Given how many items a call was for that failed and is made again in parts, and why."""
    met: Callable[[BaseException], None] = lambda _: None
    """Given each error of a call, or of an item of it, in any thread."""


def run_plain(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    manner: Manner,
) -> Iterator[Done[ItemT, ValueT]]:
    """Calls a stage for batches of items and, where a call raises, for ever smaller parts.

    Whatever the user's code raises ends that call, not the run: ``sys.exit()`` as well.
    """
    limited: Callable[[Sequence[ItemT]], Sequence[ValueT]] = partial(_called_without_forks, call)
    if manner.timeout is not None:
        limited = with_deadline(limited, manner.timeout)
    # Taken from the end, where the halves of a batch that failed are put: they come next.
    waiting = [*reversed(batches)]
    while waiting and not manner.stopped():
        part = waiting.pop()
        manner.begun(part)
        started = time.perf_counter()
        answer: Sequence[ValueT] | BaseException
        try:
            answer = limited(part)
        except BaseException as error:
            # Also SystemExit and the like, which the user's code may raise.
            if _ends_run(error, manner):
                raise
            answer = error
        seconds = time.perf_counter() - started
        outcomes = _outcomes_of_call(answer, part, waiting, manner, seconds)
        if outcomes:
            yield part, outcomes


async def attempt_async(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    items: Sequence[ItemT],
    manner: Manner,
) -> AsyncIterator[Done[ItemT, ValueT]]:
    """Awaits a stage for one batch of items and, where that raises, for ever smaller parts of it.

    By these parts the items that fail are found, and the others get their answers. A call that
    takes too long is cancelled. Only an error that every other item would meet, and a cancellation
    of the run itself, are raised; any other becomes the outcome of its item.
    """
    limited = cast("Callable[[Sequence[ItemT]], Awaitable[Any]]", partial(_answer_in_task, call))
    if manner.timeout is not None:
        limited = with_async_deadline(limited, manner.timeout)
    # A list of one batch: halves of it are put there, and taken from the end.
    waiting = [items]
    while waiting and not manner.stopped():
        part = waiting.pop()
        manner.begun(part)
        started = time.perf_counter()
        answer: Sequence[ValueT] | BaseException
        try:
            answer = await limited(part)
        except (Exception, asyncio.CancelledError) as error:
            # A cancellation may come from the user's call, as any of its errors, or be meant for
            # this task, whose run is ended: only the second is raised.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            answer = error
        if isinstance(answer, BaseException) and _ends_run(answer, manner):
            raise answer
        seconds = time.perf_counter() - started
        outcomes = _outcomes_of_call(answer, part, waiting, manner, seconds)
        if outcomes:
            yield part, outcomes


async def _answer_in_task(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]], part: Sequence[ItemT]
) -> Sequence[ValueT] | BaseException:
    """What a call gives or raises, awaited in a task of its own.

    The user's code may cancel the task that it runs in: then this one ends, and not the run's.
    """
    return await asyncio.create_task(_answer_or_error(call, part))


async def _answer_or_error(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]], part: Sequence[ItemT]
) -> Sequence[ValueT] | BaseException:
    """What a call of the user's coroutine gives or, as a value, the error that it raises.

    A SystemExit that left a task would end the whole event loop. Only a cancellation is raised, as
    asyncio must see it; the caller decides about every other error.
    """
    process = os.getpid()
    try:
        return await call(part)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  # told apart where it is awaited
        return error
    finally:
        _end_fork(process)


def _called_without_forks(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]], part: Sequence[ItemT]
) -> Sequence[ValueT]:
    """The answer of a call, from which a fork of this process never returns.

    User's code that forks and does not end its child would have two processes go on with the run.
    """
    process = os.getpid()
    try:
        return call(part)
    finally:
        _end_fork(process)


def _end_fork(process: int) -> None:
    """Ends a child process that the user's code has forked, as soon as the call returns in it.

    Otherwise the child would go on as a second run, and write into the journal of the first.

    Args:
        process: the number of the process that made the call.
    """
    # Without cleaning up: the parent's open files and handlers at exit are the parent's.
    if os.getpid() != process:
        os._exit(0)


def _ends_run(error: BaseException, manner: Manner) -> bool:
    """Whether an error of a call would meet every other item, too, so that the run should end.

    Examples are an interruption, a broken contract and a service that never answered: the run ends
    with the error, which its user must mend, instead of with failed cases by the thousand. An
    endpoint that has answered before may answer again: its error counts for this item alone.
    """
    if is_users_interruption(error):
        return True
    if isinstance(error, UnreachableError):
        return not error.answered_before
    if isinstance(error, ContractError):
        return error.ends_run
    return isinstance(error, (LLMStoppedError, *manner.final))


def _outcomes_of_call(
    answer: Sequence[Any] | BaseException,
    part: Sequence[ItemT],
    waiting: list[Sequence[ItemT]],
    manner: Manner,
    seconds: float,
) -> list[Outcome[Any]]:
    """One outcome for each item of a call; none where the call failed, and its halves come next.

    By halves the item is found that makes the call fail: the others get their answers.

    Args:
        answer: what the call gave, or the error that it raised.
        part: the items of the call.
        waiting: parts still to be called, of which the last is the next; halves are put there.
        seconds: how long the call took.
    """
    stage = manner.stage
    size = len(part)
    values = answer
    if isinstance(answer, PartialBatchError):  # some items failed, and the others have values
        values = answer.outcomes
    # Checked for exceptions first: an error has no length.
    if not isinstance(values, BaseException) and len(values) != size:
        values = InterfaceError(f"{stage} returned {len(values)} results for {size} queries")
    if isinstance(values, BaseException):
        # Halves of a call that could not reach its service would fail in the same way.
        if size > 1 and not isinstance(values, UnreachableError):
            manner.met(values)
            manner.split(size, values)
            half = size // 2
            waiting += [part[half:], part[:half]]  # the last is taken next
            return []
        # Each item of the call gets the same error: one alone, or a service that cannot be reached.
        values = [values] * size
    # A call's time is shared out evenly over its items; `sharing` shows how many share it.
    timing: dict[str, Any] = {"seconds": seconds / size, "sharing": size}
    outcomes: list[Outcome[Any]] = []
    for value in values:
        if isinstance(value, NoContextsError):
            outcomes.append(Outcome(status=Status.SKIPPED, reason=str(value), **timing))
        elif isinstance(value, BaseException):
            manner.met(value)
            failure = Failure.of(value, stage=stage)
            outcomes.append(Outcome(status=Status.FAILED, failure=failure, **timing))
        else:
            outcomes.append(Outcome(status=Status.MEASURED, value=value, **timing))
    return outcomes


# --- cases that take the process down


TIMED_OUT = "StageTimeoutError"
"""The type of the failure of a case that gave no answer in time."""

Call = Callable[[Sequence[ItemT]], Sequence[ValueT]]


def ask_in_child(
    call: Call[ItemT, ValueT], item: ItemT, *, stage: str, timeout: float | None = None
) -> Outcome[ValueT]:
    """Asks one case in a process of its own, since the case may have taken an earlier process down.

    The child is a fork, so that it has the system as it is here, models in memory included.

    Args:
        timeout: seconds from the start of the process on; None for no limit.
    """
    import pickle  # hardly ever is anybody asked in a child
    from multiprocessing import get_all_start_methods, get_context

    if "fork" not in get_all_start_methods():
        raise RunError(
            "a case took the process down, and this platform cannot ask it in a process of its "
            "own: take the case out of the dataset, or start over with --fresh"
        )
    started = time.perf_counter()
    context: Any = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer_parent, args=(call, item, stage, theirs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads
        process.start()
    # Only the child holds the sending end now: its death ends the pipe, as far as no fork has it.
    theirs.close()
    data = None
    try:
        data = _answer_of_child(ours, process, timeout)
    finally:
        seconds = _ENDING_SECONDS
        if data is None:  # it gave no answer in time: it is not waited for
            seconds = 0.0
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = cast("int", process.exitcode)
        process.close()
        ours.close()
    # Empty bytes mean that the child died, None that it took too long.
    if data:
        # Written by our own child: no pickle of others is read.
        answer: Outcome[ValueT] | RagbenchError = pickle.loads(data)
        if isinstance(answer, RagbenchError):
            raise answer
        return answer
    if data is None:
        kind = TIMED_OUT
        message = f"no answer within {timeout:g} s"
    else:
        kind = "ProcessDied"
        message = f"took the process down ({_ending_in_words(code)})"
    failure = Failure(type=kind, message=message, stage=stage)
    return Outcome(status=Status.FAILED, failure=failure, seconds=time.perf_counter() - started)


def _answer_of_child(ours: Any, process: Any, timeout: float | None) -> bytes | None:
    """The bytes that the child process sends before it ends.

    Empty where the child ended without an answer (it died), None where it takes too long: the
    caller tells these two failures apart.
    """
    # Infinity never passes: without a limit only the child's end stops the wait.
    until = float("inf")
    if timeout is not None:
        until = time.perf_counter() + timeout
    try:
        # Nobody closes the pipe for good while processes live that this one has started.
        while not ours.poll(_POLL_SECONDS) and process.is_alive():
            if time.perf_counter() > until:
                return None
        # Looked at once more: the child may have answered and ended between the two looks above.
        if ours.poll():
            return cast("bytes", ours.recv_bytes())
        return b""
    except (EOFError, OSError):
        return b""


_POLL_SECONDS = 0.05
"""Seconds between two looks at whether a process is alive."""
_ENDING_SECONDS = 5.0
"""Seconds that a process may take to end after it has answered."""


def _ending_in_words(code: int) -> str:
    """How a process ended, for a failed case's message: ``signal 9, SIGKILL: perhaps ...``.

    Args:
        code: the process's exit code; the signal's number below zero where a signal ended it.
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        name = f", {signal.Signals(-code).name}"
    except ValueError:
        name = ""
    # The kernel ends processes by this signal when memory runs out.
    hint = ""
    if code == -signal.SIGKILL:
        hint = ": perhaps for lack of memory"
    return f"signal {-code}{name}{hint}"


# --- in the child


def _answer_parent(call: Call[Any, Any], item: object, stage: str, answers: Any) -> None:
    """In a child process, asks one case and sends the pickled outcome to the parent.

    An error that ends the run is sent as itself, which the parent raises; any other error becomes a
    failed outcome. The child ends with its parent, and leaves an interruption (Ctrl-C) to the
    parent.
    """
    import pickle

    from ragbench.workers.engines import end_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        # One item gives one part with one outcome: anything else would be a fault of `run_plain`.
        ((_, (outcome,)),) = run_plain(call, [[item]], Manner(stage=stage))
        data = pickle.dumps(outcome)
    except RagbenchError as error:
        data = pickle.dumps(error)
    except BaseException as error:  # noqa: BLE001  # anything may be in what a RAG returns
        failure = Failure.of(error, stage=stage)
        failed: Outcome[Any] = Outcome(status=Status.FAILED, failure=failure)
        data = pickle.dumps(failed)
    answers.send_bytes(data)
