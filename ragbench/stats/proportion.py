"""A share of few trials with its exact interval."""

from __future__ import annotations

from ragbench.errors import InputError
from ragbench.stats.inputs import check_share

__all__ = ["proportion_interval"]


def proportion_interval(
    successes: int, trials: int, confidence: float = 0.95
) -> tuple[float, float]:
    """The range in which the true share of successes is to be expected.

    Source: Clopper & Pearson 1934, "The Use of Confidence or Fiducial Limits Illustrated in the
    Case of the Binomial", by quantiles of the beta distribution. It covers at least
    ``confidence``, however few the trials are.

    Args:
        successes: between 0 and ``trials``.
        trials: independent trials; 0 gives the whole range from 0 to 1.
        confidence: share of repetitions whose interval holds the true share.

    Raises:
        InputError: the counts are negative or do not fit.
        ConfigError: ``confidence`` is not between 0 and 1.
    """
    from scipy.special import betaincinv

    check_share(confidence, name="confidence")
    if not 0 <= successes <= trials:
        raise InputError(f"{successes} successes of {trials} trials: give counts that fit")
    tail = (1.0 - confidence) / 2.0
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 1.0 - tail)) if failures else 1.0
    return low, high
