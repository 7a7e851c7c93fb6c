"""The share of cases that ended well, with what is not known of it."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

from ragbench.core.attribution import Answer, Attribution, Cause, Reliability, RightShare
from ragbench.stats.mean import mean_interval, student_quantile
from ragbench.text.tables import table

_LEVEL = 0.95
_BOUNDS = (0.0, 1.0)


def reliability_of(cause: Cause) -> Reliability | None:
    """How often the words that stand for a cause were right on labelled sets."""
    known = table("ragbench.stages", "reliability")["causes"].get(cause.value)
    return None if known is None else Reliability(**known)


@dataclass(slots=True)
class RightTally:
    """Collects how likely each case ended well."""

    _values: array[float] = field(default_factory=lambda: array("d"))
    _clusters: list[str | None] = field(default_factory=list["str | None"])
    _by_words: array[float] = field(default_factory=lambda: array("d"))
    """The bias of each case whose answer words judged; 0 where it is known."""
    total: int = 0
    untold: int = 0

    def add(self, cluster: str | None, found: Attribution) -> None:
        self.total += 1
        unsure = found.by_words and found.answer is Answer.UNCHECKED
        self.untold += found.right is None or unsure
        if found.right is not None:
            self._values.append(found.right)
            self._clusters.append(cluster)
            bias = table("ragbench.stages", "reliability")["bias"]
            self._by_words.append(bias["long" if found.is_long else "short"] * found.by_words)

    def share(self) -> RightShare | None:
        """None where nothing is known of any case.

        Each case is right or not, of which only the probability is known: to the spread of the
        probabilities that of the cases around them is added. By so much as probabilities were
        seen to lie beside people's shares, the interval is wider.
        """
        known = len(self._values)
        if not known:
            return None
        found = mean_interval(self._values, self._clusters, _LEVEL, bounds=_BOUNDS)
        mean, low, high = found.mean or 0.0, found.low, found.high
        if low is not None and high is not None:
            around = math.fsum(p * (1 - p) for p in self._values) / known**2
            of_cases = student_quantile(0.5 + _LEVEL / 2, max(found.clusters - 1, 1))
            bias = math.fsum(self._by_words) / known
            reach = of_cases**2 * around + bias**2
            low = max(mean - math.hypot(mean - low, math.sqrt(reach)), 0.0)
            high = min(mean + math.hypot(high - mean, math.sqrt(reach)), 1.0)
        return RightShare(
            share=mean,
            low=low,
            high=high,
            known=known,
            untold=self.untold,
            by_words=sum(one > 0 for one in self._by_words),
            total=self.total,
        )
