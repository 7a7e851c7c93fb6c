"""From a stored run to its report: a pure function of the run's folder."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from ragbench.errors import RunMismatchError
from ragbench.evaluation.judge_tally import JudgeTally
from ragbench.evaluation.traces import StoredTraces, TracedCase
from ragbench.evaluation.validate_stage import VALIDATE
from ragbench.evaluation.validation_tally import ValidationTally
from ragbench.postretrieval.on_result import POST_RETRIEVE, steps_of
from ragbench.preretrieval.on_result import pre_retrieval_failures
from ragbench.records.cells import Cell, Failure, Outcome, Status
from ragbench.records.reports import CaseRow, FailureGroup, Latency, Report, StageCount
from ragbench.runs.folder import RunFolder
from ragbench.runs.journal import Journal
from ragbench.runs.manifest import Manifest, read_manifest
from ragbench.runs.trace import Trace
from ragbench.scoring.registry import parse_metrics
from ragbench.scoring.summary import SummaryBuilder

__all__ = ["open_traces", "report_of"]

_KINDS = 1000
"""How many messages are told apart: a message that quotes its query differs for every case."""
_OTHERS = "(other messages)"
_UNSCORED = Cell.skipped("not scored yet: the run was interrupted")


def open_traces(path: Path, *, with_texts: bool = True) -> Iterator[TracedCase]:
    """Reads the cases of a stored run, in order.

    Args:
        path: the run's folder.
        with_texts: whether context texts are read too.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    folder = RunFolder(path=path)
    manifest = read_manifest(folder.manifest)
    metrics = parse_metrics([metric.name for metric in manifest.metrics])
    if not folder.exists:
        raise RunMismatchError(f"{path} is no run folder: it has no {folder.journal.name}")
    with Journal(folder.journal) as journal:
        yield from StoredTraces(
            journal=journal, manifest=manifest, metrics=metrics, with_texts=with_texts
        )


