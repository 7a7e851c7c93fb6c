"""Cases on their way through the stages, each on its own: many calls in flight, one writer.

No case waits for others: it goes to its next stage as soon as it has its outcome of the last one,
so that answers are generated while other cases are still retrieved, and judged while others are
answered. Calls are made in threads, or in an event loop; this thread alone stores what they give.

What a run gives does not depend on the order in which its cases end: they are counted in their own
order, window by window. A window is what is read of the cases at a time; the next one is begun
while the last cases of the one before are still on their way.
"""

from __future__ import annotations

import asyncio
import heapq
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ragbench.core.calling import LoopThread, retry_after
from ragbench.core.concurrency import AdaptiveLimit
from ragbench.core.outcome import JudgedCell, Outcome
from ragbench.core.record import replace
from ragbench.core.trace import RunCase
from ragbench.errors import (
    InterruptedRunError,
    RagbenchError,
    RunError,
    StageTimeoutError,
    UnreachableError,
    warn,
)
from ragbench.plugins import directory_kept
from ragbench.stages.call_stage import CallStage, Work, calling_here
from ragbench.stages.calls import Manner
from ragbench.stages.judge import Job, JudgeStage
from ragbench.stages.loop_watch import SECONDS_BETWEEN_LOOKS, LoopWatch
from ragbench.stages.stage import MOST_CALLS, STOPPED, Running, Stage

FIRST_CALLS = 4
"""Calls in flight to begin with, where their number follows what whoever answers bears."""
USUAL_WINDOWS = 3
"""Windows that may be under way at once: the last cases of one are slow while the next begins."""
_TRIES = 6
"""How often a case is asked that the system refuses for too many calls (429)."""
_FIRST_WAIT = 0.5
"""Seconds before a refused case is asked again, where the system names none; doubled each time."""
_LONGEST_WAIT = 60.0
"""Seconds; where a system asks for a longer pause although one call alone was in flight, the case
fails: such limits are of a day. With more in flight, fewer may be borne: it is asked again."""
_SYSTEM = "the system"
"""How a warning names whose calls are made in most runs."""
_LONGEST_PATIENCE = 0.5
"""Seconds after which a wait is broken off to see whether the user has stopped the run, while
refused cases wait: no call ends then that would wake this thread."""
_TOO_MANY = 429
"""The HTTP status of a call that is refused because there are too many."""
_SERVER_ERROR = 500
"""The first of the HTTP statuses that blame the server, not the request."""
_DEEPEST_CAUSE = 4
"""Errors that are looked at from the one that was raised down to its causes. Clients wrap theirs
once or twice; a bound also ends a circle of causes."""


def run_flow(
    windows: Iterable[Sequence[RunCase]],
    stages: Sequence[Stage],
    run: Running,
    tally: Callable[[RunCase], None],
    *,
    most_windows: int = USUAL_WINDOWS,
) -> None:
    """Takes all cases through every stage, with several calls in flight.

    `run_stages` does the same in one thread, for systems that take one call at a time.

    Args:
        tally: given each case that is through, in the order of the cases.
        most_windows: windows under way at once; with 1, none is read before the one before it is
            through.

    Raises:
        InterruptedRunError: the run was stopped; what was in flight is stored.
    """
    flow = Flow(stages, run, tally)
    try:
        # Kept for the whole loop: the user's code may change the directory in any call.
        with directory_kept("a call"):
            flow.take(iter(windows), most_windows=most_windows)
    finally:
        # Also after an error: idle threads would wait for ever for a call.
        flow.callers.close()
    run.journal.flush()


# --- calls, and how they end


@dataclass(slots=True, eq=False)
class _Call:
    """One call of a stage that is in flight."""

    place: int
    """The place of its stage among those of the run."""
    batch: Sequence[Work[Any]]
    """The cases that it asks for."""
    epoch: int
    """How often the limit had been lowered when the call began: if it was lowered since, the call
    was one of the too many, and its refusal must not lower the limit again."""
    is_alone: bool
    """Whether the limit let no second call be in flight with it: then a refusal is not due to our
    own number of calls."""
    errors: list[BaseException] = field(default_factory=list[BaseException])
    """Errors that it met, in any thread; those of single cases are here too."""


class _Answered(NamedTuple):
    """Outcomes of a call, or of a part of one that was made again in parts."""

    call: _Call
    works: Sequence[Work[Any]]
    """The cases that these outcomes are of, in the same order."""
    outcomes: list[Outcome[Any]]


class _Ended(NamedTuple):
    """A call is over: all its outcomes were given before, as `_Answered`."""

    call: _Call
    error: BaseException | None
    """A `RefusedError` where its cases are asked again; any other error ends the run. Errors that
    fail a case are outcomes, and not here."""


