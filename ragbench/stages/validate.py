"""Validate as a stage: of a run and of a dump; and its tally.

In a run it stands behind post-retrieval and changes nothing of what generation is given.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from ragbench.core.case import Case, Said
from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.trace import RunCase, StageOutcome, Trace
from ragbench.core.validation import (
    MatrixCell,
    RetrievalDump,
    RetrievalQuality,
    ValidationTable,
    Verdict,
)
from ragbench.errors import (
    ConfigError,
    InterfaceError,
    InterruptedRunError,
    LLMStoppedError,
    MissingExtraError,
)
from ragbench.ledger.content import distributions
from ragbench.ledger.fingerprint import SIZE, fingerprint, fixed_digest
from ragbench.stages.call_stage import Ahead, CallStage, Given
from ragbench.stages.rag import ChunksInput, reads_chunks
from ragbench.stages.stage import STOPPED, Running
from ragbench.stats.mean import share_of
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.validator import Validator, in_conversation
from ragbench.workers.pool import Map, Task, WorkerPool

if TYPE_CHECKING:
    from ragbench.io.dumps.pieces import Place

VALIDATE = "validate"


def validator_fingerprint(validator: Validator) -> str:
    """Changes whenever the same chunks could get another verdict."""
    # Its rules change with the package that it comes with, whatever it says of itself, and with a
    # checkout of that package, whose version stays.
    return fingerprint((VALIDATE, *_rules(), validator.name, validator.identity))


@lru_cache(maxsize=1)
def _rules() -> tuple[Mapping[str, str], str]:
    """The package's version, and a digest of its code that reads questions and chunks.

    About 40 files, a few milliseconds.
    """
    whole = hashlib.sha256()
    read = [one for one in files("ragbench.io").iterdir() if one.name == "chunk_identity.py"]
    for package in ("ragbench.text", "ragbench.validators"):
        read += sorted(files(package).iterdir(), key=lambda one: one.name)
    for file in read:
        if file.name.endswith((".py", ".toml")):
            whole.update(file.read_bytes().replace(b"\r\n", b"\n"))
    version = {name: version for name, version, _ in distributions() if name == "ragbench"}
    return version, whole.hexdigest()


def validate_query(validator: Validator, dump: RetrievalDump, history: Said = ()) -> Verdict:
    """The verdict on what was retrieved for a query, with everything that is to be warned of.

    Its ``query_id`` is empty: the same chunks get the same verdict, whatever the query is called.
    """
    if history:
        given = in_conversation(validator, dump.query, dump.chunks, history)
    else:
        given = validator.validate(dump.query, dump.chunks)
    verdict = cast("object", given)  # one of the user's own gives what it likes
    if not isinstance(verdict, Verdict):
        kind = type(verdict).__name__
        raise InterfaceError(f"validator '{validator.name}' returned a {kind}, not a Verdict")
    found = verdict.inspection
    if found is None:
        found = inspect_chunks(dump.query, dump.chunks).warnings
    conflicts = [one.detail for one in verdict.conflicts]
    said = {*(warning.message for warning in found), *conflicts}
    found = (*dump.warnings, *found)
    texts = [*map(str, found), *(f"conflict: {text}" for text in conflicts)]
    texts += [f"validator: {text}" for text in verdict.warnings if text not in said]
    return replace(verdict, inspection=found, warnings=tuple(texts))


def validate_stage(validator: Validator, identity: bytes) -> CallStage[ChunksInput, Verdict]:
    def call(inputs: Sequence[ChunksInput]) -> Sequence[Verdict]:
        dumps = (
            (RetrievalDump(query_id="", query=query, chunks=tuple(result.to_chunks())), said)
            for query, result, said in inputs
        )
        return [validate_query(validator, *one) for one in dumps]

    return CallStage(
        name=VALIDATE,
        identity=identity,
        reads=reads_chunks(in_conversation=True),
        call=call,
    )


# --- a dump


class FarQuery(NamedTuple):
    place: Place
    digest: bytes
    """What stood there when it was first read."""
    letters: int


class FarRetrieval(RetrievalDump):
    """A retrieval whose texts have stayed where they are: its chunks are empty."""

    asked: FarQuery


def retrieval_digest(dump: RetrievalDump) -> bytes:
    """Digest of all of a retrieval that a validator sees; its id is not."""
    chunks = [
        (one.id, one.text, one.score, one.document_id, one.start, one.end, one.metadata)
        for one in dump.chunks
    ]
    seen = (dump.query, chunks, dump.warnings)
    try:
        options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        written = orjson.dumps(seen, default=str, option=options)
    except TypeError:  # metadata that is nested too deep to be written
        written = repr(seen).encode("utf-8", "backslashreplace")
    return fixed_digest(written)


def validator_call(make: Callable[[], Validator]) -> Map[RetrievalDump, Outcome[Verdict]]:
    """What a worker calls: a partial of this makes it."""
    validator = make()

    def call(dumps: Sequence[RetrievalDump]) -> Sequence[Outcome[Verdict]]:
        found: list[Outcome[Verdict]] = []
        for dump in dumps:
            started = time.perf_counter()
            outcome: Outcome[Verdict]
            try:
                outcome = Outcome(status=Status.MEASURED, value=validate_query(validator, dump))
            except (ConfigError, MissingExtraError, LLMStoppedError):
                raise  # every other query would fail alike
            except Exception as error:  # noqa: BLE001  # one query's failure is no other's
                outcome = Outcome(status=Status.FAILED, failure=Failure.of(error, stage=VALIDATE))
            found.append(replace(outcome, seconds=time.perf_counter() - started))
        return found

    return call


def judged_queries(
    retrievals: Iterable[RetrievalDump],
    identity: bytes,
    pool: WorkerPool[Any, Outcome[Verdict]],
    run: Running,
) -> Iterator[RunCase]:
    """Judges the queries of a dump in a pool, windows ahead of the one that is given."""
    stage: CallStage[RetrievalDump, Verdict] = CallStage(
        name=VALIDATE,
        identity=identity,
        reads=lambda row: Given(cast("Any", row.settled["retrieve"].outcome.value), row.digest),
    )
    ahead, windows = Ahead(stage, pool, run), deque[Sequence[RunCase]]()

    def settled() -> Sequence[RunCase]:
        ahead.settle()
        if run.stopped():
            run.journal.flush()
            raise InterruptedRunError(STOPPED)
        return windows.popleft()

    for cut in pool.cut(retrievals, letters):
        if run.stopped():
            ahead.finish()
            raise InterruptedRunError(STOPPED)
        windows.append([*map(_row, cut)])
        todo = stage.take(windows[-1], run)
        if ahead.begin(todo, [asked_of(one.input) for one in todo]):
            yield from settled()
    while windows:
        yield from settled()
    run.journal.flush()


def _row(dump: RetrievalDump) -> RunCase:
    """A query of a dump on its way through the stage.

    Its number is a digest of all that the validator sees: a line keeps its verdict wherever it
    stands in the dump, and whatever stands before it.
    """
    digest = dump.asked.digest if isinstance(dump, FarRetrieval) else retrieval_digest(dump)
    number = int.from_bytes(digest[: SIZE // 2], "big") >> 1  # what SQLite can hold
    retrieved: Outcome[RetrievalDump] = Outcome(
        status=Status.MEASURED, value=dump, known=Known.RECORDED
    )
    case = Case(id=dump.query_id, query=dump.query)
    return RunCase(number, case, digest, {"retrieve": StageOutcome(retrieved, b"", digest)})


def asked_of(dump: RetrievalDump) -> RetrievalDump | Task:
    """What a worker is given: of a retrieval whose texts are elsewhere its place."""
    return Task(VALIDATE, dump.asked) if isinstance(dump, FarRetrieval) else dump


def letters(asked: RetrievalDump | Task) -> int:
    far = asked.asked if isinstance(asked, FarRetrieval) else asked
    if isinstance(far, RetrievalDump):
        return sum(len(chunk.text) for chunk in far.chunks)
    return int((far.input if isinstance(far, Task) else far).letters)


# --- the tally


@dataclass(slots=True)
class ValidationTally:
    """Counts verdicts: on the cases of a run, or on the queries of a dump."""

    validator: str = ""
    verdicts: int = 0
    chunks: int = 0
    relevant: int = 0
    present: int = 0
    reused: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list[str])
    quality: dict[str, int] = field(
        default_factory=lambda: {level.value: 0 for level in RetrievalQuality}
    )
    details: dict[str, float] = field(default_factory=dict[str, float])
    warned: Counter[str] = field(default_factory=Counter[str])
    warned_chunks: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    cells: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])

    def add(self, trace: Trace) -> None:
        if trace.validation is None:
            return
        self.count(trace.case.id, trace.validation)
        verdict, status = trace.validation.value, trace.generation.status
        if verdict is not None and status in (Status.MEASURED, Status.ABSTAINED):
            self.cells[verdict.answer_present, status is Status.MEASURED] += 1

    def count(self, name: str, outcome: Outcome[Verdict]) -> None:
        verdict = outcome.value
        if outcome.failure is not None:
            self.failed += 1
            if len(self.failures) < _EXAMPLES:
                self.failures.append(f"{name}: {outcome.failure}")
        if verdict is None:
            return
        self.validator = verdict.validator
        self.verdicts += 1
        self.chunks += len(verdict.relevance)
        self.relevant += len(verdict.relevant_chunk_ids)
        self.present += verdict.answer_present
        self.reused += outcome.known is Known.REUSED
        self.quality[verdict.retrieval_quality.value] += 1
        for detail, value in verdict.details.items():
            self.details[detail] = self.details.get(detail, 0) + value
        found = verdict.inspection or ()
        kinds = [(warning.kind.value, warning.count) for warning in found]
        kinds += [(text.partition(":")[0], 1) for text in verdict.warnings[len(found) :]]
        if kinds:
            self.count_warnings(name, kinds)

    def count_warnings(self, name: str, kinds: Iterable[tuple[str, int]]) -> None:
        seen: dict[str, int] = Counter()
        for kind, chunks in kinds:
            seen[kind] += chunks
        self.warned_chunks.update(seen)
        for kind in seen:
            self.warned[kind] += 1
            examples = self.examples.setdefault(kind, [])
            if len(examples) < _EXAMPLES:
                examples.append(name)

    def table(self) -> ValidationTable | None:
        if not self.verdicts:
            return None
        cells, both = self.cells, (True, False)
        totals = {present: sum(cells[present, answered] for answered in both) for present in both}
        return ValidationTable(
            validator=self.validator,
            verdicts=self.verdicts,
            quality=dict(self.quality),
            answer_present=share_of(self.present, self.verdicts),
            matrix=tuple(
                MatrixCell(
                    answer_present=present,
                    answered=answered,
                    rate=share_of(cells[present, answered], totals[present]),
                )
                for present in both
                for answered in both
            ),
            unmatched=self.verdicts - cells.total(),
        )


_EXAMPLES = 5
