"""The sign-flip test: would this difference be strange if the two runs could be swapped?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from ragbench.errors import ConfigError, InputError
from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.draws import WORD, random_bits, signs_for, to_fixed_point

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Alternative = Literal["less", "greater", "two-sided"]
"""What the test looks for: a mean below, above or away from the null mean."""

# Up to here all 2^k arrangements are counted (two halves of 2^14 sums, sorted).
_EXACT_CLUSTERS = 28


class SignFlipMethod(StrEnum):
    """How the arrangements of signs were counted."""

    BINOMIAL = "binomial"
    """All of them by formula: every cluster that differs from the null differs by the same size.
    For independent 0/1 scores and null mean 0 this is McNemar's exact test."""
    EXACT = "exact"
    """All of them by counting."""
    MONTE_CARLO = "monte-carlo"
    """A seeded sample of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignFlipTest:
    """Outcome of a sign-flip test."""

    p_value: float
    """Chance of a mean at least this far out if signs were arbitrary; 1 without any cluster."""
    alternative: Alternative
    """What was looked for."""
    null_mean: float
    """The mean that was tested against."""
    method: SignFlipMethod
    """How the arrangements were counted."""
    clusters: int
    """Number of independent observations."""
    informative: int
    """Clusters whose total differs from the null: the others say nothing about the sign."""
    resamples: int | None = None
    """Arrangements drawn; None when all were counted."""
    seed: int | None = None
    """Seed of the draws; None when all were counted."""


def sign_flip_tests(
    samples: Sequence[ClusterTotals],
    *,
    null_means: Sequence[float],
    alternative: Alternative = "two-sided",
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[SignFlipTest, ...]:
    """Tests means of paired differences by flipping the signs of whole clusters.

    If the two runs were the same system, then swapping them within a cluster would change
    nothing: every arrangement of signs is as likely as the observed one. The p-value is the share
    of arrangements whose mean lies at least as far out. It is exact for any such distribution,
    ties and tiny samples included, and it needs no variance. Against a null mean it tests the
    differences after subtracting it; for data that could be swapped, an alternative ``less``
    against a mean below 0 (a tolerated drop) has at most the nominal level, because the p-value
    only grows when values are raised. Otherwise it assumes symmetry around the null mean.

    Up to 28 informative clusters, and whenever all informative clusters have the same size of
    total, all arrangements are counted. Otherwise m are drawn and b of them lie as far out:
    p = (b + 1) / (m + 1). The tests share their draws; each is what it would be alone.

    Source: Fisher 1935, "The Design of Experiments", section 21; in information retrieval
    Smucker, Allan & Carterette 2007; (b + 1) / (m + 1): Phipson & Smyth 2010; counting by halves:
    Horowitz & Sahni 1974.
    """
    import numpy as np

    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}: at least 1 is needed")
    if seed < 0:
        raise ConfigError(f"seed is {seed}: it must not be negative")
    if len(samples) != len(null_means):
        raise InputError(f"{len(samples)} samples and {len(null_means)} null means: give one each")
    columns = [
        np.sort(np.array(sample.shifted(-null), dtype=np.float64))
        for sample, null in zip(samples, null_means, strict=True)
    ]
    counted = [_count_all(column) for column in columns]
    left = [position for position, found in enumerate(counted) if found is None]
    # Those of one length together: short ones would be padded to the longest.
    lengths: dict[int, list[int]] = {}
    for position in left:
        lengths.setdefault(-(-len(columns[position]) // WORD), []).append(position)
    for group in lengths.values():
        drawn = _count_draws([columns[position] for position in group], resamples, seed)
        for position, found in zip(group, drawn, strict=True):
            counted[position] = found
    return tuple(
        _outcome(tails, len(column), alternative, null, resamples, seed)
        for tails, column, null in zip(counted, columns, null_means, strict=True)
        if tails is not None
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tails:
    """One-sided p-values of one sample."""

    less: float
    greater: float
    method: SignFlipMethod
    informative: int


def _outcome(
    tails: _Tails,
    clusters: int,
    alternative: Alternative,
    null_mean: float,
    resamples: int,
    seed: int,
) -> SignFlipTest:
    # Arrangements are symmetric around zero, so both tails together are twice the smaller one.
    p_values: dict[Alternative, float] = {
        "less": tails.less,
        "greater": tails.greater,
        "two-sided": min(1.0, 2.0 * min(tails.less, tails.greater)),
    }
    is_drawn = tails.method is SignFlipMethod.MONTE_CARLO
    return SignFlipTest(
        p_value=p_values[alternative],
        alternative=alternative,
        null_mean=null_mean,
        method=tails.method,
        clusters=clusters,
        informative=tails.informative,
        resamples=resamples if is_drawn else None,
        seed=seed if is_drawn else None,
    )


# Flipping the signs of a subset S lowers the total by twice the sum over S. So an arrangement
# lies at or below the observed total exactly when its subset's sum is zero or more. All below
# count subsets: "less" those with a sum >= 0, "greater" those with a sum <= 0.


def _count_all(column: NDArray[np.float64]) -> _Tails | None:
    """Counts every subset; None where they are too many."""
    import numpy as np

    numbers = _numbers(column)
    numbers = numbers[numbers != 0.0]
    if len(numbers) == 0 or float(np.ptp(np.abs(numbers))) <= _slack(1):
        return _binomial(int(np.count_nonzero(numbers < 0)), len(numbers))
    if len(numbers) > _EXACT_CLUSTERS:
        return None
    slack = _slack(len(column))
    # Every other one: the halves get alike sums, which keeps the counting balanced.
    first, second = (np.sort(_subset_sums(half)) for half in (numbers[::2], numbers[1::2]))
    below = np.searchsorted(first, -slack - second, side="left")
    not_above = np.searchsorted(first, slack - second, side="right")
    subsets = len(first) * len(second)
    return _Tails(
        less=(subsets - int(below.sum())) / subsets,
        greater=int(not_above.sum()) / subsets,
        method=SignFlipMethod.EXACT,
        informative=len(numbers),
    )


def _binomial(negative: int, informative: int) -> _Tails:
    from scipy.special import bdtr

    positive = informative - negative
    return _Tails(
        less=float(bdtr(positive, informative, 0.5)) if informative else 1.0,
        greater=float(bdtr(negative, informative, 0.5)) if informative else 1.0,
        method=SignFlipMethod.BINOMIAL,
        informative=informative,
    )


def _subset_sums(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over all subsets of the rows; bit k of the position says whether row k is in."""
    import numpy as np

    sums = np.zeros((1, *numbers.shape[1:]))
    for number in numbers:
        sums = np.concatenate([sums, sums + number])
    return sums


