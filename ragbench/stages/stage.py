"""The one loop, and the protocol of a stage: a case on its way, what each works with and gives.

A run is a list of stages. Each settles one window of cases after the other: what the source
recorded is taken, what the journal holds under the same key is reused, the rest is asked for.
"""

from __future__ import annotations

import dataclasses
import mmap
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ragbench.core.outcome import Cell, Known, Outcome, Status
from ragbench.core.record import Record, field, replace
from ragbench.core.trace import RunCase, StageOutcome
from ragbench.errors import (
    ConfigError,
    InterfaceError,
    InterruptedRunError,
    NoContextsError,
    RunError,
    warn,
)
from ragbench.ledger.codec import decode_outcome
from ragbench.ledger.fingerprint import NOTHING, SIZE, fixed_digest
from ragbench.ledger.journal import RECORDED, Journal, StoredOutcome
from ragbench.plugins import directory_kept
from ragbench.safe_text import counted, shown_line

if TYPE_CHECKING:
    from ragbench.core.calling import LoopThread

InLoop = Callable[[Coroutine[Any, Any, None]], None] | None
"""Runs a coroutine to its end in the run's event loop; None: each in a loop of its own."""

STOPPED = "stopped; the same command continues"
NO_RETRIEVAL = "the RAG does not retrieve"
NO_GENERATION = "the RAG does not generate"
NO_CONTEXTS = str(NoContextsError())
LOCATE = "locate"
"""The name of the stage that looks for gold that retrieval missed."""
TURNS = "turns"
"""The manifest's setting, which only a run of own answers has."""
OWN = "own"
"""The value of that setting: the RAG is told its own earlier answers, not the recorded ones."""
_BROKEN_TRIES = 3
"""Cases after which a stage is given up whose values all have a wrong form."""
_LONGEST = 300
"""Characters of an error in a warning."""
_LONGEST_TIMEOUT = 1e6
"""Seconds, 11 days: a batch's limit must stay within what a thread can wait for."""


class CallSettings(Record):
    """How calls into a RAG are made.

    Raises:
        ConfigError: a number is not above zero.
    """

    batch_size: int = 32
    """Queries per call, for a RAG that takes batches."""
    concurrency: int | None = None
    """Calls of the system in flight. None: one where it is called in one thread; where it bears
    several (coroutines, an address), four to begin with, and up to sixteen as it answers."""
    timeout: float | None = None
    """Seconds per query; None for no limit."""
    give_up_after: int = 100
    """Cases that a stage may fail for at the start of a run, with none that it answers, before no
    more are asked; 0 for no limit."""

    def __post_init__(self) -> None:
        """Refuses a number with which a run would wait for ever, or make no call at all.

        At the start: a wrong number would else be noticed hours into the run.
        """
        # 0 is allowed: it means that a run never gives up.
        if self.give_up_after < 0:
            raise ConfigError(f"a run gives up after 0 or more cases, not {self.give_up_after}")
        for name, value in (("batch size", self.batch_size), ("concurrency", self.concurrency)):
            if value is not None and value < 1:
                raise ConfigError(f"the {name} must be at least 1, not {value}")
        # Not a number (NaN) is refused as well: it is in no range.
        if self.timeout is not None and not 0 < self.timeout <= _LONGEST_TIMEOUT:
            raise ConfigError(
                f"the timeout must be a number of seconds above 0, not {self.timeout}"
            )


USUAL_CALLS = CallSettings()
MOST_CALLS = 16
"""The most calls that are tried where their number follows what the system bears."""


class Progress(NamedTuple):
    """Cases that a stage has settled."""

    stage: str
    cases: int | None
    """How many the run has; None when that is not known."""
    done: int
    """Settled since the last report."""
    failed: int = 0
    """How many of those failed."""
    reused: int = 0
    """How many were taken from an earlier run."""
    recorded: int = 0
    """How many the source had recorded."""


def cell_keys(row: RunCase, matching: str) -> tuple[bytes, bytes]:
    """The two keys under which a case's values of metrics (cells) are stored: digests of inputs.

    A stored cell holds as long as its key stays the same. The first is for metrics that read no
    answer, the second for the others. A change to what goes into a key, or in which order, would
    have every stored value computed again.
    """
    # The order of the parts is stored: another would make every cell be computed again.
    retrieved = row.settled["retrieve"].digest
    post_retrieved = row.settled.get("post_retrieve")
    if post_retrieved is not None:
        retrieved = fixed_digest(retrieved, post_retrieved.digest)
    question = fixed_digest(row.digest, retrieved, matching.encode())
    return question, fixed_digest(question, row.settled["generate"].digest)


