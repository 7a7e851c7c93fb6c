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
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
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
from ragbench.stages.loop_watch import LOOK, LoopWatch
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
_LOOK = 0.5
"""Seconds between two looks at whether the run is stopped, while refused cases wait."""


def run_flow(
    windows: Iterable[Sequence[RunCase]],
    stages: Sequence[Stage],
    run: Running,
    tally: Callable[[RunCase], None],
    *,
    most_windows: int = USUAL_WINDOWS,
) -> None:
    """Takes all cases through every stage.

    Args:
        tally: given each case that is through, in the order of the cases.
        most_windows: windows under way at once; with 1, none is read before the one before it is
            through.

    Raises:
        InterruptedRunError: the run was stopped; what was in flight is stored.
    """
    flow = Flow(stages, run, tally)
    try:
        with directory_kept("a call"):
            flow.take(iter(windows), most_windows=most_windows)
    finally:
        flow.callers.close()
    run.journal.flush()


# --- calls, and how they end


@dataclass(slots=True, eq=False)
class _Call:
    """One call of a stage that is in flight."""

    place: int
    """Of its stage."""
    batch: Sequence[Work[Any]]
    epoch: int
    """How often the limit had been lowered when it began."""
    is_alone: bool
    """Whether no other one was to be in flight with it."""
    errors: list[BaseException] = field(default_factory=list[BaseException])
    """What it met, in any thread."""


class _Answered(NamedTuple):
    """Outcomes of a call, or of a part of one that was made again in parts."""

    call: _Call
    works: Sequence[Work[Any]]
    outcomes: list[Outcome[Any]]


class _Ended(NamedTuple):
    """A call is over."""

    call: _Call
    error: BaseException | None
    """What ends the run, or has to be asked again."""


class _Judged(NamedTuple):
    """A cell is judged, or could not be."""

    job: Job
    future: Future[JudgedCell]


_End: TypeAlias = _Answered | _Ended | _Judged


class RefusedError(Exception):
    """The system refuses a call because there are too many (429)."""

    def __init__(self, wait: float | None) -> None:
        super().__init__("too many calls")
        self.wait = wait
        """Seconds that it asks to wait; None where it does not say."""


