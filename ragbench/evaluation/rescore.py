"""A stored run under today's metrics: its outputs are scored anew, the RAG is not asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ragbench.errors import RunMismatchError
from ragbench.evaluation.traces import StoredTraces, TracedCase
from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.records.run_scores import RunScores, ScoredCase
from ragbench.runs.folder import RunFolder
from ragbench.runs.journal import Journal
from ragbench.runs.manifest import read_manifest
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan
from ragbench.scoring.registry import parse_metrics
from ragbench.scoring.summary import SummaryBuilder

__all__ = ["rescore"]

_BATCH = 256
"""Cases that are scored at a time."""


def rescore(path: Path, like: RunScores) -> RunScores:
    """Scores a run's stored outputs with the metrics, the matching and the judge of another run.

    Nothing is stored: the run stays as it is.

    Args:
        path: the run's folder, with its journal.
        like: the run whose metrics are computed.

    Raises:
        RunMismatchError: there is no run in the folder, or only what was reported of it.
        ConfigError: a metric of ``like`` is not known here.
        MissingExtraError: a metric needs a package that is not installed.
    """
    folder = RunFolder(path=path)
    if not folder.exists:
        raise RunMismatchError(
            f"{path} has no {folder.journal.name}: to score outputs again, the folder of the run "
            "that gave them is needed, not its report or a baseline file"
        )
    manifest = read_manifest(folder.manifest)
    columns = [column for column in like.metrics if column.has_cells]
    metrics = parse_metrics([column.name for column in columns])
    plan = Plan(metrics, matching=Matching(like.matching))
    builder = SummaryBuilder(metrics)
    with Journal(folder.journal) as journal:
        traces = StoredTraces(journal=journal, manifest=manifest, metrics=(), with_texts=True)
        cases = tuple(_scored(iter(traces), plan, metrics, builder))
    scores = [summary.score for summary in builder.summaries()]
    git = manifest.git or {}
    return RunScores(
        source=str(path),
        dataset=manifest.dataset.name,
        rag=manifest.rag.name,
        fingerprints={**like.fingerprints, "dataset": manifest.dataset.fingerprint},
        matching=like.matching,
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=tuple(
            replace(column, version=metric.definition.version, score=score)
            for column, metric, score in zip(columns, metrics, scores, strict=True)
        ),
        cases=cases,
    )


def _scored(
    traces: Iterator[TracedCase],
    plan: Plan,
    metrics: Sequence[Metric],
    builder: SummaryBuilder,
) -> Iterator[ScoredCase]:
    while batch := list(islice(traces, _BATCH)):
        rows = plan.score([traced.trace for traced in batch])
        for traced, cells in zip(batch, rows, strict=True):
            builder.add(traced.trace.case, cells)
            yield _case(traced, metrics, cells)


def _case(traced: TracedCase, metrics: Sequence[Metric], cells: Sequence[Cell]) -> ScoredCase:
    trace = traced.trace
    result, answer = trace.context.value, trace.generation.value
    return ScoredCase(
        id=trace.case.id,
        fingerprint=traced.fingerprint.hex(),
        scores={metric.name: _told(cell) for metric, cell in zip(metrics, cells, strict=True)},
        cluster=trace.case.cluster,
        tags=trace.case.tags,
        language=trace.case.language,
        query=trace.case.query,
        response=None if answer is None else answer.response,
        retrieved_ids=None
        if result is None or result.context_ids is None
        else tuple(result.context_ids),
        stages={"retrieve": trace.retrieval.status, "generate": trace.generation.status},
    )


def _told(cell: Cell) -> Cell:
    """A failed cell tells why by its reason, as one that was read from a file does."""
    if cell.failure is None:
        return cell
    return Cell(status=cell.status, reason=str(cell.failure))
