"""The scoring step: cells that the journal lacks are computed, the others are left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragbench.evaluation.judging import Job, JudgeRun
from ragbench.evaluation.scored_turn import Column, Turn, cell_keys
from ragbench.records.cells import Cell, Status
from ragbench.runs.journal import Journal
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan

__all__ = ["Scoring"]

_Keyed = tuple[Turn, tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """Scores windows of cases under the run's metrics."""

    columns: tuple[Column, ...]
    """Those that nobody judges."""
    judge: JudgeRun | None
    """Settles the others; None where there are none."""
    matching: Matching
    journal: Journal
    retry_failed: bool
    _plans: dict[tuple[int, ...], Plan] = field(default_factory=dict[tuple[int, ...], Plan])

    def score(self, turns: Sequence[Turn]) -> int:
        """Settles every cell of a window: first those that cost nothing.

        Returns:
            How many cases had no cell to compute, judged ones left aside.

        Raises:
            LLMStoppedError: no model answers any more; the rest is settled by a later run.
            InterruptedRunError: the user stopped the judging.
        """
        known: dict[tuple[int, str, bytes], Cell] = {}
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
                    if self._is_missing(known.get((number, column.identity, column.key(keys))))
                )
            groups[lacking].append((turn, keys))
        for positions, members in groups.items():
            if positions:
                self._compute(positions, members)
        if self.judge is not None:
            self._judge(self.judge, turns, known)
        return len(groups.get((), ()))

    def _judge(
        self,
        judge: JudgeRun,
        turns: Sequence[Turn],
        known: Mapping[tuple[int, str, bytes], Cell],
    ) -> None:
        jobs: list[Job] = []
        for turn in turns:
            keys = cell_keys(turn, self.matching)
            for position, column in enumerate(judge.columns):
                key = column.key(keys)
                if self._is_missing(known.get((turn.stored.number, column.identity, key))):
                    jobs.append(Job(turn, position, key))
        judge.all(jobs)

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
            (turn.stored.number, column.identity, column.key(keys), cell)
            for (turn, keys), cells in zip(members, rows, strict=True)
            for column, cell in zip(columns, cells, strict=True)
        )
        self.journal.flush()
