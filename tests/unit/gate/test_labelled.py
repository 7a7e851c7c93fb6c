"""The gate where people labelled answers: who decides, which way a loss goes, what is lacking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragbench.core.case_table import Label
from ragbench.core.gate_result import CheckKind, GateCheck, GateResult, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.gate import gate
from tests.unit.gate.builders import column, config, run, with_cases
from tests.unit.gate.verdicts import FAILED, PASSED, checks_of_kind

SIZE = 40
ALL_ONE = [1.0] * SIZE
ALL_HALF = [0.5] * SIZE
UNLABELLED: list[float | None] = [None] * SIZE
RISING = [0.0, 1.0] * (SIZE // 2)
FALLING = [1.0, 0.0] * (SIZE // 2)
ONE_OF_TEN_LOST = [0.0] + [1.0] * 9 + UNLABELLED[10:]
"""Labels of the first ten cases."""


def judged_run(
    name: str, scores: Sequence[float], labels: Sequence[float | None], direction: Direction
) -> RunScores:
    """A run whose answers a judge scored, and people labelled where there is a label."""
    metric = column("support", is_judged=True, direction=direction)
    unlabelled = run({"support": scores}, metric, source=name)
    cases = []
    for case, label in zip(unlabelled.cases, labels, strict=True):
        labels_of_case = {}
        if label is not None:
            labels_of_case["support"] = Label(label, 1, is_drawn=True)
        # Each run has answers of its own.
        answer = f"{name} {case.id}"
        cases.append(replace(case, judged=("q", answer, None), labels=labels_of_case))
    return with_cases(unlabelled, cases)


def run_and_baseline(
    judge_now: Sequence[float],
    judge_before: Sequence[float],
    people_now: Sequence[float | None],
    direction: Direction = Direction.HIGHER,
) -> tuple[RunScores, RunScores]:
    """A run and its baseline, of which people labelled each answer with 1."""
    now = judged_run("run", judge_now, people_now, direction)
    before = judged_run("base", judge_before, ALL_ONE, direction)
    return now, before


def verdict_and_drop(now: RunScores, before: RunScores) -> tuple[GateResult, GateCheck]:
    """The verdict where a drop of .1 is tolerated, and its check of the drop."""
    verdict = gate(now, before, config({"baseline": "base"}, support={"max_drop": 0.1}))
    (check,) = checks_of_kind(verdict, CheckKind.DROP)
    return verdict, check


# --- a judge alone


def test_without_labels_a_drop_is_the_judge_s_opinion() -> None:
    now, before = run_and_baseline(FALLING, RISING, UNLABELLED)

    verdict, check = verdict_and_drop(now, before)

    assert check.is_opinion
    assert check.corrected is None
    assert "; judge's opinion, unproved. Chance that labelled pairs settle it: " in check.reason
    (note,) = [note for note in verdict.notes if note.startswith("support: ")]
    assert note.startswith("support: judge's opinion, unproved.")


def test_without_labels_a_drop_names_the_command_that_labels_the_pairs() -> None:
    now, before = run_and_baseline(FALLING, RISING, UNLABELLED)

    _, check = verdict_and_drop(now, before)

    assert check.plan is not None
    assert (check.plan.labels, check.plan.pairs) == (0, SIZE)
    assert check.plan.command.startswith("ragbench label run --against base -m support -n 40 ")


def test_four_labelled_pairs_are_too_few_to_correct_the_judge() -> None:
    four_labels = [1.0] * 4 + UNLABELLED[4:]
    now, before = run_and_baseline(FALLING, RISING, four_labels)

    _, check = verdict_and_drop(now, before)

    assert check.is_opinion


# --- people decide


@pytest.mark.parametrize(
    ("people_now", "outcome", "corrected"),
    [
        pytest.param(ALL_ONE, "passed", 0.0, id="people see no loss"),
        pytest.param(RISING, "failed", -0.5, id="people see the same loss"),
        pytest.param(
            ONE_OF_TEN_LOST,
            "inconclusive",
            -0.1,
            id="one of ten labelled pairs is lost",
        ),
        pytest.param(
            [0.0] * 10 + UNLABELLED[10:],
            "failed",
            -1.0,
            id="all ten labelled pairs are lost",
        ),
    ],
)
def test_people_decide_where_the_judge_sees_a_loss_of_a_half(
    people_now: list[float | None], outcome: str, corrected: float
) -> None:
    now, before = run_and_baseline(ALL_HALF, ALL_ONE, people_now)

    _, check = verdict_and_drop(now, before)

    assert check.outcome == outcome
    assert check.drop is not None
    assert check.drop.difference == pytest.approx(corrected)
    assert check.corrected is not None
    assert check.corrected.judged == pytest.approx(-0.5)
    assert not check.is_opinion
    assert check.label == "support (people)"


def test_people_are_asked_for_more_labels_where_theirs_do_not_decide() -> None:
    now, before = run_and_baseline(ALL_HALF, ALL_ONE, ONE_OF_TEN_LOST)

    verdict, check = verdict_and_drop(now, before)

    assert check.plan is not None
    assert "Ask people: ragbench label" in verdict.headline


def test_people_are_not_asked_for_more_labels_where_theirs_decide() -> None:
    now, before = run_and_baseline(ALL_HALF, ALL_ONE, RISING)

    verdict, check = verdict_and_drop(now, before)

    assert check.plan is None
    assert "Ask people: ragbench label" not in verdict.headline


def test_of_a_metric_where_lower_is_better_a_lower_label_is_a_gain() -> None:
    """People labelled each answer with 1 before, and every second one with 0 now."""
    now, before = run_and_baseline(ALL_HALF, ALL_HALF, RISING, Direction.LOWER)

    _, check = verdict_and_drop(now, before)

    assert check.outcome is PASSED
    assert check.drop is not None
    assert check.drop.rises
    assert check.drop.difference == pytest.approx(-0.5)
    assert check.drop.better == SIZE // 2


def test_pairs_of_the_same_answers_need_no_label() -> None:
    """Ten answers are new and labelled, and thirty are the baseline's."""
    ten_labels = [1.0] * 10 + UNLABELLED[10:]
    now, before = run_and_baseline(ALL_HALF, ALL_HALF, ten_labels)
    cases = list(now.cases)
    for row in range(10, SIZE):
        answer_before = f"base {cases[row].id}"
        cases[row] = replace(cases[row], judged=("q", answer_before, None))

    _, check = verdict_and_drop(with_cases(now, cases), before)

    assert check.outcome is PASSED
    assert check.corrected is not None
    assert (check.corrected.labels, check.corrected.cases) == (10, SIZE)


