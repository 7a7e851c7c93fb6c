"""evaluate(): cases through a RAG, into a journal, under metrics, to a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.core.metric import Metric
from ragbench.core.outcome import Status
from ragbench.core.report import Report
from ragbench.core.trace import Entry
from ragbench.errors import (
    DataError,
    InterfaceError,
    InterruptedRunError,
    Problem,
    RunMismatchError,
)
from ragbench.io.read import Selection
from ragbench.ledger.fingerprint import fingerprint, running_digest
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal, StoredCase
from ragbench.ledger.manifest import (
    DatasetInfo,
    Manifest,
    MetricInfo,
    RagInfo,
    git_state,
    package_versions,
    read_manifest,
    write_manifest,
)
from ragbench.ledger.watch import Watch
from ragbench.metrics.abstention import abstained
from ragbench.metrics.gold_space import GoldSpace, MatchingTally
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike, default_metrics, parse_metrics
from ragbench.post.stage import POST_RETRIEVE, PostRetrieval
from ragbench.stages.corpus_gold import CORPUS_GOLD, corpus_gold, write_corpus_gold
from ragbench.stages.in_flight import InFlight
from ragbench.stages.judge_identity import judge_key
from ragbench.stages.locate import Locator
from ragbench.stages.loop import run_stages
from ragbench.stages.rag import (
    RAG,
)
from ragbench.stages.reuse import OutcomeReuse
from ragbench.stages.score import CellTable, ScoredMetric, ScoreStage
from ragbench.stages.stage import CallSettings, CallStage, InLoop, Progress, Row, Running, Stage
from ragbench.stages.stored import StoredTraces, TracedCase
from ragbench.stages.system import absent_stages, call_stages, system_of
from ragbench.validators.validator import Validator
from ragbench.verbs.report import ReportBuilder, keep_figures

if TYPE_CHECKING:
    from ragbench.stages.judge import Judge, Judging
    from ragbench.stages.on_workers import Workers

__all__ = [
    "evaluate",
]

_PACKAGES = (
    "bm25s", "ragas", "ragbench", "rapidfuzz", "rouge-score", "sacrebleu",
)  # fmt: skip


_SLOTS = 256
"""Cases in flight that the file of them has room for at first."""


def evaluate(
    cases: Iterable[Case | Entry],
    rag: RAG | None = None,
    *,
    out: Path,
    post_retrieval: PostRetrieval | None = None,
    validator: Validator | None = None,
    locator: Locator | None = None,
    metrics: Sequence[MetricLike] | None = None,
    name: str = "dataset",
    source: str = "",
    notes: Sequence[str] = (),
    rag_name: str | None = None,
    rag_description: Mapping[str, Any] | None = None,
    top_k: int | None = None,
    selection: Selection | None = None,
    limits: CallSettings | None = None,
    matching: Matching = Matching.AUTO,
    judging: Judging | None = None,
    corpus: Callable[[], Iterable[Document]] | None = None,
    workers: Workers | None = None,
    fresh: bool = False,
    trust_stored: bool = False,
    retry_failed: bool = False,
    watch: Watch | None = None,
    stopped: Callable[[], bool] = lambda: False,
    advance: Callable[[Progress], None] | None = None,
) -> Report:
    """Evaluates a RAG and leaves everything in a run folder.

    Called again with the same arguments it continues. Outcomes of an earlier run in the folder are
    used again where everything that they came from is the same; the report says so.

    Args:
        cases: the dataset's cases, with what is already known of them; read once, from front to
            back. A recorded outcome is taken, and its stage is not asked.
        rag: the system; see `ragbench.rag.adapt.as_rag` for what can be made one. None scores
            what was recorded.
        out: the run folder.
        post_retrieval: what happens to chunks between the RAG's retrieval and its generation;
            nothing when not given.
        validator: what judges the chunks that generation is given, and changes nothing of them;
            nothing when not given.
        locator: says where the gold is that retrieval has missed, such as
            `ragbench.pipeline.pipeline.OpenPipeline.locator`; nothing when not given.
        metrics: what to measure: metrics, their spellings, functions that `ragbench.metric` made
            metrics; `default_metrics` when not given.
        name: the dataset's name in reports.
        source: where the dataset came from, as the user named it.
        notes: what a reader of scores must know of the source; stands in the report.
        rag_name: the system's name in reports; its class when not given.
        rag_description: what distinguishes the system; derived from it when not given.
        top_k: handed to retrieval; None leaves it to the system.
        selection: which of the cases to take; all when not given.
        limits: batch size, calls in flight, time limit.
        matching: how retrieved chunks are compared with the relevant ones.
        judging: who is asked by metrics that ask models; without it there may be none of those.
        corpus: gives the documents that the system searches, where they are at hand: gold that
            none of them holds is then told apart from gold that retrieval missed, and a retrieval
            that found nothing from one whose ids are of another kind.
        workers: where the work is done; this process when not given.
        fresh: forget what an earlier run left in the folder.
        trust_stored: use stored outcomes even where it cannot be told that nothing has changed;
            the report says so.
        retry_failed: compute again what failed in an earlier run.
        watch: saw the system being loaded, so that all it reads is known; see docs/reuse.md.
        stopped: asked before each call; once true, what is in flight is finished and the run ends.
        advance: told of progress.

    Returns:
        The report; `ragbench.views` renders it.

    Raises:
        DataError: there are no cases or one cannot be used; nothing is run, and an earlier run in
            the folder is left as it was.
        ConfigError: a metric cannot be computed as it is set, or post-retrieval or validation is
            asked for a RAG that gives no room for it.
        MissingExtraError: a metric needs a package that is not installed.
        RunMismatchError: the folder holds something that is not a run.
        RunError: the folder cannot be written.
        RunLockedError: another process works on the folder.
        InterruptedRunError: `stopped` said so; the same call continues.
        LLMStoppedError: no model answers any more, or may be asked; the same call continues.
    """
    chosen = default_metrics() if metrics is None else parse_metrics(metrics)
    # A metric that cannot be computed is reported before anything runs.
    Plan([metric for metric in chosen if not metric.is_judged], matching=matching)
    judge = _judge(chosen, judging)
    system = system_of(
        rag,
        name=rag_name,
        description=rag_description,
        top_k=top_k,
        post_retrieval=_dated(post_retrieval, out, fresh=fresh),
        validator=validator,
        locator=locator,
    )
    folder = RunFolder(path=out)
    with ExitStack() as stack:
        watch = stack.enter_context(watch or Watch())
        if stack.enter_context(folder.locked()):
            # A folder whose cases never came is not left behind.
            stack.callback(_discard_if_empty, folder)
        gold = GoldSpace()
        draw = _Draw(cases, selection or Selection(), source, stopped, gold)
        journal = stack.enter_context(_journal(folder, draw, fresh=fresh))
        absent = absent_stages(system, journal.recorded_counts(), source)
        manifest = Manifest(
            dataset=_dataset_info(journal, draw, name),
            rag=RagInfo(name=system.name, description=system.description, stages=system.stages),
            metrics=tuple(map(MetricInfo.of, chosen)),
            settings={**system.settings, "matching": str(matching)},
            packages=package_versions(_PACKAGES),
            git=git_state(Path.cwd()),
            absent=absent,
            judge=None if judge is None else judge.info,
        )
        reuse = OutcomeReuse(journal, system, watch, leaving_out=[source, out], trust=trust_stored)
        stages = call_stages(system, absent, reuse.identity)
        journal.begin(_setting(manifest, stages), _local_time(), reuse.notes)
        manifest = replace(manifest, notes=(*notes, *journal.notes()))
        journal.before_flush = reuse.keep
        table = CellTable(journal, _scored(chosen, judge), matching)
        earlier = _earlier_matching(folder.manifest)
        known = _KnownManifest(manifest, folder.manifest)
        tally = MatchingTally(gold) if matching is Matching.AUTO else None
        if tally is not None and earlier is not None:
            table.matching = earlier  # likely still right: cells that are stored need no work then
        score = ScoreStage(table=table, decided=known.decide, tally=tally)
        stages.append(score)
        if judge is not None:
            stages.append(judge.stage(table))
        is_async = rag is not None and rag.is_async
        _look_for_gold(out, known.manifest, journal, corpus, matching)
        builder = ReportBuilder(out, known.manifest, chosen, matching=lambda: table.matching)
        calls = limits or CallSettings()
        if workers is not None and workers.engine != "local":
            stages = stack.enter_context(
                _staffed(stages, workers, calls, top_k, stopped, rag, watch)
            )
        run_stages(
            (_rows(window) for window in journal.cases()),
            stages,
            Running(
                journal=journal,
                calls=calls,
                retry_failed=retry_failed,
                stopped=stopped,
                in_loop=stack.enter_context(_event_loop()) if is_async else asyncio.run,
                report=advance or (lambda _: None),
                cases=manifest.dataset.cases,
                in_flight=stack.enter_context(InFlight(folder.in_flight, _SLOTS)),
            ),
            lambda row: builder.add(_traced(row)),
        )
        if tally is not None:
            ids = None if corpus is None else lambda: [one.id for one in corpus()]
            verdict = tally.verdict(ids)
            before = known.manifest
            known.decide(verdict.matching, verdict.notes)
            if verdict.matching is not score.table.matching:
                builder = ReportBuilder(out, known.manifest, chosen)
                stored = StoredTraces(
                    journal=journal, manifest=before, metrics=chosen, with_texts=True
                )
                for row in score.rematch(map(stored.rows, journal.cases()), verdict.matching):
                    builder.add(_traced(row))
        reuse.keep()
        journal.complete()
        builder.manifest = read_manifest(folder.manifest)  # as every later reader finds it
        report = builder.report(journal.started())
        if not keep_figures(report, out):
            return report
        builder.manifest = read_manifest(folder.manifest)
        return builder.report(journal.started())


def _look_for_gold(
    out: Path,
    manifest: Manifest,
    journal: Journal,
    corpus: Callable[[], Iterable[Document]] | None,
    matching: Matching,
) -> None:
    """Keeps which gold the documents hold; forgets it where they are not at hand."""
    if corpus is None:
        (out / CORPUS_GOLD).unlink(missing_ok=True)
        return
    cases = (stored.case for window in journal.cases() for stored in window)
    found = corpus_gold(cases, [*corpus()], matching)
    write_corpus_gold(out, manifest.fingerprints, found)


@contextmanager
def _staffed(
    stages: Sequence[Stage],
    workers: Workers,
    calls: CallSettings,
    top_k: int | None,
    stopped: Callable[[], bool],
    rag: RAG | None,
    watch: Watch,
) -> Generator[list[Stage]]:
    """The stages, with workers behind those that may have some."""
    from ragbench.stages.on_workers import check_buildable, staffed

    if workers.make_rag is not None and rag is not None:
        check_buildable(rag)
        watch.meet("workers", "it was asked on workers, which cannot be seen into")
    with staffed(stages, workers, top_k=top_k, timeout=calls.timeout, stopped=stopped) as found:
        yield found


@contextmanager
def _journal(folder: RunFolder, draw: _Draw, *, fresh: bool) -> Generator[Journal]:
    """The folder's journal with the cases in it."""
    if fresh:
        with folder.new_journal() as path, Journal(path) as new:
            new.replace_cases(draw)
    with Journal(folder.journal) as journal:
        if not fresh:
            journal.replace_cases(draw)
        yield journal


