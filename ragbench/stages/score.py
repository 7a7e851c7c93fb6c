"""Score as a stage: cells that the journal lacks are computed, the others are left alone.

A cell is the value of one metric for one case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    from ragbench.workers.pool import Batch, Task, WorkerPool


class CellTable:
    """The cells of a run's metrics, between the rows of a window and the journal."""

    def __init__(
        self,
        journal: Journal,
        metrics: Sequence[Metric],
        matching: Matching,
        judges: Sequence[bytes],
    ) -> None:
        """Makes the table of a run's cells: the value of each metric for each case.

        Args:
            judges: for each metric, what its cells depend on beside the case; empty bytes for one
                that nobody judges.
        """
        self.metrics = tuple(metrics)
        """The run's metrics, in the order of a row's cells."""
        self.matching = matching
        """How chunks are compared with the gold at present; `rematch` sets another way."""
        self.journal = journal
        # What the journal knows a column by: the metric's identity and the judge's key; the name is
        # for readers.
        columns: list[tuple[str, bytes, str]] = []
        self._are_users: list[bool] = []
        """For each metric, whether its formula is the user's own.

        Such a formula may read anything, so that no stored cell of the metric can be used again.
        """
        for metric, judge in zip(metrics, judges, strict=True):
            columns.append((metric.identity, judge, metric.name))
            formula = metric.definition.formula
            # A user's formula is known by its module, which is none of the package's.
            is_users = formula is not None and not is_own(formula.function.__module__)
            self._are_users.append(is_users)
        self._numbers = journal.scores.numbers(columns)
        """The journal's column of each metric."""
        self._is_whole = self._numbers == list(range(journal.scores.columns))
        """Whether the journal has these metrics alone, in this order."""
        self._stored_cells: dict[int, Sequence[Cell | None]] = {}
        """By row the cells that the journal holds, those of other commands' metrics included."""

    def open(self, window: Sequence[RunCase]) -> None:
        """Gives each row (case) of a window the stored cells that still hold: its metrics' values.

        A cell holds while the case's question, chunks and, for metrics that read it, answer are the
        same. Needs the outcomes of all stages before.
        """
        scores = self.journal.scores
        matching = str(self.matching)
        numbers = [row.number for row in window]
        stored_by_row = scores.cells(numbers)
        # Matches are stored beside cells: without the cells there are none.
        matches_by_row = scores.matched(numbers) if stored_by_row else {}
        # The three belong together: metric, whether its formula is the user's, and its column.
        columns = list(zip(self.metrics, self._are_users, self._numbers, strict=True))
        for row in window:
            question, answer = cell_keys(row, matching)
            stored = stored_by_row.get(row.number)
            if stored is None or stored.question != question:
                # Another question, retrieval or matching: nothing of the stored line holds.
                continue
            is_same_answer = stored.answer == answer
            # Which of other commands' metrics read an answer is not known here, so their cells are
            # kept only while the answer is the same.
            if is_same_answer:
                self._stored_cells[row.number] = stored.cells
            row.matches = matches_by_row.get(row.number, {})
            cells: list[Cell | None] = []
            for metric, is_users, number in columns:
                if is_users or (metric.reads_answer and not is_same_answer):
                    cells.append(None)
                else:
                    cells.append(stored.cells[number])
            row.cells = tuple(cells)

    def forget(self, row: RunCase) -> None:
        """Frees the memory of a row (case) that is through all stages: drops its stored cells.

        Without that, a long run would hold the cells of all its cases.
        """
        self._stored_cells.pop(row.number, None)

    def carry(self, window: Sequence[RunCase], holds: Sequence[bool]) -> None:
        """Keeps the cells that do not depend on how chunks are compared, once that way has changed.

        A cell is a metric's value for a case. Cells that depend on it become None, to be computed
        again.

        Args:
            holds: for each metric, whether its cells do not depend on how chunks are compared.
        """
        scores = self.journal.scores
        # Marked as not empty, so that notes and causes that are stored already are deleted.
        scores.were_empty = False
        stored_by_row = scores.cells([row.number for row in window])
        # Cells of metrics of earlier commands go: which of them hold is not known here.
        self._stored_cells.clear()
        for row in window:
            stored_cells = stored_by_row[row.number].cells
            cells: list[Cell | None] = []
            for number, is_carried in zip(self._numbers, holds, strict=True):
                cell = None
                if is_carried:
                    cell = stored_cells[number]
                cells.append(cell)
            row.cells = tuple(cells)

    def save(self, row: RunCase, *, is_compared: bool = False) -> None:
        """Records in the journal the cells (the values of the metrics) of a row as they are now.

        A later run finds them there under the keys of `cell_keys`.

        Args:
            is_compared: whether its chunks were compared with the gold anew: then its matches are
                recorded, too.
        """
        scores = self.journal.scores
        cells = row.cells
        if not self._is_whole:
            # The journal's line has columns of other commands' metrics, too.
            no_cells = (None,) * scores.columns
            # Columns of metrics that are not this run's keep the cells that are stored of the case.
            line_cells = list(self._stored_cells.get(row.number) or no_cells)
            for number, cell in zip(self._numbers, cells, strict=True):
                line_cells[number] = cell
            cells = tuple(line_cells)
        question, answer = cell_keys(row, str(self.matching))
        matches: Mapping[str, Matched] | None = None
        if is_compared:
            matches = row.matches
        scores.record(row.number, CaseCells(question, answer, cells), matches)

    def save_judged(
        self, row: RunCase, position: int, cell: Cell, judgements: Sequence[Judgement]
    ) -> None:
        """Records a judged cell (a metric's value) of a row, with the judgements that it rests on.

        Args:
            position: the metric's place among the run's metrics.
        """
        # A new tuple: rows hand their cells out, and those must stay as they were.
        row.cells = (*row.cells[:position], cell, *row.cells[position + 1 :])
        self.save(row)
        self.journal.scores.record_judgements(row.number, self._numbers[position], judgements)

    def read_judgements(self, window: Sequence[RunCase], positions: Sequence[int]) -> None:
        """Gives each row the judgements that its judged cells rest on, as the journal holds them.

        Args:
            positions: the places of the judged metrics among the run's metrics.
        """
        stored: Mapping[tuple[int, int], tuple[Judgement, ...]] = {}
        if positions:
            stored = self.journal.scores.judgements([row.number for row in window])
        judged = set(positions)
        for row in window:
            judgements: list[tuple[Judgement, ...]] = []
            for position, number in enumerate(self._numbers):
                # A cell that a judge failed on has judgements as well, as far as they came.
                if position in judged and row.cells[position]:
                    judgements.append(stored.get((row.number, number), ()))
                else:
                    judgements.append(())
            row.judgements = tuple(judgements)