def report_of(path: Path) -> Report:
    """Builds the report of a stored run. Nothing is computed anew.

    Args:
        path: the run's folder.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    manifest = read_manifest(RunFolder(path=path).manifest)
    metrics = parse_metrics([metric.name for metric in manifest.metrics])
    builder = SummaryBuilder(metrics)
    tally = _Tally()
    judged = JudgeTally(metrics, manifest.judge)
    for case in open_traces(path, with_texts=False):
        cells = _complete(case)
        builder.add(case.trace.case, cells)
        tally.add(case.trace, cells)
        judged.add(case.judgements)
    return Report(
        manifest=orjson.loads(orjson.dumps(manifest)),
        metrics=metrics,
        summaries=builder.summaries(),
        stages=tally.stages(),
        failures=tally.failures(),
        latencies=tally.latencies(),
        notes=_notes(manifest, tally),
        judging=judged.report(),
        validation=tally.validation.table(),
        rows=lambda: (_row(case) for case in open_traces(path, with_texts=False)),
    )


def _complete(case: TracedCase) -> tuple[Cell, ...]:
    return tuple(_UNSCORED if cell is None else cell for cell in case.cells)


def _stage_outcomes(trace: Trace) -> tuple[tuple[str, Outcome[Any]], ...]:
    between = trace.post_retrieval
    stages: list[tuple[str, Outcome[Any]]] = [("retrieve", trace.retrieval)]
    if between is not None:
        stages.append((POST_RETRIEVE, between))
    if trace.validation is not None:
        stages.append((VALIDATE, trace.validation))
    return (*stages, ("generate", trace.generation))


def _made_up_for(trace: Trace) -> list[Failure]:
    """Failures before retrieval and of operators that were passed over."""
    first, between = trace.retrieval.value, trace.post_retrieval
    found = [] if first is None else [*pre_retrieval_failures(first)]
    if between is None or between.value is None:
        return found
    return [*found, *(failure for step in steps_of(between.value) for failure in step.failures)]


def _row(case: TracedCase) -> CaseRow:
    trace, cells = case.trace, _complete(case)
    result, answer = trace.context.value, trace.generation.value
    ids = None if result is None or result.context_ids is None else tuple(result.context_ids)
    return CaseRow(
        id=trace.case.id,
        fingerprint=case.fingerprint.hex(),
        query=trace.case.query,
        reference=trace.case.reference,
        reference_ids=trace.case.reference_context_ids,
        cluster=trace.case.cluster,
        tags=trace.case.tags,
        language=trace.case.language,
        retrieved_ids=ids,
        response=None if answer is None else answer.response,
        stages={stage: outcome.status for stage, outcome in _stage_outcomes(trace)},
        failures=tuple(_failures(trace, cells)),
        cells=cells,
        judgements=case.judgements,
        validation=None
        if trace.validation is None or trace.validation.value is None
        else replace(trace.validation.value, query_id=trace.case.id),
    )


def _failures(trace: Trace, cells: Iterable[Cell]) -> Iterator[Failure]:
    """What failed for a case; a failure that only passes on an earlier one is told once."""
    passed_over = _made_up_for(trace)
    if (
        not any([cell.failure for cell in cells])
        and not any([outcome.failure for _, outcome in _stage_outcomes(trace)])
        and not passed_over
    ):
        return  # most cases
    told: set[str] = set()
    outcomes = (outcome.failure for _, outcome in _stage_outcomes(trace))
    for failure in (*outcomes, *passed_over, *(cell.failure for cell in cells)):
        if failure is not None and (text := str(failure)) not in told:
            told.add(text)
            yield failure


@dataclass(slots=True)
class _Tally:
    """Counts over the cases of a run."""

    statuses: Counter[tuple[str, Status]] = field(default_factory=Counter[tuple[str, Status]])
    groups: dict[tuple[str, str, str], list[str]] = field(
        default_factory=dict[tuple[str, str, str], list[str]]
    )
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    seconds: dict[str, array[float]] = field(default_factory=dict[str, "array[float]"])
    repeated_ids: int = 0
    known_stages: set[str] = field(default_factory=set[str])
    validation: ValidationTally = field(default_factory=ValidationTally)

    def add(self, trace: Trace, cells: Iterable[Cell]) -> None:
        """Counts a case."""
        self.validation.add(trace)
        for stage, outcome in _stage_outcomes(trace):
            self.known_stages.add(stage)
            self.statuses[stage, outcome.status] += 1
            if outcome.seconds is not None:
                self.seconds.setdefault(stage, array("d")).append(outcome.seconds)
        for failure in _failures(trace, cells):
            key = (failure.stage, failure.type, failure.message)
            if key not in self.counts and len(self.counts) >= _KINDS:
                key = (failure.stage, failure.type, _OTHERS)
            self.counts[key] += 1
            examples = self.groups.setdefault(key, [])
            if len(examples) < 5:
                examples.append(trace.case.id)
        result = trace.retrieval.value
        if result is not None and result.context_ids is not None:
            self.repeated_ids += len(set(result.context_ids)) < len(result.context_ids)

    def stages(self) -> tuple[StageCount, ...]:
        """How each stage ended."""
        return tuple(
            StageCount(
                stage=stage,
                **{status.value: self.statuses[stage, status] for status in Status},
            )
            for stage in ("retrieve", POST_RETRIEVE, VALIDATE, "generate")
            if stage in self.known_stages
        )

    def failures(self) -> tuple[FailureGroup, ...]:
        """Failures of one kind together, the most frequent kind first."""
        return tuple(
            FailureGroup(
                stage=key[0],
                type=key[1],
                message=key[2],
                count=count,
                examples=tuple(self.groups[key]),
            )
            for key, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        )

    def latencies(self) -> tuple[Latency, ...]:
        """Wall times a stage."""
        return tuple(
            Latency(
                stage=stage,
                count=len(values),
                mean=math.fsum(values) / len(values),
                p50=_percentile(values, 0.50),
                p95=_percentile(values, 0.95),
                longest=max(values),
            )
            for stage, values in self.seconds.items()
        )


def _percentile(values: array[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _notes(manifest: Manifest, tally: _Tally) -> tuple[str, ...]:
    notes: list[str] = []
    matching = manifest.settings["matching"]
    if matching == "text":
        notes.append(
            "Retrieved chunks were matched with the gold by their text: the ids of the RAG are "
            "not those of the dataset."
        )
    elif matching == "document_id":
        notes.append(
            "Retrieved chunks were matched with the gold by the document that their metadata "
            "names: the gold ids are documents, the RAG's ids are not."
        )
    if tally.repeated_ids:
        notes.append(
            f"{tally.repeated_ids} retrievals returned an id more than once; only its first place "
            "counts."
        )
    return tuple(notes)