def _dated(stage: PostRetrieval | None, out: Path, *, fresh: bool) -> PostRetrieval | None:
    """The stage with the run's date, where ages count from it; a run that goes on keeps its own."""
    if stage is None:
        return None
    if not fresh and (now := _kept_date(RunFolder(path=out).manifest)) is not None:
        return stage.dated(now)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return stage.dated(today)


def _kept_date(manifest: Path) -> datetime | None:
    """The date that an earlier run of the folder counted ages from."""
    try:
        settings: Any = read_manifest(manifest).settings.get(POST_RETRIEVE) or {}
        return datetime.fromisoformat(settings["now"])
    except (RunMismatchError, KeyError):
        return None


def _judge(metrics: Sequence[Metric], judging: Judging | None) -> Judge | None:
    """Who judges; None, and nothing is loaded, where no metric asks a model."""
    if not any(metric.is_judged for metric in metrics):
        return None
    from ragbench.stages.judge import judge_of

    return judge_of(metrics, judging)


def _scored(metrics: Sequence[Metric], judge: Judge | None) -> list[ScoredMetric]:
    return [
        ScoredMetric.of(metric, b"" if judge is None else judge_key(judge.info, metric))
        for metric in metrics
    ]


def _earlier_matching(path: Path) -> Matching | None:
    """How the folder's latest run compared chunks; None where there is none."""
    try:
        return Matching(read_manifest(path).settings["matching"])
    except (RunMismatchError, KeyError, ValueError):
        return None


