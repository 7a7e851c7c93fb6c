"""validate_dump(): a dump of retrievals through a validator, to verdicts and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from ragbench.data.dumps.read import OpenDump
from ragbench.engines.ordered import map_in_threads
from ragbench.engines.processes import map_in_processes
from ragbench.errors import DataError, InterruptedRunError, Problem
from ragbench.evaluation.judge_dump import Judged, Told, dump_digest, judge_with
from ragbench.evaluation.validation_tally import share_of
from ragbench.evaluation.verdict_file import VerdictFile, verdict_file
from ragbench.records.dump_summaries import Demand, DumpSummary, WarningCount
from ragbench.records.dumps import RetrievalDump
from ragbench.records.validation import RetrievalQuality
from ragbench.runs.fingerprint import fingerprint
from ragbench.validation.validator import Validator

__all__ = ["Demands", "DumpAdvance", "validate_dump"]

DumpAdvance = Callable[[int, int, int], None]
"""Told of progress: queries settled, how many of those failed, how many came from an
earlier run."""

_EXAMPLES = 5
_LINES = 2
"""Version of what a line says of the same verdict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demands:
    """What the verdicts on a dump must come to."""

    answer_present: float | None = None
    """Least share of queries whose answer is present."""
    quality: Mapping[RetrievalQuality, float] = field(default_factory=dict[RetrievalQuality, float])
    """Least share of queries that are rated so or better."""
    relevant: float | None = None
    """Least share of chunks that are relevant."""


def validate_dump(
    dump: OpenDump,
    make: Callable[[], Validator],
    *,
    out: Path | None = None,
    emit: Callable[[Told, bytes], None] | None = None,
    demands: Demands | None = None,
    workers: int = 1,
    threads: int = 1,
    limit: int | None = None,
    strict: bool = False,
    fresh: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    advance: DumpAdvance | None = None,
) -> DumpSummary:
    """Judges every query of a dump, in its order.

    Memory stays flat: neither queries nor verdicts are kept. Called again with the same arguments
    after an interruption, it takes the verdicts that were stored and judges the rest.

    Args:
        dump: see `ragbench.data.dumps.read.open_dump`.
        make: makes the validator; with several workers a function of a module, or a partial of one.
        out: file of the verdicts, a line a query; it appears whole, when all are there.
        emit: given each verdict with what is known of its query.
        demands: what the summary is held against.
        workers: processes that judge.
        threads: calls side by side in this process, for a validator that waits for another one's
            answer; only with one worker.
        limit: judge only so many queries.
        strict: refuse a dump with a record that cannot be read.
        fresh: judge everything anew.
        stopped: asked between queries; once true, what is in flight is finished and stored.
        advance: told of progress.

    Raises:
        DataError: no query can be judged, or ``strict`` and a record cannot be read.
        RunLockedError: another process writes ``out``.
        InputError: ``out`` cannot be written.
        InterruptedRunError: `stopped` said so.
    """
    validator = make()  # what it lacks is told before anything is written
    identity = fingerprint((_LINES, validator.name, validator.identity, asdict(dump.mapping)))
    tally = _Tally()
    with ExitStack() as stack:
        file = None
        if out is not None:
            file = stack.enter_context(verdict_file(out, identity, fresh=fresh))
        source = _taken(dump, limit, strict=strict)
        for judged, is_earlier in _judged(file, source, make, workers, threads, stopped):
            tally.add(judged.told)
            if emit is not None:
                emit(judged.told, judged.line)
            if advance is not None:
                advance(1, int(judged.told.failure is not None), int(is_earlier))
        if stopped():
            where = "" if file is None else f"what is finished is stored in {file.partial}. "
            again = "The same command continues" if file is not None else "nothing was stored"
            raise InterruptedRunError(f"{where}{again}")
        if not tally.queries and not tally.failures:
            raise DataError(dump.problems.items or [_nothing(dump.name)])
        if file is not None:
            file.finish()
    return tally.summary(dump, validator, identity, demands or Demands())


def _nothing(name: str) -> Problem:
    return Problem(message="it holds no query", path=name)


def _taken(dump: OpenDump, limit: int | None, *, strict: bool) -> Iterator[RetrievalDump]:
    for number, retrieval in enumerate(dump):
        if strict and dump.malformed:
            break
        if number == limit:
            return
        yield retrieval
    if strict and dump.malformed:
        raise DataError(dump.problems.items)


