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
from ragbench.gate.baseline_file import Baseline, baseline_bytes, read_baseline, write_baseline
from ragbench.gate.gate import gate
from ragbench.gate.history import history_of
from ragbench.gate.main_runs import baseline_of, with_run
from ragbench.verbs.gate import age_note
from ragbench.views.history import remarks
from tests.unit.gate.builders import SYSTEM, column, config, main_run, run, with_cases

JUDGED = {**SYSTEM, "judge": "other"}
EDITED = {"fingerprints": {**SYSTEM, "dataset": "d2"}}


def edited(run: RunScores, *rows: int) -> RunScores:
    """The run with other texts of the cases in these rows."""
    cases = list(run.cases)
    for row in rows:
        cases[row] = replace(cases[row], fingerprint="edited")
    return with_cases(run, cases)


def noisy(seed: int, *, chance: float = 0.6) -> RunScores:
    """A run of 80 cases, each of which is right with this chance."""
    draws = np.random.default_rng(seed).random(80)
    scores = (draws < chance).astype(float)
    return main_run(scores.tolist(), day=seed + 1, commit=f"c{seed}")


def commits(baseline: Baseline) -> list[str | None]:
    """Of the runs that later ones are compared with, oldest first."""
    return [run.commit for run in baseline.made_of]


def reread(baseline: Baseline, folder: Path) -> Baseline:
    """The baseline as the next command reads it from its file."""
    path = folder / "base.json"
    write_baseline(baseline, path)
    return read_baseline(path)


@pytest.fixture
def three_alike() -> Baseline:
    return baseline_of([noisy(0), noisy(1), noisy(2)])


# --- what is averaged, and how the file says it


THREE_RUNS_OF_WHICH_TWO_CASES_DO_NOT_MOVE = (
    [[0.1, 1, 0], [0.1, 0, 0], [0.1, 1, 0]],
    [0.1, pytest.approx(2 / 3), 0.0],
    [1.0, 1.0, 1.0],
    # Equal scores are written once.
    ["0.1", "[1,0,1]", "0"],
)
TWO_RUNS_WITH_CASES_THAT_HAVE_NO_SCORE = (
    [[1, "abstained", "skipped"], ["failed", "abstained", "skipped"]],
    [1.0, None, None],
    [0.5, 0.0, math.nan],
    ['[1,"failed"]', '"abstained"'],
)


@pytest.mark.parametrize("from_file", [False, True], ids=["in memory", "from its file"])
@pytest.mark.parametrize(
    ("scores", "means", "coverage", "written"),
    [THREE_RUNS_OF_WHICH_TWO_CASES_DO_NOT_MOVE, TWO_RUNS_WITH_CASES_THAT_HAVE_NO_SCORE],
    ids=["all measured", "without scores"],
)
def test_the_scores_of_a_baseline_are_the_means_of_its_runs(
    tmp_path: Path,
    scores: list[Any],
    means: list[Any],
    coverage: list[Any],
    written: list[str],
    from_file: bool,
) -> None:
    runs = [main_run(row, day=day) for day, row in enumerate(scores, 1)]

    baseline = baseline_of(runs)
    if from_file:
        baseline = reread(baseline, tmp_path)

    assert list(baseline.values("m").values()) == means
    assert baseline.cells("m").coverage.tolist() == pytest.approx(coverage, nan_ok=True)
    assert [run.date for run in baseline.made_of] == [run.date for run in runs]
    text = baseline_bytes(baseline).decode()
    for number, score in enumerate(written, 1):
        row = f'"q{number}": {{"fingerprint":"f{number}","scores":{{"m":{score}}}}}'
        assert row in text


def test_a_baseline_that_is_read_and_written_again_has_the_same_bytes(tmp_path: Path) -> None:
    runs = [
        main_run([1, "failed"], day=1),
        main_run([0, 1], day=2),
    ]
    baseline = baseline_of(runs)
    path = tmp_path / "base.json"

    write_baseline(baseline, path)

    written = path.read_bytes()
    assert written == baseline_bytes(baseline)
    assert baseline_bytes(read_baseline(path)) == written


