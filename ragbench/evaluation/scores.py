"""The scoring step: cells that the journal lacks are computed, the others are left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ragbench.records.cells import Cell, Status
from ragbench.records.metrics import Metric, Need
from ragbench.runs.fingerprint import fixed_digest
from ragbench.runs.journal import Journal, StoredCase
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan

__all__ = ["Column", "Scoring", "Turn", "cell_keys"]

_GENERATED = frozenset(
    {
        Need.RESPONSE,
        Need.MULTI_RESPONSES,
        Need.CONFIDENCE,
        Need.TOKENS,
        Need.GENERATION_LATENCY,
    }
)


class Turn(NamedTuple):
    """A case's turn at scoring."""

    stored: StoredCase
    trace: Trace
    retrieved: bytes
    """Digest of what was retrieved."""
    generated: bytes
    """Digest of what was generated."""


class Column(NamedTuple):
    """A metric's place in the journal."""

    metric: Metric
    identity: str
    """The metric's own, under which its cells are stored."""
    reads_answer: bool
    """Whether its cells depend on what was generated."""

    @classmethod
    def of(cls, metric: Metric) -> Column:
        """The column of a metric."""
        needs, abstains = metric.definition.needs, metric.definition.abstains
        return cls(metric, metric.identity, abstains or not needs.isdisjoint(_GENERATED))


def cell_keys(turn: Turn, matching: Matching) -> tuple[bytes, bytes]:
    """Digests of all that a cell depends on, besides the metric itself.

    Returns:
        The key of metrics that read no answer, which keep their cells when only the answers
        change, and the key of those that do. `Column.reads_answer` is the index.
    """
    question = fixed_digest(turn.stored.digest, turn.retrieved, matching.encode())
    return question, fixed_digest(question, turn.generated)


_Keyed = tuple[Turn, tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """Scores windows of cases under the run's metrics."""

    columns: tuple[Column, ...]
    matching: Matching
    journal: Journal
    retry_failed: bool
    _plans: dict[tuple[int, ...], Plan] = field(default_factory=dict[tuple[int, ...], Plan])

    def score(self, turns: Sequence[Turn]) -> int:
        """Settles every cell of a window.

        Returns:
            How many cases had no cell to compute.
        """
        known = {}
        if not self.journal.was_empty:
            known = self.journal.cells([turn.stored.number for turn in turns])
        # Groups are told apart by the positions of their columns: a metric's hash takes long.
        every = tuple(range(len(self.columns)))
        groups: dict[tuple[int, ...], list[_Keyed]] = defaultdict(list)
        for turn in turns:
            number, keys = turn.stored.number, cell_keys(turn, self.matching)
            lacking = every
            if known:
                lacking = tuple(
                    position
                    for position, column in enumerate(self.columns)
                    if self._is_missing(
                        known.get((number, column.identity, keys[column.reads_answer]))
                    )
                )
            groups[lacking].append((turn, keys))
        for positions, members in groups.items():
            if positions:
                self._compute(positions, members)
        return len(groups.get((), ()))

    def _is_missing(self, cell: Cell | None) -> bool:
        return cell is None or (self.retry_failed and cell.status == Status.FAILED)

    def _compute(self, positions: tuple[int, ...], members: Sequence[_Keyed]) -> None:
        columns = [self.columns[position] for position in positions]
        plan = self._plans.get(positions)
        if plan is None:  # kept for the run: a scorer may hold a model or an event loop
            metrics = [column.metric for column in columns]
            plan = self._plans[positions] = Plan(metrics, matching=self.matching)
        rows = plan.score([turn.trace for turn, _ in members])
        self.journal.record_cells(
            (turn.stored.number, column.identity, keys[column.reads_answer], cell)
            for (turn, keys), cells in zip(members, rows, strict=True)
            for column, cell in zip(columns, cells, strict=True)
        )
        self.journal.flush()
