"""ablate(): variants of post-retrieval over one stored run, without asking the RAG again."""

from __future__ import annotations

import math
import statistics
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ragbench.core.comparison import Ablation, VariantEffect, VariantReport
from ragbench.core.metric import Group, Metric
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, InputError, LLMStoppedError, RunMismatchError
from ragbench.gate.variants import Measured, variant_effects, what_to_keep
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import Manifest, read_manifest
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike, computable, parse_metrics
from ragbench.post.build import Variant
from ragbench.post.score_store import ScoreStore, rerankers_of, with_stored_scores
from ragbench.post.stage import PostRetrieval, post_retrieved, steps_of
from ragbench.stages.biography import BiographyTally, best_order, biography_of
from ragbench.stages.rag import contexts_for_generation
from ragbench.stages.score import ScoredMetric
from ragbench.text.token_counter import APPROXIMATE, ESTIMATED, TokenCounter
from ragbench.verbs.report import metrics_of, open_traces

__all__ = [
    "ablate",
]

_WINDOW = 256
_SHALLOW = 20
_NOT_GENERATED: Outcome[Any] = Outcome(
    status=Status.SKIPPED, reason="an ablation does not generate"
)


def ablate(
    run: Path,
    variants: Sequence[Variant],
    *,
    metrics: Sequence[MetricLike] | None = None,
    counter: TokenCounter = APPROXIMATE,
    confidence: float = 0.95,
    limit: int | None = None,
    scores: ScoreStore | None = None,
    concurrency: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Ablation:
    """Takes the retrievals of a stored run through several variants of post-retrieval.

    Args:
        run: the run's folder. What its own post-retrieval did is not looked at.
        variants: at least one; the first is what the others are compared with.
        metrics: what to measure; the run's retriever metrics when not given.
        counter: counts the tokens that generation would be given.
        confidence: of all intervals of differences together.
        limit: how many of the run's cases are taken, from the first; all when not given.
        scores: keeps the scores of rerankers that are slow or paid, and knows those of before;
            without it each variant asks for its own.
        concurrency: cases in flight at once, at least 1. Results do not depend on it, times do.
        advance: told how many more cases are through.

    Returns:
        A score a variant and metric, with its mean paired difference from the first variant and
        intervals that hold together, see `ragbench.gate.variants`; what the operators did; the
        score of the best order of the same chunks.

    Raises:
        RunMismatchError: there is no run in the folder, or it holds no retrieval.
        ConfigError: there is no variant; a metric reads the answer, which an ablation has not; the
            run has no retriever metric and none was named.
        InputError: a variant needs something that is not installed or does not exist.
        LLMStoppedError: no model answers any more, or may be asked.
    """
    if not variants:
        raise ConfigError("there is no variant to try")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, not {limit}")
    manifest = read_manifest(RunFolder(path=run).manifest)
    columns, missing = _metrics_of(manifest, metrics)
    plan_matching = Matching(manifest.settings["matching"])
    plan = Plan(columns, matching=plan_matching)
    now = _began(run)
    trials = [
        _Trial(
            variant=replace(variant, stage=variant.stage.dated(now)),
            counter=counter,
            matching=plan_matching,
            stage=_prepared(variant.stage, now, scores),
        )
        for variant in variants
    ]
    clusters: dict[str, str | None] = {}
    depths: list[int] = []
    ceiling = _Ceiling(matching=plan_matching)
    with ThreadPoolExecutor(max_workers=max(1, concurrency)) as pool:
        for window in _windows(run, limit, size=_WINDOW):
            ceiling.take(window, plan)
            clusters.update((trace.case.id, trace.case.cluster) for trace in window)
            depths += [len(t.retrieval.value) for t in window if t.retrieval.value is not None]
            for trial in trials:
                known = 0 if scores is None else scores.reused
                trial.take(window, plan, trials[0], pool)
                trial.reused += 0 if scores is None else scores.reused - known
            trials[0].left.clear()
            advance(len(window))
    if not depths:
        raise RunMismatchError(f"{run} holds no retrieval to replay")
    measured = [
        Measured(name=trial.variant.name, acted=trial.acted > 0, values=trial.values)
        for trial in trials
    ]
    effects, family = variant_effects(columns, measured, clusters, confidence=confidence)
    return Ablation(
        dataset=manifest.dataset.name,
        rag=manifest.rag.name,
        cases=len(clusters),
        replayed=len(depths),
        depth=int(statistics.median(depths)),
        metrics=columns,
        counter=counter.name,
        is_estimate=counter.approximate,
        confidence=confidence,
        variants=tuple(
            trial.report(row, is_first=trial is trials[0])
            for trial, row in zip(trials, effects, strict=True)
        ),
        family=family,
        ceiling=ceiling.scores(len(columns)),
        keep=what_to_keep(measured, effects),
        notes=(*_notes(depths, len(clusters), counter), *missing),
    )


def _metrics_of(
    manifest: Manifest, metrics: Sequence[MetricLike] | None
) -> tuple[tuple[Metric, ...], list[str]]:
    """What is measured, and a note about each metric of the run that cannot be computed here."""
    if metrics is not None:
        named = parse_metrics(metrics)
        wrong = [metric.name for metric in named if ScoredMetric.of(metric).reads_answer]
        if wrong:
            raise ConfigError(
                f"{', '.join(wrong)}: reads the answer, and an ablation asks for none. Name "
                "metrics of the retriever; 'ragbench show metrics' lists them"
            )
        return named, []
    found: list[Metric] = []
    missing: list[str] = []
    for metric in filter(_is_replayable, metrics_of(manifest)):
        try:
            found.append(computable(metric))
        except ConfigError as error:
            missing.append(f"Left out: {error}.")
    if not found:
        raise ConfigError("the run measured nothing of the retriever: name metrics with --metrics")
    return tuple(found), missing


def _is_replayable(metric: Metric) -> bool:
    definition = metric.definition
    return (
        definition.group is Group.RETRIEVER
        and definition.deterministic
        and not metric.is_judged
        and not ScoredMetric.of(metric).reads_answer
    )


def _began(run: Path) -> datetime:
    """The day on which the run began: what ages are counted from where no variant says more."""
    with Journal(RunFolder(path=run).journal) as journal:
        first = min(journal.started().values())
    return datetime.fromisoformat(first[:10]).replace(tzinfo=UTC)


def _prepared(stage: PostRetrieval, now: datetime, scores: ScoreStore | None) -> PostRetrieval:
    dated = stage.dated(now)
    return dated if scores is None else with_stored_scores(dated, scores)


def _windows(run: Path, limit: int | None, *, size: int) -> Iterator[list[Trace]]:
    """The run's cases as retrieval left them."""
    traces = (
        replace(case.trace, generation=_NOT_GENERATED, post_retrieval=None)
        for case in islice(open_traces(run), limit)
    )
    while window := list(islice(traces, size)):
        yield window


@dataclass(kw_only=True, slots=True)
class _Trial:
    """One variant and what it came to so far."""

    variant: Variant
    counter: TokenCounter
    matching: Matching
    stage: PostRetrieval
    """The variant's, dated and with its store of scores."""
    values: list[dict[str, float | None]] = field(default_factory=list["dict[str, float | None]"])
    """A mapping a metric: case id to value, None where there is none."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    chunks: int = 0
    passed_over: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    biographies: BiographyTally = field(default_factory=BiographyTally)
    reused: int = 0
    """Scores that were known from before."""
    acted: int = 0
    """Cases in which it left anything else than the first variant."""
    left: dict[str, object] = field(default_factory=dict[str, object])
    """What it left of the cases of the present window."""

    def take(
        self, window: Sequence[Trace], plan: Plan, first: _Trial, pool: ThreadPoolExecutor
    ) -> None:
        """Takes a window of cases through the variant and scores them."""
        if not self.seconds:
            self._warm_up(window)
        outcomes = pool.map(self._timed, window)
        traces = [
            replace(trace, post_retrieval=self._counted(trace, *done))
            for trace, done in zip(window, outcomes, strict=True)
        ]
        for trace in traces:
            self.biographies.add(trace.case.id, biography_of(trace, self.matching))
            left = _left(trace)
            if first is self:
                self.left[trace.case.id] = left
            else:
                self.acted += left != first.left[trace.case.id]
        self.values = self.values or [{} for _ in plan.metrics]
        for trace, cells in zip(traces, plan.score(traces), strict=True):
            for values, cell in zip(self.values, cells, strict=True):
                values[trace.case.id] = cell.value

    def _warm_up(self, window: Sequence[Trace]) -> None:
        """What is loaded at the first call is not part of a query's time."""
        if any(getattr(one, "asks_elsewhere", False) for one in rerankers_of(self.variant.stage)):
            return
        for trace in window:
            if trace.retrieval.value is not None:
                self._run(trace.case.query, trace.retrieval.value)
                return

    def _timed(self, trace: Trace) -> tuple[Outcome[RetrievalResult[Any]], float]:
        given = trace.retrieval.value
        if given is None:
            return trace.retrieval, 0.0
        started = time.perf_counter()
        outcome = self._run(trace.case.query, given)
        return outcome, time.perf_counter() - started

    def _counted(
        self, trace: Trace, outcome: Outcome[RetrievalResult[Any]], seconds: float
    ) -> Outcome[RetrievalResult[Any]]:
        if trace.retrieval.value is not None:
            self.seconds.append(seconds)
            self._count(outcome)
        return outcome

    def _run(self, query: str, given: RetrievalResult[Any]) -> Outcome[RetrievalResult[Any]]:
        try:
            value = post_retrieved(self.stage, query, given)
        except (InputError, LLMStoppedError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever an operator raises becomes an outcome
            failure = Failure.of(error, stage=self.variant.name)
            return Outcome(status=Status.FAILED, failure=failure)
        return Outcome(status=Status.MEASURED, value=value)

    def _count(self, outcome: Outcome[RetrievalResult[Any]]) -> None:
        if outcome.value is None:
            self.failed += 1
            self.failures[str(outcome.failure)] += 1
            return
        texts, _ = contexts_for_generation(outcome.value, b"")
        self.tokens.append(sum(self.counter.count(text) for text in texts))
        self.chunks += len(outcome.value)
        failures = [str(f) for step in steps_of(outcome.value) for f in step.failures]
        self.failures.update(failures)
        self.passed_over += bool(failures)

    def report(self, effects: tuple[VariantEffect, ...], *, is_first: bool) -> VariantReport:
        """What the variant came to."""
        return VariantReport(
            name=self.variant.name,
            settings=self.variant.stage.identity,
            changes=effects,
            chunks=self.chunks / len(self.tokens) if self.tokens else 0.0,
            tokens=math.fsum(self.tokens) / len(self.tokens) if self.tokens else 0.0,
            tokens_p95=_percentile(self.tokens, 0.95),
            seconds_p50=_percentile(self.seconds, 0.50),
            seconds_p95=_percentile(self.seconds, 0.95),
            reused_scores=self.reused,
            passed_over=self.passed_over,
            failed=self.failed,
            failures=tuple(sorted(self.failures.items(), key=lambda item: (-item[1], item[0]))),
            acted=None if is_first else self.acted,
            operators=self.biographies.table(),
        )


def _left(trace: Trace) -> object:
    """All that generation would be given, and all that metrics read."""
    result = trace.context.value
    if result is None:
        return trace.context.status
    texts, _ = contexts_for_generation(result, b"")
    return tuple(texts), tuple(result.context_ids or ())


@dataclass(kw_only=True, slots=True)
class _Ceiling:
    """The scores of the best order of the retrieved chunks."""

    matching: Matching
    values: list[list[float]] = field(default_factory=list[list[float]])

    def take(self, window: Sequence[Trace], plan: Plan) -> None:
        """Counts a window of cases, as retrieved; those without known gold contexts are not."""
        best = [found for trace in window if (found := best_order(trace, self.matching))]
        self.values = self.values or [[] for _ in plan.metrics]
        for cells in plan.score(best) if best else ():
            for values, cell in zip(self.values, cells, strict=True):
                if cell.value is not None:
                    values.append(cell.value)

    def scores(self, columns: int) -> tuple[float | None, ...]:
        """A mean a metric; None where nothing was measured."""
        values = self.values or [[] for _ in range(columns)]
        return tuple(math.fsum(one) / len(one) if one else None for one in values)


def _percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured; 0 without any."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _notes(depths: Sequence[int], cases: int, counter: TokenCounter) -> tuple[str, ...]:
    notes: list[str] = []
    depth = int(statistics.median(depths))
    if depth < _SHALLOW:
        notes.append(
            f"The stored retrievals hold {depth} chunks: a reranker can only move those. Evaluate "
            "with --top-k 50 to give it more to choose from."
        )
    if len(depths) < cases:
        notes.append(f"{cases - len(depths)} cases have no retrieval to replay.")
    if counter.approximate:
        notes.append(f"{ESTIMATED[0].upper()}{ESTIMATED[1:]}; name one with --counter.")
    return tuple(notes)
