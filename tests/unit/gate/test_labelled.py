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
UNLABELLED: list[float | None] = [None] * SIZE
RISING = [0.0, 1.0] * (SIZE // 2)
FALLING = [1.0, 0.0] * (SIZE // 2)


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
    before = judged_run("base", judge_before, [1.0] * SIZE, direction)
    return now, before


def verdict_and_drop(now: RunScores, before: RunScores) -> tuple[GateResult, GateCheck]:
    verdict = gate(now, before, config({"baseline": "base"}, support={"max_drop": 0.1}))
    (check,) = checks_of_kind(verdict, CheckKind.DROP)
    return verdict, check


# --- a judge alone


def test_without_labels_a_drop_is_the_judge_s_opinion() -> None:
    verdict, check = verdict_and_drop(*run_and_baseline(FALLING, RISING, UNLABELLED))

    assert check.is_opinion
    assert check.corrected is None
    assert "; judge's opinion, unproved. Chance that labelled pairs settle it: " in check.reason
    (note,) = [note for note in verdict.notes if note.startswith("support: ")]
    assert note.startswith("support: judge's opinion, unproved.")


def test_without_labels_a_drop_names_the_command_that_labels_the_pairs() -> None:
    _, check = verdict_and_drop(*run_and_baseline(FALLING, RISING, UNLABELLED))

    assert check.plan is not None
    assert (check.plan.labels, check.plan.pairs) == (0, SIZE)
    assert check.plan.command.startswith("ragbench label run --against base -m support -n 40 ")


def test_four_labelled_pairs_are_too_few_to_correct_the_judge() -> None:
    four_labels = [1.0] * 4 + UNLABELLED[4:]

    _, check = verdict_and_drop(*run_and_baseline(FALLING, RISING, four_labels))

    assert check.is_opinion


# --- people decide


@pytest.mark.parametrize(
    ("people_now", "outcome", "corrected"),
    [
        pytest.param([1.0] * SIZE, "passed", 0.0, id="people see no loss"),
        pytest.param(RISING, "failed", -0.5, id="people see the same loss"),
        pytest.param(
            [0.0] + [1.0] * 9 + UNLABELLED[10:],
            "inconclusive",
            -0.1,
            id="one of ten labelled pairs is lost",
        ),
        pytest.param(
            [0.0] * 10 + UNLABELLED[10:], "failed", -1.0, id="all ten labelled pairs are lost"
        ),
    ],
)
def test_people_decide_where_the_judge_sees_a_loss_of_a_half(
    people_now: list[float | None], outcome: str, corrected: float
) -> None:
    runs = run_and_baseline([0.5] * SIZE, [1.0] * SIZE, people_now)

    _, check = verdict_and_drop(*runs)

    assert check.outcome == outcome
    assert check.drop is not None
    assert check.drop.difference == pytest.approx(corrected)
    assert check.corrected is not None
    assert check.corrected.judged == pytest.approx(-0.5)
    assert not check.is_opinion
    assert check.label == "support (people)"


def test_people_are_asked_for_more_labels_where_theirs_do_not_decide() -> None:
    one_of_ten_lost = [0.0] + [1.0] * 9 + UNLABELLED[10:]
    runs = run_and_baseline([0.5] * SIZE, [1.0] * SIZE, one_of_ten_lost)

    verdict, check = verdict_and_drop(*runs)

    assert check.plan is not None
    assert "Ask people: ragbench label" in verdict.headline


def test_people_are_not_asked_for_more_labels_where_theirs_decide() -> None:
    runs = run_and_baseline([0.5] * SIZE, [1.0] * SIZE, RISING)

    verdict, check = verdict_and_drop(*runs)

    assert check.plan is None
    assert "Ask people: ragbench label" not in verdict.headline


def test_of_a_metric_where_lower_is_better_a_lower_label_is_a_gain() -> None:
    """People labelled each answer with 1 before, and every second one with 0 now."""
    judge = [0.5] * SIZE

    _, check = verdict_and_drop(*run_and_baseline(judge, judge, RISING, Direction.LOWER))

    assert check.outcome is PASSED
    assert check.drop is not None
    assert check.drop.rises
    assert check.drop.difference == pytest.approx(-0.5)
    assert check.drop.better == SIZE // 2


def test_pairs_of_the_same_answers_need_no_label() -> None:
    """Ten answers are new and labelled, and thirty are the baseline's."""
    now, before = run_and_baseline([0.5] * SIZE, [0.5] * SIZE, [1.0] * 10 + UNLABELLED[10:])
    cases = list(now.cases)
    same_answers = [replace(case, judged=("q", f"base {case.id}", None)) for case in cases[10:]]

    _, check = verdict_and_drop(with_cases(now, [*cases[:10], *same_answers]), before)

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
    # of them are labelled to rule a loss out.
    people_now: list[float | None] = [*[1.0, 0.0] * 6, 1.0, *[None] * 27]
    now = judged_run("run", RISING, people_now, Direction.HIGHER)
    people_before: list[float | None] = [*[0.0, 1.0] * 6, 0.0, *[None] * 27]
    before = judged_run("base", RISING, people_before, Direction.HIGHER)

    verdict = gate(now, before, config({"baseline": "base"}, support={"max_drop": 0.001}))

    (check,) = checks_of_kind(verdict, CheckKind.DROP)
    assert check.drop is not None and check.drop.loss < 0.0
    assert (check.outcome, check.ground) == (PASSED, Ground.NOT_LOWER)
