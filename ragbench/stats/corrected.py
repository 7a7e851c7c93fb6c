"""A judge's mean or difference, corrected by what people said about some of its cases.

The gate asks it of judged metrics when it is given labels (--labels).

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
from ragbench.plugins import Floats, np
from ragbench.stats.mean import Label, check_finite, cluster_codes, student_quantile, wilson
from ragbench.stats.power import POWER, smallest_count

_ROUNDING = 1e-9
"""Residuals that differ by less are equal."""
_MOST_FOR_A_LABEL = 4
"""A label counts as so many, at most, however well the judge agrees."""
_STEEPEST_SLOPE = 2.0
"""A judge on the people's scale is stretched no further, and never turned around: few labels of
cases that it scores alike would carry any slope."""
CONFIDENCE = 0.95
"""Of the intervals."""
FEWEST_LABELS = 5
"""Independent labels, below which there is no interval."""
ASSUMED = 0.6
"""How far a judge varies with people where no label says: judges of answers reach .55 to .67."""


class Corrected(Record):
    """A figure with labels, and its interval; compare `ragbench.stats.mean.MeanInterval`."""

    mean: float
    low: float | None = None
    """None with ``high`` below `FEWEST_LABELS` independent labels."""
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
    judge_is_exact: bool = False
    """Whether the judge predicts every label: how often it errs, so few have not shown."""

    @property
    def has_enough_labels(self) -> bool:
        """Whether the labels are of at least `FEWEST_LABELS` clusters.

        With fewer there is no interval.
        """
        # Slope and level were fitted to the labels: each took one degree of freedom.
        return self.degrees + 2 >= FEWEST_LABELS

    def p_above(self, value: float) -> float:
        """One-sided p-value of "the true figure is this value or less".

        The gate asks by it whether a corrected metric fell. Without an interval, or without any
        spread, nothing is known of either side: 0.5.
        """
        from scipy.special import stdtr

        if not self.has_enough_labels or not self.standard_error:
            return 0.5
        distance = (self.mean - value) / self.standard_error
        return float(stdtr(self.degrees, -distance))


def corrected_mean(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None = None,
    *,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Corrected | None:
    """The mean that people would have given instead of the judge; None without a label.

    A judge errs in one direction, and labels of some cases show how far: the estimate of this
    module removes that bias.

    Args:
        judged: a score per case.
        labels: what people said of it, on the same scale; None where nobody was asked. Those that
            were asked about must be drawn at random.
        clusters: what a case shares with others: its cluster counts as one observation.
        bounds: ends of the scale; None gives Student's interval instead of Wilson's.
    """
    estimate = _two_phase_estimate(judged, labels, clusters)
    if estimate is None:
        return None
    if bounds is None:
        return _with_student_interval(estimate, estimate.standard_error)
    # The correction may carry the mean beyond the ends of the scale.
    low, high = bounds
    mean_on_scale = min(max(estimate.mean, low), high)
    estimate = replace(estimate, mean=mean_on_scale)
    if not estimate.has_enough_labels:
        return estimate
    return _with_wilson_interval(estimate, bounds)


def corrected_difference(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None = None,
    *,
    same: Sequence[bool] = (),
    scale: float | None = 1.0,
) -> Corrected | None:
    """The mean difference of two systems that people would have seen; None without a label.

    The gate asks it of judged metrics with labels: a judge may prefer one system's style.

    Args:
        judged: the judge's difference per case, second system minus first.
        labels: people's difference per case; None where not both answers were labelled. Labelled
            cases are drawn at random among those that are not the ``same``.
        same: whether both systems gave the same, so that the difference is 0 without a label.
        scale: the largest difference of a case, by which the interval is widened for what so few
            labels may not have shown; None: it is not widened.
    """
    estimate = _two_phase_estimate(judged, labels, clusters, same)
    if estimate is None:
        return None
    if scale is None:
        return _with_student_interval(estimate, estimate.standard_error)
    share_different = 1.0 - sum(same) / len(judged)
    independent_labels = estimate.degrees + 2
    # As if one more pair of labels differed (Agresti & Min 2005): of few pairs none may differ by
    # chance.
    least_error = scale * share_different / max(1, independent_labels)
    if estimate.judge_is_exact and estimate.has_enough_labels:
        # As for values that are all equal: the share of errors that so few labels may not show is
        # the end of an interval of Clopper & Pearson. Divided by the quantile, by which Student's
        # interval multiplies its error.
        tail = (1.0 - CONFIDENCE) / 2.0
        unseen = 1.0 - tail ** (1.0 / independent_labels)
        quantile = _interval_quantile(estimate.degrees)
        least_error = scale * share_different * unseen / quantile
    error = max(estimate.standard_error, least_error)
    estimate = _with_student_interval(estimate, error)
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(estimate.low, -scale), high=min(estimate.high, scale))


def _interval_quantile(degrees: int) -> float:
    """How many standard errors an interval of `CONFIDENCE` reaches to either side.

    The number is a quantile of Student's distribution, so with few labels the interval is wider.

    Args:
        degrees: independent labels less two, of which one or more are needed.
    """
    return student_quantile(0.5 + CONFIDENCE / 2, degrees)


def _with_student_interval(estimate: Corrected, error: float) -> Corrected:
    """A corrected figure with Student's interval; without one where labels are too few.

    Args:
        error: the standard error, which may be larger than the one that the labels show.
    """
    estimate = replace(estimate, standard_error=error)
    if not estimate.has_enough_labels:
        return estimate
    reach = _interval_quantile(estimate.degrees) * error
    return replace(estimate, low=estimate.mean - reach, high=estimate.mean + reach)


def _with_wilson_interval(estimate: Corrected, bounds: tuple[float, float]) -> Corrected:
    """A corrected mean with Wilson's interval, of as many labels as would give its variance.

    Wilson's interval fits means near an end of the scale, where Student's is too short, or reaches
    beyond that end.

    Args:
        bounds: the ends of the scale.
    """
    start, end = bounds
    scale = end - start
    count = estimate.degrees + 2.0
    # On a scale from 0 to 1, of which Wilson's formula is.
    share = (estimate.mean - start) / scale
    error = estimate.standard_error / scale
    if error > 0.0 and not estimate.judge_is_exact:
        # A share of 0 or 1 has no variance: at least that of half a label that says otherwise.
        half_label = 0.5 / count
        least_variance = half_label * (1.0 - half_label)
        variance = max(share * (1.0 - share), least_variance)
        count = min(variance / error**2, _MOST_FOR_A_LABEL * count)
    low, high = wilson(share, count, _interval_quantile(estimate.degrees))
    return replace(estimate, low=start + scale * low, high=start + scale * high)


def _two_phase_estimate(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Label] | None,
    same: Sequence[bool] = (),
) -> Corrected | None:
    """A judge's mean or difference corrected by labels, without an interval; None without a label.

    The regression estimator of this module: a line from the judge's values to the labels, taken at
    the mean of all judged values. Its variance is the sum over clusters of the squares of each
    cluster's influence on the estimate.

    Args:
        judged: a score, or a difference of scores, per case.
        labels: people's values for the same cases; None where none was given.
        clusters: what a case shares with others.
        same: cases whose value is 0 without a label: a difference of two answers that are the same.
            Empty: none.

    Raises:
        InputError: the lists are not of one length, or a value is no finite number.
    """
    total = len(judged)
    if {len(labels), len(same or judged), len(clusters or judged)} != {total}:
        raise InputError(f"{total} scores: give one label, or None, and one cluster for each")
    check_finite(judged)
    check_finite(label for label in labels if label is not None)
    # Cases that are not `same`: only their values can differ from 0, so only their labels count.
    is_open = ~np.array(same or [False] * total, dtype=bool)
    has_label = np.array([label is not None for label in labels], dtype=bool)
    is_labelled = has_label & is_open
    if not is_labelled.any():
        return None

    codes = np.array(cluster_codes(clusters or (None,) * total))
    scores = np.array(judged, float)
    # h and f of the formula: what people and the judge say of the labelled cases.
    h = np.array(labels, float)[is_labelled]
    f = scores[is_labelled]
    f_centred = _centred(f)
    h_centred = _centred(h)
    f_squares = math.fsum(f_centred * f_centred)
    h_squares = math.fsum(h_centred * h_centred)
    products = math.fsum(f_centred * h_centred)
    # The slope, and how much it carries the labelled cases' mean to that of all.
    slope = 0.0
    carried = 0.0
    mean_open = scores[is_open].mean()
    if f_squares > 0.0:
        slope = min(max(products / f_squares, 0.0), _STEEPEST_SLOPE)
        carried = (mean_open - f.mean()) / f_squares
    # The mean residual of the formula.
    level = h.mean() - slope * f.mean()
    share_open = is_open.mean()
    estimate = share_open * (level + slope * mean_open)

    # Two parameters were fitted to the labels; the slope errs the more, the farther it carries.
    independent = len(set(codes[is_labelled].tolist()))
    widened = 1.0
    if independent > 2:
        widened = math.sqrt(independent / (independent - 2))
    residuals = h_centred - slope * f_centred
    # By how much each case moves the estimate: all of them by the judge's score, the labelled ones
    # by their residual, too.
    influences = (np.where(is_open, level + slope * scores, 0.0) - estimate) / total
    weights = 1.0 / len(h) + carried * f_centred
    influences[is_labelled] += widened * share_open * weights * residuals
    influences_of_clusters = np.bincount(codes, influences)
    variance = float((influences_of_clusters**2).sum())
    correlation = None
    if f_squares * h_squares > 0.0:
        correlation = products / math.sqrt(f_squares * h_squares)
    return Corrected(
        mean=float(estimate) + 0.0,  # 0.0 for -0.0
        standard_error=math.sqrt(variance),
        degrees=independent - 2,
        cases=total,
        labels=len(h),
        correlation=correlation,
        deviation=math.sqrt(h_squares / max(1, len(h) - 1)),
        judge_is_exact=bool(np.ptp(residuals) < _ROUNDING),
    )


def _centred(values: Floats) -> Floats:
    """Labels or scores less their mean, for a regression.

    Equal values have no spread: they become 0 exactly, where rounding would leave some.
    """
    centred: Floats = np.zeros(len(values))
    if np.ptp(values) > 0.0:
        centred = values - values.mean()
    return centred


# --- how many labels will be needed


class Plan(Record):
    """What labels of pairs can be expected to show, before people are asked for them."""

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
        """The chance that so many random labels settle the plan's question, 0 to 1.

        People's time is dear: this chance is shown before they are asked for labels.
        """
        from scipy.special import nctdtr

        if labels < FEWEST_LABELS or self.margin <= 0.0:
            return 0.0
        # Labels vary by what the judge's scores do not explain; the rest is known of every case.
        explained = self.correlation**2
        variance = (1.0 - explained) / labels + explained / self.cases
        error = self.deviation * math.sqrt(variance)
        # Carried over to all cases: those with the same answers in both runs differ by nothing.
        all_cases = self.total or self.cases
        # Above 0, since the margin is divided by it.
        error = max(error * self.cases / all_cases, 1e-12)
        # The level is one-sided; slope and level are fitted, so two degrees are gone.
        critical = student_quantile(1.0 - self.alpha, labels - 2)
        # The chance is 1 far below a distance of 37, from where SciPy's function gives no number.
        distance = min(self.margin / error, 37.0)
        return 1.0 - float(nctdtr(labels - 2, distance, critical))

    @property
    def needed(self) -> int | None:
        """The number of labels that settle the plan's question with a chance of `POWER`.

        None where all cases are too few.
        """
        count = smallest_count(self._is_enough_or_all)
        if count is None or count > self.cases:
            return None
        return count

    def _is_enough_or_all(self, labels: int) -> bool:
        """Whether so many labels settle the plan's question with a chance of `POWER`, or are all.

        Beyond all cases nothing more can be labelled: the search for the number ends there.
        """
        return self.chance(labels) >= POWER or labels > self.cases