@pytest.mark.parametrize(
    ("intact", "damaged", "message"),
    [
        ('"kept": 2', '"kept": 9', "keeps 9 of 2 runs"),
        ('"m":[1,0]', '"m":[1,0,1]', "it lists 3 scores of 2 runs"),
        ('"m":[1,0]', '"m":[1,true]', "True is not a score"),
        ('"m":[1,0]', '"m":[1,"well"]', "well"),
        ('"runs": [', '"runs": [3,', "not a baseline of this ragbench"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, intact: str, damaged: str, message: str) -> None:
    path = tmp_path / "base.json"
    baseline = baseline_of([main_run([1], day=1), main_run([0], day=2)])
    write_baseline(baseline, path)
    text = path.read_text("utf-8")
    assert intact in text
    path.write_text(text.replace(intact, damaged), "utf-8")

    with pytest.raises(RunMismatchError, match=message):
        read_baseline(path)


def test_the_oldest_run_is_dropped_and_its_mean_is_remembered() -> None:
    baseline = baseline_of([noisy(0)])

    for seed in (1, 2, 3, 4):
        added = with_run(baseline, noisy(seed), keep=3, alpha=0.001)
        assert added.changes == ()
        baseline = added.baseline

    assert baseline.kept == 3
    assert [run.commit for run in baseline.runs] == ["c0", "c1", "c2", "c3", "c4"]
    last_three = [noisy(2), noisy(3), noisy(4)]
    scores_of_q1 = np.array([run.values("m")["q1"] for run in last_three], float)
    assert baseline.values("m")["q1"] == pytest.approx(scores_of_q1.mean())
    figures = np.array([run.metrics[0].score for run in last_three], float)
    assert baseline.metrics[0].score == pytest.approx(figures.mean())


# --- a run that is shown to be better


def test_the_first_run_that_is_shown_to_be_better_joins_the_mean(three_alike: Baseline) -> None:
    added = with_run(three_alike, noisy(3, chance=0.98))

    assert [change.is_loss for change in added.changes] == [False]
    assert added.is_first
    assert not added.is_held
    assert added.baseline.kept == 4


def test_a_better_run_that_the_next_one_does_not_repeat_was_luck(
    tmp_path: Path, three_alike: Baseline
) -> None:
    better = with_run(three_alike, noisy(3, chance=0.98)).baseline

    added = with_run(reread(better, tmp_path), noisy(4))

    assert added.changes == ()
    assert added.baseline.kept == 5


def test_two_runs_in_a_row_that_are_shown_to_be_better_replace_the_mean(
    tmp_path: Path, three_alike: Baseline
) -> None:
    better = with_run(three_alike, noisy(3, chance=0.98)).baseline

    added = with_run(reread(better, tmp_path), noisy(4, chance=0.98))

    (change,) = added.changes
    assert change.metric == "m"
    assert not change.is_loss
    assert not added.is_first
    assert added.baseline.kept == 2
    assert commits(added.baseline) == ["c3", "c4"]


# --- a run that is shown to be worse


def test_a_run_that_is_shown_to_be_worse_never_lowers_the_baseline(
    tmp_path: Path, three_alike: Baseline
) -> None:
    added = with_run(three_alike, noisy(3, chance=0.1))

    (change,) = added.changes
    assert change.metric == "m"
    assert change.is_loss
    assert added.is_held
    baseline = reread(added.baseline, tmp_path)
    assert baseline.values("m") == three_alike.values("m")
    assert baseline.made_of == three_alike.made_of
    assert [run.aside for run in baseline.runs] == [False, False, False, True]


def test_the_run_after_a_worse_one_joins_those_before_it(
    tmp_path: Path, three_alike: Baseline
) -> None:
    with_worse = with_run(three_alike, noisy(3, chance=0.1)).baseline

    added = with_run(reread(with_worse, tmp_path), noisy(5))

    assert commits(added.baseline) == ["c0", "c1", "c2", "c5"]


def test_a_worse_run_that_was_set_aside_is_known_when_it_comes_again(
    tmp_path: Path, three_alike: Baseline
) -> None:
    worse = noisy(3, chance=0.1)
    with_worse = with_run(three_alike, worse).baseline

    assert with_run(reread(with_worse, tmp_path), worse).is_known


def test_a_worse_run_that_was_set_aside_can_be_accepted_later(
    tmp_path: Path, three_alike: Baseline
) -> None:
    worse = noisy(3, chance=0.1)
    with_worse = with_run(three_alike, worse).baseline

    accepted = with_run(reread(with_worse, tmp_path), worse, accept=True).baseline

    assert len(accepted.runs) == 4
    assert accepted.made_of[0].commit == "c3"
    assert accepted.values("m") == worse.values("m")


def test_a_worse_run_that_is_accepted_replaces_the_mean(three_alike: Baseline) -> None:
    worse = noisy(4, chance=0.1)

    added = with_run(three_alike, worse, accept=True)

    assert [change.is_loss for change in added.changes] == [True]
    assert not added.is_held
    assert added.baseline.kept == 1
    assert len(added.baseline.runs) == 4
    assert added.baseline.values("m") == worse.values("m")


# --- what does not compare with the runs before


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            main_run([0] * 12, day=2, fingerprints=JUDGED),
            "another judge graded it",
        ),
        (
            main_run([1] * 12, day=2, matching="text"),
            "relevant chunks are recognised by text, before by id",
        ),
        (
            edited(main_run([1] * 12, day=2), *range(12)),
            "no case is the same",
        ),
    ],
    ids=["another judge", "another matching", "other cases"],
)
def test_a_run_that_does_not_compare_begins_the_baseline_anew(now: RunScores, reason: str) -> None:
    baseline = baseline_of([main_run([1] * 12, day=1)])

    added = with_run(baseline, now)

    assert added.other == reason
    assert added.changes == ()
    assert added.baseline.kept == 1


