"""The scoring step: cells that the journal lacks are computed, the others are left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ragbench.records.cells import Cell, Status
from ragbench.records.metrics import Metric, Need
from ragbench.runs.fingerprint import digest
from ragbench.runs.journal import Journal, StoredCase
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan

__all__ = ["Scoring", "Turn", "cell_key"]

_GENERATED = frozenset({Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE, Need.TOKENS})


class Turn(NamedTuple):
    """A case's turn at scoring."""

    stored: StoredCase
    trace: Trace
    retrieved: bytes
    """Digest of what was retrieved."""
    generated: bytes
    """Digest of what was generated."""


def cell_key(metric: Metric, matching: Matching, turn: Turn) -> bytes:
    """Digest of all that a cell depends on, besides the metric itself.

    A metric that reads no answer keeps its cells when only the answers change.
    """
    parts = [turn.stored.digest, turn.retrieved, str(matching).encode()]
    if not metric.definition.needs.isdisjoint(_GENERATED) or metric.definition.abstains:
        parts.append(turn.generated)
    return digest(parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """Scores windows of cases under the run's metrics."""

    metrics: tuple[Metric, ...]
    matching: Matching
    journal: Journal
    retry_failed: bool
    _plans: dict[tuple[Metric, ...], Plan] = field(default_factory=dict[tuple[Metric, ...], Plan])

    def score(self, turns: Sequence[Turn]) -> int:
        """Settles every cell of a window.

        Returns:
            How many cases had no cell to compute.
        """
        known = {}
        if not self.journal.was_empty:
            known = self.journal.cells([turn.stored.number for turn in turns])
        groups: dict[tuple[Metric, ...], list[Turn]] = defaultdict(list)
        for turn in turns:
            lacking = tuple(
                metric
                for metric in self.metrics
                if self._is_missing(
                    known.get(
                        (
                            turn.stored.number,
                            metric.identity,
                            cell_key(metric, self.matching, turn),
                        )
                    )
                )
            )
            groups[lacking].append(turn)
        for metrics, members in groups.items():
            if metrics:
                self._compute(metrics, members)
        return len(groups.get((), ()))

    def _is_missing(self, cell: Cell | None) -> bool:
        return cell is None or (self.retry_failed and cell.status == Status.FAILED)

    def _compute(self, metrics: tuple[Metric, ...], turns: Sequence[Turn]) -> None:
        plan = self._plans.get(metrics)
        if plan is None:  # kept for the run: a scorer may hold a model or an event loop
            plan = self._plans[metrics] = Plan(metrics, matching=self.matching)
        rows = plan.score([turn.trace for turn in turns])
        self.journal.record_cells(
            (turn.stored.number, metric.identity, cell_key(metric, self.matching, turn), cell)
            for turn, cells in zip(turns, rows, strict=True)
            for metric, cell in zip(metrics, cells, strict=True)
        )
        self.journal.flush()
