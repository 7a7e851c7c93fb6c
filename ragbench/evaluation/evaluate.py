"""evaluate(): cases through a RAG, into a journal, under metrics, to a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, Problem
from ragbench.evaluation.rag_stages import RAG, generate_stage, retrieve_stage
from ragbench.evaluation.report import report_of
from ragbench.evaluation.run import Run
from ragbench.evaluation.selection import Selection
from ragbench.evaluation.stage import Limits, Settle
from ragbench.interface.identity import describe_rag
from ragbench.records.cases import Case
from ragbench.records.metrics import Metric
from ragbench.records.reports import Report
from ragbench.runs.fingerprint import digest, fingerprint
from ragbench.runs.folder import RunFolder
from ragbench.runs.journal import Journal
from ragbench.runs.manifest import (
    DatasetInfo,
    Manifest,
    MetricInfo,
    RagInfo,
    git_state,
    package_versions,
    write_manifest,
)
from ragbench.scoring.matching import Matching
from ragbench.scoring.registry import default_metrics

__all__ = ["Advance", "evaluate"]

Advance = Callable[[str, int, int, int, int], None]
"""Told of progress: stage, cases in all, cases now settled, how many of those failed, how many
came out of the journal."""

_PACKAGES = (
    "bm25s", "ir-measures", "pytrec-eval-terrier", "ragas", "ragbench", "rapidfuzz",
    "rouge-score", "sacrebleu",
)  # fmt: skip


def evaluate(
    cases: Iterable[Case],
    rag: RAG,
    *,
    out: Path,
    metrics: Sequence[Metric] | None = None,
    name: str = "dataset",
    source: str = "",
    rag_name: str | None = None,
    rag_description: Mapping[str, Any] | None = None,
    top_k: int | None = None,
    selection: Selection | None = None,
    limits: Limits | None = None,
    matching: Matching = Matching.AUTO,
    fresh: bool = False,
    retry_failed: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    advance: Advance | None = None,
) -> Report:
    """Evaluates a RAG and leaves everything in a run folder.

    Called again with the same arguments it continues: outcomes that are in the folder's journal
    under the same stage identity and inputs are not computed again.

    Args:
        cases: the dataset's cases; read once, from front to back.
        rag: the system; see `ragbench.interface.adapt.as_rag` for what can be made one.
        out: the run folder.
        metrics: what to measure; `default_metrics` when not given.
        name: the dataset's name in reports.
        source: where the dataset came from, as the user named it.
        rag_name: the system's name in reports; its class when not given.
        rag_description: what distinguishes the system; derived from it when not given.
        top_k: handed to retrieval; None leaves it to the system.
        selection: which of the cases to take; all when not given.
        limits: batch size, calls in flight, time limit.
        matching: how retrieved chunks are compared with the relevant ones.
        fresh: forget what an earlier run left in the folder.
        retry_failed: compute again what failed in an earlier run.
        stopped: asked before each call; once true, what is in flight is finished and the run ends.
        advance: told of progress.

    Returns:
        The report; `ragbench.reports` renders it.

    Raises:
        DataError: a case cannot be used; nothing is run and an existing run is left as it was.
        RunLockedError: another process works on the folder.
        InterruptedRunError: `stopped` said so; the same call continues.
    """
    folder = RunFolder(path=out)
    chosen = tuple(metrics) if metrics is not None else default_metrics()
    description = rag_description or describe_rag(rag, rag_name or type(rag).__name__)
    stages = _stage_fingerprints(rag, description, top_k)
    with ExitStack() as stack:
        is_new = stack.enter_context(folder.locked(fresh=fresh))
        if is_new:  # nothing half-written: a folder whose cases never came is not left behind
            stack.callback(_discard_if_empty, folder)
        journal = stack.enter_context(Journal(folder.journal))
        picked = selection or Selection()
        dataset = _ingest(journal, cases, picked, name, source)
        runner = stack.enter_context(asyncio.Runner())
        run = Run(
            journal=journal,
            retrieve=retrieve_stage(rag, bytes.fromhex(stages["retrieve"]), top_k)
            if "retrieval" in rag.families
            else None,
            generate=generate_stage(rag, bytes.fromhex(stages["generate"]))
            if "generation" in rag.families
            else None,
            metrics=chosen,
            limits=limits or Limits(),
            retry_failed=retry_failed,
            stopped=stopped,
            in_loop=runner.run,
            settle=_settle(advance, dataset.cases),
        )
        manifest = Manifest(
            dataset=dataset,
            rag=RagInfo(
                name=rag_name or type(rag).__name__, description=description, stages=stages
            ),
            metrics=tuple(MetricInfo(name=m.name, version=m.definition.version) for m in chosen),
            settings={"matching": str(matching), "top_k": top_k},
            packages=package_versions(_PACKAGES),
            git=git_state(Path.cwd()),
        )
        write_manifest(manifest.with_fingerprints(), folder.manifest)
        used = run.all_cases(matching)
        manifest = replace(manifest, settings={"matching": str(used), "top_k": top_k})
        write_manifest(manifest.with_fingerprints(), folder.manifest)
    return report_of(out)


def _stage_fingerprints(
    rag: RAG, description: Mapping[str, Any], top_k: int | None
) -> dict[str, str]:
    """What each stage's outcomes are kept under: they are reused while it stays the same."""
    found: dict[str, str] = {}
    for stage in ("retrieve", "generate"):
        identity = rag.stage_identity(stage)
        found[stage] = fingerprint(
            (
                stage,
                description if identity is None else identity,
                top_k if stage == "retrieve" else None,
            )
        )
    return found


def _ingest(
    journal: Journal, cases: Iterable[Case], selection: Selection, name: str, source: str
) -> DatasetInfo:
    count = journal.replace_cases(selection.apply(cases))
    if count == 0:
        raise DataError([Problem(message="there are no cases", path=source)])
    return DatasetInfo(
        name=name,
        source=source,
        fingerprint=digest(journal.case_digests()).hex(),
        cases=count,
        limit=selection.limit,
        sample=selection.sample,
        seed=None if selection.sample is None else selection.seed,
    )


def _settle(advance: Advance | None, total: int) -> Settle:
    def settle(stage: str, done: int, failed: int, reused: int) -> None:
        if advance is not None:
            advance(stage, total, done, failed, reused)

    return settle


def _discard_if_empty(folder: RunFolder) -> None:
    if not folder.manifest.exists():
        folder.discard()