def test_new_and_edited_cases_have_the_scores_of_the_new_run_alone() -> None:
    """q1 is the same in both runs, the text of q2 was edited, q3 is new."""
    before = baseline_of([main_run([1, 0])])
    now = edited(main_run([0, 1, 1], day=2), 1)

    added = with_run(before, now)

    assert added.baseline.values("m") == {"q1": 0.5, "q2": 1.0, "q3": 1.0}
    assert added.baseline.cells("m").coverage.tolist() == [1.0, 1.0, 1.0]


def test_cases_that_the_new_run_lacks_are_dropped_and_counted() -> None:
    before = baseline_of([main_run([1, 0, 1])])

    added = with_run(before, main_run([1], day=2))

    assert added.dropped == 2
    assert added.baseline.values("m") == {"q1": 1.0}


def test_the_history_goes_on_over_an_edit_of_the_dataset_by_the_cases_in_common(
    tmp_path: Path,
) -> None:
    """1 1 0 0, then three of these cases and a new one: 1 0 0 0 is a third less on the three."""
    before_edit = baseline_of([main_run([1, 1, 0, 0])])
    run_after_edit = edited(main_run([1, 0, 0, 0], day=2, **EDITED), 3)
    after_edit = with_run(before_edit, run_after_edit).baseline
    newest_run = edited(main_run([0, 0, 0, 0], day=3, **EDITED), 3)
    newest = with_run(after_edit, newest_run).baseline

    history = history_of(reread(newest, tmp_path))

    links = [run.linked for run in newest.runs]
    assert links == [{}, {"m": pytest.approx(-1 / 3)}, {}]
    assert history.breaks == ()
    assert history.start == 0
    (metric,) = history.metrics
    assert list(metric.figures) == pytest.approx([0.25 + 1 / 3, 0.25, 0.0])
    assert "the dataset was edited at 2026-03-02: runs before" in next(remarks(history))


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            edited(main_run([1, 0], day=2, **EDITED), 0, 1),
            "other cases",
        ),
        (
            main_run([1, 0], day=2, fingerprints=JUDGED),
            "another judge",
        ),
    ],
    ids=["other cases", "another judge"],
)
def test_a_run_that_does_not_compare_breaks_the_history(now: RunScores, reason: str) -> None:
    before = baseline_of([main_run([1, 1])])
    baseline = with_run(before, now).baseline

    history = history_of(baseline)

    assert [gap.reason for gap in history.breaks] == [reason]


# --- which run is known already


