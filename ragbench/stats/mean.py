"""Cases that belong together; a mean or a share of them with its interval, and its variance."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist

from ragbench.core import report
from ragbench.core.record import Record
from ragbench.core.validation import Share
from ragbench.errors import ConfigError, InputError
from ragbench.safe_text import counted

LARGEST = 1e100
"""Largest size of a value; squares and sums of such values still fit a float."""


def check_finite(values: Iterable[float], *, what: str = "value") -> None:
    """Refuses NaN, infinities and values above `LARGEST`, whose sums and squares would overflow.

    Args:
        what: what a value is, for the error.

    Raises:
        InputError: a value is one of these; its position is named.
    """
    for position, value in enumerate(values):
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise InputError(
                f"{what} {position} is {value}: statistics need finite numbers of a size up to "
                f"{LARGEST:g}. Leave out unmeasured values instead of giving them a number."
            )


def check_share(value: float, *, name: str) -> None:
    """Refuses a setting such as a level or a confidence that is not strictly between 0 and 1.

    Args:
        name: the setting, for the error.

    Raises:
        ConfigError: the value is 0, 1 or outside.
    """
    if not 0.0 < value < 1.0:
        raise ConfigError(f"{name} is {value}: it must lie between 0 and 1, both excluded")


def mean_of(values: Sequence[float]) -> float | None:
    """The mean of some values; None without any.

    The sum is exactly rounded, so the order of the values does not change it.
    """
    if not values:
        return None
    return math.fsum(values) / len(values)


Label = str | int | None
"""What a case shares with others; None makes it a cluster of its own."""

_ROUNDING = 1e-13
"""Residuals below this share of the largest total are rounding noise, not spread."""


def cluster_codes(labels: Sequence[Label]) -> Sequence[int]:
    """The number of each case's cluster, from 0 in order of first appearance.

    Cases of a cluster, such as questions on one article, are not independent, so tests count
    clusters. Where every case stands alone the result is a range: a million numbers take much
    memory.

    Args:
        labels: what each case shares with others; None makes it a cluster of its own.
    """
    if all(label is None for label in labels):
        return range(len(labels))
    code_by_label: dict[str | int, int] = {}
    codes: list[int] = []
    next_code = 0
    for label in labels:
        if label is None:
            code = next_code
        else:
            code = code_by_label.setdefault(label, next_code)
        if code == next_code:  # a cluster that was not met before
            next_code += 1
        codes.append(code)
    return tuple(codes)


class ClusterTotals(Record):
    """The sum and the number of the values of each cluster: all that the tests need.

    Clusters stand in order of (sum, size), so nothing computed from here depends on the order of
    the cases or on the names of the clusters.
    """

    sums: tuple[float, ...]
    """Sum of the values, a cluster; correctly rounded."""
    sizes: tuple[int, ...]
    """Number of the values, a cluster; at least 1."""
    rounding: float = 0.0
    """By how much rounding may have moved a value."""

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        labels: Sequence[Label] | None = None,
        *,
        rounding: float = 0.0,
    ) -> ClusterTotals:
        """Sums the values of cases up by cluster, in an order that no order of the cases changes.

        Args:
            labels: what each value shares with others; None: nothing, each is a cluster.

        Raises:
            InputError: a value is no finite number, or too large.
        """
        # One pass without Python code for what is nearly always fine; NaN is not <= anything.
        if not sum(map(abs, values)) <= LARGEST:
            check_finite(values)
        if labels is not None and len(labels) != len(values):
            raise InputError(
                f"{counted(len(values), 'value')} and {counted(len(labels), 'cluster label')}: "
                "give one label a value"
            )

        # Most cases of most runs stand alone: of a million of them, little more than the sums.
        are_alone = labels is None or labels.count(None) == len(labels)
        if labels is None or are_alone:
            sums = tuple(sorted(map(float, values)))
            sizes = (1,) * len(values)
            return cls(sums=sums, sizes=sizes, rounding=rounding)

        values_by_label: dict[str | int, list[float]] = defaultdict(list)
        pairs: list[tuple[float, int]] = []
        for label, value in zip(labels, values, strict=True):
            if label is None:
                pairs.append((float(value), 1))
            else:
                values_by_label[label].append(value)
        for group in values_by_label.values():
            pairs.append((math.fsum(group), len(group)))
        pairs.sort()
        sums, sizes = zip(*pairs, strict=True)
        return cls(sums=sums, sizes=sizes, rounding=rounding)

    def turned(self) -> ClusterTotals:
        """The totals with every sign turned, so that a test of losses asks about gains.

        Sorted anew, since clusters are in order of their sums.
        """
        if not self.sizes:
            return self
        pairs: list[tuple[float, int]] = []
        for total, size in zip(self.sums, self.sizes, strict=True):
            pairs.append((-total, size))
        pairs.sort()
        sums, sizes = zip(*pairs, strict=True)
        return ClusterTotals(sums=sums, sizes=sizes, rounding=self.rounding)

    @property
    def clusters(self) -> int:
        """How many clusters the values are in: so many independent observations a test has.

        Degrees of freedom come from this number, and not from that of the cases.
        """
        return len(self.sizes)

    @property
    def cases(self) -> int:
        """How many cases were summed up: one value each, over all clusters.

        Means are over cases, so a large cluster weighs more.
        """
        return sum(self.sizes)

    @property
    def mean(self) -> float | None:
        """The mean over the cases (not over the clusters); None without any case.

        The sum is exactly rounded, so the order of the cases does not change it.
        """
        if not self.sizes:
            return None
        return math.fsum(self.sums) / sum(self.sizes)

    @property
    def standard_error(self) -> float | None:
        """Cluster-robust standard error of the mean; None with fewer than two clusters.

        Cases of a cluster vary together: an error from single cases would be too small.

        With r_c the sum of the deviations from the mean in cluster c, G clusters and N values:
        ``SE^2 = G/(G-1) * sum(r_c^2) / N^2``. That is the sandwich estimator of a regression on
        a constant with the CR1 factor ``G/(G-1) * (N-1)/(N-K)``, K=1; with clusters of one it is
        the usual ``s / sqrt(N)``.

        Source: Liang & Zeger 1986; Cameron & Miller 2015, "A Practitioner's Guide to
        Cluster-Robust Inference", section II; for evaluations Miller 2024, "Adding Error Bars to
        Evals", section 2.2.
        """
        clusters = len(self.sizes)
        if clusters < 2:
            return None
        cases = sum(self.sizes)
        mean = math.fsum(self.sums) / cases
        residuals = [total - mean * size for total, size in zip(self.sums, self.sizes, strict=True)]
        largest = max(map(abs, residuals))
        largest_total = max(map(abs, self.sums))
        if largest <= _ROUNDING * largest_total:
            return 0.0
        # Scaled by the largest one, so that squares neither overflow nor vanish.
        squares = [(residual / largest) ** 2 for residual in residuals]
        scaled_variance = clusters / (clusters - 1) * math.fsum(squares)
        return largest * math.sqrt(scaled_variance) / cases

    def shifted_sums(self, shift: float) -> tuple[float, ...]:
        """The clusters' sums after adding ``shift`` to every value, in the order of the clusters.

        A test of "the mean is m" shifts by -m, and then asks of sums whether they are above, below
        or equal to 0: a sum that only rounding holds off 0 is 0.
        """
        shifted: list[float] = []
        for total, size in zip(self.sums, self.sizes, strict=True):
            new_total = total + shift * size
            if abs(new_total) <= self.rounding * size:
                new_total = 0.0
            shifted.append(new_total)
        return tuple(shifted)


class MeanInterval(Record):
    """A mean and a range that holds the true mean in ``confidence`` of all repetitions."""

    mean: float | None
    low: float | None
    high: float | None
    confidence: float
    """Share of repetitions whose interval holds the true mean, such as 0.95."""
    standard_error: float | None
    """Cluster-robust standard error of the mean; None with fewer than two clusters."""
    cases: int
    clusters: int

    @property
    def reported(self) -> report.Interval | None:
        """The interval as reports hold it; None if it has no ends, or no width.

        An interval without width would claim certainty.
        """
        if self.low is None or self.high is None or self.low == self.high:
            return None
        return report.Interval(low=self.low, high=self.high, level=self.confidence)


@functools.lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t: the t with P(T <= t) = probability.

    Every evaluation needs one, and SciPy takes a quarter of a second to load, so it is computed
    here: to 1e-12 by Newton's method; beyond a thousand degrees by the expansion in 1 / degrees.

    Source: Abramowitz and Stegun 1964, 26.7.3 to 26.7.5.

    Args:
        degrees: degrees of freedom, at least 1.
    """
    check_share(probability, name="probability")
    if degrees < 1:
        raise ConfigError(f"degrees of freedom are {degrees}: at least 1 is needed")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, degrees)  # the curve is symmetric
    n = degrees
    z = NormalDist().inv_cdf(probability)
    # Of many degrees, and not far out in the tail: there the terms fall fast.
    # Farther out than this the expansion is no longer exact to 1e-10.
    if n > 1_000 and z * z < n / 60:
        return z + _quantile_beyond_normal(z, n)
    # The height of the density at 0.
    scale = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) / math.sqrt(n * math.pi)
    # Newton's method from the normal quantile, which is smaller. The density falls from there on,
    # so each step ends before the quantile, or on it.
    t = z
    # A guard alone: Newton's method ends after a few steps.
    for _ in range(200):
        density = scale * (1 + t * t / n) ** (-(n + 1) / 2)
        missing = probability - 0.5 - _student_share(t, n) / 2
        step = missing / density
        t += step
        if abs(step) <= 1e-14 * t:
            break
    return t


