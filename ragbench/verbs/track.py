"""A stored run to a tracker: MLflow, Langfuse and others (`ragbench.trackers`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragbench.core.outcome import Cell
from ragbench.core.report import CaseRow
from ragbench.core.trace import Trace
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import Manifest, path_of
from ragbench.masking import hidden
from ragbench.trackers.receipt import Receipt
from ragbench.trackers.tracker import TRACKERS, Tracked, TrackedCase, TrackedRun, Tracker
from ragbench.verbs.report import RunCases, report_of

_PAGES = ("report.html", "report.md", "report.json", "cases.csv")
"""The files of a run that a tracker keeps beside its figures."""


def track_run(run: str | Path, to: str) -> Tracked:
    """Sends a stored run to a tracker; a run that was sent before is updated there.

    Args:
        run: the run's folder. Its ``trackers.json`` keeps the tracker's ids.
        to: a tracker's name: mlflow, wandb, langfuse, langsmith or phoenix.

    Raises:
        RunMismatchError: there is no run in the folder.
        ConfigError: no such tracker.
        TrackerError: the tracker cannot be reached, or refuses the run.
        MissingExtraError: a package that the tracker needs is not installed.
    """
    path = path_of(run)
    tracker: Tracker = TRACKERS.load(to)  # an unknown name is refused before the run is read
    report = report_of(path)
    cases = RunCases.of(path)
    manifest = cases.manifest
    settings = _settings_as_texts(manifest)
    # A run that was continued with other cases or settings is another run to the tracker.
    receipt = Receipt(path, fingerprint((manifest.fingerprints, settings)))
    git = manifest.git or {}
    pages = [path / name for name in _PAGES]
    tracked_run = TrackedRun(
        name=path.resolve().name,
        system=manifest.rag.name,
        dataset=manifest.dataset.name,
        dataset_fingerprint=manifest.dataset.fingerprint,
        commit=git.get("commit"),
        settings=settings,
        summaries=report.summaries,
        # A function: cases are read only as the tracker sends them.
        cases=lambda: _tracked_cases(cases),
        pages=tuple(page for page in pages if page.is_file()),
    )
    return tracker(tracked_run, receipt)


def _settings_as_texts(manifest: Manifest) -> dict[str, str]:
    """The settings by which a tracker compares runs, as texts, which every tracker takes.

    Lists and mappings are left out. Together with the manifest's fingerprints they decide whether a
    run is sent anew or updated.
    """
    settings = {
        "system": manifest.rag.name,
        "dataset": manifest.dataset.name,
        "cases": str(manifest.dataset.cases),
    }
    for name, value in manifest.settings.items():
        # Also bool, which is an int: "True".
        if isinstance(value, str | int | float):
            settings[name] = str(value)
    return settings


def _tracked_cases(cases: RunCases) -> Iterator[TrackedCase]:
    """The run's cases in order as a tracker takes them: texts, and the report's scores.

    One at a time, as a tracker sends them; a run may be larger than memory.
    """
    names = [metric.name for metric in cases.metrics]
    # Rows have the report's scores, and traces the texts; both come in the order of the run's
    # cases, so that they pair.
    for row, run_case in zip(cases.rows(), cases.traces(), strict=True):
        cells = dict(zip(names, row.cells, strict=True))
        yield _tracked_case(row, run_case.trace, cells)


def _hidden_or_none(text: str | None) -> str | None:
    """A text with its credentials hidden, since it leaves this machine; None for no text."""
    if text is None:
        return None
    return hidden(text)


def _tracked_case(row: CaseRow, trace: Trace, cells: dict[str, Cell]) -> TrackedCase:
    """A case as a tracker takes it, with credentials hidden in its texts: they leave this machine.

    Args:
        cells: the case's scores by metric.
    """
    retrieved = trace.context.value
    contexts = None
    context_ids = None
    if retrieved is not None:
        contexts = tuple(hidden(text) for text in retrieved.contexts)
        if retrieved.context_ids is not None:
            context_ids = tuple(retrieved.context_ids)
    error = None
    if row.failures:
        # The first failure only: a tracker has one field for it.
        error = hidden(str(row.failures[0]))
    # A dataset may hold anything under this name.
    trace_id = trace.case.metadata.get("trace_id")
    if not isinstance(trace_id, str) or not trace_id:
        trace_id = None
    return TrackedCase(
        id=row.id,
        query=hidden(row.query),
        reference=_hidden_or_none(row.reference),
        answer=_hidden_or_none(row.response),
        contexts=contexts,
        context_ids=context_ids,
        cause=row.attribution.cause.value,
        error=error,
        cells=cells,
        trace_id=trace_id,
    )
