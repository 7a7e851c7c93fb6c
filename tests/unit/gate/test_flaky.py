"""Unstable cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.origin import Origin, Part
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


# --- the edges of what decides


def test_the_case_that_flips_most_stands_first_and_equal_ones_by_id() -> None:
    """Of four runs q1 differs in 3 of 6 pairs, q2 and q3 in 4 of 6."""
    rows = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    found = flakiness([one(row) for row in rows])
    assert [(case.id, case.flips) for case in found.unstable] == [
        ("q2", 4 / 6),
        ("q3", 4 / 6),
        ("q1", 3 / 6),
    ]
    assert found.flip_rate == pytest.approx((4 + 4 + 3) / 18)
    # The standard error of 4/6, 4/6 and 3/6 is 1/18, and t(2) is 4.3027.
    assert found.flip_interval is not None
    reach = 4.302653 / 18
    assert (found.flip_interval.low, found.flip_interval.high) == pytest.approx(
        (11 / 18 - reach, 11 / 18 + reach)
    )


@pytest.mark.parametrize(("flipping", "end"), [(1, "low"), (3, "high")])
def test_the_interval_of_the_flip_rate_ends_at_the_ends_of_a_share(flipping: int, end: str) -> None:
    """Of four cases one or three flip in 2 of 3 pairs: 1/6 or 1/2, 3.18 standard errors of 1/6."""
    rows = [[1.0] * 4, [0.0] * flipping + [1.0] * (4 - flipping), [1.0] * 4]
    interval = flakiness([one(row) for row in rows]).flip_interval
    assert interval is not None
    assert getattr(interval, end) == {"low": 0.0, "high": 1.0}[end]


def test_the_interval_of_the_flip_rate_is_of_95_percent_and_counts_clusters() -> None:
    """Ten documents of two cases, both cases of one flip: 1/10, as one case of ten would."""
    clusters = [f"d{place // 2}" for place in range(20)]
    steady = flakiness([one([1.0] * 20, clusters=clusters), one([0.0] * 2 + [1.0] * 18)])
    alone = flakiness([one([1.0] * 10), one([0.0] + [1.0] * 9)])
    assert steady.flip_rate == pytest.approx(0.1)
    assert steady.flip_interval is not None
    assert alone.flip_interval is not None
    assert steady.flip_interval.level == 0.95
    assert (steady.flip_interval.low, steady.flip_interval.high) == pytest.approx(
        (alone.flip_interval.low, alone.flip_interval.high)
    )


def test_one_case_has_a_rate_and_no_interval() -> None:
    found = flakiness([one([1.0]), one([0.0])])
    assert (found.flip_rate, found.flip_interval) == (1.0, None)


def test_a_threshold_that_is_not_given_is_the_middle_of_the_scale() -> None:
    runs = [one([1.0, 0.6]), one([1.0, 0.4])]
    assert (flakiness(runs).threshold, len(flakiness(runs).unstable)) == (0.5, 1)
    assert not flakiness(runs, threshold=0.3).unstable


def test_answers_and_lists_that_differ_are_counted_where_they_are_told() -> None:
    def told(response: str, ids: tuple[str, ...] | None, query: str | None, value: float) -> Any:
        case = ScoredCase(
            id="q",
            fingerprint="f",
            scores={"recall@5": Cell.measured(value)},
            query=query,
            response=response,
            retrieved_ids=ids,
        )
        return run_of([case], column("recall@5"), fingerprints=SYSTEM)

    runs = [told("a", ("x",), "?", 1.0), told("a", ("y",), "?", 0.0), told("b", ("x",), "?", 1.0)]
    (unstable,) = flakiness(runs).unstable
    assert (unstable.responses, unstable.id_lists) == (2, 2)
    (unstable,) = flakiness([*runs, told("c", None, "?", 1.0)]).unstable
    assert (unstable.responses, unstable.id_lists) == (3, None)
    (unstable,) = flakiness([*runs, told("c", ("z",), None, 1.0)]).unstable
    assert (unstable.responses, unstable.id_lists) == (None, None)


def test_what_a_run_does_not_say_of_a_subject_is_unknown_and_stages_come_first() -> None:
    def case(stage: Status | None, value: float) -> ScoredCase:
        stages = {} if stage is None else {"retrieve": stage}
        cell = Cell.measured(value)
        return ScoredCase(id="q", fingerprint="f", scores={"recall@5": cell}, stages=stages)

    runs = [
        run_of([each], column("recall@5"), fingerprints=SYSTEM)
        for each in (case(None, 1.0), case(Status.FAILED, 0.0), case(Status.MEASURED, 1.0))
    ]
    (unstable,) = flakiness(runs).unstable
    assert [(one.subject, one.outcomes) for one in unstable.subjects] == [
        ("retrieve", ("unknown", "failed", "measured")),
        ("recall@5", (1.0, 0.0, 1.0)),
    ]
    assert [(one.passed, one.failed) for one in unstable.subjects] == [(1, 1), (2, 1)]


def test_only_what_all_runs_measured_alike_says_whether_a_case_passes() -> None:
    both = run({"recall@5": [1.0, 1.0], "mrr": [1.0, 1.0]}, fingerprints=SYSTEM)
    edited = run({"recall@5": [0.0, 1.0], "mrr": [0.0, 0.0]}, column("recall@5", version=2),
                 fingerprints=SYSTEM)  # fmt: skip
    assert flakiness([both, edited]).main == ("mrr",)
    assert flakiness([both, run({"mrr": [1.0, 0.0]}, fingerprints=SYSTEM)]).main == ("mrr",)


def test_what_was_left_out_and_what_is_in_doubt_are_noted() -> None:
    assert flakiness([one([1.0], origins=()), one([0.0], origins=())]).notes == (
        "Whether one system gave the runs cannot be told: the answers of run and run are recorded.",
    )
    with pytest.raises(RunMismatchError, match="are of different cases"):
        flakiness([one([1.0]), one([1.0, 0.0])])
    left_out, _ = flakiness([one([1.0]), one([1.0, 0.0])], only_common_cases=True).notes
    assert left_out.startswith("Compared on the 1 cases")


def test_a_change_of_the_system_that_was_seen_is_named() -> None:
    def seen(digest: str) -> RunScores:
        origin = Origin("retrieve", (Part("setting", "top_k", digest, 1, digest),), "closed")
        return replace(one([1.0]), origins=(origin,))

    assert flakiness([seen("5"), seen("5")]).notes == ()
    with pytest.raises(RunMismatchError, match="one unchanged system: top_k: 5 -> 10"):
        flakiness([seen("5"), seen("10")])
