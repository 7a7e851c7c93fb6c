"""What is computed for a list of metrics, by whom, and on which cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError, InterfaceError, MissingExtraError
from ragbench.records.cells import Cell, Failure, Status
from ragbench.records.metrics import Metric, Need
from ragbench.registry import load_attribute
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching
from ragbench.scoring.needs import blocked
from ragbench.scoring.scorer import GoldScorer, Scorer

__all__ = ["Plan"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """Metrics that one scorer computes on the same cases."""

    scorer: Scorer
    needs: frozenset[Need]
    abstains: bool
    metrics: tuple[Metric, ...]
    positions: tuple[int, ...]
    """Where each of them stands in the plan's metrics."""


class Plan:
    """Scores cases by a list of metrics: each scorer is called once a batch."""

    def __init__(self, metrics: Sequence[Metric], *, matching: Matching = Matching.AUTO) -> None:
        """Loads the scorers, so that what is not installed is told before anything runs.

        Args:
            metrics: the columns of the result.
            matching: how retrieved chunks are compared with relevant ones.

        Raises:
            MissingExtraError: a metric needs a package that is not installed.
            ConfigError: a definition names a scorer that does not exist, or a metric asks a model:
                `ragbench.scoring.judge_plan.JudgePlan` computes those.
        """
        self.metrics = tuple(metrics)
        judged = [metric.name for metric in self.metrics if metric.is_judged]
        if judged:
            raise ConfigError(
                f"{', '.join(judged)}: asks a model, and nobody is asked here. 'ragbench eval' does"
            )
        self.matching = matching
        self._groups = _groups(self.metrics, matching)

    def score(self, traces: Sequence[Trace]) -> list[tuple[Cell, ...]]:
        """Scores a batch of cases.

        Never raises for a case or a metric that cannot be scored: its cell says so.

        Returns:
            For each case its cells, in the order of ``metrics``.

        Raises:
            ConfigError: a metric cannot be computed as it is set.
            MissingExtraError: a metric needs a package that is not installed.
        """
        if not self.metrics:
            return [()] * len(traces)
        columns: list[list[Cell]] = [[]] * len(self.metrics)
        for group in self._groups:
            found = _score_group(group, traces)
            for position, column in zip(group.positions, found, strict=True):
                columns[position] = column
        return list(zip(*columns, strict=True))


def _groups(metrics: Sequence[Metric], matching: Matching) -> list[_Group]:
    scorers: dict[str, Scorer] = {}
    members: dict[tuple[str, frozenset[Need], bool], list[int]] = {}
    for position, metric in enumerate(metrics):
        definition = metric.definition
        if definition.scorer not in scorers:
            scorer = load_attribute(definition.scorer)()
            if isinstance(scorer, GoldScorer):
                scorer = scorer.with_matching(matching)
            scorers[definition.scorer] = scorer
        key = (definition.scorer, definition.needs, definition.abstains)
        members.setdefault(key, []).append(position)
    return [
        _Group(
            scorer=scorers[target],
            needs=needs,
            abstains=abstains,
            metrics=tuple(metrics[position] for position in positions),
            positions=tuple(positions),
        )
        for (target, needs, abstains), positions in members.items()
    ]


def _score_group(group: _Group, traces: Sequence[Trace]) -> list[list[Cell]]:
    """One list a metric of the group, one cell a trace."""
    known = blocked(traces, needs=group.needs, abstains=group.abstains)
    open_rows = [row for row, cell in enumerate(known) if cell is None]
    if not open_rows:
        scored: list[list[Cell]] = [[] for _ in group.metrics]
    elif len(open_rows) == len(traces):
        return _cells(group.scorer, group.metrics, traces)
    else:
        scored = _cells(group.scorer, group.metrics, [traces[row] for row in open_rows])
    return [_merged(known, column) for column in scored]


def _merged(known: Sequence[Cell | None], scored: Sequence[Cell]) -> list[Cell]:
    rest = iter(scored)
    return [next(rest) if cell is None else cell for cell in known]


def _cells(scorer: Scorer, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
    """Asks the scorer; where that fails, asks again in halves, so that one case costs one cell."""
    try:
        columns = scorer.score(metrics, traces)
        _check_shape(scorer, columns, len(metrics), len(traces))
        return [
            column
            if all(map(_sound, column))
            else [c if _sound(c) else _unsound(c) for c in column]
            for column in columns
        ]
    except (ConfigError, MissingExtraError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a scorer raises becomes a cell
        if len(traces) > 1:
            middle = len(traces) // 2
            first = _cells(scorer, metrics, traces[:middle])
            second = _cells(scorer, metrics, traces[middle:])
            return [[*one, *two] for one, two in zip(first, second, strict=True)]
        if len(metrics) > 1:
            return [_cells(scorer, [metric], traces)[0] for metric in metrics]
        return [[Cell.failed(Failure.of(error, stage="score"))]]


def _check_shape(scorer: Scorer, columns: Sequence[Sequence[Cell]], width: int, rows: int) -> None:
    sizes = [len(column) for column in columns]
    if sizes != [rows] * width:
        raise InterfaceError(
            f"{type(scorer).__name__}.score gave lists of {sizes} cells for {width} metrics "
            f"and {rows} cases"
        )


def _sound(cell: Cell) -> bool:
    if cell.status is not Status.MEASURED:
        return True
    return cell.value is not None and math.isfinite(cell.value)


def _unsound(cell: Cell) -> Cell:
    message = f"the metric gave {cell.value}, which is no finite number"
    return Cell.failed(Failure(type="ValueError", message=message, stage="score"))
