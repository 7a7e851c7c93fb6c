"""A dump to verdicts.

While a run goes on, each verdict goes into the journal ``FILE.journal`` at once, under a digest of
all that it depends on, and in the order of the dump into ``FILE.partial``. When the last one is
there, the lines become ``FILE``. A process that is killed leaves ``FILE`` as it was; the same call
goes on with what the journal holds. The journal stays: of a dump that has changed, only the queries
that have changed are judged again.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import orjson
from filelock import FileLock, Timeout

from ragbench.core.calling import bears_calls
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.record import Record, field
from ragbench.core.validation import (
    DumpSummary,
    RequiredShare,
    RetrievalDump,
    RetrievalQuality,
    Verdict,
    WarningCount,
)
from ragbench.errors import (
    ConfigError,
    DataError,
    InputError,
    InterruptedRunError,
    Problem,
    RunError,
    RunLockedError,
)
from ragbench.io.atomic import written_whole
from ragbench.io.dumps.form import ScoreKind
from ragbench.io.dumps.read import OpenDump
from ragbench.io.joined import open_dump
from ragbench.io.only import Selection
from ragbench.ledger.codec import failed_verdict_object, validation_object
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import path_of
from ragbench.ledger.journal import Journal
from ragbench.masking import hidden_bytes
from ragbench.metrics.summary import most_frequent
from ragbench.plugins import import_packages_of
from ragbench.private_files import open_private
from ragbench.stages.call_stage import CallStage
from ragbench.stages.doctor import DoctorTally, earlier_verdicts
from ragbench.stages.far_dump import check_unchanged, far_calls, read_pieces, whole_retrieval
from ragbench.stages.on_workers import lost_case
from ragbench.stages.stage import CallSettings, Progress, Running
from ragbench.stages.validate import (
    VALIDATE,
    Tally,
    ValidationTally,
    dump_stage,
    judge_here,
    judge_on_workers,
    validator_call,
    validator_fingerprint,
)
from ragbench.stats.mean import share_of
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.validator import Validator, build_validator
from ragbench.workers.engines import Engine, opened_engine
from ragbench.workers.pool import Map, Task, WorkerPool

MOST_MALFORMED = 0.1
"""Share of records without a verdict up to which the others are taken to speak for the dump."""

_EXAMPLES = 5
"""Problems of a dump that its summary lists."""


class ValidatedQuery(NamedTuple):
    """A query of a dump with the verdict of the validator."""

    query_id: str
    query: str
    outcome: Outcome[Verdict]
    """The verdict, with an empty ``query_id``; or why there is none."""
    line: bytes
    """The same as it is published: JSON, without a line break."""


class Demands(Record):
    """Shares that a dump must reach; None demands nothing."""

    answer_present: float | None = None
    quality: Mapping[RetrievalQuality, float] = field(default_factory=dict[RetrievalQuality, float])
    """Least share of queries that are rated so or better."""
    relevant: float | None = None
    malformed: float = MOST_MALFORMED
    """Largest share of records that cannot be read or judged: the other shares say nothing of
    them."""


def validate_dump(
    dump: OpenDump | str | Path,
    validator: object,
    *,
    out: str | Path | None = None,
    emit: Callable[[ValidatedQuery], None] | None = None,
    demands: Demands | None = None,
    against: Path | None = None,
    engine: str = "processes",
    workers: int | None = 1,
    threads: int | None = None,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    strict: bool = False,
    fresh: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    advance: Callable[[Progress], None] | None = None,
) -> DumpSummary:
    """Judges every query of a dump, in its order.

    Memory stays flat: neither queries nor verdicts are kept. Called again with the same ``out``, it
    takes the verdicts on queries and chunks that are still the same, and judges the rest. Where the
    engine has workers and the dump is named by an address that can be read by ranges, the workers
    read it, and its texts never come here.

    Args:
        dump: a path, or what `ragbench.io.dumps.read.open_dump` gives.
        validator: its name or settings, a validator, or a function that makes one; with workers no
            validator that is there already, and a function of a module, or a partial of one.
        out: file of the verdicts, a line per query; it appears whole, when all are there.
        emit: given each verdict, in the order of the dump.
        demands: shares that the summary must reach.
        against: verdicts on another retriever's dump of the same queries, for a paired test.
        engine: where they are judged; see `ragbench.workers.engines.opened_engine`.
        workers: processes that judge; None for one per processor, but for this process where the
            validator waits for a service (``bears_calls``); 1 for this process.
        threads: concurrent calls in this process; only with one worker. None: one, but for a
            validator that waits for a service and says that it bears several calls
            (``bears_calls``) four to begin with, and up to sixteen as they are answered.
        limit: judge only so many queries.
        sample: judge only so many, drawn at random.
        seed: of the draw.
        strict: refuse a dump with a record that cannot be read.
        fresh: judge everything anew.
        stopped: asked between queries; once true, what is in flight is finished and stored.
        advance: given the progress.

    Raises:
        ConfigError: the engine is not one, or its cluster cannot be reached.
        DataError: no query can be judged, or ``strict`` and a record cannot be read.
        RunLockedError: another process writes ``out``.
        RunMismatchError: its journal is not one, or another version of ragbench wrote it.
        InputError: ``out`` cannot be written.
        InterruptedRunError: `stopped` said so.
    """
    make = _validator_maker(validator)
    # Made once here, also where workers judge: they make their own.
    judge = make()  # what it lacks is reported before anything is written
    kind = _place_of_calls(engine, workers, judge, is_alone=judge is validator)
    import_packages_of(judge)
    out_path = None if out is None else path_of(out)
    # Verdicts on other queries of the dump are another run: it is a part of the run's identity.
    # A limit, or a sample with its seed; None for the whole dump.
    selection = limit if sample is None else (sample, seed)
    with ExitStack() as stack:
        if not isinstance(dump, OpenDump):
            dump = stack.enter_context(open_dump(path_of(dump)))
        judging = _Judging(
            dump=dump,
            judge=judge,
            identity=validator_fingerprint(judge),
            make=partial(validator_call, make),
            engine=stack.enter_context(opened_engine(kind, workers=workers)),
            threads=threads,
            stopped=stopped,
            # Without a display the reports go nowhere.
            report=advance or (lambda _: None),
        )
        if against is not None:
            judging.doctor.earlier = earlier_verdicts(against)
            judging.doctor.against = str(against)
        queries: Iterable[RetrievalDump] = _queries_until_malformed(dump) if strict else dump
        if selection is not None:
            # By the query's id: a draw is the same wherever the query is in the dump.
            selected = Selection(limit=limit, sample=sample, seed=seed)
            queries = selected.apply(queries, attrgetter("query_id"))
        takers: list[Callable[[ValidatedQuery], None]] = []
        if out_path is None:
            # In memory: without a file nothing is continued.
            judging.run = judging.running(stack.enter_context(Journal(None)))
        else:
            # First of the takers: a verdict is in the file before the caller sees it.
            lines_to = judging.verdict_writer(out_path, selection, fresh=fresh)
            takers.append(stack.enter_context(lines_to))
        if emit is not None:
            takers.append(emit)
        try:
            judging.judge_all(queries, partial(_publish, takers))
        except (InterruptedRunError, KeyboardInterrupt):
            if not stopped():  # Ctrl-C in a notebook, which nobody has turned into a request
                raise
            raise InterruptedRunError(_message_after_stop(out_path)) from None
        return judging.summary(demands or Demands())


def _publish(takers: Iterable[Callable[[ValidatedQuery], None]], judged: ValidatedQuery) -> None:
    """Hands the verdict on a query to each taker: the file of verdicts, and the caller.

    In the order of the list; a verdict is in the file before the caller sees it.
    """
    for take in takers:
        take(judged)


def _message_after_stop(out: Path | None) -> str:
    """The message of a command that was stopped: what is stored, and that it can go on.

    Args:
        out: the file of the verdicts; None where nothing is stored.
    """
    if out is None:
        return "nothing was stored"
    journal = _path_beside(out, "journal")
    return f"finished queries are stored in {journal}. The same command continues"


def _place_of_calls(engine: str, workers: int | None, judge: Validator, *, is_alone: bool) -> str:
    """The engine that judges: ``local`` (this process) where a pool of workers would gain nothing.

    Nothing is gained by a pool of one process, or for a validator that waits for a service. A
    validator object cannot be copied to workers: an error.

    Args:
        is_alone: whether the validator was given as an object, so that no second one can be made.
    """
    # The user has named no number: one process asks several at a time.
    waits = workers is None and bears_calls(judge)
    if engine == "processes" and (workers == 1 or waits):
        return "local"
    if is_alone and engine != "local":
        raise ConfigError(
            f"{judge.name} is one validator, and each worker needs its own: give its name, or a "
            "function of a module that makes it"
        )
    return engine


def _validator_maker(validator: object) -> Callable[[], Validator]:
    """The function that makes the validator, in this process or in each worker.

    From a name, settings, a function or an object; anything else is an error.
    """
    # The same object each time: it cannot go to a worker.
    if isinstance(validator, Validator):
        return lambda: validator
    if isinstance(validator, (str, Mapping)):
        return partial(build_validator, validator)
    if callable(validator):
        return cast("Callable[[], Validator]", validator)
    raise ConfigError(
        "a validator is given by its name, such as 'lexical', and not by "
        f"{type(validator).__name__}"
    )


@dataclass(kw_only=True, slots=True)
class _Judging:
    """A dump on its way through a validator."""

    dump: OpenDump
    judge: Validator
    """Judges in this process; workers make their own."""
    identity: str
    """The validator's fingerprint, under which verdicts are stored."""
    make: Callable[[], Map[RetrievalDump, Outcome[Verdict]]]
    """Makes a worker's call, on the worker."""
    engine: Engine
    threads: int | None
    """Concurrent calls in this process; None where their number is not the user's."""
    stopped: Callable[[], bool]
    report: Callable[[Progress], None]
    run: Running = dataclasses.field(init=False)
    """Set before anything is judged, once its journal is open."""
    tally: ValidationTally = dataclasses.field(default_factory=ValidationTally)
    """What verdicts come to, for the summary."""
    doctor: DoctorTally = dataclasses.field(default_factory=DoctorTally)
    """What they say of the retriever."""

    def running(self, journal: Journal) -> Running:
        """Makes the object that the judging stage works with: journal, calls, stop and display.

        A query that failed in an earlier run is always tried again.
        """
        return Running(
            journal=journal,
            calls=CallSettings(concurrency=self.threads),
            retry_failed=True,
            stopped=self.stopped,
            report=self.report,
        )

    def judge_all(
        self, queries: Iterable[RetrievalDump], publish: Callable[[ValidatedQuery], None]
    ) -> None:
        """Judges every query of the dump, and publishes the verdicts in the order of the dump.

        Args:
            publish: takes each verdict as soon as those before it are published.
        """
        stage = dump_stage(self.judge, bytes.fromhex(self.identity))
        tally = partial(self._count_and_publish, publish)
        # None: the engine has no workers, and this process judges.
        if self.engine.fewest is None:
            judge_here(queries, stage, self.run, tally)
        else:
            self._judge_on_workers(queries, stage, tally)

    def _judge_on_workers(
        self,
        queries: Iterable[RetrievalDump],
        stage: CallStage[RetrievalDump, Verdict],
        tally: Tally,
    ) -> None:
        """Has workers judge the queries, and read the dump where they can reach it.

        The texts of a dump that workers read never come into this process. That the dump is
        unchanged is checked at the end.
        """
        split = self.dump.split
        make: Callable[[], Map[Any, Any]] = self.make
        # A query that takes its worker down again and again fails alone.
        lost: Callable[[Task], Any] = partial(lost_case, VALIDATE)
        if split is not None:
            make = partial(far_calls, split, make)
            lost = _lost_task
        with WorkerPool(make, self.engine, lost=lost, stopped=self.stopped) as pool:
            # Only now that the pool runs: its workers read the dump as well as judge.
            if split is not None:
                self.dump.read_elsewhere(read_pieces(split, pool))
            judge_on_workers(queries, stage, pool, self.run, tally)
        # After the last verdict: texts that workers read may have changed on the way.
        if split is not None:
            check_unchanged(split)

    def _count_and_publish(
        self,
        publish: Callable[[ValidatedQuery], None],
        query: RetrievalDump,
        outcome: Outcome[Verdict],
    ) -> None:
        """Counts the verdict on a query, or its failure, for the summary, and publishes it.

        Called once for each query, in the order of the dump.
        """
        publish(self._published(query, outcome))

    def _published(self, dump: RetrievalDump, outcome: Outcome[Verdict]) -> ValidatedQuery:
        """Counts the outcome of a query, and returns it with its line of the file of verdicts.

        A verdict that cannot be written as JSON is a failure of its query alone. The line's fields
        are a documented form, and credentials in it are hidden.
        """
        line = b""
        question = {"query_id": dump.query_id, "query": dump.query}
        if outcome.value is not None:
            try:
                verdict = validation_object(outcome.value)
                # The id once more, since a verdict has an empty one.
                line = orjson.dumps({**question, **verdict, "query_id": dump.query_id})
            except (TypeError, ValueError) as error:  # it cannot be written down
                failure = Failure.of(error, stage=VALIDATE)
                outcome = Outcome(status=Status.FAILED, failure=failure)
        # Counted after it is written: what cannot be written down counts as failed.
        self.tally.count(dump.query_id, outcome)
        if outcome.value is not None:
            self.doctor.add(dump, outcome.value)
        else:
            failure = cast("Failure", outcome.failure)
            # A verdict would hold the warnings on the query's chunks: without one they are made
            # here, of texts that are read again where workers had them.
            whole = whole_retrieval(dump, self.dump.split)
            warnings = (*dump.warnings, *inspect_chunks(dump.query, whole.chunks).warnings)
            counts = [(warning.kind.value, warning.count) for warning in warnings]
            self.tally.count_warnings(dump.query_id, counts)
            texts = [str(warning) for warning in warnings]
            failed = failed_verdict_object(dump.query_id, failure, self.judge.name, texts)
            line = orjson.dumps({**question, **failed})
        return ValidatedQuery(dump.query_id, dump.query, outcome, hidden_bytes(line))

    @contextmanager
    def verdict_writer(
        self, out: Path, selection: object, *, fresh: bool
    ) -> Generator[Callable[[ValidatedQuery], None]]:
        """Opens the journal beside a file of verdicts; yields the function that writes a verdict.

        An interrupted run continues from the journal; the file itself appears whole, at the end.
        The order of the clean-up counts: an empty journal is removed after it is closed.

        Args:
            selection: which queries of the dump are judged.
        """
        setting = fingerprint((self.identity, self.dump.name, asdict(self.dump.mapping), selection))
        journal_path = _path_beside(out, "journal")
        draft = _path_beside(out, "partial")
        with _locked(out):
            if fresh:
                _remove_journal(journal_path)
            is_empty = False
            is_done = False
            try:
                with (
                    Journal(journal_path) as journal,
                    open_private(draft, "wb+") as lines,
                ):
                    try:
                        journal.runs.begin(bytes.fromhex(setting))
                        self.run = self.running(journal)
                        # The caller judges inside of this `yield`: what follows runs when all is
                        # judged.
                        yield partial(_write_line, lines)
                        lines.seek(0)
                        # Whole or not at all; the draft stays where it cannot be written.
                        with written_whole(out) as whole:
                            shutil.copyfileobj(lines, whole)
                        journal.flush()
                        journal.runs.complete()
                        is_done = True
                    finally:
                        # Asked while the journal is open.
                        is_empty = journal.is_empty()
            finally:
                if is_done or is_empty:
                    draft.unlink(missing_ok=True)
                if is_empty:  # of a run that judged nothing, nothing is left behind
                    _remove_journal(journal_path)

    def summary(self, demands: Demands) -> DumpSummary:
        """The summary of a dump's verdicts, once all are there: shares, warnings, advice, demands.

        Args:
            demands: shares that the dump must reach.
        """
        tally = self.tally
        dump = self.dump
        doctor = self.doctor
        if not tally.verdicts and not tally.failed:
            no_query = Problem(message="it holds no query", path=dump.name)
            # Problems of reading say more than that there is no query.
            raise DataError(dump.problems.items or [no_query])
        doctor.distances = dump.mapping.scores is ScoreKind.DISTANCE
        mapping = asdict(dump.mapping)
        mapping_texts: dict[str, str | None] = dict.fromkeys(mapping)
        for name, value in mapping.items():
            if value is not None:
                mapping_texts[name] = str(value)
        shares: tuple[RequiredShare, ...] = ()
        # Without a demand and without a gap there is nothing to check.
        if dump.malformed or tally.failed or demands != Demands():
            shares = tuple(_required_shares(tally, demands, dump.malformed))
        reused_from = None
        if tally.reused:
            # The last one is this run, and the one before it had the verdicts.
            runs = sorted(self.run.journal.runs.started().items())
            # A run with reused verdicts has an earlier one, so that there are two.
            _, reused_from = runs[-2]
        return DumpSummary(
            dump=dump.name,
            mapping=mapping_texts,
            roles=dump.roles,
            validator=self.judge.name,
            # Another reading of the fields makes other queries: summaries are compared by it.
            identity=fingerprint((self.identity, mapping)),
            queries=tally.verdicts,
            failed=tally.failed,
            malformed=dump.malformed,
            repeated_ids=dump.repeated,
            reused=tally.reused,
            reused_from=reused_from,
            chunks=tally.chunks,
            relevant_chunks=tally.relevant,
            answer_present=share_of(tally.present, tally.verdicts),
            words=tally.by_word(),
            quality=dict(tally.quality),
            warnings=tuple(_warning_counts(tally)),
            problems=tuple(map(str, dump.problems.items[:_EXAMPLES])),
            failures=tuple(tally.failures),
            details=dict(sorted(tally.details.items())),
            demands=shares,
            doctor=doctor.result(),
            is_met=all(share.is_met for share in shares),
        )


