"""Validate as a stage: of a run and of a dump; and its tally.

In a run it stands behind post-retrieval and changes nothing of what generation is given.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from ragbench.core.calling import bears_calls
from ragbench.core.case import Case, Said
from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.trace import RunCase, StageOutcome, Trace
from ragbench.core.validation import (
    AnswerWord,
    AnswerWorth,
    MatrixCell,
    RetrievalDump,
    RetrievalQuality,
    ValidationTable,
    Verdict,
    WordCount,
)
from ragbench.errors import (
    ConfigError,
    InterfaceError,
    InterruptedRunError,
    LLMStoppedError,
    MissingExtraError,
    NoContextsError,
)
from ragbench.ledger.content import distributions
from ragbench.ledger.fingerprint import SIZE, fingerprint, fixed_digest
from ragbench.stages.call_stage import Ahead, CallStage, Given, has_calls_at_once
from ragbench.stages.rag import ChunksInput, reads_chunks
from ragbench.stages.stage import STOPPED, Running, run_stages
from ragbench.stats.mean import share_of
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.validator import Validator, in_conversation
from ragbench.workers.pool import Map, Task, WorkerPool

if TYPE_CHECKING:
    from ragbench.io.dumps.pieces import Place

VALIDATE = "validate"
_FINAL = (ConfigError, MissingExtraError, LLMStoppedError)
"""Errors of a validator that every other query would meet, too."""


def validator_fingerprint(validator: Validator) -> str:
    """The fingerprint under which a validator's verdicts are kept.

    The fingerprint changes whenever the same chunks could get another verdict; stored verdicts are
    then not used.
    """
    # The rules of a validator change with the package that it comes with, even where its own
    # identity stays the same, and with a checkout of that package, even where its version stays.
    return fingerprint((VALIDATE, *_package_rules(), validator.name, validator.identity))


@lru_cache(maxsize=1)
def _package_rules() -> tuple[Mapping[str, str], str]:
    """The package's version, and a digest of its code that reads questions and chunks.

    Verdicts rest on that code: a change of it makes stored verdicts unusable. About 40 files, a few
    milliseconds, read once.
    """
    # Chunk identity is read with each retrieval, though it lies in another package.
    rule_files = [files("ragbench.io") / "chunk_identity.py"]
    for package in ("ragbench.text", "ragbench.validators"):
        # By name, so that the digest does not depend on the order of the file system.
        rule_files += sorted(files(package).iterdir(), key=lambda file: file.name)
    rules = hashlib.sha256()
    for file in rule_files:
        # The rules and their tables; models and weights have digests of their own.
        if file.name.endswith((".py", ".toml")):
            # A checkout may have other ends of lines than the package.
            rules.update(file.read_bytes().replace(b"\r\n", b"\n"))
    versions: dict[str, str] = {}
    for name, version, _ in distributions():
        if name == "ragbench":
            versions[name] = version
    return versions, rules.hexdigest()


def validate_query(validator: Validator, dump: RetrievalDump, history: Said = ()) -> Verdict:
    """The validator's verdict on what was retrieved for a query, with all warnings in one place.

    The verdict's ``query_id`` is empty: the same chunks get the same one under any id. A
    user's validator that returns anything else is an error with its name.
    """
    # Without a history every validator can be asked, also one that takes no conversation.
    if history:
        returned = in_conversation(validator, dump.query, dump.chunks, history)
    else:
        returned = validator.validate(dump.query, dump.chunks)
    verdict = cast("object", returned)  # one of the user's own gives what it likes
    if not isinstance(verdict, Verdict):
        kind = type(verdict).__name__
        raise InterfaceError(f"validator '{validator.name}' returned a {kind}, not a Verdict")
    inspection = verdict.inspection
    # A validator that has not inspected the chunks has it done here.
    if inspection is None:
        inspection = inspect_chunks(dump.query, dump.chunks).warnings
    conflicts = [conflict.detail for conflict in verdict.conflicts]
    # A validator repeats as its own warnings what it was warned of, and its conflicts.
    repeated = {*(warning.message for warning in inspection), *conflicts}
    # Warnings of the dump's reader first: they are about what the validator never saw.
    inspection = (*dump.warnings, *inspection)
    # In this order: the inspection, conflicts, the rest; `ValidationTally.count` relies on it.
    texts = [str(warning) for warning in inspection]
    texts += [f"conflict: {conflict}" for conflict in conflicts]
    texts += [f"validator: {warning}" for warning in verdict.warnings if warning not in repeated]
    return replace(verdict, inspection=inspection, warnings=tuple(texts))


def validate_stage(validator: Validator, identity: bytes) -> CallStage[ChunksInput, Verdict]:
    """The stage of a run that judges the chunks that generation is given.

    Args:
        identity: a digest of the validator: stored verdicts are found under it.
    """
    return CallStage(
        name=VALIDATE,
        identity=identity,
        reads=reads_chunks(in_conversation=True),
        call=partial(_verdicts_on_cases, validator),
        bears_calls=bears_calls(validator),
        final=_FINAL,
    )


def _verdicts_on_cases(validator: Validator, inputs: Sequence[ChunksInput]) -> Sequence[Verdict]:
    """The validator's verdict on the chunks of each case of a run, in its conversation.

    In this process; a case's query comes with its chunks and the messages before it.
    """
    verdicts: list[Verdict] = []
    for query, result, history in inputs:
        # Without an id: the same chunks of two queries share one stored verdict.
        dump = RetrievalDump(query_id="", query=query, chunks=tuple(result.to_chunks()))
        verdicts.append(validate_query(validator, dump, history))
    return verdicts


# --- a dump


class FarQuery(NamedTuple):
    """Where a query of a dump stands, for a worker that reads it there."""

    place: Place
    digest: bytes
    """What stood there when it was first read."""
    letters: int
    """The length of its texts, by which queries are shared out."""


class FarRetrieval(RetrievalDump):
    """A retrieval whose texts have stayed where they are: its chunks are empty."""

    asked: FarQuery
    """What a worker is given in its place."""


def retrieval_digest(dump: RetrievalDump) -> bytes:
    """Digest of all of a retrieval that a validator sees; the query's id is no part of it.

    A stored verdict is looked up by this digest, so that a query keeps its verdict under another
    name. Another form of it makes all stored verdicts unusable.
    """
    chunks: list[tuple[object, ...]] = []
    for chunk in dump.chunks:
        fields = (
            chunk.id,
            chunk.text,
            chunk.score,
            chunk.document_id,
            chunk.start,
            chunk.end,
            chunk.metadata,
        )
        chunks.append(fields)
    # Warnings are part of it: a verdict repeats them.
    content = (dump.query, chunks, dump.warnings)
    try:
        options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        # Keys are sorted: metadata in another order are the same. Values that JSON lacks count as
        # text.
        written = orjson.dumps(content, default=str, option=options)
    except TypeError:  # metadata that is nested too deep to be written
        written = repr(content).encode("utf-8", "backslashreplace")
    return fixed_digest(written)


def validator_call(make: Callable[[], Validator]) -> Map[RetrievalDump, Outcome[Verdict]]:
    """Makes the function with which a worker judges retrievals.

    Args:
        make: makes the validator, once in each worker; a worker is sent a partial of this.
    """
    return partial(_outcomes_of_dumps, make())


def _outcomes_of_dumps(
    validator: Validator, dumps: Sequence[RetrievalDump]
) -> Sequence[Outcome[Verdict]]:
    """The validator's verdict on each retrieval, or its failure, and how long that took.

    Runs on a worker. Only an error that every query would meet is raised.
    """
    outcomes: list[Outcome[Verdict]] = []
    for dump in dumps:
        started = time.perf_counter()
        outcome: Outcome[Verdict]
        # The time counts for failures, too.
        try:
            outcome = Outcome(status=Status.MEASURED, value=validate_query(validator, dump))
        except _FINAL:
            raise
        except Exception as error:  # noqa: BLE001  # one query's failure is no other's
            outcome = Outcome(status=Status.FAILED, failure=Failure.of(error, stage=VALIDATE))
        outcomes.append(replace(outcome, seconds=time.perf_counter() - started))
    return outcomes


def dump_stage(validator: Validator, identity: bytes) -> CallStage[RetrievalDump, Verdict]:
    """The stage that judges the queries of a dump, whose chunks are all that is known of them.

    Args:
        identity: a digest of the validator: stored verdicts are found under it.
    """
    return CallStage(
        name=VALIDATE,
        identity=identity,
        reads=lambda row: Given(cast("Any", row.settled["retrieve"].outcome.value), row.digest),
        call=partial(_verdicts_on_dumps, validator),
        bears_calls=bears_calls(validator),
        final=_FINAL,
    )


def _verdicts_on_dumps(validator: Validator, dumps: Sequence[RetrievalDump]) -> Sequence[Verdict]:
    """The validator's verdict on each retrieval of a dump, in this process."""
    try:
        return [validate_query(validator, dump) for dump in dumps]
    except NoContextsError as error:
        # In a run such a case is skipped; a query of a dump has a verdict or a failure.
        raise InterfaceError(f"validator '{validator.name}': {error}") from error