def _count_draws(columns: Sequence[NDArray[np.float64]], resamples: int, seed: int) -> list[_Tails]:
    """Counts random subsets; the columns share the draws."""
    import numpy as np

    if not columns:
        return []
    longest = max(map(len, columns))
    padded = np.zeros((-(-longest // WORD) * WORD, len(columns)))
    # A sum over the subset drawn by bit xor r: the sum over all r, and a sign for each number.
    sums = np.zeros((resamples, len(columns)))
    for position, column in enumerate(columns):
        numbers = _numbers(column)
        signs = signs_for(numbers, seed)
        padded[: len(column), position] = signs * numbers
        sums[:, position] = numbers[signs < 0.0].sum()
    for block, bits in enumerate(random_bits(seed, resamples, longest)):
        # A byte picks one of the 256 sums of its eight clusters: no matrix product, whose threads
        # would wait for each other on a busy machine.
        for byte in range(WORD // 8):
            first = block * WORD + byte * 8
            sums += _subset_sums(padded[first : first + 8])[bits[:, byte]]
    slack = np.array([_slack(len(column)) for column in columns])
    less = np.count_nonzero(sums >= -slack, axis=0)
    greater = np.count_nonzero(sums <= slack, axis=0)
    return [
        _Tails(
            less=(int(low) + 1) / (resamples + 1),
            greater=(int(high) + 1) / (resamples + 1),
            method=SignFlipMethod.MONTE_CARLO,
            informative=int(number),
        )
        for low, high, number in zip(less, greater, np.count_nonzero(padded, axis=0), strict=True)
    ]


def _numbers(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """The totals as whole numbers; what is left of a total after rounding noise is zero."""
    import numpy as np

    numbers, _ = to_fixed_point(column, len(column))
    return np.where(np.abs(numbers) <= _slack(1), 0.0, numbers)


def _slack(clusters: int) -> float:
    """Units by which sums of as many rounded totals may miss each other and still be a tie."""
    return 2.0 * clusters
