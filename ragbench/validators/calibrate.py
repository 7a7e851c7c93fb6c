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

_FEWEST = 5
"""Labels of either kind below which nothing can be learned."""
_FOLDS = 5
"""Parts of the labels; each is measured by what the others teach."""
_EDGE = 1e-6
"""How near a probability comes to 0 and 1, which have no logit."""
_RIDGE = (25.0, 1.0)
"""How strongly slope and offset are held at 1 and 0, where nothing moves: few labels move only the
offset."""
_TARGET = 0.98
"""The precision where none is asked for."""
_MANY = 200
"""Labels below which a threshold moves only if that is shown to make more verdicts right."""
_LEAST_SLOPE = 0.01
"""Above 0: a scale may not turn the order of the probabilities around."""
_BAND = math.log(4)
"""A chunk is relevant at the latest from a quarter of the odds of an answer: so much is Partial."""
_PRECISIONS = (0.98, 0.95, 0.9, 0.8)
"""Targets of which a report shows the precision and recall, the strictest first."""
_ERRORS = (0.01, 0.02, 0.05, 0.1)
"""The targets that are shown where an error is guaranteed: the largest share of false Yes."""


class Labelled(Record, kw_only=False):
    """A verdict beside what people say of the same query."""

    verdict: Verdict
    answer_present: bool
    relevant_chunk_ids: frozenset[str] | None = None
    """The chunks that hold an answer; None where that was not judged."""


class Quality(Record):
    """How good probabilities and their threshold are on labelled rows."""

    precision: float | None
    precision_interval: tuple[float, float]
    """95 %, exact (Clopper and Pearson)."""
    recall: float | None
    recall_interval: tuple[float, float]
    calibration_error: float
    """Expected calibration error in ten bins of equal width; Guo et al. 2017."""
    called: int
    """Rows whose probability reached its threshold."""
    positive: int
    """Rows whose label says yes."""
    count: int


class Tradeoff(Record):
    """What a target would keep."""

    target: float
    """A precision; or, with a guaranteed error, that error."""
    quality: Quality


class CalibrationReport(Record):
    """A calibration with figures from before and after it."""

    calibration: Calibration
    answer_before: Quality
    answer_after: Quality
    """Measured on labels that the figures' own fold was not learned from (five folds)."""
    chunk_before: Quality | None
    """None without labels of chunks."""
    chunk_after: Quality | None
    tradeoffs: tuple[Tradeoff, ...]
    """What each of a few usual targets would keep, the strictest first; cross-validated, too."""
    error: float | None
    """The guaranteed share of false Yes among queries without the answer; None where a precision
    was asked for."""
    notes: tuple[str, ...]
    is_better: bool
    """Whether cross-validation shows that it is better than the shipped one; else do not use it."""


class _Scored(NamedTuple):
    """A probability beside its label."""

    probability: float
    called: bool
    """Whether the probability reached its threshold."""
    positive: bool
    """The label."""


class _Query(NamedTuple):
    """The probabilities of one query beside their labels."""

    answer: _Scored
    chunks: Sequence[_Scored]
    """Empty where they were not judged."""


class _Aim(Record):
    """What a calibration is to reach, and what it may learn."""

    shipped: Thresholds
    precision: float
    error: float | None
    has_chunks: bool
    """Whether chunks have labels enough."""
    moves: bool
    """Whether the threshold is learned; else it stays, and the scale moves what reaches it."""


