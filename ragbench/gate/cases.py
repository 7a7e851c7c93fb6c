"""Whether a case passes, and what changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from ragbench.core.comparison import CaseDifference, CaseKind, Flip, IdChange, RunPair
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import JUDGED_RIGHT
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import ConfigError

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


def _share(value: float, column: MetricColumn) -> float:
    """Where a value lies on the metric's scale: 0 is its worse end, 1 its better one."""
    share = (value - (column.low or 0.0)) / (column.scale or 1.0)
    return share if column.direction is Direction.HIGHER else 1.0 - share


def _verdicts(
    case: ScoredCase, main: Sequence[MetricColumn], *, named: bool
) -> Iterator[tuple[str, bool]]:
    """By stage, then by main metric: whether the case passes. What does not apply is left out.

    A metric that failed because a stage did says nothing of its own. Where nobody named the
    metrics, a case of which it is known whether it is right passes by that alone.
    """
    broken = False
    for stage, status in case.stages.items():
        broken = broken or status is Status.FAILED
        yield stage, status is not Status.FAILED
    right = None if broken or named else _right(case, main)
    if right is not None:
        yield right
        return
    for column in main:
        cell = case.scores.get(column.name)
        if cell is None or cell.status is Status.SKIPPED:
            continue
        if not (broken and cell.status is Status.FAILED):
            yield column.name, cell.value is not None and _share(cell.value, column) >= THRESHOLD


def _right(case: ScoredCase, main: Sequence[MetricColumn]) -> tuple[str, bool] | None:
    """Whether a case is right, by the answer; declining is, where there is no answer."""
    answer = next((column for column in main if column.group == "generator"), None)
    if answer is None or answer.name not in case.scores:
        return None
    cell, declining = case.scores[answer.name], case.value("abstention_accuracy")
    if cell.value is not None:
        return answer.name, _share(cell.value, answer) >= THRESHOLD
    if cell.status is Status.ABSTAINED:
        return answer.name, declining == 1.0
    return (answer.name, False) if declining == 0.0 else None


def passes(case: ScoredCase, column: MetricColumn) -> bool | None:
    """Whether a case passes by a metric, at least half of the times that it was asked.

    None where the metric never applied.
    """
    known = [cell for cell in case.asked(column.name).cells if cell is not None]
    marks = [
        cell.value is not None and _share(cell.value, column) >= THRESHOLD
        for cell in known
        if cell.status is not Status.SKIPPED
    ]
    return 2 * sum(marks) >= len(marks) if marks else None


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


def same_columns(run: RunScores, earlier: RunScores) -> list[MetricColumn]:
    """The run's metrics that the earlier one has too, defined alike."""
    known = ((column, earlier.column(column.name)) for column in run.metrics)
    return [one for one, other in known if other is not None and other.identity == one.identity]


def find_columns(columns: Sequence[MetricColumn], names: Sequence[str]) -> tuple[MetricColumn, ...]:
    """The metrics of these names, each once."""
    found = named_columns(columns, names, "the runs do not all measure", "All of them measure")
    return tuple(dict.fromkeys(found))


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


_ORDER = (CaseKind.FAILING, CaseKind.MIXED, CaseKind.FIXED)
_NOTHING = Cell.skipped("")


