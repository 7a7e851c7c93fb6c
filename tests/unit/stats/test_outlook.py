"""What would settle a question: the formulas again, by scipy's distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist, stdev

import pytest
from scipy.stats import nct
from scipy.stats import t as student

from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.outlook import Outlook, outlook

POWER = 0.8
NORMAL = NormalDist()


def quantile(share: float) -> float:
    return NORMAL.inv_cdf(share)


def root(function: Callable[[float], float], most: float) -> float | None:
    """Where it reaches 0 from below; None where it does not up to ``most``."""
    low, high = 0.0, most
    if function(most) < 0:
        return None
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
    return high


def noncentrality(n: int, level: float) -> float:
    """At which a t of n cases exceeds its critical value in ``POWER`` of all samples."""
    critical = float(student.ppf(1 - level, n - 1))
    found = root(lambda at: float(nct.sf(critical, n - 1, at)) - POWER, 20.0)
    assert found is not None
    return found


class Planned:
    """The planning of single cases, as the documentation of `outlook` has it."""

    def __init__(self, values: Sequence[float], alpha: float) -> None:
        count = len(values)
        wanted = quantile(1 - alpha)
        enlarged = float(nct.ppf(POWER, count - 1, wanted)) / (wanted + quantile(POWER))
        self.variance = (stdev(values) * max(1.0, enlarged)) ** 2
        self.move = sum(value**2 for value in values) / sum(map(abs, values))

    def unchanged(self, tolerance: float, reach: float, alpha: float) -> int:
        """The smallest number of cases that rules the drop out if nothing has changed."""

        def is_enough(n: int) -> bool:
            left = n * tolerance - reach - quantile(POWER) * math.sqrt(n * self.variance)
            spread = n * (self.variance + tolerance**2) + reach**2
            return left >= quantile(1 - alpha) * math.sqrt(spread)

        return next(n for n in range(2, 1_000_000) if is_enough(n))

    def worse_by_t(self, n: int, tolerance: float, level: float, step: float) -> float:
        """x = step / n + nc * sqrt((variance + (tolerance + x) * move) / n)."""
        nc = noncentrality(n, level)

        def left(x: float) -> float:
            spread = (self.variance + (tolerance + x) * self.move) / n
            return x - step / n - nc * math.sqrt(spread)

        found = root(left, 100.0)
        assert found is not None
        return found

    def bounded(
        self, n: int, tolerance: float, alpha: float, *, reach: float, most: float, way: int
    ) -> float | None:
        """The smallest margin that the test for bounded values shows."""

        def left(margin: float) -> float:
            variance = self.variance + abs(tolerance + way * margin) * self.move
            shown = n * margin - reach - quantile(POWER) * math.sqrt(n * variance)
            return shown - quantile(1 - alpha) * math.sqrt(n * (variance + margin**2) + reach**2)

        return root(left, most)


FEW = [-1.0] * 3 + [1.0] * 3 + [0.0] * 14
UNEVEN = [-0.3, 0.2, 0.45, -0.7, 0.1, 0.05, -0.25, 0.3, 0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "tolerance", "step"), [(FEW, 0.05, 0.05), (FEW, 0.0, 1.0), (UNEVEN, 0.02, 0.0)]
)
@pytest.mark.parametrize(("level", "weakest"), [(None, None), (0.01, None), (0.05, 0.1)])
def test_cases_and_drops_are_those_of_the_formulas(
    values: list[float], tolerance: float, step: float, level: float | None, weakest: float | None
) -> None:
    """On a scale of 1, where the smallest value lies ``1 - tolerance`` below the limit.

    Moves of a whole, seen from a limit of -.05, are multiples of .05: that is their step.
    """
    found = outlook(
        ClusterTotals.of(values), tolerance, largest_drop=1.0, level=level, weakest=weakest
    )
    planned, reach = Planned(values, 0.05), 1.0 - tolerance
    n = 4 * len(values)
    if tolerance and (enough := planned.unchanged(tolerance, reach, 0.05)) >= 2 * len(values):
        n = enough
    worse = planned.worse_by_t(n, tolerance, level or 0.05, step)
    if weakest is not None:
        gain = 1.0 + tolerance
        beyond = planned.bounded(n, tolerance, weakest, reach=gain, most=gain, way=1)
        assert beyond is not None
        worse = max(worse, beyond)
    margin = planned.bounded(n, tolerance, 0.05, reach=reach, most=reach + 2 * tolerance, way=-1)
    assert margin is not None
    assert found is not None
    assert (found.cases, found.alike) == (n, False)
    assert found.shown == pytest.approx(tolerance + worse, rel=1e-6)
    assert found.ruled_out == pytest.approx(tolerance - margin, rel=1e-6)


def test_without_bounds_both_sides_are_those_of_the_t_test() -> None:
    """A margin of nc * s' / sqrt(n) on the better side; on the worse one the change adds spread."""
    found = outlook(ClusterTotals.of(UNEVEN), 0.02, largest_drop=None)
    planned = Planned(UNEVEN, 0.05)
    assert found is not None
    n = found.cases
    margin = noncentrality(n, 0.05) * math.sqrt(planned.variance / n)
    assert margin == pytest.approx(0.02, rel=0.001)  # so many cases that the tolerance is ruled out
    assert found.ruled_out == pytest.approx(0.02 - margin, abs=1e-6)
    assert found.shown == pytest.approx(0.02 + planned.worse_by_t(n, 0.02, 0.05, 0.0), rel=1e-6)