def calibrate(
    labelled: Sequence[Labelled],
    validator: str,
    *,
    precision: float | None = None,
    error: float | None = None,
    seed: int = 7,
    shipped: Thresholds,
    model: str = "",
) -> CalibrationReport:
    """Learns from labels a scale for a validator's probabilities and, where needed, thresholds.

    The Platt scale holds for answers and chunks: the probability of an answer is that of its best
    chunk. The scale shrinks toward the shipped one. The thresholds stay, so that a Yes and each
    word keep their worth, and more or fewer queries reach them. Thresholds move where the 95 %
    interval of the precision of a Yes does not hold the target, and a threshold that is learned
    comes nearer to the target in cross-validation; where no precision is asked for (then the target
    is 98 %), only if the move costs no F1, and with few labels only if more verdicts become right
    than wrong beyond chance. With ``error``
    the threshold is the conformal one: of queries without the answer at most that share is called
    Yes, on average over sets of labels like these (split conformal prediction; Vovk et al. 2005,
    Angelopoulos and Bates 2023). Figures "after" come from five-fold cross-validation over queries,
    so that they hold for queries that were not learned from.

    Args:
        shipped: the thresholds of the verdicts.
        model: the digest of the model behind them.
    """
    _check_labels(labelled, precision, error)
    queries = [_scored_query(label) for label in labelled]
    answers_before = [query.answer for query in queries]
    chunks_before = _chunks_of(queries)
    relevant = sum(row.positive for row in chunks_before)
    not_relevant = len(chunks_before) - relevant
    # Relevant and other chunks: with labels of one kind alone any threshold would look right.
    has_chunks = min(relevant, not_relevant) >= _FEWEST
    target = _TARGET
    if precision is not None:
        target = precision
    aim = _Aim(
        shipped=shipped,
        precision=target,
        error=error,
        has_chunks=has_chunks,
        # A guaranteed error is a threshold of its own: it always moves.
        moves=error is not None,
    )
    before = _quality(answers_before)
    # First with the shipped thresholds, where no error is guaranteed.
    answers_after, chunks_after = _cross_validated(queries, aim, seed)
    is_better = True
    notes: list[str] = []
    if error is None:
        # The thresholds stay but where moving them is shown to bring the target nearer.
        moving_aim = replace(aim, moves=True)
        answers_moved, chunks_moved = _cross_validated(queries, moving_aim, seed)
        moved = _quality(answers_moved)
        moves = _reaches_more(before, moved, aim.precision, costs=precision is not None)
        # Of few labels a better precision alone may be chance.
        if moves and len(queries) < _MANY:
            moves = _decides_better(answers_before, answers_moved)
        if moves:
            aim = moving_aim
            answers_after = answers_moved
            chunks_after = chunks_moved
        else:
            # A scale alone must show that it helps; a threshold that moves has shown it already.
            is_better, notes = _is_better(answers_before, answers_after)
    # The final rule is learned from all labels: cross-validation has only measured how well such a
    # rule does.
    learned = _learned_rule(queries, aim)
    after = _quality(answers_after)
    notes += _notes_on_calibration(after, aim, chunks_before)
    chunk_before: Quality | None = None
    chunk_after: Quality | None = None
    if has_chunks:
        chunk_before = _quality(chunks_before)
        chunk_after = _quality(chunks_after)
    return CalibrationReport(
        calibration=Calibration(
            validator=validator,
            scale=learned.scale,
            thresholds=learned.thresholds,
            labels=len(queries),
            model=model,
        ),
        answer_before=before,
        answer_after=after,
        chunk_before=chunk_before,
        chunk_after=chunk_after,
        tradeoffs=tuple(_tradeoffs(queries, aim, seed)),
        error=error,
        notes=tuple(notes),
        is_better=is_better,
    )


def _chunks_of(queries: Sequence[_Query]) -> list[_Scored]:
    """The labelled chunks of all queries in one list.

    The threshold of chunks is learned from the chunks of all queries, since it holds for every one.
    """
    chunks: list[_Scored] = []
    for query in queries:
        chunks += query.chunks
    return chunks