def _traced(row: Row) -> TracedCase:
    return TracedCase(row.trace, row.cells, row.judgements, row.digest, row.matches)


def _rows(window: Sequence[StoredCase]) -> list[Row]:
    return [Row(stored.number, stored.case, stored.digest) for stored in window]


def _setting(manifest: Manifest, stages: Sequence[Stage]) -> bytes:
    """Digest of all that outcomes depend on; how they are scored is not part of it."""
    judge = None if manifest.judge is None else manifest.judge["fingerprint"]
    asked = [(stage.name, stage.identity) for stage in stages if isinstance(stage, CallStage)]
    setting = (manifest.dataset.fingerprint, asked, judge, manifest.absent)
    return bytes.fromhex(fingerprint(setting))


def _local_time() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


class _KnownManifest:
    """The manifest as far as it is known: how gold is matched is decided during the run."""

    def __init__(self, manifest: Manifest, path: Path) -> None:
        self.manifest = manifest.with_fingerprints()
        self._path = path
        write_manifest(self.manifest, path)

    def decide(self, matching: Matching, notes: Sequence[str] = ()) -> None:
        """Writes down how retrieved chunks are compared with relevant ones, and why."""
        settings = {**self.manifest.settings, "matching": str(matching)}
        self.manifest = replace(
            self.manifest, settings=settings, notes=(*notes, *self.manifest.notes)
        ).with_fingerprints()
        write_manifest(self.manifest, self._path)


