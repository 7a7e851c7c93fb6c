"""Rank metrics, each as trec_eval has it.

A place is a document's where documents are what is relevant, else a chunk's; see
`ragbench.metrics.matching`.

What trec_eval does not have, a chunk that holds several gold contexts and several chunks that hold
the same one, is in `Ranking`: precision, hit rate and MRR ask whether a chunk is relevant, nDCG and
MAP what it brings that is new, recall which gold contexts were found.

A case with judgements, none of which is of a high enough grade, counts 0 in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from ragbench.core.matched import Matched
from ragbench.core.metric import Skip
from ragbench.core.record import Record
from ragbench.metrics.metric import AtLeast, metric

_MANNING = "Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, ch. 8"
_VERSION = 2
"""2: a case without a document of a high enough grade counts 0; some metrics skipped it."""
_HIGHEST = 15
"""The highest grade of nDCG(dcg=exp-log2), whose gain is 32,767."""

Level = Annotated[int, AtLeast(1), "smallest grade that counts as relevant (inclusive)"]
JudgedOnly = Annotated[bool, "leave out chunks without a judgement"]


class Ranking(Record, kw_only=False, eq=False):
    """What a case retrieved, as far as it matters for rank metrics: grades in the place of chunks.

    Equal rankings are one object, as far as they are remembered, so that a metric computes each
    ranking once.

    In most cases each chunk is at most one of the gold contexts, and no two are the same one. Else
    (a chunk holds two gold contexts, two chunks hold the same one) ``grades`` and ``gains`` differ:
    what is relevant by itself is not always something new. Metrics of gain read ``gains`` and
    ``ideal``, so that no ranking can gain more than the ideal one.
    """

    grades: tuple[int, ...]
    """The grade of each retrieved chunk, best first, the highest where it holds several gold
    contexts; `UNJUDGED` where it is none of those that are known. Of a repeated id, or
    text where texts are compared, only the first place is kept; of a document, where documents are
    relevant, only its best chunk's."""
    golds: tuple[int, ...]
    """The grades of all gold contexts, highest first; at least one."""
    gains: tuple[int, ...]
    """The summed grades of the gold contexts that no chunk before it held; `UNJUDGED` where it
    brings none."""
    ideal: tuple[int, ...]
    """The gains of the best order, highest first."""
    ranks: tuple[tuple[int, int], ...] | None = None
    """The grade of each gold context that some chunk holds, with the rank of the first one that
    does, from 1; None where that can be seen from ``grades``."""

    def relevant(self, level: int = 1) -> int:
        """How many gold contexts of the case have a grade of ``level`` or more, retrieved or not.

        The figure that recall and average precision divide by.
        """
        return len([grade for grade in self.golds if grade >= level])

    def judged(self) -> Ranking:
        """The same ranking without the chunks whose relevance is not known.

        Where few chunks were judged, an unjudged one may be relevant: metrics with ``judged_only``
        leave it out in place of counting it as wrong. As in trec_eval, a grade below 0 counts as
        none.
        """
        grades = tuple([grade for grade in self.grades if grade >= 0])
        if self.ranks is None:
            return Ranking(grades, self.golds, grades, self.ideal)
        gains: list[int] = []
        new_ranks: dict[int, int] = {}  # each new rank by the rank so far
        for rank, grade in enumerate(self.grades, 1):
            if grade >= 0:
                # A chunk that repeats a gold context brings nothing, and keeps its place.
                gains.append(self.gains[rank - 1])
                new_ranks[rank] = len(gains)
        ranks: list[tuple[int, int]] = []
        for grade, rank in self.ranks:
            if rank in new_ranks:
                ranks.append((grade, new_ranks[rank]))
        return Ranking(grades, self.golds, tuple(gains), self.ideal, tuple(ranks))


UNJUDGED = -(1 << 31)
"""In the place of a grade: the chunk is none of those whose relevance is known."""


@lru_cache(maxsize=8192)
def _regular_ranking(grades: tuple[int, ...], golds: tuple[int, ...]) -> Ranking:
    """A ranking in which each chunk is one gold context at most, and none twice.

    Remembered, so that equal rankings are one object and each metric computes it once.
    """
    return Ranking(grades, golds, grades, golds)