def _check_labels(
    labelled: Sequence[Labelled], precision: float | None, error: float | None
) -> None:
    """Refuses targets that are no share, and labels from which nothing can be learned.

    A calibration that learned from five labels would look like a measured one.

    Raises:
        InputError: a target is not between 0 and 1, or too few labels are of either kind.
    """
    for name, share in (("error", error), ("precision", precision)):
        if share is not None and not 0 < share < 1:
            raise InputError(f"the {name} must lie between 0 and 1, not {share:g}")
    present = sum(label.answer_present for label in labelled)
    absent = len(labelled) - present
    if min(present, absent) < _FEWEST:
        raise InputError(
            f"{present} labels mark the answer as present, {absent} as "
            f"absent: at least {_FEWEST} of either kind, with verdicts, are needed"
        )


def _tradeoffs(queries: Sequence[_Query], aim: _Aim, seed: int) -> Iterator[Tradeoff]:
    """The precision and recall that each of a few usual targets would give to the verdict Yes.

    A user sees so where a precision of 98 % costs nearly every Yes, and can ask for less. The
    targets are precisions, or guaranteed errors where one was asked for.
    """
    # Only figures of answers are shown: no threshold of chunks is learned for them. The threshold
    # of answers always moves here: else every target would have the same figures.
    plain_aim = replace(aim, has_chunks=False, moves=True)
    targets = _PRECISIONS
    if aim.error is not None:
        targets = _ERRORS
    for target in targets:
        if aim.error is None:
            target_aim = replace(plain_aim, precision=target)
        else:
            target_aim = replace(plain_aim, error=target)
        answers, _ = _cross_validated(queries, target_aim, seed)
        yield Tradeoff(target=target, quality=_quality(answers))


def _reaches_more(before: Quality, after: Quality, precision: float, *, costs: bool) -> bool:
    """Whether the target precision is missed for sure, and a learned threshold comes nearer to it.

    Only then the shipped threshold moves: a Yes keeps its measured worth otherwise.

    Args:
        before: with the shipped threshold.
        after: with the learned threshold, in cross-validation.
        costs: whether the move may cost F1, because the user asked for just this precision.
    """
    if before.precision is None or after.precision is None:
        return False  # without a Yes there is no precision
    low, high = before.precision_interval
    # The shipped threshold may well reach the target.
    if low <= precision <= high:
        return False
    # From either side: a precision far above the target costs Yes verdicts.
    gap_before = abs(before.precision - precision)
    gap_after = abs(after.precision - precision)
    if gap_after >= gap_before:
        return False
    return costs or _f1(after) >= _f1(before)


def _decides_better(before: Sequence[_Scored], after: Sequence[_Scored]) -> bool:
    """Whether more verdicts become right than wrong, beyond chance (McNemar 1947, 5 %).

    With few labels a threshold moves only then.

    Args:
        before, after: the same queries with the old and the new threshold, in the same order.
    """
    gained = 0
    lost = 0
    for old, new in zip(before, after, strict=True):
        was_right = old.called == old.positive
        is_right = new.called == new.positive
        gained += is_right and not was_right
        lost += was_right and not is_right
    # 1.645 is the quantile of the normal distribution for 5 % on one side.
    return gained - lost > 1.645 * math.sqrt(gained + lost)


def _f1(quality: Quality) -> float:
    """The F1 of some rows, the harmonic mean of precision and recall; 0 where nothing is right.

    A learned threshold must not find fewer answers for a better precision.
    """
    if quality.recall is None:
        return 0.0
    # Of called and positive rows, hits count twice: that is F1 by counts.
    hits = quality.recall * quality.positive
    return 2 * hits / max(1, quality.called + quality.positive)


def _is_better(before: Sequence[_Scored], after: Sequence[_Scored]) -> tuple[bool, list[str]]:
    """Whether scaled probabilities are nearer to the labels than before, and notes for the user.

    The probabilities come from cross-validation: none was learned from the label it is held to. The
    mean difference of Brier scores must be above its standard error. A user with too few labels
    learns how many would do.
    """
    gains: list[float] = []
    for old, new in zip(before, after, strict=True):
        brier_before = (old.probability - old.positive) ** 2
        brier_after = (new.probability - new.positive) ** 2
        # Above 0 where the new probability is nearer to the label.
        gains.append(brier_before - brier_after)
    mean = fmean(gains)
    count = len(gains)
    # There are at least ten labels, so that a deviation exists.
    error = stdev(gains) / math.sqrt(count)
    if mean > error:
        return True, []
    note = "not shown to be better than what ships: do not use it"
    if mean <= 0:
        return False, [note]
    # The standard error falls with the root of the number of labels.
    needed_labels = math.ceil(count * (error / mean) ** 2)
    return False, [f"{note}. About {needed_labels:,} labels would do"]


