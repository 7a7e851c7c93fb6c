"""One stage over a window of cases: what the journal knows is taken, the rest is computed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from ragbench.engines.local import run_async, run_plain
from ragbench.errors import ConfigError, InterfaceError
from ragbench.records.cells import Failure, Outcome, Status
from ragbench.runs.codec import check_text, decode_failure, encode_failure
from ragbench.runs.fingerprint import text_digests
from ragbench.runs.journal import Journal, StoredOutcome, output_digest

__all__ = ["Limits", "Settle", "Settled", "Stage", "Work", "run_stage"]

InputT = TypeVar("InputT")
ValueT = TypeVar("ValueT")


InLoop = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a coroutine to its end in the run's event loop."""

_LONGEST_TIMEOUT = 1e6
"""Seconds, 11 days: a batch's limit must stay within what a thread can wait for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How calls into a RAG are made.

    Raises:
        ConfigError: a number is not above zero.
    """

    batch_size: int = 32
    """Queries a call, for a RAG that takes batches."""
    concurrency: int = 1
    """Calls in flight."""
    timeout: float | None = None
    """Seconds a query; None for no limit."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name, value in (("batch size", self.batch_size), ("concurrency", self.concurrency)):
            if value < 1:
                raise ConfigError(f"the {name} must be at least 1, not {value}")
        if self.timeout is not None and not 0 < self.timeout <= _LONGEST_TIMEOUT:
            raise ConfigError(
                f"the timeout must be a number of seconds above 0, not {self.timeout}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage(Generic[InputT, ValueT]):
    """A step of a run: one call a batch, and how its values are stored."""

    name: str
    identity: bytes
    """Changes whenever the same input may give another output."""
    call: Callable[[Sequence[InputT]], Sequence[ValueT]] | None
    """Gives one value an input; None when it is a coroutine function."""
    call_async: Callable[[Sequence[InputT]], Awaitable[Sequence[ValueT]]] | None
    """The same for a RAG whose methods are coroutines."""
    takes_batches: bool
    """Whether a batch is one call of the user's. If not, each query is a call of its own, so that
    it is in the journal as soon as it is finished."""
    texts: Callable[[ValueT], Sequence[str]]
    """The context texts in a value."""
    encode: Callable[[ValueT], bytes]
    """Everything else in a value."""
    decode: Callable[[list[str], bytes], ValueT]
    """A value from its texts and the rest."""
    status: Callable[[ValueT], Status]
    """Whether a value is an answer or an abstention."""
    is_incomplete: Callable[[bytes], bool] = lambda _: False
    """Whether a stored body holds a failure that was made up for: it is worth another try."""


class Work(NamedTuple, Generic[InputT]):
    """A case's turn at a stage."""

    number: int
    """The case's number in the journal."""
    key: bytes
    """Digest of everything that the output depends on."""
    input: InputT


class Settled(NamedTuple):
    """A stage's outcome for a case, and what work downstream depends on."""

    outcome: Outcome[Any]
    texts: bytes
    """Digests of the context texts."""
    digest: bytes
    """Digest of the whole output."""


_AT_RISK = 0.0005
"""Seconds of the RAG's work that a crash may cost at most."""


Settle = Callable[[str, int, int, int], None]
"""Told of cases settled: stage, how many, how many of them failed, how many were reused."""


def run_stage(
    stage: Stage[InputT, ValueT],
    work: Sequence[Work[InputT]],
    journal: Journal,
    limits: Limits,
    *,
    retry_failed: bool,
    stopped: Callable[[], bool],
    in_loop: InLoop,
    settle: Settle,
) -> dict[int, Settled]:
    """Settles each case's turn at a stage.

    Every outcome is recorded as it happens, and made crash-proof once the calls since the last
    time took half a millisecond: a killed run repeats at most so much finished work of the RAG.

    Args:
        stage: what is called.
        work: the cases' turns.
        journal: where outcomes are looked up and recorded.
        limits: how calls are made.
        retry_failed: call again where the journal holds a failure.
        stopped: asked before each call; once true, what is in flight is finished and no more.
        in_loop: runs a coroutine in the run's event loop.
        settle: told of cases as they are settled.

    Returns:
        Case number to what was settled; after a stop, not all of them.
    """
    settled: dict[int, Settled] = {}
    todo: list[Work[InputT]] = []
    known = {} if journal.was_empty else journal.outcomes(stage.name, [w.number for w in work])
    for item in work:
        stored = known.get((item.number, item.key))
        if stored is None or (retry_failed and _has_failed(stage, stored)):
            todo.append(item)
        else:
            settled[item.number] = _restore(stage, stored, journal)
    if settled:
        failed = sum(entry.outcome.status == Status.FAILED for entry in settled.values())
        settle(stage.name, len(settled), failed, len(settled))
    at_risk = 0.0

    def keep(batch: Sequence[Work[InputT]], outcomes: list[Outcome[ValueT]]) -> None:
        nonlocal at_risk
        failed = 0
        for item, outcome in zip(batch, outcomes, strict=True):
            entry = _record(stage, item, outcome, journal)
            settled[item.number] = entry
            failed += entry.outcome.status == Status.FAILED
            at_risk += outcome.seconds or 0.0
        if at_risk > _AT_RISK:
            journal.flush()
            at_risk = 0.0
        settle(stage.name, len(batch), failed, 0)

    size = limits.batch_size if stage.takes_batches else 1
    batches = [todo[at : at + size] for at in range(0, len(todo), size)]
    _call(stage, batches, limits, stopped, in_loop, keep)
    journal.flush()
    return settled