def _warning_counts(tally: ValidationTally) -> Iterator[WarningCount]:
    """The warnings on a dump's chunks by kind, for its summary: the most frequent first.

    Each with how many queries and chunks have it, and a few of the queries.
    """
    for kind, count in most_frequent(tally.warned):
        yield WarningCount(
            kind=kind,
            queries=count,
            chunks=tally.warned_chunks[kind],
            examples=tuple(tally.examples[kind]),
        )


def _lost_task(task: Task) -> Any:
    """The outcome of a task that took down every worker that it was given to.

    A query to judge has failed then; a task that reads a part of the dump has no outcome: None.
    """
    if task.kind == VALIDATE:
        return lost_case(VALIDATE, task.input)
    return None


def _queries_until_malformed(dump: OpenDump) -> Iterator[RetrievalDump]:
    """The queries of a dump, for ``strict``: the first record that cannot be read is an error.

    Queries before it are judged and stored, so that nothing is done twice once it is mended.
    """
    for retrieval in dump:
        # Counted while the record is read: the retrieval after it is not judged any more.
        if dump.malformed:
            break
        yield retrieval
    if dump.malformed:
        raise DataError(dump.problems.items)


def _write_line(lines: BinaryIO, judged: ValidatedQuery) -> None:
    """Writes a verdict's line to the draft of the file of verdicts.

    A full disk is the error of the run and not of its query, which has its verdict.
    """
    try:
        lines.write(judged.line + b"\n")
    except OSError as error:
        why = error.strerror or error
        raise RunError(f"{lines.name}: cannot be written: {why}") from error