def test_a_run_of_the_baseline_is_not_added_again() -> None:
    oldest = main_run([1, 0])
    newest = main_run([1, 0], day=2)
    baseline = baseline_of([oldest, newest])

    added = with_run(baseline, oldest)

    assert added.is_known
    assert added.dropped == 0
    assert added.baseline is baseline
    assert with_run(baseline, newest).is_known


def test_two_runs_of_the_same_second_are_two() -> None:
    """Baseline files of older releases date their runs to the second."""
    baseline = baseline_of([main_run([1, 0], commit="c")])
    same_second = main_run([1, 1], commit="c")

    added = with_run(baseline, same_second)

    assert added.baseline.kept == 2


def test_a_run_that_another_judge_grades_again_is_not_known() -> None:
    graded = main_run([1, 0], commit="c")
    baseline = baseline_of([graded, main_run([1, 0], day=2)])
    graded_again = replace(graded, fingerprints=JUDGED)

    added = with_run(baseline, graded_again)

    assert not added.is_known


def test_a_baseline_is_not_made_of_the_same_run_twice() -> None:
    twice = main_run([1, 0])

    with pytest.raises(RunMismatchError, match="give each run once"):
        baseline_of([twice, twice])


@pytest.mark.parametrize(
    ("unlike", "message"),
    [
        (
            main_run([1, 0], day=2, matching="text"),
            "recognised by text, before by id",
        ),
        (
            main_run([1], day=2),
            "it has 1 case, the oldest has 2",
        ),
        (
            run({"n": [1, 0]}, fingerprints=SYSTEM, date="2026-03-02"),
            "it has other metrics",
        ),
    ],
    ids=["matching", "cases", "metrics"],
)
def test_runs_that_differ_make_no_baseline(unlike: RunScores, message: str) -> None:
    with pytest.raises(RunMismatchError, match=message):
        baseline_of([main_run([1, 0]), unlike])


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda baseline: with_run(baseline, main_run([1, 0], day=2, dataset="other")),
            "of the dataset other",
        ),
        (
            lambda baseline: with_run(baseline, main_run([1, 0], day=2, rag="other")),
            "system other.*named for",
        ),
        (
            lambda _: baseline_of([]),
            "0 runs",
        ),
        (
            lambda baseline: baseline_of([baseline]),
            "is a baseline file",
        ),
    ],
    ids=["another dataset", "another system", "no run", "a baseline"],
)
def test_what_cannot_be_added_is_refused(add: Callable[[Any], object], message: str) -> None:
    baseline = baseline_of([main_run([1, 0])])

    with pytest.raises((ConfigError, RunMismatchError), match=message):
        add(baseline)


# --- what the gate sees in it


def drop_check(
    now: RunScores, baseline: RunScores, kind: CheckKind = CheckKind.DROP, max_drop: float = 0.0
) -> tuple[GateCheck, Drop]:
    """The only check of this kind that tested a drop, with this drop."""
    verdict = gate(now, baseline, config(m={"max_drop": max_drop}))
    tested: list[tuple[GateCheck, Drop]] = []
    for check in verdict.checks:
        if check.kind is kind and check.drop is not None:
            tested.append((check, check.drop))
    (check_and_drop,) = tested
    return check_and_drop


def test_the_gate_sees_smaller_losses_against_the_mean_of_five_runs_than_of_one() -> None:
    runs = [noisy(0), noisy(1), noisy(2), noisy(3), noisy(4)]
    now = noisy(11)

    _, against_one = drop_check(now, baseline_of(runs[:1]), max_drop=0.02)
    _, against_five = drop_check(now, baseline_of(runs), max_drop=0.02)

    assert against_one.detectable_drop is not None
    assert against_five.detectable_drop is not None
    assert against_five.detectable_drop < 0.85 * against_one.detectable_drop


@pytest.mark.parametrize("count", [1, 5])
def test_the_verdict_says_how_many_runs_the_baseline_has(count: int) -> None:
    baseline = baseline_of([noisy(seed) for seed in range(count)])

    verdict = gate(noisy(11), baseline, config(m={"max_drop": 0.02}))

    assert verdict.baseline is not None
    assert verdict.baseline.runs == count


