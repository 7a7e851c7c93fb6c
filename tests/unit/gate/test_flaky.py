"""Unstable cases."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import RunScores, ScoredCase
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.flaky import (
    flakiness,
)
from tests.unit.gate.builders import column, run, run_of

SYSTEM = {"rag": "r", "settings": "s"}


def one(scores: list[Any], **facts: Any) -> RunScores:
    return run({"recall@5": scores}, **{"fingerprints": SYSTEM, **facts})


def test_flips_that_can_be_counted_by_hand() -> None:
    found = flakiness(
        [one([1.0, 1.0, 0.0, 0.9]), one([1.0, 0.0, 0.0, 0.6]), one([1.0, 1.0, 0.0, 0.4])]
    )
    assert [case.id for case in found.unstable] == ["q2", "q4"]
    assert [case.flips for case in found.unstable] == pytest.approx([2 / 3, 2 / 3])
    (subject,) = found.unstable[1].subjects
    assert (subject.passed, subject.failed, subject.outcomes) == (2, 1, (0.9, 0.6, 0.4))
    # The interval of 2 of 3 by Clopper & Pearson 1934.
    assert subject.pass_rate.low == pytest.approx(0.0943, abs=1e-4)
    assert subject.pass_rate.high == pytest.approx(0.9916, abs=1e-4)
    assert found.flip_rate == pytest.approx((2 / 3 + 2 / 3) / 4)
    assert found.flip_interval is not None
    assert found.flip_interval.low <= found.flip_rate <= found.flip_interval.high


def test_a_stage_that_fails_now_and_then_is_unstable() -> None:
    def case(status: Status) -> ScoredCase:
        cell = Cell.measured(1.0) if status is Status.MEASURED else Cell(status=Status.FAILED)
        return ScoredCase(
            id="q", fingerprint="f", scores={"recall@5": cell}, stages={"retrieve": status}
        )

    runs = [
        run_of([case(status)], column("recall@5"), fingerprints=SYSTEM)
        for status in (Status.MEASURED, Status.FAILED, Status.MEASURED)
    ]
    (unstable,) = flakiness(runs).unstable
    assert [(s.subject, s.outcomes) for s in unstable.subjects] == [
        ("retrieve", ("measured", "failed", "measured"))
    ]


def test_runs_that_agree_have_no_unstable_case_and_a_rate_that_is_not_surely_zero() -> None:
    found = flakiness([one([1.0] * 20), one([0.8] * 20)])
    assert (found.unstable, found.flip_rate) == ((), 0.0)
    assert found.flip_interval is not None
    assert found.flip_interval.high > 0.1


def test_different_systems_are_no_noise() -> None:
    other = one([1.0], fingerprints={**SYSTEM, "rag": "changed"})
    with pytest.raises(RunMismatchError, match="not runs of one unchanged system: their rag"):
        flakiness([one([1.0]), other])
    untold = one([1.0], fingerprints={})
    with pytest.raises(RunMismatchError, match="ragbench compare"):
        flakiness([untold, untold])
    with pytest.raises(ConfigError, match="1 runs"):
        flakiness([one([1.0])])


@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, "skipped"]), min_size=4, max_size=4), min_size=2)
)
def test_flips_are_those_of_all_pairs_in_any_order(table: list[list[Any]]) -> None:
    runs = [one(row) for row in table]
    found = flakiness(runs)
    expected = {}
    for position in range(4):
        cells = [row[position] for row in table]
        pairs = list(combinations(cells, 2))
        differing = [1 for x, y in pairs if "skipped" not in (x, y) and x != y]
        if differing:
            expected[f"q{position + 1}"] = pytest.approx(len(differing) / len(pairs))
    assert {case.id: case.flips for case in found.unstable} == expected
    turned = flakiness(runs[::-1])
    assert [(c.id, c.flips) for c in turned.unstable] == [(c.id, c.flips) for c in found.unstable]
    assert (turned.flip_rate, turned.flip_interval) == (found.flip_rate, found.flip_interval)