Tally = Callable[[RetrievalDump, Outcome[Verdict]], None]
"""Takes what each query has come to, in the order of the dump."""
_MOST_UNDER_WAY = 512
"""Queries that may be under way at once: those behind a slow one wait for it to be counted."""


def judge_here(
    retrievals: Iterable[RetrievalDump],
    stage: CallStage[RetrievalDump, Verdict],
    run: Running,
    tally: Tally,
) -> None:
    """Judges the queries of a dump in this process, several at once where the validator waits.

    A validator waits where it asks a service; any other judges one query after the other.
    """
    # Each is a window of its own: its verdict is shown as soon as it is there.
    # A generator: the dump is read as far as windows are under way.
    windows = ([_row_of_dump(dump)] for dump in retrievals)
    if not has_calls_at_once([stage], run):
        run_stages(windows, [stage], run, partial(_count_row, tally))
        return
    from ragbench.stages.flow import run_flow

    run_flow(windows, [stage], run, partial(_count_row, tally), most_windows=_MOST_UNDER_WAY)


def judge_on_workers(
    retrievals: Iterable[RetrievalDump],
    stage: CallStage[RetrievalDump, Verdict],
    pool: WorkerPool[Any, Outcome[Verdict]],
    run: Running,
    tally: Tally,
) -> None:
    """Judges the queries of a dump on workers, and counts their verdicts in the dump's order.

    Batches are begun ahead of the one that is counted, so that no worker is idle.
    """
    for row in _judged_ahead(retrievals, stage, pool, run):
        _count_row(tally, row)


