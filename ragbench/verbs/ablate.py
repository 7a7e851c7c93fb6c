"""ablate(): variants of post-retrieval over one stored run, without asking the RAG again."""

from __future__ import annotations

import math
import statistics
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ragbench.core.comparison import Ablation, VariantEffect, VariantReport
from ragbench.core.metric import Group, Metric
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, InputError, RunMismatchError
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.manifest import Manifest, read_manifest
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike, computable, parse_metrics
from ragbench.post.build import Variant
from ragbench.post.stage import post_retrieved, steps_of
from ragbench.stages.rag import contexts_for_generation
from ragbench.stages.score import ScoredMetric
from ragbench.stats.mean import student_interval
from ragbench.stats.paired import pair
from ragbench.text.token_counter import APPROXIMATE, TokenCounter
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
    advance: Callable[[int], None] = lambda _: None,
) -> Ablation:
    """Takes the retrievals of a stored run through several variants of post-retrieval.

    Args:
        run: the run's folder. What its own post-retrieval did is not looked at.
        variants: at least one; the first is what the others are compared with.
        metrics: what to measure; the run's retriever metrics when not given.
        counter: counts the tokens that generation would be given.
        confidence: of the intervals of differences. Each is for one comparison alone.
        advance: told how many more cases are through.

    Returns:
        A score a variant and metric, with its mean paired difference from the first variant: an
        interval by Student-t with cluster-robust errors, see `ragbench.stats.mean`.

    Raises:
        RunMismatchError: there is no run in the folder, or it holds no retrieval.
        ConfigError: there is no variant; a metric reads the answer, which an ablation has not; the
            run has no retriever metric and none was named.
        InputError: a variant needs something that is not installed or does not exist.
    """
    if not variants:
        raise ConfigError("there is no variant to try")
    manifest = read_manifest(RunFolder(path=run).manifest)
    columns, missing = _metrics_of(manifest, metrics)
    plan = Plan(columns, matching=Matching(manifest.settings["matching"]))
    trials = [_Trial(variant=variant, counter=counter) for variant in variants]
    clusters: dict[str, str | None] = {}
    depths: list[int] = []
    for window in _windows(run):
        clusters.update((trace.case.id, trace.case.cluster) for trace in window)
        depths += [len(t.retrieval.value) for t in window if t.retrieval.value is not None]
        for trial in trials:
            trial.take(window, plan)
        advance(len(window))
    if not depths:
        raise RunMismatchError(f"{run} holds no retrieval to replay")
    first = trials[0]
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
            trial.report(None if trial is first else first, columns, clusters, confidence)
            for trial in trials
        ),
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


def _windows(run: Path) -> Iterator[list[Trace]]:
    """The run's cases as retrieval left them."""
    traces = (
        replace(case.trace, generation=_NOT_GENERATED, post_retrieval=None)
        for case in open_traces(run)
    )
    while window := list(islice(traces, _WINDOW)):
        yield window


@dataclass(kw_only=True, slots=True)
class _Trial:
    """One variant and what it came to so far."""

    variant: Variant
    counter: TokenCounter
    values: list[dict[str, float | None]] = field(default_factory=list["dict[str, float | None]"])
    """A mapping a metric: case id to value, None where there is none."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    chunks: int = 0
    passed_over: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])

    def take(self, window: Sequence[Trace], plan: Plan) -> None:
        """Takes a window of cases through the variant and scores them."""
        traces = [replace(trace, post_retrieval=self._processed(trace)) for trace in window]
        self.values = self.values or [{} for _ in plan.metrics]
        for trace, cells in zip(traces, plan.score(traces), strict=True):
            for values, cell in zip(self.values, cells, strict=True):
                values[trace.case.id] = cell.value

    def _processed(self, trace: Trace) -> Outcome[RetrievalResult[Any]]:
        given = trace.retrieval.value
        if given is None:
            return trace.retrieval
        if not self.seconds:  # what is loaded at the first call is not part of a query's time
            self._run(trace.case.query, given)
        started = time.perf_counter()
        outcome = self._run(trace.case.query, given)
        self.seconds.append(time.perf_counter() - started)
        self._count(outcome)
        return outcome

    def _run(self, query: str, given: RetrievalResult[Any]) -> Outcome[RetrievalResult[Any]]:
        try:
            value = post_retrieved(self.variant.stage, query, given)
        except InputError:
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

    def report(
        self,
        first: _Trial | None,
        metrics: Sequence[Metric],
        clusters: dict[str, str | None],
        confidence: float,
    ) -> VariantReport:
        """What the variant came to, compared with the first one."""
        return VariantReport(
            name=self.variant.name,
            settings=self.variant.stage.identity,
            changes=tuple(
                _change(
                    metric,
                    self.values[at],
                    None if first is None else first.values[at],
                    clusters,
                    confidence,
                )
                for at, metric in enumerate(metrics)
            ),
            chunks=self.chunks / len(self.tokens) if self.tokens else 0.0,
            tokens=math.fsum(self.tokens) / len(self.tokens) if self.tokens else 0.0,
            tokens_p95=_percentile(self.tokens, 0.95),
            seconds_p50=_percentile(self.seconds, 0.50),
            seconds_p95=_percentile(self.seconds, 0.95),
            passed_over=self.passed_over,
            failed=self.failed,
            failures=tuple(sorted(self.failures.items(), key=lambda item: (-item[1], item[0]))),
        )


def _change(
    metric: Metric,
    values: dict[str, float | None],
    before: dict[str, float | None] | None,
    clusters: dict[str, str | None],
    confidence: float,
) -> VariantEffect:
    known = [value for value in values.values() if value is not None]
    score = math.fsum(known) / len(known) if known else None
    if before is None:
        return VariantEffect(metric=metric, score=score, measured=len(known))
    sample = pair(before, values, clusters=clusters)
    definition = metric.definition
    low, high = definition.low, definition.high
    reach = None if low is None or high is None else high - low
    found = student_interval(
        sample.totals(), confidence, bounds=None if reach is None else (-reach, reach)
    )
    return VariantEffect(
        metric=metric,
        score=score,
        measured=len(known),
        compared=len(sample.differences),
        difference=found.mean,
        low=found.low,
        high=found.high,
        gained=sample.gained,
        lost=sample.lost,
    )


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
        notes.append("Tokens are an estimate; name the generator's tokenizer with --counter.")
    return tuple(notes)
