"""What a tracker gets of a run, and what it says of it: `Tracker` is the protocol of all of them.

`ragbench.verbs.track` makes a `TrackedRun` of a stored run. A score without a value has a status
and a reason, and never a number: a tracker shows its count, or leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from ragbench.core.outcome import Cell, Status
from ragbench.core.record import Record
from ragbench.core.report import Summary
from ragbench.masking import hidden
from ragbench.plugins import Registry
from ragbench.trackers.receipt import Receipt

SOURCE = "ragbench"
"""The author of scores, and the project or experiment for runs where the user names none."""


class TrackedCase(Record):
    """A case of a run with its scores. Its texts have no credentials."""

    id: str
    query: str
    reference: str | None
    answer: str | None
    """None where generation failed or was skipped."""
    contexts: tuple[str, ...] | None
    """The chunks that generation was given; None when unknown."""
    context_ids: tuple[str, ...] | None
    cause: str
    """Why its answer is right, or which stage lost it."""
    error: str | None
    """The first failure of a stage or metric."""
    cells: Mapping[str, Cell]
    """One per metric of the run, by its name."""
    trace_id: str | None
    """The trace of the tracker that it came from; None where it came from no trace."""

    @property
    def values(self) -> Mapping[str, float]:
        """The measured scores of a case by metric: trackers get these as numbers.

        A metric without a value is left out: a missing score must not be sent as zero.
        """
        values: dict[str, float] = {}
        for metric, cell in self.cells.items():
            if cell.value is not None:
                values[metric] = cell.value
        return values

    @property
    def unmeasured(self) -> Mapping[str, str]:
        """Why a metric has no value for this case, by metric, such as ``skipped: no reference``.

        Trackers show it as text: a missing score is never sent as a number.
        """
        reasons: dict[str, str] = {}
        for metric, cell in self.cells.items():
            if cell.value is None:
                reasons[metric] = unmeasured_text(cell)
        return reasons


def unmeasured_text(cell: Cell) -> str:
    """The status and the reason of a cell without a value, as a tracker shows them.

    Credentials are masked, as an error may name them.
    """
    reason = cell.reason
    if cell.failure is not None:
        reason = str(cell.failure)
    if reason:
        return hidden(f"{cell.status.value}: {reason}")
    return cell.status.value


class TrackedRun(Record):
    """A stored run for a tracker."""

    name: str
    system: str
    dataset: str
    dataset_fingerprint: str
    """Changes with any case, or with their order."""
    commit: str | None
    settings: Mapping[str, str]
    """What two runs are compared by: dataset, system, top_k, number of cases."""
    summaries: tuple[Summary, ...]
    cases: Callable[[], Iterator[TrackedCase]]
    """Reads the cases anew at each call, in the run's order."""
    pages: tuple[Path, ...]
    """The files of the report: page, tables, JSON."""

    @property
    def figures(self) -> Mapping[str, float]:
        """The numbers of the run's report by name, without those that have no value.

        These are scores, bounds of intervals and counts, by names that every tracker accepts.
        """
        return figures_of(self.summaries)


class Tracked(Record):
    """The result of an export to a tracker."""

    tracker: str
    id: str
    """The tracker's id of the run."""
    address: str
    """Where to look at it."""
    is_new: bool
    """False where an earlier export was updated."""
    cases: int
    scored_traces: int = 0
    """Traces that got the scores of their cases."""
    missing_traces: int = 0
    """Cases whose trace the tracker does not have."""


class Tracker(Protocol):
    """The one primitive of a tracker.

    Sending the same run twice changes nothing: the receipt has the ids of the first time.

    Raises:
        TrackerError: the tracker cannot be reached, or refuses the run.
    """

    def __call__(self, run: TrackedRun, receipt: Receipt) -> Tracked:
        """Sends a stored run to the tracker, or updates what an earlier export made there.

        Args:
            run: the run with its cases, scores and figures.
            receipt: the tracker's ids of earlier exports of the run; takes a new id at once, so
                that an interrupted export can be continued.
        """
        ...


TRACKERS = Registry(kind="trackers")
"""The trackers by name. Others come by the entry-point group ``ragbench.trackers``; each is a
function of the shape `Tracker`."""


def figures_of(summaries: Iterable[Summary]) -> Mapping[str, float]:
    """The numbers of a report, by names that every tracker accepts.

    Of ``recall@5`` they are ``recall_at_5``, ``recall_at_5.ci_low``, ``recall_at_5.ci_high`` and a
    count of cases per status, ``recall_at_5.measured``. A metric without a value has counts alone.
    Dashboards of users hold these names: renamed, they would show no new runs.
    """
    figures: dict[str, float] = {}
    for name, value in possible_figures(summaries).items():
        if value is not None:
            figures[name] = value
    return figures


def possible_figures(summaries: Iterable[Summary]) -> Mapping[str, float | None]:
    """All figures of a report's metrics; None for a score or a bound that has no value.

    A tracker that overwrites single figures removes by these a figure that only an earlier export
    had. The names are those that dashboards of users read: a change breaks them.
    """
    # Read twice: once for the names, once for the figures.
    summaries = tuple(summaries)
    names = plain_names(summary.metric.name for summary in summaries)
    figures: dict[str, float | None] = {}
    for summary in summaries:
        name = names[summary.metric.name]
        interval = summary.interval
        low = None
        high = None
        if interval is not None:
            low = interval.low
            high = interval.high
        figures[name] = summary.score
        figures[f"{name}.ci_low"] = low
        figures[f"{name}.ci_high"] = high
        for status in Status:
            # A summary has a count for each status, in a field of its name.
            figures[f"{name}.{status.value}"] = getattr(summary, status.value)
    return figures


def plain_names(metrics: Iterable[str]) -> Mapping[str, str]:
    """A name per metric in letters, digits and ``_`` that starts with a letter; ``@`` is ``_at_``.

    Names are unique without regard to case: MLflow keeps a file per metric. A dot is not in them:
    it divides a metric from its interval and its counts. Dashboards of users hold these names, so a
    metric's plain name must stay as it is.
    """
    names: dict[str, str] = {}
    used_names: set[str] = set()
    for metric in metrics:
        spelled = metric.replace("@", "_at_")
        base = re.sub(r"[^A-Za-z0-9]+", "_", spelled).strip("_")
        # MLflow and W&B want a letter at the beginning.
        if not base or base[0].isdigit():
            base = f"metric_{base}".rstrip("_")
        name = base
        number = 2
        # Two metrics may be spelled alike without their signs: the later one gets a number.
        while name.casefold() in used_names:
            name = f"{base}_{number}"
            number += 1
        used_names.add(name.casefold())
        names[metric] = name
    return names


def case_values(case: TrackedCase) -> dict[str, Any]:
    """A case as a row of a tracker's table: its texts, then value and status of each metric.

    Every row has the same columns in the same order, as trackers want it. None is unknown. Tables
    of earlier runs have the same columns, so that runs can be compared.
    """
    values: dict[str, Any] = {
        "case_id": case.id,
        "query": case.query,
        "answer": case.answer,
        "reference": case.reference,
        "contexts": case.contexts,
        "context_ids": case.context_ids,
        "cause": case.cause,
        "error": case.error,
        "trace_id": case.trace_id,
    }
    for metric, cell in case.cells.items():
        values[metric] = cell.value
        values[f"{metric} status"] = cell.status.value
    return values
