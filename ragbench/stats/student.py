"""Student's t distribution without SciPy: a report needs a quantile, not a slow import."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

from ragbench.errors import ConfigError
from ragbench.stats.inputs import check_share

__all__ = ["student_cdf", "student_quantile"]

# From here on the normal expansion of the quantile is exact to about 1e-14.
_MANY = 2000


def student_cdf(value: float, degrees: int) -> float:
    """P(T <= value) for Student's t with a whole number of degrees of freedom.

    Source: Abramowitz & Stegun 1964, 26.7.3 and 26.7.4 (finite sums in the angle
    ``atan(value / sqrt(degrees))``).

    Args:
        value: any number.
        degrees: degrees of freedom, at least 1.
    """
    angle = math.atan2(value, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    terms = [] if degrees == 1 else [term]
    for step in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        terms.append(term)
    inside = sine * math.fsum(terms)
    share = 2.0 / math.pi * (angle + inside) if odd else inside
    return min(1.0, max(0.0, 0.5 + 0.5 * share))


@functools.lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = probability.

    Source: Newton's method on :func:`student_cdf`, started at and for many degrees of freedom
    replaced by the expansion of Abramowitz & Stegun 1964, 26.7.5.

    Args:
        probability: between 0 and 1, both excluded.
        degrees: degrees of freedom, at least 1.

    Raises:
        ConfigError: an argument is out of range.
    """
    check_share(probability, name="probability")
    if degrees < 1:
        raise ConfigError(f"degrees of freedom are {degrees}: at least 1 is needed")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, degrees)
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees >= _MANY:
        return _expansion(NormalDist().inv_cdf(probability), degrees)
    return _solve(probability, degrees)


def _expansion(normal: float, degrees: int) -> float:
    z, square = normal, normal * normal
    terms = (
        z * (square + 1) / 4,
        z * (5 * square**2 + 16 * square + 3) / 96,
        z * (3 * square**3 + 19 * square**2 + 17 * square - 15) / 384,
        z * (79 * square**4 + 776 * square**3 + 1482 * square**2 - 1920 * square - 945) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def _solve(probability: float, degrees: int) -> float:
    """Bisection kept inside a bracket, sped up by Newton steps that stay in it."""
    low, high = 0.0, 2.0
    while student_cdf(high, degrees) < probability and high < 1e9:
        low, high = high, high * 2.0
    scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    height = math.exp(scale) / math.sqrt(degrees * math.pi)
    value = (low + high) / 2.0
    for _ in range(100):
        missing = probability - student_cdf(value, degrees)
        low, high = (value, high) if missing > 0 else (low, value)
        density = height * (1.0 + value * value / degrees) ** (-(degrees + 1) / 2)
        following = value + missing / density if density > 0 else low
        if not low <= following <= high:
            following = (low + high) / 2.0
        if abs(following - value) <= 1e-15 * max(1.0, value):
            return following
        value = following
    return value
