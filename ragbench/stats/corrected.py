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
from collections.abc import Sequence

from ragbench.core.record import Record, replace
from ragbench.errors import InputError
from ragbench.plugins import np
from ragbench.stats.mean import Label, check_finite, cluster_codes, student_quantile, wilson
from ragbench.stats.power import POWER, smallest_count

_ROUNDING = 1e-9
_MOST = 4
"""A label counts as so many, at most, however well the judge agrees."""
_STEEPEST = 2.0
"""A judge on the people's scale is stretched no further, and never turned around: few labels of
cases that it scores alike would carry any slope."""
CONFIDENCE = 0.95
"""Of the intervals."""
LEAST = 5
"""Independent labels, below which there is no interval."""
ASSUMED = 0.6
"""How far a judge varies with people where no label says: judges of answers reach .55 to .67."""


class Corrected(Record):
    """A figure with labels, and its interval; compare `ragbench.stats.mean.Interval`."""

    mean: float
    low: float | None = None
    """None with ``high`` below `LEAST` independent labels."""
    high: float | None = None
    standard_error: float
    degrees: int
    """Of freedom of Student's t: independent labels less two."""
    cases: int
    labels: int
    correlation: float | None
    """Of the judge's scores with the labels; None where either does not vary."""
    deviation: float
    """Standard deviation of the labels."""
    is_told: bool = False
    """Whether the judge told every label: how often it errs, so few have not shown."""

    @property
    def is_enough(self) -> bool:
        return self.degrees + 2 >= LEAST

    def p_above(self, value: float) -> float:
        """One-sided p-value of "the true figure is this value or less"."""
        from scipy.special import stdtr

        if not self.is_enough or not self.standard_error:
            return 0.5
        return float(stdtr(self.degrees, -(self.mean - value) / self.standard_error))


def corrected_mean(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None = None,
    *,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Corrected | None:
    """The mean that people would have given; None without a label.

    Args:
        judged: a score per case.
        labels: what people said of it, on the same scale; None where nobody was asked. Those that
            were asked about must be drawn at random.
        clusters: what a case shares with others: its cluster counts as one observation.
        bounds: ends of the scale; None gives Student's interval instead of Wilson's.
    """
    found = _two_phase(judged, labels, clusters)
    if found is None or bounds is None:
        return found and _student(found, found.standard_error)
    found = replace(found, mean=min(max(found.mean, bounds[0]), bounds[1]))
    return _wilson(found, bounds) if found.is_enough else found


def corrected_difference(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None = None,
    *,
    same: Sequence[bool] = (),
    scale: float | None = 1.0,
) -> Corrected | None:
    """The mean difference of two systems that people would have seen; None without a label.

    Args:
        judged: the judge's difference per case, second system minus first.
        labels: the people's; None where not both answers were labelled. Drawn at random among the
            cases that are not the ``same``.
        same: whether both systems gave the same, so that the difference is 0 without a label.
        scale: the largest difference of a case: so few labels have not shown what one more would.
    """
    found = _two_phase(judged, labels, clusters, same)
    if found is None or scale is None:
        return found and _student(found, found.standard_error)
    # As if one more pair of labels differed (Agresti & Min 2005): of few, none may.
    share = 1.0 - sum(same) / len(judged)
    least = scale * share / max(1, found.degrees + 2)
    if found.is_told and found.is_enough:  # as for values that are all equal: Clopper & Pearson
        unseen = 1.0 - ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / (found.degrees + 2))
        least = scale * share * unseen / student_quantile(0.5 + CONFIDENCE / 2, found.degrees)
    found = _student(found, max(found.standard_error, least))
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(found.low, -scale), high=min(found.high, scale))


def _student(found: Corrected, error: float) -> Corrected:
    found = replace(found, standard_error=error)
    if not found.is_enough:
        return found
    reach = student_quantile(0.5 + CONFIDENCE / 2, found.degrees) * error
    return replace(found, low=found.mean - reach, high=found.mean + reach)


def _wilson(found: Corrected, bounds: tuple[float, float]) -> Corrected:
    """Wilson's interval of as many labels as would give this variance."""
    start, scale, count = bounds[0], bounds[1] - bounds[0], found.degrees + 2.0
    share, error = (found.mean - start) / scale, found.standard_error / scale
    if error > 0.0 and not found.is_told:
        least = 0.5 / count * (1.0 - 0.5 / count)
        count = min(max(share * (1.0 - share), least) / error**2, _MOST * count)
    low, high = wilson(share, count, student_quantile(0.5 + CONFIDENCE / 2, found.degrees))
    return replace(found, low=start + scale * low, high=start + scale * high)


def _two_phase(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None,
    same: Sequence[bool] = (),
) -> Corrected | None:
    """The estimate, and its variance as the sum over clusters of what each moves it by, squared."""
    total = len(judged)
    if {len(labels), len(same or judged), len(clusters or judged)} != {total}:
        raise InputError(f"{total} scores: give one label, or None, and one cluster for each")
    check_finite(judged)
    check_finite(label for label in labels if label is not None)
    is_open = ~np.array(same or [False] * total, dtype=bool)
    asked = np.array([label is not None for label in labels], dtype=bool) & is_open
    if not asked.any():
        return None
    codes, scores = np.array(cluster_codes(clusters or (None,) * total)), np.array(judged, float)
    h, f = np.array(labels, float)[asked], scores[asked]
    # Equal values have no spread, whatever rounds.
    both = [x - x.mean() if np.ptp(x) > 0.0 else np.zeros(len(x)) for x in (f, h)]
    spread, varied = (math.fsum(x * x) for x in both)
    product = math.fsum(both[0] * both[1])
    slope = min(max(product / spread, 0.0), _STEEPEST) if spread > 0.0 else 0.0
    level, share, seen = h.mean() - slope * f.mean(), is_open.mean(), scores[is_open].mean()
    estimate = share * (level + slope * seen)
    independent = len(set(codes[asked].tolist()))
    # Two parameters were fitted to the labels; the slope errs the more, the farther it carries.
    widened = math.sqrt(independent / (independent - 2)) if independent > 2 else 1.0
    away = (seen - f.mean()) / spread if spread > 0.0 else 0.0
    moved = (np.where(is_open, level + slope * scores, 0.0) - estimate) / total
    weight = widened * share * (1.0 / len(h) + away * both[0])
    residuals = both[1] - slope * both[0]
    moved[asked] += weight * residuals
    return Corrected(
        mean=float(estimate) + 0.0,
        standard_error=math.sqrt(float((np.bincount(codes, moved) ** 2).sum())),
        degrees=independent - 2,
        cases=total,
        labels=len(h),
        correlation=product / math.sqrt(spread * varied) if spread * varied > 0.0 else None,
        deviation=math.sqrt(varied / max(1, len(h) - 1)),
        is_told=bool(np.ptp(residuals) < _ROUNDING),
    )


# --- planning


class Plan(Record):
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