def _quantile_beyond_normal(z: float, degrees: int) -> float:
    """The difference of Student's quantile from that of the normal distribution, of many degrees.

    The first four terms of the expansion in 1 / degrees (Abramowitz and Stegun 1964, 26.7.5): it is
    only exact enough beyond about a thousand degrees.

    Args:
        z: the quantile of the normal distribution.
    """
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def _student_share(t: float, degrees: int) -> float:
    """P(-t <= T <= t) of Student's distribution, by which its quantile is found.

    The share is a sum of powers of a cosine: odd powers where the degrees are odd, else even ones
    (Abramowitz and Stegun 1964, 26.7.3, 26.7.4).

    Args:
        degrees: degrees of freedom.
    """
    angle = math.atan2(t, math.sqrt(degrees))
    cosine_squared = degrees / (degrees + t * t)
    is_odd = degrees % 2 == 1
    first_power = 0
    term = 1.0
    if is_odd:
        first_power = 1
        term = math.cos(angle)
    total = 0.0
    for power in range(first_power, degrees - 1, 2):
        total += term
        term *= cosine_squared * (power + 1) / (power + 2)
    share = math.sin(angle) * total
    if is_odd:
        share = 2 / math.pi * (angle + share)
    return share


def mean_interval(
    values: Sequence[float] | ClusterTotals,
    clusters: Sequence[Label] | None = None,
    confidence: float = 0.95,
    *,
    bounds: tuple[float | None, float | None] | None = None,
    probability: bool = False,
) -> MeanInterval:
    """The mean of a metric's values and the range in which the true mean is to be expected.

    Student-t with cluster-robust standard errors, or those of single cases where these are larger.
    Without a spread (one cluster, or equal values whose scale has no ends) there is no interval.

    Source: Miller 2024, "Adding Error Bars to Evals", sections 2.1 and 2.2; Cameron & Miller 2015;
    the larger of both errors: Angrist & Pischke 2009, "Mostly Harmless Econometrics", section 8.2.

    Args:
        values: one for each case, or summed up by cluster already.
        confidence: share of repetitions whose interval shall hold the true mean.
        bounds: ends of the scale, which cut the interval; None where it has none.
        probability: each value, one for each case, is the probability of an outcome of 0 or 1.
            The interval is that of the outcomes, which vary around it: Wilson's, of as many trials
            as would give the variance of their mean.
    """
    # By how much outcomes vary around their probabilities: the sum of their variances.
    outcome_variances = 0.0
    if isinstance(values, ClusterTotals):
        totals = values
        error = totals.standard_error
    else:
        totals = ClusterTotals.of(values, clusters)
        error = totals.standard_error
        if error is not None and totals.clusters < len(values):
            # Few clusters may look more alike than their cases are, by chance.
            error = max(error, ClusterTotals.of(values).standard_error or 0.0)
        if probability:
            outcome_variances = math.fsum(p * (1.0 - p) for p in values)
    mean = totals.mean
    count = totals.clusters
    upper_tail = 0.5 + confidence / 2  # the interval leaves as much out on either side
    start, end = bounds or (None, None)
    low: float | None = None
    high: float | None = None
    if mean is None or error is None:
        pass  # below two clusters no spread can be seen
    elif outcome_variances:
        # Outcomes vary as the probabilities do, those of a cluster together, and around them.
        variance = error * error + outcome_variances / totals.cases**2
        trials = min(mean * (1.0 - mean) / variance, totals.cases)
        error = math.sqrt(variance)
        low, high = wilson(mean, trials, student_quantile(upper_tail, count - 1))
    elif error:
        reach = student_quantile(upper_tail, count - 1) * error
        low = mean - reach
        high = mean + reach
        # Cut at the ends of the scale; a mean that lies outside of it stays inside its interval.
        if start is not None:
            low = max(low, min(start, mean))
        if end is not None:
            high = min(high, max(end, mean))
    elif start is not None and end is not None:
        # Whatever differs was not met so many times in a row. For a 0/1 metric this is the exact
        # interval of Clopper & Pearson 1934 at its ends (the "rule of three"); for other values
        # the bound of Learned-Miller & Thomas 2019 takes this form when all of them are equal.
        check_share(confidence, name="confidence")
        unseen = ((1.0 - confidence) / 2.0) ** (1.0 / count)
        low = min(mean, start + (mean - start) * unseen)
        high = max(mean, end - (end - mean) * unseen)
    return MeanInterval(
        mean=mean,
        low=low,
        high=high,
        confidence=confidence,
        standard_error=error,
        cases=totals.cases,
        clusters=count,
    )