class _Judged(NamedTuple):
    """A model has judged a cell, or could not."""

    job: Job
    future: Future[JudgedCell]
    """Holds the judgement, or the error."""


_End: TypeAlias = _Answered | _Ended | _Judged
"""What other threads put into the queue that the storing thread reads."""


class RefusedError(Exception):
    """The system refuses a call because there are too many (429).

    It leaves the call instead of becoming the failure of its cases, so that they are asked again.
    """

    def __init__(self, wait: float | None) -> None:
        """Takes the seconds that the system asks to wait before the next call; None without any.

        The flow waits that long before the cases of the call are asked again.
        """
        super().__init__("too many calls")
        self.wait = wait
        """Seconds that the system asks to wait; None where it names no time."""


class Callers:
    """Makes calls beside the thread that stores their outcomes.

    Coroutines are awaited in the run's event loop, plain calls are made in threads. Only the
    storing thread calls the public methods.
    """

    def __init__(self, loop: LoopThread | None) -> None:
        """Starts no thread yet: each is started with the first call that needs it.

        Args:
            loop: where coroutines are awaited; None where the run has none.
        """
        self.ends: queue.SimpleQueue[_End] = queue.SimpleQueue()
        """The outcomes and errors of calls, in the order in which the calls ended."""
        self._loop = loop
        """Where coroutines are awaited; None where the run has none."""
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        """Plain calls for the threads to make; None ends the thread that takes it."""
        self._threads = 0
        """Threads that were started."""
        self._busy = 0
        """Calls that threads were given and that are not over."""

    def begin(
        self, stage: CallStage[Any, Any], call: _Call, manner: Manner, *, is_here: bool
    ) -> None:
        """Begins a call of a stage; outcomes and the end of the call are put into the queue `ends`.

        A coroutine goes to the event loop, a plain call to a thread, of which one more is started
        when all are busy; so the thread that stores outcomes never waits for a call, unless asked
        to.

        Args:
            is_here: whether this thread makes a plain call, and waits for its end.
        """
        # The call keeps every error that it meets: from these the number of calls is adapted.
        manner = replace(manner, met=call.errors.append)
        if self._has_awaited_calls(stage):
            # Always so: `_has_awaited_calls` has just tested it.
            assert self._loop is not None
            self._loop.begin(self._await_call(stage, call, manner))
            return
        if is_here:
            self._make_call(stage, call, manner)
            return
        # Counted by the flow's thread alone, here and in `call_ended`: no lock is needed.
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            # Daemon threads: a second Ctrl-C must end the process although a call hangs.
            name = f"ragbench-call-{self._threads}"
            threading.Thread(target=self._make_calls, name=name, daemon=True).start()
        self._waiting.put(lambda: self._make_call(stage, call, manner))

    def call_ended(self, stage: CallStage[Any, Any], *, was_here: bool) -> None:
        """Notes that a call of a stage is over: the thread that made it is free for the next call.

        Without that, each call would start a thread of its own.
        """
        if not was_here and not self._has_awaited_calls(stage):
            self._busy -= 1

    def close(self) -> None:
        """Ends the threads that wait for a call; a thread that is in a call ends after that call.

        At the end of a run: idle threads would wait for ever.
        """
        for _ in range(self._threads):
            self._waiting.put(None)

    def _has_awaited_calls(self, stage: CallStage[Any, Any]) -> bool:
        """Whether the calls of a stage are coroutines, for the event loop and not for a thread.

        A run without a loop has none of them awaited.
        """
        return stage.call_async is not None and self._loop is not None

    def _make_calls(self) -> None:
        """Makes the next plain call that waits, again and again, until the thread is ended.

        The whole life of a calling thread; None in the queue ends it.
        """
        # The thread dies with its None; `close` puts in one for each thread.
        while (make_call := self._waiting.get()) is not None:
            make_call()

    def _make_call(self, stage: CallStage[Any, Any], call: _Call, manner: Manner) -> None:
        """Makes a plain call of a stage in this thread, and puts its outcomes and end into `ends`.

        An error goes there, too: a thread has no caller that could catch it.
        """
        error: BaseException | None = None
        try:
            for works, outcomes in stage.attempt(call.batch, manner):
                self.ends.put(_Answered(call, works, outcomes))
        except BaseException as problem:  # noqa: BLE001  # raised again in the storing thread
            error = problem
        # Put last, from the thread of the call: its outcomes are read before its end.
        self.ends.put(_Ended(call, error))

    async def _await_call(self, stage: CallStage[Any, Any], call: _Call, manner: Manner) -> None:
        """Awaits a coroutine call of a stage, and puts its outcomes and end into the queue `ends`.

        Runs as a task of the run's event loop; an error that left the task would be lost, or end
        the loop.
        """
        error: BaseException | None = None
        try:
            async for works, outcomes in stage.attempt_async(call.batch, manner):
                self.ends.put(_Answered(call, works, outcomes))
        except asyncio.CancelledError:
            # Nobody cancels this task in a run, but code of the user's that cancels all tasks.
            error = RunError(
                "the system has cancelled calls of other cases: have it cancel its own tasks only, "
                "not all of asyncio.all_tasks(). The same command continues"
            )
        except BaseException as problem:  # noqa: BLE001  # an error here would end the loop
            error = problem
        self.ends.put(_Ended(call, error))


