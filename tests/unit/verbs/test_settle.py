"""An undecided gate to a decided one, with systems that are functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ragbench import GateConfig
from ragbench.core.gate_result import GateOutcome, GateResult, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.gate import gate
from ragbench.verbs.settle import settle
from tests.unit.gate.builders import column, config, run, with_cases

# --- a drop of .05 that neither holds nor fails


def undecided(direction: Direction) -> tuple[RunScores, RunScores, GateConfig]:
    """Forty cases, five of them won and five lost: this run, the baseline and the rules."""
    metric = column("m", direction=direction)
    baseline = run({"m": [1.0, 0.0] * 20}, metric)
    current = run({"m": [0.0, 1.0] * 5 + [1.0, 0.0] * 15}, metric)
    return current, baseline, config({"alpha": 0.025}, m={"max_drop": 0.05})


Ask = Callable[..., tuple[RunScores, RunScores]]
"""Draws cases and scores them: those of the baseline, then those of this run."""


def numbered(scores: RunScores) -> RunScores:
    """The same with the ids 0, 1 and so on."""
    cases = [replace(case, id=str(number)) for number, case in enumerate(scores.cases)]
    return with_cases(scores, cases)


def systems(baseline: float, current: float) -> Ask:
    """Two systems that are right with these chances, whatever they are asked."""
    draw = random.Random(3)

    def ask(_: int, __: Sequence[str], drawn: Sequence[str]) -> tuple[RunScores, RunScores]:
        baseline_scores = [float(draw.random() < baseline) for _ in drawn]
        current_scores = [float(draw.random() < current) for _ in drawn]
        baseline_run = run({"m": baseline_scores})
        current_run = run({"m": current_scores})
        return numbered(baseline_run), numbered(current_run)

    return ask


def settled(direction: Direction, ask: Ask) -> GateResult:
    """The verdict after the questions that settle the one open drop."""
    current, baseline, rules = undecided(direction)
    verdict = gate(current, baseline, rules)
    open_drops = [check for check in verdict.checks if check.is_open_drop]
    assert len(open_drops) == 1
    return settle(verdict, current, baseline, rules, ask, most=4_000)


@pytest.mark.parametrize(
    ("direction", "baseline", "current"),
    [
        pytest.param(Direction.HIGHER, 0.8, 0.4, id="higher is better"),
        pytest.param(Direction.LOWER, 0.2, 0.7, id="lower is better"),
    ],
)
def test_a_system_that_is_worse_fails(
    direction: Direction, baseline: float, current: float
) -> None:
    verdict = settled(direction, systems(baseline, current))

    (check,) = [check for check in verdict.checks if check.ground is Ground.SETTLED_WORSE]
    assert verdict.outcome is GateOutcome.FAILED
    assert check.settled is not None
    assert check.settled.drop == pytest.approx(abs(baseline - current), abs=0.15)
    assert "undecided" not in verdict.headline


@pytest.mark.parametrize(
    ("direction", "baseline", "current", "drop"),
    [
        pytest.param(Direction.HIGHER, 0.95, 0.95, 0.0, id="higher is better"),
        pytest.param(Direction.LOWER, 0.7, 0.1, -0.6, id="lower is better"),
    ],
)
def test_a_system_that_is_not_worse_passes(
    direction: Direction, baseline: float, current: float, drop: float
) -> None:
    verdict = settled(direction, systems(baseline, current))

    (check,) = [check for check in verdict.checks if check.ground is Ground.SETTLED_NOT_WORSE]
    assert verdict.outcome is GateOutcome.PASSED
    assert check.settled is not None
    assert check.settled.drop == pytest.approx(drop, abs=0.15)
    assert "undecided" not in verdict.headline


# --- other verdicts


def test_nothing_is_asked_where_nothing_is_open() -> None:
    def must_not_be_asked(*_: object) -> tuple[RunScores, RunScores]:
        raise AssertionError("asked")

    baseline = run({"m": [1.0] * 20})
    current = run({"m": [0.0] * 20})
    rules = config(m={"max_drop": 0.05})
    verdict = gate(current, baseline, rules)

    result = settle(verdict, current, baseline, rules, must_not_be_asked, most=10)

    assert result == verdict


@pytest.mark.parametrize(
    ("chance", "exit_code"),
    [pytest.param(0.1, 1, id="it is worse"), pytest.param(0.6, 0, id="it is as good")],
)
def test_a_total_loss_on_few_documents_is_settled_too(chance: float, exit_code: int) -> None:
    """One of four had been right, and none is now: chance may explain it, and does not pass."""
    baseline = run({"m": [1.0, 0.0, 0.0, 0.0]})
    current = run({"m": [0.0, 0.0, 0.0, 0.0]})
    rules = config({"alpha": 0.025}, m={"max_drop": 0.2})
    verdict = gate(current, baseline, rules)
    assert verdict.outcome.exit_code == 3

    result = settle(verdict, current, baseline, rules, systems(0.6, chance), most=4_000)

    assert result.outcome.exit_code == exit_code