def _path_beside(out: Path, kind: str) -> Path:
    """The path of a file that belongs to ``out``: ``verdicts.jsonl.journal``.

    Under that name the next command finds it.
    """
    return out.with_name(f"{out.name}.{kind}")


def _remove_journal(path: Path) -> None:
    """Removes a journal of verdicts with the files that SQLite keeps beside it.

    To judge everything anew, or to leave nothing behind of a run without a verdict.
    """
    # The log first: were it to outlive its journal, SQLite would take it for the next journal's.
    for end in ("-wal", "-shm", ""):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


@contextmanager
def _locked(out: Path) -> Generator[None]:
    """Holds the lock of a file of verdicts for a block: two processes would mix their lines.

    A path that cannot be written is refused here, before anything is judged.
    """
    # A hidden file beside it, so that no program takes it for verdicts.
    lock = FileLock(out.with_name(f".{out.name}.lock"))
    try:
        if out.is_dir():
            raise InputError(f"{out} is a folder: name a file in it")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunLockedError(
            f"another ragbench process is writing {out}. Wait for it, or choose another file"
        ) from error
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _required_shares(
    tally: ValidationTally, demands: Demands, malformed: int
) -> Iterator[RequiredShare]:
    """Each share that is demanded of a dump, with the reached one and whether it is enough.

    The names are those of the command's options.

    Args:
        malformed: records that could not be read; with failed queries, they are checked always.
    """
    # Records without a verdict, whatever the reason.
    unjudged = malformed + tally.failed
    if unjudged:
        limit = demands.malformed
        share = unjudged / (unjudged + tally.verdicts)
        yield RequiredShare(name="max-malformed", wanted=limit, found=share, is_met=share <= limit)
    if demands.answer_present is not None:
        yield _least_share(
            "min-answer-present", demands.answer_present, tally.present, tally.verdicts
        )
    levels = (RetrievalQuality.POOR, RetrievalQuality.PARTIAL, RetrievalQuality.GOOD)
    # In the order in which the user names them.
    for level, least in demands.quality.items():
        # The share that is asked for is of queries that are rated so, or better.
        count = 0
        for level_reached in levels[levels.index(level) :]:
            count += tally.quality[level_reached.value]
        yield _least_share(f"min-quality {level.value}", least, count, tally.verdicts)
    if demands.relevant is not None:
        yield _least_share("min-relevant", demands.relevant, tally.relevant, tally.chunks)


def _least_share(name: str, least: float, count: int, total: int) -> RequiredShare:
    """A demanded share that must not be smaller, beside the reached one.

    A share of nothing fails: there is nothing that shows it.
    """
    if not total:
        return RequiredShare(name=name, wanted=least, found=None, is_met=False)
    share = count / total
    return RequiredShare(name=name, wanted=least, found=share, is_met=share >= least)
