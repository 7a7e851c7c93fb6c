"""Two runs side by side: differences over the cases that both measured."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence

from ragbench.core.left_out import LEFT_OUT
from ragbench.core.record import Record, field, replace
from ragbench.errors import DataError, Problem
from ragbench.plugins import Floats, np
from ragbench.stats.mean import LARGEST, ClusterTotals, cluster_codes

_ROUNDING = 2.0**-50
"""Share of the largest score that rounding can move a difference by: a few last digits."""


Key = str | int | tuple[str, str]
"""Of a cluster: the only case of it, a code, or what its cases share."""
CaseScores = tuple[tuple[float | None, ...], tuple[float | None, ...]]
"""Scores of a case in the candidate and in the baseline, each in the order of its runs; None where
it was not measured. Larger is better."""


class PairedSample(Record, eq=False):
    """Paired differences of one metric between two runs, over the cases measured in both."""

    differences: Floats
    """Candidate minus baseline, a case; the sign is turned for metrics where lower is better, so
    a negative difference is always a loss."""
    clusters: Sequence[int]
    """Cluster code a case: equal codes mean that the cases are not independent."""
    ids: Sequence[str] = ()
    """Of all cases, in the order of the baseline, those that were not measured included."""
    labels: Sequence[str | None] = ()
    """What each of all cases shares with others, by which clusters of several samples are the
    same; None: nothing. Empty: the codes of ``clusters`` say it."""
    places: Sequence[int] = ()
    """The positions in ``ids`` of the cases that were measured, in the order of the differences."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """Cases that cannot be compared, by reason: one of `LEFT_OUT`."""
    before: float | None = None
    """The baseline's mean over the cases; None without any."""
    after: float | None = None
    """The candidate's."""
    rounding: float = 0.0
    """By how much rounding may have moved a difference: measured against the scores, since that
    of two equal losses can differ in the last digit."""
    repeats: tuple[CaseScores, ...] = ()
    """The scores behind each difference, where a case was scored more than once; else empty."""

    @property
    def case_ids(self) -> tuple[str, ...]:
        """The ids of the cases that both runs measured, in the order of the differences.

        By them a difference is shown with its case, or matched with labels.
        """
        return tuple(self.ids[place] for place in self.places)

    def key(self, position: int) -> Key:
        """A name for the cluster of a case that other samples of the same cases share.

        Tests of several metrics draw by it: what happens to a cluster happens in all of them.

        Args:
            position: of the case among those that were measured.
        """
        # Without ids the cluster's number is the name: such samples hold the same cases in one
        # order.
        if not self.ids:
            return self.clusters[position]
        place = self.places[position]
        if self.labels:
            label = self.labels[place]
            if label is not None:
                return ("cluster", label)
        return self.ids[place]

    @property
    def stands_alone(self) -> bool:
        """Whether every case of the sample is a cluster of its own, as most cases of most runs are.

        Where that is so, tests need no sums by cluster.
        """
        return isinstance(self.clusters, range) or len({*self.clusters}) == len(self.clusters)

    @property
    def gained(self) -> int:
        """How many cases became better, whatever the direction of the metric.

        A difference is turned for metrics where lower is better, so above 0 is always a gain.
        """
        return int((self.differences > 0).sum())

    @property
    def lost(self) -> int:
        """How many cases became worse, whatever the direction of the metric.

        A difference is turned for metrics where lower is better, so below 0 is always a loss.
        """
        return int((self.differences < 0).sum())

    def scores_by_case(self) -> tuple[CaseScores, ...]:
        """The scores behind each difference, by which the exchange test draws present runs.

        Of a case without repeats they are two numbers that differ by the difference.
        """
        if self.repeats:
            return self.repeats
        return tuple(((difference,), (0.0,)) for difference in self.differences.tolist())

    def totals(self) -> ClusterTotals:
        """The sample's differences summed up by cluster, as the tests of means take them.

        Cases of a cluster are not independent: a test of single differences would be too sure.
        """
        labels = None if self.stands_alone else self.clusters
        return ClusterTotals.of(self.differences.tolist(), labels, rounding=self.rounding)