@dataclass(frozen=True, slots=True)
class _Draw:
    """The cases that are taken; at least one, or an error."""

    cases: Iterable[Case | Entry]
    selection: Selection
    source: str
    stopped: Callable[[], bool]
    gold: GoldSpace
    """Told of each case: what is relevant is known before anything is asked."""

    def __iter__(self) -> Iterator[Case | Entry]:
        """The cases, in order.

        Raises:
            DataError: there is none.
            InterruptedRunError: `stopped` said so.
        """
        case = None
        for case in self.selection.apply(self.cases):
            if self.stopped():
                raise InterruptedRunError("stopped while the cases were read; nothing was run")
            self.gold.add(case.case if isinstance(case, Entry) else case)
            yield _with_abstention(case) if isinstance(case, Entry) else case
        if case is None:
            raise DataError([Problem(message="there are no cases", path=self.source)])


def _with_abstention(entry: Entry) -> Entry:
    """An entry whose recorded answer counts as declined where an asked one would."""
    outcome = entry.recorded.get("generate")
    if outcome is None or outcome.value is None or outcome.status is not Status.MEASURED:
        return entry
    if not abstained(outcome.value):
        return entry
    declined = replace(outcome, status=Status.ABSTAINED)
    return replace(entry, recorded={**entry.recorded, "generate": declined})


def _dataset_info(journal: Journal, draw: _Draw, name: str) -> DatasetInfo:
    selection = draw.selection
    return DatasetInfo(
        name=name,
        source=draw.source,
        fingerprint=running_digest(journal.case_digests()).hex(),
        cases=journal.case_count(),
        limit=selection.limit,
        sample=selection.sample,
        seed=None if selection.sample is None else selection.seed,
    )


@contextmanager
def _event_loop() -> Generator[InLoop]:
    """Where the coroutines of an async RAG run: one event loop for the whole run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            yield runner.run
    else:
        raise InterfaceError(
            "evaluate() runs an async RAG in an event loop of its own and was called inside of "
            "one: call it as 'await asyncio.to_thread(evaluate, ...)'"
        )


def _discard_if_empty(folder: RunFolder) -> None:
    if not folder.manifest.exists():
        folder.discard()