def _count_row(tally: Tally, row: RunCase) -> None:
    """Hands a judged query of a dump to the tally, with its verdict or failure.

    The loop of a run gives rows of cases; the tally of a dump takes retrievals.
    """
    dump = cast("RetrievalDump", row.settled["retrieve"].outcome.value)
    tally(dump, row.settled[VALIDATE].outcome)


def _judged_ahead(
    retrievals: Iterable[RetrievalDump],
    stage: CallStage[RetrievalDump, Verdict],
    pool: WorkerPool[Any, Outcome[Verdict]],
    run: Running,
) -> Iterator[RunCase]:
    """The queries of a dump with their verdicts, in their order, judged on workers.

    A window is what fits into a batch of a worker; the verdicts of the one that was begun first are
    waited for as soon as all workers have enough to do.
    """
    ahead = Ahead(stage, pool, run)
    begun_windows = deque[Sequence[RunCase]]()
    # Cut by the letters of their texts, so that batches take about the same time.
    for dumps in pool.cut(retrievals, letters):
        if run.stopped():
            ahead.finish()
            raise InterruptedRunError(STOPPED)
        window = [_row_of_dump(dump) for dump in dumps]
        begun_windows.append(window)
        todo = stage.take(window, run)
        # Also an empty batch is begun, where all verdicts are stored: windows and batches stay in
        # step.
        is_full = ahead.begin(todo, [_worker_input(work.input) for work in todo])
        if is_full:
            yield from _settled_oldest(ahead, begun_windows)
    # At the end of the dump the rest is waited for, oldest first.
    while begun_windows:
        yield from _settled_oldest(ahead, begun_windows)
    run.journal.flush()