def test_where_nearly_as_many_cases_would_do_four_times_as_many_are_told() -> None:
    """Of 400 cases 4 moved: fewer than 800 rule out .05, so that no number is below 1,600."""
    values = [-1.0, -1.0, 1.0, 1.0] + [0.0] * 396
    planned = Planned(values, 0.05)
    assert planned.unchanged(0.05, 0.95, 0.05) < 800
    found = outlook(ClusterTotals.of(values), 0.05, largest_drop=1.0)
    assert found is not None
    assert found.cases == 1_600


def test_no_fewer_cases_than_can_show_a_drop_at_its_level() -> None:
    """Two cases, and a level of 2^-20: twenty-one signs, one more than could just do."""
    found = outlook(ClusterTotals.of([-0.5, 0.5]), 0.0, largest_drop=1.0, level=2.0**-20)
    assert found is not None
    assert found.cases == 21


@pytest.mark.parametrize(
    ("values", "clusters", "tolerance", "largest", "options", "cases"),
    [
        # Each loses 1/2: 2^-5 is below 5 %, 2^-7 below 1 %.
        ([-0.5] * 3, None, 0.05, 1.0, {}, 5),
        ([-0.5] * 3, None, 0.05, 1.0, {"level": 0.01}, 7),
        # The test against rare gains: (1 + .45 / 1.05)^-n is below .001 from 20 on.
        ([-0.5] * 3, None, 0.05, 1.0, {"weakest": 0.001}, 20),
        # Each stays: (1 + .05 / .95)^-n is below 5 % from 59 on.
        ([0.0] * 3, None, 0.05, 1.0, {}, 59),
        # Each gains 1/4: (1 + .3 / .95)^-n is below 5 % from 11 on.
        ([0.25] * 3, None, 0.05, 1.0, {}, 11),
        # Two cases a cluster: twice as many cases as clusters.
        ([-0.5] * 4, ["a", "a", "b", "b"], 0.05, 1.0, {}, 10),
    ],
)
def test_where_all_cases_say_the_same_so_many_of_them_decide(
    values: list[float],
    clusters: list[str] | None,
    tolerance: float,
    largest: float,
    options: dict[str, float],
    cases: int,
) -> None:
    totals = ClusterTotals.of(values, clusters)
    found = outlook(totals, tolerance, largest_drop=largest, **options)
    assert found == Outlook(cases=cases, alike=True)


@pytest.mark.parametrize(
    ("values", "tolerance", "largest"),
    [
        ([], 0.05, 1.0),
        ([-0.05] * 3, 0.05, 1.0),  # each lost just what is tolerated
        ([0.0] * 3, 0.0, 1.0),
        ([0.0] * 3, 0.05, None),  # without an end of the scale nothing is ruled out
        ([0.0] * 3, 1.0, 1.0),
    ],
)
def test_where_nothing_would_settle_it_no_number_is_told(
    values: list[float], tolerance: float, largest: float | None
) -> None:
    assert outlook(ClusterTotals.of(values), tolerance, largest_drop=largest) is None


