"""The gate where people labelled answers: who decides, which way a loss goes, what is lacking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragbench.core.case_table import Label
from ragbench.core.gate_result import GateCheck, GateOutcome, GateResult
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.gate import gate
from tests.unit.gate.builders import column, config, run, with_cases

SIZE = 40
RATES = [float(at % 2) for at in range(SIZE)]


def sides(
    now: Sequence[float], before: Sequence[float], said: Sequence[float | None], **changes: object
) -> tuple[RunScores, RunScores]:
    """A run and its baseline by a judge; people say 1 of each answer before, and ``said`` now."""
    judged = column("support", is_judged=True, **changes)
    found: list[RunScores] = []
    for name, values, labels in (("base", before, [1.0] * SIZE), ("run", now, said)):
        made = run({"support": values}, judged, source=name)
        cases = [
            replace(
                case,
                judged=("q", f"{name} {case.id}", None),
                labels={} if label is None else {"support": Label(label, 1, is_drawn=True)},
            )
            for case, label in zip(made.cases, labels, strict=True)
        ]
        found.append(with_cases(made, tuple(cases)))
    return found[1], found[0]


def judged(runs: tuple[RunScores, RunScores], drop: float = 0.1) -> tuple[GateResult, GateCheck]:
    result = gate(*runs, config({"baseline": "base"}, support={"max_drop": drop}))
    (check,) = [one for one in result.checks if one.kind == "drop"]
    return result, check


NOBODY: list[float | None] = [None] * SIZE


def test_a_judge_alone_is_called_an_opinion_and_says_what_it_lacks() -> None:
    result, check = judged(sides(RATES[::-1], RATES, NOBODY))
    assert check.is_opinion and check.corrected is None
    assert "; judge's opinion, unproved. Chance that labelled pairs settle it: " in check.reason
    assert any("support: judge's opinion, unproved." in note for note in result.notes)
    assert check.plan is not None and check.plan.labels == 0 and check.plan.pairs == SIZE
    assert check.plan.command.startswith("ragbench label run --against base -m support -n 40 ")
    # Four labelled pairs are too few to correct anything.
    few: list[float | None] = [1.0] * 4 + [None] * (SIZE - 4)
    assert judged(sides(RATES[::-1], RATES, few))[1].is_opinion


@pytest.mark.parametrize(
    ("said", "outcome", "corrected"),
    [
        ([1.0] * SIZE, "passed", 0.0),  # the judge sees a loss of .5, and people none
        ([0.0, 1.0] * (SIZE // 2), "failed", -0.5),
        ([0.0] + [1.0] * 9 + [None] * (SIZE - 10), "inconclusive", -0.1),
        ([0.0] * 10 + [None] * (SIZE - 10), "failed", -1.0),
    ],
)
def test_people_decide(said: list[float | None], outcome: str, corrected: float) -> None:
    result, check = judged(sides([0.5] * SIZE, [1.0] * SIZE, said))
    assert check.outcome == outcome
    assert check.drop is not None and check.drop.difference == pytest.approx(corrected)
    assert check.corrected is not None and check.corrected.judged == pytest.approx(-0.5)
    assert not check.is_opinion and check.label == "support (people)"
    assert (check.plan is not None) == (outcome == "inconclusive")
    assert ("Ask people: ragbench label" in result.headline) == (outcome == "inconclusive")


def test_of_a_metric_where_lower_is_better_a_rise_is_the_loss() -> None:
    lost = [0.0, 1.0] * (SIZE // 2)  # people's values fall: a gain
    flat = [0.5] * SIZE
    _, check = judged(sides(flat, flat, lost, direction=Direction.LOWER))
    assert check.outcome == "passed" and check.drop is not None and check.drop.rises
    assert check.drop.difference == pytest.approx(-0.5) and check.drop.better == SIZE // 2


def test_pairs_of_the_same_answers_need_no_label() -> None:
    now, before = sides([0.5] * SIZE, [0.5] * SIZE, [1.0] * 10 + [None] * (SIZE - 10))
    same = [
        replace(case, judged=("q", f"base {case.id}", None)) if at >= 10 else case
        for at, case in enumerate(now.cases)
    ]
    _, check = judged((with_cases(now, tuple(same)), before))
    assert check.outcome == "passed" and check.corrected is not None
    assert (check.corrected.labels, check.corrected.cases) == (10, SIZE)


def test_a_floor_is_held_against_what_people_say() -> None:
    now, _ = sides([0.9] * SIZE, [0.9] * SIZE, [0.0, 1.0] * (SIZE // 2))
    wanted = config(support={"minimum": 0.8})
    result = gate(now, None, wanted)
    (check,) = [one for one in result.checks if one.kind == "floor"]
    assert check.outcome is GateOutcome.FAILED
    assert check.observed == pytest.approx(0.5)
    assert "By people, from 40 labelled cases; uncorrected 0.900" in check.reason
    bare = with_cases(now, tuple(replace(case, labels={}) for case in now.cases))
    result = gate(bare, None, wanted)
    assert "judge's opinion, unproved" in result.checks[-1].reason + result.checks[0].reason
