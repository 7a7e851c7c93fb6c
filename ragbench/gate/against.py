"""A run held against an earlier one, case by case: what a page shows beside each case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ragbench.core.against import Against, CaseBefore
from ragbench.core.attribution import Cause, CauseCount
from ragbench.core.comparison import CaseKind
from ragbench.core.outcome import Cell
from ragbench.core.run_scores import RunScores, ScoredCase
from ragbench.errors import RunMismatchError
from ragbench.gate.cases import CaseRule, case_changes, id_change, main_metrics, run_pair
from ragbench.gate.compare import cause_flows
from ragbench.gate.stored_json import Json, read_json, understood
from ragbench.ledger.folder import RunFolder

_MARKS = ("baseline", "run")


def held_against(run: RunScores, earlier: RunScores) -> Against:
    """Holds a run against an earlier one, over the cases that are the same in both."""
    before = {case.id: case for case in earlier.cases}
    shared = [case for case in run.cases if case.id in before]
    pairs = [
        (before[case.id], case)
        for case in shared
        if before[case.id].fingerprint == case.fingerprint
    ]
    if not pairs:
        raise RunMismatchError(
            f"{run.source} and {earlier.source} have no case in common: {len(shared):,} have the "
            "same id, and another content"
        )
    first = replace(earlier, cases=tuple(then for then, _ in pairs))
    second = replace(run, cases=tuple(now for _, now in pairs))
    columns = [
        column
        for column in run.metrics
        if (other := earlier.column(column.name)) is not None and other.identity == column.identity
    ]
    changed = case_changes(first, second, _MARKS, CaseRule(main=main_metrics(columns)))
    kinds = {case.id: case.kind for case in changed}
    names = [column.name for column in columns if column.has_cells]
    return Against(
        source=earlier.source,
        rag=earlier.rag,
        cases={now.id: _before(then, now, names, kinds.get(now.id)) for then, now in pairs},
        changed=changed,
        pair=run_pair(first, second, _MARKS, changed),
        flows=tuple(cause_flows((_MARKS[0], first), (_MARKS[1], second))),
        edited=len(shared) - len(pairs),
        added=len(run.cases) - len(shared),
        gone=len(earlier.cases) - len(shared),
    )


def reported_causes(path: Path) -> tuple[CauseCount, ...]:
    """What became of a run's cases, as its report tells."""
    content = read_json(RunFolder(path=path).report if path.is_dir() else path)
    return understood(path, lambda: tuple(map(_count, content.get("causes", ()))))


def _count(found: Json) -> CauseCount:
    return CauseCount(
        cause=Cause(found["cause"]),
        cases=int(found["cases"]),
        estimated=int(found["estimated"]),
        stages=tuple((one["stage"], one["cases"]) for one in found["stages"]),
        examples=tuple(found["examples"]),
    )


def _before(
    then: ScoredCase, now: ScoredCase, names: list[str], kind: CaseKind | None
) -> CaseBefore:
    ids = None
    if then.retrieved_ids is not None and now.retrieved_ids is not None:
        ids = id_change(then.retrieved_ids, now.retrieved_ids)
    return CaseBefore(
        kind=kind,
        cause=then.cause,
        response=then.response,
        tells_texts=then.query is not None,
        ids=ids,
        scores=tuple(_differing(then, now, names)),
    )


def _differing(
    then: ScoredCase, now: ScoredCase, names: list[str]
) -> Iterator[tuple[str, Cell, Cell]]:
    for name in names:
        old, new = then.scores.get(name, _NOTHING), now.scores.get(name, _NOTHING)
        if (old.status, old.value) != (new.status, new.value):
            yield name, old, new


_NOTHING = Cell.skipped("")
