"""Whether a case passes, and what changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ragbench.core.case_table import CaseTexts, Cells
from ragbench.core.comparison import CaseDifference, CaseKind, Flip, IdChange, RunPair
from ragbench.core.fusion import best_ranks
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.record import replace
from ragbench.core.report import JUDGED_RIGHT
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.plugins import NDArray, np
from ragbench.stats.mean import MeanInterval, mean_interval

_PREFERRED_METRICS = {
    "generator": (*JUDGED_RIGHT, "answer_correct", "token_f1", "exact_match"),
    "retriever": ("recall", "hit_rate", "ndcg", "mrr"),
    "overall": ("abstention_accuracy",),
}
"""By group of metrics, those by which a case passes: the first that a run has."""
SIDES = ("baseline", "run")
"""Marks of two runs of which one is the baseline."""
THRESHOLD = 0.5
"""Share of a metric's scale, counted from its worse end, from which on a case passes: for a metric
of 0 and 1, any threshold above 0 parts the two."""

if TYPE_CHECKING:
    Verdicts: TypeAlias = NDArray[np.int8]
    """Of each case: 1 where it passes, 0 where it fails, -1 where that is not known."""
    Turns: TypeAlias = Mapping[str, NDArray[np.int8]]
    """By stage and main metric: -1 for each case that newly fails, 1 for one newly passing."""


# --- whether a case passes


def _verdicts(run: RunScores, main: Sequence[MetricColumn], *, named: bool) -> dict[str, Verdicts]:
    """By stage and by main metric, whether each case passes: 1 passes, 0 fails, -1 not known.

    A metric that failed because a stage did says nothing of its own. Where the user did not name
    the metrics, a case of which it is known whether it is right passes by that alone: a retrieval
    metric must not fail a case that was answered correctly.

    Args:
        main: the main metrics, by which a case passes.
        named: whether the user named the metrics.
    """
    size = len(run.cases)
    has_failed = np.zeros(size, bool)  # the cases of which a stage failed
    verdicts: dict[str, Verdicts] = {}
    # A baseline file holds no stages: then no stage is in the result, and none has failed.
    for place, stages in enumerate(run.table.fact("stages")):
        for stage, status in stages.items():
            if stage not in verdicts:
                verdicts[stage] = np.full(size, -1, np.int8)
            # A bool as a number: 1 passes, 0 fails.
            verdicts[stage][place] = status is not Status.FAILED
            has_failed[place] |= status is Status.FAILED

    right: Verdicts = np.full(size, -1, np.int8)
    # The main metric of answers, by which it is known whether a case is right.
    answer = next((column for column in main if column.group == "generator"), None)
    if answer is not None and not named:
        right = _right_verdicts(run, answer)
        right[has_failed] = -1  # the failed stage says it already
    is_known = right >= 0
    for column in main:
        cells = run.cells(column.name)
        # State 0: the metric has no cell of the case.
        says_nothing = (cells.states == 0) | cells.has(Status.SKIPPED)
        says_nothing |= has_failed & cells.has(Status.FAILED)
        # Where it is known whether a case is right, retrieval has no say.
        says_nothing |= is_known
        verdict: Verdicts = np.where(says_nothing, -1, _is_passed(cells, column))
        # Known right or wrong: then this metric speaks, and the others are silent.
        if column is answer:
            verdict = np.where(is_known, right, verdict)
        verdicts[column.name] = verdict
    return verdicts


def _is_passed(cells: Cells, column: MetricColumn) -> NDArray[np.bool_]:
    """Whether each case passes by a metric: its value lies in the better half of the scale.

    A case without a value does not pass. The better half begins at `THRESHOLD`.
    """
    # A main metric has both ends; the defaults satisfy the type.
    low = column.low or 0.0
    scale = column.scale or 1.0
    share = (cells.values - low) / scale
    if column.sign < 0.0:
        share = 1.0 - share
    # NaN, where there is no value, is not above any threshold.
    passed: NDArray[np.bool_] = share >= THRESHOLD
    return passed


def _right_verdicts(run: RunScores, answer: MetricColumn) -> Verdicts:
    """Whether each case was answered rightly: 1 yes, 0 no, -1 not known.

    To decline is right where the documents hold no answer, and wrong where they hold one.

    A system that declines everything must not look right, nor one that always answers.

    Args:
        answer: the metric that compares answers.
    """
    cells = run.cells(answer.name)
    # 1 where it was right to decline, or to answer, as the system did; 0 where it was wrong.
    # NaN where nothing is known of declining: it equals neither 0 nor 1.
    declining = run.cells("abstention_accuracy").values
    is_declined = cells.has(Status.ABSTAINED)
    has_value = ~np.isnan(cells.values)
    # From the weakest sign to the strongest, which overwrites the others: whether declining was
    # right, whether the system declined, and what the answer is worth.
    right = np.full(len(cells.values), -1, np.int8)
    right[declining == 0.0] = 0
    right[is_declined] = declining[is_declined] == 1.0
    right[has_value] = _is_passed(cells, answer)[has_value]
    right[cells.states == 0] = -1  # the metric has no cell of the case at all
    return right


def passes(run: RunScores, place: int, column: MetricColumn) -> bool | None:
    """Whether a case passes by a metric at least half of the times that it was asked.

    None where the metric never applied to the case.

    Cases that must pass are judged by it, and chance decides a single time.

    Args:
        place: the case's position in the run.
    """
    repeats = run.cells(column.name).asked(place)
    applicable: list[Cell] = []
    # Several cells where the system was asked several times, else one.
    for cell in repeats.cells:
        if cell is not None and cell.status is not Status.SKIPPED:
            applicable.append(cell)
    if not applicable:
        return None
    # Packed as a column of these times, since `_is_passed` reads columns.
    has_passed = _is_passed(Cells.of(applicable, {}), column)
    times_passed = int(has_passed.sum())
    # Half of the times is enough: one ask of two is no majority against it.
    return 2 * times_passed >= len(applicable)


def interval_of(run: RunScores, column: MetricColumn) -> MeanInterval:
    """The mean of a metric over the measured cases of a run, with a confidence interval.

    The interval has no ends where the metric's level is not known, as for a judge's figure: ends
    would promise a certainty that nothing has shown. A figure that labels of people have corrected
    is not made here, and has an interval.
    """
    values = run.cells(column.name).values
    # By position, as the values are.
    clusters = run.clusters
    places = np.flatnonzero(~np.isnan(values)).tolist()
    interval = mean_interval(
        values[places].tolist(),
        [clusters[place] for place in places],
        bounds=(column.low, column.high),
        probability=column.probability,
    )
    if column.has_known_level:
        return interval
    return replace(interval, low=None, high=None)


# --- the metrics that say so


def main_metrics(
    columns: Sequence[MetricColumn], names: Sequence[str] | None = None
) -> tuple[MetricColumn, ...]:
    """The main metrics of a run: those by which a case passes or fails.

    Counts of newly failing cases, and must-pass checks, are made by these metrics alone.

    Args:
        names: the metrics that the user named; where None, one from each group, such as answer
            correctness and recall.

    Raises:
        ConfigError: a named metric is not there, or cannot say whether a case passes.
    """
    if names is None:
        main_columns: list[MetricColumn] = []
        for group in _PREFERRED_METRICS:
            column = main_of_group(group, columns)
            if column is not None:
                main_columns.append(column)
        return tuple(main_columns)
    columns_named = find_columns(columns, names)
    problems: list[str] = []
    # All reasons at once, so that the user can mend them in one go.
    for column in columns_named:
        reason = _why_unusable(column)
        if reason:
            problems.append(f"{column.name} cannot say whether a case passes: {reason}")
    if problems:
        raise ConfigError("\n".join(problems))
    return columns_named


def named_columns(
    columns: Sequence[MetricColumn], names: Sequence[str], lacks: str, measured: str
) -> tuple[MetricColumn, ...]:
    """The metrics of these names, in their order; names are matched without regard to case.

    A user types such names: for a name that is not there, the error names the most similar one.

    Args:
        lacks: how the error begins, before the name that is not there.
        measured: how the error's list of existing names begins.
    """
    # Names that differ in capitals alone are the same to a user.
    column_of_name = {column.name.casefold(): column for column in columns}
    columns_named: list[MetricColumn] = []
    problems: list[str] = []
    for name in names:
        column = column_of_name.get(name.casefold())
        if column is not None:
            columns_named.append(column)
            continue
        problem = f"{lacks} '{name}'."
        similar_names = difflib.get_close_matches(name.casefold(), column_of_name, n=1)
        if similar_names:
            similar_column = column_of_name[similar_names[0]]
            problem += f" Did you mean {similar_column.name}?"
        problems.append(problem)
    if problems:
        all_names = ", ".join(column.name for column in columns) or "nothing"
        problems.append(f"{measured}: {all_names}")
        raise ConfigError("\n".join(problems))
    return tuple(columns_named)


def find_columns(columns: Sequence[MetricColumn], names: Sequence[str]) -> tuple[MetricColumn, ...]:
    """The metrics of the given names, each once, of those that all compared runs measure.

    A metric that one of the runs lacks cannot be compared.

    Raises:
        ConfigError: a metric is not among them; the message names the nearest one, and all.
    """
    columns_named = named_columns(
        columns, names, "the runs do not all measure", "All of them measure"
    )
    # In the order in which they were named; of a metric that is named twice, the first.
    return tuple(dict.fromkeys(columns_named))


def main_of_group(group: str, columns: Sequence[MetricColumn]) -> MetricColumn | None:
    """The main metric of a group: of a run's metrics the first in `_PREFERRED_METRICS`.

    Without any of these it is the group's first metric that can say whether a case passes; None
    where the group has none. A group is of one subject, such as retrieval. Gates and comparisons
    take the same main metric, so that their counts agree.
    """
    members: list[MetricColumn] = []
    for column in columns:
        if column.group == group and not _why_unusable(column):
            members.append(column)
    for preferred_name in _PREFERRED_METRICS[group]:
        for column in members:
            # The name without its cutoff and its parameters.
            name = column.name.casefold().partition("@")[0].partition("(")[0]
            if name == preferred_name:
                return column
    # Without a preferred one, the first that the run measured.
    return members[0] if members else None


def _why_unusable(column: MetricColumn) -> str:
    """The reason why a metric cannot say whether a case passes; empty where it can.

    A case passes by the better half of a scale: a metric needs a value of each case, a better side,
    and two ends.
    """
    # `no_mean` is the reason itself, such as that the metric is one figure over the run.
    if column.no_mean:
        return column.no_mean
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better"
    if not column.scale:
        return "its scale has no end"
    return ""


# --- which cases turned


class _ChangedCase(NamedTuple):
    """A case that passes in one of two runs and fails in the other, by one metric or several."""

    place: int
    """Its position in both runs."""
    kind: CaseKind
    flips: tuple[Flip, ...]
    """The worst first."""


def case_changes(
    first_run: RunScores,
    second_run: RunScores,
    marks: tuple[str, str],
    main: Sequence[MetricColumn],
    *,
    named: bool = False,
    max_texts: int | None = None,
) -> tuple[RunPair, tuple[CaseDifference, ...]]:
    """How many cases of two runs differ, and the cases that pass in one run and fail in the other.

    A comparison lists the cases with their texts, which show what a change of the system did. Both
    runs must have the same cases in the same order.

    Args:
        main: metrics with a better side and a bounded scale, by which a case passes.
        named: whether the user named `main`. Otherwise a right answer is enough to pass.
        max_texts: of how many cases of each kind the texts are read; None: of all.
    """
    turns = _turns(first_run, second_run, main, named=named)
    pair = _pair_of(first_run, second_run, marks, turns)
    pair = _with_changed_texts(pair, first_run, second_run)
    changed = _changed_cases(first_run, second_run, main, turns)
    places = _places_with_texts(changed, max_texts)
    # Not strict: a baseline file gives empty texts without end.
    texts_before = dict(zip(places, first_run.table.texts_of(places), strict=False))
    texts_now = dict(zip(places, second_run.table.texts_of(places), strict=False))
    # A fact that a run knows of no case is missing from its table as a whole.
    causes_before = first_run.table.fact("cause") or (None,) * len(first_run.cases)
    causes_now = second_run.table.fact("cause") or (None,) * len(second_run.cases)
    nothing: Mapping[str, Status] = {}
    stages_before = first_run.table.fact("stages") or (nothing,) * len(first_run.cases)
    stages_now = second_run.table.fact("stages") or (nothing,) * len(second_run.cases)

    differences: list[CaseDifference] = []
    for place, kind, flips in changed:
        before = texts_before.get(place, CaseTexts())
        now = texts_now.get(place, CaseTexts())
        differences.append(
            CaseDifference(
                id=second_run.table.ids[place],
                first=marks[0],
                second=marks[1],
                kind=kind,
                flips=flips,
                # The question as it is asked now; a baseline file has none, and the earlier one
                # stands in.
                query=before.query if now.query is None else now.query,
                gold=now.gold or before.gold,
                cause_before=causes_before[place],
                cause_after=causes_now[place],
                ids=id_change(before.retrieved_ids, now.retrieved_ids),
                response_before=before.response,
                response_after=now.response,
                stages_before=stages_before[place],
                stages_after=stages_now[place],
            )
        )
    return pair, tuple(differences)


def _with_changed_texts(pair: RunPair, first_run: RunScores, second_run: RunScores) -> RunPair:
    """The pair of runs with how many cases have other retrieved ids, or another answer.

    A system may answer differently without a changed score: a comparison shows these counts beside
    it. A baseline file has no texts: then neither count is known.
    """
    if first_run.table.texts is None or second_run.table.texts is None:
        return pair
    # Two columns: a hash of each case's retrieved ids, and one of its answer.
    hashes_before = first_run.table.texts.marks()
    hashes_now = second_run.table.texts.marks()
    differs = hashes_before != hashes_now
    other_ids, other_answers = differs.sum(axis=0).tolist()
    hash_of_no_ids = hash(None)
    for hashes in (hashes_before, hashes_now):
        # Over all cases: a single case without chunks is a change like any other.
        if (hashes[:, 0] == hash_of_no_ids).all():  # a system that gives no ids changes none
            other_ids = None
    return replace(pair, other_ids=other_ids, other_response=other_answers)


def _places_with_texts(changed: Iterable[_ChangedCase], max_texts: int | None) -> list[int]:
    """The positions of the changed cases whose texts are read: the first of each kind.

    Texts are read from the run's file, case by case: a comparison reads only those that it shows.

    Args:
        changed: the cases in the order in which they are shown.
        max_texts: how many of each kind; None for all.
    """
    counts = dict.fromkeys(CaseKind, 0)
    places: list[int] = []
    for place, kind, _ in changed:
        counts[kind] += 1
        if max_texts is None or counts[kind] <= max_texts:
            places.append(place)
    return places


def _changed_cases(
    first_run: RunScores, second_run: RunScores, main: Sequence[MetricColumn], turns: Turns
) -> list[_ChangedCase]:
    """The cases that pass in one run and fail in the other, with the metrics that say so.

    The cases are in the order of a report: by `CaseKind`; within a kind first those of which a
    stage or metric broke, then those that moved furthest.

    Args:
        turns: by stage and metric, which cases turned, and in which direction.
    """
    # Whatever is in `turns` and is no main metric is a stage.
    scales = {column.name: column.scale or 1.0 for column in main}
    flips_at: dict[int, list[Flip]] = {}
    for subject, ways in turns.items():
        for place in np.flatnonzero(ways).tolist():
            newly_fails = bool(ways[place] < 0)
            if subject in scales:
                before = first_run.cells(subject).cell(place)
                now = second_run.cells(subject).cell(place)
                flip = _metric_flip(subject, newly_fails, before, now, scales[subject])
            else:
                flip = Flip(
                    subject=subject,
                    newly_fails=newly_fails,
                    before_status=first_run.table.fact("stages")[place][subject],
                    after_status=second_run.table.fact("stages")[place][subject],
                )
            flips_at.setdefault(place, []).append(flip)

    # A case may turn by several metrics, and in both directions.
    changed: list[_ChangedCase] = []
    for place, flips in flips_at.items():
        failures = sum(flip.newly_fails for flip in flips)
        if failures == len(flips):
            kind = CaseKind.FAILING
        elif failures:
            kind = CaseKind.MIXED
        else:
            kind = CaseKind.FIXED
        # What newly fails comes first, so that `flips[0]` is the worst of the case.
        flips.sort(key=lambda flip: (not flip.newly_fails, *_rank_of_flip(flip), flip.subject))
        changed.append(_ChangedCase(place, kind, tuple(flips)))
    kinds = [*CaseKind]
    ids = second_run.table.ids
    changed.sort(
        # The id decides a tie: the order is the same in every process.
        key=lambda case: (kinds.index(case.kind), *_rank_of_flip(case.flips[0]), ids[case.place])
    )
    return changed


def _metric_flip(metric: str, newly_fails: bool, before: Cell, now: Cell, scale: float) -> Flip:
    """How a case turned by a metric, with its value before and now.

    The size of the move is a share of the metric's scale; a value that came or went counts as 1.

    A report puts the largest moves first, whatever the metric's scale.
    """
    size = 1.0
    if before.value is not None and now.value is not None:
        size = abs(now.value - before.value) / scale
    return Flip(
        subject=metric,
        newly_fails=newly_fails,
        size=size,
        before_status=before.status,
        after_status=now.status,
        before=before.value,
        after=now.value,
        # A case with a value needs no reason.
        reason=now.reason if now.value is None else None,
    )


def _rank_of_flip(flip: Flip) -> tuple[bool, float]:
    """The place of a flip in a report: a flip is a case's turn from pass to fail or back.

    Turns in which a stage or metric failed come first, then those that moved furthest: a reader
    looks at the top ones only.
    """
    is_broken = Status.FAILED in (flip.before_status, flip.after_status)
    return not is_broken, -flip.size


def run_pair(
    first_run: RunScores,
    second_run: RunScores,
    marks: tuple[str, str],
    main: Sequence[MetricColumn],
) -> RunPair:
    """How many cases of two runs with the same cases pass in one run and fail in the other.

    A gate shows these counts beside its checks: it needs no single case, so that no text is read.
    """
    turns = _turns(first_run, second_run, main, named=False)
    return _pair_of(first_run, second_run, marks, turns)


def _turns(
    first_run: RunScores, second_run: RunScores, main: Sequence[MetricColumn], *, named: bool
) -> Turns:
    """By stage and main metric, which cases turned: -1 newly fails, 1 newly passes, 0 neither.

    A case whose verdict is unknown in one of the runs has not turned.

    Counts and lists of changed cases are made of these turns.
    """
    verdicts_before = _verdicts(first_run, main, named=named)
    verdicts_now = _verdicts(second_run, main, named=named)
    turns: dict[str, NDArray[np.int8]] = {}
    for subject, now in verdicts_now.items():
        before = verdicts_before.get(subject)
        if before is None:  # a stage that only one of the runs has
            continue
        are_known = (before >= 0) & (now >= 0)
        turns[subject] = np.where(are_known, now - before, 0)
    return turns


def _pair_of(
    first_run: RunScores, second_run: RunScores, marks: tuple[str, str], turns: Turns
) -> RunPair:
    """How many cases turned between two runs: newly failing, newly passing, or mixed.

    Each case counts once, whatever the number of metrics by which it turned. A mixed one fails by
    one metric and passes by another.
    """
    size = len(second_run.cases)
    fails = np.zeros(size, bool)
    wins = np.zeros(size, bool)
    for ways in turns.values():
        fails |= ways < 0
        wins |= ways > 0
    newly_failing = fails & ~wins
    mixed = fails & wins
    newly_fixed = wins & ~fails
    first_mark, second_mark = marks
    return RunPair(
        first=first_mark,
        second=second_mark,
        cases=size,
        newly_failing=int(newly_failing.sum()),
        mixed=int(mixed.sum()),
        newly_fixed=int(newly_fixed.sum()),
        # Known only where both runs have their texts: `_with_changed_texts` fills them in.
        other_ids=None,
        other_response=None,
    )


def id_change(before: Sequence[str] | None, after: Sequence[str] | None) -> IdChange | None:
    """How two lists of retrieved ids differ: ids that came, went, or have another rank.

    An id that occurs twice counts with its best rank. None where a run does not store its ids.

    A changed answer is often explained by chunks that came or went.
    """
    if before is None or after is None:
        return None
    # By id the best rank, from 1.
    old_ranks = best_ranks(before)
    new_ranks = best_ranks(after)
    gained: list[tuple[str, int]] = []
    moved: list[tuple[str, int, int]] = []
    same_rank = 0
    for id_, rank in new_ranks.items():
        if id_ not in old_ranks:
            gained.append((id_, rank))
        elif old_ranks[id_] != rank:
            moved.append((id_, old_ranks[id_], rank))
        else:
            same_rank += 1
    lost = [(id_, rank) for id_, rank in old_ranks.items() if id_ not in new_ranks]
    return IdChange(gained=tuple(gained), lost=tuple(lost), moved=tuple(moved), kept=same_rank)
