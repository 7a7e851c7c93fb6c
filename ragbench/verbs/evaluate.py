"""evaluate(): cases through a RAG, into a journal, under metrics, to a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.core.metric import Metric
from ragbench.core.report import Report
from ragbench.core.trace import Entry
from ragbench.errors import InterfaceError, InterruptedRunError, RunError
from ragbench.io.read import Selection
from ragbench.ledger.folder import RunFolder, path_of
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import (
    Manifest,
    read_manifest,
)
from ragbench.ledger.watch import STARTED, Watch
from ragbench.metrics.gold_space import GoldSpace, MatchingTally
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike, default_metrics, parse_metrics
from ragbench.post.stage import PostRetrieval
from ragbench.stages.begin import (
    Draw,
    Evaluation,
    KnownManifest,
    begin,
    dated,
    earlier_settings,
    journal_of,
)
from ragbench.stages.corpus_gold import CORPUS_GOLD, corpus_gold, write_corpus_gold
from ragbench.stages.crashes import InFlight
from ragbench.stages.judge_identity import judge_key
from ragbench.stages.loop import run_stages
from ragbench.stages.rag import (
    RAG,
    Locator,
)
from ragbench.stages.score import CellTable, ScoredMetric, ScoreStage
from ragbench.stages.stage import CallSettings, GivingUp, InLoop, Progress, RunCase, Running, Stage
from ragbench.stages.stored import StoredTraces
from ragbench.stages.system import system_of
from ragbench.validators.validator import Validator, build_validator
from ragbench.verbs.given import GivenCases, cases_of, checked, rag_of
from ragbench.verbs.report import ReportBuilder, stored_report

if TYPE_CHECKING:
    from ragbench.stages.judge import Judge, Judging
    from ragbench.stages.on_workers import Workers


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalSettings:
    """How a RAG is evaluated, beyond what nearly every call of `evaluate` says."""

    name: str | None = None
    """The dataset's name in reports; by default that of the file or folder, else ``"dataset"``."""
    source: str | None = None
    """Where the dataset came from, in the report; by default the path that was given."""
    notes: Sequence[str] = ()
    """What a reader of scores must know of the source; stands in the report."""
    rag_name: str | None = None
    """The system's name in reports; its class when not given."""
    rag_description: Mapping[str, Any] | None = None
    """What distinguishes the system; derived from it when not given."""
    top_k: int | None = None
    """Handed to retrieval; None leaves it to the system."""
    selection: Selection | None = None
    """Which of the cases to take; all when not given."""
    limits: CallSettings | None = None
    """Batch size, calls in flight, time limit."""
    matching: Matching = Matching.AUTO
    """How retrieved chunks are compared with the relevant ones."""
    corpus: Callable[[], Iterable[Document]] | None = None
    """Gives the documents that the system searches, where they are at hand: gold that none of them
    holds is then distinguished from gold that retrieval missed, and a retrieval that found nothing
    from one whose ids are of another kind."""
    locator: Locator | None = None
    """Says where the gold is that retrieval has missed, such as
    `ragbench.pipeline.pipeline.OpenPipeline.locator`; nothing when not given."""
    trust_stored: bool = False
    """Use stored outcomes even where nobody knows whether something has changed; the report says
    so."""
    retry_failed: bool = False
    """Compute again what failed in an earlier run."""

    def __post_init__(self) -> None:
        checked("EvalSettings", limits=(self.limits, CallSettings), top_k=(self.top_k, int))
        checked("EvalSettings", selection=(self.selection, Selection))


