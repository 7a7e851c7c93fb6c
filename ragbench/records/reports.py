"""A report: everything that the rendered forms of a run say, as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.records.cells import Cell, Failure, Status
from ragbench.records.judgements import Judgement
from ragbench.records.judging import JudgeReport
from ragbench.records.metrics import Metric
from ragbench.records.summaries import Summary
from ragbench.records.validation import Validation
from ragbench.records.validation_tables import ValidationTable

__all__ = ["CaseRow", "FailureGroup", "Latency", "Report", "StageCount"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRow:
    """One case of a run."""

    id: str
    fingerprint: str
    """Changes with anything that is known of the case."""
    query: str
    reference: str | None
    reference_ids: tuple[str, ...] | None
    cluster: str | None
    tags: tuple[str, ...]
    language: str | None
    retrieved_ids: tuple[str, ...] | None
    """Ids of what generation was given, best first; None when unknown."""
    response: str | None
    """None when generation failed or was skipped."""
    stages: Mapping[str, Status]
    """How each stage ended."""
    failures: tuple[Failure, ...]
    """What failed, a failure a stage or metric."""
    cells: tuple[Cell, ...]
    """A cell a metric, in the report's order."""
    judgements: tuple[tuple[Judgement, ...], ...] = ()
    """What each cell rests on, in the same order, where a model judged it; empty when no metric of
    the run asks one."""
    validation: Validation | None = None
    """The verdict on what generation was given; None without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageCount:
    """How a stage ended, over all cases."""

    stage: str
    measured: int
    abstained: int
    skipped: int
    failed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureGroup:
    """Failures of one kind."""

    stage: str
    type: str
    message: str
    count: int
    examples: tuple[str, ...]
    """Ids of the first cases that failed so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """Wall times of one stage, in seconds a case."""

    stage: str
    count: int
    mean: float
    p50: float
    p95: float
    longest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A run's result. A pure function of the stored run."""

    manifest: Mapping[str, Any]
    """The run's manifest as a plain mapping."""
    metrics: tuple[Metric, ...]
    """Every metric of the run, in the order that the user gave."""
    summaries: tuple[Summary, ...]
    """A summary a metric, in the same order."""
    stages: tuple[StageCount, ...]
    """In the order in which they run."""
    failures: tuple[FailureGroup, ...]
    """Most frequent first."""
    latencies: tuple[Latency, ...]
    """Differs from run to run: kept out of every file that must not."""
    notes: tuple[str, ...]
    """What a reader must know to read the numbers right."""
    validation: ValidationTable | None = None
    """What the verdicts on retrievals come to; None for a run without them."""
    rows: Callable[[], Iterator[CaseRow]]
    """The cases in order; read from the run anew at each call, so that memory stays flat."""
    judging: JudgeReport | None = None
    """What judging took; None when no metric of the run asks a model."""
