"""Whether a case passes, and what changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragbench.core.comparison import CaseDifference, CaseKind, Flip, IdChange, RunPair
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import ConfigError

_PREFERRED = {
    "retriever": ("recall", "hit_rate", "ndcg", "mrr"),
    "generator": ("answer_correct", "token_f1", "exact_match"),
    "overall": ("abstention_accuracy",),
}
"""The first of these that a run has says whether a case passes, in each group."""


THRESHOLD = 0.5
"""Share of a metric's scale, counted from its worse end, from which on a case passes: for a metric
of 0 and 1, any threshold above 0 parts the two."""


def _share(value: float, column: MetricColumn) -> float:
    """Where a value lies on the metric's scale: 0 is its worse end, 1 its better one."""
    share = (value - (column.low or 0.0)) / (column.scale or 1.0)
    return share if column.direction is Direction.HIGHER else 1.0 - share


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRule:
    """What makes a case pass."""

    main: tuple[MetricColumn, ...]
    """Metrics with a better side and a bounded scale."""

    def passes(self, cell: Cell | None, column: MetricColumn) -> bool | None:
        """Whether a case passes by one metric. None when the metric does not apply to the case."""
        if cell is None or cell.status is Status.SKIPPED:
            return None
        return cell.value is not None and _share(cell.value, column) >= THRESHOLD

    def verdicts(self, case: ScoredCase) -> Iterator[tuple[str, bool]]:
        """By stage, then by main metric: whether the case passes. What does not apply is left out.

        A metric that failed because a stage did says nothing of its own.
        """
        broken = False
        for stage, status in case.stages.items():
            broken = broken or status is Status.FAILED
            yield stage, status is not Status.FAILED
        for column in self.main:
            cell = case.scores.get(column.name)
            passed = self.passes(cell, column)
            if passed is not None and not (broken and cell and cell.status is Status.FAILED):
                yield column.name, passed


def main_metrics(
    columns: Sequence[MetricColumn], names: Sequence[str] | None = None
) -> tuple[MetricColumn, ...]:
    if names is None:
        usable = [column for column in columns if not _unusable(column)]
        chosen = (_of_group(group, usable) for group in _PREFERRED)
        return tuple(column for column in chosen if column is not None)
    found = find_columns(columns, names)
    wrong = [f"{c.name} cannot say whether a case passes: {_unusable(c)}" for c in found]
    wrong = [text for text, column in zip(wrong, found, strict=True) if _unusable(column)]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return found


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
    first: RunScores, second: RunScores, marks: tuple[str, str], rule: CaseRule
) -> tuple[CaseDifference, ...]:
    """The cases that pass in one of two runs and fail in the other."""
    before = first.by_case(first.cases)
    found: list[CaseDifference] = []
    for case in second.cases:
        earlier = before.get(case.id)
        flips = () if earlier is None else tuple(sorted(_flips(earlier, case, rule), key=_rank))
        if earlier is not None and flips:
            found.append(_difference(earlier, case, marks, flips))
    return tuple(sorted(found, key=_place))


def run_pair(
    first: RunScores,
    second: RunScores,
    marks: tuple[str, str],
    changed: Sequence[CaseDifference],
) -> RunPair:
    """How many cases differ, and in which way."""
    after = second.by_case(second.cases)
    both = [(case, after[case.id]) for case in first.cases if case.id in after]
    kinds = [case.kind for case in changed]
    return RunPair(
        first=marks[0],
        second=marks[1],
        cases=len(both),
        newly_failing=kinds.count(CaseKind.FAILING),
        mixed=kinds.count(CaseKind.MIXED),
        newly_fixed=kinds.count(CaseKind.FIXED),
        other_ids=sum(one.retrieved_ids != other.retrieved_ids for one, other in both)
        if _tell_ids(first) and _tell_ids(second)
        else None,
        other_response=sum(one.response != other.response for one, other in both)
        if _tell_texts(first) and _tell_texts(second)
        else None,
    )


def id_change(before: Sequence[str], after: Sequence[str]) -> IdChange:
    """How two lists of retrieved ids differ; of an id that stands twice, the best rank counts."""
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


def _tell_ids(run: RunScores) -> bool:
    return any(case.retrieved_ids is not None for case in run.cases)


def _tell_texts(run: RunScores) -> bool:
    """A baseline file holds no texts: not even the questions."""
    return any(case.query is not None for case in run.cases)


def _difference(
    earlier: ScoredCase, case: ScoredCase, marks: tuple[str, str], flips: tuple[Flip, ...]
) -> CaseDifference:
    ids = None
    if earlier.retrieved_ids is not None and case.retrieved_ids is not None:
        ids = id_change(earlier.retrieved_ids, case.retrieved_ids)
    return CaseDifference(
        id=case.id,
        first=marks[0],
        second=marks[1],
        kind=_kind(flips),
        flips=flips,
        query=case.query if case.query is not None else earlier.query,
        ids=ids,
        response_before=earlier.response,
        response_after=case.response,
        stages_before=earlier.stages,
        stages_after=case.stages,
    )


def _kind(flips: Sequence[Flip]) -> CaseKind:
    ways = {flip.newly_fails for flip in flips}
    if len(ways) == 2:
        return CaseKind.MIXED
    return CaseKind.FAILING if True in ways else CaseKind.FIXED


def _flips(earlier: ScoredCase, case: ScoredCase, rule: CaseRule) -> Iterator[Flip]:
    old = dict(rule.verdicts(earlier))
    columns = {column.name: column for column in rule.main}
    for subject, passed in rule.verdicts(case):
        if subject not in old or old[subject] is passed:
            continue
        column = columns.get(subject)
        if column is None:
            yield Flip(
                subject=subject,
                newly_fails=not passed,
                before_status=earlier.stages[subject],
                after_status=case.stages[subject],
            )
        else:
            yield _metric_flip(column, earlier, case, newly_fails=not passed)


def _metric_flip(
    column: MetricColumn, earlier: ScoredCase, case: ScoredCase, *, newly_fails: bool
) -> Flip:
    old = earlier.scores.get(column.name, _NOTHING)
    new = case.scores.get(column.name, _NOTHING)
    size = 1.0
    if old.value is not None and new.value is not None:
        size = abs(new.value - old.value) / (column.scale or 1.0)
    return Flip(
        subject=column.name,
        newly_fails=newly_fails,
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
