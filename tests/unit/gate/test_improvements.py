"""An improved run is neither warned of nor held up by limits on losses."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench.core.gate_result import GateCheck, GateOutcome, GateResult, Ground, Settled
from ragbench.core.record import replace
from ragbench.gate.config import GateConfig, Undecided
from ragbench.gate.gate import gate
from ragbench.views.gate import github_annotations
from tests.unit.gate.builders import Score, column, config, run

PAIRS = 200


def checks_by_subject(verdict: GateResult) -> dict[str, GateCheck]:
    return {check.subject: check for check in verdict.checks if check.slice is None}


@pytest.mark.parametrize("undecided", [Undecided.PASS, Undecided.INCONCLUSIVE])
def test_no_improved_pair_is_warned_of_or_inconclusive(undecided: Undecided) -> None:
    """Each case is drawn anew; the mean of the run is better, most often by less than is shown."""
    rng = np.random.default_rng(59)
    demands = config({"undecided": undecided}, m={"max_drop": 0.02})
    words: list[str] = []
    for _ in range(PAIRS):
        before = rng.random(60)
        moves = rng.normal(0.02, 0.2, 60)
        now = np.clip(before + moves, 0.0, 1.0)
        if now.mean() <= before.mean():
            before, now = now, before

        run_before = run({"m": before.tolist()})
        run_now = run({"m": now.tolist()})
        words.append(gate(run_now, run_before, demands).word)

    assert words == ["passed"] * PAIRS


def verdict_of(before: list[float], now: list[float], *, max_drop: float) -> GateResult:
    return gate(run({"m": now}), run({"m": before}), config(m={"max_drop": max_drop}))


def noisy_system() -> tuple[list[float], list[float]]:
    """Scores before and now whose loss of .05 is likely, and not shown on 40 cases."""
    before = [1.0] * 30 + [0.0] * 10
    of_the_right_now = [1.0] * 25 + [0.0] * 5
    of_the_wrong_now = [0.0] * 7 + [1.0] * 3
    return before, of_the_right_now + of_the_wrong_now


WRONG_ANSWERS_DECLINED_NOW = 4
TWENTY_OF_36_RIGHT = [1.0] * 20 + [0.0] * 16
THIRTY_OF_36_RIGHT = [1.0] * 30 + [0.0] * 6


def refusing_system(answers_before: list[float], answers_now: list[float]) -> GateResult:
    """The gate of a system that declines, of forty cases, four that it answered wrongly before."""
    correct = column("answer_correct", group="generator")
    declining = column("abstention_accuracy", group="overall")
    wrong = [0.0] * WRONG_ANSWERS_DECLINED_NOW
    declined: list[Score] = ["abstained"] * WRONG_ANSWERS_DECLINED_NOW
    others = [1.0] * len(answers_now)
    scores_before: dict[str, list[Score]] = {
        "answer_correct": [*answers_before, *wrong],
        "abstention_accuracy": [1.0] * (len(others) + len(wrong)),
    }
    scores_now: dict[str, list[Score]] = {
        "answer_correct": [*answers_now, *declined],
        "abstention_accuracy": [*others, *wrong],
    }
    before = run(scores_before, correct, declining)
    now = run(scores_now, correct, declining)
    return gate(now, before, GateConfig(baseline="main"))


def test_refusals_of_what_was_wrong_before_are_no_warning_beside_better_answers() -> None:
    # Of the 36 cases that are still answered, ten more are right.
    verdict = refusing_system(TWENTY_OF_36_RIGHT, THIRTY_OF_36_RIGHT)

    answered = checks_by_subject(verdict)["answered"]
    assert answered.ground is Ground.OUTWEIGHED
    assert answered.outcome is GateOutcome.INCONCLUSIVE
    assert verdict.word == "passed"


def test_the_same_refusals_are_a_warning_where_nothing_else_became_better() -> None:
    verdict = refusing_system(TWENTY_OF_36_RIGHT, TWENTY_OF_36_RIGHT)

    answered = checks_by_subject(verdict)["answered"]
    assert answered.is_warning
    assert verdict.word == "passed with a warning"


def test_a_likely_loss_is_no_warning_once_asking_again_has_shown_a_gain() -> None:
    before, now = noisy_system()
    verdict = verdict_of(before, now, max_drop=0.0)
    check = checks_by_subject(verdict)["m"]
    gain = Settled(
        change="open",
        asked=400,
        cases=40,
        unmeasured=0,
        drop=-0.01,
        p_worse=1.0,
        p_not_worse=0.3,
        level=0.025,
    )

    settled = replace(check, settled=gain)

    assert check.drop is not None
    assert check.drop.loss > 0.0
    assert not settled.is_warning


def test_what_passes_without_a_warning_is_annotated_as_a_notice() -> None:
    before = [1.0, 0.0] * 20
    now = [0.0, 1.0] * 6 + [1.0, 0.0] * 14
    verdict = verdict_of(before, now, max_drop=0.02)

    annotations = github_annotations(verdict)

    assert verdict.word == "passed"
    assert checks_by_subject(verdict)["m"].outcome is GateOutcome.INCONCLUSIVE
    assert "::notice title=ragbench m::" in annotations
    assert "::warning" not in annotations