# --- cases on their way


@dataclass(slots=True, eq=False)
class _Room:
    """How many calls may be in flight of the system, or of a stage that does not ask it."""

    name: str
    """Whose calls they are, in words."""
    calls: AdaptiveLimit
    """How many are in flight, and how many may be."""
    is_adaptive: bool
    """Whether the limit follows how the calls end."""
    fewest: int
    """The lowest limit so far: a warning tells of a lower one, not of each way up and down."""

    @classmethod
    def of(cls, name: str, *, concurrency: int | None, bears_calls: bool) -> _Room:
        """Room for calls to the system, or to one service: how many may be in flight.

        As many as the user asks for; else a number that follows the answers, where several calls
        are borne; else one.
        """
        is_adaptive = concurrency is None and bears_calls
        if is_adaptive:
            most = MOST_CALLS
            first_calls = FIRST_CALLS
        else:
            most = concurrency or 1
            first_calls = most
        calls = AdaptiveLimit(most, first=first_calls, now=time.monotonic)
        # `fewest` begins one above the most, so that the first lowering is warned of, too.
        return cls(name, calls, is_adaptive, most + 1)

    @property
    def is_free(self) -> bool:
        """Whether one more call may begin: no pause is on, and the limit is not reached.

        More calls than the system bears would be refused.
        """
        return self.calls.pause <= 0 and self.calls.in_flight < self.calls.limit


@dataclass(slots=True, eq=False)
class _CallingStage:
    """A stage that makes calls, with the cases that wait for one."""

    stage: CallStage[Any, Any]
    refusable: CallStage[Any, Any]
    """The same stage; its calls raise `RefusedError` where the system refuses them."""
    manner: Manner
    """Limits and stops of its calls."""
    room: _Room
    """Shared by all stages that ask the system."""
    waiting: deque[Work[Any]] = field(default_factory=lambda: deque())
    """Cases that wait for a call."""


@dataclass(slots=True, eq=False)
class _Window:
    """Cases that were read together, and are counted together.

    They bound how many cases are in memory while a slow one is still on its way.
    """

    rows: Sequence[RunCase]
    """In the order of the dataset."""
    unfinished: int
    """Rows that are not through all stages."""
    gathered: dict[int, list[RunCase]] = field(default_factory=dict[int, "list[RunCase]"])
    """By the place of a stage that takes a whole window: the rows that have come so far."""


