"""Two runs side by side: differences over the cases that both measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub

from ragbench.errors import DataError, Problem
from ragbench.stats.mean import LARGEST, ClusterTotals, cluster_codes

_ROUNDING = 2.0**-50
"""Share of the largest score that rounding can move a difference by: a few last digits."""


Key = str | int | tuple[str, str]
"""Of a cluster: the only case of it, a code, or what its cases share."""
CaseScores = tuple[tuple[float | None, ...], tuple[float | None, ...]]
"""Scores of a case in the candidate and in the baseline, each in the order of its runs; None where
it was not measured. Larger is better."""


LEFT_OUT = (
    "only in the baseline",
    "only in this run",
    "not measured in the baseline",
    "not measured in this run",
    "not measured in either",
)
"""Why a case cannot be compared; a case is counted once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedSample:
    """Paired differences of one metric between two runs."""

    case_ids: tuple[str, ...]
    """Cases measured in both runs, in the order of the baseline."""
    differences: tuple[float, ...]
    """Candidate minus baseline, a case; the sign is turned for metrics where lower is better, so
    a negative difference is always a loss."""
    clusters: Sequence[int]
    """Cluster code a case: equal codes mean that the cases are not independent."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """Cases that cannot be compared, by reason: one of `LEFT_OUT`."""
    before: float | None = None
    """The baseline's mean over the cases; None without any."""
    after: float | None = None
    """The candidate's."""
    labels: tuple[str | None, ...] = ()
    """What each case shares with others, by which clusters of several samples are the same; None:
    nothing. Empty: the codes of ``clusters`` say it."""
    rounding: float = 0.0
    """By how much rounding may have moved a difference: measured against the scores, since that
    of two equal losses can differ in the last digit."""
    repeats: tuple[CaseScores, ...] = ()
    """The scores behind each difference, where a case was scored more than once; else empty."""

    def key(self, place: int) -> Key:
        """The cluster of a case under a name that other samples of the same cases share."""
        if not self.labels:
            return self.clusters[place]
        label = self.labels[place]
        return self.case_ids[place] if label is None else ("cluster", label)

    @property
    def stands_alone(self) -> bool:
        """Whether every case is a cluster of its own, as most cases of most runs are."""
        return isinstance(self.clusters, range) or len({*self.clusters}) == len(self.case_ids)

    @property
    def gained(self) -> int:
        return sum(difference > 0 for difference in self.differences)

    @property
    def lost(self) -> int:
        return sum(difference < 0 for difference in self.differences)

    def scores_by_case(self) -> tuple[CaseScores, ...]:
        """The scores behind each difference; without repeats, two that differ by it."""
        return self.repeats or tuple(((value,), (0.0,)) for value in self.differences)

    def totals(self) -> ClusterTotals:
        """The differences summed up by cluster, as the tests take them."""
        labels = None if self.stands_alone else self.clusters
        return ClusterTotals.of(self.differences, labels, rounding=self.rounding)


def pair(
    baseline: Mapping[str, float | None],
    candidate: Mapping[str, float | None],
    *,
    clusters: Mapping[str, str | None] | None = None,
    higher_is_better: bool = True,
    repeats: Mapping[str, CaseScores] | None = None,
) -> PairedSample:
    """Pairs the scores of two runs by case.

    Paired differences are far less noisy than two means, because what makes a question hard is
    the same in both runs.

    Source: Miller 2024, "Adding Error Bars to Evals", section 4.

    Args:
        baseline: score by case id; None for a case that was not measured (failed, skipped,
            abstained). With repeats, the mean of the case.
        candidate: the same for the run that is judged.
        clusters: what a case shares with others, by case id; None or absent: nothing.
        higher_is_better: False turns the differences around.
        repeats: the scores that those of the runs are the means of, by case id, where cases were
            scored more than once; in the metric's own direction.

    Raises:
        DataError: scores that are NaN, infinite or too large; holds all of them.
    """
    _check_scores(baseline, candidate)
    missing = dict.fromkeys(LEFT_OUT, 0)
    case_ids: list[str] = []
    old: list[float] = []
    new: list[float] = []
    for case_id, before in baseline.items():
        after = candidate.get(case_id)
        if before is not None and after is not None:
            case_ids.append(case_id)
            old.append(before)
            new.append(after)
        elif case_id not in candidate:
            missing[LEFT_OUT[0]] += 1
        else:
            missing[LEFT_OUT[4 if before is after else 2 if before is None else 3]] += 1
    missing[LEFT_OUT[1]] = len(candidate) - len(baseline) + missing[LEFT_OUT[0]]
    labels = tuple(None if clusters is None else clusters.get(case_id) for case_id in case_ids)
    count = len(case_ids)
    return PairedSample(
        case_ids=tuple(case_ids),
        differences=tuple(map(sub, new, old) if higher_is_better else map(sub, old, new)),
        clusters=cluster_codes(labels),
        left_out={reason: cases for reason, cases in missing.items() if cases},
        before=math.fsum(old) / count if count else None,
        after=math.fsum(new) / count if count else None,
        labels=labels,
        rounding=_ROUNDING * max(map(abs, (*old, *new)), default=0.0),
        repeats=tuple(_directed(repeats[case], higher_is_better) for case in case_ids)
        if repeats
        else (),
    )


def _directed(scores: CaseScores, higher_is_better: bool) -> CaseScores:
    if higher_is_better:
        return scores
    now, before = (tuple(None if v is None else -v for v in values) for values in scores)
    return now, before


def _check_scores(
    baseline: Mapping[str, float | None], candidate: Mapping[str, float | None]
) -> None:
    problems = [
        Problem(
            path=name,
            field=case_id,
            message=f"the score is {score}: give None for a case that was not measured",
        )
        for name, scores in (("baseline", baseline), ("candidate", candidate))
        for case_id, score in scores.items()
        if score is not None and not (math.isfinite(score) and abs(score) <= LARGEST)
    ]
    if problems:
        raise DataError(problems)
