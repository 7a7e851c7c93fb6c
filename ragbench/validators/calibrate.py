"""Brings a validator's probabilities and thresholds in line with a user's own labels."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from ragbench.core.record import Record, replace
from ragbench.core.validation import Verdict
from ragbench.errors import InputError
from ragbench.plugins import np
from ragbench.stats.logistic import logistic_fit, platt_targets
from ragbench.stats.mean import proportion_interval
from ragbench.validators.calibration import (
    Calibration,
    DecisionRule,
    PlattScale,
    Thresholds,
    logistic,
    logit,
)

_FEWEST = 10
"""Labels of either kind below which nothing can be learned."""
_FOLDS = 5
_EDGE = 1e-6
_RIDGE = (25.0, 1.0)
"""How much slope and offset are held near doing nothing: few labels move only the offset."""
_TARGET = 0.98
_MANY = 200
"""Labels below which a threshold moves only if that is shown to make more verdicts right."""
_LEAST_SLOPE = 0.01
_BAND = math.log(4)
"""A chunk is relevant at the latest from a quarter of the odds of an answer: so much is Partial."""
_PRECISIONS = (0.98, 0.95, 0.9, 0.8)
_ERRORS = (0.01, 0.02, 0.05, 0.1)


class Labelled(Record, kw_only=False):
    verdict: Verdict
    answer_present: bool
    relevant_chunk_ids: frozenset[str] | None = None
    """The chunks that hold an answer; None where that was not judged."""


class Quality(Record):
    precision: float | None
    precision_interval: tuple[float, float]
    """95 %, exact (Clopper and Pearson)."""
    recall: float | None
    recall_interval: tuple[float, float]
    calibration_error: float
    """Expected calibration error in ten bins of equal width; Guo et al. 2017."""
    called: int
    positive: int
    count: int


class Tradeoff(Record):
    target: float
    """A precision; or, with a guaranteed error, that error."""
    quality: Quality


class CalibrationReport(Record):
    calibration: Calibration
    answer_before: Quality
    answer_after: Quality
    """Measured on labels that the figures' own fold was not learned from (five folds)."""
    chunk_before: Quality | None
    """None without labels of chunks."""
    chunk_after: Quality | None
    tradeoffs: tuple[Tradeoff, ...]
    """What other targets would keep, the strictest first; cross-validated, too."""
    error: float | None
    """The guaranteed share of false Yes among queries without the answer; None where a precision
    was asked for."""
    notes: tuple[str, ...]
    is_better: bool
    """Whether cross-validation shows that it is better than what ships; else it is not to be
    used."""


class _Scored(NamedTuple):
    probability: float
    called: bool
    positive: bool


class _Query(NamedTuple):
    answer: _Scored
    chunks: Sequence[_Scored]


class _Aim(Record):
    shipped: Thresholds
    precision: float
    error: float | None
    has_chunks: bool
    """Whether chunks have labels enough."""
    moves: bool
    """Whether the threshold is learned; else what ships moves along with the scale."""


