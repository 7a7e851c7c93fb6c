"""A judge's mean or difference, corrected by what people said about some of its cases.

The two-phase regression estimator: the judge has scored all N cases, people n of them, drawn at
random. Labels remove the judge's bias; its scores save labels as far as they vary with them::

    slope    = cov(h, f) / var(f)                       over the n
    residual = h - slope f
    estimate = mean(residual over the n) + slope mean(f over the N)

Source: Cochran 1977, "Sampling Techniques", section 12.6 (regression estimator in double
sampling); Angelopoulos, Duchi & Zrnic 2023, "PPI++". Intervals of means are Wilson's with an
effective number of labels, since with few labels or rare values those of PPI++ are too short.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragbench.errors import InputError
from ragbench.stats.clusters import Label, check_finite, check_share, cluster_codes
from ragbench.stats.mean import student_quantile
from ragbench.stats.power import POWER, smallest_count

_MOST = 4
"""A label counts as so many, at most, however well the judge agrees."""
_STEEPEST = 2.0
"""A judge on the people's scale is stretched no further, and never turned around: few labels of
cases that it scores alike would carry any slope."""
LEAST = 5
"""Independent labels, below which there is no interval."""
ASSUMED = 0.6
"""How far a judge varies with people where no label says: judges of answers reach .55 to .67."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrected:
    """A figure with labels, and its interval; compare `ragbench.stats.mean.Interval`."""

    mean: float
    low: float | None
    """None with ``high`` below `LEAST` independent labels."""
    high: float | None
    confidence: float
    standard_error: float
    degrees: int
    """Of freedom of Student's t: independent labels less two."""
    cases: int
    labels: int
    correlation: float | None
    """Of the judge's scores with the labels; None where either does not vary."""
    deviation: float
    """Standard deviation of the labels."""

    def p_above(self, value: float) -> float:
        """One-sided p-value of "the true figure is this value or less"."""
        from scipy.special import stdtr

        if self.degrees < LEAST - 2 or not self.standard_error:
            return 0.5
        return float(stdtr(self.degrees, -(self.mean - value) / self.standard_error))


class _TwoPhase(NamedTuple):
    estimate: float
    variance: float
    independent: int
    labels: tuple[float, ...]
    correlation: float | None


def corrected_mean(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None = None,
    *,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    confidence: float = 0.95,
) -> Corrected | None:
    """The mean that people would have given; None without a label.

    Args:
        judged: a score per case.
        labels: what people said of it, on the same scale; None where nobody was asked. Those that
            were asked about must be drawn at random.
        clusters: what a case shares with others: its cluster counts as one observation.
        bounds: ends of the scale; None gives Student's interval instead of Wilson's.
    """
    found = _two_phase(judged, labels, clusters, (False,) * len(judged))
    if found is None:
        return None
    low = high = None
    mean, error = found.estimate, math.sqrt(found.variance)
    if bounds is not None:
        mean = min(max(mean, bounds[0]), bounds[1])
    if found.independent >= LEAST:
        reach = student_quantile(0.5 + confidence / 2, found.independent - 2)
        low, high = mean - reach * error, mean + reach * error
        if bounds is not None:
            low, high = _wilson(found, mean, reach, bounds)
    return _figure(found, mean, (low, high), error, len(judged), confidence)


def corrected_difference(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None = None,
    *,
    same: Sequence[bool] | None = None,
    scale: float | None = 1.0,
    confidence: float = 0.95,
) -> Corrected | None:
    """The mean difference of two systems that people would have seen; None without a label.

    Args:
        judged: the judge's difference per case, second system minus first.
        labels: the people's; None where not both answers were labelled. Drawn at random among the
            cases that are not the ``same``.
        same: whether both systems gave the same, so that the difference is 0 without a label.
        scale: the largest difference of a case: so few labels have not shown what one more would.
    """
    found = _two_phase(judged, labels, clusters, same or (False,) * len(judged))
    if found is None:
        return None
    low = high = None
    share = 1.0 - sum(same or ()) / len(judged)
    # As if one more pair of labels differed (Agresti & Min 2005): of few, none may.
    floor = 0.0 if scale is None else scale * share / max(1, found.independent)
    error = max(math.sqrt(found.variance), floor)
    if found.independent >= LEAST:
        reach = student_quantile(0.5 + confidence / 2, found.independent - 2) * error
        low, high = found.estimate - reach, found.estimate + reach
        if scale is not None:
            low, high = max(low, -scale), min(high, scale)
    return _figure(found, found.estimate, (low, high), error, len(judged), confidence)