@dataclass(kw_only=True, slots=True)
class ScoreStage:
    """Computes the cells that the journal lacks of metrics that nobody judges."""

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
    """By the positions of the metrics that a plan computes."""
    _is_decided: bool = False
    """Whether it is decided how chunks are compared: the first cases that come show it."""

    def settle(self, window: Sequence[RunCase], run: Running) -> None:
        """Gives every case of a window its cells: the values of the metrics that no model judges.

        Stored ones are taken; of cases that lack the same metrics, all are computed at once.
        """
        table = self.table
        no_cells = (None,) * len(table.metrics)
        for row in window:
            row.cells = no_cells
            if self.tally is not None:
                # Before anything is scored: the first window decides how chunks are compared.
                self.tally.add(row.trace)
        if not self._is_decided:
            self._decide_matching()
        if not run.journal.scores.were_empty:
            table.open(window)
        groups = self._groups_by_lack(window, run)
        for positions, members in groups.items():
            if positions:
                self._compute_cells(positions, members)
            for row in members:
                table.save(row, is_compared=bool(positions))
        run.journal.flush(if_due=True)
        complete_rows = groups.get((), [])  # those that lack no cell
        run.settled(self.name, len(window), reused=len(complete_rows))

    def _groups_by_lack(
        self, window: Sequence[RunCase], run: Running
    ) -> dict[tuple[int, ...], list[RunCase]]:
        """The rows (cases) grouped by the metrics whose values they lack, to be computed together.

        The keys are positions of metrics, not metrics: a metric's hash takes long. Rows that lack
        nothing are under the empty key.
        """
        unjudged: list[int] = []
        # Judged cells are the next stage's.
        for position, metric in enumerate(self.table.metrics):
            if not metric.is_judged:
                unjudged.append(position)
        groups: dict[tuple[int, ...], list[RunCase]] = defaultdict(list)
        for row in window:
            cells = row.cells
            lacking: list[int] = []
            for position in unjudged:
                # Most cells are simply not there: asking that first saves a call for each of them.
                if cells[position] is None or run.lacks(cells[position]):
                    lacking.append(position)
            groups[tuple(lacking)].append(row)
        return groups

    def _decide_matching(self) -> None:
        """Decides, by the first window of cases, how retrieved chunks are compared with the gold.

        By ids or by texts, as these cases show. All cases together may still show another way, see
        `rematch`.
        """
        table = self.table
        if table.matching is Matching.AUTO and self.tally is not None:
            matching = self.tally.verdict().matching
            if matching is Matching.NOT_COMPARABLE:
                matching = Matching.DOCUMENT_ID  # ids of later cases may meet
            # Set, so that cells are stored under the matching that they were computed with.
            table.matching = matching
        self.decided(table.matching)
        self._is_decided = True

    def rematch(
        self, windows: Iterable[Sequence[RunCase]], matching: Matching
    ) -> Iterator[RunCase]:
        """Scores all cases again in what depends on how chunks are compared with the gold.

        The first window decided it for the run; all cases together may have shown another way.

        Args:
            windows: all cases of the run.
            matching: how chunks are compared with the gold from now on.
        """
        table = self.table
        table.matching = matching
        self._plans.clear()  # each was made for the matching before
        holds: list[bool] = []
        recomputed: list[int] = []
        judged: list[int] = []
        for position, metric in enumerate(table.metrics):
            reads_gold = Need.JUDGEMENTS in metric.definition.needs
            # Cells that read no gold are the same however chunks are compared.
            holds.append(not reads_gold)
            if reads_gold:
                recomputed.append(position)
            if metric.is_judged:
                judged.append(position)
        for window in windows:
            table.carry(window, holds)
            self._compute_cells(tuple(recomputed), window)
            for row in window:
                table.save(row, is_compared=True)
            table.read_judgements(window, judged)
            yield from window

    def _compute_cells(self, positions: tuple[int, ...], members: Sequence[RunCase]) -> None:
        """Computes the cells (values of metrics) of rows that lack the same ones.

        Also keeps in each row which chunks are which relevant contexts, for the report.

        Args:
            positions: the places of the metrics whose cells the rows lack.
        """
        table = self.table
        matching = table.matching
        traces = [row.trace for row in members]
        matches = [matches_of(trace, matching) for trace in traces]
        # Metrics read what generation was given, which is what the last stage left.
        contexts: list[Compared] = []
        for by_stage in matches:
            # Without post-retrieval that is the retrieval.
            last_stage = next(reversed(by_stage))
            contexts.append(by_stage[last_stage])
        if self.pool is not None:
            computed = self._cells_from_workers(self.pool, positions, traces, contexts)
        else:
            plan = self._plans.get(positions)
            if plan is None:  # one for the whole run: a scorer may hold a model or an event loop
                metrics = [table.metrics[position] for position in positions]
                plan = Plan(metrics, matching=matching)
                self._plans[positions] = plan
            computed = plan.score(traces, contexts)
        for row, by_stage, new_cells in zip(members, matches, computed, strict=True):
            # Only what was compared; a stage that gave nothing has None, and no entry.
            row.matches = {}
            for stage, matched in by_stage.items():
                if isinstance(matched, Matched):
                    row.matches[stage] = matched
            cells = list(row.cells)
            for position, cell in zip(positions, new_cells, strict=True):
                cells[position] = cell
            row.cells = tuple(cells)

    def _cells_from_workers(
        self,
        pool: WorkerPool[Task, tuple[Cell, ...]],
        positions: tuple[int, ...],
        traces: Sequence[Trace],
        contexts: Sequence[Compared],
    ) -> list[tuple[Cell, ...]]:
        """The values of metrics (cells) of some cases, computed by workers, in the cases' order.

        Args:
            positions: the places of the metrics that all these cases lack.
            contexts: for each case, what generation was given, compared with the gold.
        """
        from ragbench.workers.pool import Task

        metrics = tuple(self.table.metrics[position].name for position in positions)
        tasks: list[Task] = []
        for trace, matched in zip(traces, contexts, strict=True):
            score_input = ScoreInput(metrics, self.table.matching, trace, matched)
            tasks.append(Task(self.name, score_input))
        # As large as the work allows, but so that every worker gets a part of it.
        size = pool.share(len(tasks), _SHARE)
        # All batches are begun before the first is taken: no worker waits for another.
        batches: list[Batch[Task, tuple[Cell, ...]]] = []
        for start in range(0, len(tasks), size):
            batches.append(pool.begin(tasks[start : start + size]))
        cells: list[tuple[Cell, ...]] = []
        # In the order in which they were begun, which is that of the cases.
        for batch in batches:
            cells.extend(pool.take(batch))
        return cells