def test_two_cases_that_move_as_one_count_as_one() -> None:
    """Twice as many cases are told; the drops are those of single cases."""
    single = outlook(ClusterTotals.of(FEW), 0.05, largest_drop=1.0, weakest=0.05)
    labels = [f"document {at // 2}" for at in range(2 * len(FEW))]
    doubled = [value for value in FEW for _ in range(2)]
    found = outlook(ClusterTotals.of(doubled, labels), 0.05, largest_drop=1.0, weakest=0.05)
    assert single is not None
    assert found is not None
    assert found.cases == 2 * single.cases
    assert found.shown == pytest.approx(single.shown, rel=1e-9)
    assert found.ruled_out == pytest.approx(single.ruled_out, rel=1e-9)


def test_where_twice_as_many_would_do_their_number_is_told() -> None:
    """Of 20 cases two moved: 366 would do, which is more than twice 20."""
    values = [-1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    enough = Planned(values, 0.05).unchanged(0.1, 0.9, 0.05)
    found = outlook(ClusterTotals.of(values), 0.1, largest_drop=1.0)
    assert found is not None
    assert found.cases == enough
    assert enough > 2 * len(values)


@pytest.mark.parametrize(("moved", "cases"), [(30, 1_600), (60, 1_600), (70, 915)])
def test_it_is_twice_as_many_from_which_on_the_number_is_told(moved: int, cases: int) -> None:
    """Of 400 cases, 60 moved: 419 would do. 120 moved: 791 would; 140: 915."""
    values = [-1.0, 1.0] * moved + [0.0] * (400 - 2 * moved)
    enough = Planned(values, 0.05).unchanged(0.05, 0.95, 0.05)
    assert (enough >= 800) is (cases == enough)
    found = outlook(ClusterTotals.of(values), 0.05, largest_drop=1.0)
    assert found is not None
    assert found.cases == cases


def test_a_drop_beyond_the_scale_is_no_drop_that_would_be_shown() -> None:
    """The limit is -.6: only .4 of the scale is left, and .6 would be needed."""
    found = outlook(ClusterTotals.of([-0.5, 0.5]), 0.6, largest_drop=1.0)
    assert found is not None
    assert found.shown is None
    assert found.ruled_out is not None


def test_where_the_test_against_rare_gains_never_agrees_no_drop_is_shown() -> None:
    """Of eight cases none brings it below 1e-12, whatever they lose."""
    values = [-0.5, 0.5]
    planned = Planned(values, 0.05)
    assert planned.bounded(8, 0.0, 1e-12, reach=1.0, most=1.0, way=1) is None
    without = outlook(ClusterTotals.of(values), 0.0, largest_drop=1.0)
    found = outlook(ClusterTotals.of(values), 0.0, largest_drop=1.0, weakest=1e-12)
    assert without is not None
    assert found is not None
    assert found.cases == without.cases == 8
    assert found.shown is None


def test_without_bounds_there_is_no_test_against_rare_gains() -> None:
    totals = ClusterTotals.of(UNEVEN)
    with_it = outlook(totals, 0.02, largest_drop=None, weakest=1e-9)
    assert with_it == outlook(totals, 0.02, largest_drop=None)


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_what_few_cases_rule_out_lies_within_the_scale(tolerance: float, count: int) -> None:
    """The largest gain that there can be lies ``1 + tolerance`` above the limit."""
    values = [-0.2, 0.25] * count
    found = outlook(ClusterTotals.of(values), tolerance, largest_drop=1.0)
    assert found is not None
    reach = 1.0 - tolerance
    margin = Planned(values, 0.05).bounded(
        found.cases, tolerance, 0.05, reach=reach, most=1.0 + tolerance, way=-1
    )
    if margin is None:
        assert found.ruled_out is None
    else:
        assert found.ruled_out == pytest.approx(tolerance - margin, abs=1e-6)