@lru_cache(maxsize=8192)
def _ranking_of_slots(slots: tuple[tuple[int, ...], ...], grades: tuple[int, ...]) -> Ranking:
    """The ranking of chunks each of which holds gold contexts: none, one, several, repeated ones.

    A slot is a place of the ranking. `Ranking` says how a chunk with several gold contexts counts;
    a change of that needs a higher `_VERSION`.

    Args:
        slots: for each place the gold contexts in its chunk, as positions in ``grades``.
        grades: of all gold contexts.
    """
    first_ranks: dict[int, int] = {}  # of each gold context, the rank of the first chunk with it
    gains: list[int] = []
    chunk_grades: list[int] = []
    is_regular = True
    for rank, slot in enumerate(slots, 1):
        new_golds = [gold for gold in slot if gold not in first_ranks]
        # A chunk with two gold contexts, or with one that an earlier chunk held.
        if len(slot) > 1 or len(new_golds) < len(slot):
            is_regular = False
        gain = UNJUDGED
        if new_golds:
            gain = sum([grades[gold] for gold in new_golds])
        gains.append(gain)
        chunk_grades.append(max([grades[gold] for gold in slot], default=UNJUDGED))
        first_ranks.update(dict.fromkeys(new_golds, rank))
    golds = tuple(sorted(grades, reverse=True))
    if is_regular:
        return _regular_ranking(tuple(chunk_grades), golds)
    # No ranking gains more than these chunks, best first, and each gold context that none of them
    # holds.
    ideal = [gain for gain in gains if gain != UNJUDGED]
    for gold, grade in enumerate(grades):
        if gold not in first_ranks:
            ideal.append(grade)
    ideal.sort(reverse=True)
    ranks = [(grades[gold], rank) for gold, rank in first_ranks.items()]
    return Ranking(tuple(chunk_grades), golds, tuple(gains), tuple(ideal), tuple(ranks))


def ranking_of(matched: Matched) -> Ranking:
    """The ranking of a retrieval that was compared with what is relevant, as rank metrics read it.

    Repeated chunks have no place, so that the places behind them move up.
    """
    # For each place the gold contexts that its chunk holds, mostly none.
    slots: list[tuple[int, ...]] = [()] * matched.chunks
    for match in matched.matches:
        slots[match.rank - 1] += (match.gold,)
    # Repeated chunks are taken out only now: the ranks of the matches count them.
    if matched.repeated:
        dropped = set(matched.repeated)
        slots = [slot for rank, slot in enumerate(slots, 1) if rank not in dropped]
    return _ranking_of_slots(tuple(slots), matched.grades)


@metric(group="retriever", cutoff="k", aliases=("R",), cite=_MANNING, version=_VERSION)
def recall(ranking: Ranking, *, k: int, rel: Level = 1, judged_only: JudgedOnly = False) -> float:
    """Share of the relevant contexts that are among the first k retrieved.

    The figure must be trec_eval's: a test compares both. A change of its values needs a higher
    `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    relevant = ranking.relevant(rel)
    if not relevant:
        return 0.0
    grades: Sequence[int] = ranking.grades[:k]
    # Where a chunk holds several gold contexts, each of them counts.
    if ranking.ranks is not None:
        grades = [grade for grade, rank in ranking.ranks if rank <= k]
    retrieved = len([grade for grade in grades if grade >= rel])
    return retrieved / relevant


@metric(group="retriever", cutoff="k", aliases=("P",), cite=_MANNING, version=_VERSION)
def precision(
    ranking: Ranking, *, k: int, rel: Level = 1, judged_only: JudgedOnly = False
) -> float:
    """Share of the first k places that hold a relevant chunk; missing places count.

    The figure must be trec_eval's, and a test compares both: k is the divisor even where fewer were
    retrieved. A change of its values needs a higher `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    relevant = len([grade for grade in ranking.grades[:k] if grade >= rel])
    return relevant / k


@metric(group="retriever", cutoff="k", aliases=("Success", "hit"), cite=_MANNING, version=_VERSION)
def hit_rate(ranking: Ranking, *, k: int, rel: Level = 1, judged_only: JudgedOnly = False) -> float:
    """1 when a relevant chunk is among the first k, else 0.

    For systems whose answer needs one relevant chunk. A change of its values needs a higher
    `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    highest = max(ranking.grades[:k], default=UNJUDGED)
    return 1.0 if highest >= rel else 0.0


