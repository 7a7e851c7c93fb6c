"""One metric of one case, measured several times."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragbench.core.outcome import Cell, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """One metric of one case, as often as it was asked for; the case's cell holds the mean."""

    cells: tuple[Cell | None, ...]
    """Oldest first; None where the case was not asked, or was another one then."""

    @property
    def values(self) -> tuple[float | None, ...]:
        """What was measured, in the same order; None where nothing was."""
        return tuple(None if cell is None else cell.value for cell in self.cells)

    @property
    def coverage(self) -> tuple[float | None, ...]:
        """1 where it was measured, 0 where not; None where the metric did not apply."""
        return tuple(map(coverage_of, self.cells))

    @property
    def mean(self) -> Cell:
        """The mean of what was measured; without any, how it ended last."""
        values = [value for value in self.values if value is not None]
        if not values:
            known = (cell for cell in reversed(self.cells) if cell is not None)
            return next(known, Cell(status=Status.SKIPPED))
        # Equal values have themselves as their mean: a sum may round.
        is_same = min(values) == max(values)
        return Cell.measured(values[0] if is_same else math.fsum(values) / len(values))


def coverage_of(cell: Cell | None) -> float | None:
    """1 for a measured cell, 0 for one that is not; None where the metric did not apply."""
    if cell is None or cell.status is Status.SKIPPED:
        return None
    return float(cell.status is Status.MEASURED)