def _settled_oldest(
    ahead: Ahead[RetrievalDump, Verdict], begun_windows: deque[Sequence[RunCase]]
) -> Sequence[RunCase]:
    """The window of queries that workers began first, once it is judged and stored.

    Verdicts so come in the order of the dump. A run that was stopped ends here.

    Args:
        begun_windows: windows under way, oldest first; the returned one is taken out.
    """
    ahead.settle()
    if ahead.run.stopped():
        ahead.run.journal.flush()
        raise InterruptedRunError(STOPPED)
    return begun_windows.popleft()


def _row_of_dump(dump: RetrievalDump) -> RunCase:
    """A query of a dump in the form in which stages take the cases of a run.

    The row's number is a digest of all that the validator sees, by which the journal knows the
    query: it keeps its verdict wherever it is in the dump, and whatever comes before it.
    """
    if isinstance(dump, FarRetrieval):
        digest = dump.asked.digest
    else:
        digest = retrieval_digest(dump)
    # Half of the digest as a number, with the top bit free: SQLite's integers are signed.
    number = int.from_bytes(digest[: SIZE // 2], "big") >> 1  # what SQLite can hold
    retrieved: Outcome[RetrievalDump] = Outcome(
        status=Status.MEASURED, value=dump, known=Known.RECORDED
    )
    case = Case(id=dump.query_id, query=dump.query)
    return RunCase(number, case, digest, {"retrieve": StageOutcome(retrieved, b"", digest)})


def _worker_input(dump: RetrievalDump) -> RetrievalDump | Task:
    """The thing that a worker is sent of a retrieval, to judge it.

    The retrieval itself or, where a dump's texts are read by workers, the place of its texts.
    """
    if isinstance(dump, FarRetrieval):
        return Task(VALIDATE, dump.asked)
    return dump


def letters(retrieval: RetrievalDump | Task) -> int:
    """The length of a retrieval's texts in characters, by which retrievals are shared out.

    Workers get batches of about equal length, since long texts take longer to judge.
    """
    if isinstance(retrieval, Task):
        # A task is a query whose texts a worker reads.
        return int(retrieval.input.letters)
    if isinstance(retrieval, FarRetrieval):
        return retrieval.asked.letters
    return sum(len(chunk.text) for chunk in retrieval.chunks)


# --- the tally


_MOST_EXAMPLES = 5
"""How many failures are listed, and how many names of cases beside a kind of warning."""


@dataclass(slots=True)
class ValidationTally:
    """Counts verdicts: on the cases of a run, or on the queries of a dump."""

    validator: str = ""
    verdicts: int = 0
    chunks: int = 0
    """Chunks that have a verdict."""
    relevant: int = 0
    """Of these, those that are relevant."""
    present: int = 0
    """Verdicts that the answer is in the chunks."""
    words: Counter[AnswerWord] = field(default_factory=Counter[AnswerWord])
    """Verdicts by the word for their probability."""
    worths: dict[AnswerWord, AnswerWorth] = field(default_factory=dict[AnswerWord, AnswerWorth])
    """By word how often it was true, the shares summed up."""
    reused: int = 0
    """Verdicts of an earlier run."""
    failed: int = 0
    """Queries without a verdict."""
    failures: list[str] = field(default_factory=list[str])
    """The first failures, each with its case."""
    quality: dict[str, int] = field(
        default_factory=lambda: {level.value: 0 for level in RetrievalQuality}
    )
    details: dict[str, float] = field(default_factory=dict[str, float])
    """The validator's own counts by name, summed up."""
    warned: Counter[str] = field(default_factory=Counter[str])
    """By kind of warning: queries that have it."""
    warned_chunks: Counter[str] = field(default_factory=Counter[str])
    """By kind of warning: chunks that have it."""
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By kind of warning: the first queries that have it."""
    cells: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])
    """Cases of a run by whether the answer was present, and whether the system answered."""

    def add(self, trace: Trace) -> None:
        """Counts a case of a run: its verdict, and whether the system answered or declined.

        The four combinations show whether the system declines where it should.
        """
        if trace.validation is None:
            return
        self.count(trace.case.id, trace.validation)
        verdict = trace.validation.value
        status = trace.generation.status
        # A skipped or failed answer shows neither that the system answers nor that it declines.
        if verdict is not None and status in (Status.MEASURED, Status.ABSTAINED):
            self.cells[verdict.answer_present, status is Status.MEASURED] += 1

    def count(self, name: str, outcome: Outcome[Verdict]) -> None:
        """Counts the verdict on a case or query, with its warnings; a failure has no verdict.

        Args:
            name: the id of the case or query, for the examples.
        """
        verdict = outcome.value
        # A failure has no verdict; an outcome that was skipped has neither.
        if outcome.failure is not None:
            self.failed += 1
            if len(self.failures) < _MOST_EXAMPLES:
                self.failures.append(f"{name}: {outcome.failure}")
        if verdict is None:
            return
        self.validator = verdict.validator
        self.verdicts += 1
        self.chunks += len(verdict.relevance)
        self.relevant += len(verdict.relevant_chunk_ids)
        self.present += verdict.answer_present
        word = verdict.answer_word
        worth = verdict.answer_worth
        if word is not None:
            self.words[word] += 1
        # Shares are summed here, and become means in `by_word`.
        if word is not None and worth is not None:
            summed = worth.share
            if word in self.worths:
                summed += self.worths[word].share
            self.worths[word] = replace(worth, share=summed)
        self.reused += outcome.known is Known.REUSED
        self.quality[verdict.retrieval_quality.value] += 1
        for detail, value in verdict.details.items():
            self.details[detail] = self.details.get(detail, 0) + value
        inspection = verdict.inspection or ()
        kinds = [(warning.kind.value, warning.count) for warning in inspection]
        # The texts repeat the inspection first; only what follows has no count of its own.
        for text in verdict.warnings[len(inspection) :]:
            # The kind is the word before the colon, such as "conflict".
            kind, _, _ = text.partition(":")
            kinds.append((kind, 1))
        if kinds:
            self.count_warnings(name, kinds)

    def count_warnings(self, name: str, kinds: Iterable[tuple[str, int]]) -> None:
        """Counts the warnings on a query by kind: queries that have one, their chunks, examples.

        Args:
            kinds: the kind of each warning, and how many chunks have it.
        """
        # A query may have several warnings of a kind: it counts once for it.
        chunks_by_kind: dict[str, int] = Counter()
        for kind, chunks in kinds:
            chunks_by_kind[kind] += chunks
        self.warned_chunks.update(chunks_by_kind)
        for kind in chunks_by_kind:
            self.warned[kind] += 1
            examples = self.examples.setdefault(kind, [])
            if len(examples) < _MOST_EXAMPLES:
                examples.append(name)

    def by_word(self) -> tuple[WordCount, ...]:
        """The verdicts by the word for their probability, the surest first, for a table.

        Each with how often the word was true where that was measured.
        """
        counts: list[WordCount] = []
        for word in AnswerWord:
            count = self.words[word]
            worth = self.worths.get(word)
            # Shares were summed up while verdicts were counted: here they become their mean.
            if worth is not None:
                worth = replace(worth, share=round(worth.share / count, 4))
            if count:
                counts.append(WordCount(word=word, count=count, worth=worth))
        return tuple(counts)

    def table(self) -> ValidationTable | None:
        """The report's table of verdicts on the cases of a run; None without any verdict.

        How good retrieval was by the validator and, for each verdict, how often the system
        answered: it should decline where no answer is present.
        """
        if not self.verdicts:
            return None
        matrix: list[MatrixCell] = []
        for is_present in (True, False):
            total = self.cells[is_present, True] + self.cells[is_present, False]
            for is_answered in (True, False):
                # Of all cases with the same verdict; None where there are none.
                rate = share_of(self.cells[is_present, is_answered], total)
                matrix.append(
                    MatrixCell(answer_present=is_present, answered=is_answered, rate=rate)
                )
        return ValidationTable(
            validator=self.validator,
            verdicts=self.verdicts,
            quality=dict(self.quality),
            answer_present=share_of(self.present, self.verdicts),
            words=self.by_word(),
            matrix=tuple(matrix),
            unmatched=self.verdicts - self.cells.total(),
        )
