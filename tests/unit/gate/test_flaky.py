"""Unstable cases, and the quarantine that a gate reads: counted and listed, never silent."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.outcome import Cell, Status
from ragbench.core.run_scores import RunScores, ScoredCase
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.flaky import (
    flakiness,
    quarantine_bytes,
    read_quarantine,
    without_quarantined,
    write_quarantine,
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


def test_a_quarantine_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = flakiness([one([1.0, 0.0]), one([0.0, 0.0])])
    path = tmp_path / "quarantine.json"
    write_quarantine(found, path)
    quarantine = read_quarantine(path)
    assert quarantine.evidence == {"q1": "recall@5 passed in 1 and failed in 1 runs"}
    kept, left_out = without_quarantined(one([1.0, 0.0]), quarantine)
    assert [case.id for case in kept.cases] == ["q2"]
    assert [case.id for case in left_out] == ["q1"]
    assert path.read_bytes() == quarantine_bytes(found)
    assert json.loads(path.read_bytes())["runs"] == ["run", "run"]


def test_a_line_a_case(tmp_path: Path) -> None:
    found = flakiness([one([1.0, 0.0]), one([0.0, 1.0])])
    lines = quarantine_bytes(found).decode().splitlines()
    assert sum('"evidence"' in line for line in lines) == 2
    assert json.loads(quarantine_bytes(flakiness([one([1.0])] * 2)))["cases"] == {}


def test_a_case_that_has_changed_is_no_longer_meant(tmp_path: Path) -> None:
    path = tmp_path / "quarantine.json"
    write_quarantine(flakiness([one([1.0]), one([0.0])]), path)
    changed = one([1.0])
    changed = replace(changed, cases=(replace(changed.cases[0], fingerprint="new"),))
    kept, left_out = without_quarantined(changed, read_quarantine(path))
    assert (len(kept.cases), left_out) == (1, ())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{}", "it lacks 'ragbench_quarantine'"),
        ('{"ragbench_quarantine": 2}', "its format is 2"),
        ('{"ragbench_quarantine": 1}', "it lacks 'cases'"),
        (
            '{"ragbench_quarantine": 1, "cases": {"q": {"fingerprint": "f", "evidence": {}}}}',
            "a case has no evidence",
        ),
        ("[]", "holds no JSON object"),
        ("{", "is not JSON"),
    ],
)
def test_what_is_no_quarantine_is_refused(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "quarantine.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RunMismatchError, match=told):
        read_quarantine(path)