def _scored_query(label: Labelled) -> _Query:
    """A query's probabilities beside its labels: the answer's, and each chunk's where judged.

    A calibration learns from such pairs of a number and the truth.
    """
    verdict = label.verdict
    answer = _Scored(verdict.answer_probability, verdict.answer_present, label.answer_present)
    chunks: list[_Scored] = []
    if label.relevant_chunk_ids is not None:
        called = verdict.relevant_chunk_ids
        # By id, in the order of the verdict.
        for chunk_id, probability in verdict.relevance.items():
            positive = chunk_id in label.relevant_chunk_ids
            chunks.append(_Scored(probability, chunk_id in called, positive))
    return _Query(answer, chunks)


def _learned_rule(queries: Sequence[_Query], aim: _Aim) -> DecisionRule:
    """The scale and the thresholds that fit the labels of some queries.

    The scale is learned first, and the thresholds are those of scaled probabilities.

    Args:
        aim: what they are to reach.
    """
    answers = [query.answer for query in queries]
    scale = _platt(answers)
    # The thresholds stay, and the scale alone moves what reaches them.
    if not aim.moves:
        return DecisionRule(scale=scale, thresholds=aim.shipped)
    scaled = _on_scale(scale, answers)
    if aim.error is None:
        present = _lowest_precise(scaled, aim.precision)
    else:
        present = _conformal(scaled, aim.error)
    # A threshold of 0 or 1 has no logit, which the next line needs.
    present = _inside_scale(present)
    relevant = logistic(logit(present) - _BAND)
    # At most as high as that: with labels of chunks it may lie lower.
    if aim.has_chunks:
        scaled_chunks = _on_scale(scale, _chunks_of(queries))
        relevant = min(relevant, _best_f1(scaled_chunks))
    thresholds = Thresholds(relevant=_inside_scale(relevant), present=present)
    return DecisionRule(scale=scale, thresholds=thresholds)


def _lowest_precise(rows: Sequence[_Scored], precision: float) -> float:
    """The smallest threshold whose precision reaches the target; 1, above all, if none does.

    The smallest one calls most queries Yes at that precision.
    """
    threshold = 1.0
    for step in _steps(rows):  # from the highest threshold down
        # A later step has a lower threshold: the last one that reaches the target is taken.
        if step.hits >= precision * step.called:
            threshold = step.threshold
    return threshold


def _best_f1(rows: Sequence[_Scored]) -> float:
    """The threshold with the best F1 over some rows; of equal ones, the highest.

    Chunks get this threshold, since a missed chunk costs as much as a wrong one.
    """
    positive = sum(row.positive for row in rows)
    best_step = max(_steps(rows), key=lambda step: 2 * step.hits / max(1, step.called + positive))
    return best_step.threshold


def _on_scale(scale: PlattScale, rows: Sequence[_Scored], threshold: float = 0.0) -> list[_Scored]:
    """Labelled rows with their probabilities put on a scale, and called or not by a threshold.

    The figures of a calibration are those of rows that are called by it.

    Args:
        threshold: on that scale; 0 calls every row.
    """
    scaled: list[_Scored] = []
    for row in rows:
        probability = scale.apply(row.probability)
        scaled.append(_Scored(probability, probability >= threshold, row.positive))
    return scaled