def wilson(share: float, trials: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of a share of so many independent outcomes, which need be no whole number.

    This interval has a width also at 0 and 1, where others have none: of 20 outcomes that are all 0
    it reaches .161 at 95%.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference";
    with an effective number, Korn & Graubard 1998, and for clusters Dean & Pagano 2015.

    Args:
        quantile: how many standard errors the interval reaches to either side.
    """
    square = quantile * quantile / trials
    # Drawn toward one half, so that a share of 0 or 1 has a range, too.
    centre = (share + square / 2.0) / (1.0 + square)
    half = math.sqrt(square * (share * (1.0 - share) + square / 4.0)) / (1.0 + square)
    low = max(0.0, centre - half)
    high = min(1.0, centre + half)
    return low, high


def student_p_value(totals: ClusterTotals, null_mean: float = 0.0) -> float:
    """One-sided p-value of "the true mean is null_mean or less" by Student's t over clusters.

    For metrics without ends of their scale, where the test for bounded values has no bound.

    For the other side subtract the p-value from 1. Equal values are evidence of nothing here: they
    give 0.5, as does a single cluster or none.

    Source: Cameron & Miller 2015, section VI.D (t with clusters - 1 degrees of freedom).
    """
    from scipy.special import stdtr

    mean = totals.mean
    error = totals.standard_error
    if mean is None or not error:
        return 0.5
    t = (mean - null_mean) / error
    # The chance of a larger t, which is that of a smaller -t.
    return float(stdtr(totals.clusters - 1, -t))


def proportion_interval(
    successes: int, trials: int, confidence: float = 0.95
) -> tuple[float, float]:
    """The exact range in which the true share of successes is to be expected.

    Source: Clopper & Pearson 1934, "The Use of Confidence or Fiducial Limits Illustrated in the
    Case of the Binomial", by quantiles of the beta distribution. The range covers at least
    ``confidence``, however few the trials are.

    Args:
        trials: independent trials; 0 gives the whole range from 0 to 1.
        confidence: share of repetitions whose interval holds the true share.

    Raises:
        InputError: there are more successes than trials, or fewer than 0.
    """
    from scipy.special import betaincinv

    check_share(confidence, name="confidence")
    if not 0 <= successes <= trials:
        raise InputError(f"{successes} successes of {trials} trials: give counts that fit")
    tail = (1.0 - confidence) / 2.0
    failures = trials - successes
    # A beta distribution needs both of its counts above 0.
    low = 0.0
    if successes:
        low = float(betaincinv(successes, failures + 1, tail))
    high = 1.0
    if failures:
        high = float(betaincinv(successes + 1, failures, 1.0 - tail))
    return low, high


def share_of(count: int, total: int) -> Share:
    """A count as a share of a total, with its exact 95% interval; of a total of 0 there is neither.

    Args:
        count: how many of the total it is.
    """
    if not total:
        return Share(count=0, total=0, share=None, low=None, high=None)
    low, high = proportion_interval(count, total)
    return Share(count=count, total=total, share=count / total, low=low, high=high)


# --- several scores a case: how much of the noise is the system's own, and would repeating help?

_EQUAL = 1e-9
"""Scores of a case that differ by less than this share of the largest are equal: a mean of three
times 0.2 is not quite 0.2."""


class VarianceComponents(Record):
    """Where the spread of scores comes from: cases that differ, or repeats that differ."""

    cases: int
    """Cases with at least one score."""
    scores: int
    """Scores over all cases."""
    within: float | None
    """Variance between repeats of one case; None when no case was repeated."""
    between: float | None
    """Variance between the true means of cases; None below two cases or without repeats."""
    repeats: float | None
    """Harmonic mean of the scores a case: what the variance of a case mean depends on."""

    @property
    def share_within(self) -> float | None:
        """The share of a case mean's variance that is noise between repeats of the case.

        More repeats remove it. None where the two variances are not known.
        """
        if self.within is None or self.between is None or not self.repeats:
            return None
        noise = self.within / self.repeats
        if noise <= 0.0:
            return 0.0
        return noise / (self.between + noise)

    @property
    def once(self) -> float | None:
        """The variance of a case's score if every case were scored once.

        Beside it one sees how far repeating has helped. None where it is not known.
        """
        if self.within is None or self.between is None:
            return None
        return self.between + self.within

    def repeats_for(self, share: float) -> int | None:
        """The smallest number of repeats for which at most ``share`` of the variance is noise.

        None when the variances are not known, or when only noise varies: then no number is enough.
        """
        check_share(share, name="share")
        # Repeats never differ: one shows all that many would.
        if self.within == 0.0 and self.between is not None:
            return 1
        if self.within is None or not self.between:
            return None
        # From share = (within / n) / (between + within / n).
        repeats = self.within * (1.0 - share) / (share * self.between)
        return max(1, math.ceil(repeats - 1e-9))  # rounding must not ask for one more


def variance_components(scores: Mapping[str, Sequence[float]]) -> VarianceComponents:
    """Splits the variance of scores into one between cases and one between repeats of a case.

    The first is the benchmark's, the second the system's own noise, which repeats average out.

    One-way random effects by analysis of variance: ``within`` is the mean square within cases;
    ``between = (MS_between - MS_within) / n0`` with ``n0 = (N - sum(n_i^2) / N) / (k - 1)``, and 0
    where that is negative. A case counts once, however often it was repeated: repeats are not
    independent cases.

    Source: Searle, Casella & McCulloch 1992, "Variance Components", section 3.6; for evaluations
    Miller 2024, section 3.

    Args:
        scores: the scores of each case, by its id.
    """
    for case_id, repeats in scores.items():
        check_finite(repeats, what=f"case '{case_id}': score")
    # A case without a score has neither a mean nor a variance.
    measured = [repeats for repeats in scores.values() if repeats]
    counts = [len(repeats) for repeats in measured]
    means: list[float] = []
    all_scores: list[float] = []
    for repeats in measured:
        means.append(math.fsum(repeats) / len(repeats))
        all_scores += repeats
    cases = len(counts)
    total = len(all_scores)

    within: float | None = None
    if total > cases:  # some case was repeated
        squares: list[float] = []
        for mean, repeats in zip(means, measured, strict=True):
            squares += [(score - mean) ** 2 for score in repeats]
        largest = max(map(abs, all_scores))
        within = math.fsum(squares) / (total - cases)
        if within <= (_EQUAL * largest) ** 2:
            within = 0.0

    between: float | None = None
    if within is not None and cases > 1:
        centre = math.fsum(all_scores) / total
        squares_between: list[float] = []
        for count, mean in zip(counts, means, strict=True):
            squares_between.append(count * (mean - centre) ** 2)
        mean_square_between = math.fsum(squares_between) / (cases - 1)
        # n0: how often a case was scored, where the counts differ.
        sum_of_squared_counts = sum([count * count for count in counts])
        typical_count = (total - sum_of_squared_counts / total) / (cases - 1)
        between = max(0.0, (mean_square_between - within) / typical_count)

    harmonic_mean = None
    if counts:
        harmonic_mean = cases / math.fsum(1.0 / count for count in counts)
    return VarianceComponents(
        cases=cases, scores=total, within=within, between=between, repeats=harmonic_mean
    )