def pair(
    baseline: Mapping[str, float | None],
    candidate: Mapping[str, float | None],
    *,
    clusters: Mapping[str, str | None] | None = None,
    higher_is_better: bool = True,
    repeats: Mapping[str, CaseScores] | None = None,
) -> PairedSample:
    """Pairs the scores of two runs by case, for a test of whether the candidate is worse.

    Paired differences are far less noisy than two means, because what makes a question hard is the
    same in both runs.

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
    ids = [id_ for id_ in baseline if id_ in candidate]
    labels: Sequence[str | None] = ()
    # In the order of the baseline, which all metrics share.
    if clusters is not None:
        labels = [clusters.get(id_) for id_ in ids]
    sample = paired_columns(
        np.array([baseline[id_] for id_ in ids], float),
        np.array([candidate[id_] for id_ in ids], float),
        ids=ids,
        labels=labels,
        higher_is_better=higher_is_better,
        repeats=(lambda place: repeats[ids[place]]) if repeats else None,
    )
    # What the columns cannot show: cases that only one of the runs has.
    left_out: dict[str, int] = {}
    # `LEFT_OUT` begins with the reasons for cases that one run lacks; see `paired_columns`.
    only_in_baseline, only_in_candidate = LEFT_OUT[:2]
    if len(baseline) > len(ids):
        left_out[only_in_baseline] = len(baseline) - len(ids)
    if len(candidate) > len(ids):
        left_out[only_in_candidate] = len(candidate) - len(ids)
    return replace(sample, left_out={**left_out, **sample.left_out})


def paired_columns(
    old: Floats,
    new: Floats,
    *,
    ids: Sequence[str],
    labels: Sequence[str | None] = (),
    higher_is_better: bool = True,
    repeats: Callable[[int], CaseScores] | None = None,
) -> PairedSample:
    """Pairs two runs' scores of the same cases in the same order; NaN where one was not measured.

    `pair` brings scores by case id into this form, and refuses those that are no numbers.

    Args:
        labels: what each case shares with others; empty: nothing.
        repeats: the scores of the case at a place, where cases were scored more than once.
    """
    old_lacks = np.isnan(old)
    new_lacks = np.isnan(new)
    is_paired = ~(old_lacks | new_lacks)
    left_out: dict[str, int] = {}
    # The last three of `LEFT_OUT`: measured only later, only before, or in neither run.
    not_before, not_now, in_neither = LEFT_OUT[2:]
    for reason, is_left_out in (
        (not_before, old_lacks & ~new_lacks),
        (not_now, new_lacks & ~old_lacks),
        (in_neither, old_lacks & new_lacks),
    ):
        if is_left_out.any():
            left_out[reason] = int(is_left_out.sum())

    places = np.flatnonzero(is_paired).tolist()
    count = len(places)
    old = old[is_paired]
    new = new[is_paired]
    before: float | None = None
    after: float | None = None
    rounding = 0.0
    if count:
        before = math.fsum(old.tolist()) / count
        after = math.fsum(new.tolist()) / count
        rounding = _ROUNDING * float(max(np.abs(old).max(), np.abs(new).max()))
    # Ranges where every case stands alone: of a million cases, tuples take tens of megabytes.
    clusters: Sequence[int] = range(count)
    if labels:
        clusters = cluster_codes([labels[place] for place in places])
    scores: list[CaseScores] = []
    if repeats is not None:
        scores = [_directed(repeats(place), higher_is_better) for place in places]
    # Turned, so that a negative difference is a loss for any metric.
    differences = new - old if higher_is_better else old - new
    # A range where every case was measured, which takes no memory, either.
    compact_places: Sequence[int]
    if count == len(ids):
        compact_places = range(count)
    else:
        compact_places = array("i", places)
    return PairedSample(
        differences=differences,
        clusters=clusters,
        ids=ids,
        labels=labels,
        places=compact_places,
        left_out=left_out,
        before=before,
        after=after,
        rounding=rounding,
        repeats=tuple(scores),
    )


def _directed(scores: CaseScores, higher_is_better: bool) -> CaseScores:
    """The scores of a case in two runs, negated where lower is better, so that larger is better.

    All tests look for losses, which are then below zero for any metric.
    """
    if higher_is_better:
        return scores
    candidate_scores, baseline_scores = scores
    return _negated(candidate_scores), _negated(baseline_scores)


def _negated(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """A case's scores with their signs turned; None, for a run that did not measure it, stays.

    With turned signs, a metric where lower is better is tested like any other.
    """
    return tuple(None if value is None else -value for value in values)


def _check_scores(
    baseline: Mapping[str, float | None], candidate: Mapping[str, float | None]
) -> None:
    """Refuses NaN, infinite and too large scores of two runs, all of them in one error.

    Raises:
        DataError: there are such scores; each is named by its run and its case.
    """
    problems: list[Problem] = []
    for name, scores in (("baseline", baseline), ("candidate", candidate)):
        for case_id, score in scores.items():
            if score is None or (math.isfinite(score) and abs(score) <= LARGEST):
                continue
            message = f"the score is {score}: give None for a case that was not measured"
            problems.append(Problem(path=name, field=case_id, message=message))
    if problems:
        raise DataError(problems)
