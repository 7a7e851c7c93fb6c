"""A baseline of several runs of main: what is averaged, what begins anew, what the gate sees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.run_scores import RunScores
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.baseline_file import baseline_bytes, read_baseline, write_baseline
from ragbench.gate.gate import gate
from ragbench.gate.history import history_of
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.verbs.gate import age_note
from ragbench.views.history import remarks
from tests.unit.gate.builders import SYSTEM, column, config, main_run, run, with_cases


def edited(found: RunScores, *places: int) -> RunScores:
    """The run with other texts of these cases."""
    cases = tuple(
        replace(case, fingerprint="edited") if at in places else case
        for at, case in enumerate(found.cases)
    )
    return with_cases(found, cases)


def noisy(seed: int, *, chance: float = 0.6, cases: int = 80, day: int | None = None) -> RunScores:
    scores = (np.random.default_rng(seed).random(cases) < chance).astype(float)
    return main_run(scores.tolist(), day=seed + 1 if day is None else day, commit=f"c{seed}")


@pytest.mark.parametrize(
    ("rows", "values", "coverage", "written"),
    [
        # Equal ones stay as they are, and stand once in the file.
        (
            [[0.1, 1, 0], [0.1, 0, 0], [0.1, 1, 0]],
            [0.1, pytest.approx(2 / 3), 0.0],
            [1.0] * 3,
            ["0.1", "[1,0,1]", "0"],
        ),
        (
            [[1, "abstained", "skipped"], ["failed", "abstained", "skipped"]],
            [1.0, None, None],
            [0.5, 0.0, math.nan],
            ['[1,"failed"]', '"abstained"'],
        ),
    ],
)
def test_the_scores_are_the_means_of_the_runs_in_the_file_too(
    tmp_path: Path, rows: list[Any], values: list[Any], coverage: list[Any], written: list[str]
) -> None:
    path = tmp_path / "base.json"
    runs = [main_run(row, day=day) for day, row in enumerate(rows, 1)]
    baseline = baseline_of(runs)
    write_baseline(baseline, path)
    again = read_baseline(path)
    assert baseline_bytes(again) == baseline_bytes(baseline)
    for scores in (baseline, again):
        assert list(scores.values("m").values()) == values
        assert scores.cells("m").coverage.tolist() == pytest.approx(coverage, nan_ok=True)
        assert [facts.date for facts in scores.made_of] == [each.date for each in runs]
    text = path.read_text("utf-8")
    for at, score in enumerate(written, 1):
        assert f'"q{at}": {{"fingerprint":"f{at}","scores":{{"m":{score}}}}}' in text


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (('"kept": 2', '"kept": 9'), "keeps 9 of 2 runs"),
        (('"m":[1,0]', '"m":[1,0,1]'), "it lists 3 scores of 2 runs"),
        (('"m":[1,0]', '"m":[1,true]'), "True is not a score"),
        (('"m":[1,0]', '"m":[1,"well"]'), "well"),
        (('"runs": [', '"runs": [3,'), "not a baseline of this ragbench"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: tuple[str, str], message: str) -> None:
    path = tmp_path / "base.json"
    write_baseline(baseline_of([main_run([1], day=1), main_run([0], day=2)]), path)
    path.write_text(path.read_text("utf-8").replace(*damage), "utf-8")
    with pytest.raises(RunMismatchError, match=message):
        read_baseline(path)


def test_the_oldest_run_is_dropped_and_its_mean_is_remembered() -> None:
    baseline = baseline_of([noisy(0)])
    for seed in range(1, 5):
        added = with_run(baseline, noisy(seed), keep=3, alpha=0.001)
        assert not added.changes
        baseline = added.baseline
    assert baseline.kept == 3
    assert [each.commit for each in baseline.runs] == ["c0", "c1", "c2", "c3", "c4"]
    last = [noisy(seed) for seed in (2, 3, 4)]
    of_first = sum(each.values("m")["q1"] or 0.0 for each in last) / 3
    figure = sum(each.metrics[0].score or 0.0 for each in last) / 3
    assert baseline.values("m")["q1"] == pytest.approx(of_first)
    assert baseline.metrics[0].score == pytest.approx(figure)


def test_two_runs_that_are_shown_to_be_better_replace_the_mean_and_one_joins_it(
    tmp_path: Path,
) -> None:
    baseline, path = baseline_of([noisy(0), noisy(1), noisy(2)]), tmp_path / "b.json"
    first = with_run(baseline, noisy(3, chance=0.98))
    assert [change.is_loss for change in first.changes] == [False]
    assert (first.is_first, first.is_held, first.baseline.kept) == (True, False, 4)
    write_baseline(first.baseline, path)
    lucky = with_run(read_baseline(path), noisy(4))
    assert (lucky.changes, lucky.baseline.kept) == ((), 5)  # it was luck
    second = with_run(read_baseline(path), noisy(4, chance=0.98))
    assert [(one.metric, one.is_loss) for one in second.changes] == [("m", False)]
    assert (second.is_first, second.baseline.kept) == (False, 2)
    assert [each.commit for each in second.baseline.made_of] == ["c3", "c4"]


def test_a_worse_run_replaces_the_mean_only_if_it_is_accepted() -> None:
    baseline = baseline_of([noisy(0), noisy(1), noisy(2)])
    added = with_run(baseline, noisy(4, chance=0.1), accept=True)
    assert [change.is_loss for change in added.changes] == [True]
    assert (added.baseline.kept, len(added.baseline.runs), added.is_held) == (1, 4, False)
    assert added.baseline.values("m") == noisy(4, chance=0.1).values("m")


def test_a_run_that_is_shown_to_be_worse_never_lowers_the_baseline(tmp_path: Path) -> None:
    path, worse = tmp_path / "base.json", noisy(3, chance=0.1)
    baseline = baseline_of([noisy(0), noisy(1), noisy(2)])
    added = with_run(baseline, worse)
    (change,) = added.changes
    assert (change.metric, change.is_loss, added.is_held) == ("m", True, True)
    write_baseline(added.baseline, path)
    held = read_baseline(path)
    assert (held.values("m"), held.made_of) == (baseline.values("m"), baseline.made_of)
    assert [each.aside for each in held.runs] == [False] * 3 + [True]
    # The next one is compared with the three, and joins them.
    joined = with_run(held, noisy(5)).baseline
    assert [each.commit for each in joined.made_of] == ["c0", "c1", "c2", "c5"]
    assert with_run(held, worse).is_known
    accepted = with_run(held, worse, accept=True).baseline
    assert (len(accepted.runs), accepted.made_of[0].commit) == (4, "c3")
    assert accepted.values("m") == worse.values("m")


JUDGED = {**SYSTEM, "judge": "other"}
EDITED = {"fingerprints": {**SYSTEM, "dataset": "d2"}}


@pytest.mark.parametrize(
    ("now", "other"),
    [
        (main_run([0] * 12, day=2, fingerprints=JUDGED), "another judge graded it"),
        (
            main_run([1] * 12, day=2, matching="text"),
            "relevant chunks are recognised by text, before by id",
        ),
        (edited(main_run([1] * 12, day=2), *range(12)), "no case is the same"),
    ],
)
def test_another_judge_other_cases_and_another_matching_begin_anew(
    now: RunScores, other: str
) -> None:
    added = with_run(baseline_of([main_run([1] * 12, day=1)]), now)
    assert (added.other, added.changes, added.baseline.kept) == (other, (), 1)


def test_new_edited_and_missing_cases_have_the_scores_of_the_new_run_alone() -> None:
    added = with_run(baseline_of([main_run([1, 0])]), edited(main_run([0, 1, 1], day=2), 1))
    assert added.baseline.values("m") == {"q1": 0.5, "q2": 1.0, "q3": 1.0}
    assert added.baseline.cells("m").coverage.tolist() == [1.0, 1.0, 1.0]
    fewer = with_run(baseline_of([main_run([1, 0, 1])]), main_run([1], day=2))
    assert (fewer.dropped, fewer.baseline.values("m")) == (2, {"q1": 1.0})


def test_the_history_goes_on_over_an_edit_of_the_dataset_by_the_cases_in_common(
    tmp_path: Path,
) -> None:
    """1 1 0 0, then three of these cases and a new one: 1 0 0 0 is a third less on the three."""
    first = baseline_of([main_run([1, 1, 0, 0])])
    second = with_run(first, edited(main_run([1, 0, 0, 0], day=2, **EDITED), 3)).baseline
    third = with_run(second, edited(main_run([0, 0, 0, 0], day=3, **EDITED), 3)).baseline
    assert [dict(each.linked) for each in third.runs] == [{}, {"m": pytest.approx(-1 / 3)}, {}]
    write_baseline(third, tmp_path / "b.json")
    history = history_of(read_baseline(tmp_path / "b.json"))
    assert (history.breaks, history.start) == ((), 0)
    (metric,) = history.metrics
    assert list(metric.figures) == pytest.approx([0.25 + 1 / 3, 0.25, 0.0])
    assert "the dataset was edited at 2026-03-02: runs before" in next(remarks(history))


def test_a_run_without_a_common_case_and_another_judge_still_break_the_history() -> None:
    others = edited(main_run([1, 0], day=2, **EDITED), 0, 1)
    judged = main_run([1, 0], day=2, fingerprints=JUDGED)
    for now, reason in ((others, "other cases"), (judged, "another judge")):
        history = history_of(with_run(baseline_of([main_run([1, 1])]), now).baseline)
        assert [one.reason for one in history.breaks] == [reason]


def test_a_run_is_counted_once_and_two_of_the_same_second_are_two() -> None:
    """Baseline files of older releases date their runs to the second."""
    first, same_second = main_run([1, 0], commit="c"), main_run([1, 1], commit="c")
    baseline = baseline_of([first, main_run([1, 0], day=2)])
    added = with_run(baseline, first)
    assert (added.is_known, added.dropped, added.baseline is baseline) == (True, 0, True)
    assert with_run(baseline, main_run([1, 0], day=2)).is_known
    assert with_run(baseline_of([first]), same_second).baseline.kept == 2
    assert not with_run(baseline, replace(first, fingerprints=JUDGED)).is_known
    with pytest.raises(RunMismatchError, match="give each run once"):
        baseline_of([first, first])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (main_run([1, 0], day=2, matching="text"), "recognised by text, before by id"),
        (main_run([1], day=2), "it has 1 case, the oldest has 2"),
        (run({"n": [1, 0]}, fingerprints=SYSTEM, date="2026-03-02"), "it has other metrics"),
    ],
)
def test_runs_that_differ_make_no_baseline(other: RunScores, message: str) -> None:
    with pytest.raises(RunMismatchError, match=message):
        baseline_of([main_run([1, 0]), other])


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda one: with_run(one, main_run([1, 0], day=2, dataset="other")),
            "of the dataset other",
        ),
        (
            lambda one: with_run(one, main_run([1, 0], day=2, rag="other")),
            "system other.*named for",
        ),
        (lambda _: baseline_of([]), "0 runs"),
        (lambda one: baseline_of([one]), "is a baseline file"),
    ],
)
def test_what_cannot_be_added_is_refused(work: Callable[[Any], object], message: str) -> None:
    with pytest.raises((ConfigError, RunMismatchError), match=message):
        work(baseline_of([main_run([1, 0])]))


def test_the_gate_compares_with_the_mean_and_sees_more() -> None:
    runs = [noisy(seed) for seed in range(5)]
    present = noisy(11)
    seen: list[float] = []
    for count in (1, 5):
        verdict = gate(present, baseline_of(runs[:count]), config(m={"max_drop": 0.02}))
        (drop,) = [check.drop for check in verdict.checks if check.kind is CheckKind.DROP]
        assert drop is not None and drop.detectable_drop is not None
        seen.append(drop.detectable_drop)
        assert verdict.baseline is not None and verdict.baseline.runs == count
    assert seen[1] < 0.85 * seen[0]


def test_a_system_that_declines_at_random_loses_no_coverage() -> None:
    rng = np.random.default_rng(2)

    def declining(day: int) -> RunScores:
        return main_run(["abstained" if one < 0.3 else 1.0 for one in rng.random(200)], day=day)

    baseline = baseline_of([declining(day) for day in range(1, 6)])
    silent = main_run(["abstained"] * 190 + [1.0] * 10, day=7)
    for now, outcome in ((declining(6), GateOutcome.PASSED), (silent, GateOutcome.FAILED)):
        assert gate(now, baseline, config(m={"max_drop": 0.02})).outcome is outcome


@pytest.mark.parametrize(
    ("date", "message"),
    [
        ("2026-03-03T11:00:00+00:00", "2026-03-01 to 2026-03-02; the newest is 1 day older"),
        ("2026-09-03T10:00:00+00:00", "185 days older than this run. That is old: add"),
        ("2026-02-01T10:00:00+00:00", "2 runs, 2026-03-01 to 2026-03-02."),
        (None, "2 runs, 2026-03-01 to 2026-03-02."),
    ],
)
def test_the_age_is_that_of_the_newest_run_seen_from_this_one(
    date: str | None, message: str
) -> None:
    baseline = baseline_of([main_run([1], day=1), main_run([1], day=2)])
    note = age_note(main_run([1], date=date), baseline)
    assert note is not None and message in note
    assert ("old:" in note) is ("185" in message)


# --- the edges of what is averaged and what begins anew


def test_only_metrics_that_both_runs_measured_in_one_way_show_a_change() -> None:
    """All twelve cases fell: of a metric of another formula, of no mean, of a new one."""
    ece = column("ece", aggregate="a:b")

    def measured(value: float, day: int, *, version: int, **more: Any) -> RunScores:
        scores = {"m": [1.0] * 12, "recall": [value] * 12, "ece": [value] * 12, **more}
        return run(
            scores,
            column("recall", version=version),
            ece,
            fingerprints=SYSTEM,
            date=f"2026-03-{day:02}",
        )

    baseline = baseline_of([measured(1.0, 1, version=1)])
    added = with_run(baseline, measured(0.0, 2, version=2, new=[0.0] * 12))
    assert (added.changes, added.baseline.kept) == ((), 2)
    assert added.baseline.values("recall") == {f"q{at}": 0.0 for at in range(1, 13)}
    assert [each.scores.get("recall") for each in added.baseline.runs] == [None, 0.0]
    changed = with_run(baseline, measured(0.0, 2, version=1))
    assert [(one.metric, one.before, one.after) for one in changed.changes] == [
        ("recall", 1.0, 0.0)
    ]


def test_only_cases_that_are_the_same_and_measured_in_both_show_a_change() -> None:
    """Of 36 cases 12 fell, 12 were edited, and 12 are measured in one of the two alone."""
    before = main_run([1.0] * 24 + ["failed"] * 6 + [0.25] * 6, day=1)
    now = main_run([0.5] * 12 + [0.0] * 12 + [0.75] * 6 + ["failed"] * 6, day=2)
    now = edited(now, *range(12, 24))
    (change,) = with_run(baseline_of([before]), now).changes
    assert (change.before, change.after) == (1.0, 0.5)
    unmoved = with_cases(now, [*now.cases][12:])
    assert with_run(baseline_of([before]), unmoved).changes == ()


# --- what was asked repeatedly


def repeated(cells: list[list[float]], *, day: int = 1) -> RunScores:
    """A run that asked each case several times."""
    one = main_run([sum(values) / len(values) for values in cells], day=day)
    cases = tuple(
        replace(case, repeats={"m": Repeats(cells=tuple(map(Cell.measured, values)))})
        for case, values in zip(one.cases, cells, strict=True)
    )
    return with_cases(one, cases)


def drop_check(
    run: RunScores, baseline: RunScores, kind: CheckKind = CheckKind.DROP
) -> tuple[GateCheck, Drop]:
    checks = gate(run, baseline, config(m={"max_drop": 0.0})).checks
    (found,) = [(check, check.drop) for check in checks if check.kind is kind and check.drop]
    return found


def test_losses_that_repeats_explain_are_not_shown_whichever_side_has_them() -> None:
    """Every one of 8 cases falls from .7 to .6: 2^-8, were .7 not the mean of 1 and .4.

    Of 1, .4 and .6 any could have been the new one: against the mean of the others it would move
    by .5, -.45 and -.1. From .8 to the mean of 1 and .4 likewise: it could have been from either.
    """
    two = [main_run([1.0] * 8), main_run([0.4] * 8, day=2)]
    for now, before, moves in (
        (main_run([0.6] * 8, day=3), baseline_of(two), [0.5, -0.45, -0.1]),
        (repeated([[1.0, 0.4]] * 8, day=2), baseline_of([main_run([0.8] * 8)]), [0.5, -0.4, -0.1]),
    ):
        check, drop = drop_check(now, before)
        ways = [sum(way) for way in itertools.product(moves, repeat=8)]
        share = sum(way <= -0.8 + 1e-9 for way in ways) / len(ways)
        assert drop.p_worse == pytest.approx(share, abs=0.01)
        assert check.outcome is GateOutcome.INCONCLUSIVE
        assert with_run(before, now).changes == ()
    now, once = main_run([0.6] * 8, day=3), main_run([0.7] * 8)
    alone, drop = drop_check(now, once)
    assert (drop.p_worse, alone.outcome) == (2.0**-8, GateOutcome.FAILED)
    assert with_run(baseline_of([once]), now).changes


def test_what_is_skipped_now_in_all_cases_is_lost_coverage_of_repeats_too() -> None:
    """Ten cases were measured twice; now the metric applies to none: as if none were measured."""
    before = baseline_of([main_run([1.0] * 10, day=day) for day in (1, 2)])
    check, drop = drop_check(main_run(["skipped"] * 10, day=3), before, CheckKind.COVERAGE)
    assert (drop.before, drop.after, check.ground) == (1.0, 0.0, Ground.SHOWN)


def test_what_is_remembered_of_a_case_follows_it_to_its_new_id() -> None:
    """A row was inserted where ids count rows: no case is taken for its neighbour."""

    def rows(day: int, *scores: float, ids: int = 0) -> RunScores:
        found = main_run(list(scores), day=day, fingerprints={**SYSTEM, "dataset": f"d{ids}"})
        moved = (replace(case, id=f"q{at + ids}") for at, case in enumerate(found.cases, 1))
        return with_cases(found, tuple(moved))

    first = with_run(baseline_of([rows(1, 1, 0, 1)]), rows(2, 1, 0, 1)).baseline
    moved = with_run(first, rows(3, 1, 0, 1, ids=1)).baseline
    assert first.drift is not None and moved.drift is not None
    assert sorted(moved.drift.cases) == ["q2", "q3", "q4"]
    assert moved.drift.metrics[0].steps == (0.0, 0.0)
    assert moved.drift.cases["q3"]["m"][0] == first.drift.cases["q2"]["m"][0]
    assert (moved.kept, moved.runs[-1].linked) == (3, {"m": 0.0})
