"""Whether a case passes, and what changed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import chain

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
from ragbench.stats.mean import Interval, mean_interval

_PREFERRED = {
    "generator": (*JUDGED_RIGHT, "answer_correct", "token_f1", "exact_match"),
    "retriever": ("recall", "hit_rate", "ndcg", "mrr"),
    "overall": ("abstention_accuracy",),
}
"""The first of these that a run has says whether a case passes, in each group."""


SIDES = ("baseline", "run")
"""Marks of two runs of which one is the baseline."""
THRESHOLD = 0.5
"""Share of a metric's scale, counted from its worse end, from which on a case passes: for a metric
of 0 and 1, any threshold above 0 parts the two."""


def _verdicts(
    run: RunScores, main: Sequence[MetricColumn], *, named: bool
) -> dict[str, NDArray[np.int8]]:
    """By stage, then by main metric: 1 for each case that passes, 0 for each that fails.

    It is -1 where a subject does not apply. A metric that failed because a stage did says nothing
    of its own. Where nobody named the metrics, a case of which it is known whether it is right
    passes by that alone.
    """
    size = len(run.cases)
    broken, found = np.zeros(size, bool), dict[str, "NDArray[np.int8]"]()
    for place, stages in enumerate(run.table.fact("stages")):
        for stage, status in stages.items():
            if stage not in found:
                found[stage] = np.full(size, -1, np.int8)
            found[stage][place] = status is not Status.FAILED
            broken[place] |= status is Status.FAILED
    right = np.full(size, -1, np.int8)
    answer = next((column for column in main if column.group == "generator"), None)
    if answer is not None and not named:
        right = np.where(broken, -1, _right(run, answer))
    for column in main:
        cells = run.cells(column.name)
        lacks = (cells.states == 0) | cells.has(Status.SKIPPED) | (right >= 0)
        lacks |= broken & cells.has(Status.FAILED)
        found[column.name] = np.where(lacks, -1, _passed(cells, column))
        if column is answer:
            found[column.name] = np.where(right >= 0, right, found[column.name])
    return found


def _passed(cells: Cells, column: MetricColumn) -> NDArray[np.bool_]:
    """Whether each value lies in the better half of the scale; where there is none, it does not."""
    share = (cells.values - (column.low or 0.0)) / (column.scale or 1.0)
    passed: NDArray[np.bool_] = (share if column.sign > 0.0 else 1.0 - share) >= THRESHOLD
    return passed


def _right(run: RunScores, answer: MetricColumn) -> NDArray[np.int8]:
    """Whether each case is right, by the answer; declining is, where there is no answer."""
    cells, declining = run.cells(answer.name), run.cells("abstention_accuracy").values
    found = np.where(declining == 0.0, 0, -1)
    found = np.where(cells.has(Status.ABSTAINED), declining == 1.0, found)
    found = np.where(np.isnan(cells.values), found, _passed(cells, answer))
    return np.where(cells.states == 0, -1, found).astype(np.int8)


def passes(run: RunScores, place: int, column: MetricColumn) -> bool | None:
    """Whether a case passes by a metric, at least half of the times that it was asked.

    None where the metric never applied.
    """
    asked = [one for one in run.cells(column.name).asked(place).cells if one is not None]
    known = [cell for cell in asked if cell.status is not Status.SKIPPED]
    marks = _passed(Cells.of(known, {}), column)
    return bool(2 * marks.sum() >= len(marks)) if known else None


def interval_of(run: RunScores, column: MetricColumn) -> Interval:
    """The mean of a metric over the cases that were measured."""
    values, clusters = run.cells(column.name).values, run.clusters
    places = np.flatnonzero(~np.isnan(values)).tolist()
    labels = [clusters[place] for place in places]
    ends = (column.low, column.high)
    known = values[places].tolist()
    return mean_interval(known, labels, bounds=ends, probability=column.probability)


def main_metrics(
    columns: Sequence[MetricColumn], names: Sequence[str] | None = None
) -> tuple[MetricColumn, ...]:
    if names is None:
        usable = [column for column in columns if not _unusable(column)]
        chosen = (_of_group(group, usable) for group in _PREFERRED)
        return tuple(column for column in chosen if column is not None)
    found = find_columns(columns, names)
    wrong = [
        f"{column.name} cannot say whether a case passes: {why}"
        for column in found
        if (why := _unusable(column))
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return found


def named_columns(
    columns: Sequence[MetricColumn], names: Sequence[str], lacks: str, measured: str
) -> tuple[MetricColumn, ...]:
    """The metrics of these names, in their order; names are matched without regard to case."""
    known = {column.name.casefold(): column for column in columns}
    wrong: list[str] = []
    for name in names:
        if name.casefold() not in known:
            near = difflib.get_close_matches(name.casefold(), known, n=1)
            meant = f" Did you mean {known[near[0]].name}?" if near else ""
            wrong.append(f"{lacks} '{name}'.{meant}")
    if wrong:
        listed = ", ".join(column.name for column in columns) or "nothing"
        raise ConfigError("\n".join([*wrong, f"{measured}: {listed}"]))
    return tuple(known[name.casefold()] for name in names)


def find_columns(columns: Sequence[MetricColumn], names: Sequence[str]) -> tuple[MetricColumn, ...]:
    found = named_columns(columns, names, "the runs do not all measure", "All of them measure")
    return tuple(dict.fromkeys(found))


def main_of_group(group: str, columns: Sequence[MetricColumn]) -> MetricColumn | None:
    """The main metric of a group among those that can say whether a case passes."""
    return _of_group(group, [column for column in columns if not _unusable(column)])


def _of_group(group: str, columns: Sequence[MetricColumn]) -> MetricColumn | None:
    members = [column for column in columns if column.group == group]
    for wanted in _PREFERRED[group]:
        for column in members:
            if column.name.casefold().partition("@")[0].partition("(")[0] == wanted:
                return column
    return members[0] if members else None


def _unusable(column: MetricColumn) -> str:
    if column.no_mean:
        return column.no_mean
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better"
    return "" if column.scale else "its scale has no end"


def case_changes(
    first: RunScores,
    second: RunScores,
    marks: tuple[str, str],
    main: Sequence[MetricColumn],
    *,
    named: bool = False,
    told: int | None = None,
) -> tuple[RunPair, tuple[CaseDifference, ...]]:
    """How many cases of two runs differ, and those that pass in one and fail in the other.

    Both runs have the same cases in the same order.

    Args:
        main: metrics with a better side and a bounded scale, by which a case passes.
        named: somebody named them. Otherwise a case that is right passes, whatever others say.
        told: of how many cases of each kind the texts are read; None: of all.
    """
    turned = _turned(first, second, main, named=named)
    counts = _counted(first, second, marks, turned)
    if first.table.texts is not None and second.table.texts is not None:
        known, now = first.table.texts.marks(), second.table.texts.marks()
        ids, answers = (known != now).sum(axis=0).tolist()
        no_ids = any((one[:, 0] == hash(None)).all() for one in (known, now))
        counts = replace(counts, other_ids=None if no_ids else ids, other_response=answers)
    changed = _changed(first, second, main, turned)
    of_kind = ([place for place, kind, _ in changed if kind is one][:told] for one in CaseKind)
    wanted = {*chain(*of_kind)}
    told_places = [place for place, *_ in changed if place in wanted]
    tables = (first.table, second.table)
    texts = zip(*(table.texts_of(told_places) for table in tables), strict=False)
    causes = [table.fact("cause") or (None,) * len(table) for table in tables]
    nothing: Mapping[str, Status] = {}
    stages = [table.fact("stages") or (nothing,) * len(table) for table in tables]
    found: list[CaseDifference] = []
    for place, kind, flips in changed:
        then, new = next(texts) if place in wanted else (CaseTexts(), CaseTexts())
        found.append(
            CaseDifference(
                id=second.table.ids[place], first=marks[0], second=marks[1], kind=kind, flips=flips,
                query=then.query if new.query is None else new.query, gold=new.gold or then.gold,
                cause_before=causes[0][place], cause_after=causes[1][place],
                ids=id_change(then.retrieved_ids, new.retrieved_ids),
                response_before=then.response, response_after=new.response,
                stages_before=stages[0][place], stages_after=stages[1][place],
            )
        )  # fmt: skip
    return counts, tuple(found)


def _changed(
    first: RunScores,
    second: RunScores,
    main: Sequence[MetricColumn],
    turned: Mapping[str, NDArray[np.int8]],
) -> list[tuple[int, CaseKind, tuple[Flip, ...]]]:
    """The places of the cases that turned, and how; in the order in which they are shown."""
    flips: dict[int, list[Flip]] = {}
    scales = {column.name: column.scale or 1.0 for column in main}
    for subject, ways in turned.items():
        for place in np.flatnonzero(ways).tolist():
            old, new = (
                run.cells(subject).cell(place)
                if subject in scales
                else Cell(status=run.table.fact("stages")[place][subject])
                for run in (first, second)
            )
            size = 1.0
            if old.value is not None and new.value is not None:
                size = abs(new.value - old.value) / scales[subject]
            flip = Flip(
                subject=subject, newly_fails=bool(ways[place] < 0), size=size,
                before_status=old.status, after_status=new.status,
                before=old.value, after=new.value, reason=new.reason if new.value is None else None,
            )  # fmt: skip
            flips.setdefault(place, []).append(flip)
    found: list[tuple[int, CaseKind, tuple[Flip, ...]]] = []
    for place, each in flips.items():
        fails = {flip.newly_fails for flip in each}
        kind = CaseKind.FAILING if fails == {True} else CaseKind.FIXED
        ordered = sorted(each, key=lambda one: (not one.newly_fails, *_size(one), one.subject))
        found.append((place, CaseKind.MIXED if len(fails) == 2 else kind, tuple(ordered)))
    kinds, ids = [*CaseKind], second.table.ids
    return sorted(found, key=lambda one: (kinds.index(one[1]), *_size(one[2][0]), ids[one[0]]))


def _size(flip: Flip) -> tuple[bool, float]:
    """What broke comes first, then what moved far."""
    return Status.FAILED not in (flip.before_status, flip.after_status), -flip.size


def run_pair(
    first: RunScores, second: RunScores, marks: tuple[str, str], main: Sequence[MetricColumn]
) -> RunPair:
    """How many cases of two runs with the same cases pass in one of them and fail in the other."""
    return _counted(first, second, marks, _turned(first, second, main, named=False))


def _turned(
    first: RunScores, second: RunScores, main: Sequence[MetricColumn], *, named: bool
) -> dict[str, NDArray[np.int8]]:
    """By stage and main metric: -1 for each case that newly fails, 1 for each that newly passes."""
    before, after = (_verdicts(run, main, named=named) for run in (first, second))
    return {
        subject: np.where((before[subject] >= 0) & (now >= 0), now - before[subject], 0)
        for subject, now in after.items()
        if subject in before
    }


def _counted(
    first: RunScores,
    second: RunScores,
    marks: tuple[str, str],
    turned: Mapping[str, NDArray[np.int8]],
) -> RunPair:
    nothing = np.zeros((1, len(second.cases)))
    ways = np.stack([*turned.values()]) if turned else nothing
    fails, wins = (ways < 0).any(axis=0), (ways > 0).any(axis=0)
    return RunPair(
        first=marks[0],
        second=marks[1],
        cases=len(second.cases),
        newly_failing=int((fails & ~wins).sum()),
        mixed=int((fails & wins).sum()),
        newly_fixed=int((wins & ~fails).sum()),
        other_ids=None,
        other_response=None,
    )


def id_change(before: Sequence[str] | None, after: Sequence[str] | None) -> IdChange | None:
    """How two lists of retrieved ids differ; of an id that stands twice, the best rank counts."""
    if before is None or after is None:
        return None
    old, new = best_ranks(before), best_ranks(after)
    shared = [id_ for id_ in new if id_ in old]
    return IdChange(
        gained=tuple((id_, rank) for id_, rank in new.items() if id_ not in old),
        lost=tuple((id_, rank) for id_, rank in old.items() if id_ not in new),
        moved=tuple((id_, old[id_], new[id_]) for id_ in shared if old[id_] != new[id_]),
        kept=sum(old[id_] == new[id_] for id_ in shared),
    )
