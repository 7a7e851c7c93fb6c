"""Several scores a case: how much of the noise is the system's own, and would repeating help?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.stats.mean import check_finite, check_share

_ROUNDING = 1e-9
"""Scores of a case that differ by less than this share of the largest are equal: a mean of three
times 0.2 is not quite 0.2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VarianceComponents:
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
        """Share of the variance of a case mean that more repeats would remove."""
        if self.within is None or self.between is None or not self.repeats:
            return None
        noise = self.within / self.repeats
        return noise / (self.between + noise) if noise > 0.0 else 0.0

    @property
    def once(self) -> float | None:
        """Variance of a score: that of a case mean if every case were scored once."""
        if self.within is None or self.between is None:
            return None
        return self.between + self.within

    def repeats_for(self, share: float) -> int | None:
        """Smallest number of repeats for which at most ``share`` of the variance is noise.

        None when that is not known, or when only noise varies: then no number does.
        """
        check_share(share, name="share")
        if self.within == 0.0 and self.between is not None:
            return 1
        if self.within is None or not self.between:
            return None
        return max(1, math.ceil(self.within * (1.0 - share) / (share * self.between) - 1e-9))


def variance_components(scores: Mapping[str, Sequence[float]]) -> VarianceComponents:
    """Splits the variance of scores into one between cases and one between repeats of a case.

    One-way random effects by analysis of variance: ``within`` is the mean square within cases;
    ``between = (MS_between - MS_within) / n0`` with
    ``n0 = (N - sum(n_i^2) / N) / (k - 1)``, and 0 where that is negative.

    A case counts once, however often it was repeated: repeats are not independent cases.

    Source: Searle, Casella & McCulloch 1992, "Variance Components", section 3.6; for evaluations
    Miller 2024, section 3.
    """
    for case_id, repeats in scores.items():
        check_finite(repeats, what=f"case '{case_id}': score")
    means = {case_id: math.fsum(each) / len(each) for case_id, each in scores.items() if each}
    counts = [len(scores[case_id]) for case_id in means]
    cases, total = len(counts), sum(counts)
    within = between = None
    if total > cases:
        squares = math.fsum(
            (score - mean) ** 2 for case_id, mean in means.items() for score in scores[case_id]
        )
        largest = max(abs(score) for case_id in means for score in scores[case_id])
        within = squares / (total - cases)
        if within <= (_ROUNDING * largest) ** 2:
            within = 0.0
    if within is not None and cases > 1:
        centre = math.fsum(score for case_id in means for score in scores[case_id]) / total
        spread = math.fsum(
            len(scores[case_id]) * (mean - centre) ** 2 for case_id, mean in means.items()
        )
        typical = (total - sum(count * count for count in counts) / total) / (cases - 1)
        between = max(0.0, (spread / (cases - 1) - within) / typical)
    return VarianceComponents(
        cases=cases,
        scores=total,
        within=within,
        between=between,
        repeats=cases / math.fsum(1.0 / count for count in counts) if counts else None,
    )
