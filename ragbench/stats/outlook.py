"""How many cases would settle an undecided drop, and for which true drops that holds.

The true drop is not known, and no number of cases settles all: one that lies closely enough to what
is tolerated is never told from it. So a number of cases comes with the two true drops between which
it does not hold. Outside of them the chance is kept whatever the truth is; a chance averaged over
truths that seem likely would hold for none of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.power import Spread, clusters_to_rule_out, detectable

_MORE = 4
"""So many times the cases at hand, where fewer would not be an answer: twice as sharp."""
_WORTH = 2
"""From so many times the cases at hand on, a number of cases is an answer."""
_NORMAL = NormalDist()
_STEPS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """Cases that would settle the question."""

    cases: int
    """So many of the same kind, counted with those at hand."""
    shown: float | None = None
    """A true drop of at least this is called worse, with the chance that was asked for; None where
    not even a total loss is."""
    ruled_out: float | None = None
    """A true drop of at most this is called "not worse", with that chance; below 0 a gain. None
    where not even the largest gain is."""
    alike: bool = False
    """The cases at hand show no spread at all: the number holds if further ones do as these."""


def outlook(
    totals: ClusterTotals,
    tolerance: float,
    *,
    largest_drop: float | None,
    alpha: float = 0.05,
    level: float | None = None,
    power: float = 0.8,
    weakest: float | None = None,
) -> Outlook | None:
    """How many cases would settle whether a drop is larger than tolerated.

    It is the number that rules the drop out with a chance of ``power`` if nothing has changed
    (`ragbench.stats.power.clusters_to_rule_out`), or four times the cases at hand where these are
    nearly as many already, or where nothing is tolerated. The spread is estimated: it is enlarged
    by ``c / (z_alpha + z_power)``, with c the ``power`` quantile of a noncentral t with G - 1
    degrees of freedom and noncentrality z_alpha, so that the chance holds on average over such
    estimates. A true change adds spread of its own: it is taken to be made of moves like those
    that were seen.

    Source: Julious & Owen 2006, "Sample size calculations for clinical studies allowing for
    uncertainty about the variance".

    None where no number of cases would settle it (every case lost exactly what is tolerated, or
    nothing is tolerated and nothing lost), or where nothing is known of the spread.
    """
    mean = totals.mean
    if mean is None:
        return None
    worse = alpha if level is None else level
    spread = Spread.of(totals, -tolerance)
    if spread is None:
        margin = math.fsum(totals.shifted(tolerance)) / totals.cases
        clusters = _alike(margin, tolerance, largest_drop, alpha, worse, weakest)
        if clusters is None:
            return None
        size = totals.cases / totals.clusters
        return Outlook(cases=math.ceil(clusters * size - 1e-9), alike=True)
    spread = _enlarged(spread, totals.clusters - 1, alpha, power)
    reach = None if largest_drop is None else largest_drop - tolerance
    unchanged = clusters_to_rule_out(tolerance, spread, reach=reach, alpha=alpha, power=power)
    least = max(_MORE * totals.clusters, math.ceil(-math.log2(worse) - 1e-9) + 1)
    if unchanged is not None and unchanged.clusters >= _WORTH * totals.clusters:
        least = unchanged.clusters
    plan = _Plan(
        spread=spread,
        tolerance=tolerance,
        move=_typical_move(totals),
        clusters=least,
        power=power,
    )
    found = plan.shown_within(worse, reach=reach, weakest=weakest, largest_drop=largest_drop)
    if reach is None:
        margin_up = detectable(spread, least, alpha=alpha, power=power)
    else:
        margin_up = plan.bounded(alpha, reach=reach, most=reach + 2.0 * tolerance, way=-1.0)
    return Outlook(
        cases=spread.sample_size(least).cases,
        shown=None if found is None else tolerance + found,
        ruled_out=None if margin_up is None else tolerance - margin_up,
    )


def _typical_move(totals: ClusterTotals) -> float:
    """How far a cluster moves that moves: a change of the mean adds to the spread with it."""
    sizes = math.fsum(map(abs, totals.sums))
    squares = math.fsum(total * total for total in totals.sums)
    return squares / sizes * totals.clusters / totals.cases if sizes else 0.0


def _enlarged(spread: Spread, degrees: int, alpha: float, power: float) -> Spread:
    """The spread for planning, as it is estimated from few clusters."""
    from scipy.special import nctdtrit

    critical = _NORMAL.inv_cdf(1.0 - alpha)
    factor = float(nctdtrit(degrees, critical, power)) / (critical + _NORMAL.inv_cdf(power))
    return replace(spread, per_cluster=spread.per_cluster * max(1.0, factor))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What so many clusters would show. A true change is made of moves like those seen."""

    spread: Spread
    tolerance: float
    move: float
    clusters: int
    power: float

    def shown(self, level: float) -> float | None:
        """The smallest distance below the limit at which a drop is called worse."""
        unit = Spread(per_cluster=1.0, cluster_size=self.spread.cluster_size)
        away = detectable(unit, self.clusters, alpha=level, power=self.power)
        if away is None:
            return None
        # x - c = away * sqrt(variance + (tolerance + x) * move): a quadratic in x.
        step = self.spread.step / (self.clusters * self.spread.cluster_size)
        half = step + away**2 * self.move / 2.0
        variance = self.spread.per_cluster**2 + self.tolerance * self.move
        return half + math.sqrt(max(0.0, half**2 - step**2 + away**2 * variance))

    def shown_within(
        self,
        level: float,
        *,
        reach: float | None,
        weakest: float | None,
        largest_drop: float | None,
    ) -> float | None:
        """As `shown`, where the test against rare gains must agree; None beyond the scale."""
        found = self.shown(level)
        if found is not None and weakest is not None and largest_drop is not None:
            gain = largest_drop + self.tolerance
            beyond = self.bounded(weakest, reach=gain, most=gain, way=1.0)
            found = None if beyond is None else max(found, beyond)
        return None if found is not None and reach is not None and found > reach else found

    def bounded(self, alpha: float, *, reach: float, most: float, way: float) -> float | None:
        """The smallest distance the test for bounded values shows, as `clusters_to_rule_out`."""
        critical, beyond = _NORMAL.inv_cdf(1.0 - alpha), _NORMAL.inv_cdf(self.power)
        count = self.clusters

        def is_shown(margin: float) -> bool:
            change = abs(self.tolerance + way * margin)
            variance = self.spread.per_cluster**2 + change * self.move
            shown = count * margin - reach - beyond * math.sqrt(count * variance)
            return shown >= critical * math.sqrt(count * (variance + margin**2) + reach**2)

        if not is_shown(most):
            return None
        low, high = 0.0, most
        for _ in range(_STEPS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if is_shown(middle) else (middle, high)
        return high


def _alike(
    margin: float,
    tolerance: float,
    largest_drop: float | None,
    alpha: float,
    worse: float,
    weakest: float | None,
) -> int | None:
    """Clusters that decide where every one of them says the same."""
    if margin == 0.0:
        return None
    if margin < 0.0:
        least = math.ceil(-math.log2(worse) - 1e-9)
        if largest_drop is not None and weakest is not None:
            gain = math.log1p(-margin / (largest_drop + tolerance))
            least = max(least, math.ceil(-math.log(weakest) / gain - 1e-9))
        return least
    if largest_drop is None or largest_drop <= tolerance:
        return None
    return math.ceil(-math.log(alpha) / math.log1p(margin / (largest_drop - tolerance)) - 1e-9)