def _has_failed(stage: Stage[Any, Any], stored: StoredOutcome) -> bool:
    return stored.status == Status.FAILED or stage.is_incomplete(stored.body)


def _call(
    stage: Stage[InputT, ValueT],
    batches: Sequence[Sequence[Work[InputT]]],
    limits: Limits,
    stopped: Callable[[], bool],
    in_loop: InLoop,
    keep: Callable[[Sequence[Work[InputT]], list[Outcome[ValueT]]], None],
) -> None:
    plain, coroutine = stage.call, stage.call_async
    if plain is not None:
        for batch, outcomes in run_plain(
            lambda items: plain([item.input for item in items]),
            batches,
            stage=stage.name,
            concurrency=limits.concurrency,
            timeout=limits.timeout,
            stopped=stopped,
        ):
            keep(batch, outcomes)
    elif coroutine is not None:
        in_loop(
            run_async(
                lambda items: coroutine([item.input for item in items]),
                batches,
                stage=stage.name,
                finished=keep,
                concurrency=limits.concurrency,
                timeout=limits.timeout,
                stopped=stopped,
            )
        )


def _record(
    stage: Stage[Any, ValueT], item: Work[Any], outcome: Outcome[ValueT], journal: Journal
) -> Settled:
    """Stores an outcome, and gives it back as a later run will read it.

    What follows works with that: were it to use the RAG's own objects, numbers and types that JSON
    does not know would score in one way now and in another after an interruption, and what the RAG
    does with its objects later would change what is scored.
    """
    value, seconds = outcome.value, outcome.seconds
    try:
        if value is None:
            return _record_failure(stage, item, outcome, journal)
        texts = [*stage.texts(value)]
        digests = text_digests(texts)
        status, joined, body = stage.status(value), b"".join(digests), stage.encode(value)
        restored = stage.decode(texts, body)
    except (ValueError, TypeError, InterfaceError) as error:  # the value cannot be written down
        failure = Failure.of(_said_better(error), stage=stage.name)
        failed: Outcome[ValueT] = Outcome(status=Status.FAILED, failure=failure, seconds=seconds)
        return _record_failure(stage, item, failed, journal)
    output = output_digest(status, joined, body)
    journal.record_outcome(
        item.number,
        stage.name,
        item.key,
        StoredOutcome(status, joined, body, seconds, output),
        zip(digests, texts, strict=True),
    )
    return Settled(Outcome(status=status, value=restored, seconds=seconds), joined, output)


def _said_better(error: Exception) -> Exception:
    """The error about a broken text as one that shows where it is broken."""
    if isinstance(error, UnicodeEncodeError):
        try:
            check_text(error.object)
        except ValueError as better:
            return better
    return error


def _record_failure(
    stage: Stage[Any, ValueT], item: Work[Any], outcome: Outcome[ValueT], journal: Journal
) -> Settled:
    failure = outcome.failure
    if failure is None:
        failure = Failure(type="InterfaceError", message="it returned None", stage=stage.name)
        outcome = replace(outcome, status=Status.FAILED, failure=failure)
    body = encode_failure(failure)
    output = output_digest(Status.FAILED, b"", body)
    stored = StoredOutcome(Status.FAILED, b"", body, outcome.seconds, output)
    journal.record_outcome(item.number, stage.name, item.key, stored)
    return Settled(outcome, b"", output)


def _restore(stage: Stage[Any, ValueT], stored: StoredOutcome, journal: Journal) -> Settled:
    outcome: Outcome[ValueT]
    if stored.status == Status.FAILED:
        failure = decode_failure(stored.body)
        outcome = Outcome(status=stored.status, failure=failure, seconds=stored.seconds)
    else:
        value = stage.decode(journal.texts(stored.texts), stored.body)
        outcome = Outcome(status=stored.status, value=value, seconds=stored.seconds)
    return Settled(outcome, stored.texts, stored.digest)