# --- on a worker


_SHARE = 64
"""Cases that a worker is given to score at a time, at most."""


class ScoreInput(NamedTuple):
    """A case as it is given to a worker that scores."""

    metrics: tuple[str, ...]
    """The names of those that it lacks."""
    matching: Matching
    trace: Trace
    matched: Compared
    """What generation was given, compared with what is relevant."""


def scorer(
    metrics: Sequence[Metric],
) -> Callable[[Sequence[ScoreInput]], Sequence[tuple[Cell, ...]]]:
    """Makes the function with which a worker scores a batch of cases.

    Metrics travel to workers by their names; each worker makes a plan once for those that are
    lacking.
    """
    by_name = {metric.name: metric for metric in metrics}
    # The empty dict is kept by the partial: plans live as long as the worker's function.
    return partial(_cells_on_worker, by_name, {})


def _cells_on_worker(
    by_name: Mapping[str, Metric],
    plans: dict[tuple[tuple[str, ...], Matching], Plan],
    items: Sequence[ScoreInput],
) -> Sequence[tuple[Cell, ...]]:
    """The values (cells) of the metrics that a batch of cases lacks, computed on a worker.

    Args:
        by_name: the run's metrics, by name.
        plans: the plans made so far, to be used again: a plan may hold a model.
        items: cases that all lack the same metrics.
    """
    # All cases of a batch lack the same: `_compute_cells` was called for one group.
    names, matching, _, _ = items[0]
    plan = plans.get((names, matching))
    if plan is None:
        plan = Plan([by_name[name] for name in names], matching=matching)
        plans[names, matching] = plan
    traces = [item.trace for item in items]
    contexts = [item.matched for item in items]
    return plan.score(traces, contexts)