# --- a floor


def test_a_floor_is_held_against_the_labels_of_people() -> None:
    now = judged_run("run", [0.9] * SIZE, RISING, Direction.HIGHER)

    verdict = gate(now, None, config(support={"minimum": 0.8}))

    (check,) = checks_of_kind(verdict, CheckKind.FLOOR)
    assert check.outcome is FAILED
    assert check.observed == pytest.approx(0.5)
    assert "By people, from 40 labelled cases; uncorrected 0.900" in check.reason


def test_without_labels_a_floor_is_held_against_the_judge_s_opinion() -> None:
    now = judged_run("run", [0.9] * SIZE, UNLABELLED, Direction.HIGHER)

    verdict = gate(now, None, config(support={"minimum": 0.8}))

    (check,) = checks_of_kind(verdict, CheckKind.FLOOR)
    assert check.observed == pytest.approx(0.9)
    assert "judge's opinion, unproved" in check.reason


def test_a_gain_by_people_is_no_open_loss() -> None:
    # A judge sees no difference; people find the answers of the run a little better, and too few
    # of them are labelled to rule a loss out: 7 of 13 are right now, 6 of 13 were before.
    labels_now = FALLING[:13] + UNLABELLED[13:]
    labels_before = RISING[:13] + UNLABELLED[13:]
    now = judged_run("run", RISING, labels_now, Direction.HIGHER)
    before = judged_run("base", RISING, labels_before, Direction.HIGHER)

    verdict = gate(now, before, config({"baseline": "base"}, support={"max_drop": 0.001}))

    (check,) = checks_of_kind(verdict, CheckKind.DROP)
    assert check.drop is not None
    assert check.drop.loss < 0.0
    assert (check.outcome, check.ground) == (PASSED, Ground.NOT_LOWER)