def declining_at_random(day: int) -> RunScores:
    """A run of 200 cases, of which the system declines three in ten, each day others."""
    draws = np.random.default_rng([2, day]).random(200)
    scores = ["abstained" if draw < 0.3 else 1.0 for draw in draws]
    return main_run(scores, day=day)


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        (
            declining_at_random(6),
            GateOutcome.PASSED,
        ),
        (
            main_run(["abstained"] * 190 + [1.0] * 10, day=7),
            GateOutcome.FAILED,
        ),
    ],
    ids=["declines as before", "declines nearly always"],
)
def test_a_system_that_declines_at_random_loses_no_coverage(
    now: RunScores, outcome: GateOutcome
) -> None:
    baseline = baseline_of([declining_at_random(day) for day in range(1, 6)])

    verdict = gate(now, baseline, config(m={"max_drop": 0.02}))

    assert verdict.outcome is outcome


@pytest.mark.parametrize(
    ("date", "message", "is_old"),
    [
        (
            "2026-03-03T11:00:00+00:00",
            "2026-03-01 to 2026-03-02; the newest is 1 day older",
            False,
        ),
        ("2026-09-03T10:00:00+00:00", "185 days older than this run. That is old: add", True),
        ("2026-02-01T10:00:00+00:00", "2 runs, 2026-03-01 to 2026-03-02.", False),
        (None, "2 runs, 2026-03-01 to 2026-03-02.", False),
    ],
    ids=["a day later", "half a year later", "before the baseline", "without a date"],
)
def test_the_age_is_that_of_the_newest_run_seen_from_this_one(
    date: str | None, message: str, is_old: bool
) -> None:
    baseline = baseline_of([main_run([1], day=1), main_run([1], day=2)])

    note = age_note(main_run([1], date=date), baseline)

    assert note is not None
    assert message in note
    assert ("old:" in note) is is_old


# --- the edges of what is averaged and what begins anew


def three_metrics(value: float, *, day: int, recall_version: int, **more: Any) -> RunScores:
    """Twelve cases of m, of recall and of a metric that is no mean; m stays at 1."""
    scores = {
        "m": [1.0] * 12,
        "recall": [value] * 12,
        "ece": [value] * 12,
        **more,
    }
    return run(
        scores,
        column("recall", version=recall_version),
        column("ece", aggregate="a:b"),
        fingerprints=SYSTEM,
        date=f"2026-03-{day:02}",
    )


def test_a_metric_of_another_formula_one_without_a_mean_and_a_new_one_show_no_change() -> None:
    """All twelve cases fell in each of them."""
    baseline = baseline_of([three_metrics(1.0, day=1, recall_version=1)])
    now = three_metrics(0.0, day=2, recall_version=2, new=[0.0] * 12)

    added = with_run(baseline, now)

    assert added.changes == ()
    assert added.baseline.kept == 2
    recall = added.baseline.values("recall")
    assert len(recall) == 12
    assert set(recall.values()) == {0.0}
    assert [run.scores.get("recall") for run in added.baseline.runs] == [None, 0.0]


def test_a_metric_that_both_runs_measured_in_one_way_shows_its_change() -> None:
    baseline = baseline_of([three_metrics(1.0, day=1, recall_version=1)])

    added = with_run(baseline, three_metrics(0.0, day=2, recall_version=1))

    (change,) = added.changes
    assert change.metric == "recall"
    assert change.before == 1.0
    assert change.after == 0.0


def run_before_and_after_an_edit() -> tuple[RunScores, RunScores]:
    """Of 36 cases 12 fell, 12 were edited, and 12 are measured in one of the two alone."""
    # In this order: those that fell, the edited ones, and those with a score in one run alone.
    scores_before = [1.0] * 12 + [1.0] * 12 + ["failed"] * 6 + [0.25] * 6
    scores_after = [0.5] * 12 + [0.0] * 12 + [0.75] * 6 + ["failed"] * 6
    before = main_run(scores_before, day=1)
    after = main_run(scores_after, day=2)
    return before, edited(after, *range(12, 24))


def test_only_cases_that_are_the_same_and_measured_in_both_runs_show_a_change() -> None:
    before, after = run_before_and_after_an_edit()

    (change,) = with_run(baseline_of([before]), after).changes

    assert change.before == 1.0
    assert change.after == 0.5