def _judged(
    file: VerdictFile | None,
    source: Iterator[RetrievalDump],
    make: Callable[[], Validator],
    workers: int,
    threads: int,
    stopped: Callable[[], bool],
) -> Iterator[tuple[Judged, bool]]:
    """Verdicts in order, and whether each came from an earlier run."""
    rest: Iterable[RetrievalDump] = source
    if file is not None:
        while not stopped() and (earlier := file.next_earlier()) is not None:
            retrieval = next(source, None)
            if retrieval is None or dump_digest(retrieval) != earlier.digest:
                file.cut(before=earlier)
                rest = source if retrieval is None else chain((retrieval,), source)
                break
            yield earlier, True
        if stopped():
            return
        file.cut()
    call = partial(judge_with, make)
    if workers == 1 and threads > 1:
        verdicts = map_in_threads(call, rest, workers=threads, stopped=stopped)
    else:
        verdicts = map_in_processes(call, rest, workers=workers, stopped=stopped)
    for judged in verdicts:
        if file is not None:
            file.add(judged)
        yield judged, False


@dataclass(slots=True)
class _Tally:
    """Counts over the verdicts."""

    queries: int = 0
    chunks: int = 0
    relevant: int = 0
    present: int = 0
    quality: Counter[str] = field(default_factory=Counter[str])
    warned: Counter[str] = field(default_factory=Counter[str])
    warned_chunks: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failures: int = 0
    failed: list[str] = field(default_factory=list[str])
    details: Counter[str] = field(default_factory=Counter[str])

    def add(self, told: Told) -> None:
        """Counts a verdict."""
        for kind in dict.fromkeys(kind for kind, _ in told.warnings):
            self.warned[kind] += 1
            examples = self.examples.setdefault(kind, [])
            if len(examples) < _EXAMPLES:
                examples.append(told.query_id)
        for kind, count in told.warnings:
            self.warned_chunks[kind] += count
        if told.failure is not None:
            self.failures += 1
            if len(self.failed) < _EXAMPLES:
                self.failed.append(f"{told.query_id}: {told.failure}")
            return
        self.queries += 1
        self.chunks += told.chunks
        self.relevant += told.relevant
        self.present += bool(told.answer_present)
        self.quality[str(told.quality)] += 1
        for name, value in told.details.items():
            self.details[name] += value  # type: ignore[assignment]  # a sum may be no whole number

    def summary(
        self, dump: OpenDump, validator: Validator, identity: str, demands: Demands
    ) -> DumpSummary:
        """The counts, held against the demands."""
        mapping = asdict(dump.mapping)
        return DumpSummary(
            dump=dump.name,
            mapping={
                name: None if value is None else str(value) for name, value in mapping.items()
            },
            validator=validator.name,
            identity=identity,
            queries=self.queries,
            failed=self.failures,
            malformed=dump.malformed,
            repeated_ids=dump.repeated,
            chunks=self.chunks,
            relevant_chunks=self.relevant,
            answer_present=share_of(self.present, self.queries),
            quality={level.value: self.quality[level.value] for level in RetrievalQuality},
            warnings=tuple(
                WarningCount(
                    kind=kind,
                    queries=count,
                    chunks=self.warned_chunks[kind],
                    examples=tuple(self.examples[kind]),
                )
                for kind, count in sorted(self.warned.items(), key=lambda item: (-item[1], item[0]))
            ),
            problems=tuple(map(str, dump.problems.items[:_EXAMPLES])),
            failures=tuple(self.failed),
            details=dict(sorted(self.details.items())),
            demands=tuple(self._demands(demands)),
        )

    def _demands(self, demands: Demands) -> Iterator[Demand]:
        if demands.answer_present is not None:
            yield _demand("min-answer-present", demands.answer_present, self.present, self.queries)
        levels = (RetrievalQuality.POOR, RetrievalQuality.PARTIAL, RetrievalQuality.GOOD)
        for level, wanted in demands.quality.items():
            enough = sum(self.quality[known.value] for known in levels[levels.index(level) :])
            yield _demand(f"min-quality {level.value}", wanted, enough, self.queries)
        if demands.relevant is not None:
            yield _demand("min-relevant", demands.relevant, self.relevant, self.chunks)


def _demand(name: str, wanted: float, count: int, total: int) -> Demand:
    found = count / total if total else None
    return Demand(
        name=name, wanted=wanted, found=found, is_met=found is not None and found >= wanted
    )
