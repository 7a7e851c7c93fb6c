"""Score as a stage: cells that the journal lacks are computed, the others are left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ragbench.core.matched import Matched
from ragbench.core.metric import Metric, Need
from ragbench.core.outcome import Cell, Judgement
from ragbench.core.trace import RunCase, Trace
from ragbench.ledger.journal import Journal
from ragbench.ledger.tables import CaseCells
from ragbench.metrics.gold_space import MatchingTally
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Compared, Plan
from ragbench.plugins import is_own
from ragbench.stages.attribution import matches_of
from ragbench.stages.stage import Running, cell_keys

if TYPE_CHECKING:
    from ragbench.workers.pool import Task, WorkerPool


class CellTable:
    """The cells of a run's metrics, between the rows of a window and the journal."""

    def __init__(
        self,
        journal: Journal,
        metrics: Sequence[Metric],
        matching: Matching,
        judges: Sequence[bytes],
    ) -> None:
        """``judges``: what the cells of each metric depend on beside the case; else empty."""
        self.metrics = tuple(metrics)
        self.matching = matching
        self.journal = journal
        self._numbers = journal.scores.numbers(
            [(one.identity, judge, one.name) for one, judge in zip(metrics, judges, strict=True)]
        )
        formulas = (one.definition.formula for one in metrics)
        self._are_users = [
            one is not None and not is_own(one.function.__module__) for one in formulas
        ]
        """A user's formula may read anything, so that no stored cell of it holds."""
        self._is_whole = self._numbers == list(range(journal.scores.columns))
        self._others: dict[int, Sequence[Cell | None]] = {}
        """By row what the journal holds, cells of other commands' metrics included."""

    def open(self, window: Sequence[RunCase]) -> None:
        """Gives each row the cells that still hold; needs the outcomes of all stages before."""
        journal, text = self.journal, str(self.matching)
        numbers = [row.number for row in window]
        known = journal.scores.cells(numbers)
        matched = journal.scores.matched(numbers) if known else {}
        self._others.clear()
        for row in window:
            question, answer = cell_keys(row, text)
            stored = known.get(row.number)
            if stored is not None and stored.question == question:
                is_same = stored.answer == answer
                # Which of other commands' metrics read an answer is not known here.
                if is_same:
                    self._others[row.number] = stored.cells
                row.matches = matched.get(row.number, {})
                row.cells = tuple(
                    None
                    if is_users or (metric.reads_answer and not is_same)
                    else stored.cells[number]
                    for metric, is_users, number in zip(
                        self.metrics, self._are_users, self._numbers, strict=True
                    )
                )

    def carry(self, window: Sequence[RunCase], kept: Sequence[bool]) -> None:
        """Takes over cells that do not depend on how chunks are compared."""
        journal = self.journal
        journal.scores.were_empty = False  # notes and causes of before must go
        stored = journal.scores.cells([row.number for row in window])
        # Cells of metrics of earlier commands go: which of them stay is not known here.
        self._others.clear()
        for row in window:
            found = stored[row.number].cells
            row.cells = tuple(
                found[number] if stays else None
                for number, stays in zip(self._numbers, kept, strict=True)
            )

    def save(self, row: RunCase, *, is_compared: bool = False) -> None:
        """Records the cells of a row as they are now, with its matches where they are new."""
        scores, cells = self.journal.scores, row.cells
        if not self._is_whole:
            found = dict(zip(self._numbers, cells, strict=True))
            others = self._others.get(row.number) or (None,) * scores.columns
            cells = tuple(found.get(number, cell) for number, cell in enumerate(others))
        line = CaseCells(*cell_keys(row, str(self.matching)), cells)
        scores.record(row.number, line, row.matches if is_compared else None)

    def save_judged(
        self, row: RunCase, position: int, cell: Cell, judgements: Sequence[Judgement]
    ) -> None:
        """Records one more cell of a row, with what it rests on."""
        row.cells = (*row.cells[:position], cell, *row.cells[position + 1 :])
        self.save(row)
        self.journal.scores.record_judgements(row.number, self._numbers[position], judgements)

    def read_judgements(self, window: Sequence[RunCase], positions: Sequence[int]) -> None:
        """Gives each row what its judged cells rest on."""
        found = self.journal.scores.judgements([row.number for row in window]) if positions else {}
        judged = set(positions)
        for row in window:
            row.judgements = tuple(
                found.get((row.number, number), ()) if at in judged and row.cells[at] else ()
                for at, number in enumerate(self._numbers)
            )