def test_edited_cases_and_cases_measured_in_one_run_alone_show_no_change() -> None:
    before, after = run_before_and_after_an_edit()
    without_the_fallen = with_cases(after, list(after.cases)[12:])

    assert with_run(baseline_of([before]), without_the_fallen).changes == ()


# --- what was asked repeatedly


def eight_cases_repeated(*scores: float, day: int) -> RunScores:
    """A run that asked each of eight cases several times, always with these scores."""
    mean = sum(scores) / len(scores)
    run = main_run([mean] * 8, day=day)
    repeats = Repeats(cells=tuple(Cell.measured(score) for score in scores))
    cases = [replace(case, repeats={"m": repeats}) for case in run.cases]
    return with_cases(run, cases)


@pytest.mark.parametrize(
    ("now", "before", "moves"),
    [
        # Of 1, .4 and .6 any could have been the new one: against the mean of the others it
        # would move by .5, -.45 and -.1.
        (
            main_run([0.6] * 8, day=3),
            baseline_of([main_run([1.0] * 8), main_run([0.4] * 8, day=2)]),
            [0.5, -0.45, -0.1],
        ),
        # From .8 to the mean of 1 and .4 likewise: .8 could have been either of them.
        (
            eight_cases_repeated(1.0, 0.4, day=2),
            baseline_of([main_run([0.8] * 8)]),
            [0.5, -0.4, -0.1],
        ),
    ],
    ids=["repeats before", "repeats now"],
)
def test_losses_that_repeats_explain_are_not_shown(
    now: RunScores, before: Baseline, moves: list[float]
) -> None:
    """Every one of 8 cases falls by .1, which is what its repeats differ by at random."""
    check, drop = drop_check(now, before)

    totals = [sum(moves_of_cases) for moves_of_cases in itertools.product(moves, repeat=8)]
    as_low = [total for total in totals if total <= -0.8 + 1e-9]
    assert drop.p_worse == pytest.approx(len(as_low) / len(totals), abs=0.01)
    assert check.outcome is GateOutcome.INCONCLUSIVE
    assert with_run(before, now).changes == ()


def test_the_same_losses_without_repeats_are_shown() -> None:
    """All of 8 cases fall from .7 to .6: by chance in one of 2^8."""
    before = baseline_of([main_run([0.7] * 8)])
    now = main_run([0.6] * 8, day=3)

    check, drop = drop_check(now, before)

    assert drop.p_worse == 2.0**-8
    assert check.outcome is GateOutcome.FAILED
    assert with_run(before, now).changes


def test_what_is_skipped_now_in_all_cases_is_lost_coverage_of_repeats_too() -> None:
    """Ten cases were measured twice; now the metric applies to none: as if none were measured."""
    measured_twice = [
        main_run([1.0] * 10, day=1),
        main_run([1.0] * 10, day=2),
    ]
    now = main_run(["skipped"] * 10, day=3)

    check, drop = drop_check(now, baseline_of(measured_twice), CheckKind.COVERAGE)

    assert drop.before == 1.0
    assert drop.after == 0.0
    assert check.ground is Ground.SHOWN


def test_what_is_remembered_of_a_case_follows_it_to_its_new_id() -> None:
    """A row was inserted where ids count rows: no case is taken for its neighbour."""
    scores = [1, 0, 1]
    oldest = baseline_of([main_run(scores, day=1)])
    unmoved = with_run(oldest, main_run(scores, day=2)).baseline
    after_insertion = main_run(scores, day=3, **EDITED)
    q1, q2, q3 = after_insertion.cases
    moved_cases = [
        replace(q1, id="q2"),
        replace(q2, id="q3"),
        replace(q3, id="q4"),
    ]

    moved = with_run(unmoved, with_cases(after_insertion, moved_cases)).baseline

    assert unmoved.drift is not None
    assert moved.drift is not None
    assert sorted(moved.drift.cases) == ["q2", "q3", "q4"]
    assert moved.drift.metrics[0].steps == (0.0, 0.0)
    first_run_of_q2, *_ = unmoved.drift.cases["q2"]["m"]
    first_run_of_moved_q2, *_ = moved.drift.cases["q3"]["m"]
    assert first_run_of_moved_q2 == first_run_of_q2
    assert moved.kept == 3
    assert moved.runs[-1].linked == {"m": 0.0}