def calibrate(
    labelled: Sequence[Labelled],
    validator: str,
    *,
    precision: float | None = None,
    error: float | None = None,
    seed: int = 7,
    shipped: Thresholds,
) -> CalibrationReport:
    """Learns a Platt scale and, where the labels show the need, thresholds.

    One scale holds for answers and chunks: the probability of an answer is that of its best chunk.
    It shrinks toward what ships, and by itself changes no Yes: the shipped thresholds move along.
    They move further where the 95 % interval of the precision they have on the labels does not hold
    the target, and a threshold that is learned comes nearer to it in cross-validation; where no
    precision is asked for (then it is 98 %), only if it costs no F1, and with few labels only if
    more verdicts become right than wrong beyond chance. With ``error`` the threshold is the
    conformal one: of queries without the answer at most that share is called Yes, on average over
    sets of labels like these (split conformal prediction; Vovk et al. 2005, Angelopoulos and Bates
    2023). Figures "after" come from five-fold cross-validation over queries, so that they hold for
    queries that were not learned from.

    Args:
        shipped: the thresholds of the verdicts.
    """
    _check(labelled, precision, error)
    queries = [_scored(one) for one in labelled]
    before = [row for one in queries for row in one.chunks]
    relevant = sum(row.positive for row in before)
    has_chunks = min(relevant, len(before) - relevant) >= _FEWEST
    asked, many = precision is not None, len(queries) >= _MANY
    aim = _Aim(
        shipped=shipped,
        precision=_TARGET if precision is None else precision,
        error=error,
        has_chunks=has_chunks,
        moves=error is not None,
    )
    told = [one.answer for one in queries]
    crossed = _crossed(queries, aim, seed)
    is_better, notes = True, list[str]()
    if error is None:
        moving = replace(aim, moves=True)
        moved = _crossed(queries, moving, seed)
        reaches = _reaches_more(_quality(told), _quality(moved[0]), aim.precision, costs=asked)
        if reaches and (many or _decides_better(told, moved[0])):
            aim, crossed = moving, moved
        else:
            is_better, notes = _is_better(told, crossed[0])
    learned, (answers, chunks) = _learn(queries, aim), crossed
    after = _quality(answers)
    notes += _notes(after, aim, before)
    return CalibrationReport(
        calibration=Calibration(
            validator=validator,
            scale=learned.scale,
            thresholds=learned.thresholds,
            labels=len(queries),
        ),
        answer_before=_quality(told),
        answer_after=after,
        chunk_before=_quality(before) if has_chunks else None,
        chunk_after=_quality(chunks) if has_chunks else None,
        tradeoffs=tuple(_tradeoffs(queries, aim, seed)),
        error=error,
        notes=tuple(notes),
        is_better=is_better,
    )


def _check(labelled: Sequence[Labelled], precision: float | None, error: float | None) -> None:
    for name, share in (("error", error), ("precision", precision)):
        if share is not None and not 0 < share < 1:
            raise InputError(f"the {name} must lie between 0 and 1, not {share:g}")
    positive = sum(one.answer_present for one in labelled)
    if min(positive, len(labelled) - positive) < _FEWEST:
        raise InputError(
            f"{positive} labels mark the answer as present, {len(labelled) - positive} as "
            f"absent: at least {_FEWEST} of either kind, with verdicts, are needed"
        )


def _tradeoffs(queries: Sequence[_Query], aim: _Aim, seed: int) -> Iterator[Tradeoff]:
    """What other targets would keep: a 98 % that costs nearly every Yes is seen at once."""
    plain = replace(aim, has_chunks=False, moves=True)
    for target in _PRECISIONS if aim.error is None else _ERRORS:
        error = None if aim.error is None else target
        crossed = _crossed(queries, replace(plain, precision=target, error=error), seed)
        yield Tradeoff(target=target, quality=_quality(crossed[0]))


def _reaches_more(before: Quality, after: Quality, precision: float, *, costs: bool) -> bool:
    """Whether labels show that the target is missed, and that a learned threshold is nearer."""
    low, high = before.precision_interval
    if before.precision is None or after.precision is None or low <= precision <= high:
        return False
    nearer = abs(after.precision - precision) < abs(before.precision - precision)
    return nearer and (costs or _f1(after) >= _f1(before))


def _decides_better(before: Sequence[_Scored], after: Sequence[_Scored]) -> bool:
    """Whether more queries become right than wrong, beyond chance (McNemar 1947, 5 %)."""
    right = [[row.called == row.positive for row in rows] for rows in (before, after)]
    changes = [int(now) - int(then) for then, now in zip(*right, strict=True)]
    return sum(changes) > 1.645 * math.sqrt(sum(map(abs, changes)))


def _f1(quality: Quality) -> float:
    hits = (quality.recall or 0.0) * quality.positive
    return 2 * hits / max(1, quality.called + quality.positive)