class Flow:
    """The cases of a run between its stages. One thread alone runs all of its methods.

    A stage is known by its place among the stages of the run: its cases go on to place + 1.
    """

    def __init__(
        self, stages: Sequence[Stage], run: Running, tally: Callable[[RunCase], None]
    ) -> None:
        """Sorts out which of the run's stages make calls, and which one judges; begins nothing.

        Args:
            tally: given each case that is through, in the order of the cases.
        """
        # All of them, those of workers and of scoring included: a place is a position in this list.
        self._stages = stages
        self._run = run
        """Journal, call settings and stop, shared with the stages."""
        self._tally = tally
        self.callers = Callers(run.loop)
        self._calling = self._calling_stages()
        """The stages that make calls, by their place."""
        self._judge: JudgeStage | None = None
        """The stage of the run that judges; None without one."""
        self._judge_place = 0
        """The judging stage's place among the stages; not read where no stage judges."""
        for place, stage in enumerate(stages):
            if isinstance(stage, JudgeStage):
                self._judge = stage
                self._judge_place = place
        # Only coroutines can block a loop, and only a run with a loop has any.
        self._watch = None if run.loop is None else LoopWatch(run.loop)
        self._refused: list[tuple[float, int, int, Work[Any]]] = []
        """A heap of cases that the system has refused: when they may be asked again, the number of
        the case, which keeps their order, the place of the stage, and the case."""
        self._refusals: Counter[tuple[int, int]] = Counter()
        """By place and number of a case: how often the system has refused it."""
        self._jobs: deque[Job] = deque()
        """Cells that wait to be judged."""
        self._judging = 0
        """Cells that are being judged."""
        self._open: deque[_Window] = deque()
        """Windows that are under way, in order."""
        self._window_of: dict[int, _Window] = {}
        """By the identity of a row that is under way: rows of a dump may have the same number."""
        self._error: RagbenchError | None = None
        """What ends the run, once all that is in flight is stored."""

    def _calling_stages(self) -> dict[int, _CallingStage]:
        """The stages that make calls in this process, by their place, with room for the calls.

        What limits calls is who answers them: stages that ask the system share one room, and each
        stage that asks a service of its own has its own.
        """
        run = self._run
        concurrency = run.calls.concurrency
        # One room for all stages that ask the system: retrieval and generation share its limits.
        system = _Room.of(_SYSTEM, concurrency=concurrency, bears_calls=run.bears_calls)
        calling_stages: dict[int, _CallingStage] = {}
        for place, any_stage in enumerate(self._stages):
            stage = calling_here(any_stage)
            if stage is None:
                continue
            room = system
            if not stage.asks_system:
                room = _Room.of(stage.name, concurrency=concurrency, bears_calls=stage.bears_calls)
            calling_stages[place] = _CallingStage(
                stage, _with_refusals(stage), stage.manner(run), room
            )
        return calling_stages

    # --- the loop

    def take(self, windows: Iterator[Sequence[RunCase]], *, most_windows: int) -> None:
        """Takes all windows of cases through the stages: begins calls, and settles what ends.

        The one loop of a flow. When the run ends, all that is in flight is settled before an error
        is raised, so that no answer that was paid for is lost.

        Args:
            most_windows: windows that may be under way at once.
        """
        has_more = True
        while True:
            # Read before calls begin, so that no free call is left without a case.
            if has_more:
                has_more = self._enter_windows(windows, most_windows)
            if not self._is_ending:
                self._begin_calls()
                self._begin_judging()
            if not self._is_idle:
                self._settle_next_end()
                continue
            # Nothing is in flight: the run ends, waits for refused cases, or reads the next window.
            if self._is_ending:
                break
            if self._refused:
                # Waits for the earliest of them: with nothing in flight, nothing else can end.
                self._settle_next_end()
            elif not has_more:
                break
        self._run.journal.flush()
        if self._error is not None:
            raise self._error
        # Windows that are left open here have cases without an outcome: only a stop leaves them.
        if self._run.stopped() or self._open:
            raise InterruptedRunError(STOPPED)

    def _enter_windows(self, windows: Iterator[Sequence[RunCase]], most_windows: int) -> bool:
        """Takes in windows of cases as long as the calls need more.

        Returns whether there may be more windows to read.
        """
        while self._has_room(most_windows):
            window = next(windows, None)
            if window is None:
                return False
            self._enter_window(window)
        return True

    @property
    def _is_ending(self) -> bool:
        """Whether no more calls are begun: the run is stopped, or has met an error that ends it.

        What is in flight is still settled, so that no paid answer is lost.
        """
        return self._error is not None or self._run.stopped()

    @property
    def _is_idle(self) -> bool:
        """Whether no call and no judging is in flight: to wait for an end would last for ever.

        The loop of the flow then ends, waits for refused cases, or reads more cases.
        """
        if self._judging:
            return False
        return all(not calling.room.calls.in_flight for calling in self._calling.values())

    def _has_room(self, most_windows: int) -> bool:
        """Whether the next window of cases is needed: the calls that may be in flight want more.

        Not more windows than needed: their cases are all held in memory.
        """
        if self._is_ending or len(self._open) >= most_windows:
            return False
        # With nothing under way the next window is needed, whatever waits.
        if not self._open:
            return True
        waiting_cases = 0
        # At least one case: with it, a run without calling stages reads on, too.
        needed_cases = 1
        for calling in self._calling.values():
            waiting_cases += len(calling.waiting)
            # The room of any one stage decides: cases wait at the stage that is the bottleneck.
            needed_cases = max(needed_cases, calling.room.calls.limit)
        return waiting_cases < needed_cases

    def _settle_next_end(self) -> None:
        """Waits for the next call or judging that ends, and settles it.

        A wait that is broken off settles nothing, but looks at what is due meanwhile: refused cases
        whose time has come, and an event loop that is blocked.
        """
        try:
            # Code of the user's in another thread may change the directory during the wait.
            with directory_kept("a call"):
                end = self.callers.ends.get(timeout=self._patience())
        except queue.Empty:
            # Where nothing is in flight the loop has no call that could be blocked.
            if self._watch is not None and not self._is_idle:
                self._watch.look(self._longest_call)
            self._ask_refused_again()
            return
        self._settle(end)
        self._ask_refused_again()
        # Only when nothing else has ended: writing to the disk delays the next calls.
        if self.callers.ends.empty():
            self._run.journal.flush(if_due=True)

    def _patience(self) -> float | None:
        """Seconds to wait for a call's end before something else is due; None where nothing is.

        Due are the end of a pause of calls, the time at which a refused case may be asked again, a
        look at the event loop, and a look at whether the run is stopped.
        """
        waits: list[float] = []
        for calling in self._calling.values():
            pause = calling.room.calls.pause
            if pause > 0:
                waits.append(pause)
        if self._refused:
            # The first entry of the heap is the earliest one.
            earliest, *_ = self._refused[0]
            waits.append(earliest - time.monotonic())
        if self._watch is not None:
            waits.append(SECONDS_BETWEEN_LOOKS)
        if not waits:
            return None
        # Zero or more: a time that has passed already must not make the wait an error.
        return max(0.0, min(_LONGEST_PATIENCE, *waits))

    @property
    def _longest_call(self) -> float | None:
        """Seconds that a call may take at most; None where there is no limit.

        The user's limit is for one query; a call for a batch may take that for each of its queries.
        """
        calls = self._run.calls
        if calls.timeout is None:
            return None
        if any(calling.stage.takes_batches for calling in self._calling.values()):
            return calls.timeout * calls.batch_size
        return calls.timeout

    # --- cases move on

    def _enter_window(self, rows: Sequence[RunCase]) -> None:
        """Takes a window of cases in, to the first stage.

        Cases that may have taken an earlier process down are asked first, each in a process of its
        own.
        """
        window = _Window(rows, len(rows))
        self._open.append(window)
        for row in rows:
            self._window_of[id(row)] = window
        in_flight = self._run.in_flight
        # Only what an earlier process left over in its file of cases in flight is suspect.
        if in_flight is None or not in_flight.left_over:
            self._enter_stage(rows, 0)
            return
        suspects = set(in_flight.left_over)
        suspected: list[RunCase] = []
        unsuspected: list[RunCase] = []
        for row in rows:
            if row.number in suspects:
                suspected.append(row)
            else:
                unsuspected.append(row)
        # Asked to the end before any other case of the window begins.
        if suspected:
            self._enter_stage(suspected, 0, suspects)
        self._enter_stage(unsuspected, 0)

    def _enter_stage(
        self, rows: Sequence[RunCase], place: int, suspects: Collection[int] = frozenset()
    ) -> None:
        """Takes rows (cases) to a stage, and on to the next, until a row has to wait for a call.

        Rows that pass the last stage are through, and counted with their window.

        Args:
            suspects: numbers of cases that are each asked in a process of their own.
        """
        while rows and place < len(self._stages):
            stage = self._stages[place]
            with directory_kept(stage.name):
                rows = self._settled_at(stage, place, rows, suspects)
            place += 1
        # What remains has passed the last stage.
        for row in rows:
            # Removed with its row, so that the identity is free for a row that is read later.
            window = self._window_of.pop(id(row))
            window.unfinished -= 1
        self._count_windows()

    def _settled_at(
        self,
        stage: Stage,
        place: int,
        rows: Sequence[RunCase],
        suspects: Collection[int],
    ) -> Sequence[RunCase]:
        """The rows (cases) that a stage settles at once, so that they go on to the next stage.

        The others come back when they are settled: they wait for a call of the stage, for the
        models that judge, or for the rows of their window that are still on their way.

        Args:
            place: the stage's position among the stages of the run.
            suspects: numbers of cases that are each asked in a process of their own.
        """
        run = self._run
        calling = self._calling.get(place)
        if calling is not None:
            # What needs no call is settled here; the rest waits until `_begin_calls` finds room.
            works: Sequence[Work[Any]] = calling.stage.take(rows, run)
            if suspects:
                works = calling.stage.ask_suspects(works, suspects, run)
            calling.waiting.extend(works)
            # By identity: rows of a dump may have the same number.
            waiting = {id(work.row) for work in works}
            return [row for row in rows if id(row) not in waiting]
        if isinstance(stage, JudgeStage):
            jobs = stage.take(rows, run)
            self._jobs.extend(jobs)
            # Judged cases have numbers of their own: no dump is judged.
            to_judge = {job.row.number for job in jobs}
            return [row for row in rows if row.number not in to_judge]
        # Workers share the rows of a window: with a row at a time all but one would be idle.
        has_workers = getattr(stage, "pool", None) is not None
        if has_workers:
            rows = self._whole_windows(place, rows)
        if rows:
            stage.settle(rows, run)
        return rows

    def _whole_windows(self, place: int, rows: Sequence[RunCase]) -> Sequence[RunCase]:
        """The rows of each window of cases that has now come whole to a stage; keeps others back.

        Workers share the rows of a window: row by row, all workers but one would be idle.
        """
        complete: list[RunCase] = []
        for row in rows:
            window = self._window_of[id(row)]
            gathered = window.gathered.setdefault(place, [])
            gathered.append(row)
            # The last row of its window brings all of them on.
            if len(gathered) == len(window.rows):
                complete += window.gathered.pop(place)
        return complete

    def _count_windows(self) -> None:
        """Hands the cases of windows that are through to the tally, in the order of the cases.

        A window that is through waits for the one before it: reports must not depend on which case
        ended when.
        """
        while self._open and not self._open[0].unfinished:
            window = self._open.popleft()
            # Before the tally, which counts the judgements of a row, too.
            if self._judge is not None:
                self._judge.read_back(window.rows)
            for row in window.rows:
                self._tally(row)

    # --- calls begin

    def _begin_calls(self) -> None:
        """Begins calls while some are free: those of late stages first, so that cases end.

        Otherwise all cases would be retrieved first, and held in memory, before any is answered.
        """
        for place in sorted(self._calling, reverse=True):
            calling = self._calling[place]
            calls = calling.room.calls
            while calling.waiting and calling.room.is_free:
                size = self._batch_size(calling)
                batch = [calling.waiting.popleft() for _ in range(size)]
                # Counted before the call begins, since a call that is made here ends within
                # `_begin_call`.
                calls.in_flight += 1
                # With a limit of 1 the call is alone: a refusal is then not due to our number of
                # calls.
                self._begin_call(calling, _Call(place, batch, calls.epoch, calls.limit == 1))

    def _batch_size(self, calling: _CallingStage) -> int:
        """How many cases the next call of a stage asks for; one where it takes no batches.

        A share of those that wait, so that no free slot for a call is left without a case.
        """
        if not calling.stage.takes_batches:
            return 1
        # The most that can be, not the limit of now: batches stay of one size while that moves.
        slots = calling.room.calls.most
        share = -(-len(calling.waiting) // slots)  # rounded up
        return min(self._run.calls.batch_size, share)

    def _begin_call(self, calling: _CallingStage, call: _Call) -> None:
        """Begins a call of a stage; where the number of calls adapts, a refused one is asked again.

        A case that was refused too often is asked in the plain way: a refusal is its failure then.
        """
        stage = calling.stage
        manner = calling.manner
        if calling.room.is_adaptive and self._most_refusals(call) < _TRIES:
            stage = calling.refusable
            manner = replace(manner, final=(*manner.final, RefusedError))
        self.callers.begin(stage, call, manner, is_here=self._is_made_here(calling))

    def _most_refusals(self, call: _Call) -> int:
        """How often the system has refused the case of a call that it has refused most often.

        From this follow the length of the next wait, and when to give up.
        """
        return max(self._refusals[call.place, work.row.number] for work in call.batch)

    def _is_made_here(self, calling: _CallingStage) -> bool:
        """Whether the thread that stores outcomes makes the calls of a stage itself.

        A connection, such as one to SQLite, may serve no thread but the one that opened it: a
        system that was not made for several calls is asked where it was made.
        """
        return not self._run.bears_calls and calling.room.calls.most == 1

    def _begin_judging(self) -> None:
        """Begins to judge waiting cells (a metric's values of a case) while there is room.

        The models' own limits of calls come on top of this room.
        """
        judge = self._judge
        if judge is None or not self._jobs:
            return
        # Counted by cells, of which each may make several calls.
        while self._jobs and self._judging < judge.judging.cells_at_once:
            job = self._jobs.popleft()
            try:
                future = judge.begin(job, self._run)
            except RagbenchError as error:  # the models do not answer at all
                self._end_run(error)
                return
            self._judging += 1
            future.add_done_callback(self._when_judged(job))

    def _when_judged(self, job: Job) -> Callable[[Future[JudgedCell]], None]:
        """The callback for the end of a cell's judging: it puts the result into the queue `ends`.

        The callback runs in the models' thread. Only the thread of the flow, which reads the queue,
        may store the cell.
        """
        return lambda future: self.callers.ends.put(_Judged(job, future))

    # --- calls end

    def _settle(self, end: _End) -> None:
        """Stores what has ended (an answer, a call or a judging), and lets its cases move on.

        Only the flow's own thread does so: others put ends into a queue.
        """
        if isinstance(end, _Answered):
            self._settle_answer(end)
        elif isinstance(end, _Ended):
            self._settle_call(end)
        else:
            self._settle_judged(end)

    def _settle_answer(self, end: _Answered) -> None:
        """Stores outcomes of a call, and takes their cases to the stage after the call's own.

        No case waits for the others of its window.
        """
        place = end.call.place
        stage = self._calling[place].stage
        with directory_kept(stage.name):
            stage.keep(end.works, end.outcomes, self._run)
        self._enter_stage([work.row for work in end.works], place + 1)

    def _settle_call(self, end: _Ended) -> None:
        """Makes room for the next call after one is over; refused cases are asked again later.

        Any other error ends the run: one of ragbench after all that is in flight is stored.
        """
        call = end.call
        calling = self._calling[call.place]
        # The begin of a call was counted with `_is_made_here` of the same stage as its end is here,
        # so that begun and ended calls add up.
        self.callers.call_ended(calling.stage, was_here=self._is_made_here(calling))
        # While the call still counts: the limit rises only where half of it is in flight.
        if calling.room.is_adaptive:
            self._adapt_limit(calling.room, call, end.error)
        calling.room.calls.in_flight -= 1
        if end.error is None:
            return
        if isinstance(end.error, RefusedError):
            self._ask_later(call, end.error)
        elif isinstance(end.error, RagbenchError):
            self._end_run(end.error)
        else:
            # Not ours: an interruption, or a fault of ragbench, which nothing may hold up.
            raise end.error

    def _end_run(self, error: RagbenchError) -> None:
        """Has no more calls begun, and keeps the first error, with which the run ends.

        The error is raised only when all that is in flight is stored.
        """
        if self._error is None:
            self._error = error

    def _adapt_limit(self, room: _Room, call: _Call, error: BaseException | None) -> None:
        """Raises or lowers how many calls may be in flight, by how a call has ended.

        Refused calls and overload lower the number, answers raise it; see `AdaptiveLimit`. The user
        is warned of each new low, since the run is slower from then on.
        """
        calls = room.calls
        limit_before = calls.limit
        if isinstance(error, RefusedError):
            calls.rate_limited(call.epoch, self._seconds_to_wait(call, error))
        elif any(_http_status_of(met) == _TOO_MANY for met in call.errors):
            # Made in the plain way: its case has failed and is not asked again, after no wait.
            calls.rate_limited(call.epoch, 0.0)
        elif any(_is_overload(met) for met in call.errors):
            calls.failed(call.epoch)
        else:
            calls.succeeded()
        # Lower than ever before: ups and downs above the lowest limit are not warned of.
        if calls.limit < min(limit_before, room.fewest):
            room.fewest = calls.limit
            hint = ""
            if room.name == _SYSTEM:
                hint = "; --concurrency N sets their number"
            warn(
                f"{room.name} refuses or loses calls: {calls.limit} of {limit_before} are in "
                f"flight from now on{hint}"
            )

    def _seconds_to_wait(self, call: _Call, error: RefusedError) -> float:
        """Seconds before a refused call is made again: as the system asks, else longer each time.

        None is waited where the next refusal makes the case fail anyway.
        """
        if _is_hopeless(call, error):
            return 0.0
        if error.wait is not None:
            return min(error.wait, _LONGEST_WAIT)
        # 0.5 s, 1 s, 2 s and so on: the refusals so far are counted before this one is added.
        return float(_FIRST_WAIT * 2 ** self._most_refusals(call))

    def _ask_later(self, call: _Call, error: RefusedError) -> None:
        """Puts the cases of a refused call aside, to be asked again after a wait.

        The cases do not count as failed: with fewer calls at once, the system may well answer them.
        """
        stage = self._calling[call.place].stage
        earliest = time.monotonic() + self._seconds_to_wait(call, error)
        refusals = 1
        if _is_hopeless(call, error):
            refusals = _TRIES  # the next call is the last, and its error says why the case failed
        for work in call.batch:
            # A part of the batch may have been answered before the rest was refused.
            if stage.name in work.row.settled:
                continue
            self._refusals[call.place, work.row.number] += refusals
            # The number keeps the order of cases whose wait ends at the same time.
            heapq.heappush(self._refused, (earliest, work.row.number, call.place, work))

    def _ask_refused_again(self) -> None:
        """Puts refused cases whose wait is over in front of the cases that wait for a call.

        Refused cases have waited longest, and a window of cases ends only with its last case.
        """
        now = time.monotonic()
        while self._refused and self._refused[0][0] <= now:
            _, _, place, work = heapq.heappop(self._refused)
            self._calling[place].waiting.appendleft(work)

    def _settle_judged(self, end: _Judged) -> None:
        """Stores a judged cell (a metric's value); after its last cell, a case is through.

        An error that ends the run is kept until all that is in flight is stored.
        """
        assert self._judge is not None
        self._judging -= 1
        # No wait: the future is done, or its callback would not have put it here.
        error = end.future.exception()
        if isinstance(error, RagbenchError):
            self._end_run(error)
        elif error is not None:
            raise error
        elif self._judge.keep(end.job, end.future.result(), self._run):
            self._enter_stage([end.job.row], self._judge_place + 1)


# --- what calls meet


def _with_refusals(stage: CallStage[Any, Any]) -> CallStage[Any, Any]:
    """The stage with calls that raise `RefusedError` where the system refuses them.

    Without it a refusal would fail the case, as any other error of the user's code does.
    """
    # A stage has one of the two calls: a plain one or a coroutine.
    if stage.call is not None:
        return replace(stage, call=partial(_called_or_refused, stage.call))
    call_async: Any = stage.call_async
    return replace(stage, call_async=partial(_awaited_or_refused, call_async))


def _called_or_refused(call: Callable[[Sequence[Any]], Any], inputs: Sequence[Any]) -> Any:
    """The answer of the user's plain call; a refusal for too many calls is a `RefusedError`.

    By this class the flow knows to ask again later, where any other error fails the case.
    """
    try:
        return call(inputs)
    except Exception as error:
        # Returns for any other error, which is raised as it came.
        _raise_refusal(error)
        raise


async def _awaited_or_refused(
    call_async: Callable[[Sequence[Any]], Awaitable[Any]], inputs: Sequence[Any]
) -> Any:
    """The answer of the user's coroutine; a refusal for too many calls is a `RefusedError`.

    By this class the flow knows to ask again later, where any other error fails the case.
    """
    try:
        return await call_async(inputs)
    except Exception as error:
        _raise_refusal(error)
        raise


def _raise_refusal(error: Exception) -> None:
    """Raises `RefusedError` if an error of the user's call means that there are too many calls.

    The status is that of HTTP, 429; returns for any other error.
    """
    if _http_status_of(error) == _TOO_MANY:
        raise RefusedError(_wait_of_answer(error)) from error


def _is_hopeless(call: _Call, error: RefusedError) -> bool:
    """Whether a refused call would be refused again however few are in flight: a limit of a day.

    The call was alone in flight, and yet the system asks to wait longer than a run should: the
    cases of the call fail after one more try.
    """
    return call.is_alone and error.wait is not None and error.wait > _LONGEST_WAIT


def _error_and_causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, the nearest first.

    The error of an HTTP client is often the cause of the one that the user's code raises.
    """
    cause: BaseException | None = error
    for _ in range(_DEEPEST_CAUSE):
        if cause is None:
            return
        yield cause
        # An explicit cause before one that is only the context of the error.
        cause = cause.__cause__ or cause.__context__


def _http_status_of(error: BaseException) -> int | None:
    """The HTTP status that an error of the user's code rests on, 400 to 599; None without one.

    The status shows whether the service refuses calls or is overloaded. Clients of services keep it
    under different names, in the error or in the error's response.
    """
    for cause in _error_and_causes(error):
        response = getattr(cause, "response", None)
        for holder in (cause, response):
            for name in ("status_code", "status", "code"):
                status = getattr(holder, name, None)
                # The range is checked, since errors without HTTP have codes, too, such as the exit
                # code of SystemExit.
                if isinstance(status, int) and 400 <= status < 600:
                    return status
    return None


def _wait_of_answer(error: BaseException) -> float | None:
    """Seconds that the HTTP answer behind an error asks to wait; None where it asks for none.

    A service that refuses calls often names the time after which it takes them again.
    """
    for cause in _error_and_causes(error):
        response = getattr(cause, "response", None)
        # The response first: an error of a client may have headers of its own request.
        for holder in (response, cause):
            headers: Any = getattr(holder, "headers", None)
            if hasattr(headers, "items"):  # a mapping, or a client's own class like one
                lowered = {str(name).lower(): str(value) for name, value in headers.items()}
                return retry_after(lowered)
    return None


def _is_overload(error: BaseException) -> bool:
    """Whether an error means that too much is asked at once: time outs, errors of a server.

    After an overload fewer calls are kept in flight; any other error is the fault of its case
    alone.
    """
    if isinstance(error, (TimeoutError, ConnectionError, StageTimeoutError, UnreachableError)):
        return True
    status = _http_status_of(error)
    return status is not None and (status == _TOO_MANY or status >= _SERVER_ERROR)
