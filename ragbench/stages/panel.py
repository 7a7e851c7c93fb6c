"""How far the judges of a panel agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ragbench.core.outcome import Judgement, Status
from ragbench.core.report import JurorPair, JurorScore
from ragbench.stats.agreement import agreement

_LEVELS = 12
"""Up to so many different values are taken for levels, of which kappa speaks."""


def by_judge(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """The judgings of a case, by who made them, in their order."""
    found: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        found.setdefault(judgement.judge, []).append(judgement)
    return found


@dataclass(slots=True)
class PanelTally:
    """The verdicts of each judge on each case, for one metric."""

    _verdicts: dict[str, list[float | None]] = field(default_factory=dict[str, list[float | None]])
    _unproved: dict[str, int] = field(default_factory=dict[str, int])
    _cases: int = 0

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Takes the judgings of a case; nothing where one judge alone was asked."""
        found = by_judge(judgements)
        if set(found) <= {""}:
            return
        self._cases += 1
        for name, made in found.items():
            values = [j.cell.value for j in made if j.cell.value is not None]
            verdicts = self._verdicts.setdefault(name, [])
            verdicts.extend([None] * (self._cases - 1 - len(verdicts)))
            verdicts.append(math.fsum(values) / len(values) if values else None)
            unproved = not values and any(j.cell.status is Status.UNPROVED for j in made)
            self._unproved[name] = self._unproved.get(name, 0) + unproved

    def scores(self) -> tuple[JurorScore, ...]:
        """What each judge said, in the order of the panel."""
        return tuple(
            JurorScore(
                judge=name,
                measured=len(known),
                unproved=self._unproved[name],
                score=math.fsum(known) / len(known) if known else None,
            )
            for name, verdicts in self._verdicts.items()
            for known in [[value for value in verdicts if value is not None]]
        )

    def pairs(self) -> tuple[JurorPair, ...]:
        """How far each two of them agree, on the cases of which both gave a value."""
        return tuple(self._pair(one, other) for one, other in combinations(self._verdicts, 2))

    def _pair(self, one: str, other: str) -> JurorPair:
        both = [
            (first, second)
            for first, second in zip(self._verdicts[one], self._verdicts[other], strict=False)
            if first is not None and second is not None
        ]
        count = len(both)
        return JurorPair(
            first=one,
            second=other,
            cases=count,
            same=sum(math.isclose(a, b) for a, b in both) / count if count else None,
            difference=math.fsum(abs(a - b) for a, b in both) / count if count else None,
            kappa=_kappa(both),
        )


def _kappa(both: Sequence[tuple[float, float]]) -> float | None:
    """Cohen's; None where there is nothing to compare, or no few levels."""
    levels = sorted({value for pair in both for value in pair})
    if not 1 < len(levels) <= _LEVELS:
        return None
    places = {value: place for place, value in enumerate(levels)}
    found = agreement([(places[a], places[b]) for a, b in both], len(levels), resamples=1)
    return found.kappa.value