@dataclass(kw_only=True, slots=True)
class ScoreStage:
    table: CellTable
    decided: Callable[[Matching], None]
    """Called, before anything is scored, with how retrieved chunks will be compared with relevant
    ones: it may turn out to be wrong once all cases are known; see `rematch`."""
    tally: MatchingTally | None = None
    """Counts what decides that; None where the user has chosen."""
    pool: WorkerPool[Task, tuple[Cell, ...]] | None = None
    """Workers that score in this process's place, in tasks of the stage's name."""
    name: str = "score"
    _plans: dict[tuple[int, ...], Plan] = field(default_factory=dict[tuple[int, ...], Plan])
    _is_decided: bool = False

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        table = self.table
        nothing = (None,) * len(table.metrics)
        for row in window:
            row.cells = nothing
            if self.tally is not None:
                self.tally.add(row.trace)
        if not self._is_decided:
            if table.matching is Matching.AUTO and self.tally is not None:
                first = self.tally.verdict().matching
                # Ids of later cases may meet.
                table.matching = Matching.DOCUMENT_ID if first is Matching.NOT_COMPARABLE else first
            self.decided(table.matching)
            self._is_decided = True
        # Groups are named by the positions of their metrics: a metric's hash takes long.
        free = tuple(at for at, each in enumerate(table.metrics) if not each.is_judged)
        groups: dict[tuple[int, ...], list[RunCase]] = defaultdict(list)
        if not run.journal.scores.were_empty:
            table.open(window)
        for row in window:
            cells = row.cells
            lacking = [at for at in free if cells[at] is None or run.lacks(cells[at])]
            groups[tuple(lacking)].append(row)
        for positions, members in groups.items():
            if positions:
                self._compute(positions, members)
            for row in members:
                table.save(row, is_compared=bool(positions))
        run.journal.flush(if_due=True)
        run.settled(self.name, len(window), reused=len(groups.get((), ())))

    def rematch(
        self, windows: Iterable[Sequence[RunCase]], matching: Matching
    ) -> Iterator[RunCase]:
        """Scores again what depends on how chunks are compared, once all cases are known."""
        table = self.table
        table.matching = matching
        self._plans.clear()
        kept = [Need.JUDGEMENTS not in each.definition.needs for each in table.metrics]
        lost = tuple(position for position, stays in enumerate(kept) if not stays)
        judged = [at for at, each in enumerate(table.metrics) if each.is_judged]
        for window in windows:
            table.carry(window, kept)
            self._compute(lost, window)
            for row in window:
                table.save(row, is_compared=True)
            table.read_judgements(window, judged)
            yield from window

    def _compute(self, positions: tuple[int, ...], members: Sequence[RunCase]) -> None:
        """Scores rows that lack the same cells, and records which chunks are relevant contexts."""
        table, matching = self.table, self.table.matching
        matches = [matches_of(row.trace, matching) for row in members]
        # What generation was given stands last.
        context = [each[next(reversed(each))] for each in matches]
        traces = [row.trace for row in members]
        if self.pool is not None:
            found = self._score_by(self.pool, positions, traces, context)
        else:
            plan = self._plans.get(positions)
            if plan is None:  # kept for the run: a scorer may hold a model or an event loop
                metrics = [table.metrics[position] for position in positions]
                plan = self._plans[positions] = Plan(metrics, matching=matching)
            found = plan.score(traces, context)
        for row, compared, scored in zip(members, matches, found, strict=True):
            row.matches = {at: one for at, one in compared.items() if isinstance(one, Matched)}
            given = dict(zip(positions, scored, strict=True))
            row.cells = tuple([given.get(at, cell) for at, cell in enumerate(row.cells)])

    def _score_by(
        self,
        pool: WorkerPool[Task, tuple[Cell, ...]],
        positions: tuple[int, ...],
        traces: Sequence[Trace],
        context: Sequence[Compared],
    ) -> list[tuple[Cell, ...]]:
        from ragbench.workers.pool import Task

        metrics = tuple(self.table.metrics[position].name for position in positions)
        matching = self.table.matching
        asked = [
            Task(self.name, ScoreInput(metrics, matching, trace, matched))
            for trace, matched in zip(traces, context, strict=True)
        ]
        size = pool.share(len(asked), _SHARE)
        begun = [pool.begin(asked[at : at + size]) for at in range(0, len(asked), size)]
        return [cells for batch in begun for cells in pool.take(batch)]


# --- on a worker


_SHARE = 64
"""Cases that a worker scores at a time."""


class ScoreInput(NamedTuple):
    metrics: tuple[str, ...]
    """The names of those that it lacks."""
    matching: Matching
    trace: Trace
    matched: Compared
    """What generation was given, compared with what is relevant."""


def scorer(
    metrics: Sequence[Metric],
) -> Callable[[Sequence[ScoreInput]], Sequence[tuple[Cell, ...]]]:
    """What a worker calls: a partial of this makes it."""
    by_name = {metric.name: metric for metric in metrics}
    plans: dict[tuple[tuple[str, ...], Matching], Plan] = {}

    def call(items: Sequence[ScoreInput]) -> Sequence[tuple[Cell, ...]]:
        names, matching, _, _ = items[0]  # of one batch all lack the same
        plan = plans.get((names, matching))
        if plan is None:
            plan = plans[names, matching] = Plan([by_name[n] for n in names], matching=matching)
        return plan.score([item.trace for item in items], [item.matched for item in items])

    return call