def case_changes(
    first: RunScores,
    second: RunScores,
    marks: tuple[str, str],
    main: Sequence[MetricColumn],
    *,
    named: bool = False,
) -> tuple[RunPair, tuple[CaseDifference, ...]]:
    """How many cases of two runs differ, and those that pass in one and fail in the other.

    Args:
        main: metrics with a better side and a bounded scale, by which a case passes.
        named: somebody named them. Otherwise a case that is right passes, whatever others say.
    """
    before = first.by_case(first.cases)
    both = [(before[case.id], case) for case in second.cases if case.id in before]
    found: list[CaseDifference] = []
    for earlier, case in both:
        flips = tuple(sorted(_flips(earlier, case, main, named=named), key=_rank))
        if flips:
            found.append(_difference(earlier, case, marks, flips))
    found.sort(key=_place)
    kinds = [case.kind for case in found]
    # A baseline file holds no texts: not even the questions.
    tell_ids, tell_texts = (
        all(any(getattr(case, name) is not None for case in run.cases) for run in (first, second))
        for name in ("retrieved_ids", "query")
    )
    counts = RunPair(
        first=marks[0],
        second=marks[1],
        cases=len(both),
        newly_failing=kinds.count(CaseKind.FAILING),
        mixed=kinds.count(CaseKind.MIXED),
        newly_fixed=kinds.count(CaseKind.FIXED),
        other_ids=sum(one.retrieved_ids != other.retrieved_ids for one, other in both)
        if tell_ids
        else None,
        other_response=sum(one.response != other.response for one, other in both)
        if tell_texts
        else None,
    )
    return counts, tuple(found)


def id_change(before: Sequence[str] | None, after: Sequence[str] | None) -> IdChange | None:
    """How two lists of retrieved ids differ; of an id that stands twice, the best rank counts."""
    if before is None or after is None:
        return None
    old, new = _ranks(before), _ranks(after)
    shared = [id_ for id_ in new if id_ in old]
    return IdChange(
        gained=tuple((id_, rank) for id_, rank in new.items() if id_ not in old),
        lost=tuple((id_, rank) for id_, rank in old.items() if id_ not in new),
        moved=tuple((id_, old[id_], new[id_]) for id_ in shared if old[id_] != new[id_]),
        kept=sum(old[id_] == new[id_] for id_ in shared),
    )


def _ranks(ids: Sequence[str]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, id_ in enumerate(ids, 1):
        ranks.setdefault(id_, rank)
    return ranks


def _difference(
    earlier: ScoredCase, case: ScoredCase, marks: tuple[str, str], flips: tuple[Flip, ...]
) -> CaseDifference:
    ways = {flip.newly_fails for flip in flips}
    kind = CaseKind.FAILING if ways == {True} else CaseKind.FIXED
    return CaseDifference(
        id=case.id,
        first=marks[0],
        second=marks[1],
        kind=CaseKind.MIXED if len(ways) == 2 else kind,
        flips=flips,
        query=case.query if case.query is not None else earlier.query,
        cause_before=earlier.cause,
        cause_after=case.cause,
        gold=case.gold or earlier.gold,
        ids=id_change(earlier.retrieved_ids, case.retrieved_ids),
        response_before=earlier.response,
        response_after=case.response,
        stages_before=earlier.stages,
        stages_after=case.stages,
    )


def _flips(
    earlier: ScoredCase, case: ScoredCase, main: Sequence[MetricColumn], *, named: bool
) -> Iterator[Flip]:
    passed_before = dict(_verdicts(earlier, main, named=named))
    columns = {column.name: column for column in main}
    for subject, passed in _verdicts(case, main, named=named):
        if passed_before.get(subject, passed) is passed:
            continue
        column = columns.get(subject)
        if column is None:
            yield Flip(
                subject=subject,
                newly_fails=not passed,
                before_status=earlier.stages[subject],
                after_status=case.stages[subject],
            )
            continue
        old, new = (one.scores.get(subject, _NOTHING) for one in (earlier, case))
        size = 1.0
        if old.value is not None and new.value is not None:
            size = abs(new.value - old.value) / (column.scale or 1.0)
        yield Flip(
            subject=subject,
            newly_fails=not passed,
            before_status=old.status,
            after_status=new.status,
            before=old.value,
            after=new.value,
            reason=new.reason if new.value is None else None,
            size=size,
        )


def _rank(flip: Flip) -> tuple[bool, bool, float, str]:
    return not flip.newly_fails, not _is_breakage(flip), -flip.size, flip.subject


def _is_breakage(flip: Flip) -> bool:
    return Status.FAILED in (flip.before_status, flip.after_status)


def _place(case: CaseDifference) -> tuple[int, bool, float, str]:
    first = case.flips[0]
    return _ORDER.index(case.kind), not _is_breakage(first), -first.size, case.id
