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

CASES = 40


def undecided(direction: Direction) -> tuple[RunScores, RunScores, GateConfig]:
    """Five cases won, five lost: nothing can be said of a drop of .05."""
    metric = column("m", direction=direction)
    before = run({"m": [1.0, 0.0] * (CASES // 2)}, metric)
    now = run({"m": [0.0, 1.0] * 5 + [1.0, 0.0] * (CASES // 2 - 5)}, metric)
    return now, before, config({"alpha": 0.025}, m={"max_drop": 0.05})


def asked(before: float, now: float) -> Callable[..., tuple[RunScores, RunScores]]:
    """Systems that are right with these chances, whatever they are asked."""
    draw = random.Random(3)

    def ask(_: int, __: Sequence[str], drawn: Sequence[str]) -> tuple[RunScores, RunScores]:
        pair: list[RunScores] = []
        for chance in (before, now):
            scores = [float(draw.random() < chance) for _ in drawn]
            found = run({"m": scores})
            cases = (replace(case, id=str(at)) for at, case in enumerate(found.cases))
            pair.append(with_cases(found, cases))
        return pair[0], pair[1]

    return ask


def settled(before: float, now: float, *, direction: Direction) -> GateResult:
    after, earlier, wanted = undecided(direction)
    verdict = gate(after, earlier, wanted)
    assert [check.is_open_drop for check in verdict.checks].count(True) == 1
    return settle(verdict, after, earlier, wanted, asked(before, now), most=4_000)


@pytest.mark.parametrize(
    ("before", "now", "direction", "ground"),
    [
        (0.8, 0.4, Direction.HIGHER, Ground.SETTLED_WORSE),
        (0.95, 0.95, Direction.HIGHER, Ground.SETTLED_NOT_WORSE),
        (0.2, 0.7, Direction.LOWER, Ground.SETTLED_WORSE),
        (0.7, 0.1, Direction.LOWER, Ground.SETTLED_NOT_WORSE),
    ],
)
def test_what_was_open_is_settled(
    before: float, now: float, direction: Direction, ground: Ground
) -> None:
    verdict = settled(before, now, direction=direction)
    (check,) = [check for check in verdict.checks if check.ground is ground]
    is_worse = ground is Ground.SETTLED_WORSE
    assert verdict.outcome is (GateOutcome.FAILED if is_worse else GateOutcome.PASSED)
    assert check.settled is not None
    sign = 1 if direction is Direction.HIGHER else -1
    assert check.settled.drop == pytest.approx(sign * (before - now), abs=0.15)
    assert "undecided" not in verdict.headline


def test_nothing_is_asked_where_nothing_is_open() -> None:
    before, now = run({"m": [1.0] * 20}), run({"m": [0.0] * 20})
    wanted = config(m={"max_drop": 0.05})
    verdict = gate(now, before, wanted)

    def never(*_: object) -> tuple[RunScores, RunScores]:
        raise AssertionError("asked")

    assert settle(verdict, now, before, wanted, never, most=10) == verdict


@pytest.mark.parametrize(("now", "code"), [(0.1, 1), (0.6, 0)])
def test_a_total_loss_on_few_documents_is_settled_too(now: float, code: int) -> None:
    """One of four had been right, and none is now: chance may explain it, and does not pass."""
    before, after = run({"m": [1.0, 0.0, 0.0, 0.0]}), run({"m": [0.0] * 4})
    wanted = config({"alpha": 0.025}, m={"max_drop": 0.2})
    verdict = gate(after, before, wanted)
    assert verdict.outcome.exit_code == 3
    found = settle(verdict, after, before, wanted, asked(0.6, now), most=4_000)
    assert found.outcome.exit_code == code
