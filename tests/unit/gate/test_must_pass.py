"""Cases that must pass, each of them: which are lost, and what asking again says of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError
from ragbench.gate.config import Undecided
from ragbench.gate.gate import gate
from ragbench.verbs.settle import lost_once, with_must_pass
from tests.unit.gate.builders import Score, column, run, with_cases
from tests.unit.gate.verdicts import CANNOT_TELL, FAILED, PASSED, checks_of_kind

RECALL = column("recall@5")
ANSWER = column("answer_correct", group="generator")
GOLDEN_MUST_PASS = GateConfig(must_pass=("tag:golden",))


def golden_run(recall: Sequence[Score], answers: Sequence[Score]) -> RunScores:
    """A run whose first three cases have the tag golden."""
    untagged = run({"recall@5": recall, "answer_correct": answers}, RECALL, ANSWER)
    cases = list(untagged.cases)
    golden = [replace(case, tags=("golden",)) for case in cases[:3]]
    return with_cases(untagged, [*golden, *cases[3:]])


def with_first_case(scores: RunScores, **changes: Any) -> RunScores:
    """The run with these changes of its first case."""
    q1, *others = scores.cases
    return with_cases(scores, [replace(q1, **changes), *others])


def must_pass_check(now: RunScores, before: RunScores | None, *selectors: str) -> GateCheck:
    """The check on the cases that these selectors name."""
    verdict = gate(now, before, GateConfig(max_error_rate=1.0, must_pass=selectors))
    (check,) = checks_of_kind(verdict, CheckKind.MUST_PASS)
    return check


ALL_RIGHT = golden_run([1.0] * 40, [1.0] * 40)
Q2_WRONG = golden_run([1.0] * 40, [1.0, 0.4, *[1.0] * 38])


# --- lost once, or most times


def test_a_lost_case_fails_nothing_where_no_case_must_pass() -> None:
    assert gate(Q2_WRONG, ALL_RIGHT, GateConfig()).outcome is PASSED


def test_a_case_that_was_lost_once_is_named_and_may_be_chance() -> None:
    verdict = gate(Q2_WRONG, ALL_RIGHT, GOLDEN_MUST_PASS)

    assert (verdict.outcome, verdict.colour) == (PASSED, "yellow")
    assert verdict.headline == (
        "not shown, and not ruled out: must pass 1 of 3 cases lost: q2 (answer_correct 1.000, "
        "now 0.400), which chance may explain: asked three times, most of them decide"
    )


def test_a_case_that_was_lost_once_blocks_when_strict() -> None:
    strict = replace(GOLDEN_MUST_PASS, undecided=Undecided.INCONCLUSIVE)

    assert gate(Q2_WRONG, ALL_RIGHT, strict).outcome is CANNOT_TELL


def test_a_lost_case_that_need_not_pass_is_not_named() -> None:
    assert must_pass_check(Q2_WRONG, ALL_RIGHT, "q1", "q3").outcome is PASSED


def test_a_case_that_was_lost_two_of_three_times_fails_the_gate() -> None:
    wrong, right = Cell.measured(0.0), Cell.measured(1.0)
    answers = Repeats(cells=(wrong, wrong, right))
    q1, q2, *others = Q2_WRONG.cases
    q2_asked_thrice = replace(q2, repeats={"answer_correct": answers})
    now = with_cases(Q2_WRONG, [q1, q2_asked_thrice, *others])

    verdict = gate(now, ALL_RIGHT, GOLDEN_MUST_PASS)

    assert verdict.outcome is FAILED
    assert verdict.headline == ("must pass 1 of 3 cases lost: q2 (answer_correct 1.000, now 0.400)")


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        pytest.param([1.0, 1.0], PASSED, id="lost once of three times"),
        pytest.param([1.0, 0.0], FAILED, id="lost twice"),
        pytest.param([0.0, 0.0], FAILED, id="lost each time"),
    ],
)
def test_a_case_that_was_lost_once_is_asked_twice_more_and_most_decide(
    answers: list[float], outcome: GateOutcome
) -> None:
    demands = GateConfig(must_pass=("q2",))
    verdict = gate(Q2_WRONG, ALL_RIGHT, demands)
    assert lost_once(verdict) == ["q2"]

    scores = {"recall@5": [1.0, 1.0], "answer_correct": answers}
    asked_twice = run(scores, RECALL, ANSWER)
    once, once_more = asked_twice.cases
    cases_by_number = [replace(once, id="0"), replace(once_more, id="1")]
    settled = with_must_pass(verdict, with_cases(asked_twice, cases_by_number), demands)

    assert settled.outcome is outcome
    assert settled.is_warned is False


@pytest.mark.parametrize(
    ("right", "is_lost"),
    [
        pytest.param(1, True, id="right once"),
        # Its mean lies at the threshold, which passes.
        pytest.param(2, False, id="right half of the time"),
        pytest.param(3, False, id="right three times"),
    ],
)
def test_of_a_case_that_was_asked_four_times_most_times_decide(right: int, is_lost: bool) -> None:
    right_cells = [Cell.measured(1.0)] * right
    wrong_cells = [Cell.measured(0.0)] * (4 - right)
    answers = Repeats(cells=(*right_cells, *wrong_cells))
    mean_of_q1 = right / 4
    without_repeats = golden_run([1.0, 1.0, 1.0], [mean_of_q1, 1.0, 1.0])
    now = with_first_case(without_repeats, repeats={"answer_correct": answers})

    check = must_pass_check(now, ALL_RIGHT, "q1")

    assert bool(check.lost) is is_lost


# --- which cases are lost


@pytest.mark.parametrize(
    ("recall", "answer", "lost"),
    [
        pytest.param(1.0, 0.5, [], id="half of the scale passes"),
        pytest.param(0.4, 1.0, ["q1"], id="each of the main metrics must pass"),
        pytest.param(1.0, "abstained", ["q1"], id="declined"),
        pytest.param(1.0, "failed", ["q1"], id="failed"),
        pytest.param("skipped", 1.0, [], id="a metric that does not apply"),
    ],
)
def test_without_a_baseline_a_case_is_lost_when_it_fails(
    recall: Score, answer: Score, lost: list[str]
) -> None:
    now = golden_run([recall, 1.0, 1.0], [answer, 1.0, 1.0])

    check = must_pass_check(now, None, "tag:golden")

    assert [change.id for change in check.lost] == lost


ANSWERED_WRONGLY_BEFORE = golden_run([1.0, 1.0, 1.0], [0.0, 1.0, 1.0])


def test_a_case_that_failed_before_as_well_is_counted_and_not_lost() -> None:
    check = must_pass_check(ANSWERED_WRONGLY_BEFORE, ANSWERED_WRONGLY_BEFORE, "tag:golden")

    assert check.lost == ()
    assert check.failed_before == 1
    assert "; 1 fail as before" in check.reason


def test_a_case_that_failed_before_is_lost_when_it_fails_in_one_more_way() -> None:
    now = golden_run([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])

    check = must_pass_check(now, ANSWERED_WRONGLY_BEFORE, "tag:golden")

    assert [change.id for change in check.lost] == ["q1"]
    assert check.failed_before == 0
    assert "; 1 fail as before" not in check.reason


def test_a_case_that_fails_is_lost_where_it_was_not_measured_before() -> None:
    now = golden_run([0.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    before = golden_run(["skipped", 1.0, 1.0], [1.0, 1.0, 1.0])

    check = must_pass_check(now, before, "tag:golden")

    assert [change.id for change in check.lost] == ["q1"]


def test_a_question_that_was_edited_since_is_a_new_one_which_must_pass() -> None:
    before = with_first_case(ANSWERED_WRONGLY_BEFORE, fingerprint="edited")

    check = must_pass_check(ANSWERED_WRONGLY_BEFORE, before, "tag:golden")

    assert [change.id for change in check.lost] == ["q1"]


def test_a_case_that_lost_its_tag_must_still_pass() -> None:
    untagged = [replace(case, tags=()) for case in ALL_RIGHT.cases]
    now = with_cases(ALL_RIGHT, untagged)

    check = must_pass_check(now, ALL_RIGHT, "tag:golden")

    assert check.cases == 3


@pytest.mark.parametrize("selector", ["tag:golden", "q1"])
def test_a_case_that_is_gone_is_lost(selector: str) -> None:
    _, *others = ALL_RIGHT.cases
    now = with_cases(ALL_RIGHT, others)

    check = must_pass_check(now, ALL_RIGHT, selector)

    assert check.outcome is FAILED
    assert [change.id for change in check.lost] == ["q1"]
    assert "q1 (not in this run)" in check.summary


def test_a_case_that_is_gone_is_lost_where_the_others_lost_their_tag() -> None:
    untagged = [replace(case, tags=()) for case in ALL_RIGHT.cases]
    now = with_cases(ALL_RIGHT, untagged[1:])

    check = must_pass_check(now, ALL_RIGHT, "tag:golden")

    assert check.summary == "1 of 3 cases lost: q1 (not in this run)"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("tag:gold", "'tag:gold' names no case of this run"),
        ("q111", "Did you mean 'q11'?"),
        ("language:de", "names no case"),
        ("q4", "q4: none of answer_correct, recall@5 decides whether it passes"),
    ],
)
def test_a_selector_that_can_never_be_judged_is_an_error(selector: str, message: str) -> None:
    skipped_q4: list[Score] = [1.0] * 3 + ["skipped"] + [1.0] * 36
    now = golden_run(skipped_q4, skipped_q4)

    with pytest.raises(ConfigError, match=re.escape(message)):
        must_pass_check(now, ALL_RIGHT, selector)