def evaluate(
    cases: GivenCases,
    rag: object = None,
    *,
    out: str | Path,
    metrics: str | Sequence[MetricLike] | None = None,
    post_retrieval: PostRetrieval | None = None,
    validator: object = None,
    judging: Judging | None = None,
    settings: EvalSettings = EvalSettings(),
    workers: Workers | None = None,
    version: str | None = None,
    fresh: bool = False,
    advance: Callable[[Progress], None] | None = None,
) -> Report:
    """Evaluates a RAG and leaves everything in a run folder.

    Called again with the same arguments it continues. Outcomes of an earlier run in the folder are
    used again where everything that they came from is the same; the report says so.

    Example:
        >>> evaluate("cases.jsonl", MyRAG(), out="runs/first")  # doctest: +SKIP

    Args:
        cases: the dataset: the path of a file, folder or earlier run, in any form that `ragbench
            eval` reads; or records (`Case`, `Entry`, or dicts with the fields of a dataset's
            line), which are read once, from front to back. A recorded outcome is taken, and its
            stage is not asked.
        rag: the system: what `as_rag` takes (an object or class with ``retrieve`` and
            ``generate``, a function of the query, a retriever or chain), or a text that names one,
            as ``--rag`` does (``"my_rag.py:MyRAG"``, a URL). None scores what was recorded.
        out: the run folder.
        metrics: what to measure: metrics, their spellings, functions that `ragbench.metric` made
            metrics; `default_metrics` when not given.
        post_retrieval: what happens to chunks between the RAG's retrieval and its generation;
            nothing when not given.
        validator: what judges the chunks that generation is given, and changes nothing of them: a
            validator, or its name; nothing when not given.
        judging: who is asked by metrics that ask models; without it there may be none of those.
        settings: all that is rarely said.
        workers: where the work is done; this process when not given.
        version: what the system is, in your words: outcomes are used again exactly as long as it
            stays the same. Without it, nothing is used again that this process was given before:
            a sweep over a variable, a patched method and a changed closure are no files.
        fresh: forget what an earlier run left in the folder.
        advance: called with progress.

    Returns:
        The report; `ragbench.views` renders it.

    Raises:
        DataError: there are no cases or one cannot be used; nothing is run, and an earlier run in
            the folder is left as it was.
        ConfigError: an argument is of a wrong type, a metric cannot be computed as it is set, or
            post-retrieval or validation is asked for a RAG that gives no room for it.
        InterfaceError: what was given as ``rag`` is no RAG.
        MissingExtraError: a metric needs a package that is not installed.
        RunMismatchError: the folder holds something that is not a run.
        RunError: the folder cannot be written, or a stage has failed for all of the first cases;
            see `CallSettings.give_up_after`.
        RunLockedError: another process works on the folder.
        LLMStoppedError: no model answers any more, or may be asked; the same call continues.
    """
    checked("evaluate", post_retrieval=(post_retrieval, PostRetrieval), version=(version, str))
    checked("evaluate", settings=(settings, EvalSettings))
    with ExitStack() as stack:
        dataset = cases_of(cases, stack)
        return evaluate_entries(
            dataset.entries,
            rag_of(rag),
            out=path_of(out),
            metrics=metrics,
            post_retrieval=post_retrieval,
            validator=None if validator is None else build_validator(validator),
            judging=judging,
            settings=replace(
                settings,
                name=settings.name or dataset.name,
                source=dataset.path if settings.source is None else settings.source,
                notes=(*settings.notes, *dataset.notes),
            ),
            workers=workers,
            version=version,
            fresh=fresh,
            advance=advance,
        )