def _cross_validated(
    queries: Sequence[_Query], aim: _Aim, seed: int
) -> tuple[list[_Scored], list[_Scored]]:
    """Labelled answers and chunks, each with the probability of a calibration that did not see it.

    Five calibrations are learned, each from four fifths of the queries. Figures on the labels that
    a calibration was learned from would be too good.

    Args:
        seed: of the draw of the fifths: the same seed gives the same figures.
    """
    # Shuffled once; every fifth of it is a fold.
    order = list(range(len(queries)))
    random.Random(seed).shuffle(order)
    answers: dict[int, _Scored] = {}
    chunks: list[_Scored] = []
    for fold in range(_FOLDS):
        held_out = frozenset(order[fold::_FOLDS])
        training = [query for number, query in enumerate(queries) if number not in held_out]
        rule = _learned_rule(training, aim)
        thresholds = rule.thresholds
        # In a fixed order, so that the list of chunks is the same for the same seed.
        for number in sorted(held_out):
            query = queries[number]
            [answer] = _on_scale(rule.scale, [query.answer], thresholds.present)
            answers[number] = answer
            # Where the answer is called present, only chunks that reach the threshold of that are
            # called relevant.
            threshold = thresholds.relevant
            if answer.called:
                threshold = thresholds.present
            chunks += _on_scale(rule.scale, query.chunks, threshold)
    # In the order of the queries, since callers pair them with others; chunks in that of the folds.
    return [answers[number] for number in range(len(queries))], chunks


