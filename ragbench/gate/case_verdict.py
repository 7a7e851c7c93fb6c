"""Whether a case passes in a run: its stages, and its main metrics against a threshold."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.records.cells import Cell, Status
from ragbench.records.metrics import Direction
from ragbench.records.run_scores import MetricColumn, ScoredCase

__all__ = ["CaseRule", "find_columns", "main_metrics"]

_PREFERRED = {
    "retriever": ("recall", "hit_rate", "ndcg", "mrr"),
    "generator": ("token_f1", "exact_match"),
    "overall": ("abstention_accuracy",),
}
"""The first of these that a run has says whether a case passes, in each group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRule:
    """What makes a case pass."""

    main: tuple[MetricColumn, ...]
    """Metrics with a better side and a bounded scale."""
    threshold: float = 0.5
    """Share of a metric's scale, counted from its worse end, from which on a case passes: for a
    metric of 0 and 1, any threshold above 0 parts the two."""

    def __post_init__(self) -> None:
        """Refuses a threshold that nothing could miss.

        Raises:
            ConfigError: the threshold is not above 0 and at most 1.
        """
        if not 0.0 < self.threshold <= 1.0:
            raise ConfigError(
                f"threshold is {self.threshold:g}: it is a share of a metric's scale, above 0 and "
                "at most 1"
            )

    def passes(self, cell: Cell | None, column: MetricColumn) -> bool | None:
        """Whether a case passes by one metric.

        Returns:
            None when the metric does not apply to the case. A metric that failed, and an answer
            that was declined, do not pass.
        """
        if cell is None or cell.status is Status.SKIPPED:
            return None
        return cell.value is not None and self.share(cell.value, column) >= self.threshold

    def share(self, value: float, column: MetricColumn) -> float:
        """Where a value lies on the metric's scale: 0 is its worse end, 1 its better one."""
        share = (value - column.low) / (column.scale or 1.0)
        return share if column.direction is Direction.HIGHER else 1.0 - share

    def verdicts(self, case: ScoredCase) -> Iterator[tuple[str, bool]]:
        """By stage, then by main metric: whether the case passes. What does not apply is left out.

        A metric that failed because a stage did says nothing of its own.
        """
        broken = False
        for stage, status in case.stages.items():
            broken = broken or status is Status.FAILED
            yield stage, status is not Status.FAILED
        for column in self.main:
            cell = case.scores.get(column.name)
            passed = self.passes(cell, column)
            if passed is not None and not (broken and cell and cell.status is Status.FAILED):
                yield column.name, passed


def main_metrics(
    columns: Sequence[MetricColumn], names: Sequence[str] | None = None
) -> tuple[MetricColumn, ...]:
    """The metrics that say whether a case passes.

    Args:
        columns: the metrics that there are.
        names: those that the user wants; by default one a group: recall for the retriever,
            token_f1 for the generator, abstention_accuracy for both together, or the first of the
            group that can be used.

    Raises:
        ConfigError: one of the names is not there, or cannot say whether a case passes.
    """
    if names is None:
        usable = [column for column in columns if not _unusable(column)]
        chosen = (_of_group(group, usable) for group in _PREFERRED)
        return tuple(column for column in chosen if column is not None)
    found = find_columns(columns, names)
    wrong = [f"{c.name} cannot say whether a case passes: {_unusable(c)}" for c in found]
    wrong = [text for text, column in zip(wrong, found, strict=True) if _unusable(column)]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return found


def find_columns(columns: Sequence[MetricColumn], names: Sequence[str]) -> tuple[MetricColumn, ...]:
    """The metrics of these names, in their order; names are matched without regard to case.

    Raises:
        ConfigError: some are not there; a line for each.
    """
    known = {column.name.casefold(): column for column in columns}
    wrong: list[str] = []
    for name in names:
        if name.casefold() not in known:
            near = difflib.get_close_matches(name.casefold(), known, n=1)
            meant = f" Did you mean {known[near[0]].name}?" if near else ""
            wrong.append(f"the runs do not all measure '{name}'.{meant}")
    if wrong:
        listed = ", ".join(column.name for column in columns) or "nothing"
        raise ConfigError("\n".join([*wrong, f"All of them measure: {listed}"]))
    return tuple(dict.fromkeys(known[name.casefold()] for name in names))


def _of_group(group: str, columns: Sequence[MetricColumn]) -> MetricColumn | None:
    members = [column for column in columns if column.group == group]
    for wanted in _PREFERRED[group]:
        for column in members:
            if column.name.casefold().partition("@")[0].partition("(")[0] == wanted:
                return column
    return members[0] if members else None


def _unusable(column: MetricColumn) -> str:
    if not column.has_cells:
        return "a report holds no value of it a case"
    if column.aggregate is not None:
        return "its figure is no mean over cases"
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better"
    return "" if column.scale else "its scale has no end"