def evaluate_entries(
    cases: Iterable[Case | Entry],
    rag: RAG | None,
    *,
    out: Path,
    metrics: str | Sequence[MetricLike] | None = None,
    post_retrieval: PostRetrieval | None = None,
    validator: Validator | None = None,
    judging: Judging | None = None,
    settings: EvalSettings,
    workers: Workers | None = None,
    version: str | None = None,
    fresh: bool = False,
    advance: Callable[[Progress], None] | None = None,
    watch: Watch | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """`evaluate` for records and a RAG that are there.

    Args:
        watch: saw the system being loaded, as a command does; see docs/reuse.md.
        stopped: asked before each call; once true, what is in flight is finished and the run ends.

    Raises:
        InterruptedRunError: `stopped` was true; the same call continues.
    """
    if workers is not None or judging is not None:
        from ragbench.stages.judge import Judging
        from ragbench.stages.on_workers import Workers

        checked("evaluate", workers=(workers, Workers), judging=(judging, Judging))
    chosen = default_metrics() if metrics is None else parse_metrics(metrics)
    # A metric that cannot be computed is reported before anything runs.
    Plan([metric for metric in chosen if not metric.is_judged], matching=settings.matching)
    folder, calls = RunFolder(path=out), settings.limits or CallSettings()
    earlier: Mapping[str, Any] = {} if fresh else earlier_settings(folder.manifest)
    system = system_of(
        rag, name=settings.rag_name, description=settings.rag_description, top_k=settings.top_k,
        validator=validator, locator=settings.locator, version=version,
        post_retrieval=post_retrieval and dated(post_retrieval, earlier),
    )  # fmt: skip
    asked = Evaluation(
        system=system, metrics=chosen, matching=settings.matching, judge=_judge(chosen, judging)
    )
    with ExitStack() as stack:
        anew = _asked_here(out) if watch is None else ""
        watch = stack.enter_context(watch or Watch(since=STARTED))
        if stack.enter_context(folder.locked()):
            # A folder whose cases never came is not left behind.
            stack.callback(_discard_if_empty, folder)
        selection, source = settings.selection or Selection(), settings.source or ""
        draw = Draw(cases, selection, source, stopped, GoldSpace())
        journal = stack.enter_context(journal_of(folder, draw, fresh=fresh))
        in_loop = stack.enter_context(_event_loop(rag))
        begun = begin(
            asked,
            journal,
            draw,
            folder,
            name=settings.name or "dataset",
            watch=watch,
            trust=settings.trust_stored,
            calls=calls,
            in_loop=in_loop,
            anew=anew,
        )
        noted = replace(begun.manifest, notes=(*settings.notes, *begun.notes))
        scoring = _scoring(asked, noted, journal, draw.gold, folder, earlier.get("matching"))
        _look_for_gold(folder, scoring.known.manifest, journal, settings.corpus, settings.matching)
        stages = [*begun.stages, scoring.stage]
        if asked.judge is not None:
            stages.append(asked.judge.stage(scoring.stage.table))
        giving_up = GivingUp(after=calls.give_up_after)

        def over() -> bool:
            return stopped() or bool(giving_up.because)

        if workers is not None and workers.engine != "local":
            stages = stack.enter_context(
                _staffed(stages, workers, calls, settings.top_k, over, rag, watch)
            )
        count = begun.manifest.dataset.cases
        running = Running(
            journal=journal,
            calls=calls,
            retry_failed=settings.retry_failed,
            stopped=over,
            giving_up=giving_up,
            in_loop=in_loop,
            report=advance or (lambda _: None),
            cases=count,
            in_flight=stack.enter_context(InFlight.opened(folder.in_flight, count)),
        )
        builder = scoring.settled(_asked_all(stages, running, scoring), settings.corpus)
        begun.reuse.keep(is_last=True)
        journal.complete()
        return _report(builder, folder, journal)


_asked_folders: set[Path] = set()


def _asked_here(out: Path) -> str:
    """Why what this process stored itself is not used again; empty where it stored nothing."""
    folder = out.resolve()
    if folder in _asked_folders:
        return "it was asked by this process before, and no version is named"
    _asked_folders.add(folder)
    return ""


def _scoring(
    asked: Evaluation,
    manifest: Manifest,
    journal: Journal,
    gold: GoldSpace,
    folder: RunFolder,
    earlier: str | None,
) -> _Scoring:
    judge = asked.judge
    scored = [
        ScoredMetric.of(metric, b"" if judge is None else judge_key(judge.info, metric))
        for metric in asked.metrics
    ]
    table = CellTable(journal, scored, asked.matching)
    known = KnownManifest(manifest, folder.manifest)
    known.decide(asked.matching)
    tally = MatchingTally(gold) if asked.matching is Matching.AUTO else None
    if tally is not None and earlier is not None and earlier in [*Matching]:
        # Likely still right: cells that are stored need no work then.
        table.matching = Matching(earlier)
    stage = ScoreStage(table=table, decided=known.decide, tally=tally)
    return _Scoring(stage=stage, known=known, journal=journal, metrics=asked.metrics, folder=folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scoring:
    """How a run is scored: how gold is matched is known for sure once all cases are through."""

    stage: ScoreStage
    known: KnownManifest
    journal: Journal
    metrics: tuple[Metric, ...]
    folder: RunFolder

    def builder(self) -> ReportBuilder:
        """Counts the cases that come, matched as is thought right when they do."""
        table, out = self.stage.table, self.folder.path
        return ReportBuilder(
            out, self.known.manifest, self.metrics, matching=lambda: table.matching
        )

    def count(self, builder: ReportBuilder, row: RunCase) -> None:
        self.journal.scores.record_cause(row.number, builder.add(row))

    def settled(
        self, builder: ReportBuilder, corpus: Callable[[], Iterable[Document]] | None
    ) -> ReportBuilder:
        """Decides how gold is matched, and scores again where that was not what was thought."""
        tally = self.stage.tally
        if tally is None:
            return builder
        ids = None if corpus is None else lambda: [one.id for one in corpus()]
        verdict = tally.verdict(ids)
        before = self.known.manifest
        self.known.decide(verdict.matching, verdict.notes)
        if verdict.matching is self.stage.table.matching:
            return builder
        builder = ReportBuilder(self.folder.path, self.known.manifest, self.metrics)
        stored = StoredTraces(
            journal=self.journal, manifest=before, metrics=self.metrics, with_texts=True
        )
        windows = map(stored.rows, self.journal.cases())
        for row in self.stage.rematch(windows, verdict.matching):
            self.count(builder, row)
        return builder


def _asked_all(stages: Sequence[Stage], running: Running, scoring: _Scoring) -> ReportBuilder:
    """Takes every case through every stage, and counts it."""
    builder = scoring.builder()
    windows = (
        [RunCase(stored.number, stored.case, stored.digest) for stored in window]
        for window in running.journal.cases()
    )
    try:
        run_stages(windows, stages, running, partial(scoring.count, builder))
    except InterruptedRunError:
        if running.giving_up.because:
            raise RunError(running.giving_up.because) from None
        raise
    return builder


def _report(builder: ReportBuilder, folder: RunFolder, journal: Journal) -> Report:
    """The finished run's report, made of what every later reader finds in the folder."""
    builder.manifest = read_manifest(folder.manifest)
    report = builder.report(journal.runs.started())
    journal.runs.keep_report(stored_report(report))
    return report


def _look_for_gold(
    folder: RunFolder,
    manifest: Manifest,
    journal: Journal,
    corpus: Callable[[], Iterable[Document]] | None,
    matching: Matching,
) -> None:
    """Keeps which gold the documents hold; forgets it where they are not at hand."""
    if corpus is None:
        (folder.path / CORPUS_GOLD).unlink(missing_ok=True)
        return
    cases = (stored.case for window in journal.cases() for stored in window)
    found = corpus_gold(cases, [*corpus()], matching)
    write_corpus_gold(folder.path, manifest.fingerprints, found)


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
    from ragbench.stages.on_workers import check_buildable, staffed

    if workers.make_rag is not None and rag is not None:
        check_buildable(rag)
        watch.meet("workers", "it was asked on workers, which cannot be seen into")
    with staffed(stages, workers, top_k=top_k, timeout=calls.timeout, stopped=stopped) as found:
        yield found


def _judge(metrics: Sequence[Metric], judging: Judging | None) -> Judge | None:
    """Who judges; None, and nothing is loaded, where no metric asks a model."""
    if not any(metric.is_judged for metric in metrics):
        return None
    from ragbench.stages.judge import judge_of

    return judge_of(metrics, judging)


@contextmanager
def _event_loop(rag: RAG | None) -> Generator[InLoop]:
    """Where coroutines run: one event loop for the whole run if the RAG is async, else one each."""
    if rag is None or not rag.is_async:
        yield asyncio.run
        return
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