def expected_calibration_error(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """The mean gap between probability and share of positives, over ten bins of equal width.

    The error is 0 where probabilities come true as often as they say, and for no rows. Source: Guo
    et al. 2017, "On Calibration of Modern Neural Networks".
    """
    rows = reliability(probabilities, labels)
    gaps = sum([count * abs(mean - share) for mean, share, count in rows])
    return gaps / max(1, len(probabilities))


def reliability(
    probabilities: Sequence[float], labels: Sequence[bool]
) -> list[tuple[float, float, int]]:
    """A reliability diagram: for each bin with rows its mean probability, share of positives, rows.

    Where the first two differ, probabilities promise too much or too little. Ten bins of equal
    width, lowest first.
    """
    rows_by_bin: dict[int, list[tuple[float, bool]]] = {}
    for probability, label in zip(probabilities, labels, strict=True):
        number = min(9, int(probability * 10))  # a probability of 1 is in the last bin
        rows_by_bin.setdefault(number, []).append((probability, label))
    diagram: list[tuple[float, float, int]] = []
    for number in sorted(rows_by_bin):
        rows = rows_by_bin[number]
        mean = fmean([probability for probability, _ in rows])
        share = fmean([label for _, label in rows])
        diagram.append((mean, share, len(rows)))
    return diagram


def _conformal(rows: Sequence[_Scored], error: float) -> float:
    """The threshold that at most a share ``error`` of queries without the answer reaches.

    A user who asks for a guaranteed error gets it by this threshold. Of n scores of such queries,
    and one more that is drawn like them, the new one is above the k-th highest with a chance of at
    most k / (n + 1). With too few scores nothing is called Yes.
    """
    scores = [row.probability for row in rows if not row.positive]
    # The k-th highest is then at place k - 1.
    scores.sort(reverse=True)
    allowed = math.floor(error * (len(scores) + 1))  # k of the docstring
    if allowed < 1:
        return 1.0
    # The next number above the score: the score itself must not reach the threshold.
    return math.nextafter(scores[allowed - 1], 2.0)


def _platt(rows: Sequence[_Scored]) -> PlattScale:
    """The Platt scale (Platt 1999) that fits labels, held near the scale that changes nothing.

    A slope is never below a small one: labels that run against the probabilities are left to the
    offset, since a scale must keep their order.
    """
    # Away from 0 and 1, which have no logit.
    clipped = np.clip([row.probability for row in rows], _EDGE, 1 - _EDGE)
    positive = sum(row.positive for row in rows)
    # Platt's own targets, a little inside of 0 and 1, so that few labels do not ask for certainty.
    high, low = platt_targets(positive, len(rows) - positive)
    targets = [high if row.positive else low for row in rows]
    slope, offset = logistic_fit(
        np.log(clipped / (1 - clipped)),
        np.array(targets),
        np.ones(len(rows)),  # each label weighs the same
        start=(1.0, 0.0),
        ridge=_RIDGE,
        longest=2.0,
    )
    # Rounded as in the file, so that the figures are those of what is stored.
    return PlattScale(slope=round(max(_LEAST_SLOPE, slope), 6), offset=round(offset, 6))


class _Step(NamedTuple):
    """A threshold, and what it calls positive."""

    threshold: float
    """What a row must reach."""
    called: int
    """How many probabilities reach it."""
    hits: int
    """How many of these are positive."""


def _steps(rows: Sequence[_Scored]) -> list[_Step]:
    """The distinct probabilities of some rows as thresholds, highest first, with their counts.

    Rows of one probability reach a threshold together: only the last of them makes a step.
    """
    ranked = sorted(rows, key=lambda row: -row.probability)
    steps: list[_Step] = []
    hits = 0
    for called, row in enumerate(ranked, start=1):
        hits += row.positive
        # `called` counts from 1: `ranked[called]` is the next row.
        is_last = called == len(ranked)
        if is_last or ranked[called].probability != row.probability:
            steps.append(_Step(row.probability, called, hits))
    return steps


def _inside_scale(threshold: float) -> float:
    """A threshold moved off 0 and 1, the edges of the scale, which have no logit.

    A threshold is moved on the scale of logits later, which would be infinite there.
    """
    return min(max(threshold, _EDGE), 1 - _EDGE)


def _quality(rows: Sequence[_Scored]) -> Quality:
    """Precision, recall and calibration error of some labelled rows, answers or chunks.

    A user compares them before and after a calibration.
    """
    called = 0
    positive = 0
    hits = 0
    for row in rows:
        called += row.called
        positive += row.positive
        hits += row.called and row.positive
    precision: float | None = None
    if called:
        precision = hits / called
    recall: float | None = None
    if positive:
        recall = hits / positive
    probabilities = [row.probability for row in rows]
    labels = [row.positive for row in rows]
    return Quality(
        precision=precision,
        # Exact intervals: few labels are the rule here.
        precision_interval=proportion_interval(hits, called),
        recall=recall,
        recall_interval=proportion_interval(hits, positive),
        calibration_error=expected_calibration_error(probabilities, labels),
        called=called,
        positive=positive,
        count=len(rows),
    )


def _notes_on_calibration(after: Quality, aim: _Aim, chunks: Sequence[_Scored]) -> Iterator[str]:
    """Notes on a calibration: which things labels cannot move, and where there are too few of them.

    A user learns by them how many more labels are worth the work.

    Args:
        after: the figures of answers, cross-validated.
        chunks: the labelled chunks.
    """
    yield "labels move the level of the probabilities; which query is ahead of which stays"
    precision = aim.precision
    error = aim.error
    # The lower end of what the precision may be.
    low, _ = after.precision_interval
    if error is None:
        if low < precision:
            yield (
                f"the precision may lie below {precision:.0%}: its 95 % interval begins at "
                f"{low:.0%}. More labels narrow it"
            )
    else:
        absent = after.count - after.positive
        needed = math.ceil(1 / error) - 1
        # As in `_conformal`: below that nothing is called Yes.
        if math.floor(error * (absent + 1)) < 1:
            yield (
                f"{absent} labels without the answer cannot guarantee {error:.1%}: at least "
                f"{needed} are needed, and until then nothing is called Yes"
            )
    if chunks and not aim.has_chunks:
        relevant = sum(row.positive for row in chunks)
        yield (
            f"labels of chunks: {relevant} relevant, {len(chunks) - relevant} not. At least "
            f"{_FEWEST} of either kind are needed: the threshold of a chunk is not learned"
        )