# The second key holds the first: an answer counts only with its own question and chunks.
@dataclass(slots=True)
class GivingUp:
    """Counts what a run asks, and says when a stage has only failed so far.

    A dead key or a service that is down fails every case, each after its time limit. A stage that
    has answered once is never given up: some of its cases may fail for good reasons, and cases of
    one kind often stand together.
    """

    after: int = 0
    """Cases that must have failed, with none that was answered; 0: it never gives up. What has
    another form than the interface asks for will have it for all: three of them are enough."""
    because: str = ""
    """Why no more is asked; empty while there is hope."""
    _failed: Counter[str] = dataclasses.field(default_factory=Counter[str])
    """Cases by stage, as long as it has answered none."""
    answered: set[str] = dataclasses.field(default_factory=set[str])
    """Stages that have answered once."""

    def count(self, stage: str, outcomes: Sequence[Outcome[Any]]) -> None:
        """Counts outcomes of a stage that all have failed; sets `because` when there are enough.

        `because` ends the calls of the run, as a dead service would fail every case after a long
        wait. Outcomes of the wrong form are enough after a few cases, since code repeats such a
        mistake.
        """
        # The first stage that fails for all decides; a later one cannot overwrite the reason.
        if not self.after or self.because or stage in self.answered:
            return
        self._failed[stage] += len(outcomes)
        # The last failure stands for all: a dead service gives every case the same.
        failure = outcomes[-1].failure
        enough = self.after
        # By name: a failure that comes from a worker or the journal is no exception any more.
        if failure is not None and failure.type == InterfaceError.__name__:
            enough = min(self.after, _BROKEN_TRIES)
        if self._failed[stage] >= enough:
            why = ""
            if failure is not None:
                why = f"{failure.type}: {failure.message}".rstrip(".")
            self.because = (
                f"{stage} failed for all of the first {self._failed[stage]:,} cases, so no more "
                f"are asked. The last one: {shown_line(why, longest=_LONGEST)}. Once that is "
                "mended, the same command goes on; with --retry-failed it asks those again. "
                "--give-up-after 0 asks all the same"
            )