def _is_better(before: Sequence[_Scored], after: Sequence[_Scored]) -> tuple[bool, list[str]]:
    """Whether probabilities that were not learned from are nearer to the labels, and what is said.

    By the difference of Brier scores, query by query: shown where it is above its standard error.
    """
    brier = [[(row.probability - row.positive) ** 2 for row in rows] for rows in (before, after)]
    gains = [one - other for one, other in zip(*brier, strict=True)]
    mean, count = fmean(gains), len(gains)
    error = stdev(gains) / math.sqrt(count)
    if mean > error:
        return True, []
    note = "not shown to be better than what ships: do not use it"
    if mean <= 0:
        return False, [note]
    return False, [f"{note}. About {math.ceil(count * (error / mean) ** 2):,} labels would do"]


def _scored(one: Labelled) -> _Query:
    verdict, relevant = one.verdict, one.relevant_chunk_ids
    answer = _Scored(verdict.answer_probability, verdict.answer_present, one.answer_present)
    if relevant is None:
        return _Query(answer, [])
    called = verdict.relevant_chunk_ids
    chunks = [_Scored(p, id_ in called, id_ in relevant) for id_, p in verdict.relevance.items()]
    return _Query(answer, chunks)


def _learn(queries: Sequence[_Query], aim: _Aim) -> DecisionRule:
    answers = [one.answer for one in queries]
    scale, shipped = _platt(answers), aim.shipped
    if not aim.moves:
        kept = [_inside(scale.apply(one)) for one in (shipped.relevant, shipped.present)]
        limits = Thresholds(relevant=min(kept), present=max(kept))
        return DecisionRule(scale=scale, thresholds=limits)
    scaled = _on(scale, answers)
    # The smallest threshold whose precision reaches what is asked; above all if none does.
    reached = (step[0] for step in _steps(scaled) if step[2] >= aim.precision * step[1])
    error = aim.error
    present = _inside(min(reached, default=1.0) if error is None else _conformal(scaled, error))
    relevant = logistic(logit(present) - _BAND)
    if aim.has_chunks:
        chunks = _on(scale, [row for one in queries for row in one.chunks])
        positive = sum(row.positive for row in chunks)
        # The threshold of the best F1.
        best = max(_steps(chunks), key=lambda step: 2 * step[2] / max(1, step[1] + positive))
        relevant = min(relevant, best[0])
    limits = Thresholds(relevant=_inside(relevant), present=present)
    return DecisionRule(scale=scale, thresholds=limits)


def _on(scale: PlattScale, rows: Sequence[_Scored], floor: float = 0.0) -> list[_Scored]:
    scaled = [(scale.apply(row.probability), row.positive) for row in rows]
    return [_Scored(one, one >= floor, positive) for one, positive in scaled]


def _crossed(
    queries: Sequence[_Query], aim: _Aim, seed: int
) -> tuple[list[_Scored], list[_Scored]]:
    """Answers and chunks as calibrations learned on the other folds have them."""
    order = list(range(len(queries)))
    random.Random(seed).shuffle(order)
    answers: dict[int, _Scored] = {}
    chunks: list[_Scored] = []
    for fold in range(_FOLDS):
        own = frozenset(order[fold::_FOLDS])
        rule = _learn([one for at, one in enumerate(queries) if at not in own], aim)
        scale, limits = rule.scale, rule.thresholds
        for at in sorted(own):
            [answers[at]] = _on(scale, [queries[at].answer], limits.present)
            # Where the answer is present, only chunks that reach it are relevant.
            floor = limits.present if answers[at].called else limits.relevant
            chunks += _on(scale, queries[at].chunks, floor)
    return [answers[at] for at in range(len(queries))], chunks