class Callers:
    """Makes calls beside the thread that stores their outcomes."""

    def __init__(self, loop: LoopThread | None) -> None:
        self.ends: queue.SimpleQueue[_End] = queue.SimpleQueue()
        self._loop = loop
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0
        """Calls that threads were given and that are not over."""

    def begin(
        self, stage: CallStage[Any, Any], call: _Call, manner: Manner, *, is_here: bool
    ) -> None:
        """Begins a call; what comes of it is put among the ends.

        Args:
            is_here: whether this thread makes a plain call, and waits for its end.
        """
        manner = replace(manner, met=call.errors.append)
        if stage.call_async is not None and self._loop is not None:
            self._loop.begin(self._await(stage, call, manner))
            return
        if is_here:
            self._make(stage, call, manner)
            return
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            # Daemon threads: a second Ctrl-C must end the process although a call hangs.
            name = f"ragbench-call-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._waiting.put(lambda: self._make(stage, call, manner))

    def ended(self, stage: CallStage[Any, Any], *, was_here: bool) -> None:
        """Notes that a call of a stage is over."""
        if not was_here and (stage.call_async is None or self._loop is None):
            self._busy -= 1

    def close(self) -> None:
        """Ends the threads that are idle; those in a call end with it."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _work(self) -> None:
        """What each thread does."""
        while (make := self._waiting.get()) is not None:
            make()

    def _make(self, stage: CallStage[Any, Any], call: _Call, manner: Manner) -> None:
        """Makes a plain call."""
        error: BaseException | None = None
        try:
            for works, outcomes in stage.attempt(call.batch, manner):
                self.ends.put(_Answered(call, works, outcomes))
        except BaseException as problem:  # noqa: BLE001  # raised again in the storing thread
            error = problem
        self.ends.put(_Ended(call, error))

    async def _await(self, stage: CallStage[Any, Any], call: _Call, manner: Manner) -> None:
        """Awaits the call of a coroutine function."""
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
    limit: AdaptiveLimit
    is_adaptive: bool
    """Whether the limit follows how the calls end."""
    fewest: int
    """The lowest limit so far: a warning tells of a lower one, not of each way up and down."""

    @classmethod
    def of(cls, name: str, *, concurrency: int | None, bears_calls: bool) -> _Room:
        """Room for as many calls as the user says, else for what bears several, else for one."""
        is_adaptive = concurrency is None and bears_calls
        most = MOST_CALLS if is_adaptive else concurrency or 1
        first = FIRST_CALLS if is_adaptive else most
        limit = AdaptiveLimit(most, first=first, now=time.monotonic)
        return cls(name, limit, is_adaptive, most + 1)

    @property
    def is_free(self) -> bool:
        """Whether one more call may begin."""
        return self.limit.pause <= 0 and self.limit.in_flight < self.limit.limit


@dataclass(slots=True, eq=False)
class _Window:
    """Cases that were read together, and are counted together."""

    rows: Sequence[RunCase]
    unfinished: int
    """Rows that are not through all stages."""
    gathered: dict[int, list[RunCase]] = field(default_factory=dict[int, "list[RunCase]"])
    """By the place of a stage that takes a whole window: the rows that have come so far."""


class Flow:
    """The cases of a run between its stages."""

    def __init__(
        self, stages: Sequence[Stage], run: Running, tally: Callable[[RunCase], None]
    ) -> None:
        self._stages = stages
        self._run = run
        self._tally = tally
        self.callers = Callers(run.loop)
        self._manners: dict[int, Manner] = {}
        """By the place of a stage that makes calls."""
        self._giving_back: dict[int, CallStage[Any, Any]] = {}
        """The same stages; a call that the system refuses is given back to be asked again."""
        for place, stage in enumerate(stages):
            calling = calling_here(stage)
            if calling is not None:
                self._manners[place] = calling.manner(run)
                self._giving_back[place] = _giving_back(calling)
        self._judge_place: int | None = None
        for place, stage in enumerate(stages):
            if isinstance(stage, JudgeStage):
                self._judge_place = place
        self._rooms = self._rooms_of_calls()
        """By the place of a stage that makes calls; the stages of the system share one."""
        self._watch = None if run.loop is None else LoopWatch(run.loop)
        self._waiting: dict[int, deque[Work[Any]]] = {place: deque() for place in self._manners}
        """By place: cases that wait for a call."""
        self._later: list[tuple[float, int, int, Work[Any]]] = []
        """Cases that the system has refused: when they may be asked again, a number that keeps
        their order, and where."""
        self._tries: Counter[tuple[int, int]] = Counter()
        """By place and case: how often the system has refused it."""
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

    def _rooms_of_calls(self) -> dict[int, _Room]:
        """Room for the calls of each stage that makes some."""
        concurrency = self._run.calls.concurrency
        system = _Room.of(_SYSTEM, concurrency=concurrency, bears_calls=self._run.bears_calls)
        rooms: dict[int, _Room] = {}
        for place, stage in self._giving_back.items():
            rooms[place] = system
            if not stage.asks_system:
                rooms[place] = _Room.of(
                    stage.name, concurrency=concurrency, bears_calls=stage.bears_calls
                )
        return rooms

    # --- the loop

    def take(self, windows: Any, *, most_windows: int) -> None:
        """Takes windows in, begins calls while there is room, and settles what they give."""
        has_more = True
        while True:
            while has_more and self._has_room(most_windows):
                window = next(windows, None)
                if window is None:
                    has_more = False
                else:
                    self._enter_window(window)
            if not self._is_ending:
                self._begin_calls()
                self._begin_judging()
            if self._is_idle and (self._is_ending or not (self._later or has_more)):
                break
            if not self._is_idle or self._later:
                self._settle_an_end()
        self._run.journal.flush()
        if self._error is not None:
            raise self._error
        if self._run.stopped() or self._open:
            raise InterruptedRunError(STOPPED)

    @property
    def _is_ending(self) -> bool:
        """Whether no more is begun: the run is stopped, or has met what would meet every case."""
        return self._error is not None or self._run.stopped()

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is in flight."""
        in_flight = sum(room.limit.in_flight for room in self._rooms.values())
        return not self._judging and not in_flight

    def _has_room(self, most_windows: int) -> bool:
        """Whether the next window is needed: the calls that may be in flight want more cases."""
        if self._is_ending or len(self._open) >= most_windows:
            return False
        waiting = sum(len(works) for works in self._waiting.values())
        wanted = max((room.limit.limit for room in self._rooms.values()), default=1)
        return waiting < wanted or not self._open

    def _settle_an_end(self) -> None:
        """Waits for what ends next, and settles it."""
        try:
            with directory_kept("a call"):  # it changes while another call ends
                end = self.callers.ends.get(timeout=self._patience())
        except queue.Empty:
            if self._watch is not None and not self._is_idle:
                self._watch.look(self._longest_call)
            self._ask_refused_again()
            return
        self._settle(end)
        self._ask_refused_again()
        if self.callers.ends.empty():
            self._run.journal.flush(if_due=True)

    def _patience(self) -> float | None:
        """Seconds until a refused case may be asked again, or a stop be seen; None: none waits."""
        waits = [room.limit.pause for room in self._rooms.values() if room.limit.pause > 0]
        if self._later:
            moment, *_ = self._later[0]
            waits.append(moment - time.monotonic())
        if self._watch is not None:
            waits.append(LOOK)
        if not waits:
            return None
        return max(0.0, min(_LOOK, *waits))

    @property
    def _longest_call(self) -> float | None:
        """Seconds that a call may take at most; None where there is no limit."""
        calls = self._run.calls
        if calls.timeout is None:
            return None
        has_batches = any(stage.takes_batches for stage in self._giving_back.values())
        return calls.timeout * (calls.batch_size if has_batches else 1)

    # --- cases move on

    def _enter_window(self, rows: Sequence[RunCase]) -> None:
        """Takes cases in; those that may have taken an earlier process down are asked alone."""
        window = _Window(rows, len(rows))
        self._open.append(window)
        for row in rows:
            self._window_of[id(row)] = window
        in_flight = self._run.in_flight
        suspects: Collection[int] = set()
        if in_flight is not None and in_flight.left_over:
            suspects = {*in_flight.left_over}
        suspected = [row for row in rows if row.number in suspects]
        if suspected:
            self._enter(suspected, 0, suspects)
        self._enter([row for row in rows if row.number not in suspects], 0)

    def _enter(
        self, rows: Sequence[RunCase], place: int, suspects: Collection[int] = frozenset()
    ) -> None:
        """Takes rows to a stage, and on to the next where they need not be asked for."""
        while rows and place < len(self._stages):
            stage = self._stages[place]
            with directory_kept(stage.name):
                rows = self._settled_at(stage, place, rows, suspects)
            place += 1
        for row in rows:
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
        """The rows that a stage has settled at once; for the others calls wait, or it gathers."""
        run = self._run
        calling = calling_here(stage)
        if calling is not None:
            works: Sequence[Work[Any]] = calling.take(rows, run)
            if suspects:
                works = calling.ask_suspects(works, suspects, run)
            self._waiting[place].extend(works)
            waiting = {id(work.row) for work in works}
            return [row for row in rows if id(row) not in waiting]
        if isinstance(stage, JudgeStage):
            jobs = stage.take(rows, run)
            self._jobs.extend(jobs)
            judged = {job.row.number for job in jobs}
            return [row for row in rows if row.number not in judged]
        if getattr(stage, "pool", None) is not None:
            rows = self._gathered(place, rows)
        if rows:
            stage.settle(rows, run)
        return rows

    def _gathered(self, place: int, rows: Sequence[RunCase]) -> Sequence[RunCase]:
        """The rows of windows of which all have come to a stage that takes a window at a time."""
        come: list[RunCase] = []
        for row in rows:
            window = self._window_of[id(row)]
            gathered = window.gathered.setdefault(place, [])
            gathered.append(row)
            if len(gathered) == len(window.rows):
                come += window.gathered.pop(place)
        return come

    def _count_windows(self) -> None:
        """Counts the cases of windows that are through, in the order of the cases."""
        while self._open and not self._open[0].unfinished:
            window = self._open.popleft()
            if self._judge_place is not None:
                judge: Any = self._stages[self._judge_place]
                judge.read_back(window.rows)
            for row in window.rows:
                self._tally(row)

    # --- calls begin

    def _begin_calls(self) -> None:
        """Begins calls while some are free: those of late stages first, so that cases end."""
        for place in sorted(self._waiting, reverse=True):
            works = self._waiting[place]
            room = self._rooms[place]
            while works and room.is_free:
                size = self._batch_size(place, len(works))
                batch = [works.popleft() for _ in range(size)]
                room.limit.in_flight += 1
                self._begin(_Call(place, batch, room.limit.epoch, room.limit.limit == 1))

    def _batch_size(self, place: int, waiting: int) -> int:
        """Cases of the next call: a share of those that wait, so that no slot is left without."""
        stage: Any = self._stages[place]
        if not stage.takes_batches:
            return 1
        slots = self._rooms[place].limit.most
        return min(self._run.calls.batch_size, -(-waiting // slots))

    def _begin(self, call: _Call) -> None:
        """Begins a call; where their number is adaptive, one that is refused is given back."""
        stage: Any = self._stages[call.place]
        manner = self._manners[call.place]
        tries = [self._tries[call.place, work.row.number] for work in call.batch]
        if self._rooms[call.place].is_adaptive and max(tries) < _TRIES:
            stage = self._giving_back[call.place]
            manner = replace(manner, final=(*manner.final, RefusedError))
        self.callers.begin(stage, call, manner, is_here=self._is_made_here(call.place))

    def _is_made_here(self, place: int) -> bool:
        """Whether this thread makes the calls of a stage.

        A connection, such as one to SQLite, may serve no thread but the one that opened it: a
        system that was not made for several calls is asked where it was made.
        """
        return not self._run.bears_calls and self._rooms[place].limit.most == 1

    def _begin_judging(self) -> None:
        """Begins to judge cells while there is room."""
        if self._judge_place is None or not self._jobs:
            return
        judge: Any = self._stages[self._judge_place]
        while self._jobs and self._judging < judge.judging.cells_at_once:
            job = self._jobs.popleft()
            try:
                future = judge.begin(job, self._run)
            except RagbenchError as error:  # the models do not answer at all
                self._error = self._error or error
                return
            self._judging += 1
            future.add_done_callback(self._when_judged(job))

    def _when_judged(self, job: Job) -> Callable[[Future[JudgedCell]], None]:
        """Puts a judged cell among the ends, from the thread of the models."""
        return lambda future: self.callers.ends.put(_Judged(job, future))

    # --- calls end

    def _settle(self, end: _End) -> None:
        """Stores what has come, and lets its cases move on."""
        if isinstance(end, _Answered):
            self._settle_answer(end)
        elif isinstance(end, _Ended):
            self._settle_call(end)
        else:
            self._settle_judged(end)

    def _settle_answer(self, end: _Answered) -> None:
        """Stores outcomes of a call, and takes their cases to the next stage."""
        place = end.call.place
        stage: Any = self._stages[place]
        with directory_kept(stage.name):
            stage.keep(end.works, end.outcomes, self._run)
        self._enter([work.row for work in end.works], place + 1)

    def _settle_call(self, end: _Ended) -> None:
        """Notes that a call is over, and how so many are borne."""
        call = end.call
        stage: Any = self._stages[call.place]
        self.callers.ended(stage, was_here=self._is_made_here(call.place))
        room = self._rooms[call.place]
        if room.is_adaptive:
            self._adapt(room, call, end.error)
        room.limit.in_flight -= 1
        if end.error is None:
            return
        if isinstance(end.error, RefusedError):
            self._ask_later(call, end.error)
        elif isinstance(end.error, RagbenchError):
            self._error = self._error or end.error
        else:
            raise end.error

    def _adapt(self, room: _Room, call: _Call, error: BaseException | None) -> None:
        """Lets more calls be in flight, or fewer, as a call has ended."""
        limit = room.limit
        before = limit.limit
        if isinstance(error, RefusedError):
            limit.rate_limited(call.epoch, self._wait(call, error))
        elif any(_status_of(met) == _TOO_MANY for met in call.errors):
            limit.rate_limited(call.epoch, 0.0)
        elif any(_is_overload(met) for met in call.errors):
            limit.failed(call.epoch)
        else:
            limit.succeeded()
        if limit.limit < min(before, room.fewest):
            room.fewest = limit.limit
            hint = "; --concurrency N sets their number" if room.name == _SYSTEM else ""
            warn(
                f"{room.name} refuses or loses calls: {limit.limit} of {before} are in flight "
                f"from now on{hint}"
            )

    def _wait(self, call: _Call, error: RefusedError) -> float:
        """Seconds before a refused call is made again."""
        if _is_hopeless(call, error):
            return 0.0
        if error.wait is not None:
            return min(error.wait, _LONGEST_WAIT)
        tries = max(self._tries[call.place, work.row.number] for work in call.batch)
        return float(_FIRST_WAIT * 2**tries)

    def _ask_later(self, call: _Call, error: RefusedError) -> None:
        """Has the cases of a refused call asked again after a while."""
        stage = self._stages[call.place]
        moment = time.monotonic() + self._wait(call, error)
        tries = _TRIES if _is_hopeless(call, error) else 1  # the next one says why it failed
        for work in call.batch:
            if stage.name not in work.row.settled:
                self._tries[call.place, work.row.number] += tries
                heapq.heappush(self._later, (moment, work.row.number, call.place, work))

    def _ask_refused_again(self) -> None:
        """Puts refused cases whose time has come in front of those that wait."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, place, work = heapq.heappop(self._later)
            self._waiting[place].appendleft(work)

    def _settle_judged(self, end: _Judged) -> None:
        """Stores a judged cell; a case whose cells are all judged is through the stage."""
        self._judging -= 1
        place = self._judge_place
        assert place is not None
        judge: Any = self._stages[place]
        error = end.future.exception()
        if isinstance(error, RagbenchError):
            self._error = self._error or error
        elif error is not None:
            raise error
        elif judge.keep(end.job, end.future.result(), self._run):
            self._enter([end.job.row], place + 1)


# --- what calls meet


def _giving_back(stage: CallStage[Any, Any]) -> CallStage[Any, Any]:
    """The stage with calls that raise `RefusedError` where the system refuses them."""
    call: Any = stage.call
    call_async: Any = stage.call_async
    if call is not None:

        def given_back(inputs: Sequence[Any]) -> Any:
            try:
                return call(inputs)
            except Exception as error:
                if _status_of(error) == _TOO_MANY:
                    raise RefusedError(_wait_of(error)) from error
                raise

        return replace(stage, call=given_back)

    async def given_back_async(inputs: Sequence[Any]) -> Any:
        try:
            return await call_async(inputs)
        except Exception as error:
            if _status_of(error) == _TOO_MANY:
                raise RefusedError(_wait_of(error)) from error
            raise

    return replace(stage, call_async=given_back_async)


def _is_hopeless(call: _Call, error: RefusedError) -> bool:
    """Whether a refused call would be refused for long, however few are in flight."""
    return call.is_alone and error.wait is not None and error.wait > _LONGEST_WAIT


_TOO_MANY = 429


def _status_of(error: BaseException) -> int | None:
    """The HTTP status that an error stands for, as clients of services name it; None without one.

    A client's error is often the cause of the one that the user's code raises.
    """
    cause: BaseException | None = error
    for _ in range(4):
        if cause is None:
            return None
        response = getattr(cause, "response", None)
        for holder in (cause, response):
            for name in ("status_code", "status", "code"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and 400 <= status < 600:
                    return status
        cause = cause.__cause__ or cause.__context__
    return None


def _wait_of(error: BaseException) -> float | None:
    """Seconds that the answer behind an error asks to wait; None where it does not say."""
    cause: BaseException | None = error
    for _ in range(4):
        if cause is None:
            return None
        for holder in (getattr(cause, "response", None), cause):
            headers: Any = getattr(holder, "headers", None)
            if hasattr(headers, "items"):  # a mapping, or a client's own class like one
                lowered = {str(name).lower(): str(value) for name, value in headers.items()}
                return retry_after(lowered)
        cause = cause.__cause__ or cause.__context__
    return None


def _is_overload(error: BaseException) -> bool:
    """Whether an error says that too much may be asked at once: time outs, errors of a server."""
    if isinstance(error, (TimeoutError, ConnectionError, StageTimeoutError, UnreachableError)):
        return True
    status = _status_of(error)
    return status is not None and (status == _TOO_MANY or status >= 500)
