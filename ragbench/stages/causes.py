"""What became of a run's cases, counted: by cause, and the share that ended well."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field

from ragbench.core.attribution import (
    ESTIMATES,
    Answer,
    Attribution,
    Cause,
    CauseCount,
    Reliability,
    RightShare,
)
from ragbench.core.case import Case
from ragbench.stats.mean import mean_interval, most_frequent, student_quantile
from ragbench.text.tables import table

_EXAMPLES = 5
_LEVEL = 0.95
_BOUNDS = (0.0, 1.0)


@dataclass(slots=True)
class _Counts:
    cases: int = 0
    estimated: int = 0
    by_words: int = 0
    stages: Counter[str] = field(default_factory=Counter[str])
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class CauseTally:
    _found: dict[Cause, _Counts] = field(default_factory=dict[Cause, _Counts])
    _right: array[float] = field(default_factory=lambda: array("d"))
    """How likely each case ended well of which that is known."""
    _clusters: list[str | None] = field(default_factory=list["str | None"])
    _kinds: bytearray = field(default_factory=bytearray)
    """Of each of them, what judged its answer; a place in `_BIASES`."""
    _total: int = 0
    _untold: int = 0

    def add(self, case: Case, found: Attribution) -> None:
        count = self._found.get(found.cause)
        if count is None:
            count = self._found[found.cause] = _Counts()
        count.cases += 1
        count.estimated += found.basis in ESTIMATES
        count.by_words += found.by_words
        if found.stage is not None:
            count.stages[found.stage] += 1
        if len(count.examples) < _EXAMPLES:
            count.examples.append(case.id)
        self._total += 1
        if found.right is None:
            self._untold += 1
            return
        self._untold += found.by_words and found.answer is Answer.UNCHECKED
        self._right.append(found.right)
        self._clusters.append(case.cluster)
        self._kinds.append(found.by_words + found.is_long)

    def counts(self) -> tuple[CauseCount, ...]:
        """Every cause that occurred, in the order of a case's way through the stages."""
        known = table("ragbench.stages", "reliability")["causes"]
        return tuple(
            CauseCount(
                cause=cause,
                cases=found.cases,
                estimated=found.estimated,
                by_words=found.by_words,
                reliability=Reliability(**known[cause.value])
                if cause.value in known and (found.by_words or found.estimated)
                else None,
                stages=most_frequent(found.stages),
                examples=tuple(found.examples),
            )
            for cause in Cause
            if (found := self._found.get(cause)) is not None
        )

    def right(self) -> RightShare | None:
        """The share of cases that ended well; None where nothing is known of any case.

        Each case is right or not, of which only the probability is known: to the spread of the
        probabilities that of the cases around them is added. By so much as probabilities were
        seen to lie beside people's shares, the interval is wider.
        """
        known = len(self._right)
        if not known:
            return None
        found = mean_interval(self._right, self._clusters, _LEVEL, bounds=_BOUNDS)
        mean, low, high = found.mean or 0.0, found.low, found.high
        if low is not None and high is not None:
            bias = table("ragbench.stages", "reliability")["bias"]
            biases = tuple(bias.get(kind, 0.0) for kind in _BIASES)
            around = math.fsum(p * (1 - p) for p in self._right) / known**2
            of_cases = student_quantile(0.5 + _LEVEL / 2, max(found.clusters - 1, 1))
            wide = math.fsum(map(biases.__getitem__, self._kinds)) / known
            reach = of_cases**2 * around + wide**2
            low = max(mean - math.hypot(mean - low, math.sqrt(reach)), 0.0)
            high = min(mean + math.hypot(high - mean, math.sqrt(reach)), 1.0)
        return RightShare(
            share=mean,
            low=low,
            high=high,
            known=known,
            untold=self._untold,
            by_words=known - self._kinds.count(0),
            total=self._total,
        )


_BIASES = ("known", "short", "long")
"""What judged an answer: nothing but its label or a judge, or words, by the reference's length."""