def expected_calibration_error(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """The mean gap between probability and share of positives, over ten bins of equal width.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks". 0 for no rows.
    """
    rows = reliability(probabilities, labels)
    gaps = sum(count * abs(mean - seen) for mean, seen, count in rows)
    return gaps / max(1, len(probabilities))


def reliability(
    probabilities: Sequence[float], labels: Sequence[bool]
) -> list[tuple[float, float, int]]:
    """A reliability diagram: for each bin with rows its mean probability, share of positives, rows.

    Ten bins of equal width, lowest first.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(10)]
    for probability, label in zip(probabilities, labels, strict=True):
        bins[min(9, int(probability * 10))].append((probability, label))
    columns = [(*zip(*rows, strict=True),) for rows in bins if rows]
    return [(fmean(told), fmean(labels), len(labels)) for told, labels in columns]


def _conformal(rows: Sequence[_Scored], error: float) -> float:
    """The threshold that at most a share ``error`` of queries without the answer reaches.

    Of n such scores, and one more that is drawn like them, the new one lies above the k-th highest
    with a chance of at most k / (n + 1). With too few of them nothing is called Yes.
    """
    scores = sorted((row.probability for row in rows if not row.positive), reverse=True)
    allowed = math.floor(error * (len(scores) + 1))
    if allowed < 1:
        return 1.0
    return math.nextafter(scores[allowed - 1], 2.0)


def _platt(rows: Sequence[_Scored]) -> PlattScale:
    """Platt 1999, drawn to the probabilities as they are.

    A slope is never below a small one: labels that run against the probabilities are left to the
    offset.
    """
    kept = np.clip([row.probability for row in rows], _EDGE, 1 - _EDGE)
    positive = sum(row.positive for row in rows)
    high, low = platt_targets(positive, len(rows) - positive)
    slope, offset = logistic_fit(
        np.log(kept / (1 - kept)),
        np.array([high if row.positive else low for row in rows]),
        np.ones(len(rows)),
        start=(1.0, 0.0),
        ridge=_RIDGE,
        longest=2.0,
    )
    return PlattScale(slope=round(max(_LEAST_SLOPE, slope), 6), offset=round(offset, 6))


def _steps(rows: Sequence[_Scored]) -> list[tuple[float, int, int]]:
    """Each distinct probability, highest first, with how many reach it and how many rightly."""
    ranked = sorted(rows, key=lambda row: -row.probability)
    found: list[tuple[float, int, int]] = []
    hits = 0
    for called, row in enumerate(ranked, start=1):
        hits += row.positive
        if called == len(ranked) or ranked[called].probability != row.probability:
            found.append((row.probability, called, hits))
    return found


def _inside(threshold: float) -> float:
    return min(max(threshold, _EDGE), 1 - _EDGE)


def _quality(rows: Sequence[_Scored]) -> Quality:
    called = sum(row.called for row in rows)
    positive = sum(row.positive for row in rows)
    hits = sum(row.called and row.positive for row in rows)
    return Quality(
        precision=hits / called if called else None,
        precision_interval=proportion_interval(hits, called),
        recall=hits / positive if positive else None,
        recall_interval=proportion_interval(hits, positive),
        calibration_error=expected_calibration_error(
            [row.probability for row in rows], [row.positive for row in rows]
        ),
        called=called,
        positive=positive,
        count=len(rows),
    )


def _notes(after: Quality, aim: _Aim, chunks: Sequence[_Scored]) -> Iterator[str]:
    precision, error = aim.precision, aim.error
    low, absent = after.precision_interval[0], after.count - after.positive
    if error is None and low < precision:
        yield (
            f"the precision may lie below {precision:.0%}: its 95 % interval begins at {low:.0%}. "
            "More labels narrow it"
        )
    if error is not None and math.floor(error * (absent + 1)) < 1:
        yield (
            f"{absent} labels without the answer cannot guarantee {error:.1%}: at least "
            f"{math.ceil(1 / error) - 1} are needed, and until then nothing is called Yes"
        )
    if chunks and not aim.has_chunks:
        relevant = sum(row.positive for row in chunks)
        yield (
            f"labels of chunks: {relevant} relevant, {len(chunks) - relevant} not. At least "
            f"{_FEWEST} of either kind are needed: the threshold of a chunk is not learned"
        )