def _figure(
    found: _TwoPhase,
    mean: float,
    ends: tuple[float | None, float | None],
    error: float,
    cases: int,
    confidence: float,
) -> Corrected:
    check_share(confidence, name="confidence")
    return Corrected(
        mean=mean + 0.0,
        low=ends[0],
        high=ends[1],
        confidence=confidence,
        standard_error=error,
        degrees=found.independent - 2,
        cases=cases,
        labels=len(found.labels),
        correlation=found.correlation,
        deviation=math.sqrt(_moment(found.labels) / max(1, len(found.labels) - 1)),
    )


def _two_phase(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None,
    same: Sequence[bool],
) -> _TwoPhase | None:
    """The estimate, and its variance as the sum over clusters of what each moves it by, squared."""
    total = len(judged)
    if not total == len(labels) == len(same) or total != len(clusters or judged):
        raise InputError(f"{total} scores: give one label, or None, and one cluster for each")
    check_finite(judged)
    check_finite(label for label in labels if label is not None)
    codes = cluster_codes(clusters or (None,) * total)
    open_ = [at for at in range(total) if not same[at]]
    asked = [at for at in open_ if labels[at] is not None]
    h = [label for at in asked if (label := labels[at]) is not None]
    if not asked:
        return None
    f = [judged[at] for at in asked]
    spread, product = _moment(f), _moment(f, h)
    slope = min(max(product / spread, 0.0), _STEEPEST) if spread > 0.0 else 0.0
    residuals = [label - slope * score for label, score in zip(h, f, strict=True)]
    level, share = math.fsum(residuals) / len(h), len(open_) / total
    seen = math.fsum(judged[at] for at in open_) / len(open_)
    estimate = share * (level + slope * seen)
    independent = len({codes[at] for at in asked})
    # Two parameters were fitted to the labels.
    widened = math.sqrt(independent / (independent - 2)) if independent > 2 else 1.0
    moved: dict[int, list[float]] = defaultdict(list)
    for at in range(total):
        moved[codes[at]].append(
            ((0.0 if same[at] else level + slope * judged[at]) - estimate) / total
        )
    middle, away = math.fsum(f) / len(f), 0.0
    if spread > 0.0:  # the slope is an estimate, too: the more, the farther it carries
        away = (seen - middle) / spread
    for at, score, residual in zip(asked, f, residuals, strict=True):
        weight = 1.0 / len(h) + away * (score - middle)
        moved[codes[at]].append(widened * share * (residual - level) * weight)
    variance = math.fsum(math.fsum(parts) ** 2 for parts in moved.values())
    norm = math.sqrt(spread * _moment(h))
    return _TwoPhase(estimate, variance, independent, tuple(h), product / norm if norm else None)


def _moment(values: Sequence[float], others: Sequence[float] | None = None) -> float:
    """Sum of the products of the deviations from the means; 0 for equal values, whatever rounds."""
    others = values if others is None else others
    if len(set(values)) < 2 or len(set(others)) < 2:
        return 0.0
    mean, other = math.fsum(values) / len(values), math.fsum(others) / len(others)
    return math.fsum((a - mean) * (b - other) for a, b in zip(values, others, strict=True))


def _wilson(
    found: _TwoPhase, mean: float, reach: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Wilson's interval of as many labels as would give this variance."""
    start, scale, count = bounds[0], bounds[1] - bounds[0], float(found.independent)
    share, variance = (mean - start) / scale, found.variance / scale**2
    if variance > 0.0 and len(set(found.labels)) > 1:
        least = 0.5 / count * (1.0 - 0.5 / count)
        count = min(max(share * (1.0 - share), least) / variance, _MOST * count)
    square = reach**2 / count
    centre = (share + square / 2.0) / (1.0 + square)
    half = math.sqrt(square * (share * (1.0 - share) + square / 4.0)) / (1.0 + square)
    return start + scale * max(0.0, centre - half), start + scale * min(1.0, centre + half)


# --- planning


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What labels of pairs can be expected to show."""

    margin: float
    """How far the difference is from the tolerated one."""
    deviation: float
    """Of the people's differences."""
    correlation: float
    cases: int
    """That could be labelled: of which the two systems' answers differ."""
    alpha: float = 0.05
    total: int = 0
    """All cases, those with the same answers included; 0: no more than ``cases``."""

    def chance(self, labels: int) -> float:
        """How often so many random labels settle it."""
        from scipy.special import nctdtr

        if labels < LEAST or self.margin <= 0.0:
            return 0.0
        explained = self.correlation**2
        error = self.deviation * math.sqrt((1.0 - explained) / labels + explained / self.cases)
        error = max(error * self.cases / (self.total or self.cases), 1e-12)
        critical = student_quantile(1.0 - self.alpha, labels - 2)
        return 1.0 - float(nctdtr(labels - 2, min(self.margin / error, 37.0), critical))

    @property
    def needed(self) -> int | None:
        """The labels with a chance of `POWER`; None where all cases are too few."""
        count = smallest_count(lambda labels: self.chance(labels) >= POWER or labels > self.cases)
        return count if count is not None and count <= self.cases else None