@dataclass(slots=True)
class InFlight:
    """The numbers of the cases that are being asked: 8 bytes each, and 1 more, so that 0 is free.

    A case is in it once, however many parts of its batch are asked: it never needs more room than
    for all cases of the run.
    """

    left_over: Sequence[int]
    """The cases that an earlier process was asking when it ended.

    They stay in the file until `end` takes them out, and in this list for as long as it is
    open: what was lost with that process may be a stage before the one that ended it."""
    _slots: memoryview[int]
    """The mapped file: a case's number plus 1 in each slot, 0 in a free one."""
    _places: dict[int, int]
    """The slot of each case that is being asked, by its number."""
    _free: list[int]
    """Slots that hold no case."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    """Held at each change: calls begin and end in any thread."""

    @classmethod
    @contextmanager
    def opened(cls, path: Path, cases: int) -> Generator[InFlight]:
        """Opens the file of the cases that are being asked, for the length of a block.

        Cases in the file at the start are those that an earlier process was asking when it died.
        A file without a case is removed at the end. The next run reads the file, so its form must
        stay: 8 bytes a case, the case's number plus 1, or 0 for none.
        """
        try:
            content = path.read_bytes() if path.exists() else b""
            # A process that died while it wrote may have left a part of the last number.
            whole_numbers = content[: len(content) // 8 * 8]
            slots = set(memoryview(whole_numbers).cast("Q"))
            left_over = sorted(slot - 1 for slot in slots - {0})
            places = {number: place for place, number in enumerate(left_over)}
            # As many free slots as cases: each case is in the file once, so that they never run
            # out.
            free = list(range(len(places), len(places) + max(cases, 1)))
            # In full: to write into a hole of a mapped file on a full disk ends the process.
            path.write_bytes(array("Q", [number + 1 for number in left_over] + [0] * len(free)))
            with path.open("r+b") as file:
                # The mapping outlives the file object, and needs no further system call.
                mapped = mmap.mmap(file.fileno(), 0)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}") from error
        in_flight = cls(left_over, memoryview(mapped).cast("Q"), places, free)
        try:
            yield in_flight
        except BaseException:
            # An error that Python saw took no process down: none of this run's cases is a suspect.
            # `places` is the mapping that the object works with: it holds the cases of now.
            in_flight.end(places.keys() - set(left_over))
            raise
        finally:
            # Calls of other threads may still end: none may write into a file that is closed.
            with in_flight._lock:
                in_flight._slots.release()
                mapped.close()
                if not places:
                    path.unlink(missing_ok=True)

    def begin(self, numbers: Iterable[int]) -> None:
        """Notes the numbers of cases in the mapped file before they are asked; safe in any thread.

        If the call takes the process down, the next run reads there which cases were being asked.
        """
        with self._lock:
            for number in numbers:
                # A case that is asked again in a smaller part of its batch has its slot already.
                if number not in self._places:
                    place = self._free.pop()
                    self._places[number] = place
                    self._slots[place] = number + 1

    def end(self, numbers: Iterable[int]) -> None:
        """Takes cases out of the mapped file once their outcomes are recorded; safe in any thread.

        Only then: a case that takes the process down until that moment must be found by the next
        run.
        """
        with self._lock:
            for number in numbers:
                # None: a case that was settled without a call, or ended already.
                place = self._places.pop(number, None)
                if place is not None:
                    self._slots[place] = 0
                    self._free.append(place)


class Running(Record):
    """What every stage of a run is given: where it stores, how it calls, and whom it tells."""

    journal: Journal
    calls: CallSettings
    retry_failed: bool
    stopped: Callable[[], bool]
    """Asked before each call; once true, what is in flight is finished and no more."""
    loop: LoopThread | None = None
    """Where the coroutines of an async system run."""
    bears_calls: bool = False
    """Whether the system bears several calls at once; see `RAGBase.bears_calls`."""
    report: Callable[[Progress], None]
    """Called with cases as they are settled."""
    cases: int | None = None
    """How many the run has."""
    giving_up: GivingUp = field(default_factory=GivingUp)
    """Counts all that is asked."""
    in_flight: InFlight | None = None
    """Where the cases stand that are being asked, so that one that takes the process down is
    found; None where nothing is asked that could."""
    _warned: set[str] = field(default_factory=set[str])
    """Stages whose split calls were warned of."""

    @property
    def concurrency(self) -> str:
        """The number of calls in flight as it is recorded with the times of answers, or ``"auto"``.

        Times are slower with more calls at once, so a reader must see which number they belong to.
        Where the number follows what the system bears, it is not fixed: "auto". A stored form.
        """
        if self.calls.concurrency is None and self.bears_calls:
            return "auto"
        return str(self.most_calls)

    @property
    def most_calls(self) -> int:
        """The most calls of the system that may be in flight at once.

        The user's number; else a fixed most where the system bears several calls, and else one.
        """
        return self.calls.concurrency or (MOST_CALLS if self.bears_calls else 1)

    def settled(
        self, stage: str, done: int, *, failed: int = 0, reused: int = 0, recorded: int = 0
    ) -> None:
        """Reports to the run's display how many cases a stage has settled just now, and from where.

        Args:
            done: cases settled since the last report, those below included.
            failed: cases with a failure.
            reused: cases whose outcome an earlier run had stored.
            recorded: cases whose outcome was in the source.
        """
        # Without a case there is nothing to show.
        if done:
            self.report(Progress(stage, self.cases, done, failed, reused, recorded))

    def lacks(self, cell: Cell | None) -> bool:
        """Whether a metric's value (cell) of a case has to be computed: it is absent, or failed.

        A failed one counts only where the user asks to try failures again (``--retry-failed``).
        """
        return cell is None or (self.retry_failed and cell.status is Status.FAILED)

    def warn_of_split(self, stage: str, size: int, error: BaseException) -> None:
        """Warns, once per stage, that a call for several cases failed and is made again in parts.

        The parts may well succeed, and then nothing else shows that the RAG's batches do not work.
        """
        if stage in self._warned:
            return
        self._warned.add(stage)
        why = shown_line(f"{type(error).__name__}: {error}".rstrip(". "), longest=_LONGEST)
        warn(
            f"{stage}: a call for {counted(size, 'case')} failed ({why}). It is made again in "
            "smaller parts, here and wherever that happens: only cases that fail alone count as "
            "failed"
        )


class Stage(Protocol):
    """One step of every case, such as ``retrieve``."""

    @property
    def name(self) -> str:
        """The stage's name, such as ``retrieve``, in the journal, in reports and in the manifest.

        Stored: under another name, the outcomes of earlier runs are not found.
        """
        ...

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        """Gives every case of the window an outcome of this stage, in the case's ``settled``.

        Called for one window after the other; all cases of a window pass a stage before the next
        one.
        """
        ...


def run_stages(
    windows: Iterable[Sequence[RunCase]],
    stages: Sequence[Stage],
    run: Running,
    tally: Callable[[RunCase], None],
) -> None:
    """Takes the cases through every stage, one window (some cases) after the other, in one thread.

    A system that bears several calls at once is asked in a flow, see `ragbench.stages.flow`.
    """
    for window in windows:
        for stage in stages:
            # The user's code may change the directory: stages after it must find relative paths.
            with directory_kept(stage.name):
                stage.settle(window, run)
            if run.stopped():
                run.journal.flush()
                raise InterruptedRunError(STOPPED)
        for row in window:
            tally(row)
    run.journal.flush()


def restored_outcome(
    stage: str, stored: StoredOutcome, journal: Journal, *, with_texts: bool = True
) -> StageOutcome:
    """A stage's outcome of a case as an object again, from the row that the journal holds of it.

    Args:
        with_texts: whether texts are read; without, they are empty, which is faster.
    """
    if with_texts and stored.texts:
        texts = journal.texts(stored)
    else:
        # As many empty texts as the outcome has, so that contexts keep their number.
        texts = [""] * (len(stored.texts) // SIZE)  # `stored.texts` is their digests in a row
    # A damaged body is one error that names the journal.
    with journal.reading:
        outcome = decode_outcome(
            stage,
            stored.status,
            texts,
            stored.body,
            seconds=stored.seconds,
            sharing=stored.sharing,
            known=journal.how(stored),
        )
        return StageOutcome(outcome, stored.texts, stored.digest)


def settle_stored(stage: str, row: RunCase, stored: StoredOutcome, journal: Journal) -> bool:
    """Gives a case the outcome that the journal holds of it; returns whether that has failed.

    The journal notes that the outcome still holds, or it would count as one of an earlier run.
    """
    row.settled[stage] = restored_outcome(stage, stored, journal)
    journal.confirm(row.number, stage, stored)
    return stored.status is Status.FAILED


def outcome_passed_on(before: StageOutcome) -> StageOutcome:
    """The outcome of a stage as the next stage's, which was never asked because nothing can follow.

    A failure of retrieval, for example, is also generation's. No time is recorded: a time would
    count as one of the next stage.
    """
    # As if asked now: it is no reused or recorded outcome of the next stage.
    return before._replace(outcome=replace(before.outcome, seconds=None, known=Known.ASKED))


class AbsentStage(Record):
    """A stage that nobody can be asked for: what the source recorded is taken."""

    name: str
    reason: str
    """Why a case without a record has no outcome."""

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        """Gives every case of the window the outcome that the source recorded; skips the others.

        For a stage that the system does not have, or that cannot be called: the reason is the
        case's.
        """
        journal = run.journal
        stored_outcomes: Mapping[tuple[int, bytes], StoredOutcome] = {}
        if not journal.was_empty:
            stored_outcomes = journal.outcomes(self.name, [row.number for row in window])
        done = 0
        failed = 0
        for row in window:
            # Outcomes that were read with the cases stand in the row; here they take their place in
            # the order of the stages.
            recorded = row.settled.pop(self.name, None)
            stored = stored_outcomes.get((row.number, RECORDED))
            if recorded is not None:
                row.settled[self.name] = recorded
                is_failure = recorded.outcome.status is Status.FAILED
            elif stored is not None:
                is_failure = settle_stored(self.name, row, stored, journal)
            else:
                row.settled[self.name] = skipped_outcome(self.reason)
                continue
            done += 1
            if is_failure:
                failed += 1
        # All that it settles comes from the source: `done` counts as recorded, too.
        run.settled(self.name, done, failed=failed, recorded=done)


def skipped_outcome(reason: str) -> StageOutcome:
    """The outcome of a stage that does not apply to a case, with the reason for its reader.

    The outcome has no digest of texts, which later stages would compare: it never changes.
    """
    return StageOutcome(Outcome(status=Status.SKIPPED, reason=reason), b"", NOTHING)
