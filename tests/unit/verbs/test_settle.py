"""An undecided gate to a decided one, with systems that are functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.gate_result import GateOutcome, GateResult, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.gate import gate
from ragbench.verbs.settle import settle
from tests.unit.gate.builders import column, run

CASES = 40


def undecided(direction: Direction = Direction.HIGHER) -> tuple[RunScores, RunScores, GateConfig]:
    """Five cases won, five lost: nothing can be said of a drop of .05."""
    metric = column("m", direction=direction)
    before = run({"m": [1.0, 0.0] * (CASES // 2)}, metric)
    now = run({"m": [0.0, 1.0] * 5 + [1.0, 0.0] * (CASES // 2 - 5)}, metric)
    wanted = MetricGate(limits=FigureLimits(max_drop=0.05))
    return now, before, GateConfig(metrics={"m": wanted}, alpha=0.025)


def asked(before: float, now: float) -> Callable[..., tuple[RunScores, RunScores]]:
    """Systems that are right with these chances, whatever they are asked."""
    draw = random.Random(3)

    def ask(_: int, __: Sequence[str], drawn: Sequence[str]) -> tuple[RunScores, RunScores]:
        pair: list[RunScores] = []
        for chance in (before, now):
            scores = [float(draw.random() < chance) for _ in drawn]
            found = run({"m": scores})
            pair.append(_named(found))
        return pair[0], pair[1]

    return ask


def _named(found: RunScores) -> RunScores:
    cases = tuple(replace(case, id=str(at)) for at, case in enumerate(found.cases))
    return replace(found, cases=cases)


def settled(
    before: float, now: float, *, most: int = 4_000, direction: Direction = Direction.HIGHER
) -> GateResult:
    after, earlier, config = undecided(direction)
    verdict = gate(after, earlier, config)
    assert [check.is_open_drop for check in verdict.checks].count(True) == 1
    return settle(verdict, after, earlier, config, asked(before, now), most=most)


def test_a_true_drop_fails_and_says_how_it_was_found() -> None:
    verdict = settled(0.8, 0.4)
    (check,) = [check for check in verdict.checks if check.ground is Ground.SETTLED_WORSE]
    assert (verdict.outcome, check.outcome) == (GateOutcome.FAILED, GateOutcome.FAILED)
    assert check.settled is not None
    assert check.settled.p_worse <= 0.025
    assert check.settled.drop == pytest.approx(0.4, abs=0.15)
    told = f"asked again {check.settled.asked:,} times about"
    assert told in check.reason
    assert any(told in note for note in verdict.notes)
    assert verdict.headline.startswith("m ")


def test_an_unchanged_system_passes_and_nothing_is_undecided_any_more() -> None:
    verdict = settled(0.95, 0.95)
    (check,) = [check for check in verdict.checks if check.ground is Ground.SETTLED_NOT_WORSE]
    assert (verdict.outcome, check.outcome) == (GateOutcome.PASSED, GateOutcome.PASSED)
    assert "undecided" not in verdict.headline
    assert not any("Undecided" in note for note in verdict.notes)


def test_where_lower_is_better_a_rise_is_the_loss() -> None:
    assert settled(0.2, 0.7, direction=Direction.LOWER).outcome is GateOutcome.FAILED
    assert settled(0.7, 0.1, direction=Direction.LOWER).outcome is GateOutcome.PASSED


def test_a_spent_budget_leaves_it_undecided_and_says_what_was_asked() -> None:
    verdict = settled(0.8, 0.78, most=60)
    (check,) = [check for check in verdict.checks if check.is_open_drop]
    assert verdict.outcome is GateOutcome.PASSED
    assert check.settled is not None
    assert (check.settled.change, check.settled.asked) == ("open", 60)
    assert "1 undecided" in verdict.headline


def test_nothing_is_asked_where_nothing_is_open() -> None:
    before = run({"m": [1.0] * 20})
    now = run({"m": [0.0] * 20})
    config = GateConfig(metrics={"m": MetricGate(limits=FigureLimits(max_drop=0.05))})
    verdict = gate(now, before, config)

    def never(*_: object) -> tuple[RunScores, RunScores]:
        raise AssertionError("asked")

    assert settle(verdict, now, before, config, never, most=10) == verdict
