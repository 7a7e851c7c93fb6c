from __future__ import annotations

from dataclasses import replace

import pytest

from ragbench.core.attribution import Cause
from ragbench.core.comparison import CaseKind
from ragbench.core.outcome import Cell
from ragbench.core.run_scores import RunScores, ScoredCase
from ragbench.errors import RunMismatchError
from ragbench.gate.compare import cases_beside
from tests.unit.gate.builders import column, run_of


def case(
    id: str, recall: float, response: str | None, ids: tuple[str, ...], **changes: object
) -> ScoredCase:
    scores = {"recall@5": Cell.measured(recall)}
    made = ScoredCase(
        id=id,
        fingerprint="f",
        scores=scores,
        query=f"question {id}",
        response=response,
        retrieved_ids=ids,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def run(*cases: ScoredCase, version: int = 1, source: str = "run") -> RunScores:
    return run_of(cases, column("recall@5", version=version), source=source)


def test_each_case_is_held_against_the_same_one() -> None:
    earlier = run(
        case("lost", 1.0, "27 days", ("a", "b"), cause=Cause.RIGHT),
        case("same", 1.0, "yes", ("c",)),
        case("won", 0.0, "no", ("d",)),
        case("edited", 1.0, "x", ("e",), fingerprint="old"),
        case("gone", 1.0, "x", ("e",)),
        source="main",
    )
    now = run(
        case("lost", 0.0, "30 days", ("b", "z")),
        case("same", 1.0, "yes", ("c",)),
        case("won", 1.0, "no", ("d",)),
        case("edited", 0.0, "x", ("e",)),
        case("new", 0.0, "x", ("e",)),
    )
    found = cases_beside(now, earlier)

    assert list(found.cases) == ["lost", "same", "won"]
    lost = found.cases["lost"]
    assert (lost.kind, lost.cause, lost.response) == (CaseKind.FAILING, Cause.RIGHT, "27 days")
    assert lost.ids is not None
    assert lost.ids.gained == (("z", 2),)
    assert lost.ids.lost == (("a", 1),)
    assert lost.ids.moved == (("b", 2, 1),)
    assert [(name, old.value, new.value) for name, old, new in lost.scores] == [
        ("recall@5", 1.0, 0.0)
    ]
    assert found.cases["same"].kind is None
    assert found.cases["same"].scores == ()
    assert found.cases["won"].kind is CaseKind.FIXED
    assert [one.id for one in found.changed] == ["lost", "won"]
    assert (found.edited, found.added, found.gone) == (1, 1, 1)
    assert (found.pair.cases, found.pair.newly_failing, found.pair.newly_fixed) == (3, 1, 1)


def test_a_metric_whose_code_was_edited_decides_nothing() -> None:
    earlier, now = (
        run_of([case("q", score, "a", ("x",))], column("recall@5", digest=digest))
        for score, digest in ((1.0, "d1"), (0.0, "d2"))
    )
    found = cases_beside(now, earlier)
    assert (found.changed, found.cases["q"].scores) == ((), ())


def test_runs_without_a_case_in_common_are_refused() -> None:
    edited = case("q", 1.0, "a", (), fingerprint="other")
    with pytest.raises(RunMismatchError, match="no case in common: 1 have the same id"):
        cases_beside(run(case("q", 1.0, "a", ())), run(edited, source="main"))