@metric(
    name="MRR",
    group="retriever",
    cutoff="k",
    aliases=("RR",),
    cite="Kantor and Voorhees 2000, The TREC-5 Confusion Track",
    version=_VERSION,
)
def reciprocal_rank(
    ranking: Ranking, *, k: int | None = None, rel: Level = 1, judged_only: JudgedOnly = False
) -> float:
    """1 / rank of the first relevant chunk, 0 when there is none.

    How far a reader goes down to the first relevant chunk. A change of its values needs a higher
    `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    # The cutoff before the search: a relevant chunk below k is not seen.
    for rank, grade in enumerate(ranking.grades[:k], 1):
        if grade >= rel:
            return 1 / rank
    return 0.0


@metric(
    name="MAP",
    group="retriever",
    cutoff="k",
    aliases=("AP",),
    cite="Harman 1992, Evaluation Issues in Information Retrieval",
    version=_VERSION,
)
def average_precision(
    ranking: Ranking, *, k: int | None = None, rel: Level = 1, judged_only: JudgedOnly = False
) -> float:
    """Mean of the precision at each relevant context's rank, 0 for those not retrieved.

    A relevant context counts by how much above it is relevant, too. A chunk that repeats a gold
    context brings nothing (`Ranking.gains`). A change of its values needs a higher `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    # Without a relevant context there is nothing to divide by: such a case counts 0.
    if not ranking.relevant(rel):
        return 0.0
    relevant = 0
    precisions = 0.0
    # The cutoff is of the ranking alone: the divisor stays all relevant contexts, as at TREC.
    for rank, gain in enumerate(ranking.gains[:k], 1):
        if gain >= rel:
            relevant += 1
            precisions += relevant / rank
    all_relevant = len([gain for gain in ranking.ideal if gain >= rel])
    return precisions / all_relevant


@metric(
    name="nDCG",
    group="retriever",
    cutoff="k",
    cite="Järvelin and Kekäläinen 2002, Cumulated Gain-based Evaluation of IR Techniques",
    version=_VERSION,
)
def ndcg(
    ranking: Ranking,
    *,
    k: int | None = None,
    dcg: Annotated[Literal["log2", "exp-log2"], "gain of a grade g: g itself, or 2^g - 1"] = "log2",
    judged_only: JudgedOnly = False,
) -> float:
    """Gain by grade, discounted by the logarithm of the rank, against the best order.

    The one rank metric that tells grades of relevance apart. A change of its values needs a higher
    `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    if not ranking.relevant():
        return 0.0
    gains: Sequence[int] = ranking.gains[:k]
    ideal: Sequence[int] = ranking.ideal[:k]
    if dcg == "exp-log2":
        # The golds begin with the highest grade.
        highest = ranking.golds[0]
        if highest > _HIGHEST:
            raise ValueError(f"2^{highest} is too much gain: use grades up to {_HIGHEST}")
        # A grade below 0 brings no gain, and no loss.
        gains = [2 ** max(grade, 0) - 1 for grade in gains]
        ideal = [2 ** max(grade, 0) - 1 for grade in ideal]
    return _discounted_gain(gains) / _discounted_gain(ideal)


def _discounted_gain(gains: Sequence[int]) -> float:
    """The discounted cumulated gain of a ranking: the sum of gain / log2(rank + 1).

    Gains of 0 or less, of chunks that are not relevant or not judged, bring nothing.

    Args:
        gains: by rank, best first.
    """
    total = 0.0
    # In a loop, since sum() adds up in another way from Python 3.12 on: figures would differ.
    for rank, gain in enumerate(gains, 1):
        if gain > 0:
            total += gain / math.log2(rank + 1)
    return total


@metric(
    name="Judged",
    group="retriever",
    cutoff="k",
    direction="neither",
    cite="MacAvaney et al. 2022, Streamlining Evaluation with ir-measures",
)
def judged_share(ranking: Ranking, *, k: int | None = None) -> float | Skip:
    """Share of the first k chunks with a judgement: how far to trust the rest.

    Low where many retrieved chunks were never judged: other metrics count them as not relevant.
    Stored scores of runs are compared by ``version``: raise it in the decorator with a change of
    values.
    """
    grades = ranking.grades[:k]
    if not grades:
        return Skip("nothing was retrieved")
    # Grade 0 is a judgement as well; only `UNJUDGED` is none.
    judged = len(grades) - grades.count(UNJUDGED)
    return judged / len(grades)


@metric(group="retriever", aliases=("SetP",), cite=_MANNING, version=_VERSION)
def set_precision(ranking: Ranking, *, rel: Level = 1, judged_only: JudgedOnly = False) -> float:
    """Share of all retrieved chunks that are relevant.

    For a retrieval without a fixed length, whose order does not matter. A change of its values
    needs a higher `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    return precision(ranking, k=max(len(ranking.grades), 1), rel=rel)


@metric(group="retriever", aliases=("SetR",), cite=_MANNING, version=_VERSION)
def set_recall(ranking: Ranking, *, rel: Level = 1) -> float:
    """Share of the relevant contexts that were retrieved at any rank.

    For a retrieval without a fixed length, whose order does not matter. A change of its values
    needs a higher `_VERSION`.
    """
    return recall(ranking, k=len(ranking.grades), rel=rel)


@metric(group="retriever", aliases=("SetF",), cite=_MANNING, version=_VERSION)
def set_f1(ranking: Ranking, *, rel: Level = 1, judged_only: JudgedOnly = False) -> float:
    """Harmonic mean of set_precision and set_recall.

    For a retrieval without a fixed length, whose order does not matter. A change of its values
    needs a higher `_VERSION`.
    """
    if judged_only:
        ranking = ranking.judged()
    precision = set_precision(ranking, rel=rel)
    recall = set_recall(ranking, rel=rel)
    # Without recall there is no relevant chunk, and precision is 0 as well.
    if not recall:
        return 0.0
    return 2 * precision * recall / (precision + recall)
